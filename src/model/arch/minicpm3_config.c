/* minicpm3_config.c - keys and sizes of MiniCPM3. A GGUF has no keys for the factors of embeddings,
 * residual branches and logits. */
#include "minicpm3_impl.h"

#include <limits.h>

/* values of MiniCPM3-4B, which llama.cpp uses for every GGUF, because a GGUF has no keys for these
 * values */
static const double scale_emb = 12, scale_depth = 1.4;
enum { DIM_MODEL_BASE = 256 };

/* defaults of MiniCPM3Config of transformers 5 */
const struct config_key minicpm3_hf_key[] = {
    KEY("vocab_size", 73448),
    KEY("embedding_length", 2560),
    KEY("feed_forward_length", 6400),
    KEY("block_count", 62),
    KEY("attention.head_count", 40),
    KEY("attention.head_count_kv", 40),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("attention.q_lora_rank", 768),
    KEY("attention.kv_lora_rank", 256),
    KEY("config.qk_nope_head_dim", 64),
    KEY("rope.dimension_count", 32),
    KEY_UNSET("attention.value_length"),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.rope_parameters.short_factor"),
    KEY_UNSET("config.rope_parameters.long_factor"),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.attention_bias", 0),
    KEY("config.mlp_bias", 0),
    KEY("config.scale_emb", 12),
    KEY("config.scale_depth", 1.4),
    KEY("config.dim_model_base", DIM_MODEL_BASE),
    IDLE("attention.key_length", "the class computes this size from the two parts of a head"),
    IDLE("config.qk_head_dim", "the class computes this size from the two parts of a head"),
    IDLE("config.pretraining_tp", "split of the matrices in training"),
    KEYS_END,
};

const struct config_key minicpm3_gguf_key[] = {
    KEY_UNSET("attention.q_lora_rank"),
    KEY_UNSET("attention.kv_lora_rank"),
    KEY_UNSET("rope.dimension_count"),
    KEYS_END,
};

void minicpm3_heads(struct config *c, struct binder *b)
{
    static const char rope[] = "rope.dimension_count";
    const bool hf = config_is_hf(b);
    struct latent *l = bind_memory(b, "sizes of latent attention", sizeof *l);
    if (!l) return;
    const int q = config_int(b, "attention.q_lora_rank", 1, D_HEAD_MAX, hf ? INT_MAX : 0);
    l->q_rank = q == INT_MAX ? 0 : q;
    l->kv_rank = config_int(b, "attention.kv_lora_rank", 1, D_HEAD_MAX, 0);
    l->d_rope = config_int(b, rope, 2, D_HEAD_MAX, 0);
    l->d_nope =
        hf ? config_int(b, "config.qk_nope_head_dim", 1, D_HEAD_MAX, 0) : c->d_head - l->d_rope;
    l->d_v = config_int(b, "attention.value_length", 1, D_HEAD_MAX, c->d / c->n_head);
    if (l->d_rope % 2) config_refuse(b, rope, ERR_FORMAT, "must be even, got %d", l->d_rope);
    if (l->d_nope < 1)
        config_refuse(b, "attention.key_length", ERR_FORMAT, "must be above %s %d, got %d", rope,
                      l->d_rope, c->d_head);
    c->own = l, c->own_bytes = sizeof *l;
    c->d_head = l->d_nope + l->d_rope;
    c->rope[ROPE_MAIN].d_rot = l->d_rope;
}

int64_t minicpm3_size(const struct config *c, enum tensor_size size)
{
    const struct latent *l = c->own;
    switch (size) {
    case SIZE_Q_RANK:
        return l->q_rank;
    case SIZE_KV_RANK:
        return l->kv_rank;
    case SIZE_KV_A:
        return l->kv_rank + l->d_rope;
    case SIZE_KV_B:
        return (int64_t)c->n_head * (l->d_nope + l->d_v);
    default:
        return (int64_t)c->n_head * l->d_v;
    }
}

/* Return a factor of config.json. Return `null` for a null; reject a null if `null` is NAN. */
static double factor(struct binder *b, const char *key, double null)
{
    const double v = config_real(b, key, null);
    if (isnan(v)) config_refuse(b, key, ERR_FORMAT, "must be a number, got null");
    return v;
}

/* Return the factor of the scores by mscale_all_dim: the square of YaRN's magnitude. */
static double score_factor(struct binder *b, const struct config *c)
{
    const double all = config_real(b, "config.rope_parameters.mscale_all_dim", 0),
                 by = config_real(b, "rope.scaling.factor", NAN);
    if (all == 0 || c->rope[ROPE_MAIN].scaling == ROPE_NONE) return 1;
    if (isnan(by))
        config_refuse(b, "rope.scaling.factor", ERR_MISSING,
                      "is missing, and mscale_all_dim needs it");
    const double m = by > 1 ? 0.1 * all * log(by) + 1 : 1;
    return m * m;
}

/* Read the config. The factor of scale_depth or dim_model_base is 1 if the value is null. */
void minicpm3_config(struct config *c, struct binder *b)
{
    static const char base_key[] = "config.dim_model_base";
    const bool hf = config_is_hf(b);
    const double depth = sqrt((double)c->n_layer);
    const double embed = hf ? factor(b, "config.scale_emb", NAN) : scale_emb,
                 residual = hf ? factor(b, "config.scale_depth", depth) : scale_depth,
                 base = hf ? config_int(b, base_key, 1, WIDTH_MAX, c->d) : DIM_MODEL_BASE;
    if (c->n_head_kv != c->n_head)
        config_refuse(b, "attention.head_count_kv", ERR_UNSUPPORTED,
                      "must be the number of heads, %d, got %d", c->n_head, c->n_head_kv);
    if (c->d % c->n_head != 0)
        config_refuse(b, "attention.head_count", ERR_FORMAT, "must be a divisor of %d, got %d",
                      c->d, c->n_head);
    c->embed_scale = (float)embed;
    c->residual_scale = (float)(residual / depth);
    c->logit_scale = (float)(base / c->d);
    const double scores = hf && b->rc == 0 ? score_factor(b, c) : 1;
    for (int i = 0; i < c->n_layer; i++) c->layer[i].attn_scale *= (float)scores;
}
