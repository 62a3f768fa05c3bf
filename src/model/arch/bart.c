/* bart.c - BART: an encoder and a decoder with learned positions from row 2 on. Paper: "BART:
 * Denoising Sequence-to-Sequence Pre-training for Natural Language Generation, Translation, and
 * Comprehension", arXiv 1910.13461. LayerNorm applies to the embeddings and after the sums. Layers
 * have biases, and the feed-forward block has no gate. A vector is added to the logits. Encoder and
 * decoder have their own numbers of heads and widths. No GGUF file has this architecture. */
#include "model/model_impl.h"

#include <limits.h>

enum { FIRST_POSITION = 2 };

#define FORM "the form of an older class is not supported yet"

/* defaults of BartConfig of transformers 5; the epsilon is a constant of the class */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50265),
    KEY("embedding_length", 1024),
    KEY("feed_forward_length", 4096),
    KEY("block_count", 12),
    KEY("attention.head_count", 16),
    KEY("context_length", 1024),
    KEY("decoder_block_count", 12),
    KEY("decoder_start_token_id", 2),
    KEY_UNSET("forced_bos_token_id"),
    KEY_UNSET("config.force_bos_token_to_be_generated"),
    KEY("config.decoder_ffn_dim", 4096),
    KEY("config.decoder_attention_heads", 16),
    KEY_UNSET("config.activation_function"),
    KEY("config.scale_embedding", 0),
    KEY("config.tie_word_embeddings", 1),
    ONLY("config.layer_norm_eps", 1e-5, "the class has a constant in place of this field"),
    ONLY("config.is_encoder_decoder", 1,
         "a BART without an encoder or a decoder is not supported yet"),
    ONLY("config.normalize_before", 0, FORM),
    ONLY("config.normalize_embedding", 1, FORM),
    ONLY("config.add_final_layer_norm", 0, FORM),
    ONLY("config.add_bias_logits", 0, FORM),
    ONLY("config.static_position_embeddings", 0, FORM),
    ONLY("config.extra_pos_embeddings", 2, FORM),
    IDLE("config.is_decoder", "the encoder and the decoder have copies of this field"),
    IDLE("config.dropout", "training"),
    IDLE("config.activation_dropout", "training"),
    IDLE("config.classifier_dropout", "training"),
    IDLE("config.classif_dropout", "training"),
    IDLE("config.encoder_layerdrop", "training"),
    IDLE("config.decoder_layerdrop", "training"),
    IDLE("config.init_std", "training"),
    IDLE("config.output_past", "implementation of the reference"),
    KEYS_END,
};

/* keys that only models of random weights have */
static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY_UNSET("decoder_block_count"),
    KEY_UNSET("decoder_start_token_id"),
    KEY_UNSET("forced_bos_token_id"),
    KEYS_END,
};

/* Set the positions of encoder and decoder. A model of random weights has a row for each position
 * of its context. */
static void positions(struct config *c, struct binder *b)
{
    const bool hf = config_is_hf(b);
    const int lo = hf ? 1 : FIRST_POSITION + 1, hi = INT_MAX / 2 - FIRST_POSITION;
    const int n = config_int(b, "context_length", lo, hi, 0);
    c->position0 = FIRST_POSITION;
    c->n_position = n + (hf ? FIRST_POSITION : 0);
    c->context_train = 2 * (c->n_position - FIRST_POSITION);
}

/* Check that the number of heads of encoder or decoder divides the width. */
static void check_heads(struct binder *b, const char *key, int n_head)
{
    const int d = b->m->config.d;
    if (n_head > 0 && d % n_head)
        config_refuse(b, key, ERR_FORMAT, "must divide the width %d, got %d", d, n_head);
}

static void config(struct config *c, struct binder *b)
{
    static const char heads[] = "config.decoder_attention_heads";
    const int n_head = config_int(b, heads, 1, HEADS_MAX, c->n_head),
              d_ff = config_int(b, "config.decoder_ffn_dim", 1, D_FF_MAX, c->d_ff);
    positions(c, b);
    check_heads(b, "attention.head_count", c->n_head);
    check_heads(b, heads, n_head);
    if (b->rc != 0) return;
    for (int il = c->n_encoder; il < c->n_layer; il++) {
        struct layer_config *l = &c->layer[il];
        l->n_head = l->n_head_kv = n_head;
        l->d_head = c->d / n_head;
        l->d_ff = d_ff;
        l->attn_scale = 1 / sqrtf((float)l->d_head);
    }
    c->order = BLOCKS_POST;
    c->qkv_bias = c->o_bias = c->ffn_bias = BIAS_NEEDED;
    if (config_bool(b, "config.scale_embedding", false)) c->embed_scale = sqrtf((float)c->d);
}

/* Bind the ends, and the vector that is added to the logits. The vector is 0 if the model was saved
 * without its head. */
static void bind_ends(struct binder *b, void *ends)
{
    static const char stem[] = "output_bias";
    struct linear *head = &((struct cross_ends *)ends)->decoder.head;
    cross_bind_ends(b, ends);
    /* the embedding sets this value if the file lacks vocab_size */
    const int64_t n = b->m->config.n_vocab;
    if (b->rc != 0 || b->m->headless || !bind_has(b, stem, -1)) return;
    head->bias = bind_floats(b, stem, -1, 1, n);
    bind_vector(b, &head->bias, n);
}

const struct arch arch_bart = {
    .name = "bart",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .no_rope = true,
    .crosses = true,
    .layer_norm_eps = "config.layer_norm_eps",
    .norm_bias = true,
    .curve = CURVE_gelu_erf,
    .ends_bytes = sizeof(struct cross_ends),
    .config = config,
    .bind_ends = bind_ends,
};
