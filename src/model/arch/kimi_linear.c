/* kimi_linear.c - Kimi Linear (arXiv 2510.26692): Kimi delta attention (block/kda.c) in most
 * layers, latent attention without a rope in the others, then the mixtures of DeepSeek-V3 or a
 * feed-forward block. In a GGUF, heads of both kinds of attention have the same number. */
#include "kimi_linear_impl.h"

/* defaults of KimiLinearConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 163840),
    KEY("embedding_length", 2304),
    KEY("feed_forward_length", 9216),
    KEY("block_count", 27),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 32),
    KEY("context_length", 1048576),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY_UNSET("attention.q_lora_rank"),
    KEY("attention.kv_lora_rank", 512),
    KEY("config.qk_nope_head_dim", 128),
    KEY("rope.dimension_count", 64),
    KEY("attention.value_length", 128),
    KEY("expert_count", 256),
    KEY("expert_used_count", 8),
    KEY("expert_feed_forward_length", 1024),
    KEY("expert_shared_count", 1),
    KEY("expert_weights_scale", 2.446),
    KEY("expert_weights_norm", 1),
    KEY("expert_group_count", 1),
    KEY("expert_group_used_count", 1),
    KEY("leading_dense_block_count", 1),
    KEY_UNSET("config.mlp_layer_types"),
    KEY_UNSET("config.layer_types"),
    KEY("ssm.conv_kernel", 4),
    KEY("config.linear_head_dim", 128),
    KEY("config.linear_num_heads", 32),
    KEY_UNSET("config.linear_attn_config"),
    KEY_UNSET("config.linear_attn_config.full_attn_layers"),
    KEY_UNSET("config.linear_attn_config.kda_layers"),
    KEY_UNSET("config.linear_attn_config.head_dim"),
    KEY_UNSET("config.linear_attn_config.num_heads"),
    KEY_UNSET("config.linear_attn_config.short_conv_kernel_size"),
    KEY_UNSET("config.moe_router_activation_func"),
    ONLY("config.moe_layer_freq", 1, "other values are not supported yet"),
    ONLY("config.mla_use_nope", 1, "the class has no rope"),
    ONLY("nextn_predict_layers", 0, "layers for speculation are not supported yet"),
    IDLE("config.use_grouped_topk", "the class always selects groups"),
    IDLE("attention.key_length", "the class computes this size from the parts of a head"),
    IDLE("config.qk_head_dim", "the class computes this size from the parts of a head"),
    IDLE("config.pretraining_tp", "split of the matrices in training"),
    IDLE("config.output_router_logits", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    LATENT_GGUF_KEYS,
    IDLE("attention.value_length", "llama.cpp uses attention.value_length_mla"),
    IDLE("rope.freq_base", "the model has no rope"),
    KEY_UNSET("ssm.conv_kernel"),
    KEY_UNSET("kda.head_dim"),
    DEEPSEEK_GGUF_MIXTURES,
    KEY("expert_weights_scale", 0),
    KEY("expert_group_count", 1),
    KEY("expert_group_used_count", 1),
    MUST("expert_gating_func", 2, "Kimi Linear has sigmoid scores"),
    ONLY("expert_weights_norm", 1, "llama.cpp always normalizes"),
    KEYS_END,
};

/* A layer: Kimi delta attention or latent attention, then a mixture or a feed-forward block. */
struct kimi_layer {
    bool recurrent; /* true: the layer has `kda` in place of `attn` */
    struct kda_block kda;
    struct norm attn_norm, ffn_norm;
    struct latent_block attn;
    struct feed_block feed;
};

/* ---- config ---- */

/* Return an integer of linear_attn_config, or of the field of transformers 5. */
static int own_int(struct binder *b, const char *inner, const char *outer, int lo, int hi)
{
    return config_int(b, inner, lo, hi, config_int(b, outer, lo, hi, 0));
}

/* Set the layers with recurrent state by the names of layers, by the two lists of the first files,
 * or by the pattern of the class. */
