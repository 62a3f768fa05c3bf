/* stats.h - the engine's statistics: levels, counters, histograms.
 *
 *   engine thread   stats_begin, stats_lap, stats_token ... during a step, stats_step at its end
 *   any thread      stats_read, then stats_json, stats_prometheus or the numbers themselves
 *
 * (1) A reading is the state at the end of a step, never in the middle of one. Therefore the
 *     figures of a reading are consistent: the number of ended answers is the number of counted
 *     times. A figure is at most one step old. Refusals and times before submission (TIMES_body to
 *     _tokenize) are exceptions, which are counted immediately.
 * (2) The writer never waits, allocates or makes a system call. A reader repeats its copy if a step
 *     ended meanwhile. The copy has some kB and takes a microsecond.
 *
 * One thread opens and closes the statistics. stats.def lists the figures. This file is part of the
 * engine's public header (engine.h includes it). */
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

/* A series of stats.def. All texts are static. */
struct stat_info {
    const char *id, *name, *label, *help; /* label: also "" for histograms */
    enum stat_kind kind;
    enum stat_unit unit;
    enum stat_space space;
};
extern const struct stat_info stat_info[STAT_COUNT], times_info[TIMES_COUNT];
/* Return the factor from the stored value to the shown value: 1 for STAT_ONE, otherwise 1e-6. Any
 * thread. */
double stat_scale(enum stat_unit u);

/* Reading of the statistics. The units are the stored units: tokens, microseconds, millionths. */
struct stats_view {
    int64_t value[STAT_COUNT];
    struct histogram times[TIMES_COUNT];
};

/* Costs of a step in multiply-adds, for the counters of operations and bytes; zeros: unknown. A
 * step has 2 * (row * rows + output * outputs + pair * pairs) operations. pairs is the number of
 * positions that rows attend to. */
struct step_cost {
    /* multiply-adds of a row with the layers' weights; of an output with the head's weights */
    int64_t row_macs, output_macs;
    /* multiply-adds per query and position, all layers: heads * (d_k + d_v) */
    int64_t pair_macs;
    int64_t layer_bytes, head_bytes, kv_row_bytes;
};

struct stats; /* opaque */
struct stats_options {
    const char *model_name; /* borrowed; NULL: "" */
    const char *kv_type;    /* borrowed; NULL: "" */
    int context_max, page_rows, n_page;
    /* maximum number of pages that a sequence of context_max tokens holds; 0: unknown */
    int n_page_longest;
    bool prefix_cache;
    struct step_cost cost;
};
/* Open zeroed statistics. Texts of *o are borrowed until stats_close. The caller owns *out, which
 * is NULL after ERR_MEMORY. */
int stats_open(struct stats **out, const struct stats_options *o, struct err *e);
void stats_close(struct stats *st); /* close st; NULL is allowed */

/* ---- engine thread ---- */

/* parts of a step in the order of their counters: schedule, forward, sample, commit */
enum { STATS_LAPS = 4 };
void stats_begin(struct stats *st, int64_t now_us); /* begin a step */
/* End the next part of the step. */
void stats_lap(struct stats *st, int64_t now_us);
/* Return the microseconds of part i of the last step. */
int64_t stats_lap_us(const struct stats *st, int i);

/* Levels that the engine reports. */
struct stats_level {
    int n_running, n_waiting;
    bool deferred; /* true: the policy defers waiting sequences for which there is room */
    int n_page_held, n_page_cached;
    int n_swapped; /* number of waiting sequences whose pages are in host memory */
};
/* Record the levels after scheduling, while the step's sequences hold their pages. stats_marks uses
 * these levels. */
void stats_peak(struct stats *st, int64_t now_us, const struct stats_level *l);
/* End a step: count its batch (NULL: nothing was computed) and publish. */
void stats_step(struct stats *st, int64_t now_us, const struct batch *b,
                const struct stats_level *l);

void stats_count(struct stats *st, enum stat_id s, int64_t n); /* add n to a counter */
/* Set the figures of the weights in memory (backend/ops.h). */
void stats_weights(struct stats *st, const struct weights_use *u);
/* Count a lookup in the prefix cache. */
void stats_queried(struct stats *st, int n_token, int n_found);
/* Add n_token tokens to the tokens that the last lookup found. */
void stats_found(struct stats *st, int n_token);
/* Count a prompt that is complete for the first time. */
void stats_prompt(struct stats *st, int n_token, int n_found);
/* Count a first token. us: microseconds since the request's arrival. */
void stats_first_token(struct stats *st, int64_t us);
/* Count a further token. us: microseconds since the previous token. */
void stats_token(struct stats *st, int64_t us);

