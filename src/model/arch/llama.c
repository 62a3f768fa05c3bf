/* llama.c - Llama 1 to 3.x ("LLaMA: Open and Efficient Foundation Language Models", arXiv
 * 2302.13971), SmolLM, and what GGUF files call llama. Pre-norm decoder: grouped-query attention
 * with rope, SwiGLU, RMSNorm. */
#include "llama_impl.h"

void llama_bind(struct binder *b, void *layer, int il)
{
    struct llama_layer *l = layer;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm.weight", il, b->m->config.d);
    bind_attn(b, &l->attn, il);
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm.weight", il, b->m->config.d);
    bind_glu(b, &l->ffn, il);
}

void llama_layer(struct fwd *f, const void *layer, int il)
{
    const struct llama_layer *l = layer;
    (void)il;
    fwd_attn(f, &l->attn_norm, &l->attn);
    fwd_glu(f, &l->ffn_norm, &l->ffn);
}

const struct arch arch_llama = {
    .name = "llama",
    .gguf_neox = false,
    .layer_bytes = sizeof(struct llama_layer),
    .bind = llama_bind,
    .layer = llama_layer,
};
