/* constraint.c - constraints of sequences: their forks, and the masks of a step. The pool fills the
 * masks of all sequences concurrently. constraint.h describes the interface.
 *
 * States of the next mask of a sequence (mask_made):
 *
 *   CONSTRAINT_LATER   not made: constraint_prepare tries it within CONSTRAINT_STEP_WORK
 *   CONSTRAINT_MADE    s->mask is valid for the next pick
 *   CONSTRAINT_FAILED  the constraint failed: the sequence fails at its next pick
 *
 * The thread of deferred.c computes a mask that needs more work, and its sequence waits.
 * Two threads never use constraints with the same `shared` concurrently.
 *
 * CONSTRAINT_STEP_WORK is 1 ms. A step of 32 rows of llama-1b takes 70 ms (docs/measurements.md),
 * so a mask delays the step by at most 1.5 %. CONSTRAINT_BACK_MAX states of a grammar take 384
 * bytes. */
#include "engine_impl.h"

#include "base/check.h"
#include "base/pool.h"

#include <string.h>

/* work for one guessed token: 64 us, so that 16 guesses take at most the time of a mask */
enum { GUESS_WORK = CONSTRAINT_STEP_WORK / 16 };

bool constraint_lists_forbid(const struct group *g)
{
    const struct sample_params *p = &g->request->params;
    const struct sample_lists *lists = p->lists ? p->lists : g->lists;
    return (lists && sample_lists_forbid(lists)) || (p->min_tokens > 0 && p->n_stop_id > 0);
}

int constraint_open(struct seq *s, struct err *e)
{
    const struct constraint *c = s->group->request->constraint;
    CHECK(c && !s->constraint, "choice %d already has a constraint", s->choice);
    s->constraint = c->op->fork(c);
    if (!s->constraint)
        return err_memory(e, "a sequence's constraint", (unsigned long long)c->n_byte);
    s->constraint->any_spelling = constraint_lists_forbid(s->group);
    s->constraint->text = s->token + s->n_prompt;
    s->group->n_byte += s->constraint->n_byte;
    if (!c->op->mask_within) return 0;
    return deferred_job_open(&s->idle_job, s->constraint, s->n_mask_word,
                             (size_t)(s->token_max - s->n_prompt), &s->group->n_byte, e);
}

void constraint_close(struct seq *s)
{
    deferred_cancel(s->job);
    s->job = NULL;
    deferred_job_close(s->idle_job);
    s->idle_job = NULL;
    if (s->constraint) s->constraint->op->close(s->constraint);
    s->constraint = NULL;
}

bool constraint_accept(struct seq *s, int32_t token)
{
    s->mask_made = CONSTRAINT_LATER;
    return !s->constraint || s->constraint->op->accept(s->constraint, token);
}

enum cause constraint_cause(const struct seq *s)
{
    const struct constraint_ops *op = s->constraint->op;
    return op->no_memory && op->no_memory(s->constraint) ? CAUSE_MEMORY : CAUSE_LIMIT;
}

void constraint_follow(struct seq *s, const struct seq *from)
{
    s->mask_made = CONSTRAINT_LATER;
    if (s->constraint) s->constraint->op->follow(s->constraint, from->constraint);
}

/* Return true if the constraint allows a guessed token and a part of a step's work suffices to
 * accept it. Guesses that need more work are dropped, because they would delay the step. */
static bool accept_guess(struct constraint *c, int32_t token)
{
    if (!c->op->accept_within) return c->op->accept(c, token);
    return c->op->accept_within(c, token, GUESS_WORK) == CONSTRAINT_MADE;
}

/* ---- work for several sequences ---- */

struct fill_chunk {
    struct seq **v; /* borrowed [n] */
    int n;
    void (*one)(struct seq *s);
};

/* Fill masks in a pool's chunk. The chunk of the first constraint with a value of `shared` handles
 * all constraints with that value. */
static void fill_chunk(void *ctx, int chunk, int worker)
{
    const struct fill_chunk *f = ctx;
    const void *shared = f->v[chunk]->constraint->shared;
    (void)worker;
    for (int i = 0; i < chunk && shared; i++)
        if (f->v[i]->constraint->shared == shared) return;
    f->one(f->v[chunk]);
    for (int i = chunk + 1; i < f->n && shared; i++)
        if (f->v[i]->constraint->shared == shared) f->one(f->v[i]);
}

/* Call `one` for en->constrained [n]. */
static void fill_all(struct engine *en, int n, void (*one)(struct seq *s))
{
    struct fill_chunk f = {en->constrained, n, one};
    if (en->executor.pool && n > 1)
        pool_run(en->executor.pool, fill_chunk, &f, n);
    else
        for (int i = 0; i < n; i++) fill_chunk(&f, i, 0);
}

