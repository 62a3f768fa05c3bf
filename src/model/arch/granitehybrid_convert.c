/* granitehybrid_convert.c - conversion of Granite 4 and Bamba. Their GGUF files have the
 * architecture granitehybrid: 0 KV heads for layers of Mamba-2, a key for the rope, and
 * feed-forward blocks in models without mixtures. A model without recurrent layers is granite or
 * granitemoe in a GGUF, as in llama.cpp's converter. */
#include "granite_impl.h"
#include "mamba2_impl.h"

#include "model/convert_impl.h"

#include <stdio.h>
#include <string.h>

/* Return the first layer of a kind; the number of layers if there is none. */
static int first_layer(const struct config *c, bool recurrent)
{
    int il = 0;
    while (il < c->n_layer && c->layer[il].recurrent != recurrent) il++;
    return il;
}

/* Return true if attention has a rope. */
static bool has_rope(const struct config *c)
{
    const int il = first_layer(c, false);
    return il < c->n_layer && c->layer[il].rope != ROPE_OFF;
}

/* ---- to GGUF ---- */

static const char *gguf_name(const struct model *m)
{
    const struct config *c = &m->config;
    if (first_layer(c, true) < c->n_layer || !has_rope(c)) return "granitehybrid";
    return c->layer[0].n_expert > 0 ? "granitemoe" : "granite";
}

/* Remove "_shexp" from the name of a block of all rows in a model without mixtures. */
static void rename_dense(char name[NAME_BYTES], const struct model *m)
{
    static const char part[] = "_shexp.";
    char *at = strstr(name, part);
    if (at && m->config.layer[0].n_expert == 0)
        memmove(at, at + sizeof part - 2, strlen(at + sizeof part - 2) + 1);
}

static void put_keys(struct key_writer *w)
{
    gguf_put_bool(w, "rope.scaling.finetuned", has_rope(&w->m->config));
    if (w->gguf->gguf_kinds) mamba2_put_keys(w);
}

/* ---- to a folder ---- */

static void n_head_kv(struct config_writer *w, const char *name)
{
    const int il = first_layer(w->c, false);
    hf_put_int(w, name, w->c->layer[il < w->c->n_layer ? il : 0].n_head_kv);
}

/* Append the layers with attention. */
static void listed(struct config_writer *w, const char *name)
{
    bool more = false;
    hf_put_name(w, name);
    buf_add_char(w->b, '[');
    for (int i = 0; i < w->c->n_layer; i++) {
        if (w->c->layer[i].recurrent) continue;
        buf_addf(w->b, "%s%d", more ? "," : "", i);
        more = true;
    }
    buf_add_char(w->b, ']');
}

/* Append whether a matrix of attention has biases. */
static void attn_bias(struct config_writer *w, const char *name)
{
    char q[NAME_BYTES];
    snprintf(q, sizeof q, "blk.%d.attn_q.bias", first_layer(w->c, false));
    hf_put_bool(w, name, hf_has(w, q));
}

/* Append the kinds of layers, with the names of published files. */
static void kinds(struct config_writer *w, const char *name)
{
    hf_put_kinds(w, name, "mamba", "attention");
}

static void positions(struct config_writer *w, const char *name)
{
    hf_put_text(w, name, has_rope(w->c) ? "rope" : "nope");
}

static void n_expert(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->layer[0].n_expert);
}

static void n_expert_used(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, w->c->layer[0].n_expert_used);
}

static void d_expert(struct config_writer *w, const char *name)
{
    const struct layer_config *l = &w->c->layer[0];
    hf_put_int(w, name, l->n_expert > 0 ? l->d_expert : l->d_ff);
}

static void d_shared(struct config_writer *w, const char *name)
{
    const struct layer_config *l = &w->c->layer[0];
    hf_put_int(w, name, l->n_expert > 0 ? l->d_shared : l->d_ff);
}

static const struct hf_field bamba_field[] = {MAMBA2_HYBRID_FIELDS,
                                              {"attention.head_count_kv", n_head_kv},
                                              {"config.attention_bias", attn_bias},
                                              {"config.attn_layer_indices", listed},
                                              {0}};
const struct arch_convert bamba_convert = {.field = bamba_field,
                                           .f32 = mamba2_f32,
                                           .name = mamba2_names,
                                           .place = mamba2_place,
                                           .put_keys = put_keys};

static const struct hf_field field[] = {MAMBA2_HYBRID_FIELDS,
                                        {"attention.head_count_kv", n_head_kv},
                                        {"config.attention_bias", attn_bias},
                                        {"config.layer_types", kinds},
                                        {"config.position_embedding_type", positions},
                                        {"expert_count", n_expert},
                                        {"expert_used_count", n_expert_used},
                                        {"feed_forward_length", d_expert},
                                        {"expert_shared_feed_forward_length", d_shared},
                                        {0}};
const struct arch_convert granitehybrid_convert = {.field = field,
                                                   .f32 = mamba2_f32,
                                                   .name = mamba2_names,
                                                   .gguf_name = gguf_name,
                                                   .rename = rename_dense,
                                                   .place = mamba2_place,
                                                   .put_keys = put_keys};
