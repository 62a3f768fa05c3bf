/* gemma3.c - Gemma 3, text ("Gemma 3 Technical Report", arXiv 2503.19786). The model has norms
 * before and after each block, RMS-normalized q and k heads, GeGLU, and embeddings times sqrt(d).
 * Five of six layers have a sliding window and a second rope base. Hugging Face files contain g - 1
 * in place of the weight g of each norm. */
#include "gemma_impl.h"

#include <limits.h>

/* defaults of Gemma3TextConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 262208),
    KEY("embedding_length", 2304),
    KEY("feed_forward_length", 9216),
    KEY("block_count", 26),
    KEY("attention.head_count", 8),
    KEY("attention.head_count_kv", 4),
    KEY("attention.key_length", 256),
    KEY("context_length", 131072),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 1000000),
    KEY_UNSET("config.hidden_activation"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.attention_bias", 0),
    KEY("config.query_pre_attn_scalar", 256),
    KEY("attention.sliding_window", 4096),
    KEY("config.sliding_window_pattern", 6),
    KEY_UNSET("config.layer_types"),
    KEY_UNSET("config.final_logit_softcapping"),
    KEY("config.rope_local_base_freq", 10000),
    KEY_UNSET("config.rope_parameters.sliding_attention.rope_theta"),
    KEY_UNSET("config.rope_parameters.sliding_attention.rope_type"),
    ONLY("config.rope_parameters.truncate", 1,
         "transformers ignores this parameter in an object per layer type"),
    IDLE("config.rope_parameters.full_attention", "its fields are read"),
    IDLE("config.rope_parameters.sliding_attention", "its fields are read"),
    IDLE("config._sliding_window_pattern", "the class reads layer_types in place of this field"),
    IDLE("config.cache_implementation", "implementation of the reference"),
    ONLY("config.attn_logit_softcapping", 0, "transformers ignores other values"),
    ONLY("config.use_bidirectional_attention", 0,
         "the class computes logits of rows that attend to later rows; true without it selects "
         "gemma-embedding"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.sliding_window"),
    KEY("attention.sliding_window_pattern", 6),
    KEY("rope.freq_base_swa", 10000),
    KEYS_END,
};

/* ---- parts of other architectures ---- */

/* interval is 0 after an earlier error. */
void gemma_windows(struct config *c, int window, int interval)
{
    for (int i = 0; i < c->n_layer && interval > 0; i++)
        c->layer[i].window = (i + 1) % interval ? window : 0;
}

void gemma_attn_scale(struct config *c, double divisor)
{
    for (int i = 0; i < c->n_layer; i++) c->layer[i].attn_scale = (float)(1 / sqrt(divisor));
}

void gemma_gguf_windows(struct config *c, struct binder *b, int interval)
{
    char text[80];
    const int window = config_window(b);
    if (window == 0)
        config_refuse(b, "attention.sliding_window", ERR_UNSUPPORTED,
                      "must be at least 1, got %s: files without a window have another model",
                      config_value_text(config_meta(b, "attention.sliding_window"), text));
    if (b->rc == 0) gemma_windows(c, window, interval);
}

/* The list of layer types has priority over the interval. */
void gemma_hf_config(struct config *c, struct binder *b, int interval)
{
    const int window = config_window(b);
    const double scalar = config_real(b, "config.query_pre_attn_scalar", 256);
    c->norm_add = 1;
    c->logit_softcap = config_cap(b, "config.final_logit_softcapping");
    if (b->rc == 0 && !config_layer_types(b, c, window)) gemma_windows(c, window, interval);
    if (window == 0 && interval > 1 && meta_kind(config_meta(b, "config.layer_types")) == META_NONE)
        config_refuse(b, "attention.sliding_window", ERR_FORMAT,
                      "must be at least 1, because layers have windows; got null");
    if (!(scalar > 0))
        config_refuse(b, "config.query_pre_attn_scalar", ERR_FORMAT, "must be above 0, got %g",
                      scalar);
    gemma_attn_scale(c, scalar);
}

/* ---- the config ---- */

/* Read the config as in llama.cpp: only the 27B model has a different scale. */
static void gguf_config(struct config *c, struct binder *b)
{
    gemma_gguf_windows(c, b, config_int(b, "attention.sliding_window_pattern", 1, INT_MAX, 6));
    gemma_attn_scale(c, c->n_layer == 62 ? c->d / c->n_head : c->d_head);
    config_local_rope(c, b, "rope.freq_base_swa", config_real(b, "rope.freq_base_swa", 10000));
    c->rope[ROPE_LOCAL].magnitude = config_real(b, "rope.scaling.attn_factor", 1);
}

/* Read a config.json. transformers 5 writes the local base into rope_parameters. Older files have
 * rope_local_base_freq. */
static void hf_config(struct config *c, struct binder *b)
{
    const double older = config_real(b, "config.rope_local_base_freq", 10000);
    gemma_hf_config(c, b, config_int(b, "config.sliding_window_pattern", 1, INT_MAX, 6));
    config_local_rope(c, b, "config.rope_local_base_freq", config_sliding_base(b, older));
}

/* config.json and GGUF have different fields for windows and scales. */
void gemma3_config(struct config *c, struct binder *b)
{
    c->embed_scale = (float)sqrt(c->d);
    if (config_is_hf(b))
        hf_config(c, b);
    else
        gguf_config(c, b);
}

const struct arch arch_gemma3 = {
    .name = "gemma3",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .curve = CURVE_gelu_tanh,
    .config = gemma3_config,
};
