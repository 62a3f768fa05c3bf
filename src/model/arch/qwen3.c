/* qwen3.c - Qwen3 ("Qwen3 Technical Report", arXiv 2505.09388): a llama whose q and k heads are
 * RMS-normalized before rope, and whose head width is independent of d / n_head. */
#include "llama_impl.h"

static void bind(struct binder *b, void *layer, int il)
{
    struct llama_layer *l = layer;
    llama_bind(b, l, il);
    bind_norm(b, &l->attn.q_norm, "blk.%d.attn_q_norm.weight", il, b->m->config.d_head);
    bind_norm(b, &l->attn.k_norm, "blk.%d.attn_k_norm.weight", il, b->m->config.d_head);
}

const struct arch arch_qwen3 = {
    .name = "qwen3",
    .gguf_neox = true,
    .layer_bytes = sizeof(struct llama_layer),
    .bind = bind,
    .layer = llama_layer,
};
