/* qwen3vl.c - the text part of Qwen3-VL ("Qwen3-VL Technical Report", arXiv 2511.21631): a qwen3.
 * Its rope has interleaved lanes with positions in time, height and width. A token of text has one
 * position in all sections, so the rope of a text is a plain rope. llama.cpp does not rotate the
 * last lanes beyond three times the size of a section; the angles of these lanes are close to 0. */
#include "qwen_impl.h"

/* defaults of Qwen3VLTextConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 151936),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 22016),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 32),
    KEY("attention.key_length", 128),
    KEY("context_length", 128000),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 500000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY_UNSET("config.rope_parameters.mrope_section"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("rope.dimension_sections"),
    IDLE("n_deepstack_layers", "quoth does not read the part for images"),
    KEYS_END,
};

/* In a GGUF, each section must have almost a third of the pairs, because llama.cpp rotates only the
 * pairs of three equal sections. */
void qwen_thirds(const struct config *c, struct binder *b, const int64_t n[4])
{
    enum { PAIRS_LEFT = 4 }; /* maximum number of last pairs that llama.cpp does not rotate */
    const int n_pair = c->rope[ROPE_MAIN].d_rot / 2;
    for (int i = 0; i < 3 && !config_is_hf(b); i++)
        if (3 * n[i] + PAIRS_LEFT < n_pair)
            config_refuse(b, "rope.dimension_sections", ERR_UNSUPPORTED,
                          "[%d]: must have a third of the %d rotated pairs, got %lld", i, n_pair,
                          (long long)n[i]);
}

void qwen3vl_config(struct config *c, struct binder *b)
{
    int64_t n[4] = {0}; /* without a list, the sections of a text need no check */
    qwen_sections(c, b, n);
    qwen_thirds(c, b, n);
}

const struct arch arch_qwen3vl = {
    .name = "qwen3vl",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .config = qwen3vl_config,
    .convert = &qwen_sections_convert,
};
