/* throughput.c - quoth bench throughput: tokens per second if all requests arrive at the beginning,
 * as in vllm bench throughput. The command also prints two shares:
 *
 *   host share    share of the engine's steps outside the model, from the engine's statistics
 *   kernel share  share of the same batches in the model alone, afterwards (traffic_steps.c) */
#include "trial.h"

/* N_PROMPT: number of requests. LENGTH: tokens of prompts and answers. */
enum { N_PROMPT = 128, LENGTH = 128 }; /* defaults of the flags */

static int64_t prefix_len;
static double range_ratio;
static bool kernels = true;

static const struct option options[] = {
    OPTIONS_OF(dataset_options),
    REAL_OPTION("random-range-ratio", "R", &range_ratio, 0, 0.999,
                "spread of random lengths: a factor from 1 - R to 1 + R (default 0)"),
    INT_OPTION("prefix-len", "N", &prefix_len, 0, 1 << 20,
               "additional tokens at the beginning that all random prompts share (default 0)"),
    FLAG_OPTION(
        "kernels", &kernels,
        "afterwards run the same steps through the kernels alone (default on; --no-kernels)"),
    OPTIONS_OF(cache_options),
    OPTIONS_OF(length_options),
    OPTIONS_OF(choice_options),
    OPTIONS_OF(trial_options),
    OPTIONS_END,
};

/* Make the jobs. The times of a trace are ignored, because all requests arrive at the beginning.
 * Lengths of the command line replace the lengths of the trace, except for prompts of block ids. */
static int make_jobs(struct traffic *t, struct err *e)
{
    const int input_len = (int)length_flags.input_len, output_len = (int)length_flags.output_len;
    size_t n = (size_t)(dataset_flags.n_prompt ? dataset_flags.n_prompt : N_PROMPT);
    t->seed = (uint64_t)figure_flags.seed;
    t->n_prefix = (int)prefix_len;
    if (!dataset_flags.path)
        return traffic_random(t, n, input_len ? input_len : LENGTH,
                              output_len ? output_len : LENGTH, range_ratio, e);
    int rc = traffic_read(t, dataset_flags.path, n, e);
    for (size_t i = 0; i < t->n; i++) {
        t->v[i].arrival_us = 0;
        if (input_len && !t->v[i].n_block) t->v[i].n_prompt = input_len;
        if (output_len) t->v[i].n_output = output_len;
    }
    return rc;
}

/* Append the totals. kernel_share is null if there is no log, or if the log has fewer than two
 * steps. */
static int put_totals(struct trial *b, struct err *e)
{
    const struct client_figures *f = &b->figures.client;
    buf_addf(&b->json,
             ",\"elapsed_time\":%.6f,\"num_requests\":%zu,\"total_num_tokens\":%lld,"
             "\"requests_per_second\":%.6f,\"tokens_per_second\":%.6f",
             f->seconds, f->n_completed, (long long)(f->n_input + f->n_output), f->request_rate,
             f->total_rate);
    buf_addf(&b->text, "\nThroughput: %.2f requests/s, %.2f total tokens/s, %.2f output tokens/s\n",
             f->request_rate, f->total_rate, f->output_rate);
    int64_t engine_us = 0, kernel_us = 0;
    int n = 0;
    bool known = b->log && step_log_times(b->log, &engine_us, &kernel_us, &n, e) && engine_us > 0;
    if (b->log && !known && e->text[0]) return ERR_MEMORY;
    double share = known ? (double)kernel_us / (double)engine_us : 0;
    buf_addf(&b->json, known ? ",\"kernel_share\":%.4f" : ",\"kernel_share\":null", share);
    if (known)
        buf_addf(&b->text,
                 "%d steps took %.3f s, the kernels alone %.3f s for them: %.1f %% of their speed; "
                 "outside the model %.2f %% by the engine's own clock\n",
                 n, (double)engine_us * 1e-6, (double)kernel_us * 1e-6, 100 * share,
                 100 * b->figures.host_share);
    return 0;
}

/* Run all requests once. The log of steps is opened only if the kernel share is requested, because
 * the log takes memory. */
static int measure(struct trial *b, const char *model, struct err *e)
{
    int rc = make_jobs(&b->t, e);
    struct trial_setup o = {.offline = true,
                            .prefix_cache = prefix_cache_flag,
                            .log_bytes = kernels ? TRIAL_LOG_BYTES : 0};
    if (rc == 0) rc = trial_open(b, model, &o, e);
    if (rc == 0) rc = trial_run(b, 0, (int)choice_flags.n, e);
    if (rc == 0) rc = trial_figures(b, e);
    if (rc == 0) rc = put_totals(b, e);
    return rc ? rc : trial_print(b, false, e);
}

static int run(int n_arg, char **arg)
{
    return trial_main("bench throughput", measure, n_arg, arg);
}

const struct command command_bench_throughput = {
    .name = "bench throughput",
    .summary = "tokens per second of many waiting requests",
    .usage = "[MODEL] [OPTIONS]",
    .detail =
        "Options and JSON keys are those of vllm bench throughput (elapsed_time, num_requests, "
        "total_num_tokens, requests_per_second, tokens_per_second). --scheduler static is the "
        "baseline of continuous batching.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
