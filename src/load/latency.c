/* latency.c - quoth bench latency: end-to-end time of one batch of requests, as vllm bench latency
 * measures it.
 *
 * All requests of an iteration arrive together. An iteration's latency is the time from the first
 * arrival to the last token. The prefix cache is off, because every iteration uses the same prompts
 * and would find them in the cache. */
#include "trial.h"

#include <stdlib.h>

static int64_t batch_size = 8, n_warmup = 2, n_iter = 10;
static bool prefix_cache;

static const struct option options[] = {
    INT_OPTION("batch-size", "N", &batch_size, 1, 4096, "concurrent requests (default 8)"),
    INT_OPTION("num-iters-warmup", "N", &n_warmup, 0, 10000, "number of warm-up runs (default 2)"),
    INT_OPTION("num-iters", "N", &n_iter, 1, 10000, "number of measured runs (default 10)"),
    FLAG_OPTION("enable-prefix-caching", &prefix_cache,
                "reuse cached prefixes (default off, as in vllm)"),
    OPTIONS_OF(length_options),
    OPTIONS_OF(choice_options),
    OPTIONS_OF(trial_options),
    OPTIONS_END,
};

/* Return the length of prompts. The default is the default of vLLM. */
static int input_len(void)
{
    return length_flags.input_len ? (int)length_flags.input_len : 32;
}

static int output_len(void)
{
    return length_flags.output_len ? (int)length_flags.output_len : 128;
}

/* Run the batch n_warmup + n_iter times. Only the last n_iter runs are recorded. */
static int iterate(struct trial *b, struct samples *seconds, struct err *e)
{
    int rc = 0;
    for (int64_t i = 0; i < n_warmup + n_iter && rc == 0; i++) {
        rc = trial_run(b, 0, (int)choice_flags.n, e);
        double s = (double)client_trace_span_us(b->result.trace, b->result.n, NULL) * 1e-6;
        if (rc == 0 && i >= n_warmup && !vec_push(seconds, s))
            rc = err_memory(e, "latencies", sizeof(double));
    }
    return rc;
}

/* Append the figures to the JSON and the text. The list of latencies is appended before it is
 * sorted, so it has the order of the runs. */
static void put_latencies(struct trial *b, struct samples *s)
{
    static const int percent[] = {10, 25, 50, 75, 90, 99};
    double sd = latency_sd(s);
    buf_addf(&b->json, ",\"avg_latency\":%.6f,\"std_latency\":%.6f,\"latencies\":[",
             samples_mean(s), sd);
    for (size_t i = 0; i < s->n; i++) buf_addf(&b->json, "%s%.6f", i ? "," : "", s->v[i]);
    buf_add_text(&b->json, "],\"percentiles\":{");
    buf_addf(&b->text, "\nbatch of %d, %d in, %d out: %.4f s, sd %.4f, over %zu runs\n",
             (int)batch_size, input_len(), output_len(), samples_mean(s), sd, s->n);
    samples_sort(s);
    for (int i = 0; i < 6; i++) {
        double x = samples_percentile(s, percent[i]);
        buf_addf(&b->json, "%s\"%d\":%.6f", i ? "," : "", percent[i], x);
        buf_addf(&b->text, "%3d%% percentile latency: %.4f seconds\n", percent[i], x);
    }
    buf_add_text(&b->json, "}");
}

/* Run all iterations and report. The jobs are made first, because trial_open computes the size of
 * the KV cache from the jobs. */
static int measure(struct trial *b, const char *model, struct err *e)
{
    struct samples seconds = {0};
    b->t.seed = (uint64_t)figure_flags.seed;
    int rc = traffic_random(&b->t, (size_t)batch_size, input_len(), output_len(), 0, e);
    if (rc == 0)
        rc = trial_open(b, model,
                        &(struct trial_setup){.offline = true, .prefix_cache = prefix_cache}, e);
    if (rc == 0) rc = iterate(b, &seconds, e);
    if (rc == 0) rc = trial_figures(b, e);
    if (rc == 0) put_latencies(b, &seconds);
    if (rc == 0) rc = trial_print(b, false, e);
    vec_deinit(&seconds);
    return rc;
}

static int run(int n_arg, char **arg)
{
    return trial_main("bench latency", measure, n_arg, arg);
}

const struct command command_bench_latency = {
    .name = "bench latency",
    .summary = "latency of a batch of requests",
    .usage = "[MODEL] [OPTIONS]",
    .detail =
        "Options and JSON keys are those of vllm bench latency (avg_latency, std_latency, "
        "latencies, percentiles). All other figures are from the last run. As in vllm, the prefix "
        "cache is off.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
