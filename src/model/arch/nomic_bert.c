/* nomic_bert.c - Nomic Embed ("Nomic Embed: Training a Reproducible Long Context Text Embedder",
 * arXiv 2402.01613): BERT with rope and a gated feed-forward block. */
#include "model/model_impl.h"

/* defaults of NomicBertConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 30528),
    KEY("embedding_length", 768),
    KEY("feed_forward_length", 3072),
    KEY("block_count", 12),
    KEY("attention.head_count", 12),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("config.layer_norm_eps", 1e-12),
    KEY("config.type_vocab_size", 2),
    KEY_UNSET("config.hidden_act"),
    KEY("rope.freq_base", 1000),
    IDLE("config.tie_word_embeddings", "the head of masked tokens, which is left out"),
    IDLE("config.hidden_dropout_prob", "training"),
    IDLE("config.attention_probs_dropout_prob", "training"),
    IDLE("config.classifier_dropout", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    MUST("attention.causal", 0, "a causal encoder is not supported yet"), /* llama.cpp's default */
    KEYS_END,
};

static const char *const left_out[] = {"cls.predictions.", "pooler.", "nomic_bert.pooler.", NULL};

static void config(struct config *c, struct binder *b)
{
    c->order = BLOCKS_POST;
    c->n_segment = encoder_segments(b);
    c->qkv_bias = c->o_bias = c->ffn_bias = config_is_hf(b) ? BIAS_NONE : BIAS_HELD;
}

const struct arch arch_nomic_bert = {
    .name = "nomic-bert",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .encoder = true,
    .layer_norm_eps = "config.layer_norm_eps",
    .norm_bias = true,
    .curve = CURVE_silu,
    .left_out = left_out,
    .left_out_why = "the head and the pooler of pretraining",
    .ends_bytes = sizeof(struct encoder_ends),
    .config = config,
    .bind_ends = encoder_bind,
    .embed = encoder_embed,
    .output = encoder_output,
};
