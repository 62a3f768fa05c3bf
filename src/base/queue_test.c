/* queue_test.c - tests of a queue in one thread and between threads. */
#include "os.h"
#include "queue.h"
#include "../../tests/unit.h"

#include <pthread.h>
#include <stdatomic.h>

TEST(queue_order_and_bound)
{
    struct queue *q = queue_open(3, sizeof(int));
    NEED(q);
    int x = -1;
    EXPECT(!queue_pop(q, &x, 0));
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 3; i++) EXPECT(queue_push(q, &i));
        EXPECT(!queue_push(q, &round) && queue_len(q) == 3 && !queue_check(q));
        for (int i = 0; i < 3; i++) EXPECT(queue_pop(q, &x, 0) && x == i);
        EXPECT(queue_push(q, &round) && queue_pop(q, &x, -1) &&
               x == round); /* advance the ring by one place */
    }
    queue_close(q);
    queue_close(NULL);
    EXPECT(!queue_open(SIZE_MAX / 2, 16));
}

static void add_up(void *sum, const void *item)
{
    *(int *)sum += *(const int *)item;
}

TEST(queue_notifies_its_listener)
{
    struct queue *q = queue_open(2, sizeof(int));
    int n = 0, x = 7;
    queue_listen(q, add_up, &n);
    EXPECT(queue_push(q, &x) && queue_push(q, &x) && !queue_push(q, &x));
    EXPECT_INT(n, 14); /* rejected items do not call the listener */
    queue_close(q);
}

static void dawdle(void *done, const void *item)
{
    (void)item;
    int64_t until = time_us() + 20000;
    while (time_us() < until) continue;
    atomic_store((atomic_bool *)done, true);
}

static void *push_one(void *q)
{
    int x = 7;
    queue_push(q, &x);
    return NULL;
}

TEST(queue_closes_behind_its_listener)
{
    /* Goal: the thread that popped the last item may close the queue. The listener is not called
     * after the close. */
    struct queue *q = queue_open(1, sizeof(int));
    atomic_bool done = false;
    pthread_t thread;
    int x;
    queue_listen(q, dawdle, &done);
    NEED(pthread_create(&thread, NULL, push_one, q) == 0);
    EXPECT(queue_pop(q, &x, -1) && x == 7);
    queue_close(q);
    EXPECT(atomic_load(&done));
    pthread_join(thread, NULL);
}

static void *wake_later(void *q)
{
    int64_t until = time_us() + 20000;
    while (time_us() < until) continue;
    queue_wake(q);
    return NULL;
}

TEST(queue_waits)
{
    /* Goal: a wait ends after its time limit, or immediately after a wake. One pop consumes a
     * wake. */
    struct queue *q = queue_open(1, sizeof(int));
    int x;
    int64_t start = time_us();
    EXPECT(!queue_pop(q, &x, 30000) && time_us() - start >= 29000);
    pthread_t thread;
    NEED(pthread_create(&thread, NULL, wake_later, q) == 0);
    EXPECT(!queue_pop(q, &x, -1));
    pthread_join(thread, NULL);
    start = time_us();
    EXPECT(!queue_pop(q, &x, 20000) && time_us() - start >= 19000);
    queue_close(q);
}

enum { N_PRODUCER = 3 };
struct shared {
    struct queue *q;
    uint64_t n_each;          /* number of items of each producer */
    uint64_t sum[N_PRODUCER]; /* sum of each consumer */
};

static void *produce(void *arg)
{
    struct shared *s = arg;
    for (uint64_t i = 1; i <= s->n_each;)
        if (queue_push(s->q, &i)) i++;
    return NULL;
}

static void *consume(void *arg)
{
    uint64_t x, *sum = ((void **)arg)[1];
    struct queue *q = ((void **)arg)[0];
    while (queue_pop(q, &x, -1) && x) *sum += x;
    return NULL;
}

TEST(queue_between_threads)
{
    /* Goal: no item is lost or duplicated with several producers and consumers.
     * Method: compare the sums. */
    struct shared s = {.q = queue_open(64, sizeof(uint64_t)), .n_each = test_long() ? 20000 : 4000};
    pthread_t producer[N_PRODUCER], consumer[N_PRODUCER];
    void *arg[N_PRODUCER][2];
    for (int i = 0; i < N_PRODUCER; i++) {
        arg[i][0] = s.q, arg[i][1] = &s.sum[i];
        NEED(pthread_create(&producer[i], NULL, produce, &s) == 0);
        NEED(pthread_create(&consumer[i], NULL, consume, arg[i]) == 0);
    }
    uint64_t sum = 0, end = 0;
    for (int i = 0; i < N_PRODUCER; i++) pthread_join(producer[i], NULL);
    for (int i = 0; i < N_PRODUCER;) i += queue_push(s.q, &end);
    for (int i = 0; i < N_PRODUCER; i++) {
        pthread_join(consumer[i], NULL);
        sum += s.sum[i];
    }
    EXPECT_INT(sum, N_PRODUCER * s.n_each * (s.n_each + 1) / 2);
    queue_close(s.q);
}

/* Goal: a wake reaches a waiting pop, even after a pop that did not wait. */
TEST(queue_wake_is_for_a_waiting_pop)
{
    struct queue *q = queue_open(1, 1);
    char byte;
    queue_wake(q);
    EXPECT(!queue_pop(q, &byte, 0));
    EXPECT(!queue_pop(q, &byte, -1)); /* this call would wait without limit */
    queue_close(q);
}

/* Goal: one bell announces pushes into many queues. A thread may pop the bell immediately or
 * later. */
TEST(queue_ring_notifies_of_many_queues)
{
    enum { N = 20 };
    struct queue *bell = queue_open(1, 1), *q[N];
    char byte;
    int item = 7;
    for (int i = 0; i < N; i++) {
        q[i] = queue_open(4, sizeof item);
        queue_ring(q[i], bell);
    }
    EXPECT(!queue_pop(bell, &byte, 0));
    for (int i = 0; i < N; i++) EXPECT(queue_push(q[i], &item) && queue_push(q[i], &item));
    EXPECT(queue_pop(bell, &byte, -1) && !queue_pop(bell, &byte, 0)); /* one byte for all queues */
    EXPECT(queue_push(q[3], &item) && queue_pop(bell, &byte, 0));
    for (int i = 0; i < N; i++) queue_close(q[i]);
    queue_close(bell);
}

static void push_both(void *bells, const void *item)
{
    struct queue **bell = bells;
    EXPECT(queue_push(bell[0], item) && queue_push(bell[1], item));
}

static void *wait_one(void *q)
{
    int x = 0;
    return queue_pop(q, &x, 10000000) && x == 7 ? q : NULL;
}

/* Goal: pushes of a listener wake one or several waiting threads. */
TEST(queue_wakes_those_behind_a_listener)
{
    struct queue *q = queue_open(1, sizeof(int)), *bell[2];
    pthread_t thread[2];
    void *got;
    int x = 7;
    for (int i = 0; i < 2; i++) {
        bell[i] = queue_open(1, sizeof(int));
        NEED(bell[i] && pthread_create(&thread[i], NULL, wait_one, bell[i]) == 0);
    }
    NEED(q);
    queue_listen(q, push_both, bell);
    /* give the threads time to begin to wait */
    for (int64_t until = time_us() + 20000; time_us() < until;) continue;
    EXPECT(queue_push(q, &x));
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], &got);
        EXPECT(got == bell[i]);
    }
    queue_close(q);
    for (int i = 0; i < 2; i++) queue_close(bell[i]);
}
