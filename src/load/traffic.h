/* traffic.h - private to load: requests over time, sent through an engine, and their clients'
 * records.
 *
 *   traffic_read (a trace, or random)  --> jobs --traffic_run--> engine --> clients' records
 *                                                                            |
 *   quoth bench latency, throughput, replay (trial.h) <-- tables, JSON, a page <-- traffic_figures
 *
 * The clients share one thread, which only submits requests and reads replies. The recorded times
 * are the times of the events, not the times of reading. */
#ifndef QUOTH_LOAD_TRAFFIC_H
#define QUOTH_LOAD_TRAFFIC_H

#include "client_trace.h"

#include "session/session.h"

/* ---- traffic_read.c: jobs ---- */

struct traffic_job {
    int64_t arrival_us; /* arrival in microseconds since the beginning; ascending over the jobs */
    int n_prompt, n_output;
    int n_prefix, prefix; /* number of leading tokens that all jobs with this prefix share */
    size_t block0;        /* index in traffic.block of the first block name of the job's prompt */
    /* number of blocks of BLOCK_TOKENS tokens; blocks with equal names have equal tokens; 0: all
     * tokens are unique */
    int n_block;
};
enum { BLOCK_TOKENS = 512 };

struct traffic {
    struct traffic_job *v; /* jobs, owned */
    size_t n, cap;
    VEC(int32_t) block; /* names of blocks, owned */
    uint64_t seed;
    int n_prefix; /* number of leading tokens that all random prompts share */
};
void traffic_close(struct traffic *t); /* free the memory; a zeroed struct is allowed */

/* Read times and lengths of at most n_max jobs from a file. Formats: Azure's csv (TIMESTAMP,
 * ContextTokens, GeneratedTokens), vidur's csv (num_prefill_tokens, num_decode_tokens: all jobs at
 * the beginning), and Mooncake's jsonl (timestamp in ms, input_length, output_length, hash_ids).
 * Append the jobs to t, which is then sorted by arrival. ERR_FORMAT contains the line, or only the
 * file if its format is unknown or it has no jobs. ERR_IO, ERR_LIMIT for more than 1 GiB,
 * ERR_MEMORY. */
int traffic_read(struct traffic *t, const char *path, size_t n_max, struct err *e);

/* Append n jobs of random lengths: n_input and n_output, each multiplied by a factor in [1 -
 * spread, 1 + spread]. t->n_prefix shared tokens are added to each prompt. Equal t->seed gives
 * equal jobs. ERR_MEMORY. */
int traffic_random(struct traffic *t, size_t n, int n_input, int n_output, double spread,
                   struct err *e);

/* Set new arrivals, with intervals of a gamma distribution of shape `burstiness` (1: Poisson). The
 * rate changes from `rate` to `rate_end` requests per second, linearly or exponentially. All jobs
 * arrive at the beginning if the rate is infinite. */
struct traffic_arrivals {
    double rate, rate_end, burstiness;
    bool exponential;
};
void traffic_arrive(struct traffic *t, const struct traffic_arrivals *a);
void traffic_faster(struct traffic *t, double factor); /* Divide arrival times by `factor`. */
/* Truncate jobs so that prompt and output fit into `token_max` tokens. Return the number of
 * truncated jobs. */
size_t traffic_fit(struct traffic *t, int token_max);

/* Append job i's prompt, with ids in [0, n_vocab), to *out. Equal seeds give equal prompts.
 * ERR_MEMORY. */
int traffic_prompt(const struct traffic *t, size_t i, int n_vocab, struct ids *out, struct err *e);

/* ---- traffic_run.c: sending ---- */

/* A clock, real or virtual. `pass` returns at `until_us` or before. */
struct traffic_clock {
    void *ctx; /* borrowed: argument of the callbacks */
    int64_t (*now_us)(void *ctx);
    void (*pass)(void *ctx, int64_t until_us);
};
extern const struct traffic_clock traffic_real_clock;

