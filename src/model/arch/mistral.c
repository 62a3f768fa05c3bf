/* mistral.c - Mistral ("Mistral 7B", arXiv 2310.06825): a llama whose layers see a sliding
 * window. The window itself is a key that load.c reads for every architecture; GGUF files call
 * the architecture llama. */
#include "llama_impl.h"

const struct arch arch_mistral = {
    .name = "mistral",
    .gguf_neox = false,
    .layer_bytes = sizeof(struct llama_layer),
    .bind = llama_bind,
    .layer = llama_layer,
};
