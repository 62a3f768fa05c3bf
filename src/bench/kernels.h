/* kernels.h - private to bench: the plan of quoth bench kernels, and its three tables, printed to
 * standard output.
 *
 *   flags --kernels.c--> struct kernels_plan --> kernels_rows      a model's prompts, generation, batches
 *                                            --> kernels_fusion    the same with and without each fusion
 *                                            --> kernels_ops       the backend's ops one by one */
#ifndef QUOTH_BENCH_KERNELS_H
#define QUOTH_BENCH_KERNELS_H

#include "measure.h"

struct kernels_plan {
    struct ids prompt, gen, batch, depth; /* owned: the lists of those options */
    int n_batch_gen, n_repeat;
    int n_seq, context; /* maximum of all cases */
    bool no_depth;      /* --depth was not given; depth is 0 */
    bool as_json, limits;
};
enum { KERNELS_CASES_MAX = 256 };
/* Write a case's name: "pp512", "tg128", "tg32 x 8". */
void kernels_case_name(char *out, size_t n, const struct bench_case *c);
/* Write the cases of one depth, in order, at most n_max; return their number. */
int kernels_cases(struct bench_case *out, int n_max, const struct kernels_plan *p, int depth);
/* Open a session large enough for all cases. */
int kernels_session(struct session *s, const struct kernels_plan *p, const char *model,
                    struct err *e);
/* Measure whole models: a row per --prompt, --gen and --batch at each --depth. */
int kernels_rows(const char *model, const struct kernels_plan *p, struct err *e);
/* Measure these cases with all of the backend's fusions and without each of them, alternating. */
int kernels_fusion(const char *model, const struct kernels_plan *p, struct err *e);
/* Legal values of --op: i = 0, 1, ...; NULL after the last. */
const char *kernels_op_name(int i);
/* Measure the backend's ops, one by one. `names`: names of ops, separated by commas, or "all". */
int kernels_ops(const char *model, const char *names, const struct kernels_plan *p, struct err *e);

#endif
