/* glm4v.c - the text part of GLM-4.1V and GLM-4.6V ("GLM-4.1V-Thinking", arXiv 2507.01006): a glm4
 * whose heads have hidden_size / num_attention_heads lanes. Its rope has sections of lanes with
 * positions in time, height and width. A token of text has one position in all sections, so the
 * rope of a text is a plain rope. A GGUF file of the model has the architecture glm4. */
#include "qwen_impl.h"

/* defaults of Glm4vTextConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 151552),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 13696),
    KEY("block_count", 40),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 2),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY("config.rope_parameters.partial_rotary_factor", 1),
    KEY_UNSET("config.rope_parameters.mrope_section"),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    IDLE("config.attention_bias", "field of published files that transformers ignores"),
    KEYS_END,
};

/* Set the biases, and check the sections of the rope. A file without sections has a plain rope. */
static void config(struct config *c, struct binder *b)
{
    int64_t n[4] = {c->rope[ROPE_MAIN].d_rot / 2, 0, 0, 0};
    c->qkv_bias = BIAS_NEEDED;
    c->o_bias = BIAS_NONE;
    if (c->d_head * c->n_head != c->d)
        config_refuse(b, "attention.key_length", ERR_FORMAT,
                      "must be hidden_size / num_attention_heads, %d, got %d", c->d / c->n_head,
                      c->d_head);
    qwen_whole_sections(c, b, n);
}

const struct arch arch_glm4v = {
    .name = "glm4v",
    .hf_key = hf_key,
    .gguf_why = "its GGUF files have the architecture glm4",
    .gguf_neox = false,
    .hf_adjacent = true,
    .partial_rope = true,
    .config = config,
};
