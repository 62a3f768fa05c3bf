/* traffic.h - private to load: requests over time, sent through an engine, and what their clients saw
 * of it.
 *
 *   traffic_read (a trace, or random)  --> jobs --traffic_run--> engine --> what each client saw
 *                                                                            |
 *   quoth bench latency, throughput, replay (trial.h) <-- tables, JSON, a page <-- traffic_figures
 *
 * The clients share one thread, which only submits and reads replies. Times are those of the events, so
 * they do not depend on when it reads. */
#ifndef QUOTH_LOAD_TRAFFIC_H
#define QUOTH_LOAD_TRAFFIC_H

#include "client_trace.h"

#include "session/session.h"

/* ---- traffic_read.c: what is to come ---- */

struct traffic_job {
    int64_t arrival_us; /* since the beginning; ascending over the jobs             */
    int n_prompt, n_output;
    int n_prefix, prefix; /* number of leading tokens shared by all jobs with that prefix    */
    size_t block0;        /* in traffic.block: names of its prompt's blocks of BLOCK_TOKENS; */
    int n_block;          /* equal names mean equal tokens; 0: unique tokens                 */
};
enum { BLOCK_TOKENS = 512 };

struct traffic {
    struct traffic_job *v; /* owned */
    size_t n, cap;
    VEC(int32_t) block; /* owned */
    uint64_t seed;
    int n_prefix; /* number of leading tokens shared by all random prompts */
};
void traffic_close(struct traffic *t); /* safe on a zeroed one */

/* Read times and lengths from a file: Azure's csv (TIMESTAMP, ContextTokens, GeneratedTokens),
 * vidur's csv (num_prefill_tokens, num_decode_tokens: all at once) or Mooncake's jsonl (timestamp
 * in ms, input_length, output_length, hash_ids). At most n_max jobs. ERR_FORMAT names the line. */
int traffic_read(struct traffic *t, const char *path, size_t n_max, struct err *e);

/* Make random lengths: n_input and n_output, each times a factor in [1 - spread, 1 + spread]. */
int traffic_random(struct traffic *t, size_t n, int n_input, int n_output, double spread,
                   struct err *e);

/* New arrivals: intervals of a gamma distribution of shape `burstiness` (1: Poisson), whose rate
 * changes from `rate` to `rate_end` requests per second, linearly or exponentially. Infinite: all
 * at once. */
struct traffic_arrivals {
    double rate, rate_end, burstiness;
    bool exponential;
};
void traffic_arrive(struct traffic *t, const struct traffic_arrivals *a);
void traffic_faster(struct traffic *t, double factor); /* divides arrival times by `factor` */
/* Truncate jobs so that prompt and output fit into `most` tokens; return the number of truncated
 * jobs. */
size_t traffic_fit(struct traffic *t, int most);

/* Append job i's prompt; ids in [0, n_vocab). */
int traffic_prompt(const struct traffic *t, size_t i, int n_vocab, struct ids *out, struct err *e);

/* ---- traffic_run.c: sending it ---- */

/* A clock: real, or a test's. `pass` returns at `until_us` or before. */
struct traffic_clock {
    void *ctx;
    int64_t (*now_us)(void *ctx);
    void (*pass)(void *ctx, int64_t until_us);
};
extern const struct traffic_clock traffic_real_clock;

struct traffic_options {
    const struct traffic_clock *clock; /* the engine's clock                                */
    int n_vocab;
    int max_concurrency; /* maximum requests in flight; further ones wait outside; 0: no limit */
    int n_choice;        /* choices per request; 0: 1                                 */
    bool beams;          /* beam search with that many beams; results arrive at the end */
    const struct sample_params *params; /* for each request; NULL: the defaults       */
    const struct tokenizer
        *tokenizer;       /* converts first choices to text on this thread; NULL: no conversion */
    const char *progress; /* label of the progress bar; NULL: none                 */
};

struct traffic_result {
    struct client_trace *trace; /* owned [n] */
    int64_t *token_us;          /* owned: token times, referenced by trace */
    size_t n;
    VEC(struct load_sample) sample; /* owned; once a second             */
    struct stats_view stats;        /* the engine's statistics of this run only */
    int64_t cpu_us, energy_uj;      /* energy -1: not readable          */
};
/* Send all jobs. The engine runs on its own thread, or the clock steps it. */
int traffic_run(struct traffic_result *r, struct engine *en, const struct traffic *t,
                const struct traffic_options *o, struct err *e);
void traffic_result_close(struct traffic_result *r); /* safe on a zeroed one */

/* ---- traffic_figures.c: what it amounts to ---- */

struct traffic_figures {
    struct client_figures client;
    double flops, bytes, mfu, mbu; /* per second, and shares of the given peaks; 0: unknown */
    double cpu_share;              /* share of the threads' time       */
    double watts;                  /* 0: not readable                  */
    double hit_rate, host_share;
};
struct traffic_peaks {
    double flops, bytes; /* per second; 0: unknown */
    int n_thread;
};
int traffic_figures(struct traffic_figures *f, const struct traffic_result *r,
                    const struct slo *slo, const struct traffic_peaks *p, struct err *e);
void traffic_figures_close(struct traffic_figures *f);

/* Return the growth of this process's own memory since a quarter of the samples were taken: by then
 * the pool's pages have been written. */
int64_t traffic_growth(const struct traffic_result *r);
/* Print the table. percent: its columns. */
void traffic_print(const struct traffic_figures *f, const struct traffic_result *r,
                   const struct samples *percent, FILE *out);
/* Append members of a JSON object, without its braces, each after a comma: vLLM's keys and quoth's
 * own. */
void traffic_json(const struct traffic_figures *f, const struct traffic_result *r,
                  const struct samples *percent, struct buf *b);

/* ---- traffic_steps.c: the same steps through the kernels alone ---- */

/* A log of the engine's steps, limited by its size, to repeat them without an engine. */
struct step_log;
int step_log_open(struct step_log **out, struct model *m, size_t n_byte_max, struct err *e);
void step_log_close(struct step_log *l); /* NULL is fine */
/* Return the model as an executor that logs what it computes. */
struct executor step_log_executor(struct step_log *l);
void step_log_clear(struct step_log *l);
/* Return the engine's time for the logged steps, from one's beginning to the next one's, and the
 * time of the model alone for the same batches, measured now. In microseconds; false if nothing was
 * logged. */
bool step_log_times(struct step_log *l, int64_t *engine_us, int64_t *kernel_us, int *n_step,
                    struct err *e);

#endif
