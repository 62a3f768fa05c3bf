/* command_r.c - Command-R (Cohere). Attention and feed-forward block are parallel, after one
 * LayerNorm without a bias. The logits are multiplied by a factor. The largest models have norms of
 * q and k heads. */
#include "command_r_impl.h"

/* defaults of CohereConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 256000),
    KEY("embedding_length", 8192),
    KEY("feed_forward_length", 22528),
    KEY("block_count", 40),
    KEY("attention.head_count", 64),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 8192),
    KEY("config.layer_norm_eps", 1e-5),
    KEY("rope.freq_base", 500000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.attention_bias", 0),
    KEY("config.logit_scale", 0.0625),
    KEY("config.use_qk_norm", 0),
    IDLE("config.model_max_length", "field of published files that transformers ignores"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY_UNSET("logit_scale"),
    KEYS_END,
};

void command_r_config(struct config *c, struct binder *b)
{
    static const char key[] = "config.logit_scale";
    const struct meta *m = config_meta(b, key);
    const double scale = config_real(b, config_is_hf(b) ? key : "logit_scale", 0);
    if (config_is_hf(b) && m && meta_kind(m) == META_NONE)
        config_refuse(b, key, ERR_FORMAT, "must be a number, got null");
    c->order = BLOCKS_PARALLEL;
    c->logit_scale = config_is_hf(b) || scale != 0 ? (float)scale : 1;
}

static void config(struct config *c, struct binder *b)
{
    command_r_config(c, b);
    c->head_norms = config_bool(b, "config.use_qk_norm", false);
}

const struct arch arch_command_r = {
    .name = "command-r",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = false,
    .hf_adjacent = true,
    .layer_norm_eps = "config.layer_norm_eps",
    .config = config,
};
