/* cond.c - conditions with the monotonic clock; see cond.h. */
#include "cond.h"
#include "check.h"

#include <time.h>

void cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    /* these functions allocate no memory in glibc and musl */
    CHECK(pthread_condattr_init(&attr) == 0, "a condition at %p", (void *)c);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    CHECK(pthread_cond_init(c, &attr) == 0, "a condition at %p", (void *)c);
    pthread_condattr_destroy(&attr);
}

bool cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_us)
{
    const struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                                   .tv_nsec = (long)(until_us % 1000000 * 1000)};
    return (until_us == INT64_MAX ? pthread_cond_wait(c, lock)
                                  : pthread_cond_timedwait(c, lock, &until)) == 0;
}
