/* Goal: a wait ends at its time of the monotonic clock, or by a signal before this time. */

#include "cond.h"
#include "os.h"

#include "../../tests/unit.h"

struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool arrived;
};

static void *arrive(void *arg)
{
    struct meeting *m = arg;
    pthread_mutex_lock(&m->lock);
    m->arrived = true;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* Wait for the other thread at most until until_us. Return true if it arrived. */
static bool meet(struct meeting *m, int64_t until_us)
{
    pthread_mutex_lock(&m->lock);
    while (!m->arrived && cond_wait(&m->changed, &m->lock, until_us)) {
    }
    pthread_mutex_unlock(&m->lock);
    return m->arrived;
}

TEST(cond_waits_until_a_time_or_a_signal)
{
    static const int64_t waits_us[] = {20000, 0, -1000000};
    struct meeting m = {.arrived = false};
    pthread_t thread;
    pthread_mutex_init(&m.lock, NULL);
    cond_init(&m.changed);
    for (int i = 0; i < 3; i++) {
        const int64_t until_us = time_us() + waits_us[i];
        EXPECT(!meet(&m, until_us));
        EXPECT(time_us() >= until_us);
        EXPECT(time_us() < until_us + 30000000); /* neither clock nor unit is another one */
    }
    NEED(pthread_create(&thread, NULL, arrive, &m) == 0);
    EXPECT(meet(&m, INT64_MAX));
    pthread_join(thread, NULL);
    EXPECT(meet(&m, 0));
    pthread_cond_destroy(&m.changed);
    pthread_mutex_destroy(&m.lock);
}
