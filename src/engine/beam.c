/* beam.c - beam search: the `width` most likely partial answers continue together, each as a
 * sequence.
 *
 *   rows of all beams --beam_pick--> each beam's best continuations
 *        --beam_advance, when all have theirs--> finished ones, and the beams of the next token
 *
 * The rules for keeping, finishing and stopping are the same as in transformers
 * (generation/utils.py, _beam_search), with the model's own distribution. max(2, 1 + stop tokens) x
 * width continuations are considered. Therefore `width` continuations remain even if all other
 * continuations stop. A continuation among the first `width` that stops is finished. The rank of a
 * continuation is the sum of its logprobs / length ^ length_penalty.
 *
 * Beams are scheduled one by one, like other sequences. A beam with continuations waits for the
 * other beams, and may be preempted. A continuation stays in its parent's sequence. Further
 * continuations of that parent move into sequences that did not continue, and share its pages
 * (hold_fork). */
#include "engine_impl.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

enum { CONTINUATIONS_MAX = 100 }; /* number of entries in the top[] of struct pick */

struct continuation {
    int parent;
    struct logprob chosen;
    const struct logprob *top; /* borrowed [n_top]: most likely tokens of the parent */
    float score;               /* sum of logprobs, this token included */
    bool stops;                /* true: the beam ends by a stop token or at the length limit */
};

/* All arrays are in the group's arena. */
struct beam {
    int width, n_keep, n_hyp;
    float *score;              /* arena [width] sum of logprobs of each sequence */
    struct continuation *next; /* arena [width * n_keep] */
    int n_next;
    /* arena [width] finished beams, best first; their tokens are in `token` */
    struct ranked_answer *hyp;
    int32_t **token;         /* arena [width + 1][max_tokens], the last one is spare */
    struct logprob **record; /* arena [width + 1][max_tokens, 1 + n_logprob] */
    bool improving;
    bool failed; /* true: a constraint failed, and there is no answer */
};

static int n_stop(const struct engine *en, const struct request *r)
{
    int n = r->params.n_stop_id;
    for (int i = 0; i < en->vocab.n_eog && !r->params.ignore_eos; i++) {
        bool twice = false;
        for (int k = 0; k < r->params.n_stop_id; k++)
            twice |= r->params.stop_id[k] == en->vocab.eog[i];
        n += !twice;
    }
    return n;
}

static int n_keep(const struct engine *en, const struct request *r)
{
    int n = n_stop(en, r);
    return (n > 1 ? 1 + n : 2) * r->beam_width;
}

/* Validate a beam search. Beams wait for each other, so the engine must have room for all beams
 * together. */
int beam_check(const struct engine *en, const struct request *r, struct err *e)
{
    int rows = pages_rows(en->pages), n_prompt = (int)r->prompt.n;
    int n_token = n_prompt + en->executor.n_start + engine_max_tokens(en, r);
    int64_t each = hold_least(en, n_token);
    int shared = en->keep_prefixes && en->executor.window == 0 ? (n_prompt - 1) / rows : 0;
    if (r->beam_width < 0 || r->beam_width > CHOICES_MAX || r->n > r->beam_width)
        return err_field(e, ERR_ARG, "beam_width", ": must be in [%d, %d] (from n), got %d", r->n,
                         CHOICES_MAX, r->beam_width);
    if (r->best_of)
        return err_field(e, ERR_ARG, "best_of", ": must be 0 with beam_width, got %d", r->best_of);
    if (!isfinite(r->length_penalty))
        return err_field(e, ERR_ARG, "length_penalty", ": must be a number, got %g",
                         r->length_penalty);
    const int most =
        en->executor.n_vocab < CONTINUATIONS_MAX ? en->executor.n_vocab : CONTINUATIONS_MAX;
    if (n_keep(en, r) > most)
        return err_field(
            e, ERR_LIMIT, "beam_width",
            ": must need at most %d continuations, got %d for %d beams with %d stop tokens", most,
            n_keep(en, r), r->beam_width, n_stop(en, r));
    if (r->beam_width > en->batch.limits.n_seq)
        return err_field(e, ERR_LIMIT, "beam_width",
                         ": must be at most %d (--max-num-seqs), got %d", en->batch.limits.n_seq,
                         r->beam_width);
    if (en->states && states_least(r->beam_width) > pages_n_total(en->states))
        return err_field(e, ERR_LIMIT, "beam_width",
                         ": must need at most %d recurrent states, got %d for %d beams",
                         pages_n_total(en->states), states_least(r->beam_width), r->beam_width);
    if (shared + (each - shared + 1) * r->beam_width > pages_n_total(en->pages))
        return err_field(e, ERR_LIMIT, "beam_width",
                         ": must need at most %d pages of the KV cache (--kv-cache-memory), got "
                         "%lld for %d beams of %d tokens",
                         pages_n_total(en->pages),
                         (long long)(shared + (each - shared + 1) * r->beam_width), r->beam_width,
                         n_token);
    return 0;
}

