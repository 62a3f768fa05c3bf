/* phi3.c - Phi-3, Phi-3.5 and Phi-4 ("Phi-3 Technical Report", arXiv 2404.14219): a llama with
 * LongRoPE. One matrix contains q, k and v, another matrix contains gate and up. Phi-4-mini has a
 * partial rope. */
#include "model/model_impl.h"

/* defaults of Phi3Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 32064),
    KEY("embedding_length", 3072),
    KEY("feed_forward_length", 8192),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 4096),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY("rope.scaling.original_context_length", 4096),
    KEY("config.rope_parameters.partial_rotary_factor", 1),
    IDLE("config.rope_parameters.original_max_position_embeddings",
         "the class reads this field at the top level"),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY_UNSET("attention.sliding_window"),
    IDLE("config.embd_pdrop", "training"),
    IDLE("config.resid_pdrop", "training"),
    IDLE("config.attention_bias", "field of published files that transformers ignores"),
    IDLE("config.mlp_bias", "field of published files that transformers ignores"),
    IDLE("config.lm_head_bias", "field of published files that transformers ignores"),
    IDLE("config.full_attn_mod", "field of published files that transformers ignores"),
    IDLE("config.interpolate_factor", "field of published files that transformers ignores"),
    KEYS_END,
};

/* llama.cpp ignores the window. In transformers the window has an effect. */
static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.sliding_window"),
    KEYS_END,
};

/* The class supports only LongRoPE. "su" and "yarn" are older names of LongRoPE. */
static const struct rope_type rope_type[] = {
    {"none", ROPE_NONE, NULL}, {"default", ROPE_NONE, NULL}, {"longrope", ROPE_LONG, NULL},
    {"su", ROPE_LONG, NULL},   {"yarn", ROPE_LONG, NULL},    ROPE_TYPES_END};

static void config(struct config *c, struct binder *b)
{
    int window = config_window(b);
    for (int i = 0; i < c->n_layer; i++) c->layer[i].window = window;
}

const struct arch arch_phi3 = {
    .name = "phi3",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .partial_rope = true,
    .rope_type = rope_type,
    .config = config,
};