/* ---- before a step ---- */

static void try_one(struct seq *s)
{
    s->mask_made = s->constraint->op->mask_within(s->constraint, s->mask, CONSTRAINT_STEP_WORK);
}

static bool lacks_mask(const struct seq *s)
{
    return s->constraint && s->constraint->op->mask_within && s->mask_made == CONSTRAINT_LATER;
}

bool constraint_waits(const struct engine *en, const struct seq *s)
{
    return s->constraint && (s->job || deferred_uses(en, s->constraint->shared) ||
                             (lacks_mask(s) && deferred_full(en)));
}

bool constraint_prepare(struct engine *en)
{
    bool worked = deferred_collect(en);
    int n = 0;
    en->forced_work = CONSTRAINT_STEP_WORK;
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        if (lacks_mask(s) && !s->padding && !constraint_waits(en, s)) en->constrained[n++] = s;
    }
    fill_all(en, n, try_one);
    for (int i = 0; i < n; i++) {
        struct seq *s = en->constrained[i];
        if (s->mask_made != CONSTRAINT_LATER || deferred_full(en)) continue;
        deferred_put(en, s);
        worked |= !en->started;
    }
    return worked;
}

bool constraint_admit(const struct engine *en, struct seq *s)
{
    if (constraint_waits(en, s)) return false;
    if (lacks_mask(s)) try_one(s);
    return !lacks_mask(s);
}

/* ---- the masks of a step ---- */

/* Fill the mask of each row that picks. From the second row on, the mask is for the state after the
 * draft's tokens before the row. Reject the remaining tokens of a draft if their masks need too
 * much work. */
static void fill_one(struct seq *s)
{
    struct constraint *c = s->constraint;
    int n_accepted = 0;
    for (; s->n_masked < s->plan.n_pick; s->n_masked++) {
        uint32_t *mask = s->mask + (size_t)s->n_masked * s->n_mask_word;
        if (s->n_masked > 0 && !accept_guess(c, s->draft[n_accepted])) break;
        n_accepted += s->n_masked > 0;
        bool made = s->n_masked > 0 && c->op->mask_within
                        ? c->op->mask_within(c, mask, CONSTRAINT_STEP_WORK) == CONSTRAINT_MADE
                        : c->op->mask(c, mask);
        if (!made) break;
    }
    if (n_accepted > 0) c->op->rollback(c, n_accepted);
}

void constraint_masks(struct engine *en, struct seq **v, int n)
{
    int n_fill = 0;
    for (int i = 0; i < n; i++) {
        struct seq *s = v[i];
        s->n_masked = s->mask_made == CONSTRAINT_MADE;
        if (s->constraint && s->n_masked < s->plan.n_pick && s->mask_made != CONSTRAINT_FAILED)
            en->constrained[n_fill++] = s;
    }
    fill_all(en, n_fill, fill_one);
}

bool constraint_lacks(const struct seq *s, int i)
{
    return s->constraint && i >= s->n_masked;
}

bool constraint_defers(const struct seq *s, int i)
{
    return constraint_lacks(s, i) && s->constraint->op->mask_within;
}

const uint32_t *constraint_mask(const struct seq *s, int i)
{
    return s->constraint ? s->mask + (size_t)i * s->n_mask_word : NULL;
}

const uint32_t *constraint_mask_of(const struct seq *s, int32_t token)
{
    CHECK(token >= 0 && (size_t)token / 32 < s->n_mask_word, "token %d", token);
    memset(s->mask, 0, s->n_mask_word * sizeof *s->mask);
    s->mask[token / 32] |= 1u << token % 32;
    return s->mask;
}

/* ---- forced and allowed tokens ---- */

int constraint_forced(struct engine *en, const struct seq *s, int32_t *token, int n)
{
    if (!s->constraint || !s->constraint->op->forced || en->no_jump_forward || n <= 0) return 0;
    int n_forced = s->constraint->op->forced(s->constraint, token, n, &en->forced_work);
    CHECK(n_forced >= 0 && n_forced <= n, "%d forced tokens of %d", n_forced, n);
    return n_forced;
}

int constraint_allows(struct seq *s, const int32_t *token, int n)
{
    int i = 0;
    if (!s->constraint) return n;
    while (i < n && accept_guess(s->constraint, token[i])) i++;
    if (i > 0) s->constraint->op->rollback(s->constraint, i);
    return i;
}
