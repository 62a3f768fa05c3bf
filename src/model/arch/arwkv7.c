/* arwkv7.c - ARWKV-7 ("ARWKV: Pretrain is not what we need, an RNN-Attention-Based Language Model
 * Born from Transformer", arXiv 2501.15570): a Qwen2 whose attention is the time mixing of RWKV-7.
 * Some files have neither a gate nor a norm of the results. Only GGUF files are known: no class of
 * transformers has this architecture. */
#include "model/rwkv_impl.h"

static const struct config_key hf_key[] = {KEYS_END};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_rms_epsilon"),
    KEY_UNSET("wkv.head_size"),
    KEY_UNSET("attention.decay_lora_rank"),
    KEY_UNSET("attention.iclr_lora_rank"),
    KEY_UNSET("attention.value_residual_mix_lora_rank"),
    KEY("attention.gate_lora_rank", 0),
    KEY(RWKV_HEAD_EPS_KEY, RWKV_HEAD_EPS),
    MUST("token_shift_count", 1, "only time mixing mixes each row with the row before it"),
    ONLY("attention.head_count", 0, "the layers have no attention"),
    KEYS_END,
};

/* tensors of the first layer, whose values no earlier layer has */
static const char *const left_out[] = {"blk.0.time_mix_v0.", "blk.0.time_mix_v1.",
                                       "blk.0.time_mix_v2.", NULL};

static void config(struct config *c, struct binder *b)
{
    struct rwkv7_sizes *s = bind_memory(b, "the sizes of recurrent layers", sizeof *s);
    if (!s) return;
    c->own = s, c->own_bytes = sizeof *s;
    c->context_train = RWKV_CONTEXT;
    rwkv7_read_gguf(c, b, s, 0);
    c->d_ff = config_int(b, "feed_forward_length", 1, D_FF_MAX, 0);
    for (int i = 0; i < c->n_layer; i++) c->layer[i].recurrent = true, c->layer[i].d_ff = c->d_ff;
}

static int64_t size(const struct config *c, enum tensor_size size)
{
    return rwkv7_size(c->own, size);
}

struct arwkv7_layer {
    struct norm time_norm, ffn_norm;
    struct goose_block time;
    struct feed_block feed;
};

static void bind(struct binder *b, void *layer, int il)
{
    struct arwkv7_layer *l = layer;
    bind_norm(b, &l->time_norm, "blk.%d.attn_norm", il);
    bind_goose(b, &l->time, il, b->m->config.own);
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm", il);
    bind_feed(b, &l->feed, il);
}

static void layer(struct fwd *f, const void *layer)
{
    const struct arwkv7_layer *l = layer;
    fwd_norm(f, f->h, f->x, &l->time_norm);
    fwd_goose_add(f, f->x, f->h, &l->time);
    fwd_feed_add(f, f->x, fwd_normed(f, f->x, &l->ffn_norm), &l->feed);
}

const struct arch arch_arwkv7 = {
    .name = "arwkv7",
    .hf_key = hf_key,
    .hf_why = "only GGUF files are known",
    .gguf_key = gguf_key,
    .left_out = left_out,
    .left_out_why = "the first layer has no values of an earlier layer",
    .no_rope = true,
    .no_attention = true,
    .curve = CURVE_silu,
    .layer_bytes = sizeof(struct arwkv7_layer),
    .size = size,
    .config = config,
    .bind = bind,
    .layer = layer,
};
