/* filecache.h - files that could be made again, kept in a folder so that they need not be.
 *
 *   absent --filecache_begin--> being made (a temporary name) --filecache_keep--> unsettled
 *   unsettled --filecache_settle--> settled
 *   both: filecache_open maps it; filecache_remove, or room for another is needed --> absent
 *
 * (1) A file is never written after it got its name; what takes its place is another file. So
 *     whoever has one mapped keeps what he has, and two processes that make the same one are both
 *     right: the later one's stays.
 * (2) A process that is killed leaves a temporary name at most, and the next filecache_begin of any
 *     process removes it.
 * (3) Nothing waits for the disk. So after a power failure a file may hold anything, and is
 *     unsettled: who opens it checks its content, then settles or removes it. Unsettled are only
 *     files that were made before the system was last started, and not opened since. */
#ifndef QUOTH_BASE_FILECACHE_H
#define QUOTH_BASE_FILECACHE_H

#include "os.h"

struct filecache {
    const char *dir;     /* borrowed; made when it is needed. NULL: there is no place   */
    uint64_t n_byte_min; /* smaller files are not worth it: for the caller to look at   */
    uint64_t n_byte_max; /* of all files; 0: 100 GB, or a quarter of what the disk has for them
                            if that is less. What was used longest ago makes room.      */
};

/* The usual folder: $XDG_CACHE_HOME/quoth/NAME, or ~/.cache/quoth/NAME. ERR_MISSING: neither
 * variable says where that is. */
int filecache_dir(char *out, size_t n_out, const char *name, struct err *e);

/* Map a file. Names are words of letters and digits. ERR_MISSING: there is none of that name. */
int filecache_open(struct file_map *m, bool *settled, const struct filecache *c, const char *name,
                   struct err *e);
void filecache_settle(const struct filecache *c, const char *name);
void filecache_remove(const struct filecache *c, const char *name);

/* A file being made: every byte of it is put, then it is kept or abandoned. */
struct filecache_file {
    const struct filecache *cache; /* borrowed */
    char name[64], temp[4096];
    int fd;
};

/* n_byte: of the whole file, for which the disk's space is taken at once. ERR_LIMIT: there is not
 * so much, or the cache may not hold so much. ERR_IO: the folder cannot be written. */
int filecache_begin(struct filecache_file *f, const struct filecache *c, const char *name,
                    uint64_t n_byte, struct err *e);
/* Any thread. 0, or the system's error number. */
int filecache_put(const struct filecache_file *f, uint64_t at, const void *data, size_t n);
/* Give it its name and map it. The last call, also where it fails. */
int filecache_keep(struct filecache_file *f, struct file_map *m, struct err *e);
void filecache_abandon(struct filecache_file *f); /* the other last call */

#endif
