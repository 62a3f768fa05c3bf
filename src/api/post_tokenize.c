/* post_tokenize.c - POST /tokenize and /detokenize: convert a text or a conversation to ids and
 * back, as in vLLM and llama.cpp.
 *
 *   request                               answer
 *   prompt, or messages (vLLM)            count, max_model_len, tokens, token_strs
 *   content (llama.cpp)                   tokens: a list of ids, or of objects with id and piece
 *   tokens                                prompt (vLLM), and content (llama.cpp) without a model */
#include "server_impl.h"

#include "base/utf8.h"

#include <stdlib.h>

/* Append the text of each token. A piece may be an incomplete UTF-8 sequence. out_text replaces
 * invalid bytes. */
static void put_pieces(struct json_out *o, const struct tokenizer *t, const struct ids *ids)
{
    out_list(o, "token_strs");
    for (size_t i = 0; i < ids->n; i++) {
        size_t n = 0;
        const char *text = tokenizer_bytes(t, ids->v[i], &n);
        out_text(o, NULL, text, text ? n : 0);
    }
    out_end(o);
}

/* Return the flags of tokens that the tokenizer adds, as in the model's prompts. */
static unsigned added(const struct api *a, bool special)
{
    return session_added(special, a->session->info->headless);
}

/* Return the ids of `prompt`, or of the prompt rendered from `messages`. */
static int encode(const struct api *a, const struct json *body, struct ids *ids, struct err *e)
{
    struct buf rendered = {0};
    bool chat = body_field(body, "messages") != NULL, special = true;
    size_t n;
    const char *text = json_text(body_field(body, "prompt"), &n);
    int rc = body_flag(body, "add_special_tokens", &special, e);
    if (rc == 0 && chat) rc = fields_check(body, ENDPOINT_RENDER, e);
    if (rc == 0 && chat) {
        rc = api_render(a, body, &rendered, NULL, e);
        text = rendered.data ? rendered.data : "";
        n = rendered.n;
    }
    if (rc == 0 && !text)
        rc = err_field(e, ERR_ARG, "prompt",
                       ": expected a string, or messages or content instead, got %s",
                       json_kind_name(json_kind(body_field(body, "prompt"))));
    if (rc == 0)
        rc = tokenizer_encode(a->session->tokenizer, text, n,
                              added(a, special) | ENCODE_PARSE_SPECIAL, ids, e);
    buf_deinit(&rendered);
    return rc;
}

/* ---- llama.cpp's form: `content`, texts and ids; add_special, parse_special, with_pieces ---- */

/* Append a piece in llama.cpp's form. A piece that is not valid UTF-8 is a list of bytes. */
static void put_piece(struct json_out *o, const struct tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *text = tokenizer_bytes(t, id, &n);
    out_object(o, NULL);
    out_int(o, "id", id);
    if (!text || utf8_valid(text, n)) {
        out_text(o, "piece", text, text ? n : 0);
    } else {
        out_list(o, "piece");
        for (size_t i = 0; i < n; i++) out_int(o, NULL, (unsigned char)text[i]);
        out_end(o);
    }
    out_end(o);
}

/* Answer with llama.cpp's defaults, which differ from vLLM's: no special tokens are added unless
 * add_special is true. */
static int put_content_tokens(const struct api *a, const struct json *body, struct buf *b,
                              struct err *e)
{
    struct ids ids = {0};
    bool special = false, parse = true, pieces = false;
    int rc = body_flag(body, "add_special", &special, e);
    if (rc == 0) rc = body_flag(body, "parse_special", &parse, e);
    if (rc == 0) rc = body_flag(body, "with_pieces", &pieces, e);
    const unsigned flags = added(a, special) | (parse ? ENCODE_PARSE_SPECIAL : 0);
    if (rc == 0) rc = read_mixed(&ids, a, "content", body_field(body, "content"), flags, e);
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    if (!pieces) put_ids(&o, "tokens", ids.v, ids.n);
    if (pieces) out_list(&o, "tokens");
    for (size_t i = 0; pieces && i < ids.n; i++) put_piece(&o, a->session->tokenizer, ids.v[i]);
    if (pieces) out_end(&o);
    out_end(&o);
    vec_deinit(&ids);
    return rc;
}

/* Append the answer of /tokenize (server_put_fn). The field of the text selects the form. */
static int put_tokens(const struct api *a, const struct json *body, struct buf *b, struct err *e)
{
    struct ids ids = {0};
    bool texts = false;
    bool content = body_field(body, "content") != NULL;
    if (content + !!body_field(body, "prompt") + !!body_field(body, "messages") > 1)
        return err_field(e, ERR_ARG, "prompt",
                         ": must not come with messages or content, got %d of them",
                         content + !!body_field(body, "prompt") + !!body_field(body, "messages"));
    if (content) return put_content_tokens(a, body, b, e);
    int rc = body_flag(body, "return_token_strs", &texts, e);
    if (rc == 0) rc = encode(a, body, &ids, e);
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    out_int(&o, "count", (int64_t)ids.n);
    out_int(&o, "max_model_len", engine_context(a->session->engine));
    put_ids(&o, "tokens", ids.v, ids.n);
    if (texts)
        put_pieces(&o, a->session->tokenizer, &ids);
    else
        out_null(&o, "token_strs");
    out_end(&o);
    vec_deinit(&ids);
    return rc;
}

void post_tokenize(struct exchange *x, void *server)
{
    server_answer(server, x, put_tokens);
}

/* Append the text of ids. Ids outside the vocabulary are errors with their index, not empty
 * texts. */
static int put_text(const struct api *a, const struct json *body, struct buf *b, struct err *e)
{
    struct buf text = {0};
    struct arena arena = {0};
    const int32_t *ids = NULL;
    int n = 0, n_vocab = a->session->info->n_vocab;
    int rc = body_ids(body, "tokens", &arena, &ids, &n, e);
    if (rc == 0 && !body_field(body, "tokens"))
        rc = body_wrong("tokens", "a list of token ids", NULL, e);
    for (int i = 0; rc == 0 && i < n; i++)
        if (ids[i] < 0 || ids[i] >= n_vocab)
            rc = err_field(e, ERR_ARG, "tokens", "[%d]: must be in [0, %d], got %d", i, n_vocab - 1,
                           ids[i]);
    if (rc == 0 && !tokenizer_decode(a->session->tokenizer, ids, (size_t)n, 0, &text))
        rc = err_memory(e, "a text", (size_t)n);
    arena_deinit(&arena);
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    out_text(&o, "prompt", text.data, text.n);
    if (!body_field(body, "model")) /* llama.cpp's clients send no model, and need this member */
        out_text(&o, "content", text.data, text.n);
    out_end(&o);
    b->failed |= text.failed;
    buf_deinit(&text);
    return rc;
}

void post_detokenize(struct exchange *x, void *server)
{
    server_answer(server, x, put_text);
}
