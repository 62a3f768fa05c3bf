/* flags.c - flags with vLLM's names that several measurements share; see flags.h. */
#include "flags.h"

#include "base/json.h"

#include <math.h>
#include <string.h>

/* ---- when ---- */

struct arrival_flags arrival_flags = {.rate = INFINITY, .burstiness = 1};

const struct option arrival_options[] = {
    {.kind = OPTION_REAL,
     .name = "request-rate",
     .arg = "X",
     .target = &arrival_flags.rate,
     .lo = 0,
     .hi = INFINITY,
     .help = "requests a second, at random times (inf: a trace's times; without one all at once)"},
    {.kind = OPTION_REAL,
     .name = "burstiness",
     .arg = "X",
     .target = &arrival_flags.burstiness,
     .lo = 0.01,
     .hi = 1e6,
     .help = "of random times: 1 is a Poisson process, less comes in bursts (1)"},
    {.kind = OPTION_TEXT,
     .name = "ramp-up-strategy",
     .arg = "linear|exponential",
     .target = &arrival_flags.ramp,
     .help = "the rate goes from one to another while requests come"},
    {.kind = OPTION_REAL,
     .name = "ramp-up-start-rps",
     .arg = "X",
     .target = &arrival_flags.ramp_from,
     .lo = 0,
     .hi = 1e9,
     .help = "... from"},
    {.kind = OPTION_REAL,
     .name = "ramp-up-end-rps",
     .arg = "X",
     .target = &arrival_flags.ramp_to,
     .lo = 0,
     .hi = 1e9,
     .help = "... to"},
    {.kind = OPTION_INT,
     .name = "max-concurrency",
     .arg = "N",
     .target = &arrival_flags.max_concurrency,
     .lo = 0,
     .hi = 1 << 20,
     .help = "requests under way at most; others wait outside (0: no limit)"},
    {.kind = OPTION_REAL,
     .name = "goodput-share",
     .arg = "X",
     .target = &arrival_flags.good_share,
     .lo = 0,
     .hi = 1,
     .help = "of the requests must keep the objectives of --goodput, else exit 1 (0)"},
    {.kind = OPTION_END},
};

bool arrivals_asked(void)
{
    return arrival_flags.ramp || (arrival_flags.rate > 0 && isfinite(arrival_flags.rate));
}

static int read_ramp(struct traffic_arrivals *a, struct err *e)
{
    const struct arrival_flags *f = &arrival_flags;
    a->exponential = strcmp(f->ramp, "exponential") == 0;
    if (!a->exponential && strcmp(f->ramp, "linear") != 0)
        return err_set(e, ERR_ARG, "--ramp-up-strategy: \"%.40s\" is not linear or exponential",
                       f->ramp);
    if (!(f->ramp_from > 0) || !(f->ramp_to > 0))
        return err_set(e, ERR_ARG,
                       "--ramp-up-strategy needs --ramp-up-start-rps and --ramp-up-end-rps");
    if (f->rate > 0 && isfinite(f->rate))
        return err_set(e, ERR_ARG, "--request-rate: --ramp-up-strategy sets it");
    a->rate = f->ramp_from;
    a->rate_end = f->ramp_to;
    return 0;
}

int arrivals_read(struct traffic_arrivals *a, struct err *e)
{
    double rate = arrival_flags.rate > 0 ? arrival_flags.rate : INFINITY;
    *a = (struct traffic_arrivals){rate, rate, arrival_flags.burstiness, false};
    return arrival_flags.ramp ? read_ramp(a, e) : 0;
}

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

/* ---- what ---- */

struct dataset_flags dataset_flags;
struct length_flags length_flags;
struct choice_flags choice_flags = {.n = 1};
struct random_flags random_flags = {.input_len = 1024, .output_len = 128};

const struct option dataset_options[] = {
    {.kind = OPTION_INT,
     .name = "num-prompts",
     .arg = "N",
     .target = &dataset_flags.n_prompt,
     .lo = 1,
     .hi = 1 << 24,
     .help = "requests (1000, throughput 128; of a trace at most its own)"},
    {.kind = OPTION_TEXT,
     .name = "dataset-path",
     .arg = "FILE",
     .target = &dataset_flags.path,
     .help = "a trace, or what --dataset-name says (else random lengths)"},
    {.kind = OPTION_END},
};

