/* jamba.c - Jamba ("A Hybrid Transformer-Mamba Language Model", arXiv 2403.19887): layers of Mamba
 * with norms of dt, B and C, and attention without a rope in every few layers. Every few layers
 * have a mixture of experts in place of the feed-forward block. */
#include "mamba_impl.h"

/* defaults of JambaConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 65536),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 14336),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 8),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 262144),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("expert_count", 16),
    KEY("expert_used_count", 2),
    KEY("config.expert_layer_period", 2),
    KEY("config.expert_layer_offset", 1),
    KEY("config.attn_layer_period", 8),
    KEY("config.attn_layer_offset", 4),
    KEY("ssm.state_size", 16),
    KEY("ssm.conv_kernel", 4),
    KEY_UNSET("ssm.time_step_rank"),
    KEY("config.mamba_expand", 2),
    KEY("config.mamba_conv_bias", 1),
    KEY("config.mamba_proj_bias", 0),
    IDLE("config.mamba_inner_layernorms", "the class always has these norms"),
    IDLE("config.use_mamba_kernels", "implementation of the reference"),
    IDLE("config.use_mambapy", "implementation of the reference"),
    IDLE("config.use_associative_scan", "implementation of the reference"),
    IDLE("config.num_logits_to_keep", "number of rows for which transformers computes logits"),
    IDLE("config.calc_logits_for_entire_prompt", "rows for which the original code had logits"),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("ssm.conv_kernel"),
    KEY_UNSET("ssm.state_size"),
    KEY_UNSET("ssm.inner_size"),
    KEY_UNSET("ssm.time_step_rank"),
    KEY("expert_count", 0),
    KEY("expert_used_count", 0),
    KEYS_END,
};

/* Layers first, first + step, ... of a kind. */
struct interval {
    int step, first;
};

static struct interval interval_of(struct binder *b, const char *step_key, const char *first_key)
{
    struct interval v = {.step = config_int(b, step_key, 1, LAYERS_MAX, 0)};
    v.first = config_int(b, first_key, 0, LAYERS_MAX, 0);
    if (b->rc == 0 && v.first >= v.step)
        config_refuse(b, first_key, ERR_FORMAT, "must be below the interval %d, got %d", v.step,
                      v.first);
    return b->rc == 0 ? v : (struct interval){1, 0};
}

/* Set the biases by the tensors of a GGUF, and remove the mixtures of layers without a router. */
static void read_held(struct config *c, struct binder *b, struct mamba_sizes *s)
{
    int il = 0;
    while (il + 1 < c->n_layer && !c->layer[il].recurrent) il++;
    s->biased = bind_has_bias(b, "blk.%d.ssm_in", il);
    s->conv_biased = bind_has_bias(b, "blk.%d.ssm_conv1d", il);
    for (int i = 0; i < c->n_layer; i++)
        if (!bind_has(b, "blk.%d.ffn_gate_inp", i)) config_no_moe(&c->layer[i]);
}

static void config(struct config *c, struct binder *b)
{
    struct mamba_sizes *s = bind_memory(b, "the sizes of recurrent layers", sizeof *s);
    if (!s) return;
    mamba_read_sizes(s, c, b);
    s->normed = 1, s->norm_eps = c->rms_eps;
    c->own = s, c->own_bytes = sizeof *s;
    if (!config_is_hf(b)) {
        config_moe(c, b, c->d_ff);
        read_held(c, b, s);
        return;
    }
    s->biased = config_bool(b, "config.mamba_proj_bias", false);
    s->conv_biased = config_bool(b, "config.mamba_conv_bias", true);
    /* a model with one expert is dense, and its class does not read the number per row */
    if (config_int(b, "expert_count", 0, EXPERTS_MAX, 0) > 1)
        config_moe(c, b, c->d_ff);
    else
        (void)config_meta(b, "expert_used_count");
    const struct interval full =
        interval_of(b, "config.attn_layer_period", "config.attn_layer_offset");
    const struct interval mixed =
        interval_of(b, "config.expert_layer_period", "config.expert_layer_offset");
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        struct layer_config *l = &c->layer[i];
        l->recurrent = i % full.step != full.first;
        if (i % mixed.step != mixed.first || l->n_expert < 2) config_no_moe(l);
    }
}

struct jamba_layer {
    struct norm attn_norm, ffn_norm;
    bool recurrent; /* true: the layer has `mamba` in place of `attn` */
    struct attn_block attn;
    struct mamba_block mamba;
    struct feed_block feed;
};

static void bind(struct binder *b, void *layer, int il)
{
    struct jamba_layer *l = layer;
    l->recurrent = b->m->config.layer[il].recurrent;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    if (l->recurrent)
        bind_mamba(b, &l->mamba, il, b->m->config.own);
    else
        bind_attn(b, &l->attn, il);
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm", il);
    bind_feed(b, &l->feed, il);
}

static void layer(struct fwd *f, const void *layer)
{
    const struct jamba_layer *l = layer;
    const struct input in = fwd_normed(f, f->x, &l->attn_norm);
    if (l->recurrent)
        fwd_mamba_add(f, f->x, in, &l->mamba);
    else
        fwd_attn_add(f, f->x, in, &l->attn);
    fwd_feed_add(f, f->x, fwd_normed(f, f->x, &l->ffn_norm), &l->feed);
}

const struct arch arch_jamba = {
    .name = "jamba",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_lists = true,
    .gguf_kinds = true,
    .convert = &jamba_convert,
    .no_rope = true,
    .layer_bytes = sizeof(struct jamba_layer),
    .size = mamba_arch_size,
    .config = config,
    .bind = bind,
    .layer = layer,
};
