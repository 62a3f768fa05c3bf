/* simulate.h - private to load: the engine itself, driven by a trace on a virtual clock.
 *
 * Only the executor is replaced: a fake model with meaningless tokens, whose steps take the time that a
 * given cost model computes. Hours of a trace therefore take seconds, every run gives the same figures,
 * and only the scheduler is measured. */
#ifndef QUOTH_LOAD_SIMULATE_H
#define QUOTH_LOAD_SIMULATE_H

#include "traffic.h"

#include "session/session.h"

/* Cost model of a step, in microseconds. */
struct sim_cost {
    double step, row; /* per step; per row                                           */
    double kv, pair;  /* per position read; per pair of prompt row and position */
    double page;      /* per page copied to or from host memory                      */
};
/* llama-1b Q4_0 on two cores of machine A (docs/measurements.md). */
extern const struct sim_cost sim_cost_default;

struct sim_options {
    struct sim_cost cost;
    const char *scheduler;
    int n_seq, n_row, n_page, page_rows;
    int n_host_page; /* capacity of host memory in pages, for preemption by swap */
    int64_t starvation_us;
    int slice_tokens; /* for round_robin; 0: its default */
    double itl_multiple;
    bool at_once; /* submit a job as soon as few wait, regardless of its arrival */
    int shrink; /* divisor of lengths; 0: 1. Mooncake's blocks of 512 become pages of 512 / shrink */
    const int *key; /* [n] the key of each job, for fair sharing; NULL: one for all; borrowed */
    const char *progress; /* label of the progress bar; NULL: none */
};

/* Times of a job; microseconds of the virtual clock. */
struct sim_trace {
    int64_t arrival_us, first_us, done_us;
    int64_t wait_us; /* longest interval without progress: queueing, or preempted */
};
struct sim_result {
    struct sim_trace *trace; /* owned [n], in the order of the jobs */
    size_t n;
    int64_t n_step, n_row, n_output, n_query,
        n_hit;  /* tokens looked up in the prefix cache, and found */
    int64_t us; /* from first arrival to last token */
};
int simulate(struct sim_result *r, const struct traffic *t, const struct sim_options *o,
             struct err *e);
void sim_result_close(struct sim_result *r); /* safe on a zeroed one */

/* Compute the microseconds that the engine needs for all jobs at full load, which is load 1. */
int sim_capacity(int64_t *us, const struct traffic *t, const struct sim_options *o, struct err *e);

/* Return the microseconds of static batching for all jobs without ragged batches: each batch is a
 * rectangle, prompts are padded to its longest, and every sequence is computed until its last one
 * is done. */
int64_t sim_padded_us(const struct traffic *t, const struct sim_options *o);

/* Cost of a flood by one key for another key. Every fourth job is of key 2, which sends 0.4 of the
 * engine's capacity; the others are of key 1, which sends three times the capacity and always has
 * some waiting until key 2 is done. Fair reference: key 2 alone, at half the speed, with half of
 * the sequences, rows and pages. Mean seconds of key 2's jobs. */
struct sim_fairness {
    double fair_first_s, first_s, fair_done_s, done_s;
};
int sim_flood(struct sim_fairness *f, const struct traffic *t, const struct sim_options *o,
              struct err *e);

#endif