static void set_kinds(struct config *c, struct binder *b)
{
    static const char full_key[] = "config.linear_attn_config.full_attn_layers",
                      kda_key[] = "config.linear_attn_config.kda_layers";
    static const char *const name[] = {"full_attention", "linear_attention", NULL};
    const int *kind = config_layer_kinds(b, name);
    const bool *full = config_listed_layers(b, full_key, 1, true),
               *kda = config_listed_layers(b, kda_key, 1, true);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        if (kind)
            c->layer[i].recurrent = kind[i] == 1;
        else if (!full || !kda)
            c->layer[i].recurrent = i == 0 || i % 4 != 0;
        else if (full[i] == kda[i])
            config_refuse(b, kda_key, ERR_FORMAT,
                          "layer %d must be in one of kda_layers and full_attn_layers", i + 1);
        else
            c->layer[i].recurrent = kda[i];
    }
}

/* Set the sizes of each layer. The pages of latent attention have one head. */
static void set_sizes(struct config *c, const struct kimi_own *own)
{
    for (int i = 0; i < c->n_layer; i++) {
        struct layer_config *l = &c->layer[i];
        if (l->recurrent)
            l->n_head = l->n_head_kv = own->n_head, l->d_head = own->d_head;
        else
            l->n_head_kv = 1;
    }
}

static void config(struct config *c, struct binder *b)
{
    struct kimi_own *own = bind_memory(b, "the sizes of recurrent layers", sizeof *own);
    if (!own) return;
    c->own = own, c->own_bytes = sizeof *own;
    c->route = (struct route_spec){
        .score = ROUTE_SIGMOID, .group_pairs = true, .normalize = true, .sum_add = 1e-20f};
    if (!config_is_hf(b)) {
        own->d_head = config_int(b, "kda.head_dim", 1, D_HEAD_MAX, 0);
        own->n_head = c->n_head;
        own->n_tap = config_int(b, "ssm.conv_kernel", 2, TAPS_MAX, 0);
        config_moe(c, b, 0);
        set_sizes(c, own);
        return;
    }
    own->d_head =
        own_int(b, "config.linear_attn_config.head_dim", "config.linear_head_dim", 1, D_HEAD_MAX);
    own->n_head =
        own_int(b, "config.linear_attn_config.num_heads", "config.linear_num_heads", 1, HEADS_MAX);
    own->n_tap = own_int(b, "config.linear_attn_config.short_conv_kernel_size", "ssm.conv_kernel",
                         2, TAPS_MAX);
    config_object(b, "config.linear_attn_config");
    config_only_text(b, "config.moe_router_activation_func", "sigmoid");
    config_moe(c, b, 0);
    set_kinds(c, b);
    set_sizes(c, own);
}

/* Return a size of tensors.def. */
static int64_t size(const struct config *c, enum tensor_size size)
{
    const struct kimi_own *own = c->own;
    return size == SIZE_N_TAP ? own->n_tap : latent_size(c, size);
}

static void bind(struct binder *b, void *layer, int il)
{
    struct kimi_layer *l = layer;
    const struct config *c = &b->m->config;
    const struct kimi_own *own = c->own;
    l->recurrent = c->layer[il].recurrent;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    if (l->recurrent)
        bind_kda(b, &l->kda, il, own->n_tap);
    else
        bind_latent(b, &l->attn, il, c->latent);
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm", il);
    bind_feed(b, &l->feed, il);
}

/* Compute x += attn(norm x), or kda(norm x); x += ffn(norm x), or moe(norm x). */
static void layer(struct fwd *f, const void *layer)
{
    const struct kimi_layer *l = layer;
    const struct input in = fwd_normed(f, f->x, &l->attn_norm);
    if (l->recurrent)
        fwd_kda_add(f, f->x, in, &l->kda);
    else
        fwd_latent_add(f, f->x, in, &l->attn);
    fwd_feed_add(f, f->x, fwd_normed(f, f->x, &l->ffn_norm), &l->feed);
}

const struct arch arch_kimi_linear = {
    .name = "kimi-linear",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_lists = true,
    .gguf_kinds = true,
    .convert = &kimi_linear_convert,
    .no_rope = true,
    .layer_bytes = sizeof(struct kimi_layer),
    .heads = latent_heads,
    .size = size,
    .config = config,
    .bind = bind,
    .layer = layer,
};
