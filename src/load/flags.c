/* flags.c - flags that several measurements share, with vLLM's names.
 *
 * Each group of flags is a global struct and a list of options. A command includes the lists that
 * it supports (OPTIONS_OF), and reads the structs after parsing the command line. 0 means "not
 * set", because commands have different defaults. */
#include "flags.h"

#include "base/json.h"

#include <math.h>
#include <string.h>

/* ---- arrivals ---- */

struct arrival_flags arrival_flags = {.rate = INFINITY, .burstiness = 1};

NAMES(ramps, "linear", "exponential")

const struct option arrival_options[] = {
    REAL_OPTION("request-rate", "X", &arrival_flags.rate, 0, INFINITY,
                "requests per second, at random times (inf: at a trace's times, or all at once "
                "without a trace)"),
    REAL_OPTION("burstiness", "X", &arrival_flags.burstiness, 0.01, 1e6,
                "shape of random intervals: 1 is a Poisson process, less gives bursts (default 1)"),
    NAME_OPTION(
        "ramp-up-strategy", "linear|exponential", &arrival_flags.ramp, ramps,
        "change of the rate from --ramp-up-start-rps to --ramp-up-end-rps: linear or exponential"),
    REAL_OPTION("ramp-up-start-rps", "X", &arrival_flags.ramp_from, 0, 1e9,
                "requests per second at the beginning of a ramp"),
    REAL_OPTION("ramp-up-end-rps", "X", &arrival_flags.ramp_to, 0, 1e9,
                "requests per second at the end of a ramp"),
    INT_OPTION("max-concurrency", "N", &arrival_flags.max_concurrency, 0, 1 << 20,
               "maximum number of requests in flight; more requests wait (default 0: no limit)"),
    REAL_OPTION(
        "goodput-share", "X", &arrival_flags.good_share, 0, 1,
        "required share of requests within the objectives of --goodput, else exit 1 (default 0)"),
    OPTIONS_END,
};

/* Return true if arrivals have a finite rate or a ramp. Otherwise requests arrive at the times of
 * the trace, or all together if there is no trace. */
bool has_arrivals(void)
{
    return arrival_flags.ramp || (arrival_flags.rate > 0 && isfinite(arrival_flags.rate));
}

/* Read the flags of a ramp, which replaces the rate. Set `rate` to the rate at the beginning, and
 * rate_end to the rate at the end. */
static int read_ramp(struct traffic_arrivals *a, struct err *e)
{
    const struct arrival_flags *f = &arrival_flags;
    a->exponential = strcmp(f->ramp, "exponential") == 0;
    if (!(f->ramp_from > 0) || !(f->ramp_to > 0))
        return err_set(e, ERR_ARG,
                       "--ramp-up-strategy needs --ramp-up-start-rps and --ramp-up-end-rps");
    if (f->rate > 0 && isfinite(f->rate))
        return err_set(e, ERR_ARG, "--request-rate: must not come with --ramp-up-strategy, got %g",
                       f->rate);
    a->rate = f->ramp_from;
    a->rate_end = f->ramp_to;
    return 0;
}

/* Without a ramp, rate and rate_end are equal. A rate of 0 is not set, and means an infinite
 * rate. */
int arrivals_read(struct traffic_arrivals *a, struct err *e)
{
    double rate = arrival_flags.rate > 0 ? arrival_flags.rate : INFINITY;
    *a = (struct traffic_arrivals){rate, rate, arrival_flags.burstiness, false};
    return arrival_flags.ramp ? read_ramp(a, e) : 0;
}

/* Append the settings with vLLM's names and forms. An infinite rate is the text "inf", and "no
 * limit" is null. */
void arrivals_json(struct buf *b)
{
    const struct arrival_flags *f = &arrival_flags;
    if (f->rate > 0 && isfinite(f->rate))
        json_member_real(b, "request_rate", f->rate);
    else
        json_member_text(b, "request_rate", "inf");
    json_member_real(b, "burstiness", f->burstiness);
    if (f->max_concurrency)
        json_member_int(b, "max_concurrency", f->max_concurrency);
    else
        json_member_text(b, "max_concurrency", NULL);
    if (!f->ramp) return;
    json_member_text(b, "ramp_up_strategy", f->ramp);
    json_member_real(b, "ramp_up_start_rps", f->ramp_from);
    json_member_real(b, "ramp_up_end_rps", f->ramp_to);
}

