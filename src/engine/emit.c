/* emit.c - logits become picked tokens, picked tokens become events.
 *
 * A sequence is only given rows while its reply queue has room for what they will say (sched.c) and
 * for the ends of the request and its choices, and the engine is the only one that pushes, so a push
 * here never fails. Groups that are ranked at their end keep their tokens until then, and tell them
 * as the queue has room. */
#include "engine_impl.h"

#include <assert.h>
#include <string.h>

enum { REPLY_EVENTS = 512 };

struct queue *engine_reply_queue(void)
{
    return queue_open(REPLY_EVENTS, sizeof(struct event));
}

int emit_room(const struct group *g)
{
    int ends = 1 + (g->held ? g->n_answer : g->n_seq > 1 ? g->n_live : 0);
    return REPLY_EVENTS - (int)queue_len(g->request->reply) - ends - g->n_reserved;
}

int emit_events(const struct seq *s, int n_prompt_out, int n_pick)
{
    const struct group *g = s->group;
    return n_prompt_out + (g->held ? 0 : n_pick * (g->forked ? 1 : g->n_seq));
}

static void push(const struct group *g, const struct event *ev)
{
    bool ok = queue_push(g->request->reply, ev);
    assert(ok), (void)ok;
}

static struct event event_of(const struct engine *en, const struct group *g, enum event_kind kind)
{
    return (struct event){.request_id = g->request->id,
                          .kind = kind,
                          .time_us = engine_now(en),
                          .token = -1,
                          .stop_id = -1};
}

/* ---- what was computed ---- */

static void fill_logprobs(struct event *ev, const struct pick *p)
{
    ev->chosen = p->chosen;
    ev->n_top = p->n_top < TOP_LOGPROB_MAX ? p->n_top : TOP_LOGPROB_MAX;
    memcpy(ev->top, p->top, (size_t)ev->n_top * sizeof *ev->top);
}

static void emit_prompt(struct engine *en, struct seq *s, int pos, const float *logits)
{
    struct pick p;
    sample_logprobs(en->work, logits, en->vocab.n_vocab, s->token[pos],
                    s->group->request->n_prompt_logprob, &p);
    struct event ev = event_of(en, s->group, EVENT_PROMPT);
    ev.token = s->token[pos];
    fill_logprobs(&ev, &p);
    push(s->group, &ev);
    s->n_told = pos;
}

bool emit_is_stop(const struct engine *en, const struct request *r, int32_t id)
{
    const struct sample_params *p = &r->params;
    for (int i = 0; i < p->n_stop_id; i++)
        if (p->stop_id[i] == id) return true;
    for (int i = 0; i < en->vocab.n_eog && !p->ignore_eos; i++)
        if (en->vocab.eog[i] == id) return true;
    return false;
}

/* Keep the token for the end, or tell it. */
static void tell(struct engine *en, struct seq *s, const struct pick *p)
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
    if (r->params.n_logprob >= 0) fill_logprobs(&ev, p);
    push(s->group, &ev);
}

void emit_count(struct engine *en, struct seq *s)
{
    int64_t now = engine_now(en);
    if (s->n_output++ == 0) {
        s->first_us = now;
        stats_first_token(en->stats, now - s->group->request->submit_us);
    } else {
        stats_token(en->stats, now - s->last_us);
    }
    s->last_us = now;
}

static void accept(struct engine *en, struct seq *s, const struct pick *p)
{
    const struct request *r = s->group->request;
    if (p->id < 0) {
        s->finish = FINISH_ERROR; /* everything masked, or logits that are not numbers */
        stats_count(en->stats, STAT_corrupted, 1);
        return;
    }
    emit_count(en, s);
    s->sum_logprob += (double)p->chosen.logprob;
    if (emit_is_stop(en, r, p->id)) {
        s->finish = FINISH_STOP;
        s->stop_id = p->id;
        return;
    }
    s->token[s->n_token++] = p->id;
    sampler_accept(s->sampler, p->id);
    tell(en, s, p);
    if (s->n_output == r->max_tokens) s->finish = FINISH_LENGTH;
}

void emit_pick(struct engine *en, struct seq *s, const float *logits)
{
    struct pick p;
    sampler_pick(s->sampler, en->work, logits, NULL, &p);
    accept(en, s, &p);
}

