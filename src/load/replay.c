/* replay.c - quoth bench replay: sends a trace of real requests through the real engine at their
 * original times. Options and JSON keys are those of vllm bench serve, which measures a server.
 *
 * The command exits with 1 in two cases, so that scripts and long tests can detect a failure. In
 * the first case, fewer than --goodput-share of the requests meet the objectives of --goodput. In
 * the second case, memory grew by more than --memory-growth-max. */
#include "trial.h"

#include "base/json.h"

enum { N_PROMPT = 1000 }; /* default of --num-prompts */

static double rate_scale = 1, length = 1, growth_mib;
static bool detail;

static const struct option options[] = {
    OPTIONS_OF(dataset_options),
    REAL_OPTION("rate-scale", "X", &rate_scale, 1e-6, 1e6,
                "factor by which the trace is accelerated (default 1)"),
    REAL_OPTION("length-scale", "X", &length, 1e-6, 1e3,
                "factor of the lengths, except of prompts with block ids (default 1)"),
    REAL_OPTION("memory-growth-max", "MIB", &growth_mib, 0, 1e9,
                "exit 1 if memory except KV pages grows by more in the last 3/4 of the run "
                "(default 0: never)"),
    FLAG_OPTION("save-detailed", &detail, "add each request's lengths and times to the JSON"),
    OPTIONS_OF(cache_options),
    OPTIONS_OF(arrival_options),
    OPTIONS_OF(random_options),
    OPTIONS_OF(trial_options),
    OPTIONS_END,
};

/* ---- requests ---- */

/* Return a length times --length-scale, at least 1 and at most 2^20. */
static int scaled(int n)
{
    double x = n * length;
    return x < 1 ? 1 : x > 1 << 20 ? 1 << 20 : (int)x;
}

/* Make the jobs of a trace or of random lengths. A trace keeps its times unless a rate is given.
 * --rate-scale is applied last, so it scales the times of traces and of random arrivals. Prompts
 * with block ids keep their lengths, because the ids determine their tokens. */
static int make_jobs(struct traffic *t, struct err *e)
{
    struct traffic_arrivals a;
    const char *path = dataset_flags.path;
    size_t n = (size_t)(dataset_flags.n_prompt ? dataset_flags.n_prompt : N_PROMPT);
    t->seed = (uint64_t)figure_flags.seed;
    t->n_prefix = (int)random_flags.prefix_len;
    int rc = arrivals_read(&a, e);
    if (rc == 0)
        rc = path ? traffic_read(t, path, n, e)
                  : traffic_random(t, n, (int)random_flags.input_len, (int)random_flags.output_len,
                                   random_flags.spread, e);
    if (rc != 0) return rc;
    if (!path || has_arrivals()) traffic_arrive(t, &a);
    traffic_faster(t, rate_scale);
    for (size_t i = 0; i < t->n; i++) {
        if (!t->v[i].n_block) t->v[i].n_prompt = scaled(t->v[i].n_prompt);
        t->v[i].n_output = scaled(t->v[i].n_output);
    }
    return 0;
}

/* ---- results ---- */

/* Append the results of the two checks. Return true if both limits are met. A limit of 0 is always
 * met. */
static bool verdict(struct trial *b)
{
    double part = goodput_share(&b->figures.client);
    double grown = (double)traffic_growth(&b->result) / 1048576;
    bool good = part >= arrival_flags.good_share, flat = growth_mib <= 0 || grown <= growth_mib;
    buf_addf(&b->json, ",\"slo_met\":%s,\"memory_flat\":%s", good ? "true" : "false",
             flat ? "true" : "false");
    buf_addf(&b->text, "\n%.1f %% of the requests within the objectives, %.1f %% required: %s\n",
             100 * part, 100 * arrival_flags.good_share, good ? "met" : "MISSED");
    buf_addf(&b->text, "memory grew by %.1f MiB in the last three quarters of the time%s\n", grown,
             flat ? "" : ": TOO MUCH");
    return good && flat;
}

/* Measure a replay. Memory is compared with its value at a quarter of the run. The pages are
 * touched before the run, so that their first use does not count as growth. */
static int measure(struct trial *b, const char *model, struct err *e)
{
    int rc = make_jobs(&b->t, e);
    struct trial_setup o = {.prefix_cache = prefix_cache_flag, .touch_pages = growth_mib > 0};
    if (rc == 0) rc = trial_open(b, model, &o, e);
    if (rc == 0) rc = trial_run(b, (int)arrival_flags.max_concurrency, 1, e);
    if (rc == 0) rc = trial_figures(b, e);
    if (rc != 0) return rc;
    arrivals_json(&b->json);
    json_member_real(&b->json, "rate_scale", rate_scale);
    b->good = verdict(b);
    return trial_print(b, detail, e);
}

static int run(int n_arg, char **arg)
{
    return trial_main("bench replay", measure, n_arg, arg);
}

const struct command command_bench_replay = {
    .name = "bench replay",
    .summary = "replay recorded requests at their times, or random requests",
    .usage = "[MODEL] [--dataset-path TRACE] [OPTIONS]",
    .detail =
        "A trace is Azure's csv (TIMESTAMP,ContextTokens,GeneratedTokens), vidur's csv "
        "(num_prefill_tokens,num_decode_tokens) or Mooncake's jsonl. Prompts of a Mooncake trace "
        "with equal hash_ids at the beginning begin with equal tokens. Without --dataset-path, "
        "1000 requests of random lengths arrive (--num-prompts, --random-input-len). The JSON has "
        "the keys of vllm bench serve. The JSON also has mfu, bandwidth_share, cpu_share, watts, "
        "host_share, memory and the engine's statistics.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