/* ---- contents ---- */

struct dataset_flags dataset_flags;
struct length_flags length_flags;
struct choice_flags choice_flags = {.n = 1};
struct random_flags random_flags = {.input_len = 1024, .output_len = 128};

/* options of the number and the source of requests */
const struct option dataset_options[] = {
    INT_OPTION("num-prompts", "N", &dataset_flags.n_prompt, 1, 1 << 24,
               "number of requests (default 1000, throughput 128; at most those of a trace)"),
    TEXT_OPTION(
        "dataset-path", "FILE", &dataset_flags.path,
        "file with a trace, or for serve the file of --dataset-name (default: random lengths)"),
    OPTIONS_END,
};

/* Lengths for offline measurements. 0: the default of the command. */
const struct option length_options[] = {
    INT_OPTION(
        "input-len", "N", &length_flags.input_len, 1, 1 << 24,
        "tokens of each prompt (default: the dataset's, else 32 for latency, 128 for throughput)"),
    INT_OPTION("output-len", "N", &length_flags.output_len, 1, 1 << 24,
               "tokens of each answer (default: the dataset's, else 128)"),
    OPTIONS_END,
};

const struct option choice_options[] = {
    INT_OPTION("n", "N", &choice_flags.n, 1, CHOICES_MAX, "answers to each prompt (default 1)"),
    FLAG_OPTION("use-beam-search", &choice_flags.beams,
                "search with --n beams, instead of sampling"),
    OPTIONS_END,
};

/* lengths of random prompts, with the names of vllm bench serve */
const struct option random_options[] = {
    INT_OPTION("random-input-len", "N", &random_flags.input_len, 1, 1 << 20,
               "tokens of a random prompt (default 1024)"),
    INT_OPTION("random-output-len", "N", &random_flags.output_len, 1, 1 << 20,
               "tokens of the answer to a random prompt (default 128)"),
    REAL_OPTION("random-range-ratio", "R", &random_flags.spread, 0, 0.999,
                "spread of both random lengths: a factor from 1 - R to 1 + R (default 0)"),
    INT_OPTION("random-prefix-len", "N", &random_flags.prefix_len, 0, 1 << 20,
               "additional tokens at the beginning that all random prompts share (default 0)"),
    OPTIONS_END,
};

/* ---- objectives and figures ---- */

struct figure_flags figure_flags;

/* Check a list of percentiles in [0, 100]. */
static int percentiles_form(const char *text, struct err *e)
{
    return list_form_reals(text, 0, 100, e);
}

const struct option figure_options[] = {
    INT_OPTION("seed", "N", &figure_flags.seed, 0, 1ll << 53,
               "seed of all random choices (default 0)"),
    FORM_OPTION("metric-percentiles", "N,...", &figure_flags.percentiles, percentiles_form,
                "percentiles of latencies (default 50,90,99; serve: 99)"),
    REAL_OPTION(
        "peak-tflops", "X", &figure_flags.peak_tflops, 0, 1e9,
        "peak TFLOP/s of the machine, the basis of mfu (default: measured; serve: the server's)"),
    REAL_OPTION(
        "peak-gbs", "X", &figure_flags.peak_gbs, 0, 1e9,
        "peak read bandwidth in GB/s, the basis of mbu (default: measured; serve: the server's)"),
    OPTIONS_END,
};

/* `fallback` has the command's default percentiles. */
int figures_read(struct slo *slo, struct samples *percent, const char *fallback, struct err *e)
{
    const char *text = figure_flags.percentiles ? figure_flags.percentiles : fallback;
    int rc = slo_read(slo, &figure_flags.goodput, e);
    return rc ? rc : list_read_reals(percent, text, 0, 100, e);
}

/* Require KEY=VALUE for a header. Reject CR and LF, which would begin another header. */
int flags_pair_form(const char *text, struct err *e)
{
    const char *equals = strchr(text, '=');
    return equals && equals > text && !strpbrk(text, "\r\n") ? 0 : form_wrong(e, "KEY=VALUE", text);
}
