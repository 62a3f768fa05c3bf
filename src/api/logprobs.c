/* logprobs.c - log probabilities as each endpoint writes them. */
#include "api_impl.h"

#include <math.h>

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
    buf_add_text(b, "],\"refusal\":null}");
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

size_t log_bytes(const struct tokenizer *t, const struct answer_log *log)
{
    size_t all = 0;
    for (size_t i = 0; i < log->n; i++) {
        size_t n = 0;
        (void)tokenizer_bytes(t, log->v[i].chosen.id, &n);
        all += n;
    }
    return all;
}

/* A prompt's first token, which nothing was before, has no logprob. */
static void put_top_or_null(struct buf *b, const struct tokenizer *t,
                            const struct token_logprobs *p)
{
    if (isnan(p->chosen.logprob))
        buf_add_text(b, "null");
    else
        put_top(b, t, p);
}

void put_logprobs_completion(struct buf *b, const struct tokenizer *t,
                             const struct answer_log *prompt, const struct answer_log *log,
                             size_t text_offset)
{
    static const char *const name[] = {"{\"tokens\":[", "],\"token_logprobs\":[",
                                       "],\"top_logprobs\":[", "],\"text_offset\":["};
    for (int list = 0; list < 4; list++) {
        buf_add_text(b, name[list]);
        for (size_t i = 0; i < prompt->n + log->n; i++) {
            const struct token_logprobs *p = i < prompt->n ? &prompt->v[i] : &log->v[i - prompt->n];
            if (i) buf_add_char(b, ',');
            if (list == 0) put_token(b, t, p->chosen.id);
            if (list == 1) json_put_real(b, (double)p->chosen.logprob);
            if (list == 2) put_top_or_null(b, t, p);
            if (list == 3) buf_addf(b, "%zu", text_offset);
            if (list == 3)
                text_offset += log_bytes(t, &(struct answer_log){.v = (void *)p, .n = 1});
        }
    }
    buf_add_text(b, "]}");
}

void put_ids(struct buf *b, const int32_t *ids, size_t n)
{
    buf_add_char(b, '[');
    for (size_t i = 0; i < n; i++) buf_addf(b, i ? ",%d" : "%d", ids[i]);
    buf_add_char(b, ']');
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
    for (size_t i = 1; i < log->n; i++) {
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
