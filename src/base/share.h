/* share.h - fair sharing of a bounded resource (places, bytes) among holders, so that no holder
 * excludes other holders.
 *
 * A holder is a number (a key, a peer) with a weight. The fair share of a holder is limit * weight
 * / sum of weights. The sum includes the holder itself and all holders with units. The victim is
 * the holder that is largest relative to its weight. The caller evicts the victim's newest item if
 * there is no room for a smaller holder.
 *
 *   (1) A holder within its fair share is admitted if enough units of other holders can be evicted.
 *   (2) A victim has more units relative to its weight than the requesting holder would have.
 *   (3) A holder above its fair share acquires free units, or units of a victim. The victim stays
 *       at least as large as the requesting holder becomes.
 *   (4) The last `reserve` units are only for small holders. A holder is small if its use would
 *       stay within its share with one more holder of equal weight. Therefore many requests of one
 *       holder leave room for the next holder.
 *
 * The caller performs evictions: share_settle marks units that cannot be evicted. The time of each
 * call is O(log n) for n holders. No call after share_open allocates. Not thread-safe: use one
 * thread or a lock. */
#ifndef QUOTH_BASE_SHARE_H
#define QUOTH_BASE_SHARE_H

#include "err.h"

#include <stdbool.h>
#include <stdint.h>

#define SHARE_WEIGHT_MIN 1e-3
#define SHARE_WEIGHT_MAX 1e6

struct share; /* opaque */

struct share_options {
    int64_t limit;   /* maximum number of units of all holders */
    int64_t reserve; /* units of `limit` reserved for small holders, [0, limit] */
    /* maximum number of holders, e.g. the number of items that fit */
    int holder_max;
};

/* Allocate all memory for the options. The caller owns *out, which is NULL after ERR_MEMORY. */
int share_open(struct share **out, const struct share_options *o, struct err *e);
void share_close(struct share *s); /* free s; NULL is allowed */

enum share_answer {
    SHARE_TAKEN,   /* n units were acquired */
    SHARE_EVICT,   /* nothing was acquired; evict *victim's newest item, then retry */
    SHARE_REFUSED, /* nothing was acquired; no room for this holder */
};

/* Acquire n > 0 units. weight is clamped to [SHARE_WEIGHT_MIN, SHARE_WEIGHT_MAX] and replaces the
 * holder's previous weight. *victim is set only on SHARE_EVICT. The caller then releases an
 * unsettled item of the victim and retries. The retries end, because each release shrinks the
 * victim. */
enum share_answer share_acquire(struct share *s, uint64_t id, double weight, int64_t n,
                                uint64_t *victim);
/* Return true if share_acquire would return SHARE_TAKEN or SHARE_EVICT for n units. */
bool share_can_acquire(const struct share *s, uint64_t id, double weight, int64_t n);
/* Mark n units of the holder as not evictable. */
void share_settle(struct share *s, uint64_t id, int64_t n);
/* Release n units of the holder that are not settled. */
void share_release(struct share *s, uint64_t id, int64_t n);
/* Release n units of the holder that share_settle has marked. */
void share_release_settled(struct share *s, uint64_t id, int64_t n);

/* Return the room for this holder: the free units, or the unused part of its fair share if
 * evictions can free that part. Use share_room to limit an item of unknown size. */
int64_t share_room(const struct share *s, uint64_t id, double weight);
/* Return the number of the holder's units; 0 if none. */
int64_t share_held(const struct share *s, uint64_t id);
/* Return the sum of all holders' units. */
int64_t share_total(const struct share *s);
/* Return the number of holders with units. */
int share_n_holder(const struct share *s);
/* Check the invariants of share.c. Return NULL, or a description of the violation, static. For
 * tests, and for debug builds after every step. */
const char *share_check(const struct share *s);

#endif
