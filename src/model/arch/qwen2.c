/* qwen2.c - Qwen2 and Qwen2.5 ("Qwen2 Technical Report", arXiv 2407.10671): a llama with biases
 * on q, k and v, which bind_linear takes where they exist. */
#include "llama_impl.h"

const struct arch arch_qwen2 = {
    .name = "qwen2",
    .gguf_neox = true,
    .layer_bytes = sizeof(struct llama_layer),
    .bind = llama_bind,
    .layer = llama_layer,
};
