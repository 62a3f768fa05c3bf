/* emit.c - picking of tokens by logits, and events of the picked tokens.
 *
 * A sequence gets rows only while its reply queue has room for their events (plan.c) and for the
 * ends of the request and its choices. Only the engine pushes into the reply queue, so a push of
 * this file never fails. Ranked groups keep their tokens until their end. After their end, ranked
 * groups emit the tokens while the queue has room. */
#include "engine_impl.h"

#include "base/check.h"

#include <string.h>

/* number of events of a reply queue: tokens of CHOICES_MAX choices for 4 steps */
enum { REPLY_EVENTS = 512 };

struct queue *engine_reply_queue(void)
{
    return queue_open(REPLY_EVENTS, sizeof(struct event));
}

/* Return the number of events that the reply queue can accept now. Places for the ends of the
 * choices and of the request, and the reserved places, are always kept free. */
int emit_room(const struct group *g)
{
    int ends = 1 + (g->ranked ? g->n_answer : g->n_seq > 1 ? g->n_live : 0);
    return REPLY_EVENTS - (int)queue_len(g->request->reply) - ends - g->n_reserved;
}

/* Return the number of events of the planned rows. Before the fork, each pick counts once for every
 * choice. */
int emit_events(const struct seq *s, int n_prompt_out, int n_pick)
{
    const struct group *g = s->group;
    return n_prompt_out + (g->ranked ? 0 : n_pick * (g->forked ? 1 : g->n_seq));
}

/* Divide the room equally among live sequences, so that no sequence uses the room for a token of
 * another sequence. */
int emit_part(const struct seq *s)
{
    return emit_room(s->group) / s->group->n_live;
}

bool emit_needs_logits(const struct seq *s)
{
    return s->group->ranked || s->group->request->params.n_logprob >= 0;
}

/* Push an event. A full queue is a bug, because rows are planned only if there is room. */
static void push(const struct group *g, const struct event *ev)
{
    bool ok = queue_push(g->request->reply, ev);
    CHECK(ok, "the reply queue of request %llu is full", (unsigned long long)ev->request_id);
}

/* Return an event with the common fields set, and no token. */
static struct event event_of(const struct engine *en, const struct group *g, enum event_kind kind)
{
    return (struct event){.request_id = g->request->id,
                          .kind = kind,
                          .time_us = engine_now(en),
                          .token = -1,
                          .stop_id = -1};
}

/* ---- picks ---- */

/* Copy the logprobs of the chosen token and of the top tokens. */
static void fill_logprobs(struct event *ev, const struct pick *p)
{
    ev->chosen = p->chosen;
    ev->n_top = p->n_top < TOP_LOGPROB_MAX ? p->n_top : TOP_LOGPROB_MAX;
    memcpy(ev->top, p->top, (size_t)ev->n_top * sizeof *ev->top);
}

/* Emit the logprob of prompt token `pos`. The logits of the previous position determine the
 * logprob. */
static void emit_prompt(struct engine *en, struct seq *s, int pos, const float *logits)
{
    struct pick p;
    sample_logprobs(en->work, logits, en->vocab.n_vocab, NULL, s->token[pos],
                    s->group->request->n_prompt_logprob, &p);
    struct event ev = event_of(en, s->group, EVENT_PROMPT);
    ev.token = s->token[pos];
    fill_logprobs(&ev, &p);
    push(s->group, &ev);
    s->n_emitted = pos;
}

/* Apply ignore_eos only to the vocabulary's end tokens, not to the request's own stop ids. */
bool emit_is_stop(const struct engine *en, const struct request *r, int32_t id)
{
    const struct sample_params *p = &r->params;
    for (int i = 0; i < p->n_stop_id; i++)
        if (p->stop_id[i] == id) return true;
    for (int i = 0; i < en->vocab.n_eog && !p->ignore_eos; i++)
        if (en->vocab.eog[i] == id) return true;
    return false;
}

