/* emit.c - logits become picked tokens, picked tokens become events.
 *
 * A sequence is only given rows while its reply queue has room for what they will say (sched.c),
 * and the engine is the only one that pushes, so a push here never fails. */
#include "engine_impl.h"

#include <assert.h>

enum { REPLY_EVENTS = 512 };

struct queue *engine_reply_queue(void)
{
    return queue_open(REPLY_EVENTS, sizeof(struct event));
}

int emit_room(const struct seq *s)
{
    return REPLY_EVENTS - (int)queue_len(s->request->reply);
}

static void push(const struct seq *s, const struct event *ev)
{
    bool ok = queue_push(s->request->reply, ev);
    assert(ok), (void)ok;
}

static void fill_logprobs(struct event *ev, const struct pick *p)
{
    ev->chosen = p->chosen;
    ev->n_top = p->n_top < TOP_LOGPROB_MAX ? p->n_top : TOP_LOGPROB_MAX;
    for (int i = 0; i < ev->n_top; i++) ev->top[i] = p->top[i];
}

static void emit_prompt(struct engine *en, struct seq *s, int pos, const float *logits)
{
    struct pick p;
    sample_logprobs(en->work, logits, en->vocab.n_vocab, s->token[pos],
                    s->request->n_prompt_logprob, &p);
    struct event ev = {.request_id = s->request->id,
                       .kind = EVENT_PROMPT,
                       .time_us = engine_now(en),
                       .token = s->token[pos]};
    fill_logprobs(&ev, &p);
    push(s, &ev);
}

static bool is_stop(const struct engine *en, const struct seq *s, int32_t id)
{
    const struct sample_params *p = &s->request->params;
    for (int i = 0; i < p->n_stop_id; i++)
        if (p->stop_id[i] == id) return true;
    for (int i = 0; i < en->vocab.n_eog && !p->ignore_eos; i++)
        if (en->vocab.eog[i] == id) return true;
    return false;
}

static void count_token(struct engine *en, struct seq *s)
{
    int64_t now = engine_now(en);
    if (s->n_output++ == 0) {
        s->first_us = now;
        stats_first_token(en->stats, now - s->request->submit_us);
    } else {
        stats_token(en->stats, now - s->last_us);
    }
    s->last_us = now;
}

static void accept(struct engine *en, struct seq *s, const struct pick *p)
{
    if (p->id < 0) {
        s->finish = FINISH_ERROR; /* everything masked, or logits that are not numbers */
        stats_count(en->stats, STAT_corrupted, 1);
        return;
    }
    count_token(en, s);
    if (is_stop(en, s, p->id)) {
        s->finish = FINISH_STOP;
        s->stop_id = p->id;
        return;
    }
    s->token[s->n_token++] = p->id;
    sampler_accept(s->request->sampler, p->id);
    struct event ev = {
        .request_id = s->request->id, .kind = EVENT_TOKEN, .time_us = s->last_us, .token = p->id};
    if (s->request->params.n_logprob >= 0) fill_logprobs(&ev, p);
    push(s, &ev);
    if (s->n_output == s->request->max_tokens) s->finish = FINISH_LENGTH;
}

static void sample_seq(struct engine *en, struct seq *s, struct model_out out)
{
    if (!s->first_us && s->n_kv + s->n_row >= s->n_prompt)
        stats_prompt(en->stats, s->n_prompt, s->n_cached);
    for (int i = 0; i < s->n_out; i++) {
        const float *logits = out.logits + (int64_t)(s->out0 + i) * en->vocab.n_vocab;
        int pos = en->batch.pos[en->batch.out_row[s->out0 + i]];
        if (pos < s->n_prompt - 1) {
            emit_prompt(en, s, pos + 1, logits);
        } else {
            struct pick p;
            sampler_pick(s->request->sampler, en->work, logits, NULL, &p);
            accept(en, s, &p);
        }
    }
    s->n_kv += s->n_row;
}

void sample_rows(struct engine *en, struct model_out out)
{
    for (struct seq *s = en->running.head; s; s = s->next)
        if (s->n_row > 0) sample_seq(en, s, out);
}

static void count_answer(const struct engine *en, const struct seq *s, int64_t now)
{
    static const enum stat_id how[] = {[FINISH_STOP] = STAT_done_stop,
                                    [FINISH_LENGTH] = STAT_done_length,
                                    [FINISH_ABORT] = STAT_done_abort,
                                    [FINISH_ERROR] = STAT_done_error};
    stats_done(en->stats, &(struct answer_times){.submit_us = s->request->submit_us,
                                                 .sched_us = s->sched_us,
                                                 .first_us = s->first_us,
                                                 .last_us = s->last_us,
                                                 .done_us = now,
                                                 .n_prompt = s->n_prompt,
                                                 .n_cached = s->n_cached,
                                                 .n_output = s->n_output,
                                                 .max_tokens = s->request->max_tokens,
                                                 .n_choice = 1,
                                                 .done = how[s->finish]});
}

void emit_done(const struct engine *en, struct seq *s)
{
    int64_t now = engine_now(en), sched = s->sched_us ? s->sched_us : now,
            first = s->first_us ? s->first_us : now;
    struct event ev = {
        .request_id = s->request->id,
        .kind = EVENT_DONE,
        .time_us = now,
        .finish = s->finish,
        .stop_id = s->stop_id,
        .token = -1,
        .usage = {.n_prompt = s->n_prompt,
                  .n_output = s->n_output,
                  .n_cached = s->n_cached,
                  .queue_us = sched - s->request->submit_us,
                  .prefill_us = first - sched,
                  .decode_us = s->first_us ? s->last_us - s->first_us : 0},
    };
    count_answer(en, s, now);
    push(s, &ev);
}
