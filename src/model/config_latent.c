/* config_latent.c - metadata of latent attention -> struct latent (block/latent.c).
 *
 *             config.json           GGUF with expanded keys    GGUF with one KV head
 *   d_rope    qk_rope_head_dim      rope.dimension_count       rope.dimension_count
 *   d_nope    qk_nope_head_dim      key_length - d_rope        key_length_mla - d_rope
 *   d_v       v_head_dim            value_length               value_length_mla
 *
 * In the last form, key_length and value_length are the sizes of a key and a value in the pages. */
#include "model_impl.h"

#include <limits.h>

/* The classes normalize compressed rows with the default epsilon of their norm. llama.cpp uses the
 * epsilon of all other norms. GGUF files of quoth have a key for another epsilon. */
static const float class_eps = 1e-6f;
static const char eps_key[] = "attention.latent_norm_rms_epsilon";

static const char value_key[] = "attention.value_length", rope_key[] = "rope.dimension_count";

/* Return true if the file has the key. */
static bool has_value(struct binder *b, const char *key)
{
    return meta_kind(config_meta(b, key)) != META_NONE;
}

/* Read the sizes of a GGUF with one KV head. */
static void read_paged(struct config *c, struct binder *b, struct latent *l)
{
    const int d_key = l->kv_rank + l->d_rope,
              d_value = config_has(b, value_key) ? config_int(b, value_key, 1, D_HEAD_MAX, 0)
                                                 : l->kv_rank;
    l->d_nope = config_int(b, "attention.key_length_mla", 1, D_HEAD_MAX, 0) - l->d_rope;
    l->d_v = config_int(b, "attention.value_length_mla", 1, D_HEAD_MAX, 0);
    if (c->d_head != d_key)
        config_refuse(b, "attention.key_length", ERR_FORMAT, "must be %d, got %d", d_key,
                      c->d_head);
    if (d_value != l->kv_rank)
        config_refuse(b, value_key, ERR_FORMAT, "must be %d, got %d", l->kv_rank, d_value);
    if (c->n_head_kv != 1)
        config_refuse(b, "attention.head_count_kv", ERR_FORMAT, "must be 1, got %d", c->n_head_kv);
    c->n_head_kv = c->n_head; /* heads after the expansion */
}

/* Read the sizes of a head before its compression. */
static void read_expanded(struct config *c, struct binder *b, struct latent *l)
{
    l->d_nope = config_is_hf(b) ? config_int(b, "config.qk_nope_head_dim", 1, D_HEAD_MAX, 0)
                                : c->d_head - l->d_rope;
    l->d_v = config_int(b, value_key, 1, D_HEAD_MAX, c->d / c->n_head);
}

void latent_heads(struct config *c, struct binder *b)
{
    /* all GGUF files of an architecture without keys for KV heads have compressed queries */
    const bool optional = config_is_hf(b) || config_has(b, "attention.key_length_mla");
    struct latent *l = bind_memory(b, "sizes of latent attention", sizeof *l);
    if (!l) return;
    l->row_eps = config_is_hf(b) ? class_eps : (float)config_real(b, eps_key, c->rms_eps);
    if (b->rc == 0 && !(l->row_eps >= 0))
        config_refuse(b, eps_key, ERR_FORMAT, "must be at least 0, got %g", (double)l->row_eps);
    const int q = config_int(b, "attention.q_lora_rank", 1, D_HEAD_MAX, optional ? INT_MAX : 0);
    l->q_rank = q == INT_MAX ? 0 : q;
    l->kv_rank = config_int(b, "attention.kv_lora_rank", 1, D_HEAD_MAX, 0);
    l->d_rope = config_int(b, rope_key, 2, D_HEAD_MAX, 0);
    if (has_value(b, "attention.key_length_mla"))
        read_paged(c, b, l);
    else
        read_expanded(c, b, l);
    if (l->d_rope % 2) config_refuse(b, rope_key, ERR_FORMAT, "must be even, got %d", l->d_rope);
    if (l->d_nope < 1)
        config_refuse(b, "attention.key_length", ERR_FORMAT, "must be above %s %d, got %d",
                      rope_key, l->d_rope, l->d_nope + l->d_rope);
    if (c->n_head_kv != c->n_head)
        config_refuse(b, "attention.head_count_kv", ERR_UNSUPPORTED,
                      "must be the number of heads, %d, got %d", c->n_head, c->n_head_kv);
    c->latent = l;
    c->d_head = l->d_nope + l->d_rope;
    c->rope[ROPE_MAIN].d_rot = l->d_rope;
}

int64_t latent_size(const struct config *c, enum tensor_size size)
{
    const struct latent *l = c->latent;
    switch (size) {
    case SIZE_Q_RANK:
        return l->q_rank;
    case SIZE_KV_RANK:
        return l->kv_rank;
    case SIZE_KV_A:
        return l->kv_rank + l->d_rope;
    case SIZE_KV_B:
        return (int64_t)c->n_head * (l->d_nope + l->d_v);
    case SIZE_D_NOPE:
        return l->d_nope;
    case SIZE_D_V_HEAD:
        return l->d_v;
    default:
        return (int64_t)c->n_head * l->d_v;
    }
}

double latent_factor(const struct rope_config *r, double all)
{
    const double m = r->factor > 1 ? 0.1 * all * log(r->factor) + 1 : 1;
    return m * m;
}

double latent_scores(struct binder *b, const struct rope_config *r)
{
    const double all = config_real(b, "config.rope_parameters.mscale_all_dim", 0),
                 by = config_real(b, "rope.scaling.factor", NAN);
    if (all == 0 || r->scaling == ROPE_NONE) return 1;
    if (isnan(by))
        config_refuse(b, "rope.scaling.factor", ERR_MISSING,
                      "is missing, and mscale_all_dim needs it");
    const double scores = latent_factor(r, all);
    if (!isfinite((float)scores))
        config_refuse(b, "config.rope_parameters.mscale_all_dim", ERR_FORMAT,
                      "must give a finite factor of the scores, got %g", all);
    return scores;
}
