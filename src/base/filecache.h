/* filecache.h - a folder of cached files that can be created again.
 *
 *     absent --filecache_begin--> in progress (a temporary name) --filecache_keep--> unsettled
 *     unsettled --filecache_settle--> settled
 *     both: filecache_open maps it; filecache_remove, or eviction by filecache_begin --> absent
 *
 * (1) A file with its final name is never written, only replaced by another file. Therefore a
 *     process that has mapped a file keeps its content. The later file replaces the earlier file if
 *     two processes make the same file.
 *
 * (2) A killed process leaves at most a temporary file. The next filecache_begin of any process
 * removes it.
 *
 * (3) No call waits for the disk, so a file may have any content after a power failure. A file is
 * unsettled if it was made before the last start of the system and has not been settled since then.
 * A reader validates an unsettled file, then settles or removes it.
 *
 * Any thread of any process. One thread at a time uses a filecache_file, except in
 * filecache_put. */
#ifndef QUOTH_BASE_FILECACHE_H
#define QUOTH_BASE_FILECACHE_H

#include "os.h"

struct filecache {
    const char *dir;     /* path of a folder that is created if needed, borrowed; NULL: no cache */
    uint64_t n_byte_min; /* minimum size of a file to cache, which callers check */
    /* maximum size of all files. 0: 100 GB, or a quarter of the available disk space if that is
     * less. The least recently used files are evicted. */
    uint64_t bytes_max;
};

/* Write the default folder to out: $XDG_CACHE_HOME/quoth/NAME, or ~/.cache/quoth/NAME. ERR_MISSING
 * if no variable is an absolute path, ERR_ARG if the path is too long. */
int filecache_dir(char *out, size_t n_out, const char *name, struct err *e);

/* Map a file. A name has only letters and digits. Set *settled to false if the caller must validate
 * the content. ERR_MISSING if no file has that name, ERR_IO if it cannot be mapped. */
int filecache_open(struct file_map *m, bool *settled, const struct filecache *c, const char *name,
                   struct err *e);
/* Mark a file as settled after its content was validated. Failures are ignored: the content is then
 * revalidated after the next boot. */
void filecache_settle(const struct filecache *c, const char *name);
/* Remove the file of that name. Failures are ignored. */
void filecache_remove(const struct filecache *c, const char *name);

/* A file in progress. The caller puts all bytes, then keeps or abandons the file. */
struct filecache_file {
    const struct filecache *cache; /* cache of the file, borrowed */
    char name[64], temp[4096];
    int fd;
};

/* Begin a file of n_byte bytes and reserve its disk space. ERR_LIMIT if the disk or the cache's
 * limit is too small, ERR_IO if the folder cannot be written, ERR_BUSY if the calling
 * thread's work is cancelled. Other errors are those of filecache_dir. */
int filecache_begin(struct filecache_file *f, const struct filecache *c, const char *name,
                    uint64_t n_byte, struct err *e);
/* Write n bytes at offset `at`. Return 0 or an errno. Any thread. */
int filecache_put(const struct filecache_file *f, uint64_t at, const void *data, size_t n);
/* Rename the file to its final name and map it. Remove the file and return ERR_IO if it cannot be
 * mapped or renamed. Make no later call with f, even after a failure. */
int filecache_keep(struct filecache_file *f, struct file_map *m, struct err *e);
void filecache_abandon(struct filecache_file *f); /* remove the file; make no later call with f */

#endif