/* Return the usage of a sequence. The queue time and the prefill time are times of the group's
 * first sequence. */
static struct usage usage_of(const struct engine *en, const struct seq *s)
{
    const struct seq *first = &s->group->seq[0];
    int64_t now = engine_now(en), sched = first->sched_us ? first->sched_us : now,
            began = s->first_us ? s->first_us : now;
    return (struct usage){.n_prompt = (int)s->group->request->prompt.n,
                          .n_output = s->n_output,
                          .n_cached = first->n_cached,
                          .queue_us = sched - s->group->request->arrival_us,
                          .prefill_us = began - sched,
                          .decode_us = s->first_us ? s->last_us - s->first_us : 0};
}

/* Emit the number of prompt tokens so far, unless the prompt is complete. The step has picked no
 * token then, and has no other event if there are no prompt logprobs. */
static void emit_progress(const struct engine *en, const struct seq *s)
{
    const struct request *r = s->group->request;
    if (!r->progress || s->choice > 0 || s->n_kv >= s->n_prompt || r->n_prompt_logprob >= 0) return;
    if (emit_room(s->group) < 1) return;
    struct event ev = event_of(en, s->group, EVENT_PROGRESS);
    ev.n_done = s->n_kv;
    ev.usage = usage_of(en, s);
    push(s->group, &ev);
}

/* Emit the token, or store it if the group emits at its end. */
static void emit_token(struct engine *en, struct seq *s, const struct pick *p)
{
    const struct request *r = s->group->request;
    int n_top = r->params.n_logprob > 0 ? r->params.n_logprob : 0;
    if (s->record) {
        struct logprob *to = s->record + (int64_t)(s->n_token - 1 - s->n_prompt) * (1 + n_top);
        to[0] = p->chosen;
        memcpy(to + 1, p->top, (size_t)(p->n_top < n_top ? p->n_top : n_top) * sizeof *to);
        return;
    }
    struct event ev = event_of(en, s->group, EVENT_TOKEN);
    ev.choice = s->choice;
    ev.token = p->id;
    ev.usage = usage_of(en, s);
    if (r->params.n_logprob >= 0) fill_logprobs(&ev, p);
    push(s->group, &ev);
}

/* Count a token in figures of the request and of the engine. */
void emit_count(struct engine *en, struct seq *s)
{
    int64_t now = engine_now(en);
    if (s->n_output++ == 0) {
        s->first_us = now;
        stats_first_token(en->stats, now - s->group->request->arrival_us);
    } else {
        stats_token(en->stats, now - s->last_us);
    }
    s->last_us = now;
}

/* End a sequence with an error. The statistics count the answer as corrupted if the model is the
 * cause. */
static void fail(struct engine *en, struct seq *s, enum cause cause)
{
    s->finish = FINISH_ERROR;
    s->cause = cause;
    if (cause == CAUSE_MODEL) stats_count(en->stats, STAT_corrupted, 1);
}

/* Return true if the mask allows only tokens that stop r. */
static bool only_stops(const struct engine *en, const struct request *r, const uint32_t *mask)
{
    bool some = false;
    for (int id = 0; id < en->vocab.n_vocab; id++) {
        if (!(mask[id / 32] >> id % 32 & 1)) continue;
        if (!emit_is_stop(en, r, id)) return false;
        some = true;
    }
    return some;
}

/* Return the cause of a pick without a candidate, and keep the fields of CAUSE_FIELDS. */
static enum cause cause_of(const struct engine *en, struct seq *s, const float *logits,
                           const uint32_t *mask)
{
    if (!constraint_lists_forbid(s->group)) return CAUSE_MODEL;
    s->forbids = sampler_forbidding(s->sampler, en->work, logits, mask);
    return s->forbids ? CAUSE_FIELDS : CAUSE_MODEL;
}

/* End a sequence whose pick has no candidate: all tokens are masked, or no logit is a number. The
 * sequence stops if its constraint has completed the text, even if min_tokens forbids the stop.
 * Otherwise the sequence fails. */
