/* phimoe.c - Phi-3.5-MoE ("Phi-3 Technical Report", arXiv 2404.14219; "GRIN", arXiv 2409.12136):
 * LayerNorm with bias, LongRoPE, mixtures of two experts that SparseMixer selects. For texts longer
 * than the original context the class of transformers 5 keeps the short list of divisors; quoth
 * uses the long list, as the published model and vLLM. */
#include "model/model_impl.h"

/* defaults of PhimoeConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 32064),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 6400),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 8),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 131072),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 1e6),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.lm_head_bias", 0),
    KEY_UNSET("attention.sliding_window"),
    KEY("expert_count", 16),
    KEY("config.router_jitter_noise", 0.01),
    KEY_UNSET("config.rope_parameters.short_mscale"),
    KEY_UNSET("config.rope_parameters.long_mscale"),
    IDLE("expert_used_count", "the class always selects two experts"),
    IDLE("config.input_jitter_noise", "training"),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    IDLE("config.hidden_dropout", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.sliding_window"),
    KEY_UNSET("expert_count"),
    ONLY("expert_used_count", 2, "the model selects two experts"),
    KEYS_END,
};

/* The class has magnitudes only for LongRoPE. */
static const struct rope_type rope_type[] = {{"none", ROPE_NONE, NULL},
                                             {"default", ROPE_NONE, NULL},
                                             {"longrope", ROPE_LONG, NULL},
                                             {"su", ROPE_LONG, NULL},
                                             ROPE_TYPES_END};

/* Set the magnitude of LongRoPE. The class has one for short texts and one for long texts. */
static void magnitude(struct rope_config *r, struct binder *b)
{
    static const char small[] = "config.rope_parameters.short_mscale",
                      large[] = "config.rope_parameters.long_mscale";
    const double x = config_real(b, small, NAN), y = config_real(b, large, NAN);
    if (r->scaling != ROPE_LONG || !config_is_hf(b)) return;
    if (isnan(x)) config_refuse(b, small, ERR_MISSING, "is missing, and the rope scaling needs it");
    if (isnan(y)) config_refuse(b, large, ERR_MISSING, "is missing, and the rope scaling needs it");
    if (x != y) config_refuse(b, large, ERR_UNSUPPORTED, "must be short_mscale, %g, got %g", x, y);
    r->magnitude = x;
}

/* The published jitter is a constant of GGUF files, which have no key for it. */
static void config(struct config *c, struct binder *b)
{
    static const char jitter[] = "config.router_jitter_noise";
    const int window = config_window(b);
    const double by = config_real(b, jitter, 0.01);
    if (!(by >= 0)) config_refuse(b, jitter, ERR_FORMAT, "must be at least 0, got %g", by);
    c->route = (struct route_spec){.score = ROUTE_SPARSEMIXER, .near = (float)(2 * by)};
    if (config_is_hf(b))
        c->head_bias = config_bool(b, "config.lm_head_bias", false) ? BIAS_NEEDED : BIAS_NONE;
    magnitude(&c->rope[ROPE_MAIN], b);
    config_moe(c, b, c->d_ff);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) c->layer[i].window = window;
    if (b->rc == 0 && c->layer[0].n_expert < 2)
        config_refuse(b, "expert_count", ERR_FORMAT, "must be at least 2, got %d",
                      c->layer[0].n_expert);
}

const struct arch arch_phimoe = {
    .name = "phimoe",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .layer_norm_eps = "attention.layer_norm_rms_epsilon",
    .norm_bias = true,
    .rope_type = rope_type,
    .config = config,
};
