/* apertus.c - Apertus ("Apertus: Democratizing Open and Compliant LLMs", arXiv 2509.14233). It is a
 * llama with norms of q and k heads. The feed-forward block has xIELU and no gate. */
#include "model/model_impl.h"

/* defaults of ApertusConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 131072),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 14336),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 65536),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 12000000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    IDLE("config.mlp_bias", "in the published files, but not in the class"),
    IDLE("config.post_norm", "in the published files, but not in the class"),
    IDLE("config.qk_norm", "in the published files, but not in the class"),
    KEYS_END,
};

/* Set the class's default of rope_parameters. rope_theta at the top level has no effect on it. */
static void default_rope(struct binder *b, struct rope_config *r)
{
    if (!config_given(b, "rope.freq_base")) r->base = 12000000;
    r->scaling = ROPE_LLAMA3;
    r->factor = 8;
    r->context_original = 8192;
    r->low_freq = 1;
    r->high_freq = 4;
}

static void config(struct config *c, struct binder *b)
{
    if (config_lacks_rope(b)) default_rope(b, &c->rope[ROPE_MAIN]);
    if (config_is_hf(b)) c->ffn_bias = BIAS_NONE;
}

const struct arch arch_apertus = {
    .name = "apertus",
    .hf_key = hf_key,
    .gguf_neox = true,
    .xielu = true,
    .config = config,
};
