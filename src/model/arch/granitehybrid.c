/* granitehybrid.c - Granite 4 (IBM), class granitemoehybrid: layers of Mamba-2 and of attention,
 * then a block of all rows, to which a mixture of experts may be added. The factors are those of
 * granite.c. Attention has a rope only if position_embedding_type is "rope". GGUF files of Bamba
 * also have this architecture. Their blocks of all rows are feed-forward blocks, as those of all
 * GGUF files without mixtures. */
#include "granite_impl.h"
#include "mamba2_impl.h"

/* defaults of GraniteMoeHybridConfig of transformers 5 */
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
    KEY("expert_shared_feed_forward_length", 1024),
    KEY_UNSET("config.layer_types"),
    KEY_UNSET("config.position_embedding_type"),
    GRANITE_HF_KEYS,
    MAMBA2_HYBRID_KEYS,
    KEY_UNSET("config.layers_block_type"),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    MAMBA2_GGUF_KEYS,
    KEY("expert_count", 0),
    KEY("expert_used_count", 0),
    KEY("expert_shared_feed_forward_length", 0),
    KEY_UNSET("rope.dimension_count"),
    KEY("rope.scaling.finetuned", 1),
    GRANITE_GGUF_FACTORS,
    KEYS_END,
};

/* Set the kinds of layers. Without a list, all layers are recurrent. */
static void set_kinds(struct config *c, struct binder *b)
{
    static const char *const name[] = {"linear_attention", "full_attention", "mamba", "attention",
                                       NULL};
    const int *kind = config_layer_kinds(b, name);
    const struct meta *m = config_meta(b, "config.position_embedding_type");
    static const char other[] = "config.layers_block_type";
    if (meta_kind(config_meta(b, other)) != META_NONE)
        config_refuse(b, other, ERR_UNSUPPORTED, "must have the name layer_types");
    if (meta_kind(m) != META_NONE && !meta_text(m, NULL))
        config_refuse(b, "config.position_embedding_type", ERR_FORMAT, "must be a name or null");
    const bool has_rope = config_is_text(m, "rope");
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        c->layer[i].recurrent = !kind || kind[i] % 2 == 0;
        if (!has_rope) c->layer[i].rope = ROPE_OFF;
    }
}

/* Set the blocks of all rows of a model without mixtures. A GGUF has the usual feed-forward
 * blocks, and llama.cpp ignores the width of the other blocks. */
static void set_dense(struct config *c, struct binder *b)
{
    static const char key[] = "expert_shared_feed_forward_length";
    const bool hf = config_is_hf(b);
    const int d = config_int(b, key, hf ? 1 : 0, D_FF_MAX, 0);
    config_meta(b, "expert_used_count");
    for (int i = 0; i < c->n_layer && b->rc == 0 && hf; i++)
        c->layer[i].d_ff = c->layer[i].d_shared = d;
}

/* Disable the rope of a GGUF if its key is false. The kinds of its layers are already set. */
static void read_rope(struct config *c, struct binder *b)
{
    const bool has_rope = config_bool(b, "rope.scaling.finetuned", true);
    for (int i = 0; i < c->n_layer && !has_rope; i++) c->layer[i].rope = ROPE_OFF;
}

static void config(struct config *c, struct binder *b)
{
    const bool hf = config_is_hf(b);
    c->route.score = ROUTE_CHOSEN;
    granite_factors(c, b);
    mamba2_hybrid_sizes(c, b, 0);
    if (hf)
        set_kinds(c, b);
    else
        read_rope(c, b);
    mamba2_hybrid_end(c);
    if (config_int(b, "expert_count", 0, EXPERTS_MAX, 0) == 0) {
        set_dense(c, b);
        return;
    }
    config_moe(c, b, c->d_ff);
    if (b->rc == 0 && hf && c->layer[0].d_shared == 0)
        config_refuse(b, "expert_shared_feed_forward_length", ERR_UNSUPPORTED,
                      "must not be 0: not supported yet");
}

static void bind(struct binder *b, void *layer, int il)
{
    static const struct glu_names share = {"blk.%d.ffn_gate_shexp", "blk.%d.ffn_up_shexp",
                                           "blk.%d.ffn_down_shexp", "blk.%d.ffn_gate_up_shexp"};
    struct mamba2_hybrid_layer *l = layer;
    const struct layer_config *c = &b->m->config.layer[il];
    mamba2_hybrid_bind(b, l, il);
    if (c->n_expert > 0 || !config_is_hf(b))
        bind_feed(b, &l->feed, il);
    else
        bind_glu(b, &l->feed.ffn, &share, il, c->d_shared);
}

const struct arch arch_granitehybrid = {
    .name = "granitehybrid",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_halves = true,
    .gguf_lists = true,
    .gguf_kinds = true,
    .gguf_partial_rope = true,
    .convert = &granitehybrid_convert,
    .layer_bytes = sizeof(struct mamba2_hybrid_layer),
    .size = mamba2_hybrid_size,
    .config = config,
    .bind = bind,
    .layer = mamba2_hybrid_layer,
};
