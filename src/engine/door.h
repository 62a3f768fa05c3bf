/* door.h - admission of requests: places in the queue and memory, divided among holders.
 *
 *   engine_submit --door_enter--> QUEUED --door_pass--> INSIDE --door_leave--> OUTSIDE
 *                                   |  '-----door_leave (cancelled, late)---------^
 *                                   '---its holder is a victim--> REFUSED (the engine thread ends
 *                                   it)
 *
 * A holder is a request's share_id: a key, or a peer (rules: base/share.h). When the queue or the
 * memory is full, the newest queued request of the largest holder is refused, so that a holder
 * within its share is admitted. A request that was scheduled once is not refused any more.
 *
 * Client threads enter; the engine thread passes and leaves. The lock is held for microseconds.
 * Memory of a refused request counts as free at once; the engine thread frees it within a step. */
#ifndef QUOTH_ENGINE_DOOR_H
#define QUOTH_ENGINE_DOOR_H

#include "base/share.h"

#include <pthread.h>
#include <stdatomic.h>

struct group;
struct request;

struct door_options {
    int queue_max;       /* requests submitted and not yet scheduled */
    int queue_retry_max; /* queue length from which requests with retry_silently are refused */
    int64_t byte_max;    /* bytes of all groups; 0: no limit */
};

/* A part of struct group. newer, older: neighbours in the queue, under the lock. */
enum door_state { DOOR_OUTSIDE, DOOR_QUEUED, DOOR_INSIDE, DOOR_REFUSED };
struct door_place {
    _Atomic enum door_state state;
    struct group *newer, *older;
};

struct door {
    struct door_options options;
    pthread_mutex_t lock;
    struct share *place, *byte, *answer; /* owned; byte, answer: NULL if there is no limit */
    struct group *newest;                /* newest queued group */
    bool opened;
};

int door_open(struct door *d, const struct door_options *o, struct err *e);
void door_close(struct door *d); /* safe on a zeroed one */

/* ---- any thread ---- */

enum door_answer { DOOR_OPEN, DOOR_FULL, DOOR_NO_MEMORY };
/* Return whether r can have a place, and in *n_byte about how many bytes its group may take (-1: no
 * limit). */
enum door_answer door_check(struct door *d, const struct request *r, int64_t *n_byte);
/* Queue g, which holds g->n_byte. Sets *n_evicted to the number of requests refused to make
 * room. */
enum door_answer door_enter(struct door *d, struct group *g, int *n_evicted);
/* Remove g, whatever its state. */
void door_leave(struct door *d, struct group *g);
/* Reserve bytes for answers, divided among holders in the same way. Never evicts. Returns false if
 * there is no room now. */
bool door_reserve(struct door *d, const struct request *r, int64_t n_byte);
void door_unreserve(struct door *d, uint64_t share_id, int64_t n_byte);
int64_t door_bytes(struct door *d);        /* bytes held by groups */
int64_t door_answer_bytes(struct door *d); /* bytes reserved for answers */
int64_t door_answer_max(const struct door *d);
int64_t door_answer_most(const struct door *d); /* maximum that one request can reserve */

/* ---- engine thread ---- */

/* Mark g as scheduled. Returns false if it was refused before. */
bool door_pass(struct door *d, struct group *g);
bool door_refused(const struct group *g);

#endif