const struct option length_options[] = {
    {.kind = OPTION_INT,
     .name = "input-len",
     .arg = "N",
     .target = &length_flags.input_len,
     .lo = 1,
     .hi = 1 << 24,
     .help = "tokens of each prompt (latency 32, throughput 128; a dataset's own)"},
    {.kind = OPTION_INT,
     .name = "output-len",
     .arg = "N",
     .target = &length_flags.output_len,
     .lo = 1,
     .hi = 1 << 24,
     .help = "tokens of each answer (128; a dataset's own)"},
    {.kind = OPTION_END},
};

const struct option choice_options[] = {
    {.kind = OPTION_INT,
     .name = "n",
     .arg = "N",
     .target = &choice_flags.n,
     .lo = 1,
     .hi = CHOICES_MAX,
     .help = "answers to each prompt (1)"},
    {.kind = OPTION_FLAG,
     .name = "use-beam-search",
     .target = &choice_flags.beams,
     .help = "search with --n beams, instead of sampling"},
    {.kind = OPTION_END},
};

const struct option random_options[] = {
    {.kind = OPTION_INT,
     .name = "random-input-len",
     .arg = "N",
     .target = &random_flags.input_len,
     .lo = 1,
     .hi = 1 << 20,
     .help = "random prompts: their tokens (1024)"},
    {.kind = OPTION_INT,
     .name = "random-output-len",
     .arg = "N",
     .target = &random_flags.output_len,
     .lo = 1,
     .hi = 1 << 20,
     .help = "... and those of an answer (128)"},
    {.kind = OPTION_REAL,
     .name = "random-range-ratio",
     .arg = "R",
     .target = &random_flags.spread,
     .lo = 0,
     .hi = 0.999,
     .help = "... each from 1 - R to 1 + R times those (0)"},
    {.kind = OPTION_INT,
     .name = "random-prefix-len",
     .arg = "N",
     .target = &random_flags.prefix_len,
     .lo = 0,
     .hi = 1 << 20,
     .help = "... behind so many that all prompts share (0)"},
    {.kind = OPTION_END},
};

/* ---- how they are judged ---- */

struct figure_flags figure_flags = {.temperature = -1};

const struct option figure_options[] = {
    {.kind = OPTION_REAL,
     .name = "temperature",
     .arg = "X",
     .target = &figure_flags.temperature,
     .lo = 0,
     .hi = 100,
     .help = "of all requests (1; serve: the server's default)"},
    {.kind = OPTION_INT,
     .name = "seed",
     .arg = "N",
     .target = &figure_flags.seed,
     .lo = 0,
     .hi = 1ll << 53,
     .help = "of what is random in it (0)"},
    {.kind = OPTION_TEXT,
     .name = "metric-percentiles",
     .arg = "N,...",
     .target = &figure_flags.percentiles,
     .help = "of latencies (50,90,99; serve: 99)"},
    {.kind = OPTION_REAL,
     .name = "peak-tflops",
     .arg = "X",
     .target = &figure_flags.peak_tflops,
     .lo = 0,
     .hi = 1e9,
     .help = "what mfu is of (measured; serve: of the server's machine, where it tells its FLOPs)"},
    {.kind = OPTION_REAL,
     .name = "peak-gbs",
     .arg = "X",
     .target = &figure_flags.peak_gbs,
     .lo = 0,
     .hi = 1e9,
     .help = "the same of read bandwidth"},
    {.kind = OPTION_END},
};

int figures_asked(struct slo *slo, struct samples *percent, const char *otherwise, struct err *e)
{
    const char *text = figure_flags.percentiles ? figure_flags.percentiles : otherwise;
    int rc = slo_read(slo, &figure_flags.goodput, e);
    return rc ? rc : reals_read(percent, "metric-percentiles", text, 0, 100, e);
}
