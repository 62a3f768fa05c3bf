/* measure.h - private to bench: what the measurements of quoth bench share. */
#ifndef QUOTH_BENCH_MEASURE_H
#define QUOTH_BENCH_MEASURE_H

#include "option/option.h"

#include "kern/kern.h"

/* ---- figures ---- */

/* Samples of one quantity. */
struct bench_samples {
    double *v; /* owned */
    size_t n, cap;
};
double bench_mean(const struct bench_samples *s);
double bench_sd(const struct bench_samples *s); /* of the sample; 0 of fewer than two */
double bench_max(const struct bench_samples *s);
double bench_median(struct bench_samples *s); /* sorts them */
void bench_sort(struct bench_samples *s);
double bench_percentile(const struct bench_samples *sorted, double percent);

/* "1,2,8" -> numbers in [lo, hi], appended; "" and "none" are none. ERR_ARG names --flag. */
int bench_numbers(struct ids *out, const char *flag, const char *text, int lo, int hi,
                  struct err *e);
int bench_most(const struct ids *list, int otherwise);

/* ---- limit.c: what the machine allows, measured beside what it does ---- */

/* How activations enter a linear layer: what multiplies them. */
enum bench_kind { BENCH_INT8, BENCH_BF16, BENCH_F32, N_BENCH_KIND };
extern const char *const bench_kind_name[N_BENCH_KIND];
enum bench_kind bench_kind(enum qtype t); /* into a layer of that type        */
enum bench_kind
bench_kind_of_model(const struct checkpoint *c); /* ... that most weights are in   */
peak_fn *bench_peak_fn(const struct peak *p, enum bench_kind k); /* NULL: the level has none */

/* Bytes and operations a second on all threads; 0: not known. */
struct bench_limit {
    double read, ops;
};
struct bench_limits;
/* Of that backend's level and threads. Takes up to 1 GiB to read from. */
int bench_limits_open(struct bench_limits **out, struct backend *b, struct err *e);
void bench_limits_close(struct bench_limits *l);                                /* NULL is fine */
struct bench_limit bench_limits_now(struct bench_limits *l, enum bench_kind k); /* NULL: zeros */
/* Read so much else that nothing of what was used before is left in a cache. */
void bench_limits_spoil(struct bench_limits *l);
/* x as a part of the mean of what was measured before and after it: "87.3%", or "-" where there is
 * no limit. In JSON a number or null. */
const char *bench_share(char out[16], double x, double before, double after);
const char *bench_share_json(char out[16], double x, double before, double after);

/* ---- batch.c: batches as an engine would make them ---- */

/* Random tokens at consecutive positions; the sequences' pages interleaved, as they are when
 * sequences grow side by side. */
struct bench_batch {
    struct batch batch; /* owned */
    int n_seq_max, page_rows, n_vocab;
    uint64_t rng;
};
int bench_batch_open(struct bench_batch *b, const struct batch_limits *l, int page_rows,
                     int n_vocab, struct err *e);
void bench_batch_close(struct bench_batch *b); /* safe on a zeroed one */
/* Append sequence number `seq` with n rows from pos0 on; want_logits: of the last row. */
void bench_batch_add(struct bench_batch *b, int seq, int pos0, int n, bool want_logits);
int32_t bench_batch_page(const struct bench_batch *b, int seq, int i);

/* ---- model.c: whole forward passes, without an engine or a sampler ---- */

/* `n_seq` sequences that each hold `depth` tokens take n_token more: a prompt's all in one go
 * (n_seq is 1; as many rows a step as fit), else one each per step. */
struct bench_case {
    bool prompt;
    int n_token, n_seq, depth;
};

struct bench_model;
/* The session's batch limits and pages must hold all cases: n_seq_max sequences. */
int bench_model_open(struct bench_model **out, struct session *s, int n_seq_max, struct err *e);
void bench_model_close(struct bench_model *b); /* NULL is fine */
/* The cases of one depth belong together: to reach another, its prefix is computed. One run that is
 * not counted, then n_repeat: seconds each, appended. */
int bench_model_run(struct bench_model *b, const struct bench_case *c, int n_repeat,
                    struct bench_samples *seconds, struct err *e);
/* One run, in seconds. */
double bench_model_time(struct bench_model *b, const struct bench_case *c);
/* Of the logits of the case's last step (of its first, where it generates). */
uint64_t bench_model_bits(struct bench_model *b, const struct bench_case *c);
/* What the thread pool did in the runs that counted, of the last case. */
struct pool_stats bench_model_threads(const struct bench_model *b);

/* ---- quoth bench kernels: what is measured, and its two tables, to standard output ---- */

struct bench_plan {
    struct ids prompt, gen, batch, depth; /* owned: what those options list */
    int n_batch_gen, n_repeat;
    int n_seq, context; /* the most that any case needs */
    bool no_depth;      /* none was asked for; depth is 0 */
    bool as_json, limits;
};
enum { BENCH_CASES_MAX = 256 };
/* "pp512", "tg128", "tg32 x 8" */
void bench_case_name(char *out, size_t n, const struct bench_case *c);
/* The cases of one depth, in order: how many, at most n_max. */
int bench_cases(struct bench_case *out, int n_max, const struct bench_plan *p, int depth);
/* A session that can hold them all. */
int bench_session(struct session *s, const struct bench_plan *p, const char *model, struct err *e);
/* Whole models: a row per --prompt, --gen and --batch at each --depth. */
int bench_rows(const char *model, const struct bench_plan *p, struct err *e);
/* The same cases with each of the backend's fusions and without it, in turns. */
int bench_fusion(const char *model, const struct bench_plan *p, struct err *e);
/* The backend's ops, one by one. `names`: of ops, separated by commas, or "all". */
int bench_ops(const char *model, const char *names, const struct bench_plan *p, struct err *e);

#endif
