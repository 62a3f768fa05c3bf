/* logprobs.c - log probabilities as each endpoint writes them. */
#include "api_impl.h"

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
