/* rwkv7.c - RWKV-7 ("RWKV-7 Goose with Expressive Dynamic State Evolution", arXiv 2503.14456), with
 * the names of published directories (model_type rwkv7, of flash-linear-attention). Without a
 * field, a rank is the size of the first layer's tensor. */
#include "model/rwkv_impl.h"

static const struct config_key hf_key[] = {
    KEY("vocab_size", 32000),
    KEY("embedding_length", 2048),
    KEY("block_count", 24),
    KEY("context_length", 2048),
    KEY("attention.key_length", 64),
    KEY_UNSET("feed_forward_length"),
    KEY_UNSET("config.hidden_act"),
    KEY("config.hidden_ratio", 4),
    KEY("config.norm_eps", 1e-5),
    KEY("config.tie_word_embeddings", 0),
    KEY_UNSET("config.num_heads"),
    KEY_UNSET("config.decay_low_rank_dim"),
    KEY_UNSET("config.gate_low_rank_dim"),
    KEY_UNSET("config.a_low_rank_dim"),
    KEY_UNSET("config.v_low_rank_dim"),
    KEY_UNSET("config.attn"),
    KEY_UNSET("config.value_dim"),
    ONLY("config.norm_first", 1, "models without a norm of the embedding are not supported yet"),
    ONLY("config.norm_bias", 1, "norms without biases are not supported yet"),
    IDLE("config.attn_mode", "implementation of the reference"),
    IDLE("config.fuse_norm", "implementation of the reference"),
    IDLE("config.fuse_cross_entropy", "training"),
    IDLE("config.fuse_linear_cross_entropy", "training"),
    IDLE("config.use_l2warp", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY_UNSET("wkv.head_size"),
    KEY_UNSET("attention.decay_lora_rank"),
    KEY_UNSET("attention.iclr_lora_rank"),
    KEY_UNSET("attention.value_residual_mix_lora_rank"),
    KEY_UNSET("attention.gate_lora_rank"),
    KEY(RWKV_HEAD_EPS_KEY, RWKV_HEAD_EPS),
    ONLY("token_shift_count", 2, "both parts of a layer mix each row with the row before it"),
    ONLY("attention.head_count", 0, "the layers have no attention"),
    KEYS_END,
};

/* tensors of the first layer, whose values no earlier layer has */
static const char *const left_out[] = {"blk.0.time_mix_v0.", "blk.0.time_mix_v1.",
                                       "blk.0.time_mix_v2.", "model.layers.0.attn.v_lora.", NULL};

/* Return a rank: the field, or dimension 1 of the tensor of layer il. A missing tensor, or one of
 * another size, is an error of binding. */
static int rank_of(struct binder *b, const char *key, const char *name)
{
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, name);
    const bool sized = t && t->dim[1] >= 1 && t->dim[1] <= WIDTH_MAX;
    return config_int(b, key, 1, WIDTH_MAX, sized ? t->dim[1] : 1);
}

/* Reject layers with attention, and values of another width than the keys. */
static void check_layers(struct config *c, struct binder *b)
{
    static const char attn[] = "config.attn", width[] = "config.value_dim",
                      act[] = "config.hidden_act";
    const struct meta *m = config_meta(b, width);
    char text[80];
    if (meta_kind(config_meta(b, attn)) != META_NONE)
        config_refuse(b, attn, ERR_UNSUPPORTED, "layers with attention are not supported yet");
    bool same = meta_kind(m) == META_NONE ||
                (meta_kind(m) == META_INT && meta_int(m, -1) == c->d) ||
                (meta_kind(m) == META_LIST && meta_count(m) == (size_t)c->n_layer);
    for (size_t i = 0; i < meta_count(m) && meta_kind(m) == META_LIST; i++)
        same = same && meta_item_int(m, i, -1) == c->d;
    if (!same)
        config_refuse(b, width, ERR_UNSUPPORTED, "must be %d for each layer, got %s", c->d,
                      config_value_text(m, text));
    if (b->rc == 0 && !c->own_curve && c->curve != CURVE_relu2)
        config_refuse(b, act, ERR_UNSUPPORTED, "must be sqrelu, got %s",
                      config_value_text(config_meta(b, act), text));
}

