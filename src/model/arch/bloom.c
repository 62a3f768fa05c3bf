/* bloom.c - BLOOM: ALiBi, a LayerNorm of the embedded rows, biases, and a feed-forward block
 * without a gate. Paper: "BLOOM: A 176B-Parameter Open-Access Multilingual Language Model", arXiv
 * 2211.05100. */
#include "model/model_impl.h"

/* defaults of BloomConfig of transformers 5, which has no maximum length and one width of the
 * feed-forward block */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 250880),
    KEY("embedding_length", 64),
    KEY("block_count", 2),
    KEY("attention.head_count", 8),
    KEY("context_length", 2048),
    KEY("config.layer_norm_epsilon", 1e-5),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.pretraining_tp", 1),
    KEY("config.slow_but_exact", 0),
    ONLY("config.apply_residual_connection_post_layernorm", 0,
         "residuals that are taken after the norms are not supported yet"),
    IDLE("config.hidden_dropout", "training"),
    IDLE("config.attention_softmax_in_fp32", "field of published files that transformers ignores"),
    IDLE("config.bias_dropout_fusion", "field of published files that transformers ignores"),
    IDLE("config.masked_softmax_fusion", "field of published files that transformers ignores"),
    IDLE("config.n_inner", "field of published files that transformers ignores"),
    IDLE("config.offset_alibi", "field of published files that transformers ignores"),
    IDLE("config.skip_bias_add", "field of published files that transformers ignores"),
    IDLE("config.skip_bias_add_qkv", "field of published files that transformers ignores"),
    IDLE("config.unk_token_id", "quoth reads this value from the tokenizer's own files"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    ONLY("attention.max_alibi_bias", 8, "llama.cpp ignores other values"),
    KEYS_END,
};

/* Read the config. slow_but_exact is rejected if pretraining_tp is above 1, because transformers
 * then divides two matrices and omits their biases. */
static void config(struct config *c, struct binder *b)
{
    static const char key[] = "config.slow_but_exact";
    const int n_part = config_int(b, "config.pretraining_tp", INT32_MIN, INT32_MAX, 1);
    if (config_bool(b, key, false) && n_part > 1)
        config_refuse(b, key, ERR_UNSUPPORTED, "must be false with pretraining_tp %d, got true",
                      n_part);
    c->alibi = 8;
    c->qkv_bias = c->o_bias = c->ffn_bias = BIAS_NEEDED;
}

const struct arch arch_bloom = {
    .name = "bloom",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .no_rope = true,
    .hf_groups = true,
    .layer_norm_eps = "config.layer_norm_epsilon",
    .norm_bias = true,
    .curve = CURVE_gelu_tanh,
    .ffn_times = 4,
    .config = config,
};
