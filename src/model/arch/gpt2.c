/* gpt2.c - GPT-2 ("Language Models are Unsupervised Multitask Learners", Radford et al. 2019):
 * learned positions, LayerNorm, biases, a feed-forward block without a gate. Hugging Face files
 * have the matrices of the layers transposed. */
#include "model/model_impl.h"

/* defaults of GPT2Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50257),
    KEY("embedding_length", 768),
    KEY_UNSET("feed_forward_length"),
    KEY("block_count", 12),
    KEY("attention.head_count", 12),
    KEY("context_length", 1024),
    KEY("config.layer_norm_epsilon", 1e-5),
    KEY_UNSET("config.activation_function"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.scale_attn_weights", 1),
    KEY("config.scale_attn_by_inverse_layer_idx", 0),
    ONLY("config.add_cross_attention", 0, "attention to an encoder is not supported yet"),
    IDLE("config.reorder_and_upcast_attn", "implementation of the reference"),
    IDLE("config.summary_type", "field of a head that quoth does not use"),
    IDLE("config.summary_use_proj", "field of a head that quoth does not use"),
    IDLE("config.summary_activation", "field of a head that quoth does not use"),
    IDLE("config.summary_proj_to_labels", "field of a head that quoth does not use"),
    IDLE("config.summary_first_dropout", "training"),
    IDLE("config.resid_pdrop", "training"),
    IDLE("config.embd_pdrop", "training"),
    IDLE("config.attn_pdrop", "training"),
    IDLE("config.n_ctx", "field of published files that transformers ignores"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEYS_END,
};

/* masks of attention, which only old files contain */
static const char *const left_out[] = {".attn.bias", ".attn.masked_bias", NULL};

/* Set the scale of scores, which may decrease with the layer, and the learned positions. Their
 * number limits the context. */
static void config(struct config *c, struct binder *b)
{
    const bool divides = config_bool(b, "config.scale_attn_weights", true),
               by_layer = config_bool(b, "config.scale_attn_by_inverse_layer_idx", false);
    for (int i = 0; i < c->n_layer; i++) {
        if (!divides) c->layer[i].attn_scale = 1;
        if (by_layer) c->layer[i].attn_scale /= (float)(i + 1);
    }
    c->n_position = c->context_train;
    c->qkv_bias = c->o_bias = c->ffn_bias = BIAS_NEEDED;
}

const struct arch arch_gpt2 = {
    .name = "gpt2",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .no_rope = true,
    .layer_norm_eps = "config.layer_norm_epsilon",
    .norm_bias = true,
    .curve = CURVE_gelu_tanh,
    .ffn_times = 4,
    .left_out = left_out,
    .left_out_why = "mask of attention; quoth computes the mask itself",
    .config = config,
};