/* Allocate the state of the beam search in the group's arena. */
bool beam_open(struct group *g, const struct engine *en)
{
    const struct request *r = g->request;
    struct arena *a = &g->arena;
    size_t w = (size_t)r->beam_width, n = (size_t)n_keep(en, r);
    size_t n_top = 1 + (size_t)(r->params.n_logprob > 0 ? r->params.n_logprob : 0);
    struct beam *b = g->beam = arena_push0(a, 1, sizeof *b);
    if (!b) return false;
    *b = (struct beam){.width = (int)w, .n_keep = (int)n, .improving = true};
    b->score = arena_push0(a, w, sizeof *b->score);
    b->next = arena_push0(a, w * n, sizeof *b->next);
    b->hyp = arena_push0(a, w, sizeof *b->hyp);
    b->token = arena_push0(a, w + 1, sizeof *b->token);
    b->record = arena_push0(a, w + 1, sizeof *b->record);
    bool ok = b->score && b->next && b->hyp && b->token && b->record;
    for (size_t i = 0; i <= w && ok; i++) {
        b->token[i] = arena_push0(a, (size_t)r->max_tokens + 1, sizeof *b->token[i]);
        b->record[i] = arena_push0(a, ((size_t)r->max_tokens + 1) * n_top, sizeof *b->record[i]);
        ok = b->token[i] && b->record[i];
    }
    for (size_t i = 0; i < w && ok; i++)
        ok = (g->seq[i].pick = arena_push0(a, 1, sizeof *g->seq[i].pick)) != NULL;
    return ok;
}

static void fail(struct seq *s)
{
    s->group->beam->failed = true;
    s->group->seq[0].cause = constraint_cause(s);
}

void beam_pick(struct engine *en, struct seq *s, const float *logits)
{
    const uint32_t *mask = constraint_mask(s, 0);
    if (constraint_lacks(s, 0)) fail(s);
    sample_logprobs(en->work, logits, en->vocab.n_vocab, mask, s->token[s->n_token - 1],
                    s->group->beam->n_keep, s->pick);
    s->picked = true;
}

/* ---- continuations ---- */

static bool ranks_before(const struct continuation *a, const struct continuation *b)
{
    if (a->score != b->score) return a->score > b->score;
    return a->parent != b->parent ? a->parent < b->parent : a->chosen.id < b->chosen.id;
}

/* Collect the best n_keep continuations of all beams, best first. */
static void gather(const struct engine *en, struct group *g)
{
    struct beam *b = g->beam;
    const struct request *r = g->request;
    b->n_next = 0;
    for (int k = 0; k < g->n_seq; k++) {
        const struct seq *s = &g->seq[k];
        for (int i = 0; s->picked && i < s->pick->n_top && i < b->n_keep; i++) {
            struct continuation c = {k, s->pick->top[i], s->pick->top,
                                     s->pick->top[i].logprob + b->score[k], false};
            c.stops = emit_is_stop(en, r, c.chosen.id) || s->n_output + 1 == r->max_tokens;
            int at = b->n_next < b->n_keep ? b->n_next++ : b->n_keep;
            for (; at > 0 && ranks_before(&c, &b->next[at - 1]); at--)
                if (at < b->n_keep) b->next[at] = b->next[at - 1];
            if (at < b->n_keep) b->next[at] = c;
        }
    }
}

