/* gemma3n_gates.c - the limit below which gates of gemma3n become 0, as a number of standard
 * deviations. config.json has the share of gates that become 0. A GGUF has the number of standard
 * deviations. */
#include "gemma_impl.h"

#include <math.h>

static const char *sparsity_key(const struct binder *b)
{
    return config_is_hf(b) ? "config.activation_sparsity_pattern" : "activation_sparsity_scale";
}

/* Return the number of standard deviations below which gates of a layer are 0; -INFINITY: no gate
 * becomes 0. Without a list, the first ten layers are sparse if there are more than ten layers. A
 * GGUF has minus infinity for layers that are not sparse. */
static float cut_of(struct binder *b, int il)
{
    const struct meta *m = config_meta(b, sparsity_key(b));
    const int n = b->m->config.n_layer;
    double v = il < 10 && n > 10 ? 0.95 : 0;
    if (meta_kind(m) != META_NONE) v = meta_item_real(m, (size_t)il, NAN);
    if (meta_kind(m) != META_NONE && !config_is_hf(b)) return (float)v;
    return v > 0 ? ffn_cut_of((double)(float)v) : -INFINITY;
}

/* Check the list. Each layer must keep some of its gates. */
static void check_sparsity(struct binder *b)
{
    char text[80];
    const char *key = sparsity_key(b);
    const struct meta *m = config_meta(b, key);
    const size_t n = (size_t)b->m->config.n_layer;
    const double most = config_is_hf(b) ? 1 : INFINITY;
    if (meta_kind(m) == META_NONE) return;
    if (meta_count(m) != n)
        config_refuse(b, key, ERR_FORMAT, "must be a list of %zu numbers, got %s", n,
                      config_value_text(m, text));
    for (size_t i = 0; i < n && b->rc == 0; i++) {
        const double v = meta_item_real(m, i, NAN);
        if (!(v < most))
            config_refuse(b, key, ERR_FORMAT, "[%zu]: must be below %g, got %g", i, most, v);
    }
}

void gemma3n_gates(struct config *c, struct binder *b)
{
    check_sparsity(b);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        const float cut = cut_of(b, i);
        c->layer[i].cuts_gates = cut > -INFINITY;
        if (c->layer[i].cuts_gates) c->layer[i].gate_cut = cut;
    }
}
