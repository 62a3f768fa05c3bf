/* schedule.c - quoth bench schedule: effects of the scheduling policies on a trace of real
 * requests. The clock is virtual (simulate.h). The command prints one of three tables:
 *
 *   (default)   latency under every policy, at several loads
 *   --pools     prefix cache hits by the number of pages
 *   --flood     effect of a flood by one key on another key */
#include "plot.h"
#include "simulate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Options. The cost model's defaults were measured (see command.detail): step and row in
 * milliseconds, kv and pair in microseconds. */
static const char *policies, *loads = "0.9,1.2", *pools, *out_path;
static int64_t n_slice, n_request = 2000, n_seq = 32, n_row = 512, n_page = 8192, starvation_s;
static double step_ms = 30, row_ms = 2, kv_us = 1.7, pair_us = 0.85, multiple = 2;
static bool flood, as_json;

enum { PAGE_ROWS = 16, POLICIES_MAX = 16, POOLS_MAX = 32 };
static const double LOAD_MIN = 1e-6;

/* Return the list of valid words of --policies: "all", then the engine's policies. NULL ends the
 * list. */
static const char *policy_names(int i)
{
    return i == 0 ? "all" : policy_name(i - 1);
}

static int loads_form(const char *text, struct err *e)
{
    return list_form_reals(text, LOAD_MIN, INFINITY, e);
}

/* Parse --pools. The arrays of a plot limit the number of pool sizes. */
static int read_pools(struct ids *list, const char *text, struct err *e)
{
    int rc = list_read_ints(list, text, 1, 1 << 22, e);
    return rc == 0 && list->n > POOLS_MAX
               ? err_set(e, ERR_ARG, "must have at most %d numbers, got %zu", POOLS_MAX, list->n)
               : rc;
}

static int pools_form(const char *text, struct err *e)
{
    struct ids list = {0};
    int rc = read_pools(&list, text, e);
    vec_deinit(&list);
    return rc;
}

static const struct option options[] = {
    NAME_OPTION("policies", "NAME,...", &policies, policy_names,
                "policies to measure (default all; --flood: fcfs,fair)", .many = true),
    FORM_OPTION("load", "X,...", &loads, loads_form,
                "load relative to the engine's capacity; inf: all at once (default 0.9,1.2)"),
    INT_OPTION("requests", "N", &n_request, 1, 1 << 24,
               "number of requests to take from the beginning of the trace (default 2000)",
               .letter = 'n'),
    INT_OPTION("max-num-seqs", "N", &n_seq, 1, 1024, "maximum concurrent sequences (default 32)"),
    INT_OPTION("max-num-batched-tokens", "N", &n_row, 1, 1 << 16, "rows of a step (default 512)"),
    INT_OPTION("num-gpu-blocks-override", "N", &n_page, 1, 1 << 22,
               "pages of 16 tokens (default 8192)"),
    INT_OPTION("starvation-s", "N", &starvation_s, 0, 1 << 30,
               "wait after which a request runs first (default 0: a quarter of the time of all "
               "requests)"),
    INT_OPTION("time-slice-tokens", "N", &n_slice, 0, 1 << 30,
               "--scheduler round_robin: tokens of a time slice (default 0: 128)"),
    REAL_OPTION(
        "itl-multiple", "X", &multiple, 1, 1e6,
        "maximum time of a step with prompts, as a multiple of a step without prompts (default 2)"),
    REAL_OPTION("step-ms", "X", &step_ms, 0, 1e6, "cost model: time of a step (default 30)"),
    REAL_OPTION("row-ms", "X", &row_ms, 0, 1e6, "cost model: time of each row (default 2)"),
    REAL_OPTION("kv-us", "X", &kv_us, 0, 1e6,
                "cost model: time of each read of a token's K and V (default 1.7)"),
    REAL_OPTION(
        "pair-us", "X", &pair_us, 0, 1e6,
        "cost model: time of each pair of a prompt's row and an earlier token (default 0.85)"),
    FORM_OPTION(
        "pools", "N,...", &pools, pools_form,
        "measure prefix cache hits of a trace with hash ids instead, by blocks in the pool"),
    FLAG_OPTION("flood", &flood,
                "measure a flood instead: one key sends three times the capacity, and another key "
                "sends 0.4 of the capacity"),
    TEXT_OPTION("output", "FILE.svg", &out_path, "also write a picture", .letter = 'o'),
    FLAG_OPTION("json", &as_json, "print one JSON object per row"),
    OPTIONS_END,
};

/* ---- the options as lists ---- */

/* Return the simulation that the command line describes, without policy and load. The host memory
 * has as many pages as the pool. */