/* Count an evicted page. life_us is the time since it was taken, idle_us the time since its last
 * use. */
void stats_page_evicted(struct stats *st, int64_t life_us, int64_t idle_us);
/* Count a cached page that a sequence found gap_us microseconds after its last use. */
void stats_page_found(struct stats *st, int64_t gap_us);

/* Times of a finished answer, engine clock, in microseconds; 0: the answer ended before that
 * point. */
struct answer_times {
    int64_t arrival_us, sched_us, first_us, last_us, done_us;
    int n_prompt, n_cached, max_tokens, n_choice, n_preempted;
    int n_output, n_longest; /* number of tokens of all choices; of the longest choice */
    enum stat_id done;       /* counter of the reason of the end: STAT_done_stop, ... */
};
/* Count a finished answer, its times and its numbers of tokens. */
void stats_done(struct stats *st, const struct answer_times *t);

/* ---- any thread ---- */

/* Count a refusal immediately instead of at the end of a step. why: STAT_refused_full to
 * STAT_rejected_evicted. */
void stats_refused(struct stats *st, enum stat_id why);
/* Count a time immediately instead of at the end of a step. which: TIMES_body to TIMES_tokenize. */
void stats_time(struct stats *st, enum times_id which, int64_t us);
/* Set *out to a copy of the current values. */
void stats_read(const struct stats *st, struct stats_view *out);

/* High-water marks: the highest levels from now_us - window_us to now_us, engine clock. The window
 * is clamped to [0, STATS_WINDOW_US] and begins with the slot of STATS_SLOT_US that contains its
 * start. Any thread. */
enum {
    STATS_SLOT_US = 16384,
    STATS_SLOTS = 4096,
    STATS_WINDOW_US = STATS_SLOT_US * (STATS_SLOTS - 2)
};
struct stats_marks {
    int64_t n_running, n_waiting, n_swapped, kv_ppm;
};
/* Rates per second over a window that ends at now_us, for a reading v. `busy` is the share of time
 * in steps. */
struct stats_rates {
    double flops, read_bytes, busy;
};
/* Return the rates over the window_us microseconds until now_us. v: a reading of st, borrowed for
 * the call. */
struct stats_rates stats_rates(const struct stats *st, const struct stats_view *v, int64_t now_us,
                               int64_t window_us);
/* Return the largest levels of the window_us microseconds until now_us. */
struct stats_marks stats_marks(const struct stats *st, int64_t now_us, int64_t window_us);

/* Return the difference b - a of two readings of one engine: counters and histograms of the time
 * between them, and the levels of b. */
struct stats_view stats_since(const struct stats_view *a, const struct stats_view *b);

/* Return the share of the steps' time outside the model: scheduling, sampling, events. The result
 * is 0 if there was no step. */
double stats_host_share(const struct stats_view *v);

/* An engine and its reading for stats_prometheus. */
struct stats_engine {
    const struct stats *st; /* borrowed */
    struct stats_view view; /* a reading of st */
    struct stats_marks marks;
};
/* Append the series of all engines [n] in Prometheus' text format, version 0.0.4. `prefix` is the
 * beginning of vLLM's names; NULL: "vllm:". Names of quoth begin with "quoth:". */
void stats_prometheus(const struct stats_engine *engine, int n, const char *prefix,
                      struct buf *out);
/* Append gauges of the high-water marks, after stats_prometheus. window_s: length of the window in
 * seconds, for the help. */
void stats_prometheus_marks(const struct stats_engine *engine, int n, double window_s,
                            struct buf *out);
/* Append a label with its value, escaped, and no comma. */
void stats_label(struct buf *out, const char *name, const char *value);
/* Append a line about the weights in memory, without a newline. Append nothing if there is no
 * limit. */
void stats_weights_text(const struct stats_view *v, struct buf *out);
/* Append one JSON object: {"num_requests_running": ..., "time_to_first_token_seconds": {"count",
 * "sum", "mean", "p50", "p90", "p99"}, ...}. The label distinguishes series of one name. */
void stats_json(const struct stats_view *v, struct buf *out);

#endif
