/* simulate.h - private to load: simulation of the engine with a trace on a virtual clock.
 *
 * A fake model with meaningless tokens replaces the executor. A cost model gives the duration of a
 * step. Hours of a trace therefore take seconds, and every run gives the same figures. The
 * simulation measures only the scheduler. */
#ifndef QUOTH_LOAD_SIMULATE_H
#define QUOTH_LOAD_SIMULATE_H

#include "traffic.h"

#include "session/session.h"

/* Cost model of a step, in microseconds. */
struct sim_cost {
    double step, row; /* time per step, and time per row */
    double kv, pair;  /* time per position read, and time per pair of prompt row and position */
    double page;      /* time per page copied to or from host memory */
};
/* Costs of llama-1b Q4_0 on two cores of machine A (docs/measurements.md). */
extern const struct sim_cost sim_cost_default;

/* Options of a simulation. All pointers are borrowed for the call. */
struct sim_options {
    struct sim_cost cost;
    const char *scheduler; /* name of the scheduling policy; NULL: the default */
    int n_seq, n_row, n_page, page_rows;
    int n_host_page; /* capacity of host memory in pages, for preemption by swap */
    int64_t starvation_us;
    int slice_tokens; /* time slice of round_robin in tokens; 0: its default */
    double itl_multiple;
    /* true: jobs are submitted if fewer than N_AHEAD jobs wait, regardless of their arrival */
    bool at_once;
    /* divisor of lengths, for example for Mooncake's blocks of 512 tokens; 0: 1 */
    int shrink;
    /* [n] key of each job, for fair sharing, borrowed; NULL: one key for all jobs */
    const int *key;
    const char *progress; /* label of the progress bar; NULL if none */
};

/* Times of a job, in microseconds of the virtual clock. */
struct sim_trace {
    int64_t arrival_us, first_us, done_us;
    int64_t wait_us; /* longest interval without progress, queued or preempted */
};
struct sim_result {
    struct sim_trace *trace; /* times of the jobs, owned [n], in the order of the jobs */
    size_t n;
    int64_t n_step, n_row, n_output, n_query,
        n_hit;  /* numbers of tokens looked up in the prefix cache and of tokens found */
    int64_t us; /* time from the first arrival to the last token */
};
/* Run all jobs of t through an engine, on this thread. The caller owns *r, which is zeroed after an
 * error. ERR_ARG for an unknown scheduler, ERR_LIMIT for a job that never fits, ERR_MEMORY, and the
 * other errors of engine_open and engine_submit. */
int simulate(struct sim_result *r, const struct traffic *t, const struct sim_options *o,
             struct err *e);
void sim_result_close(struct sim_result *r); /* free the memory; a zeroed struct is allowed */

/* Compute the microseconds that the engine needs for all jobs at full load (load 1), first come,
 * first served. *us is 0 after an error. Errors: those of simulate. */
int sim_capacity(int64_t *us, const struct traffic *t, const struct sim_options *o, struct err *e);

/* Return the microseconds that static batching takes for all jobs. Each batch is a rectangle.
 * Prompts are padded to the longest prompt, and every sequence is computed until the last sequence
 * is complete. */
int64_t sim_padded_us(const struct traffic *t, const struct sim_options *o);

/* Effect of a flood by key 1 on key 2, as mean seconds of key 2's jobs. Every fourth job is of key
 * 2, which sends 0.4 of the engine's capacity. All other jobs are of key 1. Key 1 sends three times
 * the capacity, and always has waiting jobs until the jobs of key 2 are complete. The fair
 * reference is key 2 alone, at half the speed, with half of the sequences, rows and pages. */
struct sim_fairness {
    double fair_first_s, first_s, fair_done_s, done_s;
};
/* Simulate a flood in t, and its fair reference. Errors: those of simulate. */
int sim_flood(struct sim_fairness *f, const struct traffic *t, const struct sim_options *o,
              struct err *e);

#endif
