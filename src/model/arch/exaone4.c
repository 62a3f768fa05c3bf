/* exaone4.c - EXAONE 4.0 ("EXAONE 4.0: Unified Large Language Models", arXiv 2507.11407): norms
 * after the blocks, and of q and k heads. A layer without a window has no rope if any other layer
 * has a window. */
#include "gemma_impl.h"

#include <limits.h>

/* defaults of Exaone4Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 102400),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 16384),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 32),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("attention.sliding_window", 4096),
    KEY("config.sliding_window_pattern", 4),
    KEY_UNSET("config.layer_types"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY("attention.sliding_window", 4096),
    KEY("attention.sliding_window_pattern", 4),
    IDLE("rope.freq_base_swa", "llama.cpp reads this base, but rotates with the main base"),
    KEYS_END,
};

/* Return the interval of full layers in a GGUF. The converter writes a list with a bool per layer.
 * llama.cpp ignores lists, so only a list that equals its interval of 4 is accepted. */
static int gguf_interval(struct binder *b, int n_layer)
{
    static const char key[] = "attention.sliding_window_pattern";
    const struct meta *m = config_meta(b, key);
    int at = 0;
    if (meta_kind(m) != META_LIST) return config_int(b, key, 1, INT_MAX, 4);
    if (meta_count(m) != (size_t)n_layer)
        config_refuse(b, key, ERR_UNSUPPORTED, "must be a list of %d values, got %zu", n_layer,
                      meta_count(m));
    while (at < n_layer && meta_item_int(m, (size_t)at, -1) == ((at + 1) % 4 != 0)) at++;
    if (at < n_layer)
        config_refuse(b, key, ERR_UNSUPPORTED,
                      "[%d]: must be %d, because llama.cpp ignores other lists, got %lld", at,
                      (at + 1) % 4 != 0, (long long)meta_item_int(m, (size_t)at, -1));
    return 4;
}

/* Set windows as in llama.cpp: only the model of 64 layers has windows, and its layers without a
 * window have no rope. */
static void gguf_config(struct config *c, struct binder *b)
{
    static const char key[] = "attention.sliding_window";
    const int interval = gguf_interval(b, c->n_layer);
    if (c->n_layer != 64) {
        if (meta_kind(config_meta(b, key)) != META_NONE && config_window(b) != 0)
            config_refuse(
                b, key, ERR_UNSUPPORTED,
                "must be 0 with block_count %d, because llama.cpp ignores the window, got %d",
                c->n_layer, config_window(b));
        return;
    }
    gemma_gguf_windows(c, b, interval);
    for (int i = 0; i < c->n_layer; i++)
        c->layer[i].rope = c->layer[i].window ? ROPE_MAIN : ROPE_OFF;
}

/* Set windows as in transformers: the listed layers, or all except the last of every interval. */
static void config(struct config *c, struct binder *b)
{
    static const char key[] = "config.sliding_window_pattern";
    if (!config_is_hf(b)) {
        gguf_config(c, b);
        return;
    }
    const int window = config_window(b);
    const bool listed = config_layer_types(b, c, window);
    /* a pattern such as LLLG is ignored if there is a list */
    const bool text = listed && meta_kind(config_meta(b, key)) == META_TEXT;
    const int interval = text ? 1 : config_int(b, key, listed ? INT_MIN : 1, INT_MAX, 1);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        if (!listed) c->layer[i].window = (i + 1) % interval ? window : 0;
        c->layer[i].rope = window && !c->layer[i].window ? ROPE_OFF : ROPE_MAIN;
    }
}

const struct arch arch_exaone4 = {
    .name = "exaone4",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .config = config,
};
