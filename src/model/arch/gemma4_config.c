/* gemma4_config.c - keys of Gemma 4 (gemma4.c), and the part of reading that config.json and GGUF
 * share. gemma4_hf.c reads a config.json, and gemma4_gguf.c reads a GGUF.
 *
 * Both readers set the same fields of struct config, so model_same_config can compare a
 * conversion. */
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
         "transformers ignores this parameter in an object per layer type"),
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

/* Return a size in [1, hi] that the model may lack; 0 if the model lacks it. */
static int optional(struct binder *b, const char *key, int hi)
{
    return meta_kind(config_meta(b, key)) == META_NONE ? 0 : config_int(b, key, 0, hi, 0);
}

void gemma4_mixture(struct config *c, struct binder *b, bool enabled)
{
    const int n = optional(b, "expert_count", EXPERTS_MAX),
              n_used = optional(b, "expert_used_count", EXPERTS_MAX),
              d = optional(b, "expert_feed_forward_length", D_FF_MAX);
    if (!enabled) return;
    c->route.normalize = c->ffn_and_moe = true;
    if (n == 0) config_refuse(b, "expert_count", ERR_FORMAT, "must be at least 1, got 0");
    if (n_used < 1 || n_used > n)
        config_refuse(b, "expert_used_count", ERR_FORMAT, "must be in [1, %d], got %d", n, n_used);
    if (d == 0)
        config_refuse(b, "expert_feed_forward_length", ERR_FORMAT, "must be at least 1, got 0");
    for (int i = 0; i < c->n_layer; i++) {
        c->layer[i].n_expert = n;
        c->layer[i].n_expert_used = n_used;
        c->layer[i].d_expert = d;
    }
}

/* As in the class, scores are not scaled: q and k have norms. Each rope rotates all lanes of its
 * layers' heads. */
void gemma4_finish(struct config *c, struct binder *b, double local_base, const char *local_key)
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

void gemma4_config(struct config *c, struct binder *b)
{
    struct gemma_own *own = gemma_own(c, b);
    if (!own) return;
    if (config_is_hf(b))
        gemma4_hf_config(c, own, b);
    else
        gemma4_gguf_config(c, own, b);
}
