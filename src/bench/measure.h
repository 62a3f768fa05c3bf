/* measure.h - private to bench: what measurements are made of: samples and what they amount to, the limits
 * of the machine beside them, batches and forward passes without an engine. */
#ifndef QUOTH_BENCH_MEASURE_H
#define QUOTH_BENCH_MEASURE_H

#include "option/option.h"

#include "kern/kern.h"

/* ---- samples.c: figures, and lists that flags give ---- */

/* Samples of one quantity. */
struct samples {
    double *v; /* owned */
    size_t n, cap;
};
double samples_mean(const struct samples *s);
double samples_sd(const struct samples *s); /* of the sample; 0 of fewer than two */
double samples_max(const struct samples *s);
double samples_median(struct samples *s); /* sorts them */
void samples_sort(struct samples *s);
double samples_percentile(const struct samples *sorted, double percent);

/* Of how many percent of the samples it is the largest: one of them, nothing between two. 0 of none. */
double samples_nearest(const struct samples *sorted, double percent);

/* "1,2,8" -> numbers in [lo, hi], appended; "" and "none" are none. ERR_ARG names --flag. */
int numbers_read(struct ids *out, const char *flag, const char *text, int lo, int hi,
                 struct err *e);
int numbers_most(const struct ids *list, int otherwise);
/* "50,90,99.9" -> the same of any numbers; "" is none. */
int reals_read(struct samples *out, const char *flag, const char *text, double lo, double hi,
               struct err *e);
bool is_listed(const char *list, const char *name); /* is it one of "a,b,c"? */

/* ---- limit.c: what the machine allows, measured beside what it does ---- */

/* How activations enter a linear layer: what multiplies them. */
enum arith { ARITH_INT8, ARITH_BF16, ARITH_F32, N_ARITH };
extern const char *const arith_name[N_ARITH];
enum arith arith_of(enum qtype t);                       /* into a layer of that type        */
enum arith arith_of_model(const struct checkpoint *c);   /* ... that most weights are in   */
peak_fn *arith_peak(const struct peak *p, enum arith k); /* NULL: the level has none */

/* Memory whose reading is timed: more than caches hold. */
struct reading {
    uint8_t *data; /* owned */
    size_t n_byte;
};
/* So many MiB, or a quarter of what is free, touched by the pool's threads. */
int reading_open(struct reading *r, struct pool *p, uint64_t mib, struct err *e);
void reading_close(struct reading *r); /* safe on a zeroed one */
/* Bytes a second, in so many microseconds. */
double reading_rate(const struct reading *r, struct pool *p, int us);

/* Bytes and operations a second on all threads; 0: not known. */
struct limit {
    double read, ops;
};
struct limits;
/* Of that backend's level and threads. Takes up to 1 GiB to read from. */
int limits_open(struct limits **out, struct backend *b, struct err *e);
void limits_close(struct limits *l);                     /* NULL is fine */
struct limit limits_now(struct limits *l, enum arith k); /* NULL: zeros */
/* Read so much else that nothing of what was used before is left in a cache. */
void limits_spoil(struct limits *l);
/* x as a part of the mean of what was measured before and after it: "87.3%", or "-" where there is
 * no limit. In JSON a number or null. */
const char *share_text(char out[16], double x, double before, double after);
const char *share_json(char out[16], double x, double before, double after);

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
                    struct samples *seconds, struct err *e);
/* One run, in seconds. */
double bench_model_time(struct bench_model *b, const struct bench_case *c);
/* Of the logits of the case's last step (of its first, where it generates). */
uint64_t bench_model_bits(struct bench_model *b, const struct bench_case *c);
/* What the thread pool did in the runs that counted, of the last case. */
struct pool_stats bench_model_threads(const struct bench_model *b);

#endif
