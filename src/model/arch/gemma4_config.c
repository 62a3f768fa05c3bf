/* gemma4_config.c - the config of Gemma 4 (gemma4.c). config.json has the sizes of single layers in
 * per_layer_config, or in older fields for all layers without a window. A GGUF has lists, and other
 * keys for sliding layers. */
#include "gemma_impl.h"

#include <limits.h>

/* defaults of Gemma4TextConfig of transformers 5 */
const struct config_key gemma4_hf_key[] = {
    KEY("vocab_size", 262144),
    KEY("embedding_length", 2304),
    KEY("feed_forward_length", 9216),
    KEY("block_count", 30),
    KEY("attention.head_count", 8),
    KEY("attention.head_count_kv", 4),
    KEY("attention.key_length", 256),
    KEY("context_length", 131072),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 1000000),
    KEY_UNSET("config.hidden_activation"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.attention_bias", 0),
    KEY("attention.sliding_window", 512),
    KEY_UNSET("config.layer_types"),
    KEY_UNSET("config.final_logit_softcapping"),
    KEY_UNSET("config.use_bidirectional_attention"),
    KEY("config.rope_parameters.partial_rotary_factor", 1),
    ONLY("config.rope_parameters.truncate", 1,
         "transformers ignores it in an object per layer type"),
    KEY_UNSET("config.rope_parameters.full_attention"),
    KEY_UNSET("config.rope_parameters.sliding_attention"),
    KEY_UNSET("config.rope_parameters.sliding_attention.rope_theta"),
    KEY_UNSET("config.rope_parameters.sliding_attention.rope_type"),
    KEY("config.global_head_dim", 512),
    KEY_UNSET("config.num_global_key_value_heads"),
    KEY_UNSET("config.per_layer_config"),
    KEY_UNSET("config.per_layer_config.head_dim"),
    KEY_UNSET("config.per_layer_config.num_key_value_heads"),
    KEY("config.attention_k_eq_v", 0),
    KEY("config.num_kv_shared_layers", 0),
    KEY("config.use_double_wide_mlp", 0),
    KEY("config.hidden_size_per_layer_input", 256),
    KEY("config.vocab_size_per_layer_input", 262144),
    KEY("config.enable_moe_block", 0),
    KEY_UNSET("expert_count"),
    KEY_UNSET("expert_used_count"),
    KEY_UNSET("expert_feed_forward_length"),
    IDLE("config.outer.vision_config", "the part of images is not read"),
    IDLE("config.outer.audio_config", "the part of audio is not read"),
    IDLE("config.outer.boi_token_id", "tokens around images"),
    IDLE("config.outer.eoi_token_id", "tokens around images"),
    IDLE("config.outer.image_token_id", "tokens in place of images"),
    IDLE("config.outer.video_token_id", "tokens in place of images"),
    IDLE("config.outer.boa_token_id", "tokens around audio"),
    IDLE("config.outer.eoa_token_id", "tokens around audio"),
    IDLE("config.outer.eoa_token_index", "tokens around audio"),
    IDLE("config.outer.audio_token_id", "tokens in place of audio"),
    IDLE("config.outer.vision_soft_tokens_per_image", "the part of images is not read"),
    KEYS_END,
};

const struct config_key gemma4_gguf_key[] = {
    KEY_UNSET("attention.sliding_window"),
    KEY_UNSET("attention.sliding_window_pattern"),
    KEY_UNSET("attention.key_length_swa"),
    KEY_UNSET("attention.value_length_swa"),
    KEY("attention.shared_kv_layers", 0),
    KEY_UNSET("embedding_length_per_layer_input"),
    KEY_UNSET("rope.dimension_count_swa"),
    KEY_UNSET("rope.freq_base_swa"),
    KEY_UNSET("final_logit_softcapping"),
    KEY_UNSET("expert_count"),
    KEY_UNSET("expert_used_count"),
    KEY_UNSET("expert_feed_forward_length"),
    KEYS_END,
};

/* ---- both sources ---- */

/* Read a number of values in [1, hi] that the model may lack. 0: none. */
static int optional(struct binder *b, const char *key, int hi)
{
    return meta_kind(config_meta(b, key)) == META_NONE ? 0 : config_int(b, key, 0, hi, 0);
}

