/* stablelm.c - StableLM ("Stable LM 2 1.6B Technical Report", arXiv 2402.17834): LayerNorm and a
 * partial rope. The 12B model has norms of q and k heads, and its blocks are parallel. */
#include "model/model_impl.h"

/* defaults of StableLmConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50304),
    KEY("embedding_length", 2560),
    KEY("feed_forward_length", 6912),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 32),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 4096),
    KEY("config.layer_norm_eps", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY("config.rope_parameters.partial_rotary_factor", 0.25),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.use_qkv_bias", 0),
    KEY("config.qk_layernorm", 0),
    KEY("config.use_parallel_residual", 0),
    IDLE("config.hidden_dropout", "training"),
    IDLE("config.rotary_scaling_factor", "field of published files that transformers ignores"),
    IDLE("config.norm_eps", "field of published files that transformers ignores"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY_UNSET("use_parallel_residual"),
    KEYS_END,
};

/* Set the properties that differ between the published sizes. config.json has flags for them. In a
 * GGUF the tensors determine them. */
static void config(struct config *c, struct binder *b)
{
    /* for other sizes, transformers rotates other lanes or fails */
    if (c->d_head != c->d / c->n_head)
        config_refuse(b, "attention.key_length", ERR_UNSUPPORTED,
                      "must be hidden_size / num_attention_heads, %d, got %d", c->d / c->n_head,
                      c->d_head);
    const bool hf = config_is_hf(b),
               parallel = hf ? config_bool(b, "config.use_parallel_residual", false)
                             : !bind_has(b, "blk.%d.ffn_norm", 0);
    c->order = parallel ? BLOCKS_PARALLEL : BLOCKS_SERIAL;
    if (!hf) {
        /* as in llama.cpp, the tensors of the file determine this property */
        config_bool(b, "use_parallel_residual", false);
        return;
    }
    c->qkv_bias = config_bool(b, "config.use_qkv_bias", false) ? BIAS_NEEDED : BIAS_NONE;
    c->o_bias = BIAS_NONE;
    c->head_norms = config_bool(b, "config.qk_layernorm", false);
}

const struct arch arch_stablelm = {
    .name = "stablelm",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .partial_rope = true,
    .layer_norm_eps = "config.layer_norm_eps",
    .norm_bias = true,
    .config = config,
};
