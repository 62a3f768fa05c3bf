/* qwen3moe.c - Qwen3 with a mixture of experts ("Qwen3 Technical Report", arXiv 2505.09388). The
 * model is a qwen3 whose feed-forward block is a mixture, in all layers or in the layers that the
 * config selects. */
#include "qwen_impl.h"

#include <limits.h>

/* defaults of Qwen3MoeConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 151936),
    KEY("embedding_length", 2048),
    KEY("feed_forward_length", 6144),
    KEY("block_count", 24),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 4),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.use_sliding_window", 0),
    KEY("attention.sliding_window", 4096),
    KEY("expert_count", 128),
    KEY("expert_used_count", 8),
    KEY("expert_feed_forward_length", 768),
    KEY("config.norm_topk_prob", 0),
    KEY("config.decoder_sparse_step", 1),
    KEY_UNSET("config.mlp_only_layers"),
    IDLE("config.max_window_layers", "field of published files that transformers ignores"),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("expert_count"),
    KEY_UNSET("expert_used_count"),
    KEY_UNSET("expert_feed_forward_length"),
    KEYS_END,
};

/* Return true if the config lists layer il as dense. */
static bool is_listed(const struct meta *list, int il)
{
    for (size_t i = 0; i < meta_count(list); i++)
        if (meta_item_int(list, i, -1) == il) return true;
    return false;
}

/* Check that mlp_only_layers is absent, or a list of integers. */
static void check_list(struct binder *b, const struct meta *list)
{
    char text[80];
    const bool absent = meta_kind(list) == META_NONE;
    if (!absent && (meta_kind(list) != META_LIST ||
                    (meta_count(list) > 0 && meta_item_kind(list) != META_INT)))
        config_refuse(b, "config.mlp_only_layers", ERR_FORMAT, "must be a list of layers, got %s",
                      config_value_text(list, text));
}

/* Set the sizes of each layer's mixture. Every decoder_sparse_step-th layer has a mixture, except
 * the layers in mlp_only_layers. */
void qwen3moe_config(struct config *c, struct binder *b)
{
    const int n_expert = config_int(b, "expert_count", 1, EXPERTS_MAX, 0),
              n_used = config_int(b, "expert_used_count", 1, b->rc == 0 ? n_expert : 1, 0),
              d_expert = config_int(b, "expert_feed_forward_length", 1, D_FF_MAX,
                                    b->rc == 0 && n_used > 0 ? c->d_ff / n_used : 0),
              step = config_int(b, "config.decoder_sparse_step", 1, INT_MAX, 1),
              window = config_has(b, "attention.sliding_window") ? config_window(b) : 0;
    const bool slides = config_bool(b, "config.use_sliding_window", false),
               normalizes = !config_has(b, "config.norm_topk_prob") ||
                            config_bool(b, "config.norm_topk_prob", false);
    const struct meta *dense = config_meta(b, "config.mlp_only_layers");
    check_list(b, dense);
    /* n_used may be the default of the class, although the file has fewer experts */
    if (n_used > n_expert)
        config_refuse(b, "expert_used_count", ERR_FORMAT, "must be in [1, %d], got %d", n_expert,
                      n_used);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        struct layer_config *l = &c->layer[i];
        const bool sparse = (i + 1) % step == 0 && !is_listed(dense, i);
        l->window = slides ? window : 0;
        l->n_expert = sparse ? n_expert : 0;
        l->n_expert_used = sparse ? n_used : 0;
        l->d_expert = sparse ? d_expert : 0;
        l->norm_experts = normalizes;
    }
}

/* Bind a layer. A layer has either the mixture or the dense block. The struct of the absent block
 * remains zero. */
void qwen3moe_bind(struct binder *b, void *layer, int il)
{
    struct qwen3moe_layer *l = layer;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    bind_attn(b, &l->attn, il);
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm", il);
    if (b->m->config.layer[il].n_expert)
        bind_moe(b, &l->moe, il);
    else
        bind_ffn(b, &l->ffn, il);
}

/* Compute x += attn(norm x); x += moe(norm x). */
void qwen3moe_layer(struct fwd *f, const void *layer)
{
    const struct qwen3moe_layer *l = layer;
    fwd_attn_add(f, f->x, fwd_normed(f, f->x, &l->attn_norm), &l->attn);
    if (l->moe.n_expert)
        fwd_moe_add(f, f->x, fwd_normed(f, f->x, &l->ffn_norm), &l->moe);
    else
        fwd_ffn_add(f, f->x, fwd_normed(f, f->x, &l->ffn_norm), &l->ffn);
}

const struct arch arch_qwen3moe = {
    .name = "qwen3moe",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .layer_bytes = sizeof(struct qwen3moe_layer),
    .config = qwen3moe_config,
    .bind = qwen3moe_bind,
    .layer = qwen3moe_layer,
};