/* Read the sizes of the mixture, the same in all layers. */
static void mixture_config(struct config *c, struct binder *b, bool enabled)
{
    const int n = optional(b, "expert_count", 65536),
              n_used = optional(b, "expert_used_count", 65536),
              d = optional(b, "expert_feed_forward_length", 1 << 22);
    if (!enabled) return;
    if (n == 0) config_refuse(b, "expert_count", ERR_FORMAT, "must be at least 1, got 0");
    if (n_used < 1 || n_used > n)
        config_refuse(b, "expert_used_count", ERR_FORMAT, "must be in [1, %d], got %d", n, n_used);
    if (d == 0)
        config_refuse(b, "expert_feed_forward_length", ERR_FORMAT, "must be at least 1, got 0");
    for (int i = 0; i < c->n_layer; i++) {
        c->layer[i].n_expert = n;
        c->layer[i].n_expert_used = n_used;
        c->layer[i].d_expert = d;
        c->layer[i].norm_experts = true;
    }
}

/* Set what all sources have in common, from the layers' sizes and windows. */
static void finish(struct config *c, struct binder *b, double local_base, const char *local_key)
{
    c->embed_scale = (float)sqrt(c->d);
    c->v_norms = true;
    config_local_rope(c, b, local_key, local_base);
    for (int i = 0; i < c->n_layer; i++) {
        struct layer_config *l = &c->layer[i];
        l->attn_scale = 1;
        c->rope[l->rope].d_rot = l->d_head;
    }
}

/* ---- config.json ---- */

/* Set the windows. The class lets the last layer attend to all positions, whatever its type. */
static void hf_windows(struct config *c, struct binder *b)
{
    const int window = config_window(b);
    if (window == 0 && c->n_layer > 1)
        config_refuse(b, "attention.sliding_window", ERR_FORMAT, "must be at least 1, got null");
    if (!config_layer_types(b, c, window))
        for (int i = 0; i < c->n_layer; i++) c->layer[i].window = (i + 1) % 6 ? window : 0;
    c->layer[c->n_layer - 1].window = 0;
}

/* Check that layers of one type have equal heads, as the class requires. */
static void check_types(struct config *c, struct binder *b)
{
    const struct layer_config *first[2] = {NULL, NULL};
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        const struct layer_config *l = &c->layer[i], **of = &first[l->window > 0];
        if (!*of) *of = l;
        if (l->d_head != (*of)->d_head || l->n_head_kv != (*of)->n_head_kv)
            config_refuse(b, "config.per_layer_config", ERR_FORMAT,
                          "layers of one type must have equal heads, layer %d has others", i);
    }
}

/* Replace sizes of heads by those of per_layer_config. */
static void single_heads(struct config *c, struct binder *b, int *d, int *n_kv)
{
    static const char *const key[] = {"config.per_layer_config.head_dim",
                                      "config.per_layer_config.num_key_value_heads"};
    const bool own = config_meta(b, "config.per_layer_config") != NULL;
    for (int i = 0; i < 2; i++) {
        if (!own && config_meta(b, key[i]))
            config_refuse(b, key[i], ERR_FORMAT, "must be in per_layer_config");
        config_single_ints(b, key[i], 1, 65536, i ? n_kv : d);
    }
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        c->layer[i].d_head = d[i], c->layer[i].n_head_kv = n_kv[i];
        if (d[i] % 2)
            config_refuse(b, own ? key[0] : "config.global_head_dim", ERR_FORMAT,
                          "must be even, got %d in layer %d", d[i], i);
    }
}

/* Set the heads of the layers: those of per_layer_config, which newer versions of transformers
 * write, or those of older fields, for layers that attend to all positions. A null
 * per_layer_config belongs to a newer file. */
