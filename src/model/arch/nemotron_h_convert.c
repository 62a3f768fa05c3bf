/* nemotron_h_convert.c - conversion of Nemotron-H. A GGUF with mixtures is nemotron_h_moe, and all
 * its feed-forward blocks are mixtures. Two lists give the kinds of layers: KV heads for attention,
 * widths for feed-forward blocks, and zeros in both for layers of Mamba-2. */
#include "nemotron_h_impl.h"

#include "model/convert_impl.h"

#include <stdio.h>

/* Return the letter of a layer's kind, as in hybrid_override_pattern. */
static char kind_of(const struct layer_config *l)
{
    return l->recurrent ? 'M' : l->n_expert > 0 ? 'E' : l->d_ff > 0 ? '-' : '*';
}

/* Return the first layer of a kind; NULL if there is none. */
static const struct layer_config *first_of(const struct config *c, char kind)
{
    for (int i = 0; i < c->n_layer; i++)
        if (kind_of(&c->layer[i]) == kind) return &c->layer[i];
    return NULL;
}

/* ---- to GGUF ---- */

static const char *gguf_name(const struct model *m)
{
    return first_of(&m->config, 'E') ? "nemotron_h_moe" : "nemotron_h";
}

static void put_keys(struct key_writer *w)
{
    const struct config *c = &w->m->config;
    const struct layer_config *mixture = first_of(c, 'E');
    if (w->rc == 0 && mixture && first_of(c, '-'))
        w->rc = err_set(w->e, ERR_UNSUPPORTED,
                        "%s: config.json: layers_block_type: a GGUF with mixtures cannot have "
                        "layers with a feed-forward block",
                        checkpoint_path(w->m->checkpoint));
    mamba2_put_keys(w);
    if (mixture && mixture->d_latent > 0) gguf_put_int(w, "moe_latent_size", mixture->d_latent);
}

/* ---- to a folder ---- */

static void pattern(struct config_writer *w, const char *name)
{
    hf_put_name(w, name);
    buf_add_char(w->b, '"');
    for (int i = 0; i < w->c->n_layer; i++) buf_add_char(w->b, kind_of(&w->c->layer[i]));
    buf_add_char(w->b, '"');
}

static void d_ff(struct config_writer *w, const char *name)
{
    const struct layer_config *l = first_of(w->c, '-');
    hf_put_int(w, name, l ? l->d_ff : w->c->d_ff);
}

static void ffn_bias(struct config_writer *w, const char *name)
{
    char down[NAME_BYTES];
    const struct layer_config *l = first_of(w->c, '-');
    snprintf(down, sizeof down, "blk.%d.ffn_down.bias", l ? (int)(l - w->c->layer) : 0);
    hf_put_bool(w, name, hf_has(w, down));
}

static void d_latent(struct config_writer *w, const char *name)
{
    const struct layer_config *l = first_of(w->c, 'E');
    if (l && l->d_latent > 0) hf_put_int(w, name, l->d_latent);
}

static void step_least(struct config_writer *w, const char *name)
{
    const struct nemotron_h_own *own = w->c->own;
    hf_put_real(w, name, (double)own->mamba.step_least);
}

static const struct hf_field field[] = {MAMBA2_SIZE_FIELDS,
                                        {"feed_forward_length", d_ff},
                                        {"moe_latent_size", d_latent},
                                        {"config.hybrid_override_pattern", pattern},
                                        {"config.mlp_bias", ffn_bias},
                                        {"config.use_bias", mamba2_put_bias},
                                        {"config.use_conv_bias", mamba2_put_conv_bias},
                                        {"config.time_step_min", step_least},
                                        {0}};
const struct arch_convert nemotron_h_convert = {.field = field,
                                                .f32 = mamba2_f32,
                                                .name = mamba2_names,
                                                .gguf_name = gguf_name,
                                                .place = mamba2_place,
                                                .put_keys = put_keys};
