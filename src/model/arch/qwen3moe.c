/* qwen3moe.c - Qwen3 with a mixture of experts ("Qwen3 Technical Report", arXiv 2505.09388). The
 * model is a qwen3 whose feed-forward block is a mixture, in all layers or in the layers that the
 * config selects. */
#include "qwen_impl.h"

#include <limits.h>

/* defaults of Qwen3MoeConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 151936),
    KEY("embedding_length", 2048),
    KEY("feed_forward_length", 6144),
    KEY("block_count", 24),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 4),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.use_sliding_window", 0),
    KEY("attention.sliding_window", 4096),
    KEY("expert_count", 128),
    KEY("expert_used_count", 8),
    KEY("expert_feed_forward_length", 768),
    KEY("expert_weights_norm", 0),
    KEY("config.decoder_sparse_step", 1),
    KEY_UNSET("config.mlp_only_layers"),
    IDLE("config.max_window_layers", "field of published files that transformers ignores"),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("expert_count"),
    KEY_UNSET("expert_used_count"),
    KEY_UNSET("expert_feed_forward_length"),
    KEYS_END,
};

void qwen_sparse_layers(struct config *c, struct binder *b)
{
    const int step = config_int(b, "config.decoder_sparse_step", 1, INT_MAX, 1);
    const bool *dense = config_listed_layers(b, "config.mlp_only_layers", 0, false);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++)
        if ((i + 1) % step != 0 || (dense && dense[i])) config_no_moe(&c->layer[i]);
}

/* The weights of a row's experts have the sum 1 in GGUF files, as in llama.cpp, and in classes
 * without the field. */
void qwen3moe_config(struct config *c, struct binder *b)
{
    const int window = config_has(b, "attention.sliding_window") ? config_window(b) : 0;
    const bool slides = config_bool(b, "config.use_sliding_window", false);
    c->route.normalize = true;
    config_moe(c, b, 0);
    qwen_sparse_layers(c, b);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) c->layer[i].window = slides ? window : 0;
}

const struct arch arch_qwen3moe = {
    .name = "qwen3moe",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .config = qwen3moe_config,
};
