/* gpt_oss.c - gpt-oss ("gpt-oss-120b & gpt-oss-20b Model Card", arXiv 2508.10925): mixtures whose
 * matrices have biases and whose gated unit has limits, attention with a sink per head, windows in
 * every other layer, YaRN. Rows of gate and up of an expert alternate in Hugging Face directories.
 * Published directories have the experts' matrices as MXFP4 (form/mxfp4.c). */
#include "gpt_oss_impl.h"

/* defaults of GptOssConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 201088),
    KEY("embedding_length", 2880),
    KEY("feed_forward_length", 2880),
    KEY("block_count", 36),
    KEY("attention.head_count", 64),
    KEY("attention.head_count_kv", 8),
    KEY("attention.key_length", 64),
    KEY("context_length", 131072),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 150000),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 1),
    KEY("attention.sliding_window", 128),
    KEY_UNSET("config.layer_types"),
    KEY("expert_count", 128),
    KEY("expert_used_count", 4),
    KEY("config.swiglu_alpha", 1.702),
    KEY("config.swiglu_limit", 7),
    IDLE("config.hidden_act", "the class ignores it"),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    IDLE("config.experts_per_token", "field of published files that transformers ignores"),
    IDLE("config.initial_context_length", "field of published files that transformers ignores"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.sliding_window"),
    KEY("attention.sliding_window_pattern", 2),
    KEY_UNSET("expert_count"),
    KEY_UNSET("expert_used_count"),
    KEY_UNSET("expert_feed_forward_length"),
    KEYS_END,
};

/* Set the scaling of the class, which a config.json without rope_parameters has. */
static void default_rope(struct rope_config *r)
{
    r->scaling = ROPE_YARN;
    r->factor = 32;
    r->context_original = 4096;
    r->ramp_whole = false;
    r->magnitude = 0.1 * log(r->factor) + 1;
}

/* Set the windows: by layer_types, or in every other layer from the first on. */
static void windows(struct config *c, struct binder *b)
{
    static const char pattern[] = "attention.sliding_window_pattern";
    const int window = config_window(b),
              n = config_has(b, pattern) ? config_int(b, pattern, 1, LAYERS_MAX, 2) : 2;
    if (config_layer_types(b, c, window)) return;
    for (int i = 0; i < c->n_layer && b->rc == 0; i++)
        c->layer[i].window = (i + 1) % n != 0 ? window : 0;
}

/* The bounds of YaRN's ramp are not rounded, as in the published model. GGUF has no key for it. */
static void config(struct config *c, struct binder *b)
{
    struct rope_config *r = &c->rope[ROPE_MAIN];
    const double alpha = config_real(b, "config.swiglu_alpha", 1.702),
                 limit = config_real(b, "config.swiglu_limit", 7);
    if (!(limit > 0))
        config_refuse(b, "config.swiglu_limit", ERR_FORMAT, "must be above 0, got %g", limit);
    if (config_lacks_rope(b)) default_rope(r);
    if (!config_is_hf(b) && r->scaling == ROPE_YARN) r->ramp_whole = false;
    c->clamped = (struct clamped_glu){.alpha = (float)alpha, .limit = (float)limit};
    c->route.score = ROUTE_CHOSEN;
    windows(c, b);
    config_moe(c, b, c->d_ff);
}

const struct arch arch_gpt_oss = {
    .name = "gpt-oss",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .hf_pairs = true,
    .gguf_halves = true,
    .convert = &gpt_oss_convert,
    .config = config,
};
