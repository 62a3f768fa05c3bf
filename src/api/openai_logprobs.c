/* openai_logprobs.c - log probabilities in the form of each of OpenAI's dialects.
 *
 * Chats have an object per token, with the token's bytes. Completions have parallel lists and the
 * offsets of tokens in the text. vLLM's prompt_logprobs has an object per token whose members are
 * named by ids.
 *
 * A token's text may be a part of a character. JSON cannot contain such bytes, so several tokens
 * can have the same name in these forms. vLLM's return_tokens_as_token_ids therefore selects
 * "token_id:ID" as the name (token_names.ids). */
#include "openai.h"

#include <math.h>
#include <stdio.h>

enum { ID_NAME_MAX = 24 };

/* Return the name of a token [n], borrowed from the tokenizer or from `room`. */
static const char *name_of(const struct token_names *t, int32_t id, char room[static ID_NAME_MAX],
                           size_t *n)
{
    const char *text = tokenizer_bytes(t->tokenizer, id, n);
    if (!t->ids) return text ? text : (*n = 0, "");
    *n = (size_t)snprintf(room, ID_NAME_MAX, "token_id:%d", id);
    return room;
}

/* Append a token's name. Invalid UTF-8 is replaced, so chats also get the bytes. */
static void put_token(struct json_out *o, const char *key, const struct token_names *t, int32_t id)
{
    char room[ID_NAME_MAX];
    size_t n = 0;
    const char *text = name_of(t, id, room, &n);
    out_text(o, key, text, n);
}

/* Append the members of a token of a chat. */
static void put_chat_token(struct json_out *o, const struct token_names *t, const struct logprob *p)
{
    size_t n = 0;
    const char *text = tokenizer_bytes(t->tokenizer, p->id, &n);
    put_token(o, "token", t, p->id);
    out_double(o, "logprob", (double)p->logprob);
    out_list(o, "bytes");
    for (size_t i = 0; text && i < n; i++) out_int(o, NULL, (unsigned char)text[i]);
    out_end(o);
}

void put_logprobs_list(struct json_out *o, const char *key, const struct token_names *t,
                       const struct token_logprobs *v, size_t n)
{
    out_list(o, key);
    for (size_t i = 0; i < n; i++) {
        out_object(o, NULL);
        put_chat_token(o, t, &v[i].chosen);
        out_list(o, "top_logprobs");
        for (int k = 0; k < v[i].n_top; k++) {
            out_object(o, NULL);
            put_chat_token(o, t, &v[i].top[k]);
            out_end(o);
        }
        out_end(o);
        out_end(o);
    }
    out_end(o);
}

/* Append the member "logprobs":
 *    {"content":[{"token":"a","logprob":-0.1,"bytes":[97],"top_logprobs":[...]}],"refusal":null} */
void put_logprobs_chat(struct json_out *o, const struct token_names *t,
                       const struct answer_log *log)
{
    out_object(o, "logprobs");
    put_logprobs_list(o, "content", t, log->v, log->n);
    out_null(o, "refusal");
    out_end(o);
}

/* Append the most likely tokens, and the chosen token if it is not among them. The result has n or
 * n + 1 tokens, as in OpenAI's API. */
static void put_top(struct json_out *o, const struct token_names *t, const struct token_logprobs *p)
{
    bool chosen = false;
    for (int k = 0; k < p->n_top; k++) chosen |= p->top[k].id == p->chosen.id;
    out_object(o, NULL);
    for (int k = chosen ? 0 : -1; k < p->n_top; k++) {
        const struct logprob *l = k < 0 ? &p->chosen : &p->top[k];
        char room[ID_NAME_MAX];
        size_t n = 0;
        const char *text = name_of(t, l->id, room, &n);
        out_key(o, text, n);
        out_double(o, NULL, (double)l->logprob);
    }
    out_end(o);
}

/* Return the number of bytes of the logged tokens' texts. */
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

/* Append the log probability of a token. The first token of a prompt has no log probability. */
static void put_top_or_null(struct json_out *o, const struct token_names *t,
                            const struct token_logprobs *p)
{
    if (isnan(p->chosen.logprob))
        out_null(o, NULL);
    else
        put_top(o, t, p);
}

/* The object has four parallel lists with one item per token:
 *    {"tokens":["a"],"token_logprobs":[-0.1],"top_logprobs":[{"a":-0.1}],"text_offset":[0]} */
void put_logprobs_completion(struct json_out *o, const struct token_names *t,
                             const struct answer_log *prompt, const struct answer_log *log,
                             size_t text_offset)
{
    static const char *const name[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    out_object(o, "logprobs");
    for (int list = 0; list < 4; list++) {
        out_list(o, name[list]);
        for (size_t i = 0; i < prompt->n + log->n; i++) {
            const struct token_logprobs *p = i < prompt->n ? &prompt->v[i] : &log->v[i - prompt->n];
            if (list == 0) put_token(o, NULL, t, p->chosen.id);
            if (list == 1) out_double(o, NULL, (double)p->chosen.logprob);
            if (list == 2) put_top_or_null(o, t, p);
            if (list == 3) out_int(o, NULL, (int64_t)text_offset);
            if (list == 3)
                text_offset +=
                    log_bytes(t->tokenizer, &(struct answer_log){.v = (void *)p, .n = 1});
        }
        out_end(o);
    }
    out_end(o);
}

/* Append an object as a member whose name is the token's id. */
static void put_by_id(struct json_out *o, const struct tokenizer *t, const struct logprob *p)
{
    char id[16];
    snprintf(id, sizeof id, "%d", p->id);
    out_object(o, id);
    out_double(o, "logprob", (double)p->logprob);
    out_int(o, "rank", p->rank);
    put_token(o, "decoded_token", &(struct token_names){t, false}, p->id);
    out_end(o);
}

/* The list has one object per token of the prompt, and null for the first token:
 *    [null,{"97":{"logprob":-0.1,"rank":1,"decoded_token":"a"}}] */
void put_prompt_logprobs(struct json_out *o, const struct tokenizer *t,
                         const struct answer_log *log)
{
    out_list(o, "prompt_logprobs");
    out_null(o, NULL);
    for (size_t i = 1; i < log->n; i++) {
        const struct token_logprobs *p = &log->v[i];
        out_object(o, NULL);
        put_by_id(o, t, &p->chosen);
        for (int k = 0; k < p->n_top; k++)
            if (p->top[k].id != p->chosen.id) put_by_id(o, t, &p->top[k]);
        out_end(o);
    }
    out_end(o);
}
