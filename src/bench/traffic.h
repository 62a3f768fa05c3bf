/* traffic.h - private to bench: requests as they come over time, sent through an engine, and what their
 * clients saw of it.
 *
 *   traffic_read (a trace, or random)  --> jobs --traffic_run--> engine --> what each client saw
 *                                                                            |
 *   quoth bench latency, throughput, replay (trial.h) <-- tables, JSON, a page <-- traffic_figures
 *
 * The clients live on one thread, which only submits and reads replies; times are those of the events,
 * so that they do not depend on when it reads. */
#ifndef QUOTH_BENCH_TRAFFIC_H
#define QUOTH_BENCH_TRAFFIC_H

#include "seen.h"

/* ---- traffic_read.c: what is to come ---- */

struct traffic_job {
    int64_t arrival_us; /* after the beginning; ascending over the jobs             */
    int n_prompt, n_output;
    int n_prefix, prefix; /* so many leading tokens are shared by all jobs of that prefix    */
    size_t block0;        /* of traffic.block: names of its prompt's blocks of BLOCK_TOKENS, */
    int n_block;          /* equal names are equal tokens; 0: tokens of its own              */
};
enum { BLOCK_TOKENS = 512 };

struct traffic {
    struct traffic_job *v; /* owned */
    size_t n, cap;
    VEC(int32_t) block; /* owned */
    uint64_t seed;
    int n_prefix; /* random prompts begin with so many tokens that all of them share */
};
void traffic_close(struct traffic *t); /* safe on a zeroed one */

/* Times and lengths from a file: Azure's csv (TIMESTAMP, ContextTokens, GeneratedTokens), vidur's csv
 * (num_prefill_tokens, num_decode_tokens: all at once) or Mooncake's jsonl (timestamp in ms,
 * input_length, output_length, hash_ids). At most n_max jobs. ERR_FORMAT names the line. */
int traffic_read(struct traffic *t, const char *path, size_t n_max, struct err *e);

/* Lengths around n_input and n_output, each from its length times [1 - spread, 1 + spread]. */
int traffic_random(struct traffic *t, size_t n, int n_input, int n_output, double spread,
                   struct err *e);

/* New arrivals: gaps of a gamma distribution of shape `burstiness` (1: Poisson), whose rate goes from
 * `rate` to `rate_end` requests a second, linearly or exponentially. Infinite: all at once. */
struct traffic_arrivals {
    double rate, rate_end, burstiness;
    bool exponential;
};
void traffic_arrive(struct traffic *t, const struct traffic_arrivals *a);
void traffic_faster(struct traffic *t, double factor); /* arrivals `factor` times as fast */
/* Cut jobs so that prompt and output fit into `most` tokens; how many were cut. */
size_t traffic_fit(struct traffic *t, int most);

/* Job i's prompt, appended; ids in [0, n_vocab). */
int traffic_prompt(const struct traffic *t, size_t i, int n_vocab, struct ids *out, struct err *e);

/* ---- traffic_run.c: sending it ---- */

/* Time and how it passes: real, or a test's. `pass` returns when `until_us` is reached, or before. */
struct traffic_clock {
    void *ctx;
    int64_t (*now_us)(void *ctx);
    void (*pass)(void *ctx, int64_t until_us);
};
extern const struct traffic_clock traffic_real_clock;

struct traffic_options {
    const struct traffic_clock *clock; /* the engine's                                      */
    int n_vocab;
    int max_concurrency; /* requests under way; those above wait outside; 0: no limit */
    int n_choice;        /* of each request; 0: 1                                     */
    bool beams;          /* they are the best of as many beams, told at the end       */
    float temperature;
    const struct tokenizer
        *tokenizer;       /* first choices become text on this thread; NULL: they do not */
    const char *progress; /* what the bar on the terminal says; NULL: none         */
};

struct traffic_result {
    struct seen *seen; /* owned [n] */
    int64_t *token_us; /* owned: what those point into */
    size_t n;
    VEC(struct load_sample) sample; /* owned; once a second             */
    struct stats_view stats;        /* the engine's, of this time alone */
    int64_t cpu_us, energy_uj;      /* energy -1: cannot be read        */
};
/* The engine runs on its own thread, or the clock steps it. */
int traffic_run(struct traffic_result *r, struct engine *en, const struct traffic *t,
                const struct traffic_options *o, struct err *e);
void traffic_result_close(struct traffic_result *r); /* safe on a zeroed one */

/* ---- traffic_figures.c: what it amounts to ---- */

struct traffic_figures {
    struct seen_figures seen;
    double flops, bytes, mfu, mbu; /* a second, and of the peaks given; 0: not known */
    double cpu_share;              /* of the threads' time             */
    double watts;                  /* 0: cannot be read                */
    double hit_rate, host_share;
};
struct traffic_peaks {
    double flops, bytes; /* a second; 0: not known */
    int n_thread;
};
int traffic_figures(struct traffic_figures *f, const struct traffic_result *r,
                    const struct slo *slo, const struct traffic_peaks *p, struct err *e);
void traffic_figures_close(struct traffic_figures *f);

/* Bytes of this process's own memory at the end beyond those when a quarter of the samples were taken:
 * by then the pool's pages are touched. */
int64_t traffic_growth(const struct traffic_result *r);
/* The table. percent: its columns. */
void traffic_print(const struct traffic_figures *f, const struct traffic_result *r,
                   const struct samples *percent, FILE *out);
/* Members of a JSON object, without its braces, a comma before each: vLLM's keys and quoth's own. */
void traffic_json(const struct traffic_figures *f, const struct traffic_result *r,
                  const struct samples *percent, struct buf *b);

/* ---- traffic_steps.c: the same steps through the kernels alone ---- */

/* Every step that an engine makes, as far as there is room, to be made again without an engine. */
struct step_log;
int step_log_open(struct step_log **out, struct model *m, size_t n_byte_max, struct err *e);
void step_log_close(struct step_log *l); /* NULL is fine */
/* The model as an executor that writes down what it computes. */
struct executor step_log_executor(struct step_log *l);
void step_log_clear(struct step_log *l);
/* Time that the engine took for the logged steps, from one's beginning to the next one's; time of
 * the model alone for the same batches, now. In microseconds; false: nothing was logged. */
bool step_log_times(struct step_log *l, int64_t *engine_us, int64_t *kernel_us, int *n_step,
                    struct err *e);

#endif
