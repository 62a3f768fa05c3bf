/* queue.c - a ring under a mutex; see queue.h. Items are messages (a request, an event), a few thousand a
 * second at most, so a lock costs nothing that could be measured in a step. */
#include "queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t more;
    size_t cap, head, n; /* items are slot[head .. head+n), modulo cap */
    bool woken;
    void *slot[];
};

struct queue *queue_open(size_t cap)
{
    struct queue *q = calloc(1, sizeof *q + cap * sizeof q->slot[0]);
    if (!q) return NULL;
    q->cap = cap;
    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->more, &attr);
    pthread_condattr_destroy(&attr);
    return q;
}

void queue_close(struct queue *q)
{
    if (!q) return;
    pthread_cond_destroy(&q->more);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

bool queue_push(struct queue *q, void *take_item)
{
    pthread_mutex_lock(&q->lock);
    bool ok = q->n < q->cap;
    if (ok) {
        q->slot[(q->head + q->n++) % q->cap] = take_item;
        pthread_cond_signal(&q->more);
    }
    pthread_mutex_unlock(&q->lock);
    return ok;
}

static struct timespec deadline_after(int64_t wait_us)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += wait_us / 1000000;
    t.tv_nsec += wait_us % 1000000 * 1000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    return t;
}

void *queue_pop(struct queue *q, int64_t wait_us)
{
    struct timespec until = deadline_after(wait_us > 0 ? wait_us : 0);
    pthread_mutex_lock(&q->lock);
    int rc = 0;
    while (q->n == 0 && !q->woken && rc == 0 && wait_us != 0)
        rc = wait_us < 0 ? pthread_cond_wait(&q->more, &q->lock)
                         : pthread_cond_timedwait(&q->more, &q->lock, &until);
    void *item = NULL;
    if (q->n > 0) {
        item = q->slot[q->head];
        q->head = (q->head + 1) % q->cap;
        q->n--;
    } else {
        q->woken = false;
    }
    pthread_mutex_unlock(&q->lock);
    return item;
}

void queue_wake(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->woken = true;
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
}

size_t queue_len(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    size_t n = q->n;
    pthread_mutex_unlock(&q->lock);
    return n;
}
