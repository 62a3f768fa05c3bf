/* alloc_own.c - malloc and related functions for the whole process. The dynamic linker binds the
 * calls of shared libraries (jansson, PCRE2, OpenSSL, the C library itself) to these functions.
 * The functions call the C library's functions by other names. */
#include "alloc.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

__attribute__((visibility("default"))) void *malloc(size_t n)
{
    return alloc_allowed(n) ? __libc_malloc(n) : NULL;
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
    return alloc_allowed(n * size) ? __libc_calloc(n, size) : NULL;
}

__attribute__((visibility("default"))) void *realloc(void *p, size_t n)
{
    return alloc_allowed(n) ? __libc_realloc(p, n) : NULL;
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t align, size_t n)
{
    return alloc_allowed(n) ? __libc_memalign(align, n) : NULL;
}

__attribute__((visibility("default"))) void *memalign(size_t align, size_t n)
{
    return aligned_alloc(align, n);
}

__attribute__((visibility("default"))) int posix_memalign(void **out, size_t align, size_t n)
{
    void *p = aligned_alloc(align, n);
    if (p) *out = p;
    return p ? 0 : ENOMEM;
}
