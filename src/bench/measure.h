/* measure.h - private to bench: shared parts of measurements: samples and statistics, the limits of
 * the machine, batches and forward passes without an engine. */
#ifndef QUOTH_BENCH_MEASURE_H
#define QUOTH_BENCH_MEASURE_H

#include "option/option.h"

#include "kern/kern.h"
#include "session/session.h"

/* ---- samples.c: figures, and lists that flags give ---- */

/* Samples of one quantity. */
struct samples {
    double *v; /* owned */
    size_t n, cap;
};
double samples_mean(const struct samples *s);
double samples_sd(const struct samples *s); /* 0 for fewer than two values */
double samples_max(const struct samples *s);
double samples_median(struct samples *s); /* sorts s */
void samples_sort(struct samples *s);
double samples_percentile(const struct samples *sorted, double percent);

/* Return a percentile by nearest rank: one of the samples, not interpolated. 0 if there are
 * none. */
double samples_nearest(const struct samples *sorted, double percent);

/* Append the numbers of "1,2,8", each in [lo, hi]; "" and "none" are empty. ERR_ARG: a sentence for
 * a form_fn. numbers_form is the check for one. */
int numbers_read(struct ids *out, const char *text, int lo, int hi, struct err *e);
int numbers_form(const char *text, int lo, int hi, struct err *e);
int numbers_most(const struct ids *list, int fallback);
/* Append the real numbers of "50,90,99.9", each in [lo, hi]; "" is empty. */
int reals_read(struct samples *out, const char *text, double lo, double hi, struct err *e);
int reals_form(const char *text, double lo, double hi, struct err *e);
int pair_form(const char *text, struct err *e);     /* a form_fn: KEY=VALUE */
bool is_listed(const char *list, const char *name); /* true if name is one of "a,b,c" */

/* ---- limit.c: what the machine allows, measured beside what it does ---- */

enum arith arith_of(enum qtype t);                     /* for weights of type t */
enum arith arith_of_model(const struct checkpoint *c); /* for the type of most weights */

/* Memory for timing reads: larger than the caches. */
struct reading {
    uint8_t *data; /* owned */
    size_t n_byte;
};
/* Allocate `mib` MiB, limited to a quarter of the free memory, written by the pool's threads. */
int reading_open(struct reading *r, struct pool *p, uint64_t mib, struct err *e);
void reading_close(struct reading *r); /* safe on a zeroed one */
/* Read for `us` microseconds; return bytes per second. */
double reading_rate(const struct reading *r, struct pool *p, int us);

/* Bytes and operations per second of all threads; 0: unknown. */
struct limit {
    double read, ops;
};
struct limits;
/* Open the limits for the backend's kernel level and threads. Allocates up to 1 GiB to read
 * from. */
int limits_open(struct limits **out, struct backend *b, struct err *e);
void limits_close(struct limits *l);                     /* NULL is fine */
struct limit limits_now(struct limits *l, enum arith k); /* l NULL: zeros */
/* Read other memory until nothing used before is left in a cache. */
void limits_evict_cache(struct limits *l);
/* Write x as a share of the mean of two measurements before and after it: "87.3%", "-" if there is
 * no limit, the word `above` if x exceeds it (then it was not the limit). share_json writes a
 * number or null. */
const char *share_text(char out[16], double x, double before, double after, const char *above);
#define IN_CACHE   "in cache" /* more bytes than memory delivers: some come from a cache */
#define ABOVE_PEAK "> peak"   /* the peak was measured while other programs used the machine */
const char *share_json(char out[16], double x, double before, double after);

/* ---- batch.c: batches as an engine would make them ---- */

/* Random tokens at consecutive positions. The sequences' pages are interleaved, as they are when
 * sequences grow concurrently. */
struct bench_batch {
    struct batch batch; /* owned */
    int n_seq_max, page_rows, n_vocab;
    uint64_t rng;
};
int bench_batch_open(struct bench_batch *b, const struct batch_limits *l, int page_rows,
                     int n_vocab, struct err *e);
void bench_batch_close(struct bench_batch *b); /* safe on a zeroed one */
/* Append sequence number `seq` with n rows from pos0 on; want_logits: for the last row. */
void bench_batch_add(struct bench_batch *b, int seq, int pos0, int n, bool want_logits);
int32_t bench_batch_page(const struct bench_batch *b, int seq, int i);

/* ---- model.c: whole forward passes, without an engine or a sampler ---- */

/* `n_seq` sequences that each hold `depth` tokens are extended by n_token: a prompt's tokens at
 * once (n_seq is 1; as many rows per step as fit), otherwise one token per sequence and step. */
struct bench_case {
    bool prompt;
    int n_token, n_seq, depth;
};

struct bench_model;
/* Open the measurement of a model. The session's batch limits and pages must hold all cases:
 * n_seq_max sequences. */
int bench_model_open(struct bench_model **out, struct session *s, int n_seq_max, struct err *e);
void bench_model_close(struct bench_model *b); /* NULL is fine */
/* Run a case once without counting it, then n_repeat times; append the seconds of each. Cases of
 * one depth should be consecutive: a new depth computes its prefix first. */
int bench_model_run(struct bench_model *b, const struct bench_case *c, int n_repeat,
                    struct samples *seconds, struct err *e);
/* Run a case once; return seconds. */
double bench_model_time(struct bench_model *b, const struct bench_case *c);
/* Return a hash of the logits of the case's last step (of its first, if it generates). */
uint64_t bench_model_bits(struct bench_model *b, const struct bench_case *c);
/* Return the thread pool's statistics over the counted runs of the last case. */
struct pool_stats bench_model_threads(const struct bench_model *b);

#endif
