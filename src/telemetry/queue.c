/* queue.c - the queue between the threads that end spans and the exporter (telemetry_impl.h). A
 * push takes less than a microsecond. It wakes the exporter twice per batch: for the first span,
 * which begins the delay, and for the last span. */
#include "telemetry_impl.h"

#include "base/cond.h"
#include "base/os.h"

#include <stdlib.h>

int span_queue_init(struct span_queue *q, size_t n_max, struct err *e)
{
    q->ring = calloc(n_max, sizeof *q->ring);
    if (!q->ring) return err_memory(e, "a queue of spans", n_max * sizeof *q->ring);
    q->n_max = n_max;
    pthread_mutex_init(&q->lock, NULL);
    cond_init(&q->more);
    return 0;
}

void span_queue_deinit(struct span_queue *q)
{
    if (!q->ring) return;
    for (; q->n > 0; q->n--, q->head = (q->head + 1) % q->n_max) buf_deinit(&q->ring[q->head]);
    pthread_cond_destroy(&q->more);
    pthread_mutex_destroy(&q->lock);
    free(q->ring);
    *q = (struct span_queue){0};
}

bool span_queue_push(struct span_queue *q, struct buf *take_span, size_t n_batch)
{
    pthread_mutex_lock(&q->lock);
    const bool fits = q->n < q->n_max;
    if (fits) {
        q->ring[(q->head + q->n++) % q->n_max] = *take_span;
        if (q->first_us == 0) q->first_us = time_us();
    }
    const bool wakes = fits && (q->n == 1 || q->n == n_batch);
    pthread_mutex_unlock(&q->lock);
    if (!fits) buf_deinit(take_span);
    if (wakes) pthread_cond_signal(&q->more);
    *take_span = (struct buf){0};
    return fits;
}

/* Return the time at which the queued spans must be sent. The time is 0 (now) for a batch, or if
 * the exporter stops; INT64_MAX if the queue is empty. */
static int64_t due_us(const struct span_queue *q, size_t n_batch, int64_t delay_us)
{
    if (q->stop_us || q->n >= n_batch) return 0;
    return q->n ? q->first_us + delay_us : INT64_MAX;
}

size_t span_queue_take(struct span_queue *q, struct buf *out, size_t n_max, int64_t delay_us)
{
    size_t n = 0;
    pthread_mutex_lock(&q->lock);
    for (int64_t due; (due = due_us(q, n_max, delay_us)) > time_us();)
        cond_wait(&q->more, &q->lock, due);
    for (; n < n_max && q->n > 0; q->n--) {
        out[n++] = q->ring[q->head];
        q->head = (q->head + 1) % q->n_max;
    }
    q->first_us = q->n ? time_us() : 0;
    pthread_mutex_unlock(&q->lock);
    return n;
}

void span_queue_rest(struct span_queue *q, int64_t wait_us)
{
    const int64_t until_us = time_us() + wait_us;
    pthread_mutex_lock(&q->lock);
    while (!q->stop_us && time_us() < until_us) cond_wait(&q->more, &q->lock, until_us);
    pthread_mutex_unlock(&q->lock);
}

void span_queue_stop(struct span_queue *q, int64_t stop_us)
{
    pthread_mutex_lock(&q->lock);
    q->stop_us = stop_us;
    pthread_mutex_unlock(&q->lock);
    pthread_cond_signal(&q->more);
}

int64_t span_queue_stop_us(struct span_queue *q)
{
    pthread_mutex_lock(&q->lock);
    const int64_t us = q->stop_us;
    pthread_mutex_unlock(&q->lock);
    return us;
}
