/* phi2.c - Phi-1, Phi-1.5 and Phi-2 ("Textbooks Are All You Need II", arXiv 2309.05463). Attention
 * and a feed-forward block without a gate are parallel, after one LayerNorm. All linear layers,
 * including the head, have biases. The rope is partial. */
#include "model/model_impl.h"

/* defaults of PhiConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 51200),
    KEY("embedding_length", 2048),
    KEY("feed_forward_length", 8192),
    KEY("block_count", 24),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("config.layer_norm_eps", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY("config.rope_parameters.partial_rotary_factor", 0.5),
    KEY_UNSET("config.hidden_act"),
    ONLY("config.tie_word_embeddings", 0, "a tied head with a bias is not supported yet"),
    ONLY("config.qk_layernorm", 0, "norms of heads are not supported yet"),
    IDLE("config.resid_pdrop", "training"),
    IDLE("config.embd_pdrop", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    (void)b;
    c->qkv_bias = c->o_bias = c->ffn_bias = c->head_bias = BIAS_NEEDED;
    c->tied = false;
    c->order = BLOCKS_PARALLEL;
}

const struct arch arch_phi2 = {
    .name = "phi2",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .partial_rope = true,
    .layer_norm_eps = "config.layer_norm_eps",
    .norm_bias = true,
    .curve = CURVE_gelu_tanh,
    .config = config,
};
