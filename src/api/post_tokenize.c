/* post_tokenize.c - POST /tokenize and /detokenize: a text or a conversation to ids and back, as vLLM has them. */
#include "server_impl.h"

#include <stdlib.h>

static void put_pieces(struct buf *b, const struct tokenizer *t, const struct ids *ids)
{
    buf_add_text(b, ",\"token_strs\":[");
    for (size_t i = 0; i < ids->n; i++) {
        size_t n = 0;
        const char *text = tokenizer_bytes(t, ids->v[i], &n);
        if (i) buf_add_char(b, ',');
        json_put_text(b, text ? text : "", n);
    }
    buf_add_char(b, ']');
}

/* `prompt`, or what `messages` become, as ids. */
static int encode(const struct api *a, const struct json *body, struct ids *ids, struct err *e)
{
    struct buf rendered = {0};
    bool chat = body_field(body, "messages") != NULL, special = true;
    size_t n;
    const char *text = json_text(body_field(body, "prompt"), &n);
    int rc = body_flag(body, "add_special_tokens", &special, e);
    if (rc == 0 && chat) {
        rc = api_render(a, body, &rendered, NULL, e);
        text = rendered.data ? rendered.data : "";
        n = rendered.n;
    }
    if (rc == 0 && !text)
        rc = err_set(e, ERR_ARG, "prompt: expected a text, or messages beside it");
    if (rc == 0)
        rc = tokenizer_encode(a->session->tokenizer, text, n,
                              ENCODE_PARSE_SPECIAL | (special ? ENCODE_ADD_SPECIAL : 0), ids, e);
    buf_deinit(&rendered);
    return rc;
}

static int put_tokens(const struct api *a, const struct json *body, struct buf *b, struct err *e)
{
    struct ids ids = {0};
    bool texts = false;
    int rc = body_flag(body, "return_token_strs", &texts, e);
    if (rc == 0) rc = encode(a, body, &ids, e);
    buf_addf(b, "{\"count\":%zu,\"max_model_len\":%d,\"tokens\":", ids.n,
             model_info(a->session->model)->context_max);
    put_ids(b, ids.v, ids.n);
    if (texts)
        put_pieces(b, a->session->tokenizer, &ids);
    else
        buf_add_text(b, ",\"token_strs\":null");
    buf_add_char(b, '}');
    vec_deinit(&ids);
    return rc;
}

void post_tokenize(struct exchange *x, void *server)
{
    server_answer(server, x, put_tokens);
}

static int put_text(const struct api *a, const struct json *body, struct buf *b, struct err *e)
{
    struct buf text = {0};
    struct arena arena = {0};
    const int32_t *ids = NULL;
    int n = 0, n_vocab = model_info(a->session->model)->n_vocab;
    int rc = body_ids(body, "tokens", &arena, &ids, &n, e);
    if (rc == 0 && !body_field(body, "tokens"))
        rc = err_set(e, ERR_ARG, "tokens: expected a list of token ids");
    for (int i = 0; rc == 0 && i < n; i++)
        if (ids[i] < 0 || ids[i] >= n_vocab)
            rc = err_set(e, ERR_ARG, "tokens[%d]: %d is not an id below %d", i, ids[i], n_vocab);
    if (rc == 0 && !tokenizer_decode(a->session->tokenizer, ids, (size_t)n, 0, &text))
        rc = err_memory(e, "a text", (size_t)n);
    arena_deinit(&arena);
    put_prompt(b, &text);
    return rc;
}

void post_detokenize(struct exchange *x, void *server)
{
    server_answer(server, x, put_text);
}
