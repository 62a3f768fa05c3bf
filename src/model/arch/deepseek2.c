/* deepseek2.c - DeepSeek-V2 (arXiv 2405.04434) and DeepSeek-V3 (arXiv 2412.19437): latent attention
 * (block/latent.c) and mixtures with a block of all rows (block/moe.c), after some layers without a
 * mixture. The versions differ in the rule that selects the experts of a row:
 *
 *                score of an expert     score of a group       for the choice
 *   V2           softmax                largest                score
 *   V3           sigmoid                sum of the two largest score + exp_probs_b
 *
 * GGUF files of both versions have one architecture, deepseek2, and the key expert_gating_func. */
#include "deepseek_impl.h"

#include <limits.h>

/* defaults of DeepseekV2Config of transformers 5 */
static const struct config_key hf_key[] = {
    DEEPSEEK_KEYS,
    KEY("vocab_size", 102400),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 11008),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("context_length", 2048),
    KEY("config.mlp_bias", 0),
    KEY("leading_dense_block_count", 0),
    KEY("expert_count", 64),
    KEY_UNSET("expert_used_count"),
    KEY("expert_feed_forward_length", 1407),
    KEY("expert_shared_count", 2),
    KEY("expert_weights_scale", 1),
    KEY_UNSET("expert_group_count"),
    KEY_UNSET("expert_group_used_count"),
    ONLY("expert_weights_norm", 0, "transformers ignores it, and other programs normalize"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    LATENT_GGUF_KEYS,
    KEY_UNSET("rope.scaling.yarn_beta_fast"),
    KEY_UNSET("rope.scaling.yarn_beta_slow"),
    KEY_UNSET("rope.scaling.yarn_log_multiplier"),
    DEEPSEEK_GGUF_MIXTURES,
    KEY_UNSET("expert_weights_scale"),
    KEY_UNSET("expert_weights_norm"),
    KEY_UNSET("expert_gating_func"),
    KEY_UNSET("expert_group_count"),
    KEY_UNSET("expert_group_used_count"),
    ONLY("nextn_predict_layers", 0, "layers for speculation are not supported yet"),
    KEYS_END,
};

/* ---- config ---- */

/* Return the factor of the scores by mscale_all_dim. A GGUF has 0.1 * mscale_all_dim. Its mscale is
 * mscale_all_dim, so the angles have the magnitude 1. */
static double score_factor(struct binder *b, struct rope_config *r)
{
    static const char key[] = "rope.scaling.yarn_log_multiplier",
                      magnitude[] = "rope.scaling.attn_factor";
    if (config_is_hf(b)) return latent_scores(b, r);
    const double tenth = config_real(b, key, 0);
    if (r->scaling != ROPE_YARN) return 1;
    if (config_real(b, magnitude, 1) != 1)
        config_refuse(b, magnitude, ERR_UNSUPPORTED, "must be 1, got %g",
                      config_real(b, magnitude, 1));
    if (!(tenth > 0)) config_refuse(b, key, ERR_MISSING, "must be above 0, because YaRN needs it");
    r->magnitude = 1;
    return latent_factor(r, tenth / 0.1);
}

/* A GGUF without mixtures has no keys for them. */
void deepseek_config(struct config *c, struct binder *b)
{
    static const char dense[] = "leading_dense_block_count";
    const double by = score_factor(b, &c->rope[ROPE_MAIN]);
    for (int i = 0; i < c->n_layer; i++) {
        c->layer[i].attn_scale *= (float)by;
        c->layer[i].n_head_kv = 1; /* the heads of pages */
    }
    if (config_is_hf(b) || config_int(b, dense, 0, INT_MAX, 0) < c->n_layer) config_moe(c, b, 0);
}

/* Set the config of a GGUF. */
static void gguf_config(struct config *c, struct binder *b)
{
    enum { GATING_SOFTMAX = 1, GATING_SIGMOID };
    const int gating = config_int(b, "expert_gating_func", 0, GATING_SIGMOID, 0);
    const bool sigmoid = gating == GATING_SIGMOID;
    if (sigmoid)
        c->route =
            (struct route_spec){.score = ROUTE_SIGMOID, .group_pairs = true, .sum_add = 1e-20f};
    deepseek_config(c, b);
}

/* Set the config of V2, or of a GGUF of any version. The class ignores groups without the method
 * group_limited_greedy. */
static void config(struct config *c, struct binder *b)
{
    static const char method[] = "config.topk_method";
    if (!config_is_hf(b)) {
        gguf_config(c, b);
        return;
    }
    const struct meta *m = config_meta(b, method);
    const bool greedy = meta_kind(m) == META_NONE || config_is_text(m, "greedy");
    if (!greedy) config_only_text(b, method, "group_limited_greedy");
    config_only_text(b, "config.scoring_func", "softmax");
    deepseek_config(c, b);
    if (greedy) c->route.n_group = 0;
}

/* ---- layers ---- */

void deepseek_bind(struct binder *b, void *layer, int il)
{
    struct deepseek_layer *l = layer;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    bind_latent(b, &l->attn, il, b->m->config.latent);
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm", il);
    bind_feed(b, &l->feed, il);
}

/* Compute x += attn(norm x); x += ffn(norm x), or moe(norm x). */
void deepseek_layer(struct fwd *f, const void *layer)
{
    const struct deepseek_layer *l = layer;
    fwd_latent_add(f, f->x, fwd_normed(f, f->x, &l->attn_norm), &l->attn);
    fwd_feed_add(f, f->x, fwd_normed(f, f->x, &l->ffn_norm), &l->feed);
}

const struct arch arch_deepseek2 = {
    .name = "deepseek2",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .convert = &deepseek2_convert,
    .config = config,
    DEEPSEEK_ARCH,
};
