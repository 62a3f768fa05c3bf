/* door.h - admission of requests: places in the queue and memory, divided among holders.
 *
 *   engine_submit --door_enter--> QUEUED --door_pass--> INSIDE --door_leave--> OUTSIDE
 *                                   |  '-----door_leave (cancelled, late)---------^
 *                                   '---its holder is a victim--> REFUSED, ended by the engine
 *
 * request.holder is the number of a key or of a peer. base/share.h has the rules of sharing. The
 * newest queued request of the largest holder is refused if the queue or the memory is full.
 * Therefore a holder that uses at most its share is admitted. A request is not refused after it was
 * scheduled.
 *
 *   (1) The list from `newest` over `older` has exactly the QUEUED groups, linked in both
 *       directions.
 *   (2) A QUEUED group holds one unit of `place`, and no other group holds units of `place`.
 *   (3) A QUEUED or INSIDE group holds n_byte units of `byte`, which are settled if it is INSIDE.
 *   (4) `place`, `byte`, `answer`, the list and the groups' states change under the lock only.
 *
 * Client threads call door_enter. The engine thread calls door_pass and door_leave. The lock is
 * held for microseconds. Memory of a refused request is immediately counted as free; the engine
 * thread frees it within a step. */
#ifndef QUOTH_ENGINE_DOOR_H
#define QUOTH_ENGINE_DOOR_H

#include "base/share.h"

#include <pthread.h>
#include <stdatomic.h>

struct group;
struct request;

struct door_options {
    int queue_max; /* maximum number of requests submitted and not yet scheduled */
    /* minimum queue length at which requests with retry_silently are refused */
    int queue_retry_max;
    int64_t bytes_max; /* maximum bytes of all groups; 0: no limit */
};

/* State of a group at the door; part of struct group. The lock protects newer and older, the
 * neighbours in the queue. */
enum door_state { DOOR_OUTSIDE, DOOR_QUEUED, DOOR_INSIDE, DOOR_REFUSED };
struct door_place {
    _Atomic enum door_state state;
    struct group *newer, *older; /* neighbours in the queue, borrowed; NULL if none */
};

struct door {
    struct door_options options;
    pthread_mutex_t lock;
    struct share *place, *byte, *answer; /* owned; byte and answer are NULL if there is no limit */
    struct group *newest;                /* borrowed: newest queued group; NULL if none */
    bool opened;
};

/* Open a door. The caller calls door_close also after ERR_MEMORY. */
int door_open(struct door *d, const struct door_options *o, struct err *e);
void door_close(struct door *d); /* free the memory of d, which may be zeroed */

/* ---- any thread ---- */

enum door_answer { DOOR_OPEN, DOOR_FULL, DOOR_NO_MEMORY };
/* Return DOOR_OPEN if r can have a place, otherwise the reason for the refusal. Set *n_byte to the
 * estimated maximum of bytes of its group; -1: no limit. */
enum door_answer door_may_enter(struct door *d, const struct request *r, int64_t *n_byte);
/* Queue g, which holds g->n_byte bytes. Set *n_evicted to the number of requests that were
 * evicted to make room. */
enum door_answer door_enter(struct door *d, struct group *g, int *n_evicted);
/* Remove g from the door, in any state. */
void door_leave(struct door *d, struct group *g);
/* Reserve bytes for answers, divided among holders like other memory. Evict no request. Return
 * false if there is no room now. */
bool door_reserve(struct door *d, const struct request *r, int64_t n_byte);
/* Release bytes that door_reserve has reserved. */
void door_unreserve(struct door *d, uint64_t holder, int64_t n_byte);
int64_t door_bytes(struct door *d);        /* return the number of bytes held by groups */
int64_t door_answer_bytes(struct door *d); /* return the number of bytes reserved for answers */
/* Return the maximum number of bytes that all requests can reserve for answers. */
int64_t door_answer_bytes_max(const struct door *d);
/* Return the maximum number of bytes that one request can reserve for its answer. */
int64_t door_reserve_bytes_max(const struct door *d);
/* Check invariants 1 to 3, and the invariants of the shares (base/share.c). n_byte_inside: bytes of
 * all groups that are INSIDE. Return NULL, or a description of the violation. */
const char *door_check(struct door *d, int64_t n_byte_inside);

/* ---- engine thread ---- */

/* Mark g as scheduled. Return false if g was refused before. */
bool door_pass(struct door *d, struct group *g);
/* Return true if g was refused while it was queued. */
bool door_refused(const struct group *g);

#endif
