/* os.h - files, clocks and properties of the system. Any thread. */
#ifndef QUOTH_BASE_OS_H
#define QUOTH_BASE_OS_H

#include "buf.h"
#include "err.h"

#include <pthread.h>
#include <stdint.h>

struct file_map {
    const uint8_t *data; /* read-only, owned; NULL for an empty file */
    size_t n_byte;
    uint64_t device, inode; /* identity of the file */
    int64_t mtime_ns;       /* modification time of the file at its opening */
    bool detached;          /* true if data is a private copy (file_map_detach) */
    int fd;                 /* the file, owned; 0: not kept (file_map_keep) */
};

/* Map a whole regular file read-only. ERR_IO gives the path and the system's reason. */
int file_map_open(struct file_map *m, const char *path, struct err *e);
/* Map an open file. The caller may then close fd. `path` is for error messages. ERR_IO with the
 * path and the system's reason. */
int file_map_fd(struct file_map *m, int fd, const char *path, struct err *e);
void file_map_close(struct file_map *m); /* unmap the file; accepts a zeroed struct */
/* Release this process's pages of the file. The next access rereads the pages. */
void file_map_release_pages(const struct file_map *m);

/* Reject the content data[0, n) of the file `path` if it is empty, or a pointer of Git LFS in place
 * of the file: ERR_FORMAT. */
int file_check_content(const char *path, const void *data, size_t n, struct err *e);
/* Keep the file open, for file_map_drop. The caller may close fd. Failures are ignored. */
void file_map_keep(struct file_map *m, int fd);
/* Read the pages of a section of any map into memory, and wait for them. Any thread. */
void file_map_read(const uint8_t *at, size_t n_byte);
/* Remove the pages inside a section of the map from memory, also from the system's cache if the
 * file is kept open. The next access reads them again. Pages that other processes use remain. Any
 * thread. */
void file_map_drop(const struct file_map *m, const uint8_t *at, size_t n_byte);
/* Replace the map by a private copy of its first n_keep bytes. data[0, n_keep) is then valid even
 * if the file changes. Do not read later bytes. The map is unchanged after ERR_MEMORY. No other
 * thread may read the map during the call. */
int file_map_detach(struct file_map *m, size_t n_keep, struct err *e);

/* Append a whole file to `out`. The path "-" is standard input. ERR_LIMIT if the file is larger
 * than bytes_max, ERR_IO, ERR_MEMORY. */
int file_read(struct buf *out, const char *path, size_t bytes_max, struct err *e);

/* Read the first one or two numbers of a small file, e.g. in /sys. Return the number of values
 * found; "max" is not a value. */
int file_numbers(const char *path, long long *a, long long *b);

/* Write a file atomically: write a temporary file next to it, then rename the temporary file.
 * ERR_IO with the path and the reason, ERR_ARG if the path is too long. */
int file_write(const char *path, const void *data, size_t n_byte, struct err *e);

/* Set *found to true if the path is a readable regular file, and to false if nothing has the path.
 * Follow symbolic links. ERR_IO with the path and the reason for all other paths: a link to nothing
 * or to itself, a folder, a FIFO, a file or folder without permission. Use this function for a file
 * that may be absent. Any thread. */
int file_find(bool *found, const char *path, struct err *e);
/* Do the same for a folder. */
int dir_find(bool *found, const char *path, struct err *e);

/* Return true if the path is a regular file. A file that may be absent needs file_find instead. */
bool file_exists(const char *path);
/* Return true if the path is a directory. */
bool dir_exists(const char *path);

enum { DIR_PRIVATE = 0700, DIR_SHARED = 0777 };
/* Make a folder and its missing parents. mode: DIR_PRIVATE for a cache of this user, DIR_SHARED for
 * a result, whose permissions the umask limits. ERR_IO with the path and the reason, ERR_ARG if the
 * path is too long. */
int dir_make(const char *path, unsigned mode, struct err *e);

/* Append the names (not paths) in a folder, sorted, one per line. Dot files are omitted. ERR_IO
 * with the path and the reason, ERR_MEMORY. */