static struct sim_options base_options(void)
{
    struct sim_cost cost = {.step = step_ms * 1e3,
                            .row = row_ms * 1e3,
                            .kv = kv_us,
                            .pair = pair_us,
                            .page = sim_cost_default.page};
    return (struct sim_options){.cost = cost,
                                .n_seq = (int)n_seq,
                                .n_row = (int)n_row,
                                .n_page = (int)n_page,
                                .page_rows = PAGE_ROWS,
                                .n_host_page = (int)n_page,
                                .itl_multiple = multiple,
                                .starvation_us = starvation_s * 1000000,
                                .slice_tokens = (int)n_slice,
                                .progress = "simulating"};
}

/* Return true if the policy was requested. */
static bool is_wanted(const char *name)
{
    const char *list = policies ? policies : flood ? "fcfs,fair" : "all";
    return strcmp(list, "all") == 0 || list_has(list, name);
}

/* ---- latency under every policy ---- */

/* Figures of one kind of latency over all requests, in seconds. */
struct latency_figures {
    double mean, p50, p99, max; /* seconds */
};

/* Return the figures of samples. Percentiles are measured values (nearest rank). */
static struct latency_figures figures_of(struct samples *s)
{
    /* samples_median has sorted s */
    struct latency_figures f = {.mean = samples_mean(s), .p50 = samples_median(s)};
    f.p99 = samples_nearest(s, 99);
    f.max = samples_nearest(s, 100);
    return f;
}

/* The three kinds of latency in a row: time to first token, time to completion, longest wait
 * without progress. */
enum what { FIRST, DONE, WAIT };

/* Set *out to one kind of latency of all requests, in seconds. */
static int collect(struct samples *out, const struct sim_result *r, enum what w, struct err *e)
{
    out->n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct sim_trace *s = &r->trace[i];
        int64_t us = w == FIRST  ? s->first_us - s->arrival_us
                     : w == DONE ? s->done_us - s->arrival_us
                                 : s->wait_us;
        if (!vec_push(out, (double)us * 1e-6)) return err_memory(e, "samples", sizeof us * r->n);
    }
    return 0;
}

static void print_head(void)
{
    if (as_json) return;
    printf("%-11s %5s | %29s | %29s | %8s | %9s\n", "", "", "first token, s", "completion, s",
           "longest", "output");
    printf("%-11s %5s | %9s %9s %9s | %9s %9s %9s | %8s | %9s\n", "policy", "load", "mean", "p50",
           "p99", "mean", "p50", "p99", "wait, s", "tokens/s");
}

/* Print a row. In JSON, infinite load is null. */
static void print_row(const char *policy, double load, const struct latency_figures f[3],
                      double rate)
{
    if (!as_json) {
        printf("%-11s %5.3g | %9.2f %9.2f %9.2f | %9.2f %9.2f %9.2f | %8.1f | %9.1f\n", policy,
               load, f[FIRST].mean, f[FIRST].p50, f[FIRST].p99, f[DONE].mean, f[DONE].p50,
               f[DONE].p99, f[WAIT].max, rate);
    } else {
        printf("{\"policy\":\"%s\",\"load\":", policy);
        printf(isfinite(load) ? "%g" : "null", load);
        printf(",\"mean_ttft_s\":%.6f,\"p50_ttft_s\":%.6f,\"p99_ttft_s\":%.6f", f[FIRST].mean,
               f[FIRST].p50, f[FIRST].p99);
        printf(",\"mean_e2el_s\":%.6f,\"p50_e2el_s\":%.6f,\"p99_e2el_s\":%.6f", f[DONE].mean,
               f[DONE].p50, f[DONE].p99);
        printf(",\"longest_wait_s\":%.6f,\"output_tokens_per_s\":%.3f}\n", f[WAIT].max, rate);
    }
    fflush(stdout);
}

/* The distribution of completion times at the last load, for the picture. */
struct sketch {
    struct plot_curve curve[POLICIES_MAX];
    double *x[POLICIES_MAX], *y; /* points of each policy, owned */
    size_t n;
};

/* Copy the sorted latencies as a curve. All curves share y, because all policies have equally many
 * requests. */
static int sketch_add(struct sketch *k, const char *name, const struct samples *done, struct err *e)
{
    size_t n = done->n;
    if (k->n == POLICIES_MAX) return 0;
    if (!k->y) k->y = calloc(n, sizeof *k->y);
    double *x = calloc(n, sizeof *x);
    if (!x || !k->y) return free(x), err_memory(e, "a picture", n * sizeof *x);
    memcpy(x, done->v, n * sizeof *x);
    for (size_t i = 0; i < n; i++) k->y[i] = 100 * (double)(i + 1) / (double)n;
    k->x[k->n] = x;
    k->curve[k->n++] = (struct plot_curve){.name = name, .x = x, .y = k->y, .n = n};
    return 0;
}

