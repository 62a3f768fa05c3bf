/* share.h - fair sharing of a bounded resource (places, bytes) among holders, so that no holder
 * excludes the others.
 *
 * A holder is a number (a key, a peer) with a weight. Its fair share is limit * weight / sum of the
 * weights of all holders that hold something, itself included. If there is no room, the victim is
 * the largest holder relative to its weight; its newest item is evicted for a smaller holder.
 *
 *   (1) A holder within its fair share is admitted if the others hold enough that can be evicted.
 *   (2) A victim holds more relative to its weight than the requesting holder would.
 *   (3) Above its fair share a holder gets free room, or room of a victim that stays at least as
 *       large as the requesting holder becomes.
 *   (4) The last `reserve` units are only for holders that stay within the share that they would
 *       have if one more holder of the same weight came: a flood leaves room for the next holder.
 *
 * The caller decides what can be evicted: share_settle marks units that no longer can. Cost:
 * O(log n) for n holders, no allocation after share_open. Not thread-safe: use one thread
 * or a lock of the caller. */
#ifndef QUOTH_BASE_SHARE_H
#define QUOTH_BASE_SHARE_H

#include "err.h"

#include <stdbool.h>
#include <stdint.h>

#define SHARE_WEIGHT_MIN 1e-3
#define SHARE_WEIGHT_MAX 1e6

struct share; /* opaque */

struct share_options {
    int64_t limit;   /* maximum units of all holders */
    int64_t reserve; /* units of these reserved for small holders, [0, limit] */
    /* maximum number of holders: the number of items that fit if each holder has one */
    int n_holder_max;
};

int share_open(struct share **out, const struct share_options *o, struct err *e);
void share_close(struct share *s); /* NULL is allowed */

enum share_answer {
    SHARE_TAKEN,   /* n units are acquired */
    SHARE_EVICT,   /* nothing acquired: evict *victim's newest item, then retry */
    SHARE_REFUSED, /* nothing acquired: no room for this holder */
};

/* Acquire n > 0 units. weight is clamped to [SHARE_WEIGHT_MIN, SHARE_WEIGHT_MAX]; the latest one
 * counts. *victim is set only on SHARE_EVICT: the caller then releases an unsettled item of the
 * victim, so a retry loop ends. */
enum share_answer share_acquire(struct share *s, uint64_t id, double weight, int64_t n,
                                uint64_t *victim);
/* Return true if share_acquire would return SHARE_TAKEN or SHARE_EVICT for n units. */
bool share_can_acquire(const struct share *s, uint64_t id, double weight, int64_t n);
/* Mark n units of the holder as not evictable. */
void share_settle(struct share *s, uint64_t id, int64_t n);
/* Release n units that are not settled, or (share_release_settled) n that are. */
void share_release(struct share *s, uint64_t id, int64_t n);
void share_release_settled(struct share *s, uint64_t id, int64_t n);

/* Return the free units for this holder, or the rest of its fair share if others hold as much that
 * can be evicted: for a caller that builds an item of unknown size. */
int64_t share_room(const struct share *s, uint64_t id, double weight);
int64_t share_held(const struct share *s, uint64_t id); /* 0 if none */
int64_t share_total(const struct share *s);
int share_n_holder(const struct share *s);

#endif
