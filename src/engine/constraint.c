/* constraint.c - constraints of sequences: forks, and the masks of a step, which the pool fills for
 * all sequences at once. See constraint.h. */
#include "engine_impl.h"

#include "base/pool.h"

#include <string.h>

/* Return whether the request's lists forbid tokens that may be in a text. min_tokens forbids stop tokens;
 * those of the model are in none. */
static bool forbids_tokens(const struct group *g)
{
    const struct sample_params *p = &g->request->params;
    const struct sample_lists *lists = p->lists ? p->lists : g->lists;
    return (lists && sample_lists_forbid(lists)) || (p->min_tokens > 0 && p->n_stop_id > 0);
}

int constraint_open(struct seq *s, struct err *e)
{
    const struct constraint *c = s->group->request->constraint;
    s->constraint = c->op->fork(c);
    if (!s->constraint)
        return err_memory(e, "a sequence's constraint", (unsigned long long)c->n_byte);
    s->constraint->any_spelling = forbids_tokens(s->group);
    s->group->n_byte += s->constraint->n_byte;
    return 0;
}

void constraint_close(struct seq *s)
{
    if (s->constraint) s->constraint->op->close(s->constraint);
    s->constraint = NULL;
}

/* ---- the masks of a step ---- */

struct fill {
    struct seq **v;
    int n;
};

/* Fill the mask of each row that picks; from the second row on, after the draft's tokens before
 * it. */
static void fill_one(struct seq *s)
{
    const struct constraint_ops *op = s->constraint->op;
    int n_accepted = 0;
    s->n_masked = 0;
    while (op->mask(s->constraint, s->mask + (size_t)s->n_masked * s->n_mask_word)) {
        if (++s->n_masked == s->n_pick) break;
        if (!op->accept(s->constraint, s->draft[n_accepted])) break;
        n_accepted++;
    }
    if (n_accepted > 0) op->rollback(s->constraint, n_accepted);
}

/* Constraints with equal `shared` are filled in the chunk of the first of them. */
static void fill_chunk(void *ctx, int chunk, int worker)
{
    const struct fill *f = ctx;
    const void *shared = f->v[chunk]->constraint->shared;
    (void)worker;
    for (int i = 0; i < chunk && shared; i++)
        if (f->v[i]->constraint->shared == shared) return;
    fill_one(f->v[chunk]);
    for (int i = chunk + 1; i < f->n && shared; i++)
        if (f->v[i]->constraint->shared == shared) fill_one(f->v[i]);
}

void constraint_masks(struct engine *en, struct seq **v, int n)
{
    struct fill f = {v, 0};
    for (int i = 0; i < n; i++)
        if (v[i]->constraint && v[i]->n_pick > 0) en->constrained[f.n++] = v[i];
    f.v = en->constrained;
    if (en->executor.pool && f.n > 1)
        pool_run(en->executor.pool, fill_chunk, &f, f.n);
    else
        for (int i = 0; i < f.n; i++) fill_chunk(&f, i, 0);
}

const uint32_t *constraint_mask(const struct seq *s, int i)
{
    return s->constraint ? s->mask + (size_t)i * s->n_mask_word : NULL;
}

const uint32_t *constraint_mask_of(const struct seq *s, int32_t token)
{
    memset(s->mask, 0, s->n_mask_word * sizeof *s->mask);
    s->mask[token / 32] |= 1u << token % 32;
    return s->mask;
}

/* ---- forced and allowed tokens ---- */

int constraint_forced(const struct engine *en, const struct seq *s, int32_t *token, int n)
{
    if (!s->constraint || !s->constraint->op->forced || en->no_jump_forward || n <= 0) return 0;
    return s->constraint->op->forced(s->constraint, token, n);
}

int constraint_allows(struct seq *s, const int32_t *token, int n)
{
    int i = 0;
    if (!s->constraint) return n;
    while (i < n && s->constraint->op->accept(s->constraint, token[i])) i++;
    if (i > 0) s->constraint->op->rollback(s->constraint, i);
    return i;
}
