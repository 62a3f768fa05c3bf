/* queue.h - a bounded queue of pointers between threads: the only way they talk.
 * Any number of producers and consumers. A full queue is an answer (HTTP 429), not a wait. */
#ifndef QUOTH_BASE_QUEUE_H
#define QUOTH_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

struct queue *queue_open(size_t cap); /* NULL: no memory */
void queue_close(struct queue *q);    /* nobody may be inside; items left are the caller's to drain first */

bool queue_push(struct queue *q, void *take_item); /* false: full, and the item stays the caller's */

/* The oldest item, now the caller's. NULL when none came within wait_us (0: at once; < 0: for ever), or
 * after queue_wake. */
void *queue_pop(struct queue *q, int64_t wait_us);

void queue_wake(struct queue *q); /* let one waiting queue_pop return NULL */
size_t queue_len(struct queue *q);

#endif
