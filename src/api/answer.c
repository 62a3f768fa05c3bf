/* answer.c - a request's events add up to an answer: text, ids, log probabilities, and how it ended. */
#include "api_impl.h"

#include <stdlib.h>

static void note(struct api_answer *a, struct answer_log *log, const struct event *ev)
{
    struct token_logprobs t = {.n_top = ev->n_top, .chosen = ev->chosen};
    for (int i = 0; i < ev->n_top; i++) t.top[i] = ev->top[i];
    a->no_memory |= !vec_push(log, t);
}

void answer_event(struct api_answer *a, const struct event *ev)
{
    bool belongs = ev->kind == EVENT_TOKEN && !a->reply.matched;
    if (belongs) a->no_memory |= !vec_push(&a->ids, ev->token);
    if (belongs && a->wants_log) note(a, &a->log, ev);
    if (ev->kind == EVENT_PROMPT) note(a, &a->prompt_log, ev);
    if (ev->kind == EVENT_DONE) a->stop_id = ev->stop_id;
    a->done = reply_event(&a->reply, ev, &a->text);
    a->no_memory |= a->text.failed;
}

void answer_close(struct api_answer *a)
{
    reply_close(&a->reply);
    buf_deinit(&a->text);
    vec_deinit(&a->ids);
    vec_deinit(&a->log);
    vec_deinit(&a->prompt_log);
}

void put_finish(struct buf *b, const struct part *p, bool called)
{
    const struct api_answer *a = &p->answer;
    bool call = called && a->reply.finish == FINISH_STOP;
    buf_addf(b, ",\"finish_reason\":\"%s\",\"stop_reason\":",
             call ? "tool_calls" : finish_name(a->reply.finish));
    if (a->reply.stop_index >= 0)
        json_put_text(b, p->reply.stop[a->reply.stop_index].text,
                      p->reply.stop[a->reply.stop_index].n);
    else if (a->stop_id >= 0 && !tokenizer_is_eog(p->reply.tokenizer, a->stop_id))
        buf_addf(b, "%d", a->stop_id);
    else
        buf_add_text(b, "null");
}

/* ---- log probabilities ---- */

static void put_token(struct buf *b, const struct tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *text = tokenizer_bytes(t, id, &n);
    json_put_text(b, text ? text : "", text ? n : 0);
}

static void put_chat_token(struct buf *b, const struct tokenizer *t, const struct logprob *p)
{
    size_t n = 0;
    const char *text = tokenizer_bytes(t, p->id, &n);
    buf_add_text(b, "{\"token\":");
    put_token(b, t, p->id);
    buf_add_text(b, ",\"logprob\":");
    json_put_real(b, (double)p->logprob);
    buf_add_text(b, ",\"bytes\":[");
    for (size_t i = 0; text && i < n; i++)
        buf_addf(b, "%s%d", i ? "," : "", (unsigned char)text[i]);
    buf_add_char(b, ']');
}

void put_logprobs_chat(struct buf *b, const struct tokenizer *t, const struct answer_log *log)
{
    buf_add_text(b, "{\"content\":[");
    for (size_t i = 0; i < log->n; i++) {
        const struct token_logprobs *p = &log->v[i];
        if (i) buf_add_char(b, ',');
        put_chat_token(b, t, &p->chosen);
        buf_add_text(b, ",\"top_logprobs\":[");
        for (int k = 0; k < p->n_top; k++) {
            if (k) buf_add_char(b, ',');
            put_chat_token(b, t, &p->top[k]);
            buf_add_char(b, '}');
        }
        buf_add_text(b, "]}");
    }
    buf_add_text(b, "]}");
}

static void put_top(struct buf *b, const struct tokenizer *t, const struct token_logprobs *p)
{
    buf_add_char(b, '{');
    for (int k = 0; k < p->n_top; k++) {
        if (k) buf_add_char(b, ',');
        put_token(b, t, p->top[k].id);
        buf_add_char(b, ':');
        json_put_real(b, (double)p->top[k].logprob);
    }
    buf_add_char(b, '}');
}

void put_logprobs_completion(struct buf *b, const struct tokenizer *t, const struct answer_log *log,
                             size_t text_offset)
{
    buf_add_text(b, "{\"tokens\":[");
    for (size_t i = 0; i < log->n; i++) {
        if (i) buf_add_char(b, ',');
        put_token(b, t, log->v[i].chosen.id);
    }
    buf_add_text(b, "],\"token_logprobs\":[");
    for (size_t i = 0; i < log->n; i++) {
        if (i) buf_add_char(b, ',');
        json_put_real(b, (double)log->v[i].chosen.logprob);
    }
    buf_add_text(b, "],\"top_logprobs\":[");
    for (size_t i = 0; i < log->n; i++) {
        if (i) buf_add_char(b, ',');
        put_top(b, t, &log->v[i]);
    }
    buf_add_text(b, "],\"text_offset\":[");
    for (size_t i = 0; i < log->n; i++) {
        size_t n = 0;
        buf_addf(b, "%s%zu", i ? "," : "", text_offset);
        (void)tokenizer_bytes(t, log->v[i].chosen.id, &n);
        text_offset += n;
    }
    buf_add_text(b, "]}");
}

static void put_by_id(struct buf *b, const struct tokenizer *t, const struct logprob *p)
{
    buf_addf(b, "\"%d\":{\"logprob\":", p->id);
    json_put_real(b, (double)p->logprob);
    buf_addf(b, ",\"rank\":%d,\"decoded_token\":", p->rank);
    put_token(b, t, p->id);
    buf_add_char(b, '}');
}

void put_prompt_logprobs(struct buf *b, const struct tokenizer *t, const struct answer_log *log)
{
    buf_add_text(b, "[null");
    for (size_t i = 0; i < log->n; i++) {
        const struct token_logprobs *p = &log->v[i];
        buf_add_text(b, ",{");
        put_by_id(b, t, &p->chosen);
        for (int k = 0; k < p->n_top; k++) {
            if (p->top[k].id == p->chosen.id) continue;
            buf_add_char(b, ',');
            put_by_id(b, t, &p->top[k]);
        }
        buf_add_char(b, '}');
    }
    buf_add_char(b, ']');
}
