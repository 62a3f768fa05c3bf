/* llama4.c - the text part of Llama 4 (Meta, 2025). Three of four layers have a rope, normalize the
 * heads of q and k after it, and attend to positions of their own chunk. The other layers have
 * neither rope nor chunks; their queries grow with the position ("Scalable-Softmax Is Superior for
 * Attention", arXiv 2501.19399):
 *
 *   with rope      q, k = rms(rope(q)), rms(rope(k));  positions from p / chunk * chunk to p
 *   without rope   q *= 1 + attn_scale * ln(1 + floor((p + 1) / floor_scale));  all positions to p
 *
 * Mixtures select experts by their logits. The sigmoid of an expert's logit is a factor of the
 * expert's input. A block of all rows is added. Other layers have a wider feed-forward block. */
#include "llama4_impl.h"

/* Rotate, then normalize the heads of q and k; or scale q. Store k and v. */
static void put(struct fwd *f, float *q, float *k, const struct attn_block *a)
{
    const struct attn_spec *s = &a->spec;
    if (a->rope != ROPE_OFF) {
        fwd_rope(f, q, s->n_head, s->d_k, a->rope);
        fwd_rope(f, k, s->n_head_kv, s->d_k, a->rope);
    } else {
        fwd_rope(f, q, s->n_head, s->d_k, ROPE_QUERY);
    }
    if (a->q_norm.g) fwd_head_norm(f, q, s->n_head, &a->q_norm);
    if (a->k_norm.g) fwd_head_norm(f, k, s->n_head_kv, &a->k_norm);
    fwd_put(f, k, a);
}

/* Bind a layer. Layers without norms of heads and without factors of queries use the fused op. */
static void bind(struct binder *b, void *layer, int il)
{
    struct decoder_layer *l = layer;
    const struct config *c = &b->m->config;
    const bool ropes = c->layer[il].rope != ROPE_OFF;
    decoder_bind_layer(b, l, il);
    if (ropes && c->head_norms) {
        bind_ones(b, &l->attn.q_norm, c->d_head, 0);
        bind_ones(b, &l->attn.k_norm, c->d_head, 0);
    }
    if (ropes ? c->head_norms : c->n_rope > 1) l->attn.put = put;
}

const struct arch arch_llama4 = {
    .name = "llama4",
    .hf_key = llama4_hf_key,
    .gguf_key = llama4_gguf_key,
    .gguf_neox = false,
    .hf_adjacent = true,
    .gguf_halves = true,
    .convert = &llama4_convert,
    .config = llama4_config,
    .bind = bind,
};