/* ---- finished beams ---- */

static int n_top_of(const struct group *g)
{
    return g->request->params.n_logprob > 0 ? g->request->params.n_logprob : 0;
}

static void put_record(const struct group *g, struct logprob *to, const struct continuation *c)
{
    to[0] = c->chosen;
    memcpy(to + 1, c->top, (size_t)n_top_of(g) * sizeof *to);
}

/* Copy the tokens of a finished beam into the spare buffers, because its sequence continues with
 * another beam. */
static struct ranked_answer copy_answer(const struct engine *en, struct group *g,
                                        const struct continuation *c, float score)
{
    struct beam *b = g->beam;
    const struct seq *s = &g->seq[c->parent];
    bool stop = emit_is_stop(en, g->request, c->chosen.id);
    int n = s->n_token - s->n_prompt, row = 1 + n_top_of(g);
    int32_t *token = b->token[b->width];
    struct logprob *record = b->record[b->width];
    memcpy(token, s->token + s->n_prompt, (size_t)n * sizeof *token);
    memcpy(record, s->record, (size_t)(n * row) * sizeof *record);
    token[n] = c->chosen.id;
    put_record(g, record + (int64_t)n * row, c);
    return (struct ranked_answer){.token = token,
                                  .record = record,
                                  .n = stop ? n : n + 1,
                                  .n_output = n + 1,
                                  .finish = stop ? FINISH_STOP : FINISH_LENGTH,
                                  .stop_id = stop ? c->chosen.id : -1,
                                  .score = score};
}

/* Return the length of n generated tokens to the power of the length penalty. A token that is
 * forced after a decoder's start token counts as generated, as in transformers. */
static float length_of(const struct engine *en, const struct group *g, int n)
{
    const int n_forced = en->executor.n_start > 1 ? en->executor.n_start - 1 : 0;
    return (float)pow((double)(n + n_forced), (double)g->request->length_penalty);
}

/* Insert c into the best `width` finished beams if it ranks among them. The beams are in token[0,
 * n_hyp), in any order. */
static void keep_finished(const struct engine *en, struct group *g, const struct continuation *c)
{
    struct beam *b = g->beam;
    int n = g->seq[c->parent].n_output + 1, at = b->n_hyp;
    float score = c->score / length_of(en, g, n);
    if (at == b->width && !(score > b->hyp[at - 1].score)) return;
    struct ranked_answer x = copy_answer(en, g, c, score);
    int spare = at;
    if (at == b->width) {
        spare = 0;
        while (b->token[spare] != b->hyp[at - 1].token) spare++;
        at--;
    } else {
        b->n_hyp++;
    }
    int32_t *token = b->token[spare];
    struct logprob *record = b->record[spare];
    b->token[spare] = b->token[b->width], b->record[spare] = b->record[b->width];
    b->token[b->width] = token, b->record[b->width] = record;
    for (; at > 0 && x.score > b->hyp[at - 1].score; at--) b->hyp[at] = b->hyp[at - 1];
    b->hyp[at] = x;
}

/* Return true if a continuing beam can still improve the answer. best: highest score after n
 * tokens. */
static bool may_improve(const struct engine *en, const struct group *g, float best, int n)
{
    const struct beam *b = g->beam;
    const struct request *r = g->request;
    if (b->n_hyp < b->width) return true;
    if (r->beam_stop == BEAM_STOP) return false;
    if (r->beam_stop == BEAM_NEVER && r->length_penalty > 0) n = r->max_tokens;
    return best / length_of(en, g, n) > b->hyp[b->width - 1].score;
}

/* ---- continuing beams ---- */

/* Use the sequence of a beam that does not continue for a further continuation of parent. */
static void replace_seq(struct engine *en, struct seq *s, const struct seq *parent)
{
    int row = 1 + n_top_of(s->group);
    seq_idle(en, s);
    seq_copy(s, parent);
    memcpy(s->record, parent->record, (size_t)(parent->n_output * row) * sizeof *s->record);
    seq_follow(en, s, parent);
}

