/* flags.h - private to load: flags that several measurements share, with vLLM's names. The flags
 * define arrivals, contents and objectives of requests. Each flag is declared once. A command's
 * table includes the groups that it supports. Main thread only. */
#ifndef QUOTH_LOAD_FLAGS_H
#define QUOTH_LOAD_FLAGS_H

#include "traffic.h"

/* --request-rate, --burstiness, --ramp-up-..., --max-concurrency, --goodput-share */
extern const struct option arrival_options[];
extern struct arrival_flags {
    double rate; /* requests per second; infinite or 0: no rate is given */
    double burstiness, ramp_from, ramp_to;
    const char *ramp; /* --ramp-up-strategy, borrowed from the arguments; NULL: no ramp */
    int64_t max_concurrency;
    double good_share; /* required share of requests within the objectives; 0: no requirement */
} arrival_flags;
bool has_arrivals(void); /* Return true if a rate or a ramp is given. */
/* Set *a by the flags. ERR_ARG for a ramp without its rates, or for a ramp with --request-rate. */
int arrivals_read(struct traffic_arrivals *a, struct err *e);
/* Append the flags as members of a JSON object, each after a comma. */
void arrivals_json(struct buf *b);

/* --num-prompts, --dataset-path */
extern const struct option dataset_options[];
extern struct dataset_flags {
    int64_t n_prompt; /* --num-prompts; 0: not given */
    const char *path; /* --dataset-path, borrowed from the arguments; NULL: not given */
} dataset_flags;

/* --input-len, --output-len */
extern const struct option length_options[];
extern struct length_flags {
    int64_t input_len, output_len; /* --input-len, --output-len; 0: not given */
} length_flags;

/* --n, --use-beam-search */
extern const struct option choice_options[];
extern struct choice_flags {
    int64_t n;
    bool beams;
} choice_flags;

/* --random-input-len, --random-output-len, --random-range-ratio, --random-prefix-len */
extern const struct option random_options[];
extern struct random_flags {
    int64_t input_len, output_len, prefix_len;
    double spread;
} random_flags;

/* --seed, --metric-percentiles, --peak-tflops, --peak-gbs */
extern const struct option figure_options[];
extern struct figure_flags {
    int64_t seed;
    const char
        *percentiles; /* --metric-percentiles, borrowed from the arguments; NULL: not given */
    double peak_tflops, peak_gbs;
    struct text_list goodput; /* objectives; each command declares its own --goodput */
} figure_flags;
/* Parse objectives and percentiles. Append the percentiles to *percent, which the caller owns.
 * fallback: the default percentiles. ERR_ARG for a wrong form or a number outside [0, 100],
 * ERR_MEMORY. */
int figures_read(struct slo *slo, struct samples *percent, const char *fallback, struct err *e);

/* Check a text KEY=VALUE (a form_fn). ERR_ARG if the key or the '=' is missing. */
int flags_pair_form(const char *text, struct err *e);

#endif
