/* distilbert.c - DistilBERT ("DistilBERT, a distilled version of BERT", arXiv 1910.01108): BERT's
 * layers without segments. GGUF files name the architecture bert. */
#include "bert_impl.h"

/* defaults of DistilBertConfig of transformers 5; the epsilon is a constant of the class */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 30522),
    KEY("embedding_length", 768),
    KEY("feed_forward_length", 3072),
    KEY("block_count", 6),
    KEY("attention.head_count", 12),
    KEY("context_length", 512),
    ONLY("config.layer_norm_eps", 1e-12, "the class has a constant in place of this field"),
    KEY_UNSET("config.activation"),
    ONLY("config.is_decoder", 0, "a decoder of class DistilBERT is not supported yet"),
    IDLE("config.tie_word_embeddings", "quoth does not use the head of masked tokens"),
    IDLE("config.tie_weights_", "quoth does not use the head of masked tokens"),
    IDLE("config.sinusoidal_pos_embds", "only the initialization before training uses this field"),
    IDLE("config.dropout", "training"),
    IDLE("config.attention_dropout", "training"),
    IDLE("config.qa_dropout", "training"),
    IDLE("config.seq_classif_dropout", "training"),
    KEYS_END,
};

static const char *const left_out[] = {
    "vocab_transform.",        "vocab_layer_norm.",
    "vocab_projector.",        "distilbert.embeddings.position_ids",
    "embeddings.position_ids", NULL};

/* Set the layers of BERT: norms after each block, learned positions, and biases everywhere. */
static void config(struct config *c, struct binder *b)
{
    (void)b;
    c->order = BLOCKS_POST;
    c->n_position = c->context_train;
    c->qkv_bias = c->o_bias = c->ffn_bias = BIAS_NEEDED;
}

static void bind_ends(struct binder *b, void *ends)
{
    const enum curve relu = CURVE_relu;
    encoder_bind(b, ends);
    bind_classifier(b, &relu, BIAS_NEEDED);
}

const struct arch arch_distilbert = {
    .name = "distilbert",
    BERT_ARCH,
    .hf_key = hf_key,
    .no_rope = true,
    .curve = CURVE_gelu_erf,
    .left_out = left_out,
    .left_out_why = "the head of pretraining, or numbers of positions",
    .config = config,
    .bind_ends = bind_ends,
};
