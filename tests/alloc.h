/* alloc.h - count the allocations of the process under test, and make them fail.
 *
 * alloc_own.c defines malloc and related functions for the whole process, including shared
 * libraries. alloc_wrap.c wraps the calls of this program's objects at link time, for sanitizers
 * that define malloc themselves.
 *
 *   alloc_fail(n, count);     armed: allocations [n, n + count) of the unspared threads fail
 *   ... the code under test
 *   n_allocation = alloc_fail_end();  disarmed; n_allocation > n: an allocation failed */
#ifndef QUOTH_TEST_ALLOC_H
#define QUOTH_TEST_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALLOC_ALL UINT64_MAX /* value of count: allocation n and all later allocations fail */

void alloc_fail(uint64_t n, uint64_t count);
/* Return the number of allocations since alloc_fail, including failed allocations. */
uint64_t alloc_fail_end(void);
/* Exempt the calling thread (a test's client) from failures and from the count. */
void alloc_spare(bool spare);

/* Count an allocation of n bytes. Return false and set errno if it must fail. For alloc_own.c and
 * alloc_wrap.c. */
bool alloc_allowed(size_t n);

#endif
