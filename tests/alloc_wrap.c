/* alloc_wrap.c - wrappers for this program's own calls to malloc (Makefile, -Wl,--wrap), because
 * sanitizers define malloc themselves. Allocations of shared libraries bypass the wrappers, unless
 * a library calls a function of this program. */
#include "alloc.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

void *__wrap_malloc(size_t n)
{
    return alloc_allowed(n) ? __real_malloc(n) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return alloc_allowed(n * size) ? __real_calloc(n, size) : NULL;
}

void *__wrap_realloc(void *p, size_t n)
{
    return alloc_allowed(n) ? __real_realloc(p, n) : NULL;
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return alloc_allowed(n) ? __real_aligned_alloc(align, n) : NULL;
}
