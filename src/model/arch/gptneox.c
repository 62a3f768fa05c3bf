/* gptneox.c - GPT-NeoX ("GPT-NeoX-20B: An Open-Source Autoregressive Language Model", arXiv
 * 2204.06745) and Pythia: LayerNorm, biases, a partial rope. Attention and feed-forward block are
 * serial, or parallel with a norm for each block. The feed-forward block has no gate. */
#include "model/model_impl.h"

/* defaults of GPTNeoXConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50432),
    KEY("embedding_length", 6144),
    KEY("feed_forward_length", 24576),
    KEY("block_count", 44),
    KEY("attention.head_count", 64),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("config.layer_norm_eps", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY("config.rope_parameters.partial_rotary_factor", 0.25),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 1),
    KEY("config.use_parallel_residual", 1),
    IDLE("config.hidden_dropout", "training"),
    IDLE("config.classifier_dropout", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY_UNSET("use_parallel_residual"),
    KEYS_END,
};

/* masks of attention, which only old files contain */
static const char *const left_out[] = {".attention.bias", ".attention.masked_bias", NULL};

static void config(struct config *c, struct binder *b)
{
    const char *key = config_is_hf(b) ? "config.use_parallel_residual" : "use_parallel_residual";
    if (c->d_head != c->d / c->n_head) /* transformers rotates other lanes for other sizes */
        config_refuse(b, "attention.key_length", ERR_UNSUPPORTED,
                      "must be hidden_size / num_attention_heads, %d, got %d", c->d / c->n_head,
                      c->d_head);
    c->order = config_bool(b, key, true) ? BLOCKS_2_NORMS : BLOCKS_SERIAL;
    c->ffn_bias = BIAS_NEEDED;
}

const struct arch arch_gptneox = {
    .name = "gptneox",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .hf_groups = true,
    .partial_rope = true,
    .layer_norm_eps = "config.layer_norm_eps",
    .norm_bias = true,
    .curve = CURVE_gelu_erf,
    .left_out = left_out,
    .left_out_why = "mask of attention; quoth computes the mask itself",
    .config = config,
};