/* Return the sequence of continuation i: the parent's sequence if i is the parent's first
 * continuation, otherwise a sequence without a continuation. */
static int seq_of_continuation(struct group *g, const int *place_of,
                               const struct continuation *const *go, int i, int n)
{
    bool first = true;
    for (int k = 0; k < i; k++) first &= go[k]->parent != go[i]->parent;
    if (first) return go[i]->parent;
    for (int s = 0; s < g->n_seq; s++) {
        bool taken = false;
        for (int k = 0; k < n; k++) taken |= go[k]->parent == s || (k < i && place_of[k] == s);
        if (!taken) return s;
    }
    CHECK(false, "%d continuations of %d beams", n, g->n_seq);
}

/* Continue the n best continuations. Sequences are forked before tokens are added, because a fork
 * copies its parent's tokens. */
static void go_on(struct engine *en, struct group *g, const struct continuation *const *go, int n)
{
    int place_of[CHOICES_MAX];
    float score[CHOICES_MAX];
    for (int i = 0; i < n; i++) {
        place_of[i] = seq_of_continuation(g, place_of, go, i, n);
        if (place_of[i] != go[i]->parent)
            replace_seq(en, &g->seq[place_of[i]], &g->seq[go[i]->parent]);
    }
    for (int i = 0; i < n; i++) {
        struct seq *s = &g->seq[place_of[i]];
        if (!constraint_accept(s, go[i]->chosen.id)) fail(s);
        put_record(g, s->record + (int64_t)s->n_output * (1 + n_top_of(g)), go[i]);
        s->token[s->n_token++] = go[i]->chosen.id;
        emit_count(en, s);
        score[place_of[i]] = go[i]->score;
    }
    for (int i = 0; i < n; i++) g->beam->score[place_of[i]] = score[place_of[i]];
    for (int i = 0; i < g->n_seq; i++) {
        bool continues = false;
        for (int k = 0; k < n; k++) continues |= place_of[k] == i;
        g->seq[i].picked = false;
        if (!continues) /* the vocabulary may have fewer tokens than the number of beams */
            seq_idle(en, &g->seq[i]);
    }
}

static void end_beams(struct engine *en, struct group *g)
{
    struct beam *b = g->beam;
    bool some = b->n_hyp > 0 && !b->failed;
    for (int i = 0; i < g->n_answer && some; i++)
        g->answer[i] = b->hyp[i < b->n_hyp ? i : b->n_hyp - 1];
    if (!some && !b->failed) {
        g->seq[0].cause = CAUSE_MODEL; /* no allowed token has a finite logit */
        stats_count(en->stats, STAT_corrupted, 1);
    }
    group_end(en, g, some ? FINISH_NONE : FINISH_ERROR);
}

static void advance(struct engine *en, struct group *g)
{
    struct beam *b = g->beam;
    const struct continuation *go[CHOICES_MAX];
    int n = 0, n_output = g->seq[0].n_output + 1;
    gather(en, g);
    for (int i = 0; i < b->n_next; i++) {
        const struct continuation *c = &b->next[i];
        if (c->stops && i < b->width && b->improving) keep_finished(en, g, c);
        if (!c->stops && n < b->width) go[n++] = c;
    }
    g->forked = true;
    b->improving = b->improving && n > 0 && may_improve(en, g, go[0]->score, n_output);
    if (b->improving && !b->failed) go_on(en, g, go, n);
    if (!b->improving || b->failed) end_beams(en, g);
}

void beam_advance(struct engine *en)
{
    for (struct group *g = en->groups, *next; g; g = next) {
        next = g->next;
        if (!g->beam || g->n_live == 0) continue;
        int n_picked = 0, n_state[SEQ_DONE + 1] = {0};
        for (int i = 0; i < g->n_seq; i++) {
            n_picked += g->seq[i].picked;
            n_state[g->seq[i].state]++;
        }
        if (n_picked > 0 && n_picked == n_state[SEQ_RUNNING] + n_state[SEQ_WAITING]) advance(en, g);
    }
}
