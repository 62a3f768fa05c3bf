/* stats_impl.h - private to stats.c and stats_text.c. */
#ifndef QUOTH_ENGINE_STATS_IMPL_H
#define QUOTH_ENGINE_STATS_IMPL_H

#include "stats.h"

#include <string.h>

_Static_assert(STAT_commit_us - STAT_schedule_us == STATS_LAPS - 1, "the laps' counters in order");
_Static_assert(STAT_refused_long - STAT_refused_full == 1, "as n_refused has them");

struct stats {
    struct stats_options options;
    int64_t bound_tokens[HISTOGRAM_BOUNDS_MAX + 1];
    /* the engine thread's */
    struct stats_view now;
    int64_t begin_us, lap_us, lap[STATS_LAPS];
    int n_lap;
    /* for readers */
    _Atomic uint64_t version, word[sizeof(struct stats_view) / sizeof(uint64_t)];
    _Atomic int64_t n_refused[2]; /* full, long */
};

#endif