static void hf_heads(struct config *c, struct binder *b)
{
    static const char own[] = "config.per_layer_config";
    char text[80];
    const struct meta *single = config_meta(b, own);
    const int n = c->n_layer, d_full = config_int(b, "config.global_head_dim", 1, 65536, 0),
              n_full = config_int(b, "config.num_global_key_value_heads", 1, 65536, c->n_head_kv);
    const bool equal = config_bool(b, "config.attention_k_eq_v", false);
    int *d = arena_push0(&b->m->arena, 2 * (size_t)n, sizeof *d);
    if (b->rc == 0 && !d) b->rc = err_memory(b->e, "sizes of heads", 2 * (size_t)n * sizeof *d);
    if (b->rc == 0 && meta_kind(single) != META_NONE && meta_kind(single) != META_OBJECT)
        config_refuse(b, own, ERR_FORMAT, "must be an object, got %s",
                      config_value_text(single, text));
    if (b->rc != 0) return;
    for (int i = 0; i < n; i++) {
        const bool full = c->layer[i].window == 0;
        d[i] = !single && full ? d_full : c->d_head;
        d[n + i] = !single && full && equal ? n_full : c->n_head_kv;
        c->layer[i].v_is_k = full && equal;
    }
    single_heads(c, b, d, d + n);
    check_types(c, b);
}

/* Return true if a layer has a window. */
static bool slides(const struct config *c)
{
    for (int i = 0; i < c->n_layer; i++)
        if (c->layer[i].window > 0) return true;
    return false;
}

bool gemma_has_rope(struct binder *b, const char *key)
{
    char text[80];
    const struct meta *m = config_meta(b, key);
    if (meta_kind(m) != META_NONE && meta_kind(m) != META_OBJECT)
        config_refuse(b, key, ERR_FORMAT, "must be an object, got %s", config_value_text(m, text));
    return meta_kind(m) == META_OBJECT;
}

/* Return the part of the lanes of full attention that rotate. */
static double rotating_part(struct binder *b, const struct rope_config *r)
{
    static const char key[] = "config.rope_parameters.partial_rotary_factor";
    const double v = config_real(b, key, 1);
    if (!(v >= 0 && v <= 1))
        config_refuse(b, key, ERR_FORMAT, "must be in [0, 1], got %g", v);
    else if (v != 1 && r->scaling != ROPE_PROPORTIONAL)
        config_refuse(b, key, ERR_UNSUPPORTED,
                      "must be 1, unless rope_type is proportional, got %g", v);
    return v;
}

/* Return the base of the sliding layers' rope. rope_parameters must have an object per type. The
 * class's default ignores the base at the top level. */
static double hf_ropes(struct config *c, struct binder *b)
{
    static const char full[] = "config.rope_parameters.full_attention",
                      sliding[] = "config.rope_parameters.sliding_attention";
    struct rope_config *r = &c->rope[ROPE_MAIN];
    const double base = config_sliding_base(b, NAN);
    const bool has_full = gemma_has_rope(b, full), has_sliding = gemma_has_rope(b, sliding);
    const double part = rotating_part(b, r);
    if (config_lacks_rope(b)) {
        *r = (struct rope_config){.base = 1000000,
                                  .d_rot = r->d_rot,
                                  .neox = true,
                                  .scaling = ROPE_PROPORTIONAL,
                                  .factor = 1,
                                  .part = 0.25,
                                  .magnitude = 1};
        return 10000;
    }
    r->part = part;
    if (!has_full) config_refuse(b, full, ERR_MISSING, "is missing");
    if (!config_meta(b, "rope.freq_base"))
        config_refuse(b, "rope.freq_base", ERR_MISSING, "is missing");
    if (!slides(c)) return r->base;
    if (!has_sliding) config_refuse(b, sliding, ERR_MISSING, "is missing");
    if (isnan(base))
        config_refuse(b, "config.rope_parameters.sliding_attention.rope_theta", ERR_MISSING,
                      "is missing");
    return base;
}

static void hf_config(struct config *c, struct binder *b)
{
    static const char shared[] = "config.num_kv_shared_layers";
    const int n_shared = config_int(b, shared, 0, c->n_layer - 1, 0);
    const bool wide = config_bool(b, "config.use_double_wide_mlp", false);
    config_only_text(b, "config.use_bidirectional_attention", "vision");
    c->logit_softcap = config_cap(b, "config.final_logit_softcapping");
    c->d_input = config_int(b, "config.hidden_size_per_layer_input", 0, 1 << 20, 0);
    c->n_input = config_int(b, "config.vocab_size_per_layer_input", 1, INT_MAX, 0);
    if (b->rc == 0) hf_windows(c, b);
    if (b->rc == 0) hf_heads(c, b);
    if (b->rc == 0) config_share_kv(c, b, shared, n_shared);
    for (int i = c->n_layer - n_shared; i < c->n_layer && wide; i++) c->layer[i].d_ff *= 2;
    mixture_config(c, b, config_bool(b, "config.enable_moe_block", false));
    const double base = hf_ropes(c, b);
    if (b->rc == 0) finish(c, b, base, "config.rope_parameters.sliding_attention.rope_theta");
}

