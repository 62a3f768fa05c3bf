/* policy_mlfq.c - skip-join multi-level feedback queue (Wu et al., "Fast Distributed Inference
 * Serving for Large Language Models" (FastServe), 2023, section 4.1).
 *
 *   arrive --first step fits the quantum of level i, none above--> level i
 *   level i --its quantum is used up--> level i + 1 (the last one keeps its entities)
 *   waiting for starvation_us --> before all others (policy.c)
 *
 * The length of an answer is unknown, so the number of computed rows identifies short jobs. Each
 * level has twice the quantum of the level above. An entity that has used up its quantum moves
 * down. A prompt is one indivisible first step of known length, so it joins at the level of its
 * length. Classical feedback queues would compute a long prompt in all upper levels, before short
 * jobs. Within a level, earlier entities go first. A waiting entity displaces a running entity of a
 * lower level.
 *
 * Service is counted in rows, not microseconds, so the order does not depend on the clock. Rows
 * that are recomputed after a preemption do not count, because they are no progress. */
#include "policy_impl.h"

/* QUANTUM_ROWS: rows of the first level, one pass of the kernels over the weights (LINEAR_ROWS).
 * Each level has twice the rows of the previous level. The last of N_LEVEL levels is for prompts of
 * more than 64 << 10 = 64 k rows. */
enum { N_LEVEL = 12, QUANTUM_ROWS = 64 };

static int quantum(int level)
{
    return QUANTUM_ROWS << level;
}

static void arrive(struct policy *p, struct sched_entity *se, int64_t now_us)
{
    (void)p, (void)now_us;
    se->mlfq.level = se->mlfq.n_served = se->mlfq.n_done = se->mlfq.n_redo = 0;
    while (se->mlfq.level < N_LEVEL - 1 && quantum(se->mlfq.level) < se->n_left - se->n_cached)
        se->mlfq.level++;
}

static void admitted(struct policy *p, struct sched_entity *se)
{
    (void)p;
    if (se->mlfq.n_done == 0) se->mlfq.n_done = se->n_cached;
}

static void served(struct policy *p, struct sched_entity *se, int n_row, int n_step, int64_t us)
{
    (void)p, (void)n_step, (void)us;
    int redone = n_row < se->mlfq.n_redo ? n_row : se->mlfq.n_redo;
    se->mlfq.n_redo -= redone;
    se->mlfq.n_done += n_row - redone;
    se->mlfq.n_served += n_row - redone;
    while (se->mlfq.level < N_LEVEL - 1 && se->mlfq.n_served >= quantum(se->mlfq.level))
        se->mlfq.n_served -= quantum(se->mlfq.level++);
}

/* Set n_redo to all rows, except rows of the prompt that were not computed before, or except one
 * decoded token. */
static void preempted(struct policy *p, struct sched_entity *se)
{
    (void)p;
    int fresh = se->n_prompt - se->mlfq.n_done;
    se->mlfq.n_redo = se->n_left - (fresh > 1 ? fresh : 1);
    if (se->mlfq.n_redo < 0) se->mlfq.n_redo = 0;
}

static int64_t rank(const struct policy *p, const struct sched_entity *se)
{
    (void)p;
    return se->mlfq.level;
}

const struct policy_type policy_type_mlfq = {
    .name = "mlfq",
    .preempts = true,
    .arrive = arrive,
    .admitted = admitted,
    .preempted = preempted,
    .served = served,
    .rank = rank,
};