/* Write the picture if rc is 0, and always free the sketch. Return rc, or the error of writing. */
static int sketch_end(struct sketch *k, int rc, double load, struct err *e)
{
    char title[80];
    snprintf(title, sizeof title, "Completion times at load %g", load);
    struct plot p = {.title = title,
                     .x_title = "seconds from arrival to the last token",
                     .y_title = "% of requests",
                     .log_x = true,
                     .y_max = 100,
                     .curve = k->curve,
                     .n_curve = k->n};
    if (rc == 0 && out_path && k->n) rc = plot_write(out_path, &p, e);
    for (size_t i = 0; i < k->n; i++) free(k->x[i]);
    free(k->y);
    return rc;
}

/* Simulate one policy and print its row. Only completion times are drawn. */
static int one_row(const struct traffic *t, struct sim_options o, double load, struct sketch *k,
                   struct err *e)
{
    struct sim_result r;
    struct samples s = {0};
    struct latency_figures f[3];
    o.at_once = !isfinite(load);
    int rc = simulate(&r, t, &o, e);
    for (int w = WAIT; rc == 0 && w >= FIRST; w--) {
        rc = collect(&s, &r, (enum what)w, e);
        if (rc == 0) f[w] = figures_of(&s);
        if (rc == 0 && w == DONE && k && out_path) rc = sketch_add(k, o.scheduler, &s, e);
    }
    if (rc == 0) print_row(o.scheduler, load, f, (double)r.n_output / ((double)r.us * 1e-6));
    vec_deinit(&s);
    sim_result_close(&r);
    return rc;
}

/* Print the row of static batching of all jobs, for comparison with the engine. */
static void padded_row(const struct traffic *t, const struct sim_options *o)
{
    double n = 0, s = (double)sim_padded_us(t, o) * 1e-6;
    for (size_t i = 0; i < t->n; i++) n += t->v[i].n_output;
    if (as_json)
        printf("{\"policy\":\"padded\",\"load\":null,\"output_tokens_per_s\":%.3f}\n", n / s);
    else
        printf("%-11s %5s | %29s | %29s | %8s | %9.1f\n", "padded", "inf", "", "", "", n / s);
}

/* Scale arrivals so that the last job arrives at until_us. At load 1, until_us is the time that the
 * engine needs for all jobs. */
static void scale(struct traffic *t, double until_us)
{
    double last = (double)t->v[t->n - 1].arrival_us;
    if (last > 0) traffic_faster(t, last / until_us);
}

/* Print every policy at one load. At infinite load, all jobs arrive at the beginning. */
static int rows_of_load(struct traffic *t, struct sim_options o, double load, int64_t all_us,
                        struct sketch *k, struct err *e)
{
    int rc = 0;
    if (isfinite(load)) scale(t, (double)all_us / load);
    for (int q = 0; policy_name(q) && rc == 0; q++) {
        o.scheduler = policy_name(q);
        if (is_wanted(o.scheduler)) rc = one_row(t, o, load, k, e);
    }
    if (rc == 0 && !isfinite(load)) padded_row(t, &o);
    return rc;
}

/* Measure latencies by load. The capacity is measured first, because loads are relative to it. The
 * limit of starvation also depends on the capacity. */
static int latencies(struct traffic *t, struct err *e)
{
    struct sim_options o = base_options();
    struct sketch k = {0};
    struct samples load = {0};
    int64_t all_us = 0;
    int rc = list_read_reals(&load, loads, LOAD_MIN, INFINITY, e);
    if (rc == 0) rc = sim_capacity(&all_us, t, &o, e);
    if (o.starvation_us == 0) o.starvation_us = all_us / 4;
    if (rc == 0) {
        fprintf(stderr,
                "%zu requests; load 1: all requests in %.0f s; a request has priority after a wait "
                "of %.0f s\n",
                t->n, (double)all_us * 1e-6, (double)o.starvation_us * 1e-6);
        print_head();
    }
    for (size_t i = 0; i < load.n && rc == 0; i++)
        rc = rows_of_load(t, o, load.v[i], all_us, i == load.n - 1 ? &k : NULL, e);
    rc = sketch_end(&k, rc, load.n ? load.v[load.n - 1] : 0, e);
    vec_deinit(&load);
    return rc;
}

/* ---- prefix cache hits by pool size ---- */

/* Measure hits by pool size. A block of 512 tokens (BLOCK_TOKENS) is reduced to one page of 16
 * tokens. A pool of n pages therefore contains n blocks of the trace, and the simulation is 32
 * times faster. */
