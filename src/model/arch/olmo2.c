/* olmo2.c - OLMo 2 ("2 OLMo 2 Furious", arXiv 2501.00656). OLMo 2 differs from llama in two ways.
 * Norms are after the blocks, not before the blocks. q and k are RMS-normalized over all heads
 * together.
 *
 *   q = norm(W_q x), k = norm(W_k x)      over all heads, before the division into heads and rope
 *   x += norm(attn(x)); x += norm(ffn(x)) */
#include "model/model_impl.h"

/* defaults of Olmo2Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50304),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 11008),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEYS_END,
};

struct olmo2_layer {
    struct attn_block attn;
    struct glu_block ffn;
    struct norm q_norm, k_norm; /* norms over all heads together */
    struct norm attn_post, ffn_post;
};

static void bind(struct binder *b, void *layer, int il)
{
    struct olmo2_layer *l = layer;
    bind_attn(b, &l->attn, il);
    bind_norm(b, &l->q_norm, "blk.%d.attn_q_norm", il);
    bind_norm(b, &l->k_norm, "blk.%d.attn_k_norm", il);
    bind_norm(b, &l->attn_post, "blk.%d.post_attention_norm", il);
    bind_glu(b, &l->ffn, il);
    bind_norm(b, &l->ffn_post, "blk.%d.post_ffw_norm", il);
}

/* Compute y = attn(x). x and y are f32 [n_row, d]. x is not normalized before the block. */
static void attention(struct fwd *f, float *y, const float *x, const struct olmo2_layer *l)
{
    const struct attn_block *a = &l->attn;
    float *q = fwd_at(f, a->at_q), *k = fwd_at(f, a->at_k);
    fwd_qkv(f, fwd_plain(x), a);
    fwd_norm(f, q, q, &l->q_norm);
    fwd_norm(f, k, k, &l->k_norm);
    fwd_attend(f, a);
    fwd_attn_out(f, y, a);
}

/* Compute x += norm(attn(x)); x += norm(ffn(x)). */
static void layer(struct fwd *f, const void *layer)
{
    const struct olmo2_layer *l = layer;
    attention(f, f->y, f->x, l);
    fwd_norm(f, f->y, f->y, &l->attn_post);
    fwd_add(f, f->x, f->y);
    fwd_glu(f, f->y, fwd_plain(f->x), &l->ffn);
    fwd_norm(f, f->y, f->y, &l->ffn_post);
    fwd_add(f, f->x, f->y);
}

const struct arch arch_olmo2 = {
    .name = "olmo2",
    .hf_key = hf_key,
    .gguf_neox = true,
    .ends_bytes = sizeof(struct decoder_ends),
    .layer_bytes = sizeof(struct olmo2_layer),
    .bind_ends = decoder_bind,
    .bind = bind,
    .embed = decoder_embed,
    .layer = layer,
    .output = decoder_output,
};
