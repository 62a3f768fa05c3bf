/* failing_malloc.c - a preloaded library for memory.py. Allocations [FAIL_AT, FAIL_AT + FAIL_COUNT)
 * of the process fail. The file FAIL_REPORT receives the number of allocations. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static atomic_long n_allocation;

static int allowed(void)
{
    static _Atomic int known;
    static long first, last;
    if (!known) { /* the dynamic linker makes the first allocation, before any thread starts */
        const char *at = getenv("FAIL_AT"), *count = getenv("FAIL_COUNT");
        first = at ? strtol(at, NULL, 10) : -1;
        last = first + (count ? strtol(count, NULL, 10) : 1);
        known = 1;
    }
    long i = atomic_fetch_add(&n_allocation, 1);
    if (i < first || i >= last) return 1;
    errno = ENOMEM;
    return 0;
}

void *malloc(size_t n)
{
    return allowed() ? __libc_malloc(n) : NULL;
}

void *calloc(size_t n, size_t size)
{
    return allowed() ? __libc_calloc(n, size) : NULL;
}

void *realloc(void *p, size_t n)
{
    return allowed() ? __libc_realloc(p, n) : NULL;
}

void *aligned_alloc(size_t align, size_t n)
{
    return allowed() ? __libc_memalign(align, n) : NULL;
}

void *memalign(size_t align, size_t n)
{
    return aligned_alloc(align, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    void *p = aligned_alloc(align, n);
    if (p) *out = p;
    return p ? 0 : ENOMEM;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("FAIL_REPORT");
    char text[32];
    int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&n_allocation));
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
    if (fd < 0 || write(fd, text, (size_t)n) != n) return;
    close(fd);
}
