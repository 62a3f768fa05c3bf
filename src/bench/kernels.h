/* kernels.h - private to bench: quoth bench kernels: what is measured, and its three tables, to standard
 * output.
 *
 *   flags --kernels.c--> struct kernels_plan --> kernels_rows      a model's prompts, generation, batches
 *                                            --> kernels_fusion    the same with and without each fusion
 *                                            --> kernels_ops       the backend's ops one by one */
#ifndef QUOTH_BENCH_KERNELS_H
#define QUOTH_BENCH_KERNELS_H

#include "measure.h"

struct kernels_plan {
    struct ids prompt, gen, batch, depth; /* owned: what those options list */
    int n_batch_gen, n_repeat;
    int n_seq, context; /* the most that any case needs */
    bool no_depth;      /* none was asked for; depth is 0 */
    bool as_json, limits;
};
enum { KERNELS_CASES_MAX = 256 };
/* "pp512", "tg128", "tg32 x 8" */
void kernels_case_name(char *out, size_t n, const struct bench_case *c);
/* The cases of one depth, in order: how many, at most n_max. */
int kernels_cases(struct bench_case *out, int n_max, const struct kernels_plan *p, int depth);
/* A session that can hold them all. */
int kernels_session(struct session *s, const struct kernels_plan *p, const char *model,
                    struct err *e);
/* Whole models: a row per --prompt, --gen and --batch at each --depth. */
int kernels_rows(const char *model, const struct kernels_plan *p, struct err *e);
/* The same cases with each of the backend's fusions and without it, in turns. */
int kernels_fusion(const char *model, const struct kernels_plan *p, struct err *e);
/* The backend's ops, one by one. `names`: of ops, separated by commas, or "all". */
int kernels_ops(const char *model, const char *names, const struct kernels_plan *p, struct err *e);

#endif
