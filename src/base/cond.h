/* cond.h - conditions whose timeouts use the monotonic clock (time_us), so that a change of the
 * wall clock neither ends nor prolongs a wait. Any thread. */
#ifndef QUOTH_BASE_COND_H
#define QUOTH_BASE_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Prepare a condition for cond_wait. The caller frees it by pthread_cond_destroy. */
void cond_init(pthread_cond_t *c);
/* Release the lock, wait for a signal at most until a time of time_us, and acquire the lock.
 * INT64_MAX: no limit. Return false after a timeout. A wait may end without a signal. */
bool cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_us);

#endif