int dir_list(struct buf *out, const char *path, struct err *e);

/* Write "dir/name" to out[n_out]. Return false if it does not fit. */
bool path_join(char *out, size_t n_out, const char *dir, const char *name);

/* Return the path of this program's file: "/proc/self/exe", or the path at the start if there is no
 * /proc. Static. */
const char *os_self_path(void);

/* Return a number that differs between boots of the system; 0 if unknown. */
uint64_t os_boot_id(void);

/* Return the message for an errno of connect(). It is borrowed until the thread's next call of
 * strerror. */
const char *os_connect_error(int error);

int64_t time_us(void);        /* return the monotonic time */
int64_t time_wall_us(void);   /* return the time since 1970-01-01 UTC */
int64_t time_thread_ns(void); /* return the CPU time of this thread; 0: unknown */

/* Start a thread that blocks all signals except those of faults (SIGBUS, SIGSEGV, SIGFPE, SIGILL).
 * The thread of main(), or the host of libquoth, handles the other signals. Return false with errno
 * if the system has no thread left. The caller joins or detaches *thread. */
bool os_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
/* Set the error of a thread that os_thread_start did not start, with the reason in errno. what:
 * "the thread of batches". Return ERR_MEMORY. */
int os_thread_error(const char *what, struct err *e);
/* Lower the priority of this thread. Call it in threads whose results no client waits for. The
 * priority is advisory. */
void os_thread_background(void);

/* Return an unpredictable number. Do not use it for results that must be reproducible. */
uint64_t os_random(void);

/* Limit the memory that this process plans to use. os_memory_bytes then returns at most n_byte (0:
 * no limit). os_memory_free returns at most n_byte less the larger of n_planned and the memory in
 * use. */
void os_memory_limit(uint64_t n_byte, uint64_t n_planned);
/* Begin or end a scope of the calling thread, for a plan that uses a part of the process's memory.
 * In the scope, os_memory_limit limits this thread only. The memory in use is then n_planned, and
 * os_memory_own returns 0, because other plans use the rest. The limit ends with the scope. */
void os_memory_scope(bool begin);
/* Return true if os_memory_limit has set a limit. */
bool os_memory_limited(void);
/* Return the size of the physical memory, or a lower limit of the control groups or of
 * os_memory_limit. */
uint64_t os_memory_bytes(void);
/* Return the number of bytes that can be allocated without swapping, within the limits of
 * os_memory_bytes. */
uint64_t os_memory_free(void);

/* Return the CPU time of all threads of this process in microseconds. Return -1 if it cannot be
 * read. */
int64_t os_cpu_us(void);
/* Return the private memory of this process in bytes, without file pages. Return -1 if it cannot be
 * read. */
int64_t os_memory_own(void);
/* Return the energy that all processor packages have used, for all programs, in microjoules. Return
 * -1 if it cannot be read. */
int64_t os_energy_uj(void);

/* Raise the limit of open files to n, or to the hard limit if that is lower. Return the limit, or
 * n if that is less. */
int64_t os_open_files(int64_t n);

/* Make free() always return large blocks to the system, for programs that run long. The default
 * depends on the sizes of earlier freed blocks. */
void os_return_memory(void);
/* Return the free memory of all of malloc's arenas to the system. The call takes milliseconds per
 * gigabyte. Any thread. */
void os_trim_memory(void);

/* Return the size of the largest cache in bytes; 0: unknown. Other programs may share this
 * cache. */
uint64_t os_cache_bytes(void);

/* Return zeroed memory that is reserved now and committed on first touch. Blocks of at least 4 MiB
 * are in huge pages if the system allows them. NULL if memory is exhausted. */
void *os_alloc(size_t n_byte);
void os_free(void *p, size_t n_byte); /* release p; NULL is allowed */
/* Commit the memory now instead of on first touch. The call has no effect on systems that do not
 * support it. */
void os_populate(void *p, size_t n_byte);

#endif