static int hits(const struct traffic *t, struct err *e)
{
    enum { SHRINK = BLOCK_TOKENS / PAGE_ROWS };
    struct ids list = {0};
    struct sim_options o = base_options();
    double x[POOLS_MAX], y[POOLS_MAX];
    size_t n = 0;
    /* steps take no time, because only the pages affect the hits */
    o.cost = (struct sim_cost){.step = 10000};
    o.shrink = SHRINK;
    /* steps are large and have no time limit, so that the order of requests depends only on the
     * trace */
    o.n_row = 1 << 14;
    o.itl_multiple = 1e6;
    int rc = read_pools(&list, pools, e);
    if (rc == 0 && !as_json) printf("%9s | %8s\n", "pages", "hit rate");
    for (size_t i = 0; i < list.n && rc == 0; i++) {
        struct sim_result r;
        o.n_page = list.v[i];
        if ((rc = simulate(&r, t, &o, e)) != 0) break;
        x[n] = o.n_page;
        y[n++] = 100 * (double)r.n_hit / (double)r.n_query;
        printf(as_json ? "{\"pages\":%d,\"hit_rate\":%.4f}\n" : "%9d | %7.2f%%\n", o.n_page,
               as_json ? y[n - 1] / 100 : y[n - 1]);
        fflush(stdout);
        sim_result_close(&r);
    }
    vec_deinit(&list);
    struct plot_curve curve = {.name = "hit rate", .x = x, .y = y, .n = n};
    struct plot p = {.title = "Prefix cache hits by pool size",
                     .x_title = "pages of 512 tokens",
                     .y_title = "% of prompt tokens found",
                     .log_x = true,
                     .y_max = 100,
                     .curve = &curve,
                     .n_curve = 1};
    return rc == 0 && out_path ? plot_write(out_path, &p, e) : rc;
}

/* ---- fairness ---- */

/* Print how a policy protects one key from another key that floods the engine. */
static int floods(const struct traffic *t, struct err *e)
{
    struct sim_options o = base_options();
    struct sim_fairness f;
    int rc = 0;
    if (!as_json)
        printf("%-11s | %27s | %27s\n%-11s | %8s %8s %9s | %8s %8s %9s\n", "", "first token, s",
               "completion, s", "policy", "fair", "flooded", "ratio", "fair", "flooded", "ratio");
    for (int q = 0; policy_name(q) && rc == 0; q++) {
        o.scheduler = policy_name(q);
        if (!is_wanted(o.scheduler)) continue;
        if ((rc = sim_flood(&f, t, &o, e)) != 0) break;
        printf(as_json
                   ? "{\"policy\":\"%s\",\"fair_ttft_s\":%.4f,\"ttft_s\":%.4f,\"ttft_ratio\":%.4f,"
                     "\"fair_e2el_s\":%.4f,\"e2el_s\":%.4f,\"e2el_ratio\":%.4f}\n"
                   : "%-11s | %8.2f %8.2f %8.2fx | %8.2f %8.2f %8.2fx\n",
               o.scheduler, f.fair_first_s, f.first_s, f.first_s / f.fair_first_s, f.fair_done_s,
               f.done_s, f.done_s / f.fair_done_s);
        fflush(stdout);
    }
    return rc;
}

/* Run the command. The options select the table. --pools has precedence over --flood. */
static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct traffic t = {.seed = 1};
    int rc = n_arg == 1 ? traffic_read(&t, arg[0], (size_t)n_request, &e)
                        : err_set(&e, ERR_ARG,
                                  "expected one trace, got %d: quoth bench schedule FILE", n_arg);
    if (rc == 0) rc = pools ? hits(&t, &e) : flood ? floods(&t, &e) : latencies(&t, &e);
    traffic_close(&t);
    return rc ? fail("bench schedule", &e) : 0;
}

const struct command command_bench_schedule = {
    .name = "bench schedule",
    .summary = "scheduling policies on a trace of real requests, on a virtual clock",
    .usage = "TRACE [OPTIONS]",
    .detail =
        "Run the engine with all of its parts except the model. The time of a step is --step-ms, "
        "and --row-ms for each row. A step also has --kv-us for each token that a sequence "
        "attends to, and --pair-us for each pair of a prompt's row and an earlier token. The "
        "defaults are "
        "the times of a model with 1.2 B parameters in Q4_0 on two cores. TRACE is a file of "
        "arrivals in a format of quoth bench replay. At load 1, the last request arrives at the "
        "time when the engine would complete all requests if they arrived at once. Load inf "
        "shows the throughput. The row padded is static batching: prompts are padded to the "
        "longest prompt, and every sequence is computed until the last sequence is complete. "
        "With --pools, a block of 512 tokens is one page, steps take no time, and the hits of "
        "the prefix cache are counted. With --flood, a quarter of the requests are of a key that "
        "sends 0.4 of the capacity. All other requests are of a key that sends three times the "
        "capacity. The column fair is the mean latency of the first key alone, on a machine with "
        "half the speed and half the room.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
