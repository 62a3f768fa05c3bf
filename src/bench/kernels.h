/* kernels.h - private to bench: the plan of quoth bench kernels, and its three tables, printed to
 * standard output.
 *
 *   flags --kernels.c--> struct kernels_plan --> kernels_rows    prompts, generation, batches
 *                                            --> kernels_fusion  those rows, per fusion on and off
 *                                            --> kernels_ops     the backend's ops one by one
 * Main thread only. */
#ifndef QUOTH_BENCH_KERNELS_H
#define QUOTH_BENCH_KERNELS_H

#include "measure.h"

struct kernels_plan {
    struct ids prompt, gen, batch, depth; /* owned: lists of --prompt, --gen, --batch and --depth */
    int n_batch_gen, n_repeat;
    int n_seq, context; /* maximum number of sequences and context length of all cases */
    bool no_depth;      /* true if --depth was not given, which means a depth of 0 */
    bool as_json, limits;
};
enum { KERNELS_CASES_MAX = 256 };
/* Write a case's name: "pp512", "tg128", "tg32 x 8". */
void kernels_case_name(char *out, size_t n, const struct bench_case *c);
/* Write the cases of one depth, in order, at most n_max. Return their number. */
int kernels_cases(struct bench_case *out, int n_max, const struct kernels_plan *p, int depth);
/* Open a session large enough for all cases. Errors are those of session_open_as. */
int kernels_session(struct session *s, const struct kernels_plan *p, const char *model,
                    struct err *e);
/* Measure whole models: a row per --prompt, --gen and --batch at each --depth. Errors are those of
 * kernels_session, bench_model_open and bench_model_run. */
int kernels_rows(const char *model, const struct kernels_plan *p, struct err *e);
/* Measure the plan's cases, alternately with all of the backend's fusions and without one fusion.
 * Errors are those of kernels_rows. */
int kernels_fusion(const char *model, const struct kernels_plan *p, struct err *e);
/* Return legal value i = 0, 1, ... of --op, static; NULL after the last. */
const char *kernels_op_name(int i);
/* Measure the backend's ops, one by one. `names`: names of ops, separated by commas, or "all".
 * ERR_ARG if rows do not fit into the KV slots. Also the errors of session_checkpoint,
 * session_open_backend and limits_open. */
int kernels_ops(const char *model, const char *names, const struct kernels_plan *p, struct err *e);

#endif
