/* os.h - files, clocks and properties of the system. Any thread. */
#ifndef QUOTH_BASE_OS_H
#define QUOTH_BASE_OS_H

#include "buf.h"
#include "err.h"

#include <stdint.h>

struct file_map {
    const uint8_t *data; /* read-only, owned; NULL for an empty file */
    size_t n_byte;
    uint64_t device, inode; /* identity of the file */
    int64_t mtime_ns;       /* its modification time, at open */
    bool detached;          /* data is a private copy (file_map_detach) */
};

/* Map a whole regular file read-only. ERR_IO gives the path and the system's reason. */
int file_map_open(struct file_map *m, const char *path, struct err *e);
/* Map an open file; fd may be closed afterwards. `path` is for error messages. */
int file_map_fd(struct file_map *m, int fd, const char *path, struct err *e);
void file_map_close(struct file_map *m); /* safe on a zeroed struct */
/* Release this process's pages of the file; they are read again on access. */
void file_map_release_pages(const struct file_map *m);

/* Replace the map by a private copy of its first n_keep bytes, so that data[0, n_keep) stays valid
 * whatever happens to the file. The bytes after them must not be read any more. ERR_MEMORY: the map
 * is unchanged. No other thread may read it meanwhile. */
int file_map_detach(struct file_map *m, size_t n_keep, struct err *e);

/* Append a whole file to `out`. ERR_LIMIT if it is larger than n_byte_max. path "-" is standard
 * input. */
int file_read(struct buf *out, const char *path, size_t n_byte_max, struct err *e);

/* Read the first one or two numbers of a small file, e.g. in /sys. Returns how many were found
 * ("max" is none). */
int file_numbers(const char *path, long long *a, long long *b);

/* Write a file atomically: to a temporary name next to it, then renamed. */
int file_write(const char *path, const void *data, size_t n_byte, struct err *e);

bool file_exists(const char *path);
bool dir_exists(const char *path);

/* Make a folder with permissions for this user only, and its missing parents. */
int dir_make(const char *path, struct err *e);

/* Append the names (not paths) in a folder, sorted, without dot files, one per line. */
int dir_list(struct buf *out, const char *path, struct err *e);

/* Put "dir/name" into out[n_out]. Returns false if it does not fit. */
bool path_join(char *out, size_t n_out, const char *dir, const char *name);

/* Return this program's file: "/proc/self/exe", or the name it was started by if there is no
 * /proc. */
const char *os_self_path(void);

/* Return a number that differs after each boot of the system; 0 if unknown. */
uint64_t os_boot_id(void);

/* Return the message for an errno of connect(). */
const char *os_connect_error(int error);

int64_t time_us(void);        /* monotonic                       */
int64_t time_wall_us(void);   /* since 1970-01-01 UTC            */
int64_t time_thread_ns(void); /* CPU time of this thread; 0: unknown */

/* Lower the priority of this thread: it computes what no client waits for at once. Advisory. */
void os_thread_background(void);

uint64_t os_random(void); /* unpredictable; not for results that must be reproducible */

/* Limit the memory that this process plans to use. Afterwards os_memory_bytes returns at most
 * n_byte (0: no limit), and os_memory_free at most n_byte less n_planned, or less the memory in use
 * if that is more. */
void os_memory_limit(uint64_t n_byte, uint64_t n_planned);
bool os_memory_limited(void);
/* Return the physical memory, or the limit of the control groups or of os_memory_limit if that is
 * lower. */
uint64_t os_memory_bytes(void);
/* Return the bytes that can be allocated without swapping, within the same limits. */
uint64_t os_memory_free(void);

/* Totals of this process: CPU time of all threads since it began, microseconds; private memory
 * (without file pages), bytes; energy of all processor packages, all users included, microjoules.
 * -1: cannot be read. */
int64_t os_cpu_us(void);
int64_t os_memory_own(void);
int64_t os_energy_uj(void);

/* Raise the limit of open files to n, or to the hard limit if that is lower. Returns the limit, at
 * most n. */
int64_t os_open_files(int64_t n);

/* Make free() return large blocks to the system, whatever sizes were freed before: for programs
 * that run long. */
void os_return_memory(void);

/* Return the bytes of the largest cache, which may be shared with other programs; 0: unknown. */
uint64_t os_cache_bytes(void);

/* Return zeroed memory that is reserved now and committed on first touch; in huge pages from 4 MiB
 * on if the system allows it. NULL if none is left. */
void *os_alloc(size_t n_byte);
void os_free(void *p, size_t n_byte); /* NULL is allowed */
/* Commit the memory now instead of on first touch. Advisory: some systems cannot. */
void os_populate(void *p, size_t n_byte);

#endif
