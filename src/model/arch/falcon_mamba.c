/* falcon_mamba.c - Falcon-Mamba (arXiv 2410.05355): Mamba with norms without weights of the
 * compressed time steps, of B and of C. llama.cpp uses one epsilon for all norms, so a GGUF cannot
 * express two. */
#include "mamba_impl.h"

static const struct config_key hf_key[] = {
    MAMBA_HF_KEYS,
    KEY("config.mixer_rms_eps", 1e-6),
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    mamba_config(c, b, "config.mixer_rms_eps");
}

const struct arch arch_falcon_mamba = {
    .name = "falcon_mamba",
    .hf_key = hf_key,
    .gguf_why = "its GGUF files have the architecture mamba",
    .config = config,
    MAMBA_ARCH,
};
