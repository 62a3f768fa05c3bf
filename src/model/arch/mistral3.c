/* mistral3.c - Ministral 3 (Mistral AI), a llama with YaRN. Queries are scaled by 1 + beta ln(1 +
 * floor(position / original context)), as in Llama 4. */
#include "model/model_impl.h"

#include <limits.h>

/* defaults of Ministral3Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 131072),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 14336),
    KEY("block_count", 34),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 8),
    KEY("attention.key_length", 128),
    KEY("context_length", 262144),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY_UNSET("attention.sliding_window"),
    KEY_UNSET("config.rope_parameters.llama_4_scaling_beta"),
    IDLE("config.layer_types", "the class ignores it"),
    IDLE("config.rope_parameters.max_position_embeddings", "the context is at the top level"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("rope.scaling.yarn_beta_fast"),      KEY_UNSET("rope.scaling.yarn_beta_slow"),
    KEY_UNSET("rope.scaling.yarn_log_multiplier"), KEY_UNSET("attention.temperature_scale"),
    KEY_UNSET("attention.sliding_window"),         KEYS_END,
};

/* Set the magnitude as in llama.cpp: mscale is 1, and the key has the value of mscale_all_dim. */
static void gguf_magnitude(struct binder *b, struct rope_config *r)
{
    const double all = config_real(b, "rope.scaling.yarn_log_multiplier", 0);
    if (all == 0 || r->scaling != ROPE_YARN || !(r->factor > 1)) return;
    r->magnitude /= 0.1 * all * log(r->factor) + 1;
}

/* Set rope_parameters to the default of the class. The magnitude is 1, because mscale equals
 * mscale_all_dim. */
static void default_rope(struct binder *b, struct rope_config *r)
{
    if (!config_given(b, "rope.freq_base")) r->base = 1000000;
    r->scaling = ROPE_YARN;
    r->factor = 16;
    r->context_original = 16384;
    r->beta_fast = 32;
    r->beta_slow = 1;
    r->magnitude = 1;
    r->beta = 0.1;
    r->beta_context = r->context_original;
}

static void config(struct config *c, struct binder *b)
{
    const bool hf = config_is_hf(b);
    struct rope_config *r = &c->rope[ROPE_MAIN];
    struct rope_config *q = &c->rope[ROPE_QUERY];
    const int window = config_window(b);
    for (int i = 0; i < c->n_layer; i++) c->layer[i].window = window;
    r->beta = config_real(
        b, hf ? "config.rope_parameters.llama_4_scaling_beta" : "attention.temperature_scale", 0);
    r->beta_context =
        config_int(b, "rope.scaling.original_context_length", 1, INT_MAX, c->context_train);
    if (config_lacks_rope(b)) default_rope(b, r);
    if (!hf) gguf_magnitude(b, r);
    *q = *r;
    r->beta = 0;
    c->n_rope = 2;
    c->shares_factors = true;
}

/* Rotate q and k by their own ropes. */
static void put(struct fwd *f, float *q, float *k, const struct attn_block *a)
{
    const struct attn_spec *s = &a->spec;
    fwd_rope(f, q, s->n_head, s->d_k, ROPE_QUERY);
    fwd_rope(f, k, s->n_head_kv, s->d_k, ROPE_MAIN);
    fwd_put(f, k, a);
}

static void bind(struct binder *b, void *layer, int il)
{
    struct decoder_layer *l = layer;
    decoder_bind_layer(b, l, il);
    l->attn.put = put;
}

const struct arch arch_mistral3 = {
    .name = "mistral3",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = false,
    .config = config,
    .bind = bind,
};
