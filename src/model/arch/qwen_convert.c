/* qwen_convert.c - conversion of the rope sections in text parts of models with images, and of
 * layers with the gated delta rule. */
#include "qwen_impl.h"

#include "model/convert_impl.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* Write the numbers of pairs of lanes with positions in time, height and width, and a 0. Each
 * section is a third of the pairs if a directory lacks these numbers, because the sections of a
 * text have equal positions. */
static void put_keys(struct key_writer *w)
{
    const int n_pair = w->m->config.rope[ROPE_MAIN].d_rot / 2;
    const struct meta *list =
        checkpoint_meta(w->m->checkpoint, "config.rope_parameters.mrope_section");
    int32_t n[4] = {n_pair - 2 * (n_pair / 3), n_pair / 3, n_pair / 3, 0};
    char key[80];
    for (size_t i = 0; i < 3 && list; i++) n[i] = (int32_t)meta_item_int(list, i, n[i]);
    snprintf(key, sizeof key, "%s.rope.dimension_sections", w->arch);
    if (w->rc == 0) w->rc = checkpoint_add_ints(w->view, key, n, 4, w->e);
}

const struct arch_convert qwen_sections_convert = {.put_keys = put_keys};

/* ---- Qwen3-Next and Qwen3.5 ---- */

/* Return the interval of layers with attention; 0 if the layers have no interval. */
static int attention_interval(const struct config *c)
{
    for (int n = 1; n <= c->n_layer + 1; n++) {
        int i = 0;
        while (i < c->n_layer && c->layer[i].recurrent == ((i + 1) % n != 0)) i++;
        if (i == c->n_layer) return n;
    }
    return 0;
}

static bool is_recurrent(const struct layer_config *l)
{
    return l->recurrent;
}

/* Write the sizes of recurrent layers, and the layers with attention. */
static void put_hybrid_keys(struct key_writer *w)
{
    const struct config *c = &w->m->config;
    const struct delta_sizes *s = c->own;
    const int n = attention_interval(c);
    gguf_put_int(w, "ssm.conv_kernel", s->n_tap);
    gguf_put_int(w, "ssm.state_size", s->d_k);
    gguf_put_int(w, "ssm.group_count", s->n_head_k);
    gguf_put_int(w, "ssm.time_step_rank", s->n_head);
    gguf_put_int(w, "ssm.inner_size", (int64_t)s->n_head * s->d_v);
    if (n > 0) {
        gguf_put_int(w, "full_attention_interval", n);
        return;
    }
    gguf_put_flags(w, "attention.recurrent_layers", is_recurrent);
}

static void put_tiled_keys(struct key_writer *w)
{
    put_hybrid_keys(w);
    put_keys(w);
}

/* Set the order and the values of a tensor of a layer with the gated delta rule. */
static void place_hybrid(struct source *s, const struct model *m, const char *name)
{
    (void)m;
    if (text_ends_with(name, ".ssm_a")) s->map = MAP_DECAY;
    if (text_ends_with(name, ".ssm_conv1d.weight")) s->squeezed = true;
    if (text_ends_with(name, ".ssm_norm.weight")) s->add = 0; /* not a norm of rows */
}

/* As place_hybrid, with the order of the heads of v in qwen35. */
static void place_tiled(struct source *s, const struct model *m, const char *name)
{
    static const char *const heads[] = {".attn_gate.weight", ".ssm_beta.weight",
                                        ".ssm_alpha.weight", ".ssm_dt.bias", ".ssm_a"};
    const struct delta_sizes *z = m->config.own;
    place_hybrid(s, m, name);
    s->tiles = (struct tiles){z->n_head_k, z->n_head, 0};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        if (text_ends_with(name, heads[i])) s->order = ORDER_TILED;
    s->columns = text_ends_with(name, ".ssm_out.weight");
    if (!text_ends_with(name, ".ssm_conv1d.weight") && !text_ends_with(name, ".attn_qkv.weight"))
        return;
    s->order = ORDER_TILED;
    s->tiles.keep = 2 * (int64_t)z->n_head_k * z->d_k;
}

static const struct delta_sizes *sizes_of(const struct config_writer *w)
{
    return w->c->own;
}

static void n_tap(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->n_tap);
}

static void d_k(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->d_k);
}

static void n_head_k(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->n_head_k);
}

static void n_head(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->n_head);
}

static void d_v(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->d_v);
}

static void kinds(struct config_writer *w, const char *name)
{
    hf_put_kinds(w, name, "linear_attention", "full_attention");
}

static const struct hf_field hybrid_field[] = {{"ssm.conv_kernel", n_tap},
                                               {"ssm.state_size", d_k},
                                               {"ssm.group_count", n_head_k},
                                               {"ssm.time_step_rank", n_head},
                                               {"config.linear_value_head_dim", d_v},
                                               {"config.layer_types", kinds},
                                               {0}};
static const struct name_pair hybrid_name[] = {
    {".ssm_a.weight", ".ssm_a"}, {".ssm_dt.weight", ".ssm_dt.bias"}, {0}};
static const char *const hybrid_f32[] = {".ssm_conv1d.weight", NULL};
const struct arch_convert qwen_hybrid_convert = {.field = hybrid_field,
                                                 .f32 = hybrid_f32,
                                                 .name = hybrid_name,
                                                 .place = place_hybrid,
                                                 .put_keys = put_hybrid_keys};
const struct arch_convert qwen_tiled_convert = {.field = hybrid_field,
                                                .f32 = hybrid_f32,
                                                .name = hybrid_name,
                                                .place = place_tiled,
                                                .put_keys = put_tiled_keys};
