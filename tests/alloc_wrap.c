/* alloc_wrap.c - the linker's wraps of this program's own calls (Makefile, -Wl,--wrap): for sanitizers, which bring a malloc
 * of their own. Shared libraries allocate past it, except through functions of this program that they were given. */
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
