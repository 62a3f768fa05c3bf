/* rwkv_convert.c - conversion of RWKV-6. A GGUF has one tensor of the factors of time mixing, some
 * matrices transposed, and divided matrices that add to the residual stream (rwkv.c). */
#include "rwkv_arch_impl.h"

#include "model/convert_impl.h"

#include "base/log.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void rwkv_put_heads(struct key_writer *w, int d_head, float eps)
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
    rwkv_put_heads(w, s->d_head, s->head_eps);
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
