/* smollm3.c - SmolLM3: a llama in which every fourth layer has no rope (NoPE; "RoPE to NoRoPE and
 * back again", arXiv 2501.18795). Hugging Face lists the layers (1 = rope); GGUF files rely on
 * the interval of four. */
#include "llama_impl.h"

static int config(struct config *c, const struct binder *b)
{
    const struct meta *list = config_meta(b, "no_rope_layers");
    for (int i = 0; i < c->n_layer; i++)
        c->layer[i].rope = meta_item_int(list, (size_t)i, (i + 1) % 4 != 0) != 0;
    return 0;
}

const struct arch arch_smollm3 = {
    .name = "smollm3",
    .gguf_neox = false,
    .layer_bytes = sizeof(struct llama_layer),
    .config = config,
    .bind = llama_bind,
    .layer = llama_layer,
};
