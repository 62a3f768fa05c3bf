/* qwen_hybrid.c - layers of Qwen3-Next and Qwen3.5: the gated delta rule in most layers, attention
 * with a gate per value in every few layers, then a feed-forward block or a mixture of experts.
 *
 *   x += delta(norm x), or x += o(attn(q, k, v) * sigmoid(gate));  x += ffn(norm x)
 *
 * The rows of the matrix q have for each head its q, then its gate. */
#include "qwen_impl.h"

#include <string.h>

const char *const qwen_draft[] = {"mtp.", "model.mtp.", NULL};

/* ---- config ---- */

/* Set the layers of each kind by the list of config.json, by the list of a GGUF, or by the
 * interval. */
static void set_kinds(struct config *c, struct binder *b)
{
    static const char list_key[] = "attention.recurrent_layers";
    static const char *const name[] = {"full_attention", "linear_attention", NULL};
    const int interval = config_int(b, "full_attention_interval", 1, LAYERS_MAX, 4),
              *kind = config_layer_kinds(b, name),
              *is_recurrent =
                  config_meta(b, list_key) ? config_layer_ints(b, list_key, 0, 1, -1) : kind;
    for (int i = 0; i < c->n_layer && b->rc == 0; i++)
        c->layer[i].recurrent = is_recurrent ? is_recurrent[i] != 0 : (i + 1) % interval != 0;
}

/* Return the number of values of a head of v. A GGUF has the sum of all heads. */
static int head_v(struct binder *b, int n_head)
{
    static const char all[] = "ssm.inner_size";
    if (config_is_hf(b)) return config_int(b, "config.linear_value_head_dim", 1, D_HEAD_MAX, 0);
    const int n = config_int(b, all, 1, WIDTH_MAX, 0);
    if (b->rc == 0 && n % n_head)
        config_refuse(b, all, ERR_FORMAT, "must be a multiple of the %d heads, got %d", n_head, n);
    return b->rc == 0 ? n / n_head : 1;
}

void qwen_hybrid_config(struct config *c, struct binder *b)
{
    static const char heads_key[] = "ssm.time_step_rank";
    struct delta_sizes *s = bind_memory(b, "the sizes of recurrent layers", sizeof *s);
    if (!s) return;
    s->n_head_k = config_int(b, "ssm.group_count", 1, HEADS_MAX, 0);
    s->n_head = config_int(b, heads_key, 1, HEADS_MAX, 0);
    s->d_k = config_int(b, "ssm.state_size", 1, D_HEAD_MAX, 0);
    s->n_tap = config_int(b, "ssm.conv_kernel", 2, TAPS_MAX, 0);
    if (b->rc == 0 && s->n_head % s->n_head_k)
        config_refuse(b, heads_key, ERR_FORMAT, "must be a multiple of %d, got %d", s->n_head_k,
                      s->n_head);
    s->d_v = b->rc == 0 ? head_v(b, s->n_head) : 1;
    c->own = s, c->own_bytes = sizeof *s;
    if (config_is_hf(b)) c->norm_add = 1;
    set_kinds(c, b);
}

int64_t qwen_hybrid_size(const struct config *c, enum tensor_size size)
{
    return delta_size(c->own, size);
}

/* ---- binding ---- */

void qwen_hybrid_bind(struct binder *b, void *layer, int il)
{
    struct qwen_hybrid_layer *l = layer;
    const struct config *c = &b->m->config;
    l->recurrent = c->layer[il].recurrent;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    if (l->recurrent)
        bind_delta(b, &l->delta, il, c->own, b->m->arch->gguf_tiled && !config_is_hf(b));
    else
        bind_gated_attn(b, &l->attn, il);
    bind_norm(b, &l->ffn_norm, "blk.%d.post_attention_norm", il);
    bind_feed(b, &l->feed, il);
}

/* ---- the forward pass ---- */

void qwen_hybrid_layer(struct fwd *f, const void *layer)
{
    const struct qwen_hybrid_layer *l = layer;
    const struct input in = fwd_normed(f, f->x, &l->attn_norm);
    if (l->recurrent)
        fwd_delta_add(f, f->x, in, &l->delta);
    else
        fwd_gated_attn_add(f, f->x, in, &l->attn);
    fwd_feed_add(f, f->x, fwd_normed(f, f->x, &l->ffn_norm), &l->feed);
}
