/* qwen2vl.c - the text part of Qwen2-VL and Qwen2.5-VL ("Qwen2-VL", arXiv 2409.12191): a qwen2. Its
 * rope has sections of lanes with positions in time, height and width. A token of text has one
 * position in all sections, so the rope of a text is a plain rope. */
#include "qwen_impl.h"

#include <limits.h>

/* defaults of Qwen2VLTextConfig and Qwen2_5_VLTextConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 152064),
    KEY("embedding_length", 8192),
    KEY("feed_forward_length", 29568),
    KEY("block_count", 80),
    KEY("attention.head_count", 64),
    KEY("attention.head_count_kv", 8),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 1000000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.use_sliding_window", 0),
    KEY("attention.sliding_window", 4096),
    KEY("config.max_window_layers", 80),
    KEY_UNSET("config.layer_types"),
    KEY_UNSET("config.rope_parameters.mrope_section"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("rope.dimension_sections"),
    KEYS_END,
};

/* Return item i of the list of sections. */
static int64_t section(struct binder *b, const char *key, const struct meta *list, size_t i)
{
    char text[80];
    const int64_t n = meta_item_kind(list) == META_BOOL ? -1 : meta_item_int(list, i, -1);
    if (n < 0 || n > INT_MAX)
        config_refuse(b, key, ERR_FORMAT, "must be a list of integers of at least 0, got %s",
                      config_value_text(list, text));
    return b->rc == 0 ? n : 0;
}

void qwen_read_sections(struct binder *b, int64_t n[4])
{
    const char *key =
        config_is_hf(b) ? "config.rope_parameters.mrope_section" : "rope.dimension_sections";
    char text[80];
    const struct meta *list = config_meta(b, key);
    const size_t n_list = meta_count(list), least = config_is_hf(b) ? 3 : 4;
    if (!list && config_is_hf(b)) return;
    if (n_list < least || n_list > 4)
        config_refuse(b, key, list ? ERR_FORMAT : ERR_MISSING,
                      list ? "must be a list of %zu integers, got %s"
                           : "is missing; must be a list of %zu integers%s",
                      least, list ? config_value_text(list, text) : "");
    for (size_t i = 0; i < n_list && b->rc == 0; i++) n[i] = section(b, key, list, i);
    if (b->rc == 0 && n[3] != 0)
        config_refuse(b, key, ERR_UNSUPPORTED, "must have no fourth section, got %lld lanes",
                      (long long)n[3]);
}

void qwen_sections(const struct config *c, struct binder *b, int64_t n[4])
{
    const char *key =
        config_is_hf(b) ? "config.rope_parameters.mrope_section" : "rope.dimension_sections";
    qwen_read_sections(b, n);
    if (b->rc == 0 && n[0] + n[1] + n[2] > c->rope[ROPE_MAIN].d_rot / 2)
        config_refuse(b, key, ERR_FORMAT, "must have at most the %d rotated pairs, got %lld",
                      c->rope[ROPE_MAIN].d_rot / 2, (long long)(n[0] + n[1] + n[2]));
}

void qwen_whole_sections(const struct config *c, struct binder *b, int64_t n[4])
{
    const int n_pair = c->rope[ROPE_MAIN].d_rot / 2;
    qwen_sections(c, b, n);
    const int64_t sum = n[0] + n[1] + n[2];
    if (b->rc == 0 && (config_is_hf(b) ? sum != n_pair : sum == 0))
        config_refuse(
            b, config_is_hf(b) ? "config.rope_parameters.mrope_section" : "rope.dimension_sections",
            ERR_FORMAT, "must have the %d rotated pairs of lanes, got %lld", n_pair,
            (long long)sum);
}

/* Set the biases and windows, and check the sections. */
static void config(struct config *c, struct binder *b)
{
    int64_t n[4] = {16, 24, 24, 0};
    if (config_is_hf(b)) c->qkv_bias = BIAS_NEEDED;
    if (config_is_hf(b)) qwen_windows(c, b);
    qwen_whole_sections(c, b, n);
}

const struct arch arch_qwen2vl = {
    .name = "qwen2vl",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .config = config,
    .convert = &qwen_sections_convert,
};