static void stop_or_fail(struct engine *en, struct seq *s, const float *logits,
                         const uint32_t *mask)
{
    const struct request *r = s->group->request;
    if (mask && s->n_output < r->params.min_tokens && only_stops(en, r, mask))
        s->finish = FINISH_STOP;
    else
        fail(en, s, cause_of(en, s, logits, mask));
}

/* Return true if the last `size` tokens of n are equal to the size tokens before them, count - 1
 * times. */
static bool repeats(const int32_t *token, int n, int size, int count)
{
    if ((int64_t)size * count > n) return false;
    for (int i = n - 1; i >= n - size * (count - 1); i--)
        if (token[i] != token[i - size]) return false;
    return true;
}

/* Return true if the answer ends with a repeated pattern (vLLM's repetition_detection). */
static bool ends_in_repetition(const struct seq *s)
{
    const struct request *r = s->group->request;
    const struct repetition *p = &r->repetition;
    const int n = s->n_token - s->n_prompt;
    if (p->size_max == 0 || s->n_output < r->params.min_tokens) return false;
    for (int size = p->size_min; size <= p->size_max; size++)
        if (repeats(s->token + s->n_prompt, n, size, p->count)) return true;
    return false;
}

/* Process a picked token. The order of the steps is important. A stop token is neither emitted nor
 * passed to the constraint. The limit is checked after the token is emitted. */
static void accept_pick(struct engine *en, struct seq *s, const struct pick *p)
{
    const struct request *r = s->group->request;
    emit_count(en, s);
    s->sum_logprob += (double)p->chosen.logprob;
    if (emit_is_stop(en, r, p->id)) {
        s->finish = FINISH_STOP;
        s->stop_id = p->id;
        return;
    }
    if (!constraint_accept(s, p->id)) {
        fail(en, s, constraint_cause(s));
        return;
    }
    CHECK(s->n_token < s->token_max, "%d tokens of %d", s->n_token, s->token_max);
    s->token[s->n_token++] = p->id;
    sampler_accept(s->sampler, p->id);
    emit_token(en, s, p);
    if (s->n_output == r->max_tokens)
        s->finish = FINISH_LENGTH;
    else if (ends_in_repetition(s))
        s->finish = FINISH_REPETITION;
}

void emit_pick(struct engine *en, struct seq *s, const float *logits, const uint32_t *mask)
{
    struct pick p;
    sampler_pick(s->sampler, en->work, logits, mask, &p);
    if (p.id < 0)
        stop_or_fail(en, s, logits, mask);
    else
        accept_pick(en, s, &p);
}

/* Pick forced tokens without running the model: the mask allows one token, with any logits. The
 * sampler also processes forced tokens, because it may forbid a token or change its state by the
 * token. */
void emit_forced(struct engine *en, struct seq *s)
{
    int32_t token[FORCED_MAX];
    if (s->plan.n_more == 0 || s->finish != FINISH_NONE) return;
    int n = constraint_forced(en, s, token, s->plan.n_more);
    for (int i = 0; i < n && s->finish == FINISH_NONE; i++)
        emit_pick(en, s, en->flat, constraint_mask_of(s, token[i]));
}

/* Return true if the row at pos, the i-th row that picks, belongs to the sequence. The token of the
 * row may be a wrong draft token. */
static bool is_accepted(const struct seq *s, int i, int pos)
{
    if (i == 0) return true;
    return s->finish == FINISH_NONE && s->n_token == pos + 1 && s->token[pos] == s->draft[i - 1];
}

