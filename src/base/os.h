/* os.h - files, clocks and what the system tells about itself. Any thread. */
#ifndef QUOTH_BASE_OS_H
#define QUOTH_BASE_OS_H

#include "buf.h"
#include "err.h"

#include <stdint.h>

struct file_map {
    const uint8_t *data; /* read-only, owned; NULL for an empty file */
    size_t n_byte;
    uint64_t device, inode; /* which file it is, and ...            */
    int64_t mtime_ns;       /* ... when it was last written, at open */
};

/* Map a whole regular file read-only. ERR_IO names the path and the system's reason. */
int file_map_open(struct file_map *m, const char *path, struct err *e);
/* The same of an open file, which may be closed then; `path` is for the sentence. */
int file_map_fd(struct file_map *m, int fd, const char *path, struct err *e);
void file_map_close(struct file_map *m); /* safe on a zeroed one */
/* What was touched need not stay in this process's memory; it comes back when it is read again. */
void file_map_forget(const struct file_map *m);

/* Append a whole file to `out`; ERR_LIMIT beyond n_byte_max. path "-" is standard input. */
int file_read(struct buf *out, const char *path, size_t n_byte_max, struct err *e);

/* The first one or two numbers of a small file, such as the kernel's; how many there were ("max" is none). */
int file_numbers(const char *path, long long *a, long long *b);

/* Write a file as a whole: to a temporary name beside it, then renamed over it. */
int file_write(const char *path, const void *data, size_t n_byte, struct err *e);

bool file_exists(const char *path);
bool dir_exists(const char *path);

/* Make a folder, for this user alone, and the folders above it that are missing. */
int dir_make(const char *path, struct err *e);

/* Names (not paths) in a folder, sorted, without dot files; one per line appended to `out`. */
int dir_list(struct buf *out, const char *path, struct err *e);

/* "dir/name" into out[n_out]; false if it does not fit. */
bool path_join(char *out, size_t n_out, const char *dir, const char *name);

/* This program's own file: "/proc/self/exe", or the name it was started by where there is no /proc. */
const char *os_self_path(void);

/* A number that is another one after each start of the system; 0 where it cannot be told. */
uint64_t os_boot_id(void);

int64_t time_us(void);      /* monotonic                       */
int64_t time_wall_us(void); /* since 1970-01-01 UTC            */

uint64_t os_random(void); /* a number that nobody can foresee; not for what must come out alike */

/* physical memory, or the control groups' limit if that is lower */
uint64_t os_memory_bytes(void);
/* what may still be allocated without swapping, in this process's control groups */
uint64_t os_memory_free(void);

/* This process since it began: processor time of all its threads in microseconds; bytes of memory that
 * are its own, not a file's; energy of all processor packages in microjoules, whoever used it. -1:
 * cannot be read. */
int64_t os_cpu_us(void);
int64_t os_memory_own(void);
int64_t os_energy_uj(void);

/* Let this process have n open files, as far as it may; how many it may have then. */
int64_t os_open_files(int64_t n);

/* From now on large blocks go back to the system when they are freed, however large some were: for
 * programs that run for long. */
void os_return_memory(void);

/* bytes of the largest cache, other programs' share included; 0: not known */
uint64_t os_cache_bytes(void);

/* Zeroed memory, reserved now and touched as used; from 4 MiB on in huge pages where the system
 * leaves the choice. NULL: none left. */
void *os_alloc(size_t n_byte);
void os_free(void *p, size_t n_byte); /* NULL is fine */
/* Makes the memory present now that the first touch would; a wish, not all systems can. */
void os_populate(void *p, size_t n_byte);

#endif
