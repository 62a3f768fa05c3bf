/* granitemoe.c - Granite 3 with mixtures of experts (IBM), classes granitemoe and granitemoeshared:
 * granite.c with mixtures, to which granitemoeshared adds a block of all rows. Hugging Face
 * directories have gate and up of all experts in one tensor, and gate and up of the block in one
 * matrix. */
#include "granite_impl.h"

/* defaults of GraniteMoeConfig and GraniteMoeSharedConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 32000),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 11008),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("expert_count", 8),
    KEY("expert_used_count", 2),
    KEY("expert_shared_feed_forward_length", 0),
    GRANITE_HF_KEYS,
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("expert_count"),
    KEY_UNSET("expert_used_count"),
    KEY("expert_shared_feed_forward_length", 0),
    GRANITE_GGUF_KEYS,
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    c->route.score = ROUTE_CHOSEN;
    granite_factors(c, b);
    config_moe(c, b, c->d_ff);
    if (b->rc == 0 && config_is_hf(b) && c->layer[0].d_shared > 0 &&
        !bind_has(b, "blk.%d.ffn_down_shexp", 0))
        config_refuse(b, "expert_shared_feed_forward_length", ERR_FORMAT,
                      "must be 0 in a model without the block of all rows, got %d",
                      c->layer[0].d_shared);
}

const struct arch arch_granitemoe = {
    .name = "granitemoe",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = false,
    .gguf_lists = true,
    .gguf_halves = true,
    .config = config,
};
