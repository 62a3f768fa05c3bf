/* qwen35.c - the text part of Qwen3.5 (qwen_hybrid.c). Its rope has interleaved sections with
 * positions in time, height and width. A token of text has one position in all sections, so the
 * rope of a text is a plain rope. GGUF files have the heads of v in another order. */
#include "qwen_impl.h"

/* defaults of Qwen3_5TextConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 248320),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 12288),
    KEY("block_count", 32),
    KEY("attention.head_count", 16),
    KEY("attention.head_count_kv", 4),
    KEY("attention.key_length", 256),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY("config.rope_parameters.partial_rotary_factor", 0.25),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    QWEN_HYBRID_KEYS,
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("rope.dimension_sections"),
    QWEN_HYBRID_GGUF_KEYS,
    KEYS_END,
};

/* llama.cpp requires equal sizes of the heads of k and v. */
void qwen35_check(struct config *c, struct binder *b)
{
    int64_t n[4] = {11, 11, 10, 0};
    const struct delta_sizes *s = c->own;
    if (config_is_hf(b) || b->rc != 0) return;
    qwen_read_sections(b, n);
    qwen_thirds(c, b, n);
    if (b->rc == 0 && s->d_v != s->d_k)
        config_refuse(b, "ssm.inner_size", ERR_UNSUPPORTED, "must be %d heads of %d values, got %d",
                      s->n_head, s->d_k, s->n_head * s->d_v);
}

static void config(struct config *c, struct binder *b)
{
    qwen_hybrid_config(c, b);
    qwen35_check(c, b);
}

const struct arch arch_qwen35 = {
    .name = "qwen35",
    QWEN_HYBRID_ARCH,
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_tiled = true,
    .config = config,
    .convert = &qwen_tiled_convert,
};
