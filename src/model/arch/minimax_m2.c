/* minimax_m2.c - MiniMax-M2: mixtures with sigmoid scores and addends for the choice, norms of q
 * and k over all heads, a partial rope. */
#include "model/model_impl.h"

/* defaults of MiniMaxM2Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 200064),
    KEY("embedding_length", 3072),
    KEY("feed_forward_length", 1536),
    KEY("block_count", 62),
    KEY("attention.head_count", 48),
    KEY("attention.head_count_kv", 8),
    KEY("attention.key_length", 128),
    KEY("context_length", 196608),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 5e6),
    KEY_UNSET("config.rope_parameters.partial_rotary_factor"),
    KEY_UNSET("config.rotary_dim"),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("expert_count", 256),
    KEY("expert_used_count", 8),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    IDLE("config.router_jitter_noise", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("expert_count"),
    KEY_UNSET("expert_used_count"),
    KEY_UNSET("expert_feed_forward_length"),
    MUST("expert_gating_func", 2, "MiniMax-M2 has sigmoid scores"),
    KEYS_END,
};

/* Set the number of rotated lanes by the field of published files, if the rope has no part. */
static void rotated(struct config *c, struct binder *b)
{
    static const char own[] = "config.rotary_dim",
                      part[] = "config.rope_parameters.partial_rotary_factor";
    const bool has = meta_kind(config_meta(b, own)) != META_NONE;
    const int n = has ? config_int(b, own, 2, D_HEAD_MAX, 2) : 0;
    if (!has || meta_kind(config_meta(b, part)) != META_NONE || b->rc != 0) return;
    if (n > c->d_head || n % 2)
        config_refuse(b, own, ERR_FORMAT, "must be even and at most %d, got %d", c->d_head, n);
    c->rope[ROPE_MAIN].d_rot = n;
}

static void config(struct config *c, struct binder *b)
{
    c->route = (struct route_spec){.score = ROUTE_SIGMOID, .normalize = true};
    rotated(c, b);
    config_moe(c, b, c->d_ff);
}

const struct arch arch_minimax_m2 = {
    .name = "minimax-m2",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .partial_rope = true,
    .config = config,
};
