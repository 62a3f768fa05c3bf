/* roberta.c - RoBERTa, XLM-RoBERTa and CamemBERT: BERT's layers. Paper: "RoBERTa: A Robustly
 * Optimized BERT Pretraining Approach", arXiv 1907.11692. The first position is the padding id + 1.
 * In GGUF files these models have the architecture bert. */
#include "bert_impl.h"

/* defaults of RobertaConfig in transformers 5. XLMRobertaConfig has the same defaults, except for
 * the size of the vocabulary, which must equal the number of rows of the embedding */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50265),
    KEY("embedding_length", 768),
    KEY("feed_forward_length", 3072),
    KEY("block_count", 12),
    KEY("attention.head_count", 12),
    KEY("context_length", 512),
    KEY("config.layer_norm_eps", 1e-12),
    KEY("config.type_vocab_size", 2),
    KEY_UNSET("config.hidden_act"),
    KEY_UNSET("config.position_embedding_type"),
    ONLY("config.is_decoder", 0, "a decoder of class RoBERTa is not supported yet"),
    ONLY("config.add_cross_attention", 0, "a decoder of class RoBERTa is not supported yet"),
    IDLE("config.tie_word_embeddings", "quoth does not use the head of masked tokens"),
    IDLE("config.hidden_dropout_prob", "training"),
    IDLE("config.attention_probs_dropout_prob", "training"),
    IDLE("config.classifier_dropout", "training"),
    IDLE("config.output_past", "implementation of the reference"),
    KEYS_END,
};

static const char *const left_out[] = {"lm_head.",
                                       "roberta.pooler.",
                                       "pooler.",
                                       "roberta.embeddings.position_ids",
                                       "embeddings.position_ids",
                                       NULL};

/* Set BERT's layers with positions from the padding id + 1 on. Padding tokens have the position of
 * their id and are not counted. The rows of earlier positions are never used, so they reduce the
 * context. */
static void config(struct config *c, struct binder *b)
{
    static const char key[] = "tokenizer.ggml.padding_token_id";
    const int64_t pad = meta_int(checkpoint_meta(b->checkpoint, key), 1);
    config_only_text(b, "config.position_embedding_type", "absolute");
    c->order = BLOCKS_POST;
    c->n_position = c->context_train;
    if (pad < 0 || pad + 1 >= c->n_position) {
        config_refuse(b, "config.pad_token_id", ERR_FORMAT,
                      "must leave one of %d positions, got %lld", c->n_position, (long long)pad);
        return;
    }
    c->position0 = (int)pad + 1;
    c->context_train -= c->position0;
    c->pads_apart = true, c->pad = (int)pad;
    c->n_segment = encoder_segments(b);
    c->qkv_bias = c->o_bias = c->ffn_bias = BIAS_NEEDED;
}

const struct arch arch_roberta = {
    .name = "roberta",
    BERT_ARCH,
    .hf_key = hf_key,
    .no_rope = true,
    .curve = CURVE_gelu_erf,
    .left_out = left_out,
    .left_out_why = "head or pooler of pretraining",
    .config = config,
    .bind_ends = bert_bind_ends,
};
