/* config_moe.c - metadata of mixtures of experts -> struct config: numbers and widths of experts,
 * rule of their selection, layers with a mixture. Classes and GGUF files have several names and
 * forms for these values. An architecture declares the keys that its class has, and sets the values
 * that the class has as constants before config_moe. */
#include "model_impl.h"

#include <limits.h>

/* Return an integer in [0, hi]; `otherwise` if the architecture does not declare the key. */
static int declared_int(struct binder *b, const char *key, int64_t hi, int otherwise)
{
    return config_has(b, key) ? config_int(b, key, 0, hi, otherwise) : otherwise;
}

/* Read the normalization and the factor of the weights. */
static void read_weights(struct config *c, struct binder *b)
{
    static const char norm[] = "expert_weights_norm", scale[] = "expert_weights_scale";
    struct route_spec *r = &c->route;
    if (config_has(b, norm)) r->normalize = config_bool(b, norm, r->normalize);
    if (!config_has(b, scale)) return;
    const double factor = config_real(b, scale, 1);
    /* as in llama.cpp, 0 in a GGUF means no factor */
    if (!(factor != 0) && config_is_hf(b))
        config_refuse(b, scale, ERR_UNSUPPORTED, "must not be 0");
    r->factor = factor == 1 ? 0 : (float)factor;
}

/* Read the groups of experts. A selection among all groups has no groups. */
static void read_groups(struct config *c, struct binder *b, int n_expert, int n_used)
{
    static const char key[] = "expert_group_count", used[] = "expert_group_used_count";
    struct route_spec *r = &c->route;
    if (!config_has(b, key)) return;
    const bool hf = config_is_hf(b);
    const int n = config_int(b, key, hf ? 1 : 0, ROUTE_GROUPS_MAX, 1),
              n_group_used = config_int(b, used, hf ? 1 : 0, b->rc == 0 ? n : 1, n > 0 ? 1 : 0);
    if (b->rc != 0 || n <= 1) return;
    if (n_expert % n)
        config_refuse(b, key, ERR_FORMAT, "must be a divisor of %d experts, got %d", n_expert, n);
    else if (n_used > n_group_used * (n_expert / n))
        config_refuse(b, used, ERR_FORMAT, "must select at least %d experts, got %d groups of %d",
                      n_used, n_group_used, n_expert / n);
    else if (r->group_pairs && n_expert / n < 2)
        config_refuse(b, key, ERR_FORMAT, "must give groups of at least 2 experts, got %d of %d", n,
                      n_expert);
    else if (n_group_used < n)
        r->n_group = n, r->n_group_used = n_group_used;
}

/* Return the width of the block of all rows: a width, or a number of experts of usual width if the
 * width is absent or 0. */
static int shared_width(struct binder *b, int d_expert)
{
    static const char key[] = "expert_shared_feed_forward_length", count[] = "expert_shared_count";
    const int n = declared_int(b, count, d_expert > 0 ? D_FF_MAX / d_expert : 1, 0);
    const int width = declared_int(b, key, D_FF_MAX, 0);
    return width > 0 ? width : n * d_expert;
}

/* Return the number of experts per row. A class without the key selects two. */
static int read_used(struct binder *b, int n_expert)
{
    static const char key[] = "expert_used_count";
    if (!config_has(b, key)) return n_expert < 2 ? n_expert : 2;
    return config_int(b, key, n_expert > 0, b->rc == 0 ? n_expert : 1, 0);
}

/* Return for each layer 0 if it has no mixture, by the list of classes that have one. NULL if there
 * is no list. With a list, the number of leading layers without a mixture has no effect. */
static const int *listed_mixtures(struct binder *b)
{
    static const char key[] = "config.mlp_layer_types";
    static const char *const name[] = {"dense", "sparse", NULL};
    return config_has(b, key) ? config_layer_names(b, key, name) : NULL;
}

void config_no_moe(struct layer_config *l)
{
    l->n_expert = l->n_expert_used = l->d_expert = l->d_latent = l->d_shared = 0;
}

void config_moe(struct config *c, struct binder *b, int d_expert)
{
    static const char width[] = "expert_feed_forward_length";
    /* architectures whose files may lack mixtures declare the default 0 */
    const int least = config_default(b, "expert_count") == 0 ? 0 : 1,
              n_expert = config_int(b, "expert_count", least, EXPERTS_MAX, 0),
              n_used = read_used(b, n_expert),
              own = d_expert > 0 || n_used == 0 ? d_expert : c->d_ff / n_used,
              d = config_has(b, width) ? config_int(b, width, 1, D_FF_MAX, own) : own,
              d_shared = shared_width(b, d),
              n_dense = declared_int(b, "leading_dense_block_count", INT_MAX, 0);
    const int *listed = listed_mixtures(b);
    read_weights(c, b);
    read_groups(c, b, n_expert, n_used);
    /* n_used may be the default of the class, although the file has fewer experts */
    if (n_used > n_expert)
        config_refuse(b, "expert_used_count", ERR_FORMAT, "must be in [1, %d], got %d", n_expert,
                      n_used);
    for (int i = 0; i < c->n_layer && b->rc == 0 && n_expert > 0; i++) {
        struct layer_config *l = &c->layer[i];
        l->n_expert = n_expert;
        l->n_expert_used = n_used;
        l->d_expert = d;
        l->d_shared = d_shared;
        if (listed ? listed[i] == 0 : i < n_dense) config_no_moe(l);
    }
}
