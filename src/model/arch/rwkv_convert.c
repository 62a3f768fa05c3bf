/* rwkv_convert.c - conversion of RWKV-6 and RWKV-7 to GGUF. A GGUF has one tensor of the factors of
 * time mixing, some matrices transposed, and biases of compressed vectors as tensors with another
 * name. Matrices that add to the residual stream are divided in a GGUF of RWKV-6 (rwkv.c). */
#include "rwkv_arch_impl.h"

#include "model/convert_impl.h"

#include "base/log.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Write the width of heads, and the epsilon of their norm if it is not that of llama.cpp. */
static void put_heads(struct key_writer *w, int d_head, float eps)
{
    gguf_put_int(w, "wkv.head_size", d_head);
    if (eps == (float)RWKV_HEAD_EPS) return;
    log_warn("%s: the epsilon of the norm of heads, %g, is in the file, but llama.cpp ignores it "
             "and computes with %g",
             checkpoint_path(w->m->checkpoint), (double)eps, RWKV_HEAD_EPS);
    gguf_put_real(w, RWKV_HEAD_EPS_KEY, (double)eps);
}

/* Return true if the name has one of the ends, which end with NULL. */
static bool has_end(const char *name, const char *const *end)
{
    while (*end && !text_ends_with(name, *end)) end++;
    return *end != NULL;
}

/* ---- RWKV-6 ---- */

static const struct rwkv_sizes *sizes_of(const struct config_writer *w)
{
    return w->c->own;
}

static void d_head(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->d_head);
}

/* Append the number that the class divides results by before their norm. */
static void head_divisor(struct config_writer *w, const char *name)
{
    hf_put_real(w, name, sqrt((double)sizes_of(w)->head_eps / RWKV_HEAD_EPSILON));
}

static void rescale(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->rescale);
}

static void d_att(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes_of(w)->d_att);
}

static void put_rwkv6(struct key_writer *w)
{
    const struct rwkv_sizes *s = w->m->config.own;
    put_heads(w, s->d_head, s->head_eps);
    gguf_put_int(w, "time_mix_extra_dim", s->rank_mix);
    gguf_put_int(w, "time_decay_extra_dim", s->rank_decay);
    gguf_put_int(w, "rescale_every_n_layers", s->rescale);
}

static void place_rwkv6(struct source *s, const struct model *m, const char *name)
{
    static const char *const transposed[] = {".time_mix_w1.weight", ".time_mix_w2.weight",
                                             ".time_mix_decay_w1.weight",
                                             ".time_mix_decay_w2.weight", NULL};
    static const char *const divided[] = {".time_mix_output.weight", ".channel_mix_value.weight",
                                          NULL};
    static const char *const flat[] = {".time_mix_decay.weight", ".time_mix_lerp_x.weight",
                                       ".channel_mix_lerp_k.weight", ".channel_mix_lerp_r.weight",
                                       NULL};
    int il = 0;
    if (has_end(name, transposed)) s->order = ORDER_TRANSPOSED;
    if (has_end(name, divided) && sscanf(name, "blk.%9d.", &il) == 1) { /* check: width */
        const float by = rwkv_divisor(&m->config, il);
        if (by != 0)
            s->factor[s->n_factor++] =
                (struct row_factor){.end = INT64_MAX, .by = s->back ? by : 1 / by};
    }
    s->flat = has_end(name, flat);
}

/* factors in the order of a GGUF's rows (enum rwkv_mix) */
static const char *const rwkv6_rows[] = {".time_mix_lerp_fused.weight",
                                         ".time_mix_lerp_w.weight",
                                         ".time_mix_lerp_k.weight",
                                         ".time_mix_lerp_v.weight",
                                         ".time_mix_lerp_r.weight",
                                         ".time_mix_lerp_g.weight",
                                         NULL};
static const char *const rwkv6_f32[] = {".time_mix_first.weight",    ".time_mix_w1.weight",
                                        ".time_mix_w2.weight",       ".time_mix_decay_w1.weight",
                                        ".time_mix_decay_w2.weight", NULL};
static const struct hf_field rwkv6_field[] = {{"config.head_size", d_head},
                                              {"config.head_size_divisor", head_divisor},
                                              {"config.rescale_every", rescale},
                                              {"config.attention_hidden_size", d_att},
                                              {0}};
const struct arch_convert rwkv6_convert = {.field = rwkv6_field,
                                           .f32 = rwkv6_f32,
                                           .rows = rwkv6_rows,
                                           .place = place_rwkv6,
                                           .put_keys = put_rwkv6};

/* ---- RWKV-7 ---- */

static void put_rwkv7(struct key_writer *w)
{
    const struct rwkv7_sizes *s = w->m->config.own;
    put_heads(w, s->d_head, s->head_eps);
    gguf_put_int(w, "attention.decay_lora_rank", s->rank_decay);
    gguf_put_int(w, "attention.iclr_lora_rank", s->rank_a);
    gguf_put_int(w, "attention.value_residual_mix_lora_rank", s->rank_v);
    gguf_put_int(w, "attention.gate_lora_rank", s->rank_gate);
}

static const struct rwkv7_sizes *sizes7_of(const struct config_writer *w)
{
    return w->c->own;
}

static void d_head7(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes7_of(w)->d_head);
}

static void rank_decay(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes7_of(w)->rank_decay);
}

static void rank_a(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes7_of(w)->rank_a);
}

static void rank_v(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes7_of(w)->rank_v);
}

static void rank_gate(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, sizes7_of(w)->rank_gate);
}

static const struct hf_field rwkv7_field[] = {
    {"attention.key_length", d_head7},       {"config.decay_low_rank_dim", rank_decay},
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
