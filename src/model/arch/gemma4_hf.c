/* gemma4_hf.c - the config of Gemma 4 from a config.json. The sizes of single layers are in
 * per_layer_config. In older files, separate fields have the sizes of all layers without a
 * window. */
#include "gemma_impl.h"

#include <limits.h>

/* Set the windows. In the class, the last layer always attends to all positions, because the class
 * ignores its type. */
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

/* Replace the sizes of heads by the values of per_layer_config. */
static void single_heads(struct config *c, struct binder *b, int *d, int *n_kv)
{
    static const char *const key[] = {"config.per_layer_config.head_dim",
                                      "config.per_layer_config.num_key_value_heads"};
    const bool own = config_meta(b, "config.per_layer_config") != NULL;
    for (int i = 0; i < 2; i++) {
        if (!own && config_meta(b, key[i]))
            config_refuse(b, key[i], ERR_FORMAT, "must be in per_layer_config");
        config_single_ints(b, key[i], 1, i ? HEADS_MAX : D_HEAD_MAX, i ? n_kv : d);
    }
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        c->layer[i].d_head = d[i], c->layer[i].n_head_kv = n_kv[i];
        if (d[i] % 2)
            config_refuse(b, own ? key[0] : "config.global_head_dim", ERR_FORMAT,
                          "must be even, got %d in layer %d", d[i], i);
    }
}

/* Set the heads of the layers. Newer versions of transformers write the sizes of heads to
 * per_layer_config. The older fields have the sizes of layers that attend to all positions. A file
 * with per_layer_config null is a newer file. */
static void hf_heads(struct config *c, struct binder *b)
{
    static const char own[] = "config.per_layer_config";
    const bool single = config_meta(b, own) != NULL; /* the value null counts, too */
    config_object(b, own);
    const int n = c->n_layer, d_full = config_int(b, "config.global_head_dim", 1, D_HEAD_MAX, 0),
              n_full =
                  config_int(b, "config.num_global_key_value_heads", 1, HEADS_MAX, c->n_head_kv);
    const bool equal = config_bool(b, "config.attention_k_eq_v", false);
    int d[LAYERS_MAX], n_kv[LAYERS_MAX];
    if (b->rc != 0) return;
    for (int i = 0; i < n; i++) {
        const bool full = c->layer[i].window == 0;
        d[i] = !single && full ? d_full : c->d_head;
        n_kv[i] = !single && full && equal ? n_full : c->n_head_kv;
        c->layer[i].v_is_k = full && equal;
    }
    single_heads(c, b, d, n_kv);
    check_types(c, b);
}

/* Return true if a layer has a window. */
static bool slides(const struct config *c)
{
    for (int i = 0; i < c->n_layer; i++)
        if (c->layer[i].window > 0) return true;
    return false;
}

/* Return the share of rotated lanes in layers with full attention. */
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

/* Return the base of the sliding layers' rope. rope_parameters must have an object per layer type.
 * The default of the class does not depend on the base at the top level. */
static double hf_ropes(struct config *c, struct binder *b)
{
    static const char full[] = "config.rope_parameters.full_attention",
                      sliding[] = "config.rope_parameters.sliding_attention";
    struct rope_config *r = &c->rope[ROPE_MAIN];
    const double base = config_sliding_base(b, NAN);
    const bool has_full = config_object(b, full), has_sliding = config_object(b, sliding);
    const double part = rotating_part(b, r);
    if (config_lacks_rope(b)) {
        *r = (struct rope_config){.base = 1000000,
                                  .d_rot = r->d_rot,
                                  .neox = true,
                                  .scaling = ROPE_PROPORTIONAL,
                                  .factor = 1,
                                  .rotated_share = 0.25,
                                  .magnitude = 1};
        return 10000;
    }
    r->rotated_share = part;
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

void gemma4_hf_config(struct config *c, struct gemma_own *own, struct binder *b)
{
    static const char shared[] = "config.num_kv_shared_layers";
    const int n_shared = config_int(b, shared, 0, c->n_layer - 1, 0);
    const int n_input = config_int(b, "config.vocab_size_per_layer_input", 1, INT_MAX, 0);
    const bool wide = config_bool(b, "config.use_double_wide_mlp", false);
    config_only_text(b, "config.use_bidirectional_attention", "vision");
    c->logit_softcap = config_cap(b, "config.final_logit_softcapping");
    own->d_input = config_int(b, "config.hidden_size_per_layer_input", 0, WIDTH_MAX, 0);
    own->n_input = own->d_input > 0 ? n_input : 0;
    if (b->rc == 0) hf_windows(c, b);
    if (b->rc == 0) hf_heads(c, b);
    if (b->rc == 0) config_share_kv(c, b, shared, n_shared);
    for (int i = c->n_layer - n_shared; i < c->n_layer && wide; i++) c->layer[i].d_ff *= 2;
    gemma4_mixture(c, b, config_bool(b, "config.enable_moe_block", false));
    const double base = hf_ropes(c, b);
    if (b->rc == 0)
        gemma4_finish(c, b, base, "config.rope_parameters.sliding_attention.rope_theta");
}
