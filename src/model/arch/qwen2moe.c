/* qwen2moe.c - Qwen1.5 and Qwen2 with a mixture of experts ("Qwen2 Technical Report", arXiv
 * 2407.10671): a qwen2 whose feed-forward block is a mixture, in all layers or in the layers that
 * the config selects. All rows also use a shared block, with a factor per row. */
#include "qwen_impl.h"

#include <limits.h>

/* defaults of Qwen2MoeConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 151936),
    KEY("embedding_length", 2048),
    KEY("feed_forward_length", 5632),
    KEY("block_count", 24),
    KEY("attention.head_count", 16),
    KEY("attention.head_count_kv", 16),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.qkv_bias", 1),
    KEY("config.use_sliding_window", 0),
    KEY("attention.sliding_window", 4096),
    KEY("config.max_window_layers", 28),
    KEY_UNSET("config.layer_types"),
    KEY("expert_count", 60),
    KEY("expert_used_count", 4),
    KEY("expert_feed_forward_length", 1408),
    KEY("expert_shared_feed_forward_length", 5632),
    KEY("expert_weights_norm", 0),
    KEY("config.decoder_sparse_step", 1),
    KEY_UNSET("config.mlp_only_layers"),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("expert_count"),
    KEY_UNSET("expert_used_count"),
    KEY_UNSET("expert_feed_forward_length"),
    KEY_UNSET("expert_shared_feed_forward_length"),
    KEYS_END,
};

/* Set the windows of the listed layers, or of every other layer below max_window_layers. No layer
 * has a window if use_sliding_window is false. */
static void windows(struct config *c, struct binder *b)
{
    /* the class writes 0 if its windows are disabled */
    int window = config_int(b, "attention.sliding_window", 0, INT_MAX, 0);
    const int n = config_int(b, "config.max_window_layers", INT_MIN, INT_MAX, 0);
    if (!config_bool(b, "config.use_sliding_window", false)) window = 0;
    if (config_layer_types(b, c, window)) return;
    for (int i = 0; i < c->n_layer && b->rc == 0; i++)
        c->layer[i].window = i % 2 == 0 && i < n ? window : 0;
}

/* Set biases, windows and mixtures. As in llama.cpp, the shared block of a GGUF has the width of
 * the feed-forward block if the file lacks its key. */
static void config(struct config *c, struct binder *b)
{
    if (config_is_hf(b))
        c->qkv_bias = config_bool(b, "config.qkv_bias", true) ? BIAS_NEEDED : BIAS_NONE;
    windows(c, b);
    config_moe(c, b, 0);
    for (int i = 0; i < c->n_layer && b->rc == 0 && !config_is_hf(b); i++)
        if (c->layer[i].d_shared == 0) c->layer[i].d_shared = c->d_ff;
    qwen_sparse_layers(c, b);
}

const struct arch arch_qwen2moe = {
    .name = "qwen2moe",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .config = config,
};
