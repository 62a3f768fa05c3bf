/* measure.h - private to bench: samples and statistics, the limits of the machine, batches and
 * forward passes without an engine. Main thread only. */
#ifndef QUOTH_BENCH_MEASURE_H
#define QUOTH_BENCH_MEASURE_H

#include "option/option.h"

#include "kern/kern.h"
#include "session/session.h"

/* ---- samples.c: means, deviations and percentiles ---- */

/* Samples of one quantity. */
struct samples {
    double *v; /* values, owned */
    size_t n, cap;
};
/* Return the mean; 0 if there are no samples. */
double samples_mean(const struct samples *s);
/* Return the standard deviation; 0 for fewer than two values. */
double samples_sd(const struct samples *s);
double samples_median(struct samples *s); /* return the median; sort s */
/* Sort the samples in ascending order. */
void samples_sort(struct samples *s);
/* Return a percentile in [0, 100] of sorted samples, with linear interpolation. 0 if there are no
 * samples. */
double samples_percentile(const struct samples *sorted, double percent);

/* Return a percentile by nearest rank, without interpolation. 0 if there are no samples. */
double samples_nearest(const struct samples *sorted, double percent);

/* ---- list.c: lists in flags ---- */

/* Append the numbers of "1,2,8", each in [lo, hi]. The texts "" and "none" are empty lists. ERR_ARG
 * with a sentence for a form_fn, ERR_MEMORY. */
int list_read_ints(struct ids *out, const char *text, int lo, int hi, struct err *e);
/* Check the list of a flag that list_read_ints reads, for a form_fn. ERR_ARG, ERR_MEMORY. */
int list_form_ints(const char *text, int lo, int hi, struct err *e);
/* Return the largest number of the list, or `fallback` if that is larger. */
int list_max_int(const struct ids *list, int fallback);
/* Append the real numbers of "50,90,99.9", each in [lo, hi]. The text "" is an empty list. ERR_ARG
 * with a sentence for a form_fn, ERR_MEMORY. */
int list_read_reals(struct samples *out, const char *text, double lo, double hi, struct err *e);
/* Check the list of a flag that list_read_reals reads, for a form_fn. ERR_ARG, ERR_MEMORY. */
int list_form_reals(const char *text, double lo, double hi, struct err *e);
bool list_has(const char *list, const char *name); /* return true if name is in a list "a,b,c" */

/* ---- limit.c: the machine's limits, measured next to a row ---- */

enum arith arith_of(enum qtype t); /* return the instructions for weights of type t */
/* Return the instructions for the type of most weights. */
enum arith arith_of_model(const struct model_info *m);

/* Memory for timing reads: larger than the caches. */
struct reading {
    uint8_t *data; /* bytes to read, owned */
    size_t n_byte;
};
/* Allocate `mib` MiB, at most a quarter of the free memory, written by the pool's threads. Call
 * reading_close also after an error. ERR_MEMORY. */
int reading_open(struct reading *r, struct pool *p, uint64_t mib, struct err *e);
void reading_close(struct reading *r); /* free the memory; a zeroed struct is allowed */
/* Read for `us` microseconds. Return bytes per second. */
double reading_rate(const struct reading *r, struct pool *p, int us);

/* Bytes and operations per second of all threads; 0: unknown. */
struct limit {
    double read, ops;
};
struct limits;
/* Open the limits for the backend's kernel level and threads. Allocate up to 1 GiB to read from.
 * The backend's pool is borrowed until limits_close, which the caller calls also after an error.
 * ERR_MEMORY. */
int limits_open(struct limits **out, struct backend *b, struct err *e);
void limits_close(struct limits *l);                     /* free the memory; NULL is allowed */
struct limit limits_now(struct limits *l, enum arith k); /* return zeros if l is NULL */
/* Evict all earlier data from the caches by reading other memory. */
void limits_evict_cache(struct limits *l);
/* Write x as a share of the mean of two measurements before and after it: "87.3%", or "-" if there
 * is no limit. Write the word `above` if x exceeds the limit. Return `out`, or a static text. */
const char *share_text(char out[16], double x, double before, double after, const char *above);
/* the share exceeds the bandwidth of memory, because some bytes come from a cache */
#define IN_CACHE "in cache"
/* ABOVE_PEAK: other programs used the machine during the measurement of the peak. */
#define ABOVE_PEAK "> peak"
/* Write x as a share of the mean of two measurements before and after it, as a JSON number. Write
 * null if x or the mean is not positive. Return out. */
const char *share_json(char out[16], double x, double before, double after);

/* ---- batch.c: batches like an engine's ---- */

/* Random tokens at consecutive positions. The sequences' pages are interleaved, as for sequences
 * that grow concurrently. */
struct bench_batch {
    struct batch batch; /* batch of random tokens, owned */
    int seq_max, page_rows, n_vocab;
    uint64_t rng;
};
/* Open an empty batch within the limits l, which are copied. ERR_MEMORY. Call bench_batch_close
 * also after an error. */
int bench_batch_open(struct bench_batch *b, const struct batch_limits *l, int page_rows,
                     int n_vocab, struct err *e);
void bench_batch_close(struct bench_batch *b); /* free the memory; a zeroed struct is allowed */
/* Append rows [pos0, pos0 + n) of the sequence `seq`. Request logits for the last row if
 * want_logits is true. */
void bench_batch_add(struct bench_batch *b, int seq, int pos0, int n, bool want_logits);
/* Return the number of page i of sequence `seq`. */
int32_t bench_batch_page(const struct bench_batch *b, int seq, int i);

/* ---- model.c: whole forward passes, without an engine or a sampler ---- */

/* A case extends n_seq sequences of `depth` tokens each by n_token tokens. The tokens of one
 * sequence are computed together if `prompt` is true, in steps of as many rows as fit. Otherwise
 * each step computes one token per sequence. */
struct bench_case {
    bool prompt;
    int n_token, n_seq, depth;
};

struct bench_model;
/* Open the measurement of a model. The session's batch limits and pages must hold all cases:
 * seq_max sequences. The session is borrowed until bench_model_close, which the caller calls also
 * after an error. ERR_LIMIT if the KV pages do not fit into memory, ERR_MEMORY. */
int bench_model_open(struct bench_model **out, struct session *s, int seq_max, struct err *e);
void bench_model_close(struct bench_model *b); /* free the memory; NULL is allowed */
/* Run a case once without measuring it, then n_repeat times. Append the duration of each run in
 * seconds. Cases of one depth should be consecutive, because a new depth computes its prefix first.
 * ERR_MEMORY. */
int bench_model_run(struct bench_model *b, const struct bench_case *c, int n_repeat,
                    struct samples *seconds, struct err *e);
/* Run a case once and return the seconds. */
double bench_model_time(struct bench_model *b, const struct bench_case *c);
/* Return a hash of the logits of the case's last step, or of its first step if it generates. */
uint64_t bench_model_bits(struct bench_model *b, const struct bench_case *c);
/* Return the thread pool's statistics over the measured runs of the last case. */
struct pool_stats bench_model_threads(const struct bench_model *b);

#endif
