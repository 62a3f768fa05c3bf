/* llama4_convert.c - conversion of a GGUF of Llama 4 to a directory: members of config.json for the
 * constants of llama.cpp. */
#include "llama4_impl.h"

#include "model/convert_impl.h"

/* Write the size of the chunks; null without chunks. */
static void chunk(struct config_writer *w, const char *name)
{
    int size = 0;
    for (int i = 0; i < w->c->n_layer; i++)
        if (w->c->layer[i].chunk > 0) size = w->c->layer[i].chunk;
    if (size > 0)
        hf_put_int(w, name, size);
    else
        hf_put_limit(w, name, 0);
}

static void layer_types(struct config_writer *w, const char *name)
{
    hf_put_name(w, name);
    for (int i = 0; i < w->c->n_layer; i++)
        buf_addf(w->b, "%c\"%s_attention\"", i ? ',' : '[',
                 w->c->layer[i].chunk ? "chunked" : "full");
    buf_add_char(w->b, ']');
}

static void mixtures(struct config_writer *w, const char *name)
{
    bool any = false;
    hf_put_name(w, name);
    buf_add_char(w->b, '[');
    for (int i = 0; i < w->c->n_layer; i++)
        if (w->c->layer[i].n_expert > 0) buf_addf(w->b, "%s%d", any ? "," : "", i), any = true;
    buf_add_char(w->b, ']');
}

static void norms(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, w->c->head_norms);
}

static const struct hf_field fields[] = {{"config.attention_chunk_size", chunk},
                                         {"config.layer_types", layer_types},
                                         {"config.moe_layers", mixtures},
                                         {"config.use_qk_norm", norms},
                                         {0}};
const struct arch_convert llama4_convert = {.field = fields};