/* Pick token i from the logits at position pos. Return false after the last pick. */
static bool pick_row(struct engine *en, struct seq *s, int i, int pos, const float *logits)
{
    struct group *g = s->group;
    if (!is_accepted(s, i, pos) || (i > 0 && constraint_defers(s, i))) return false;
    s->n_kv = pos + 1;
    if (i > 0) state_adopt(en, s, i);
    if (g->beam) {
        beam_pick(en, s, logits);
        return true;
    }
    if (constraint_lacks(s, i)) {
        fail(en, s, constraint_cause(s));
        if (!g->forked) group_fail(en, g);
        return false;
    }
    const uint32_t *mask = constraint_mask(s, i);
    if (!g->forked) group_fork(en, g, logits, mask);
    emit_pick(en, s, logits, mask);
    return true;
}

/* Process the planned rows of a sequence in order: hidden states for pooling, logprobs of the
 * prompt, then picks. A rejected draft token ends the loop, and the remaining rows are unused. */
static void sample_seq(struct engine *en, struct seq *s, struct model_out out)
{
    struct group *g = s->group;
    int n_picked = 0;
    if (s->choice == 0 && s->n_reached < s->n_prompt && s->n_kv >= s->n_prompt)
        stats_prompt(en->stats, s->n_prompt, s->n_cached);
    for (int i = 0; i < s->plan.n_out; i++) {
        int pos = en->batch.pos[en->batch.out_row[s->plan.out0 + i]];
        if (g->request->pooling) {
            pooling_row(en, s, pos,
                        out.hidden + (int64_t)(s->plan.hidden0 + i) * en->executor.d_hidden);
            continue;
        }
        const float *logits = out.logits + (int64_t)(s->plan.logits0 + i) * en->vocab.n_vocab;
        if (pos < s->n_prompt - 1) {
            emit_prompt(en, s, pos + 1, logits);
            continue;
        }
        if (!pick_row(en, s, n_picked++, pos, logits)) break;
    }
    if (n_picked == 0) emit_progress(en, s);
    if (n_picked == 0 || g->beam) return;
    emit_forced(en, s);
    s->n_fresh = s->n_token > s->n_kv ? s->n_token - s->n_kv : 1;
}

/* Fill all masks in parallel, then process the sequences in order. The order of sequences has no
 * effect on results, because each sequence has its own sampler. */
void sample_rows(struct engine *en, struct model_out out)
{
    struct seq **v = en->order; /* forked sequences join the running sequences during the loop */
    int n = 0;
    for (int i = 0; i < en->n_running; i++)
        if (en->running[i]->plan.n_row > 0 && !en->running[i]->padding) v[n++] = en->running[i];
    constraint_masks(en, v, n);
    for (int i = 0; i < n; i++) {
        v[i]->n_kv += v[i]->plan.n_row - v[i]->plan.n_draft;
        state_adopt(en, v[i], 0);
    }
    for (int i = 0; i < n; i++) sample_seq(en, v[i], out);
    beam_advance(en);
    step_lap(en);
}

/* ---- ends ---- */

void emit_choice(const struct engine *en, const struct seq *s)
{
    struct event ev = event_of(en, s->group, EVENT_CHOICE);
    ev.choice = s->choice;
    ev.finish = s->finish;
    ev.cause = s->cause;
    ev.forbids = s->forbids;
    ev.stop_id = s->stop_id;
    ev.usage = usage_of(en, s);
    push(s->group, &ev);
}

/* Emit token g->i_token of an answer of a ranked group. */
static void emit_answer_token(const struct engine *en, const struct group *g,
                              const struct ranked_answer *a)
{
    const struct request *r = g->request;
    int n_top = r->params.n_logprob > 0 ? r->params.n_logprob : 0;
    struct event ev = event_of(en, g, EVENT_TOKEN);
    ev.choice = (int)(a - g->answer);
    ev.token = a->token[g->i_token];
    ev.usage = usage_of(en, &g->seq[0]);
    if (r->params.n_logprob >= 0) {
        const struct logprob *from = a->record + (int64_t)g->i_token * (1 + n_top);
        ev.chosen = from[0];
        while (ev.n_top < n_top && from[1 + ev.n_top].rank > 0) ev.n_top++;
        memcpy(ev.top, from + 1, (size_t)ev.n_top * sizeof *ev.top);
    }
    push(g, &ev);
}

