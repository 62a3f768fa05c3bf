/* simulate.h - private to bench: the engine itself, driven by a trace on a virtual clock.
 *
 * Everything is the real thing but the executor: a fake model whose tokens mean nothing and whose step
 * takes what a stated cost model says. So hours of a trace take seconds, every run gives the same
 * figures, and what is measured is the scheduler alone. */
#ifndef QUOTH_BENCH_SIMULATE_H
#define QUOTH_BENCH_SIMULATE_H

#include "traffic.h"

/* What a step takes, in microseconds. */
struct sim_cost {
    double step, row; /* a step, each of its rows                                    */
    double kv, pair;  /* a position whose K and V are read; a prompt's row and one   */
    double page;      /* a page copied to or from host memory                        */
};
/* llama-1b Q4_0 on two cores of machine A (docs/measurements.md). */
extern const struct sim_cost sim_cost_default;

struct sim_options {
    struct sim_cost cost;
    const char *scheduler;
    int n_seq, n_row, n_page, page_rows;
    int n_host_page; /* pages that fit into host memory, for preemption by swap */
    int64_t starvation_us;
    double itl_multiple;
    bool at_once; /* a job comes as soon as few wait, whatever its arrival says */
    int shrink; /* lengths divided by this; 0: 1. Mooncake's blocks of 512 become pages of 512 / shrink */
    const int *key; /* [n] the key of each job, for fair sharing; NULL: one for all; borrowed */
    const char *progress; /* what the bar on the terminal says; NULL: none */
};

/* What a job saw; microseconds of the virtual clock. */
struct sim_seen {
    int64_t arrival_us, first_us, done_us;
    int64_t wait_us; /* the longest that it stood still at a stretch: queueing, or preempted */
};
struct sim_result {
    struct sim_seen *seen; /* owned [n], in the order of the jobs */
    size_t n;
    int64_t n_step, n_row, n_output, n_query,
        n_hit;  /* tokens asked of the prefix cache, and found */
    int64_t us; /* first arrival .. last token */
};
int simulate(struct sim_result *r, const struct traffic *t, const struct sim_options *o,
             struct err *e);
void sim_result_close(struct sim_result *r); /* safe on a zeroed one */

/* Microseconds that the engine needs for all jobs when there are always some waiting: load 1. */
int sim_capacity(int64_t *us, const struct traffic *t, const struct sim_options *o, struct err *e);

/* Microseconds that static batching takes for all jobs as it was before batches could be ragged: each
 * batch a rectangle, prompts padded to its longest, every sequence computed until its last is done. */
int64_t sim_padded_us(const struct traffic *t, const struct sim_options *o);

/* What a key that floods costs another one that does not. Every fourth job is of key 2, which sends 0.4
 * of what the engine can do; the others are of key 1, which sends thrice of it, and has some waiting
 * until key 2 is done. Fair: key 2 alone, everything twice as slow, half as many sequences, rows and
 * pages. Mean seconds of key 2's jobs. */
struct sim_fairness {
    double fair_first_s, first_s, fair_done_s, done_s;
};
int sim_flood(struct sim_fairness *f, const struct traffic *t, const struct sim_options *o,
              struct err *e);

#endif
