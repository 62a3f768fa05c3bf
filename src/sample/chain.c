/* chain.c - one pick: edit the logits, gather candidates, cut them, draw.
 *
 * A sampler is made once per sequence, with only the stages that its parameters need. A plain
 * greedy sampler has no stages. The pick of a greedy sampler is one pass over the logits.
 * stages.def lists the stages in order. sample_impl.h has struct stage. A request may have another
 * order (order.c). The weights are exp((logit - max) / temperature). With this formula no logit
 * overflows, and stages before the cuts process raw logits. The stage of the temperature only sets
 * the value for later stages. Without an order, all cuts have the request's temperature.
 *
 * Random numbers are values of the generator Philox for (seed, choice, position, draw). race.c
 * draws a token. The position is the number of accepted output tokens. Therefore other sequences of
 * the batch, or a repeated pick, do not change a token. */
#include "sample_impl.h"

#include "base/check.h"

#include <stdlib.h>

#define STAGE(name, sampler) &stage_##name,
static const struct stage *const stages[] = {
#include "stages.def"
};
#undef STAGE

/* ---- open and close -------------------------------------------------------------------------- */

static bool stage_serves(const struct stage *st, const struct sample_params *p)
{
    if (st->kind != STAGE_EDIT && order_is_greedy(p)) return false;
    if (st->kind == STAGE_CUT && p->mirostat != 0) return false;
    return st->wanted(p);
}

static bool link_add(struct sampler *s, const struct stage *st)
{
    struct link *l = st->kind == STAGE_EDIT ? &s->edit[s->n_edit++] : &s->cut[s->n_cut++];
    *l = (struct link){.stage = st, .state = st->open ? st->open(s) : NULL};
    if (st->open && !l->state) return false;
    if (st->needs_history && !s->history)
        s->history = arena_push(&s->mem, ((size_t)s->context_max + 1) * sizeof *s->history, 64);
    return !st->needs_history || s->history;
}

static bool add_if_wanted(struct sampler *s, const struct stage *st)
{
    return !stage_serves(st, &s->p) || link_add(s, st);
}

/* Add the edit stages that are not part of an order, then the stages of the order, then all other
 * stages. Mirostat replaces the cuts of an order. */
static bool chain_build(struct sampler *s)
{
    bool ok = true, ordered = s->p.n_order >= 0;
    for (int i = 0; ok && i < N_STAGE; i++)
        if (!ordered || (!order_places(i) && stages[i]->kind == STAGE_EDIT))
            ok = add_if_wanted(s, stages[i]);
    for (int i = 0; ok && i < s->p.n_order; i++) ok = add_if_wanted(s, stages[s->p.order[i]]);
    for (int i = 0; ok && ordered && i < N_STAGE; i++)
        if (!order_places(i) && stages[i]->kind != STAGE_EDIT) ok = add_if_wanted(s, stages[i]);
    return ok;
}

int sampler_open(struct sampler **out, const struct sample_params *p, const struct sample_vocab *v,
                 uint32_t choice, int context_max, struct err *e)
{
    CHECK(context_max >= 0 && context_max < INT32_MAX, "context %d", context_max);
    *out = NULL;
    struct sample_lists *lists = sample_lists_ref(p->lists);
    int rc = sample_params_check(p, v->n_vocab, e);
    if (rc == 0 && !lists) rc = sample_lists_open(&lists, p, v, e);
    struct sampler *s = rc == 0 ? calloc(1, sizeof *s) : NULL;
    if (!s) {
        sample_lists_drop(lists);
        return rc ? rc : err_memory(e, "a sampler", sizeof *s);
    }
    s->p = *p;
    s->lists = lists;
    s->own_lists = !p->lists;
    s->v = *v;
    s->greedy = order_is_greedy(p);
    s->key = (struct rng_key){.seed = p->seed, .stream = choice};
    s->context_max = context_max;
    *out = s;
    if (chain_build(s)) return 0;
    sampler_close(s);
    *out = NULL;
    return err_memory(e, "a sampler's history", 4ull * (unsigned)context_max);
}

void sampler_close(struct sampler *s)
{
    if (s) arena_deinit(&s->mem);
    if (s) sample_lists_drop(s->lists);
    free(s);
}

int64_t sampler_bytes(const struct sampler *s)
{
    return (int64_t)(sizeof *s + s->mem.n_byte) + (s->own_lists ? sample_lists_bytes(s->lists) : 0);
}

/* ---- history --------------------------------------------------------------------------------- */

static void links_accept(const struct link *link, int n, const struct sampler *s, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (link[i].stage->accept) link[i].stage->accept(link[i].state, s, id);
}

static void history_add(struct sampler *s, int32_t id)
{
    CHECK(s->n_history <= s->context_max, "%d tokens of %d", s->n_history, s->context_max);
    if (s->history) s->history[s->n_history] = id;
    s->n_history++;
    links_accept(s->edit, s->n_edit, s, id);
    links_accept(s->cut, s->n_cut, s, id);
}

