/* rwkv7_convert.c - conversion of RWKV-7. A GGUF has one tensor of the factors of time mixing, and
 * biases of compressed vectors as tensors with another name. */
#include "model/rwkv_impl.h"

#include "model/convert_impl.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

static void put_rwkv7(struct key_writer *w)
{
    const struct rwkv7_sizes *s = w->m->config.own;
    rwkv_put_heads(w, s->d_head, s->head_eps);
    gguf_put_int(w, "attention.decay_lora_rank", s->rank_decay);
    gguf_put_int(w, "attention.iclr_lora_rank", s->rank_a);
    gguf_put_int(w, "attention.value_residual_mix_lora_rank", s->rank_v);
    gguf_put_int(w, "attention.gate_lora_rank", s->rank_gate);
}

static const struct rwkv7_sizes *sizes_of(const struct config_writer *w)
{
    return w->c->own;
}

static void d_head(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->d_head);
}

static void rank_decay(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->rank_decay);
}

static void rank_a(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->rank_a);
}

static void rank_v(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->rank_v);
}

static void rank_gate(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->rank_gate);
}

static const struct hf_field rwkv7_field[] = {
    {"attention.key_length", d_head},        {"config.decay_low_rank_dim", rank_decay},
    {"config.a_low_rank_dim", rank_a},       {"config.v_low_rank_dim", rank_v},
    {"config.gate_low_rank_dim", rank_gate}, {0}};

static void place_rwkv7(struct source *s, const struct model *m, const char *name)
{
    const struct rwkv7_sizes *z = m->config.own;
    s->flat = text_ends_with(name, ".time_mix_r_k.weight");
    s->flat_row = z->d_head;
}

/* Add the tensors of values of an earlier layer to the first layer, with the values of another
 * tensor. llama.cpp requires them, but does not use them. */
static int put_first(struct conversion *g, struct err *e)
{
    static const char *const from[] = {"a2.bias", "a1.weight", "a2.weight"};
    int rc = 0;
    for (int i = 0; i < 3 && rc == 0; i++) {
        char name[NAME_BYTES];
        struct source s = {0};
        snprintf(name, sizeof name, "blk.0.time_mix_%s", from[i]);
        const struct tensor_info *t = checkpoint_tensor(g->c, name);
        CHECK(t, "tensor %s was bound", name);
        rc = conversion_source(&s, (int)(t - checkpoint_tensor_at(g->c, 0)), e);
        snprintf(name, sizeof name, "blk.0.time_mix_v%d.weight", i);
        if (rc == 0) rc = conversion_add(g, name, QT_f32, t->n_dim, t->dim, &s, e);
    }
    return rc;
}

static const struct name_pair rwkv7_names[] = {{".time_mix_w2.bias", ".time_mix_w0.weight"},
                                               {".time_mix_a2.bias", ".time_mix_a0.weight"},
                                               {".time_mix_v2.bias", ".time_mix_v0.weight"},
                                               {0}};
/* factors in the order of a GGUF's rows (enum rwkv7_mix) */
static const char *const rwkv7_rows[] = {".time_mix_lerp_fused.weight", ".time_mix_lerp_r.weight",
                                         ".time_mix_lerp_w.weight",     ".time_mix_lerp_k.weight",
                                         ".time_mix_lerp_v.weight",     ".time_mix_lerp_a.weight",
                                         ".time_mix_lerp_g.weight",     NULL};
static const char *const rwkv7_f32[] = {".time_mix_w1.weight", ".time_mix_w2.weight", NULL};
const struct arch_convert rwkv7_convert = {.field = rwkv7_field,
                                           .f32 = rwkv7_f32,
                                           .name = rwkv7_names,
                                           .rows = rwkv7_rows,
                                           .place = place_rwkv7,
                                           .put_keys = put_rwkv7,
                                           .put_gguf_tensors = put_first};
