/* deepseek3.c - DeepSeek-V3 (arXiv 2412.19437), also Kimi-K2: deepseek2.c with another rule that
 * selects the experts of a row. */
#include "deepseek_impl.h"

/* defaults of DeepseekV3Config of transformers 5 */
static const struct config_key hf_key[] = {
    DEEPSEEK_KEYS,
    KEY("vocab_size", 129280),
    KEY("embedding_length", 7168),
    KEY("feed_forward_length", 18432),
    KEY("block_count", 61),
    KEY("attention.head_count", 128),
    KEY("context_length", 4096),
    KEY("leading_dense_block_count", 3),
    KEY("expert_count", 256),
    KEY("expert_used_count", 8),
    KEY("expert_feed_forward_length", 2048),
    KEY("expert_shared_count", 1),
    KEY("expert_weights_scale", 2.5),
    KEY("expert_weights_norm", 1),
    KEY("expert_group_count", 8),
    KEY("expert_group_used_count", 4),
    KEY("config.rope_interleave", 1),
    KEY("nextn_predict_layers", 1),
    KEYS_END,
};

/* Set the config of a directory of V3. */
static void config(struct config *c, struct binder *b)
{
    c->route = (struct route_spec){
        .score = ROUTE_SIGMOID, .group_pairs = true, .normalize = true, .sum_add = 1e-20f};
    c->rope[ROPE_MAIN].neox = !config_bool(b, "config.rope_interleave", true);
    config_only_text(b, "config.scoring_func", "sigmoid");
    config_only_text(b, "config.topk_method", "noaux_tc");
    deepseek_config(c, b);
}

const struct arch arch_deepseek3 = {
    .name = "deepseek3",
    .hf_key = hf_key,
    .gguf_why = "its GGUF files have the architecture deepseek2",
    .config = config,
    DEEPSEEK_ARCH,
};