static void sample_seq(struct engine *en, struct seq *s, struct model_out out)
{
    struct group *g = s->group;
    if (s->choice == 0 && s->n_reached < s->n_prompt && s->n_kv >= s->n_prompt)
        stats_prompt(en->stats, s->n_prompt, s->n_cached);
    for (int i = 0; i < s->n_out; i++) {
        int64_t result = s->result0 + i;
        int pos = en->batch.pos[en->batch.out_row[s->out0 + i]];
        if (g->request->pooling) {
            pooling_row(en, s, pos, out.hidden + result * en->executor.d_hidden);
            continue;
        }
        const float *logits = out.logits + result * en->vocab.n_vocab;
        if (pos < s->n_prompt - 1) {
            emit_prompt(en, s, pos + 1, logits);
            continue;
        }
        if (g->beam) {
            beam_pick(en, s, logits);
            continue;
        }
        if (!g->forked) group_fork(en, g, logits);
        emit_pick(en, s, logits);
    }
}

void sample_rows(struct engine *en, struct model_out out)
{
    int n = en->n_running; /* forks join behind, or before: their n_row is 0 */
    for (int i = 0; i < n; i++)
        if (!en->running[i]->spent) en->running[i]->n_kv += en->running[i]->n_row;
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        if (s->n_row == 0 || s->spent) continue;
        sample_seq(en, s, out);
        s->n_out = 0;
    }
    beam_advance(en);
}

/* ---- ends ---- */

static struct usage usage_of(const struct engine *en, const struct seq *s)
{
    const struct seq *first = &s->group->seq[0];
    int64_t now = engine_now(en), sched = first->sched_us ? first->sched_us : now,
            began = s->first_us ? s->first_us : now;
    return (struct usage){.n_prompt = s->n_prompt,
                          .n_output = s->n_output,
                          .n_cached = first->n_cached,
                          .queue_us = sched - s->group->request->submit_us,
                          .prefill_us = began - sched,
                          .decode_us = s->first_us ? s->last_us - s->first_us : 0};
}

void emit_choice(const struct engine *en, const struct seq *s)
{
    struct event ev = event_of(en, s->group, EVENT_CHOICE);
    ev.choice = s->choice;
    ev.finish = s->finish;
    ev.stop_id = s->stop_id;
    ev.usage = usage_of(en, s);
    push(s->group, &ev);
}

static void emit_answer_token(const struct engine *en, const struct group *g,
                              const struct answer *a)
{
    const struct request *r = g->request;
    int n_top = r->params.n_logprob > 0 ? r->params.n_logprob : 0;
    struct event ev = event_of(en, g, EVENT_TOKEN);
    ev.choice = (int)(a - g->answer);
    ev.token = a->token[g->i_token];
    if (r->params.n_logprob >= 0) {
        const struct logprob *from = a->record + (int64_t)g->i_token * (1 + n_top);
        ev.chosen = from[0];
        while (ev.n_top < n_top && from[1 + ev.n_top].rank > 0) ev.n_top++;
        memcpy(ev.top, from + 1, (size_t)ev.n_top * sizeof *ev.top);
    }
    push(g, &ev);
}

static void emit_answer_end(const struct engine *en, const struct group *g, const struct answer *a)
{
    struct event ev = event_of(en, g, EVENT_CHOICE);
    ev.choice = (int)(a - g->answer);
    ev.finish = a->finish;
    ev.stop_id = a->stop_id;
    ev.score = a->score;
    ev.usage = usage_of(en, &g->seq[0]);
    ev.usage.n_output = a->n_output;
    push(g, &ev);
}

bool emit_answers(const struct engine *en, struct group *g)
{
    g->n_reserved = 0;
    for (; g->i_answer < g->n_answer; g->i_answer++, g->i_token = 0) {
        const struct answer *a = &g->answer[g->i_answer];
        for (; g->i_token < a->n; g->i_token++) {
            if (emit_room(g) < 1) return false;
            emit_answer_token(en, g, a);
        }
        if (g->n_answer > 1) emit_answer_end(en, g, a);
    }
    return true;
}

static void count_answer(const struct engine *en, const struct group *g, const struct event *done)
{
    static const enum stat_id how[] = {
        [FINISH_STOP] = STAT_done_stop,       [FINISH_LENGTH] = STAT_done_length,
        [FINISH_ABORT] = STAT_done_abort,     [FINISH_ERROR] = STAT_done_error,
        [FINISH_TIMEOUT] = STAT_done_timeout,
    };
    const struct seq *s = &g->seq[0];
    int n_longest = s->n_output;
    for (int i = 1; i < g->n_seq; i++)
        if (g->seq[i].n_output > n_longest) n_longest = g->seq[i].n_output;
    stats_done(en->stats, &(struct answer_times){.submit_us = g->request->submit_us,
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

void emit_done(struct engine *en, const struct group *g)
{
    const struct seq *s = &g->seq[0];
    const struct answer *a = g->answer && g->answer[0].token ? &g->answer[0] : NULL;
    struct event ev = event_of(en, g, EVENT_DONE);
    ev.finish = g->ended ? g->ended : a ? a->finish : s->finish;
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
    count_answer(en, g, &ev);
    record_done(en, g, &ev);
    push(g, &ev);
}
