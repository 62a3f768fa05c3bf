/* olmo2.c - OLMo 2 ("2 OLMo 2 Furious", arXiv 2501.00656). OLMo 2 differs from llama in two ways.
 * Norms are after the blocks, not before. q and k are RMS-normalized over all heads together.
 *
 *   q = norm(W_q x), k = norm(W_k x)      over all heads, before the division into heads and rope
 *   x += norm(attn(x)); x += norm(ffn(x)) */
#include "model/model_impl.h"

#include <limits.h>

/* defaults of Olmo2Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50304),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 11008),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEYS_END,
};

/* additional keys for olmo3, which GGUF files label olmo2 */
static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.sliding_window"),
    KEY_UNSET("attention.sliding_window_pattern"),
    KEY_UNSET("rope.freq_base_swa"),
    KEYS_END,
};

/* Set the windows by the pattern, which is a list of the layers, or the interval of layers without
 * a window. */
static void config(struct config *c, struct binder *b)
{
    static const char key[] = "attention.sliding_window_pattern";
    if (config_is_hf(b)) return;
    const int window = config_window(b);
    const struct meta *list = config_meta(b, key);
    const bool listed = meta_kind(list) == META_LIST;
    const int interval = listed ? 1 : config_int(b, key, 1, INT_MAX, 4);
    const double base = config_real(b, "rope.freq_base_swa", c->rope[ROPE_MAIN].base);
    if (listed && meta_count(list) < (size_t)c->n_layer)
        config_refuse(b, key, ERR_FORMAT, "must be a list of %d values, got %zu", c->n_layer,
                      meta_count(list));
    if (window == 0 || b->rc != 0) return;
    for (int i = 0; i < c->n_layer; i++) {
        const bool slides = listed ? meta_item_int(list, (size_t)i, 0) != 0 : (i + 1) % interval;
        c->layer[i].window = slides ? window : 0;
    }
    config_local_rope(c, b, "rope.freq_base_swa", base);
}

const struct arch arch_olmo2 = {
    .name = "olmo2",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .config = config,
    .gguf_neox = true,
};
