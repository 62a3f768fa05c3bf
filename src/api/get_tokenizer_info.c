/* get_tokenizer_info.c - GET /tokenizer_info: properties of the tokenizer, under the names of a
 * tokenizer_config.json, as in vLLM. Evaluation harnesses use this path if they have no
 * tokenizer. */
#include "server_impl.h"

/* Append a special token's text; null if the tokenizer has no such token. */
static void put_special(struct json_out *o, const char *key, const struct tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *piece = id >= 0 ? tokenizer_piece(t, id, &n) : NULL;
    if (piece)
        out_text(o, key, piece, n);
    else
        out_null(o, key);
}

void get_tokenizer_info(struct exchange *x, void *server)
{
    const struct server *s = server;
    const struct api *a = server_query_model(s, x);
    if (!a) return;
    const struct tokenizer *t = a->session->tokenizer;
    const struct template *chat = a->chat->t;
    const struct model_info *i = a->session->info;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_word(&o, "tokenizer_class", tokenizer_kind(t));
    out_int(&o, "model_max_length", engine_context(a->session->engine));
    out_int(&o, "vocab_size", i->n_vocab);
    out_flag(&o, "add_bos_token", tokenizer_adds_bos(t));
    put_special(&o, "bos_token", t, tokenizer_bos(t));
    put_special(&o, "eos_token", t, tokenizer_eos(t));
    put_special(&o, "unk_token", t, tokenizer_unk(t));
    out_null(&o, "pad_token");
    out_word(&o, "chat_template", chat ? template_source(chat) : NULL);
    out_end(&o);
    served_drop(a);
    server_reply(x, &b);
}
