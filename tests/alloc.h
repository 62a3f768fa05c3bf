/* alloc.h - allocations of the process under test: counted, and made to fail.
 *
 * alloc_own.c defines malloc and its relatives for the whole process, shared libraries included. alloc_wrap.c, for
 * sanitizers that bring a malloc of their own, wraps the calls of this program's objects at link time.
 *
 *   alloc_fail(n, count);     armed: allocations n .. n + count - 1 of the unspared threads fail
 *   ... the code under test
 *   n_allocation = alloc_fail_end();  disarmed; n_allocation > n: an allocation failed */
#ifndef QUOTH_TEST_ALLOC_H
#define QUOTH_TEST_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALLOC_ALL UINT64_MAX /* as count: every allocation from n on fails */

void alloc_fail(uint64_t n, uint64_t count);
uint64_t alloc_fail_end(void); /* allocations since alloc_fail, failed ones included */
/* Exempt the calling thread (a test's client) from failures and from their count. */
void alloc_spare(bool spare);

/* Count an allocation of n bytes; false: it must fail, and errno is set. For the two files above. */
bool alloc_allowed(size_t n);

#endif
