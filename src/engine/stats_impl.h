/* stats_impl.h - private to stats.c and stats_text.c. */
#ifndef QUOTH_ENGINE_STATS_IMPL_H
#define QUOTH_ENGINE_STATS_IMPL_H

#include "stats.h"

#include <string.h>

_Static_assert(STAT_commit_us - STAT_schedule_us == STATS_LAPS - 1, "the laps' counters in order");
enum { N_REFUSED = STAT_rejected_evicted - STAT_refused_full + 1 };
_Static_assert(N_REFUSED == 5, "refusals in order");

enum { N_EARLY = TIMES_tokenize - TIMES_body + 1 };
_Static_assert(N_EARLY == 5, "the times before submission in order");

/* Levels that have high-water marks: running, waiting, swapped, KV pages in millionths. */
enum { N_MARK = 4 };

/* Sums at the start of a slot: operations, bytes read, microseconds of steps. */
enum { N_SUM = 3 };

/* Histogram to which any thread may add. */
struct early {
    _Atomic int64_t sum;
    _Atomic uint64_t count[HISTOGRAM_BOUNDS_MAX + 1];
};

struct stats {
    struct stats_options options;
    int64_t bound_tokens[HISTOGRAM_BOUNDS_MAX + 1];
    /* Reading that only the engine thread uses. */
    struct stats_view now;
    int64_t begin_us, lap_us, lap[STATS_LAPS];
    int n_lap;
    int64_t n_token_before; /* number of prompt and generated tokens up to the last step */
    int64_t slot;           /* index of the last slot written */
    /* copy shared with readers */
    _Atomic uint64_t version, word[sizeof(struct stats_view) / sizeof(uint64_t)];
    _Atomic int64_t n_refused[N_REFUSED];  /* counts of STAT_refused_full and all later rows */
    _Atomic int64_t slot_first, slot_last; /* first and last valid slot of mark[] and sum[] */
    _Atomic int32_t level[N_MARK];         /* levels after the last step */
    _Atomic int32_t mark[STATS_SLOTS][N_MARK];
    _Atomic int64_t sum[STATS_SLOTS][N_SUM];
    struct early early[N_EARLY]; /* histograms of TIMES_body and all later rows */
};

#endif
