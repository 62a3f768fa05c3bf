/* queue.h - a bounded queue of fixed-size items between threads: the only way they talk. Items
 * are copied in and out, so that passing one never allocates. Any number of producers and
 * consumers. A full queue is an answer (HTTP 429), not a wait. */
#ifndef QUOTH_BASE_QUEUE_H
#define QUOTH_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

struct queue *queue_open(size_t cap, size_t item_bytes); /* NULL: no memory */
/* NULL is fine. Nobody may be in queue_pop or begin a push; a push that has given its item away may still be calling the
 * listener, and is waited for. */
void queue_close(struct queue *q);

bool queue_push(struct queue *q, const void *item); /* false: full */

/* Copy out the oldest item. false when none came within wait_us (0: at once; < 0: for ever), or
 * after queue_wake. */
bool queue_pop(struct queue *q, void *item, int64_t wait_us);

/* From now on each push into q calls fn(ctx, item), for consumers that wait elsewhere than in queue_pop. It
 * runs on the pusher's thread: it must be short, must not block and must leave q alone. The item may have been popped before;
 * who has closed q knows that all calls have returned, and ctx may go. Before q is in use by more than one thread. */
typedef void queue_fn(void *ctx, const void *item);
void queue_listen(struct queue *q, queue_fn *fn, void *ctx);

/* From now on each push into q also pushes a byte into `bell` (of one-byte items; a full one has rung
 * already), so that one thread can wait for many queues: pop the bell, then look into all of them. The same
 * holds for it; it is q's only listener. */
void queue_ring(struct queue *q, struct queue *bell);

/* Let one waiting queue_pop return false: one that waits now, else the next that would. */
void queue_wake(struct queue *q);
size_t queue_len(struct queue *q);

#endif
