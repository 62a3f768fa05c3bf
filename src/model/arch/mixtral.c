/* mixtral.c - Mixtral ("Mixtral of Experts", arXiv 2401.04088): a mistral whose feed-forward blocks
 * are mixtures. GGUF files label it llama (llama.c). */
#include "model/model_impl.h"

/* defaults of MixtralConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 32000),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 14336),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 8),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 131072),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 1e6),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY_UNSET("attention.sliding_window"),
    KEY("expert_count", 8),
    KEY("expert_used_count", 2),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    IDLE("config.router_jitter_noise", "training"),
    KEYS_END,
};

/* Set the window and the mixtures of all layers. The experts have the width of the class's
 * feed-forward block. */
static void config(struct config *c, struct binder *b)
{
    const int window = config_window(b);
    c->route.normalize = true;
    config_moe(c, b, c->d_ff);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) c->layer[i].window = window;
}

const struct arch arch_mixtral = {
    .name = "mixtral",
    .hf_key = hf_key,
    .gguf_why = "GGUF files of this class are labelled llama",
    .config = config,
};