/* ---- GGUF ---- */

/* Set the windows and heads. The pattern is a list of booleans, or one for all layers. */
static void gguf_layers(struct config *c, struct binder *b)
{
    const int window = config_window(b);
    const int *is_sliding = config_layer_ints(b, "attention.sliding_window_pattern", 0, 1, -1);
    const int d = config_int(b, "attention.key_length_swa", 1, 65536, 0),
              d_v = config_int(b, "attention.value_length_swa", 1, 65536, 0);
    config_int(b, "rope.dimension_count_swa", d, d, d);
    if (b->rc == 0 && d != d_v)
        config_refuse(b, "attention.value_length_swa", ERR_UNSUPPORTED, "must be %d, got %d", d,
                      d_v);
    if (d % 2) config_refuse(b, "attention.key_length_swa", ERR_FORMAT, "must be even, got %d", d);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        struct layer_config *l = &c->layer[i];
        if (is_sliding[i] && window == 0)
            config_refuse(b, "attention.sliding_window", ERR_FORMAT, "must be at least 1, got 0");
        l->window = is_sliding[i] ? window : 0;
        if (is_sliding[i]) l->d_head = d;
        l->v_is_k = !bind_has(b, "blk.%d.attn_v", i);
    }
}

/* Check that the layers whose keys and values are used are those of llama.cpp, the last two before
 * the others. */
static void check_shared(struct config *c, struct binder *b, const char *key, int n)
{
    const int first = c->n_layer - n;
    for (int i = first; i < c->n_layer && b->rc == 0; i++)
        if (c->layer[i].kv_layer != first - (c->layer[i].window ? 2 : 1))
            config_refuse(b, key, ERR_UNSUPPORTED,
                          "layer %d must use layer %d as in llama.cpp, not layer %d", i,
                          first - (c->layer[i].window ? 2 : 1), c->layer[i].kv_layer);
}

/* Return the cap of the logits. llama.cpp has a default that the models do not have, so the key is
 * required. 0: no cap. */
static float gguf_cap(struct binder *b)
{
    static const char key[] = "final_logit_softcapping";
    const double cap = config_real(b, key, NAN);
    if (!(cap >= 0))
        config_refuse(b, key, isnan(cap) ? ERR_MISSING : ERR_FORMAT,
                      isnan(cap) ? "is missing" : "must be at least 0, got %g", cap);
    return (float)cap;
}

static void gguf_config(struct config *c, struct binder *b)
{
    static const char shared[] = "attention.shared_kv_layers", factor[] = "rope.scaling.factor";
    const struct rope_config *r = &c->rope[ROPE_MAIN];
    const int n_shared = config_int(b, shared, 0, c->n_layer - 1, 0);
    const double base = config_real(b, "rope.freq_base_swa", r->base);
    gguf_layers(c, b);
    if (b->rc == 0) config_share_kv(c, b, shared, n_shared);
    if (b->rc == 0) check_shared(c, b, shared, n_shared);
    c->logit_softcap = gguf_cap(b);
    c->d_input = config_int(b, "embedding_length_per_layer_input", 0, 1 << 20, -1);
    mixture_config(c, b, meta_int(config_meta(b, "expert_count"), 0) > 0);
    if (r->scaling != ROPE_NONE && r->factor != 1)
        config_refuse(b, config_meta(b, factor) ? factor : "rope.scale_linear", ERR_UNSUPPORTED,
                      "must be 1, got %g", r->factor);
    if (b->rc == 0) finish(c, b, base, "rope.freq_base_swa");
    c->rope[ROPE_LOCAL].magnitude = config_real(b, "rope.scaling.attn_factor", 1);
}

void gemma4_config(struct config *c, struct binder *b)
{
    if (config_is_hf(b))
        hf_config(c, b);
    else
        gguf_config(c, b);
}
