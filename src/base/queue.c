/* queue.c - a ring with a mutex; see queue.h. Items are messages (a request, an event), at most a
 * few thousand per second. The lock has no measurable cost in a step.
 *
 * (1) head < n_max, n <= n_max. Items are at the places [head, head + n) modulo n_max, oldest
 *     first.
 * (2) n_waiting is the number of threads that wait in queue_pop. n_inside is the number of threads
 *     in a push after unlocking. A closed queue has 0 threads in queue_pop and in a push.
 * (3) A thread may use the queue after unlocking only while n_inside counts it.
 *
 * Signalling is slow if the thread holds the lock: the woken thread may preempt it, block on the
 * lock and yield. A listener that pushes into another queue doubles this cost. Therefore queue_push
 * unlocks before it signals and calls the listener. n_inside counts pushers after the unlock, and
 * queue_close waits until n_inside is 0. A thread that waits for the push of a listener is
 * signalled later, after the pushing thread has left its queues. Signalling earlier is unsafe,
 * because the woken thread often closes the queues. */
#include "queue.h"
#include "check.h"
#include "cond.h"
#include "os.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t more, left;
    size_t n_max, item_bytes, head, n;
    int n_waiting, n_inside;
    bool woken;         /* true after a queue_wake until a queue_pop consumes it */
    queue_fn *listener; /* function to call after each push; NULL: no listener */
    void *listener_ctx; /* argument of the listener, borrowed from the consumer */
    char item[];        /* [n_max, item_bytes] */
};

struct queue *queue_open(size_t n_max, size_t item_bytes)
{
    size_t n_byte;
    CHECK(n_max > 0 && item_bytes > 0, "%zu items of %zu bytes", n_max, item_bytes);
    if (__builtin_mul_overflow(n_max, item_bytes, &n_byte)) return NULL;
    if (n_byte > SIZE_MAX - sizeof(struct queue)) return NULL;
    /* uninitialized, because items are written before they are read */
    struct queue *q = malloc(sizeof *q + n_byte);
    if (!q) return NULL;
    *q = (struct queue){.n_max = n_max, .item_bytes = item_bytes};
    pthread_mutex_init(&q->lock, NULL);
    cond_init(&q->more);
    cond_init(&q->left);
    return q;
}

/* Return NULL, or the violated invariant. The caller holds the lock. */
static const char *check(const struct queue *q)
{
    if (q->n > q->n_max) return "a queue has more items than places";
    if (q->head >= q->n_max) return "a queue's oldest item is outside of the ring";
    if (q->n_waiting < 0) return "a queue's waiting threads are not counted right";
    if (q->n_inside < 0) return "a queue's pushing threads are not counted right";
    return NULL;
}

/* Release the lock. Debug builds check the invariants first. */
static void unlock(struct queue *q)
{
    const char *wrong = check_steps ? check(q) : NULL;
    CHECK(!wrong, "%s", wrong);
    pthread_mutex_unlock(&q->lock);
}

const char *queue_check(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    const char *wrong = check(q);
    pthread_mutex_unlock(&q->lock);
    return wrong;
}

void queue_close(struct queue *q)
{
    if (!q) return;
    pthread_mutex_lock(&q->lock);
    while (q->n_inside > 0) pthread_cond_wait(&q->left, &q->lock);
    CHECK(q->n_waiting == 0, "%d threads wait in queue_pop", q->n_waiting);
    unlock(q);
    pthread_cond_destroy(&q->more);
    pthread_cond_destroy(&q->left);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

void queue_listen(struct queue *q, queue_fn *fn, void *ctx)
{
    q->listener = fn;
    q->listener_ctx = ctx;
}

static void push_byte(void *bell, const void *item)
{
    (void)item;
    queue_push(bell, "");
}

void queue_ring(struct queue *q, struct queue *bell)
{
    CHECK(q != bell, "a queue of %zu items rings itself", q->n_max);
    queue_listen(q, push_byte, bell);
}

static char *item_at(struct queue *q, size_t i)
{
    return q->item + (q->head + i) % q->n_max * q->item_bytes;
}

static void end_call(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    CHECK(q->n_inside > 0, "%zu items of %zu", q->n, q->n_max);
    if (--q->n_inside == 0) pthread_cond_signal(&q->left);
    unlock(q);
}

/* Signal a waiting thread and call the listener after a push, without the lock. */
static void notify(struct queue *q, const void *item, bool waited_for)
{
    static _Thread_local int n_listener; /* number of active listener calls on this thread */
    /* queue whose waiting thread this thread signals later, counted in n_inside; NULL if none */
    static _Thread_local struct queue *owed;
    bool later = waited_for && n_listener > 0 && !owed;
    if (later) owed = q;
    if (waited_for && !later) pthread_cond_signal(&q->more);
    n_listener++;
    if (q->listener) q->listener(q->listener_ctx, item);
    n_listener--;
    if (!later) end_call(q);
    struct queue *o = n_listener == 0 ? owed : NULL;
    if (!o) return;
    owed = NULL;
    pthread_cond_signal(&o->more);
    end_call(o);
}

bool queue_push(struct queue *q, const void *item)
{
    pthread_mutex_lock(&q->lock);
    bool ok = q->n < q->n_max;
    bool waited_for = q->n_waiting > 0;
    bool notifies = waited_for || q->listener;
    if (ok) {
        memcpy(item_at(q, q->n), item, q->item_bytes);
        q->n++;
        q->n_inside += notifies;
    }
    unlock(q);
    if (ok && notifies) notify(q, item, waited_for);
    return ok;
}

bool queue_pop(struct queue *q, void *item, int64_t wait_us)
{
    const int64_t until_us = wait_us < 0 ? INT64_MAX : time_us() + wait_us;
    bool waits = wait_us != 0;
    pthread_mutex_lock(&q->lock);
    q->n_waiting++;
    while (q->n == 0 && !q->woken && waits) waits = cond_wait(&q->more, &q->lock, until_us);
    q->n_waiting--;
    bool got = q->n > 0;
    if (got) {
        memcpy(item, item_at(q, 0), q->item_bytes);
        q->head = (q->head + 1) % q->n_max;
        q->n--;
    } else if (wait_us != 0) {
        q->woken = false; /* a queue_pop that does not wait does not consume a wake */
    }
    unlock(q);
    return got;
}

void queue_wake(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->woken = true;
    pthread_cond_signal(&q->more);
    unlock(q);
}

size_t queue_len(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    size_t n = q->n;
    unlock(q);
    return n;
}
