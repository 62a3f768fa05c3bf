/* gemma_convert.c - conversion of the fields that only gemma3n and gemma4 have.
 *
 * Sizes that no key has are read from the shapes of tensors, as in llama.cpp. The defaults are
 * those of the class, for models without the tensor. */
#include "gemma_impl.h"

#include "model/convert_impl.h"

#include <math.h>
#include <stdio.h>

static void d_input(struct config_writer *w, const char *name)
{
    hf_put_own_int(w, name, "embedding_length_per_layer_input");
}

static void n_input(struct config_writer *w, const char *name)
{
    hf_put_rows(w, name, "per_layer_token_embd.weight", w->c->n_vocab);
}

static void d_laurel(struct config_writer *w, const char *name)
{
    hf_put_rows(w, name, "blk.0.laurel_l.weight", 64);
}

static void n_stream(struct config_writer *w, const char *name)
{
    hf_put_own_int(w, name, "altup.num_inputs");
}

static void active(struct config_writer *w, const char *name)
{
    hf_put_own_int(w, name, "altup.active_idx");
}

static void corrects(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, hf_has(w, "blk.0.altup_correct_scale.weight"));
}

/* Append the shares of gates that are 0. The GGUF has the quantiles of these shares. */
static void sparsity(struct config_writer *w, const char *name)
{
    char key[80];
    snprintf(key, sizeof key, "%s.activation_sparsity_scale", w->m->arch->name);
    const struct meta *m = checkpoint_meta(w->m->checkpoint, key);
    if (meta_kind(m) == META_NONE) return;
    hf_put_name(w, name);
    for (int i = 0; i < w->c->n_layer; i++) {
        const double cut = meta_item_real(m, (size_t)i, -INFINITY);
        buf_add_char(w->b, i ? ',' : '[');
        json_put_float(w->b, isinf(cut) ? 0 : (float)(0.5 * erfc(-cut * M_SQRT1_2)));
    }
    buf_add_char(w->b, ']');
}

static const struct hf_field field[] = {{"config.hidden_size_per_layer_input", d_input},
                                        {"config.vocab_size_per_layer_input", n_input},
                                        {"config.laurel_rank", d_laurel},
                                        {"config.altup_num_inputs", n_stream},
                                        {"config.altup_active_idx", active},
                                        {"config.altup_correct_scale", corrects},
                                        {"config.activation_sparsity_pattern", sparsity},
                                        {0}};

/* Write the standard deviations below which gates are 0. */
static void put_keys(struct key_writer *w)
{
    char key[160];
    float v[LAYERS_MAX];
    const int n = w->m->config.n_layer;
    for (int i = 0; i < n; i++) {
        const struct layer_config *l = &w->m->config.layer[i];
        v[i] = l->cuts_gates ? l->gate_cut : -INFINITY;
    }
    snprintf(key, sizeof key, "%s.activation_sparsity_scale", w->arch);
    gguf_put_floats(w, key, v, (size_t)n);
}

static const char *const f32[] = {".altup_correct_coef.weight", ".altup_predict_coef.weight", NULL};
const struct arch_convert gemma3n_convert = {.field = field, .f32 = f32, .put_keys = put_keys};

static const struct name_pair name[] = {{".ffn_gate_inp.per_expert_scale", ".ffn_down_exps.scale"},
                                        {0}};
const struct arch_convert gemma4_convert = {.field = field, .name = name};
