/* gemma4_gguf.c - the config of Gemma 4 from a GGUF. A GGUF has lists with the layers' values, and
 * separate keys for sliding layers. */
#include "gemma_impl.h"

/* Set the windows and heads. The pattern is a list of booleans, or one boolean for all layers. */
static void gguf_layers(struct config *c, struct binder *b)
{
    const int window = config_window(b);
    const int *is_sliding = config_layer_ints(b, "attention.sliding_window_pattern", 0, 1, -1);
    const int d = config_int(b, "attention.key_length_swa", 1, D_HEAD_MAX, 0),
              d_v = config_int(b, "attention.value_length_swa", 1, D_HEAD_MAX, 0);
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

/* Check that layers use the keys and values of the layers that llama.cpp uses. In llama.cpp, these
 * layers are the last two layers with their own keys and values. */
static void check_shared(struct config *c, struct binder *b, const char *key, int n)
{
    const int first = c->n_layer - n;
    for (int i = first; i < c->n_layer && b->rc == 0; i++)
        if (c->layer[i].kv_layer != first - (c->layer[i].window ? 2 : 1))
            config_refuse(b, key, ERR_UNSUPPORTED,
                          "layer %d must use layer %d as in llama.cpp, not layer %d", i,
                          first - (c->layer[i].window ? 2 : 1), c->layer[i].kv_layer);
}

/* Return the cap of the logits. The key is required, because llama.cpp's default differs from the
 * value of the models. 0: no cap. */
static float gguf_cap(struct binder *b)
{
    static const char key[] = "final_logit_softcapping";
    const double cap = config_real(b, key, NAN);
    if (!(cap >= 0))
        config_refuse(b, key, isnan(cap) ? ERR_MISSING : ERR_FORMAT,
                      isnan(cap) ? "is missing" : "must be at least 0, got %g", cap);
    return (float)cap;
}

void gemma4_gguf_config(struct config *c, struct gemma_own *own, struct binder *b)
{
    static const char shared[] = "attention.shared_kv_layers", factor[] = "rope.scaling.factor";
    const struct rope_config *r = &c->rope[ROPE_MAIN];
    const int n_shared = config_int(b, shared, 0, c->n_layer - 1, 0);
    const double base = config_real(b, "rope.freq_base_swa", r->base);
    gguf_layers(c, b);
    if (b->rc == 0) config_share_kv(c, b, shared, n_shared);
    if (b->rc == 0) check_shared(c, b, shared, n_shared);
    c->logit_softcap = gguf_cap(b);
    own->d_input = config_int(b, "embedding_length_per_layer_input", 0, WIDTH_MAX, -1);
    own->n_input = gemma_table_rows(b);
    gemma4_mixture(c, b, meta_int(config_meta(b, "expert_count"), 0) > 0);
    if (r->scaling != ROPE_NONE && r->factor != 1)
        config_refuse(b, config_meta(b, factor) ? factor : "rope.scale_linear", ERR_UNSUPPORTED,
                      "must be 1, got %g", r->factor);
    if (b->rc == 0) gemma4_finish(c, b, base, "rope.freq_base_swa");
    c->rope[ROPE_LOCAL].magnitude = config_real(b, "rope.scaling.attn_factor", 1);
}
