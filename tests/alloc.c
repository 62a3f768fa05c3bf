/* alloc.c - select the allocations that fail (alloc.h). Environment: QUOTH_ALLOC_TRACE=1 prints the
 * stack of each failed allocation. */
#include "alloc.h"
#include "unit.h"

#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdlib.h>

static _Atomic uint64_t n_malloc, n_armed, first, last;
static atomic_bool armed;
static _Thread_local bool spared;

uint64_t test_n_malloc(void)
{
    return atomic_load(&n_malloc);
}

void alloc_fail(uint64_t n, uint64_t count)
{
    atomic_store(&n_armed, 0);
    atomic_store(&first, n);
    atomic_store(&last, count > UINT64_MAX - n ? UINT64_MAX : n + count);
    atomic_store(&armed, true);
}

uint64_t alloc_fail_end(void)
{
    atomic_store(&armed, false);
    return atomic_load(&n_armed);
}

void alloc_spare(bool spare)
{
    spared = spare;
}

static void print_stack(void)
{
    static const char line[] = "-- failed allocation\n";
    void *frame[40];
    spared = true;
    fwrite(line, 1, sizeof line - 1, stderr);
    fflush(stderr);
    backtrace_symbols_fd(frame, backtrace(frame, 40), 2);
    spared = false;
}

bool alloc_allowed(size_t n)
{
    (void)n;
    atomic_fetch_add_explicit(&n_malloc, 1, memory_order_relaxed);
    if (!atomic_load_explicit(&armed, memory_order_relaxed) || spared) return true;
    uint64_t i = atomic_fetch_add(&n_armed, 1);
    if (i < atomic_load(&first) || i >= atomic_load(&last)) return true;
    if (getenv("QUOTH_ALLOC_TRACE")) print_stack();
    errno = ENOMEM;
    return false;
}