/* Set the heads by their width, or without one by their number. */
static void set_heads(struct config *c, struct binder *b, struct rwkv7_sizes *s)
{
    static const char size_key[] = "attention.key_length", count_key[] = "config.num_heads";
    const bool sized =
        !config_meta(b, size_key) || meta_kind(config_meta(b, size_key)) != META_NONE;
    const int n = config_int(b, count_key, 1, HEADS_MAX, 1);
    if (b->rc == 0 && !sized && c->d % n)
        config_refuse(b, count_key, ERR_FORMAT, "must divide %d, got %d", c->d, n);
    s->d_head = config_int(b, size_key, 1, D_HEAD_MAX, b->rc == 0 ? c->d / n : 1);
    if (b->rc == 0 && c->d % s->d_head)
        config_refuse(b, size_key, ERR_FORMAT, "must divide %d, got %d", c->d, s->d_head);
    s->n_head = b->rc == 0 ? c->d / s->d_head : 1;
    s->head_eps = c->rms_eps * (float)s->d_head;
}

/* Set the sizes by the fields of a folder. */
static void hf_sizes(struct config *c, struct binder *b, struct rwkv7_sizes *s)
{
    check_layers(c, b);
    set_heads(c, b, s);
    s->rank_decay = rank_of(b, "config.decay_low_rank_dim", "blk.0.time_mix_w1.weight");
    s->rank_gate = rank_of(b, "config.gate_low_rank_dim", "blk.0.time_mix_g1.weight");
    s->rank_a = rank_of(b, "config.a_low_rank_dim", "blk.0.time_mix_a1.weight");
    s->rank_v = rank_of(b, "config.v_low_rank_dim", "blk.1.time_mix_v1.weight");
    const double ratio = config_real(b, "config.hidden_ratio", 4), width = floor(c->d * ratio);
    const int64_t d_ff = width >= 1 && width <= D_FF_MAX ? ((int64_t)width + 31) / 32 * 32 : 0;
    c->d_ff = config_int(b, "feed_forward_length", 1, D_FF_MAX, d_ff);
}

static void config(struct config *c, struct binder *b)
{
    struct rwkv7_sizes *s = bind_memory(b, "the sizes of recurrent layers", sizeof *s);
    if (!s) return;
    c->own = s, c->own_bytes = sizeof *s;
    /* the field has the length of training; the recurrence has no maximum length */
    c->context_train = RWKV_CONTEXT;
    if (config_is_hf(b)) {
        hf_sizes(c, b, s);
    } else {
        rwkv7_read_gguf(c, b, s, 1);
        c->d_ff = config_int(b, "feed_forward_length", 1, D_FF_MAX, 0);
    }
    for (int i = 0; i < c->n_layer; i++) c->layer[i].recurrent = true, c->layer[i].d_ff = c->d_ff;
}

static int64_t size(const struct config *c, enum tensor_size size)
{
    return rwkv7_size(c->own, size);
}

struct rwkv7_layer {
    struct norm time_norm, channel_norm;
    struct goose_block time;
    struct channel_block channel;
};

static void bind(struct binder *b, void *layer, int il)
{
    struct rwkv7_layer *l = layer;
    bind_norm(b, &l->time_norm, "blk.%d.attn_norm", il);
    bind_goose(b, &l->time, il, b->m->config.own);
    bind_norm(b, &l->channel_norm, "blk.%d.attn_norm_2", il);
    bind_channel(b, &l->channel, il, false);
}

static void layer(struct fwd *f, const void *layer)
{
    const struct rwkv7_layer *l = layer;
    fwd_norm(f, f->h, f->x, &l->time_norm);
    fwd_goose_add(f, f->x, f->h, &l->time);
    fwd_norm(f, f->h, f->x, &l->channel_norm);
    fwd_channel_add(f, f->x, f->h, &l->channel);
}

const struct arch arch_rwkv7 = {
    .name = "rwkv7",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .convert = &rwkv7_convert,
    .left_out = left_out,
    .left_out_why = "the first layer has no values of an earlier layer",
    .no_rope = true,
    .no_attention = true,
    .layer_norm_eps = "config.norm_eps",
    .norm_bias = true,
    .curve = CURVE_relu2,
    .own_curve = "sqrelu",
    .layer_bytes = sizeof(struct rwkv7_layer),
    .size = size,
    .config = config,
    .bind = bind,
    .layer = layer,
};
