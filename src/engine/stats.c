/* stats.c - the engine's statistics. The engine thread counts in plain memory during a step and
 * publishes at its end (stats.h). stats_text.c formats readings.
 *
 * Publishing is a sequence lock over words: `version` is odd while words are written. A reader
 * repeats its copy if the version is odd, or changed during the copy. All words are relaxed
 * atomics, and fences order them against the version. Therefore sanitizers report no data race. */
#include "stats_impl.h"

#include "base/check.h"

#include <stdatomic.h>
#include <stdlib.h>

/* ---- the table of figures ---- */

#define ONE  STAT_ONE
#define US   STAT_US
#define PPM  STAT_PPM
#define VLLM STAT_VLLM
#define OWN  STAT_OWN

#define GAUGE(id, unit, space, name, label, help) {#id, name, label, help, STAT_GAUGE, unit, space},
#define COUNTER(id, unit, space, name, label, help)                                                \
    {#id, name, label, help, STAT_COUNTER, unit, space},
#define HISTOGRAM(id, unit, space, name, bounds, help)
const struct stat_info stat_info[STAT_COUNT] = {
#include "stats.def"
};
#undef GAUGE
#undef COUNTER
#undef HISTOGRAM

#define GAUGE(id, unit, space, name, label, help)
#define COUNTER(id, unit, space, name, label, help)
#define HISTOGRAM(id, unit, space, name, bounds, help)                                             \
    {#id, name, "", help, STAT_HISTOGRAM, unit, space},
const struct stat_info times_info[TIMES_COUNT] = {
#include "stats.def"
};
#undef HISTOGRAM

double stat_scale(enum stat_unit u)
{
    return u == STAT_ONE ? 1 : 1e-6;
}

/* Bounds of histograms in the stored units, ended by 0. The bounds are equal to vLLM's bounds, so
 * that dashboards for vLLM can show these series. */
#define MS 1000
#define S  1000000
static const int64_t bound_first_token[] = {
    1 * MS,   5 * MS,   10 * MS, 20 * MS,           40 * MS, 60 * MS,   80 * MS, 100 * MS, 250 * MS,
    500 * MS, 750 * MS, 1 * S,   2500 * MS,         5 * S,   7500 * MS, 10 * S,  20 * S,   40 * S,
    80 * S,   160 * S,  640 * S, (int64_t)2560 * S, 0};
static const int64_t bound_per_token[] = {10 * MS,  25 * MS,  50 * MS,   75 * MS,  100 * MS,
                                          150 * MS, 200 * MS, 300 * MS,  400 * MS, 500 * MS,
                                          750 * MS, 1 * S,    2500 * MS, 5 * S,    7500 * MS,
                                          10 * S,   20 * S,   40 * S,    80 * S,   0};
static const int64_t bound_request[] = {300 * MS,
                                        500 * MS,
                                        800 * MS,
                                        1 * S,
                                        1500 * MS,
                                        2 * S,
                                        2500 * MS,
                                        5 * S,
                                        10 * S,
                                        15 * S,
                                        20 * S,
                                        30 * S,
                                        40 * S,
                                        50 * S,
                                        60 * S,
                                        120 * S,
                                        240 * S,
                                        480 * S,
                                        960 * S,
                                        (int64_t)1920 * S,
                                        (int64_t)7680 * S,
                                        0};
/* quoth's own bounds, for times that are mostly in vLLM's first bucket */
static const int64_t bound_fine[] = {
    100,      200,   500,   1 * MS, 2 * MS, 5 * MS, 10 * MS, 20 * MS, 50 * MS, 100 * MS, 200 * MS,
    500 * MS, 1 * S, 2 * S, 5 * S,  10 * S, 20 * S, 50 * S,  100 * S, 200 * S, 500 * S,  0};
static const int64_t bound_step[] = {1,   8,    16,   32,   64,   128,   256,
                                     512, 1024, 2048, 4096, 8192, 16384, 0};
static const int64_t bound_per_step[] = {
    500,      1 * MS,   2 * MS,  5 * MS,    10 * MS,  20 * MS,  30 * MS,
    40 * MS,  50 * MS,  75 * MS, 100 * MS,  150 * MS, 200 * MS, 300 * MS,
    500 * MS, 750 * MS, 1 * S,   2500 * MS, 5 * S,    10 * S,   0};
static const int64_t bound_residency[] = {1 * MS,   2 * MS,   5 * MS,   10 * MS, 20 * MS, 50 * MS,
                                          100 * MS, 200 * MS, 500 * MS, 1 * S,   2 * S,   5 * S,
                                          10 * S,   20 * S,   30 * S,   60 * S,  120 * S, 300 * S,
                                          600 * S,  1200 * S, 1800 * S, 0};
static const int64_t bound_choices[] = {1, 2, 5, 10, 20, 0};
static const int64_t bound_preemptions[] = {1, 2, 3, 4, 5, 10, 20, 0};

/* Fill in 1, 2, 5, 10 ... up to the longest sequence. */
static void bounds_125(int64_t *bound, int64_t max)
{
    static const int64_t mantissa[] = {1, 2, 5};
    int n = 0;
    for (int64_t ten = 1; ten <= 1000 * 1000 * 1000; ten *= 10)
        for (int i = 0; i < 3 && n < HISTOGRAM_BOUNDS_MAX; i++)
            if (n == 0 || mantissa[i] * ten <= max) bound[n++] = mantissa[i] * ten;
    bound[n] = 0;
}

/* Return the number of bounds before the 0 at the end. */
static int n_bound(const int64_t *bound)
{
    int n = 0;
    while (bound[n]) n++;
    return n;
}

static void init_times(struct stats *st)
{
    const int64_t *const bound_tokens = st->bound_tokens;
    bounds_125(st->bound_tokens, st->options.context_max);
#define HISTOGRAM(id, unit, space, name, bounds, help)                                             \
    histogram_init(&st->now.times[TIMES_##id], bound_##bounds, n_bound(bound_##bounds));
#include "stats.def"
#undef HISTOGRAM
}

/* ---- open, publish, read ---- */

/* A reading is copied as words, because only atomic words may be read while another thread
 * writes. */
enum { N_WORD = sizeof(struct stats_view) / sizeof(uint64_t) };
_Static_assert(sizeof(struct stats_view) % sizeof(uint64_t) == 0, "a reading is whole words");
_Static_assert(sizeof(uintptr_t) <= sizeof(uint64_t), "a pointer fits into a word");

/* Copy the counts to the words that readers read. Only the engine thread calls this function, so
 * `version` needs no read-modify-write operation. */
static void publish(struct stats *st)
{
    uint64_t word[N_WORD];
    memcpy(word, &st->now, sizeof word);
    uint64_t v = atomic_load_explicit(&st->version, memory_order_relaxed);
    atomic_store_explicit(&st->version, v + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (int i = 0; i < N_WORD; i++)
        atomic_store_explicit(&st->word[i], word[i], memory_order_relaxed);
    atomic_store_explicit(&st->version, v + 2, memory_order_release);
}

/* Copy e. Compute the count as the sum of the buckets, so that the count and the buckets agree
 * while other threads add. */
static void read_early(const struct early *e, struct histogram *out)
{
    out->n = 0;
    out->sum = atomic_load_explicit(&e->sum, memory_order_relaxed);
    for (int i = 0; i <= out->n_bound; i++)
        out->n += out->count[i] = atomic_load_explicit(&e->count[i], memory_order_relaxed);
}

/* Repeat the copy until no publication happened during it. Figures of other threads (refusals,
 * early times) are added afterwards. */
void stats_read(const struct stats *st, struct stats_view *out)
{
    uint64_t word[N_WORD], v;
    do {
        v = atomic_load_explicit(&st->version, memory_order_acquire);
        for (int i = 0; i < N_WORD; i++)
            word[i] = atomic_load_explicit(&st->word[i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
    } while (v % 2 || atomic_load_explicit(&st->version, memory_order_relaxed) != v);
    memcpy(out, word, sizeof word);
    for (int i = 0; i < N_REFUSED; i++)
        out->value[STAT_refused_full + i] =
            atomic_load_explicit(&st->n_refused[i], memory_order_relaxed);
    for (int i = 0; i < N_EARLY; i++) read_early(&st->early[i], &out->times[TIMES_body + i]);
}

int stats_open(struct stats **out, const struct stats_options *o, struct err *e)
{
    struct stats *st = *out = calloc(1, sizeof *st);
    if (!st) return err_memory(e, "the statistics", sizeof *st);
    st->options = *o;
    init_times(st);
    st->now.value[STAT_pages_total] = o->n_page;
    st->now.value[STAT_awake] = 1;
    publish(st);
    return 0;
}

void stats_close(struct stats *st)
{
    free(st);
}

/* ---- one step ---- */

void stats_begin(struct stats *st, int64_t now_us)
{
    st->begin_us = st->lap_us = now_us;
    st->n_lap = 0;
}

/* Number the laps by their order in a step: schedule, forward, sample, commit. */
void stats_lap(struct stats *st, int64_t now_us)
{
    st->lap[st->n_lap++ % STATS_LAPS] = now_us - st->lap_us;
    st->lap_us = now_us;
}

int64_t stats_lap_us(const struct stats *st, int i)
{
    CHECK(i >= 0 && i < STATS_LAPS, "lap %d", i);
    return st->lap[i];
}

/* Count the positions that the batch's rows attend to, and the positions whose K and V its
 * sequences hold. The counts are estimates from the model's sizes. A multiplication and an addition
 * are two operations. */
static void count_work(struct stats *st, const struct batch *b)
{
    const struct step_cost *c = &st->options.cost;
    int64_t n_pair = 0, n_held = 0, *v = st->now.value;
    for (int i = 0; i < b->n_row; i++) n_pair += b->pos[i] + 1;
    for (int i = 0; i < b->n_seq; i++) n_held += b->kv_len[i];
    v[STAT_flops] +=
        2 * (c->row_macs * b->n_row + c->output_macs * b->n_out + c->pair_macs * n_pair);
    v[STAT_read_bytes] +=
        c->layer_bytes + (b->n_out ? c->head_bytes : 0) + c->kv_row_bytes * n_held;
    v[STAT_write_bytes] += c->kv_row_bytes * b->n_row;
}

/* Add the figures of a step that ran the model. */
static void count_step(struct stats *st, const struct batch *b)
{
    int64_t *v = st->now.value;
    v[STAT_steps]++;
    v[STAT_rows] += b->n_row;
    v[STAT_outputs] += b->n_out;
    for (int i = 0; i < STATS_LAPS; i++) v[STAT_schedule_us + i] += st->lap[i];
    int64_t n_token = v[STAT_prompt_tokens] + v[STAT_generation_tokens];
    histogram_add(&st->now.times[TIMES_step_tokens], n_token - st->n_token_before);
    st->n_token_before = n_token;
    histogram_add(&st->now.times[TIMES_step_rows], b->n_row);
    histogram_add(&st->now.times[TIMES_step_us], st->lap_us - st->begin_us);
    count_work(st, b);
}

/* ---- high-water marks: a ring of time slots with the highest levels of each slot ---- */

/* Return the share of held pages in millionths. */
static int64_t kv_ppm(const struct stats *st, const struct stats_level *l)
{
    return st->options.n_page ? (int64_t)l->n_page_held * 1000000 / st->options.n_page : 0;
}

/* Read a mark. Marks are independent figures, so relaxed atomics are enough. */
static int32_t get(const _Atomic int32_t *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

static void set(_Atomic int32_t *x, int32_t value)
{
    atomic_store_explicit(x, value, memory_order_relaxed);
}

/* Set the sums of a reading. The sums are floating operations, bytes read, and busy
 * microseconds. */
static void read_sums(const struct stats_view *v, int64_t sum[N_SUM])
{
    sum[0] = v->value[STAT_flops];
    sum[1] = v->value[STAT_read_bytes];
    sum[2] = 0;
    for (int i = 0; i < STATS_LAPS; i++) sum[2] += v->value[STAT_schedule_us + i];
}

/* Open slots up to `slot`. Each slot begins with the last levels of the previous slot. */
static void open_slots(struct stats *st, int64_t slot)
{
    int64_t from = st->slot + 1;
    if (from < slot - STATS_SLOTS + 1) from = slot - STATS_SLOTS + 1;
    int64_t sum[N_SUM];
    read_sums(&st->now, sum);
    for (int64_t s = from; s <= slot; s++) {
        for (int k = 0; k < N_MARK; k++) set(&st->mark[s % STATS_SLOTS][k], get(&st->level[k]));
        for (int k = 0; k < N_SUM; k++)
            atomic_store_explicit(&st->sum[s % STATS_SLOTS][k], sum[k], memory_order_relaxed);
    }
    if (st->slot == 0) atomic_store_explicit(&st->slot_first, slot, memory_order_relaxed);
    st->slot = slot;
}

/* Raise the marks of the current slot. Levels stay until the next call, so new slots begin with
 * them. */
void stats_peak(struct stats *st, int64_t now_us, const struct stats_level *l)
{
    const int32_t level[N_MARK] = {l->n_running, l->n_waiting, l->n_swapped,
                                   (int32_t)kv_ppm(st, l)};
    int64_t slot = now_us / STATS_SLOT_US;
    if (slot > st->slot) open_slots(st, slot);
    _Atomic int32_t *mark = st->mark[st->slot % STATS_SLOTS];
    for (int k = 0; k < N_MARK; k++) {
        set(&st->level[k], level[k]);
        if (level[k] > get(&mark[k])) set(&mark[k], level[k]);
    }
    atomic_store_explicit(&st->slot_last, st->slot, memory_order_release);
}

/* Return the first slot of a window that is valid: neither overwritten nor before the first
 * slot. */
static int64_t first_slot(const struct stats *st, int64_t last, int64_t now_us, int64_t window_us)
{
    int64_t begin = atomic_load_explicit(&st->slot_first, memory_order_relaxed);
    if (window_us > STATS_WINDOW_US) window_us = STATS_WINDOW_US;
    int64_t first = (now_us - (window_us > 0 ? window_us : 0)) / STATS_SLOT_US;
    if (first < last - STATS_SLOTS + 2) first = last - STATS_SLOTS + 2;
    return first < begin ? begin : first;
}

/* Divide the difference of two sums by the time between them. The two times are now and the start
 * of slot `first`. */
struct stats_rates stats_rates(const struct stats *st, const struct stats_view *v, int64_t now_us,
                               int64_t window_us)
{
    int64_t last = atomic_load_explicit(&st->slot_last, memory_order_acquire), sum[N_SUM];
    int64_t first = first_slot(st, last, now_us, window_us);
    double s = (double)(now_us - first * STATS_SLOT_US) * 1e-6;
    if (first > last || s <= 0) return (struct stats_rates){0};
    read_sums(v, sum);
    for (int k = 0; k < N_SUM; k++)
        sum[k] -= atomic_load_explicit(&st->sum[first % STATS_SLOTS][k], memory_order_relaxed);
    return (struct stats_rates){(double)sum[0] / s, (double)sum[1] / s, (double)sum[2] * 1e-6 / s};
}

/* Include the current levels, even if their slot is older than the window. */
struct stats_marks stats_marks(const struct stats *st, int64_t now_us, int64_t window_us)
{
    int64_t last = atomic_load_explicit(&st->slot_last, memory_order_acquire), max[N_MARK];
    int64_t first = first_slot(st, last, now_us, window_us);
    for (int k = 0; k < N_MARK; k++) max[k] = get(&st->level[k]);
    for (int64_t s = first; s <= last; s++)
        for (int k = 0; k < N_MARK; k++) {
            int32_t x = get(&st->mark[s % STATS_SLOTS][k]);
            if (x > max[k]) max[k] = x;
        }
    return (struct stats_marks){max[0], max[1], max[2], max[3]};
}

/* ---- a step's end ---- */

void stats_step(struct stats *st, int64_t now_us, const struct batch *b,
                const struct stats_level *l)
{
    int64_t *v = st->now.value;
    stats_peak(st, now_us, l);
    v[STAT_swapped_now] = l->n_swapped;
    v[STAT_running] = l->n_running;
    v[STAT_waiting] = l->n_waiting;
    v[STAT_waiting_deferred] = l->deferred ? l->n_waiting : 0;
    v[STAT_waiting_capacity] = l->deferred ? 0 : l->n_waiting;
    v[STAT_kv_usage] = kv_ppm(st, l);
    v[STAT_pages_cached] = l->n_page_cached;
    if (b) count_step(st, b);
    publish(st);
}

/* ---- tokens and answers ---- */

void stats_count(struct stats *st, enum stat_id s, int64_t n)
{
    st->now.value[s] += n;
}

void stats_weights(struct stats *st, const struct weights_use *u)
{
    int64_t *v = st->now.value;
    v[STAT_weights_limit] = u->limit;
    v[STAT_weights_bytes] = u->n_byte;
    v[STAT_weights_dense_uses] = (int64_t)(u->n_use - u->n_routed_use);
    v[STAT_weights_expert_uses] = (int64_t)u->n_routed_use;
    v[STAT_weights_dense_hits] = (int64_t)(u->n_hit - u->n_routed_hit);
    v[STAT_weights_expert_hits] = (int64_t)u->n_routed_hit;
    v[STAT_weights_reads] = (int64_t)u->n_read;
    v[STAT_weights_bytes_read] = (int64_t)u->n_byte_read;
    v[STAT_weights_waits] = (int64_t)u->n_wait;
    v[STAT_weights_wait_us] = u->wait_us;
    v[STAT_weights_drops] = (int64_t)u->n_drop;
}

/* Count queries only with a prefix cache. Without a prefix cache, they would give a hit rate of
 * 0. */
void stats_queried(struct stats *st, int n_token, int n_found)
{
    if (!st->options.prefix_cache) return;
    st->now.value[STAT_cache_queries] += n_token;
    st->now.value[STAT_cache_hits] += n_found;
}

void stats_found(struct stats *st, int n_token)
{
    if (st->options.prefix_cache) st->now.value[STAT_cache_hits] += n_token;
}

void stats_prompt(struct stats *st, int n_token, int n_found)
{
    int64_t *v = st->now.value;
    v[STAT_prompt_tokens] += n_token;
    v[STAT_prompt_computed] += n_token - n_found;
    v[STAT_prompt_found] += n_found;
    v[STAT_prompt_cached] += n_found;
}

void stats_first_token(struct stats *st, int64_t us)
{
    histogram_add(&st->now.times[TIMES_ttft], us);
    st->now.value[STAT_generation_tokens]++;
}

void stats_token(struct stats *st, int64_t us)
{
    histogram_add(&st->now.times[TIMES_itl], us);
    histogram_add(&st->now.times[TIMES_itl_fine], us);
    st->now.value[STAT_generation_tokens]++;
}

void stats_page_evicted(struct stats *st, int64_t life_us, int64_t idle_us)
{
    histogram_add(&st->now.times[TIMES_page_life], life_us);
    histogram_add(&st->now.times[TIMES_page_idle], idle_us);
}

void stats_page_found(struct stats *st, int64_t gap_us)
{
    histogram_add(&st->now.times[TIMES_page_gap], gap_us);
}

/* Count the phases that exist only if the answer began. */
static void count_phases(struct stats *st, const struct answer_times *t)
{
    struct histogram *h = st->now.times;
    histogram_add(&h[TIMES_queue], t->sched_us - t->arrival_us);
    histogram_add(&h[TIMES_queue_fine], t->sched_us - t->arrival_us);
    histogram_add(&h[TIMES_inference], (t->last_us ? t->last_us : t->done_us) - t->sched_us);
    int64_t prefill = (t->first_us ? t->first_us : t->done_us) - t->sched_us;
    histogram_add(&h[TIMES_prefill], prefill);
    histogram_add(&h[TIMES_prefill_fine], prefill);
    if (!t->first_us || t->n_longest < 1) return;
    histogram_add(&h[TIMES_decode], t->last_us - t->first_us);
    histogram_add(&h[TIMES_e2el_per_token], (t->done_us - t->arrival_us) / t->n_longest);
    if (t->n_longest > 1)
        histogram_add(&h[TIMES_tpot], (t->last_us - t->first_us) / (t->n_longest - 1));
}

/* Record the times of an answer. A request that never ran (sched_us 0) has no phases. */
void stats_done(struct stats *st, const struct answer_times *t)
{
    struct histogram *h = st->now.times;
    CHECK(t->done >= STAT_done_stop && t->done <= STAT_done_repetition, "figure %d", (int)t->done);
    st->now.value[t->done]++;
    histogram_add(&h[TIMES_e2el], t->done_us - t->arrival_us);
    histogram_add(&h[TIMES_e2el_fine], t->done_us - t->arrival_us);
    histogram_add(&h[TIMES_prompt], t->n_prompt);
    histogram_add(&h[TIMES_generation], t->n_output);
    histogram_add(&h[TIMES_max_generation], t->n_longest);
    histogram_add(&h[TIMES_params_n], t->n_choice);
    histogram_add(&h[TIMES_params_max_tokens], t->max_tokens);
    histogram_add(&h[TIMES_preempted], t->n_preempted);
    if (t->sched_us) {
        histogram_add(&h[TIMES_computed], t->n_prompt - t->n_cached);
        count_phases(st, t);
    }
}

/* Count a refusal by an atomic addition. Any thread. */
void stats_refused(struct stats *st, enum stat_id why)
{
    CHECK(why >= STAT_refused_full && why < STAT_refused_full + N_REFUSED, "figure %d", (int)why);
    atomic_fetch_add_explicit(&st->n_refused[why - STAT_refused_full], 1, memory_order_relaxed);
}

/* Add a time without a change of the engine's histograms. Any thread. */
void stats_time(struct stats *st, enum times_id which, int64_t us)
{
    CHECK(which >= TIMES_body && which <= TIMES_tokenize, "times %d", (int)which);
    struct early *e = &st->early[which - TIMES_body];
    /* this function reads only the bounds, which never change */
    const struct histogram *h = &st->now.times[which];
    int64_t i = histogram_bucket(h, us);
    atomic_fetch_add_explicit(&e->sum, us, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->count[i], 1, memory_order_relaxed);
}

/* ---- readings ---- */

/* Subtract counters and histograms. Gauges keep the later value. */
struct stats_view stats_since(const struct stats_view *a, const struct stats_view *b)
{
    struct stats_view d = *b;
    for (int i = 0; i < STAT_COUNT; i++)
        if (stat_info[i].kind == STAT_COUNTER) d.value[i] -= a->value[i];
    for (int i = 0; i < TIMES_COUNT; i++) {
        d.times[i].n -= a->times[i].n;
        d.times[i].sum -= a->times[i].sum;
        for (int k = 0; k <= HISTOGRAM_BOUNDS_MAX; k++) d.times[i].count[k] -= a->times[i].count[k];
    }
    return d;
}

/* Return the share of a step's time outside of the model. */
double stats_host_share(const struct stats_view *v)
{
    int64_t all = 0;
    for (int i = 0; i < STATS_LAPS; i++) all += v->value[STAT_schedule_us + i];
    return all > 0 ? 1 - (double)v->value[STAT_forward_us] / (double)all : 0;
}
