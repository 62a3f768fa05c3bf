/* queue.h - a bounded queue of fixed-size items. Threads exchange messages only by queues. Items
 * are copied in and out, so push and pop never allocate. Any thread may push and pop at any time. A
 * push into a full queue fails (HTTP 429) and does not wait. */
#ifndef QUOTH_BASE_QUEUE_H
#define QUOTH_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

/* Return a new queue for at most n_max items of item_bytes bytes, owned by the caller; NULL if
 * memory is exhausted. */
struct queue *queue_open(size_t n_max, size_t item_bytes);
/* Free q; NULL is allowed. No thread may be in queue_pop or begin a push. queue_close waits for
 * pushes that are still calling the listener. */
void queue_close(struct queue *q);

/* Append a copy of *item. Return false if the queue is full. */
bool queue_push(struct queue *q, const void *item);

/* Remove the oldest item and copy it to *item. Return false if no item arrived within wait_us (0:
 * do not wait; < 0: no limit), or after queue_wake. */
bool queue_pop(struct queue *q, void *item, int64_t wait_us);

typedef void queue_fn(void *ctx, const void *item);
/* Set a function to call after each push, for consumers that do not wait in queue_pop. Each push
 * into q calls fn(ctx, item) on the pusher's thread. fn must be short, must not block and must not
 * use q. Another thread may have popped the item. queue_close waits for all calls, so ctx may be
 * freed after it. Call queue_listen before several threads use q. */
void queue_listen(struct queue *q, queue_fn *fn, void *ctx);

/* Make each push into q also push a byte into `bell`, a queue of one-byte items. One thread can
 * then wait for many queues: pop the bell, then check each queue. A full bell drops the byte,
 * because its other bytes already wake the thread. queue_ring sets q's listener, so the rules of
 * queue_listen apply. */
void queue_ring(struct queue *q, struct queue *bell);

/* Make a waiting queue_pop return false. The next queue_pop that would wait returns false if no
 * call waits. */
void queue_wake(struct queue *q);
/* Return the number of items in q. Other threads may change the number at any time. */
size_t queue_len(struct queue *q);

/* Check the invariants of queue.c. Return NULL, or a description of the violation, static. Builds
 * with DEBUG or SAN check them at each call. Any thread. */
const char *queue_check(struct queue *q);

#endif
