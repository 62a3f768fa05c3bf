/* ernie4_5_moe.c - ERNIE 4.5 (Baidu) with mixtures: ernie4_5.c with mixtures and a block of all
 * rows in some layers. The experts have no biases. */
#include "model/model_impl.h"

#include <limits.h>

/* defaults of Ernie4_5_MoeConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 103424),
    KEY("embedding_length", 2560),
    KEY("feed_forward_length", 12288),
    KEY("block_count", 28),
    KEY("attention.head_count", 20),
    KEY("attention.head_count_kv", 4),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 131072),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 500000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.use_bias", 0),
    KEY("expert_count", 64),
    KEY("expert_used_count", 6),
    KEY("expert_feed_forward_length", 1536),
    KEY("expert_shared_count", 2),
    KEY("leading_dense_block_count", 1),
    KEY("interleave_moe_layer_step", 1),
    KEY("config.moe_layer_end_index", -1),
    KEY("config.moe_norm_min", 1e-12),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("expert_count"),
    KEY_UNSET("expert_used_count"),
    KEY_UNSET("expert_feed_forward_length"),
    KEY("expert_shared_count", 0),
    KEY_UNSET("expert_shared_feed_forward_length"),
    KEY("leading_dense_block_count", 0),
    KEY("interleave_moe_layer_step", 1),
    KEYS_END,
};

/* Remove the mixtures of layers after the last index, and between the layers of the interval. */
static void config(struct config *c, struct binder *b)
{
    static const char least[] = "config.moe_norm_min";
    const double min = config_real(b, least, 1e-12);
    const int step = config_int(b, "interleave_moe_layer_step", 1, INT_MAX, 1),
              last = config_int(b, "config.moe_layer_end_index", -1, INT_MAX, -1);
    if (!(min >= 0)) config_refuse(b, least, ERR_FORMAT, "must be at least 0, got %g", min);
    c->route = (struct route_spec){.normalize = true, .sum_least = (float)min};
    if (config_is_hf(b) && config_bool(b, "config.use_bias", false))
        c->qkv_bias = c->o_bias = c->ffn_bias = c->head_bias = BIAS_NEEDED;
    config_moe(c, b, 0);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++)
        if ((i + 1) % step != 0 || (last >= 0 && i > last)) config_no_moe(&c->layer[i]);
}

const struct arch arch_ernie4_5_moe = {
    .name = "ernie4_5-moe",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = false,
    .hf_adjacent = true,
    .config = config,
};
