/* stats.h - what the engine knows about how it runs: levels, counts, and times by size.
 *
 *   engine thread   stats_begin, stats_lap, stats_token ... during a step, stats_step at its end
 *   any thread      stats_read, then stats_json, stats_prometheus or the numbers themselves
 *
 * (1) A reading is the state at the end of one step, never of the middle of one: all its figures belong
 *     together (answers that ended = times counted = ...). It may be one step old.
 * (2) The writer never waits, allocates or calls the system; a reader copies again if a step ended
 *     meanwhile (some kB, a microsecond).
 * What is kept is listed in stats.def. Part of the engine's public face (engine.h includes this). */
#ifndef QUOTH_ENGINE_STATS_H
#define QUOTH_ENGINE_STATS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/histogram.h"
#include "backend/backend.h"

#define GAUGE(id, unit, space, name, label, help)   STAT_##id,
#define COUNTER(id, unit, space, name, label, help) STAT_##id,
#define HISTOGRAM(id, unit, space, name, bounds, help)
enum stat_id {
#include "stats.def"
    STAT_COUNT
};
#undef GAUGE
#undef COUNTER
#undef HISTOGRAM

#define GAUGE(id, unit, space, name, label, help)
#define COUNTER(id, unit, space, name, label, help)
#define HISTOGRAM(id, unit, space, name, bounds, help) TIMES_##id,
enum times_id {
#include "stats.def"
    TIMES_COUNT
};
#undef GAUGE
#undef COUNTER
#undef HISTOGRAM

enum stat_kind { STAT_GAUGE, STAT_COUNTER, STAT_HISTOGRAM };
enum stat_unit { STAT_ONE, STAT_US, STAT_PPM };
enum stat_space { STAT_VLLM, STAT_OWN };

/* One series of stats.def. */
struct stat_info {
    const char *id, *name, *label, *help; /* label "" for histograms too */
    enum stat_kind kind;
    enum stat_unit unit;
    enum stat_space space;
};
extern const struct stat_info stat_info[STAT_COUNT], times_info[TIMES_COUNT];
double stat_scale(enum stat_unit u); /* from what is kept to what is shown: 1, 1e-6, 1e-6 */

/* One reading. Units as kept: tokens, microseconds, millionths. */
struct stats_view {
    int64_t value[STAT_COUNT];
    struct histogram times[TIMES_COUNT];
};

/* What one step costs, for the counts of operations and bytes; zeros: not known. Multiply-adds; the
 * whole is 2 * (row * rows + output * outputs + pair * positions attended to). */
struct step_cost {
    int64_t row_macs, output_macs; /* weights of the layers, of the head                    */
    int64_t pair_macs;             /* all layers: heads * (d_k + d_v) of query and position */
    int64_t layer_bytes, head_bytes, kv_row_bytes;
};

struct stats; /* opaque */
struct stats_options {
    const char *model_name; /* borrowed; NULL: "" */
    const char *kv_type;    /* borrowed; NULL: "" */
    int context_max, page_rows, n_page;
    bool prefix_cache;
    struct step_cost cost;
};
int stats_open(struct stats **out, const struct stats_options *o, struct err *e);
void stats_close(struct stats *st); /* NULL is fine */

/* ---- engine thread ---- */

/* A step begins; each lap says that its next part ended: schedule, forward, sample, commit, in the
 * order of their counters in stats.def. */
enum { STATS_LAPS = 4 };
void stats_begin(struct stats *st, int64_t now_us);
void stats_lap(struct stats *st, int64_t now_us);
int64_t stats_lap_us(const struct stats *st, int i); /* of the step that is being told */

/* The levels that are not counted here. */
struct stats_level {
    int n_running, n_waiting;
    bool deferred; /* those that wait do so because a policy says so, not for want of room */
    int n_page_held, n_page_cached;
};
/* The step is over: count its batch (NULL: nothing was computed), publish. */
void stats_step(struct stats *st, const struct batch *b, const struct stats_level *l);

void stats_count(struct stats *st, enum stat_id s, int64_t n);  /* a counter grows by n */
void stats_queried(struct stats *st, int n_token, int n_found); /* a look into the prefix cache */
void stats_found(struct stats *st, int n_token); /* more that the last look would find by now */
/* A prompt is complete, for the first time. */
void stats_prompt(struct stats *st, int n_token, int n_found);
void stats_first_token(struct stats *st, int64_t us); /* since submission              */
void stats_token(struct stats *st, int64_t us);       /* since the one before          */

/* The functions of a page_watch (cache.h). */
void stats_page_evicted(void *stats, int64_t life_us, int64_t idle_us);
void stats_page_found(void *stats, int64_t gap_us);

/* An answer that ended. Times of the engine's clock; 0: never came to that. */
struct answer_times {
    int64_t submit_us, sched_us, first_us, last_us, done_us;
    int n_prompt, n_cached, max_tokens, n_choice, n_preempted;
    int n_output, n_longest; /* tokens of all choices, of the longest */
    enum stat_id done;       /* STAT_done_stop, ... */
};
void stats_done(struct stats *st, const struct answer_times *t);

/* ---- any thread ---- */

/* why: STAT_refused_full or _long. Counted at once, not at a step's end. */
void stats_refused(struct stats *st, enum stat_id why);
void stats_read(const struct stats *st, struct stats_view *out);

/* b since a, two readings of one engine: counters and times of the time between; b's levels. */
struct stats_view stats_since(const struct stats_view *a, const struct stats_view *b);

/* Part of the steps' time outside the model: scheduling, sampling, events. 0: no step. */
double stats_host_share(const struct stats_view *v);

/* Prometheus' text format, version 0.0.4. prefix: what stands before vLLM's names, "vllm:" if NULL;
 * quoth's own are "quoth:". */
void stats_prometheus(const struct stats *st, const struct stats_view *v, const char *prefix,
                      struct buf *out);
/* One JSON object: {"num_requests_running": ..., "time_to_first_token_seconds": {"count", "sum",
 * "mean", "p50", "p90", "p99"}, ...}, series of a name told apart by their label. */
void stats_json(const struct stats_view *v, struct buf *out);

#endif
