/* flags.h - private to bench: what several measurements of requests are asked, under vLLM's names: when requests come,
 * what they are, how they are judged. Each flag is declared once; a command's table takes the groups that it
 * understands. */
#ifndef QUOTH_BENCH_FLAGS_H
#define QUOTH_BENCH_FLAGS_H

#include "traffic.h"

/* --request-rate, --burstiness, --ramp-up-..., --max-concurrency, --goodput-share */
extern const struct option arrival_options[];
extern struct arrival_flags {
    double rate; /* infinite, or 0: not asked for */
    double burstiness, ramp_from, ramp_to;
    const char *ramp; /* NULL: none */
    int64_t max_concurrency;
    double good_share; /* of the requests that must keep the objectives; 0: none must */
} arrival_flags;
bool arrivals_asked(void); /* by a rate or a ramp; else at a trace's times, or all at once */
int arrivals_read(struct traffic_arrivals *a, struct err *e);
/* As members of a JSON object, a comma before each. */
void arrivals_json(struct buf *b);

/* --num-prompts, --dataset-path */
extern const struct option dataset_options[];
extern struct dataset_flags {
    int64_t n_prompt; /* 0: not asked for */
    const char *path; /* NULL: none       */
} dataset_flags;

/* --input-len, --output-len */
extern const struct option length_options[];
extern struct length_flags {
    int64_t input_len, output_len; /* 0: not asked for */
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

/* --temperature, --seed, --metric-percentiles, --peak-tflops, --peak-gbs */
extern const struct option figure_options[];
extern struct figure_flags {
    double temperature; /* below 0: not asked for */
    int64_t seed;
    const char *percentiles; /* NULL: not asked for      */
    double peak_tflops, peak_gbs;
    struct text_list goodput; /* of --goodput, which each command's table has in its own form */
} figure_flags;
/* Objectives and percentiles (`otherwise`: where none are asked for). *percent is appended to, owned by the caller. */
int figures_asked(struct slo *slo, struct samples *percent, const char *otherwise, struct err *e);

#endif
