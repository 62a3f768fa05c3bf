/* bitnet.c - BitNet b1.58: a llama with a further norm inside each block, before its last matrix.
 * Papers: "The Era of 1-bit LLMs: All Large Language Models are in 1.58 Bits", arXiv 2402.17764;
 * the 2B4T model, arXiv 2504.12285. The feed-forward block has squared ReLU. form/bitnet.c reads
 * the ternary matrices.
 *
 *   x += o(sub_norm(attention(norm x)))
 *   x += down(sub_norm(curve(gate h) * up h)), h = norm x
 *
 * GGUF files of this architecture are rejected, because their activation is unknown. GGUF files of
 * an older family with SiLU have the same keys and tensors, and llama.cpp always computes SiLU. */
#include "model/model_impl.h"

/* defaults of BitNetConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 128256),
    KEY("embedding_length", 2560),
    KEY("feed_forward_length", 6912),
    KEY("block_count", 30),
    KEY("attention.head_count", 20),
    KEY("attention.head_count_kv", 5),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 500000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEYS_END,
};

struct bitnet_layer {
    struct decoder_layer decoder;
    struct norm attn_sub,
        ffn_sub; /* norms of the attention's result and of the product of gate and up */
};

/* Read the config. As in the class, the norm of the attention's result has the width of the
 * residual stream. */
static void config(struct config *c, struct binder *b)
{
    if (c->n_head * c->d_head != c->d)
        config_refuse(b, "attention.key_length", ERR_FORMAT,
                      "must be %d / %d, the width divided by the heads, got %d", c->d, c->n_head,
                      c->d_head);
}

static void bind(struct binder *b, void *layer, int il)
{
    struct bitnet_layer *l = layer;
    decoder_bind_layer(b, &l->decoder, il);
    bind_norm(b, &l->attn_sub, "blk.%d.attn_sub_norm", il);
    bind_norm(b, &l->ffn_sub, "blk.%d.ffn_sub_norm", il);
}

static void layer(struct fwd *f, const void *layer)
{
    const struct bitnet_layer *l = layer;
    const struct decoder_layer *d = &l->decoder;
    float *attn = fwd_at(f, d->attn.at_attn);
    fwd_qkv(f, fwd_normed(f, f->x, &d->attn_norm), &d->attn);
    fwd_attend(f, &d->attn);
    fwd_norm(f, attn, attn, &l->attn_sub);
    fwd_attn_out_add(f, f->x, &d->attn);
    float *inner = fwd_ffn_inner(f, fwd_normed(f, f->x, &d->ffn_norm), &d->feed.ffn);
    fwd_norm(f, inner, inner, &l->ffn_sub);
    fwd_ffn_out_add(f, f->x, &d->feed.ffn);
}

const struct arch arch_bitnet = {
    .name = "bitnet",
    .hf_key = hf_key,
    .gguf_why = "its GGUF files have no key for the activation; use the folder with config.json",
    .gguf_neox = true,
    .curve = CURVE_relu2,
    .layer_bytes = sizeof(struct bitnet_layer),
    .config = config,
    .bind = bind,
    .layer = layer,
};
