/* queue.h - a bounded queue of fixed-size items: the only way that threads communicate. Items are
 * copied in and out, so passing one never allocates. Any number of producers and consumers. A push
 * into a full queue fails (HTTP 429) and does not wait. */
#ifndef QUOTH_BASE_QUEUE_H
#define QUOTH_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

struct queue *queue_open(size_t cap, size_t item_bytes); /* NULL if memory ran out */
/* Free q; NULL is allowed. No thread may be in queue_pop or begin a push. Waits for pushes that are
 * still calling the listener. */
void queue_close(struct queue *q);

bool queue_push(struct queue *q, const void *item); /* false if full */

/* Copy out and remove the oldest item. Returns false if none came within wait_us (0: do not wait;
 * < 0: no limit), or after queue_wake. */
bool queue_pop(struct queue *q, void *item, int64_t wait_us);

/* Set a listener: each push into q calls fn(ctx, item), for consumers that do not wait in
 * queue_pop. fn runs on the pusher's thread, must be short, must not block and must not use q. The
 * item may have been popped already. When queue_close returns, all calls have returned, so ctx may
 * be freed. Call it before several threads use q. */
typedef void queue_fn(void *ctx, const void *item);
void queue_listen(struct queue *q, queue_fn *fn, void *ctx);

/* Make each push into q also push a byte into `bell` (one-byte items; a full bell needs no other).
 * One thread can then wait for many queues: pop the bell, then check each queue. This is q's
 * listener; the rules of queue_listen apply. */
void queue_ring(struct queue *q, struct queue *bell);

/* Make one queue_pop return false: one that is waiting, else the next that would wait. */
void queue_wake(struct queue *q);
size_t queue_len(struct queue *q);

#endif
