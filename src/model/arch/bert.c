/* bert.c - BERT: learned positions and segments, LayerNorm after each block, GELU. Paper: "BERT:
 * Pre-training of Deep Bidirectional Transformers for Language Understanding", arXiv 1810.04805. */
#include "bert_impl.h"

/* defaults of BertConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 30522),
    KEY("embedding_length", 768),
    KEY("feed_forward_length", 3072),
    KEY("block_count", 12),
    KEY("attention.head_count", 12),
    KEY("context_length", 512),
    KEY("config.layer_norm_eps", 1e-12),
    KEY("config.type_vocab_size", 2),
    KEY_UNSET("config.hidden_act"),
    KEY_UNSET("config.position_embedding_type"),
    ONLY("config.is_decoder", 0, "a decoder of class BERT is not supported yet"),
    ONLY("config.add_cross_attention", 0, "a decoder of class BERT is not supported yet"),
    IDLE("config.tie_word_embeddings", "quoth does not use the head of masked tokens"),
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

static const char *const left_out[] = {"cls.predictions.", "cls.seq_relationship.",
                                       "bert.embeddings.position_ids", "embeddings.position_ids",
                                       NULL};

/* Set norms after each block, learned positions and segments. Relative positions, which the class
 * also has, are rejected. */
static void config(struct config *c, struct binder *b)
{
    config_only_text(b, "config.position_embedding_type", "absolute");
    c->order = BLOCKS_POST;
    c->n_position = c->context_train;
    c->n_segment = encoder_segments(b);
    c->qkv_bias = c->o_bias = c->ffn_bias = BIAS_NEEDED;
}

/* The first matrix of a classifier is BERT's pooler, or a separate matrix in RoBERTa. */
void bert_bind_ends(struct binder *b, void *ends)
{
    const enum curve tanh = CURVE_tanh;
    encoder_bind(b, ends);
    bind_classifier(b, &tanh, BIAS_NEEDED);
}

const struct arch arch_bert = {
    .name = "bert",
    BERT_ARCH,
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .no_rope = true,
    .curve = CURVE_gelu_erf,
    .left_out = left_out,
    .left_out_why = "heads of pretraining, or numbers of positions",
    .config = config,
    .bind_ends = bert_bind_ends,
};