/* Options of traffic_run. All pointers are borrowed for the call. */
struct traffic_options {
    const struct traffic_clock *clock; /* clock of the engine */
    int n_vocab;
    /* maximum number of requests in flight; all other requests wait at the client; 0: no limit */
    int max_concurrency;
    int n_choice; /* choices per request; 0: 1 */
    bool beams;   /* true: beam search with n_choice beams; results arrive at the end */
    const struct sample_params *params; /* parameters of each request; NULL: the defaults */
    /* tokenizer for converting first choices to text on this thread; NULL: no conversion */
    const struct tokenizer *tokenizer;
    const char *progress; /* label of the progress bar; NULL if none */
};

struct traffic_result {
    struct client_trace *trace; /* records of the requests, owned [n] */
    int64_t *token_us;          /* owned: token times, referenced by trace */
    size_t n;
    VEC(struct load_sample) sample; /* samples of the run, owned; one per second */
    struct stats_view stats;        /* statistics of the engine for this run only */
    /* CPU time of the process, and energy of the machine (-1 if not readable) */
    int64_t cpu_us, energy_uj;
};
/* Send all jobs and wait for their ends. The engine runs on its own thread, or the clock calls
 * engine_step. A request that the engine rejects is not an error; its record has the error
 * "refused". Call traffic_result_close also after an error. ERR_MEMORY: all requests in flight are
 * cancelled. */
int traffic_run(struct traffic_result *r, struct engine *en, const struct traffic *t,
                const struct traffic_options *o, struct err *e);
/* Free the memory. A zeroed struct is allowed. */
void traffic_result_close(struct traffic_result *r);

/* ---- traffic_figures.c: figures ---- */

struct traffic_figures {
    struct client_figures client;
    /* operations and bytes per second, and shares of the given peaks; 0: unknown */
    double flops, bytes, mfu, mbu;
    double cpu_share; /* share of the threads' time */
    double watts;     /* mean power of the machine; 0: not readable */
    double hit_rate, host_share;
};
struct traffic_peaks {
    double flops, bytes; /* peak operations and bytes per second; 0: unknown */
    int n_thread;
};
/* Compute all figures of a run. p has the peaks of the machine. Arguments are borrowed for the
 * call. ERR_MEMORY. Call traffic_figures_close also after an error. */
int traffic_figures(struct traffic_figures *f, const struct traffic_result *r,
                    const struct slo *slo, const struct traffic_peaks *p, struct err *e);
void traffic_figures_close(struct traffic_figures *f);

/* Return the growth of this process's own memory after the first quarter of the samples. In the
 * first quarter, the pages of the pool are written for the first time. */
int64_t traffic_growth(const struct traffic_result *r);
/* Print the table. percent has the percentiles of its columns. */
void traffic_print(const struct traffic_figures *f, const struct traffic_result *r,
                   const struct samples *percent, FILE *out);
/* Append members of a JSON object, without its braces, each after a comma: vLLM's keys and quoth's
 * own. */
void traffic_json(const struct traffic_figures *f, const struct traffic_result *r,
                  const struct samples *percent, struct buf *b);

/* ---- traffic_steps.c: the steps through the kernels alone ---- */

/* A log of limited size with the engine's steps, for repeating the steps without an engine. */
struct step_log;
/* Open a log of at most bytes_max bytes for steps of m, which is borrowed until step_log_close.
 * ERR_MEMORY. Call step_log_close also after an error. */
int step_log_open(struct step_log **out, struct model *m, size_t bytes_max, struct err *e);
void step_log_close(struct step_log *l); /* free l; NULL is allowed */
/* Return the model as an executor that logs its batches. */
struct executor step_log_executor(struct step_log *l);
void step_log_clear(struct step_log *l);
/* Return false if fewer than two steps were logged, or if memory is exhausted; *e then has
 * ERR_MEMORY. Set *n_step to the number of steps with a known end. Set *engine_us to the engine's
 * time for the logged steps, in microseconds. Set *kernel_us to the time of the model alone for the
 * same batches, measured now. A step ends at the beginning of the next step. */
bool step_log_times(struct step_log *l, int64_t *engine_us, int64_t *kernel_us, int *n_step,
                    struct err *e);

#endif