static void emit_answer_end(const struct engine *en, const struct group *g,
                            const struct ranked_answer *a)
{
    struct event ev = event_of(en, g, EVENT_CHOICE);
    ev.choice = (int)(a - g->answer);
    ev.finish = a->finish;
    ev.cause = a->cause;
    ev.forbids = a->forbids;
    ev.stop_id = a->stop_id;
    ev.score = a->score;
    ev.usage = usage_of(en, &g->seq[0]);
    ev.usage.n_output = a->n_output;
    push(g, &ev);
}

/* Return false if the queue is full. i_answer and i_token store the position for the next call. */
bool emit_answers(const struct engine *en, struct group *g)
{
    for (; g->i_answer < g->n_answer; g->i_answer++, g->i_token = 0) {
        const struct ranked_answer *a = &g->answer[g->i_answer];
        for (; g->i_token < a->n; g->i_token++) {
            if (emit_room(g) < 1) return false;
            emit_answer_token(en, g, a);
        }
        if (g->n_answer > 1) emit_answer_end(en, g, a);
    }
    return true;
}

/* Report the times of a request to the statistics. */
static void count_answer(const struct engine *en, const struct group *g, const struct event *done)
{
    static const enum stat_id how[] = {
        [FINISH_STOP] = STAT_done_stop,       [FINISH_LENGTH] = STAT_done_length,
        [FINISH_ABORT] = STAT_done_abort,     [FINISH_ERROR] = STAT_done_error,
        [FINISH_TIMEOUT] = STAT_done_timeout, [FINISH_REPETITION] = STAT_done_repetition,
    };
    const struct seq *s = &g->seq[0];
    int n_longest = s->n_output;
    for (int i = 1; i < g->n_seq; i++)
        if (g->seq[i].n_output > n_longest) n_longest = g->seq[i].n_output;
    stats_done(en->stats, &(struct answer_times){.arrival_us = g->request->arrival_us,
                                                 .sched_us = s->sched_us,
                                                 .first_us = s->first_us,
                                                 .last_us = s->first_us + done->usage.decode_us,
                                                 .done_us = done->time_us,
                                                 .n_prompt = s->n_prompt,
                                                 .n_cached = s->n_cached,
                                                 .n_output = done->usage.n_output,
                                                 .n_longest = n_longest,
                                                 .max_tokens = g->request->max_tokens,
                                                 .n_choice = g->n_seq,
                                                 .n_preempted = g->n_preempted,
                                                 .done = how[done->finish]});
}

/* Emit the last event of a request. */
void emit_done(struct engine *en, const struct group *g)
{
    const struct seq *s = &g->seq[0];
    const struct ranked_answer *a = g->answer && g->answer[0].token ? &g->answer[0] : NULL;
    struct event ev = event_of(en, g, EVENT_DONE);
    ev.finish = g->ended ? g->ended : a ? a->finish : s->finish;
    ev.cause = a ? a->cause : s->cause;
    ev.forbids = a ? a->forbids : s->forbids;
    ev.stop_id = a ? a->stop_id : s->stop_id;
    ev.score = a ? a->score : 0;
    ev.usage = usage_of(en, s);
    ev.usage.n_output = 0;
    for (int i = 0; i < g->n_answer && g->beam; i++) ev.usage.n_output += g->answer[i].n_output;
    for (int i = 0; i < g->n_seq; i++) {
        if (!g->beam) ev.usage.n_output += g->seq[i].n_output;
        int64_t us = g->seq[i].last_us - s->first_us;
        if (us > ev.usage.decode_us) ev.usage.decode_us = us;
    }
    if (ev.finish != FINISH_REFUSED) count_answer(en, g, &ev);
    record_done(en, g, &ev);
    push(g, &ev);
}
