/* filecache.h - a folder of cached files that can be created again.
 *
 *     absent --filecache_begin--> being made (a temporary name) --filecache_keep--> unsettled
 *     unsettled --filecache_settle--> settled
 *     both: filecache_open maps it; filecache_remove, or eviction by filecache_begin --> absent
 *
 * (1) A file is never written after it got its name; it is only replaced by another file. So a
 *     process that has mapped a file keeps its content. If two processes make the same file, the
 *     later one replaces the earlier one.
 * (2) A process that is killed leaves at most a temporary name, which the next filecache_begin of
 *     any process removes.
 * (3) Nothing waits for the disk. So after a power failure a file may have any content, and is
 *     unsettled: its reader validates it, then settles or removes it. Unsettled files are those
 *     made before the system was last started and not settled since. */
#ifndef QUOTH_BASE_FILECACHE_H
#define QUOTH_BASE_FILECACHE_H

#include "os.h"

struct filecache {
    const char *dir;     /* borrowed; created when needed. NULL: no cache */
    uint64_t n_byte_min; /* minimum size worth caching; callers check it */
    /* maximum of all files; 0: 100 GB, or a quarter of the space that the disk has for them if that
     * is less. The least recently used files are evicted. */
    uint64_t n_byte_max;
};

/* Put the default folder into out: $XDG_CACHE_HOME/quoth/NAME, or ~/.cache/quoth/NAME. ERR_MISSING
 * if neither variable is set to an absolute path. */
int filecache_dir(char *out, size_t n_out, const char *name, struct err *e);

/* Map a file. A name has letters and digits only. ERR_MISSING if no file has that name. */
int filecache_open(struct file_map *m, bool *settled, const struct filecache *c, const char *name,
                   struct err *e);
void filecache_settle(const struct filecache *c, const char *name);
void filecache_remove(const struct filecache *c, const char *name);

/* a file being made: all its bytes are put, then it is kept or abandoned */
struct filecache_file {
    const struct filecache *cache; /* borrowed */
    char name[64], temp[4096];
    int fd;
};

/* Begin a file of n_byte bytes and reserve its disk space. ERR_LIMIT if the disk or the cache's
 * limit has less. ERR_IO if the folder cannot be written. */
int filecache_begin(struct filecache_file *f, const struct filecache *c, const char *name,
                    uint64_t n_byte, struct err *e);
/* Write n bytes at offset `at`. Returns 0 or an errno. Any thread. */
int filecache_put(const struct filecache_file *f, uint64_t at, const void *data, size_t n);
/* Rename the file to its name and map it. The last call, also if it fails. */
int filecache_keep(struct filecache_file *f, struct file_map *m, struct err *e);
void filecache_abandon(struct filecache_file *f); /* remove the file; the last call */

#endif