void sampler_accept_prompt(struct sampler *s, const int32_t *ids, int n)
{
    CHECK(s->n_out == 0, "%d tokens were generated", s->n_out);
    for (int i = 0; i < n; i++) {
        s->n_prompt++;
        history_add(s, ids[i]);
    }
}

void sampler_accept(struct sampler *s, int32_t id)
{
    CHECK(s->n_history == s->n_prompt + s->n_out, "%d tokens, %d of the prompt, %d generated",
          s->n_history, s->n_prompt, s->n_out);
    history_add(s, id);
    s->n_out++;
    s->key.position++;
}

/* ---- a pick ---------------------------------------------------------------------------------- */

/* Copy the logits to w->edited, with -INFINITY for tokens that the mask forbids. */
static void copy_masked(const struct sampler *s, struct sample_work *w, const float *logits,
                        const uint32_t *mask)
{
    if (mask)
        w->kern.row_mask(w->edited, logits, mask, s->v.n_vocab);
    else
        memcpy(w->edited, logits, (size_t)s->v.n_vocab * sizeof *logits);
}

const float *chain_edit(const struct sampler *s, struct sample_work *w, const float *logits,
                        const uint32_t *mask)
{
    if (!mask && s->n_edit == 0) return logits;
    copy_masked(s, w, logits, mask);
    for (int i = 0; i < s->n_edit; i++) s->edit[i].stage->apply(s->edit[i].state, s, w);
    return w->edited;
}

bool chain_candidates(const struct sampler *s, struct sample_work *w, const float *logits,
                      const uint32_t *mask)
{
    if (!cand_survey(w, chain_edit(s, w, logits, mask), s->v.n_vocab)) return false;
    temperature_begin(s, w);
    for (int i = 0; i < s->n_cut; i++) s->cut[i].stage->apply(s->cut[i].state, s, w);
    return true;
}

/* Pick the largest logit, without weights. */
static int32_t pick_greedy(const struct sampler *s, struct sample_work *w, const float *logits,
                           const uint32_t *mask)
{
    return cand_survey(w, chain_edit(s, w, logits, mask), s->v.n_vocab) ? cand_best(w) : -1;
}

static int32_t pick_drawn(const struct sampler *s, struct sample_work *w, const float *logits,
                          const uint32_t *mask)
{
    if (!chain_candidates(s, w, logits, mask)) return -1;
    cand_weigh(w, w->temperature_inverse);
    int at = race_draw(w, &s->key);
    for (int i = 0; i < s->n_cut; i++)
        if (s->cut[i].stage->drawn) s->cut[i].stage->drawn(s->cut[i].state, s, w, at);
    return cand_id(w, at);
}

unsigned sampler_forbidding(const struct sampler *s, struct sample_work *w, const float *logits,
                            const uint32_t *mask)
{
    unsigned found = 0;
    for (int i = 0; i < s->n_edit; i++) {
        const struct link *l = &s->edit[i];
        if (!l->stage->forbids) continue;
        copy_masked(s, w, logits, mask);
        l->stage->apply(l->state, s, w);
        for (int id = 0; id < s->v.n_vocab; id++) {
            bool permitted = !mask || mask[id / 32] >> id % 32 & 1;
            if (permitted && logits[id] > -INFINITY && !(w->edited[id] > -INFINITY))
                found |= l->stage->forbids;
        }
    }
    return found;
}

/* Compute logprobs of the distribution after all stages. The distribution of a greedy pick has one
 * token. */
static void post_logprobs(const struct sampler *s, struct sample_work *w, int32_t id,
                          struct pick *out)
{
    if (s->greedy) {
        cand_gather(w, w->max);
        cand_keep_one(w, 0);
        cand_weigh(w, 1);
    }
    logprobs_of_draw(w, id, s->p.n_logprob, out);
}

void sampler_pick(struct sampler *s, struct sample_work *w, const float *logits,
                  const uint32_t *mask, struct pick *out)
{
    CHECK(s->v.n_vocab <= w->n_vocab, "%d logits, room for %d", s->v.n_vocab, w->n_vocab);
    int32_t id = s->greedy ? pick_greedy(s, w, logits, mask) : pick_drawn(s, w, logits, mask);
    out->id = id;
    out->chosen = (struct logprob){.id = id};
    out->n_top = 0;
    if (s->p.n_logprob < 0) return;
    if (s->p.post_logprob && id >= 0) {
        post_logprobs(s, w, id, out);
        return;
    }
    if (mask || s->n_edit > 0)
        cand_survey(w, logits, s->v.n_vocab);
    else
        cand_restart(w, logits, s->v.n_vocab);
    logprobs_of_row(w, s->lists, id, s->p.n_logprob, out);
}
