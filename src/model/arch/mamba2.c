/* mamba2.c - Mamba-2 ("Transformers are SSMs", arXiv 2405.21060): only recurrent layers. A layer
 * adds its block to the residual stream, after a norm. */
#include "mamba2_impl.h"

/* defaults of Mamba2Config of transformers 5. The class has no context length. */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 32768),
    KEY("embedding_length", 4096),
    KEY("block_count", 64),
    KEY("context_length", 1048576),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("ssm.conv_kernel", 4),
    KEY("ssm.state_size", 128),
    KEY("ssm.group_count", 8),
    KEY("ssm.time_step_rank", 128),
    KEY("ssm.head_dim", 64),
    KEY("config.expand", 2),
    KEY("config.use_bias", 0),
    KEY("config.use_conv_bias", 1),
    KEY_UNSET("config.time_step_limit"),
    IDLE("config.chunk_size", "size of the reference's blocks"),
    IDLE("config.residual_in_fp32", "quoth computes the residual stream in float32"),
    IDLE("config.time_step_rank", "field of Mamba, which the class only stores"),
    IDLE("config.time_step_min", "initial values of training"),
    IDLE("config.time_step_max", "initial values of training"),
    IDLE("config.time_step_floor", "initial values of training"),
    IDLE("config.rescale_prenorm_residual", "training"),
    KEYS_END,
};

void mamba2_read_limit(struct mamba2_sizes *s, struct binder *b)
{
    static const char key[] = "config.time_step_limit";
    char text[80];
    const struct meta *list = config_meta(b, key);
    if (meta_kind(list) == META_NONE) return;
    const double least = meta_item_real(list, 0, NAN), most = meta_item_real(list, 1, NAN);
    const bool fits = config_fits(least) && (config_fits(most) || isinf(most));
    if (meta_count(list) != 2 || !fits || !(least >= 0 && most > 0 && most >= least))
        config_refuse(b, key, ERR_UNSUPPORTED,
                      "must be [LEAST, MOST] with LEAST in [0, MOST], and MOST above 0, got %s",
                      config_value_text(list, text));
    s->step_least = (float)least;
    s->step_max = isinf(most) ? 0 : (float)most;
}

static const struct config_key gguf_key[] = {
    MAMBA2_GGUF_KEYS,
    ONLY("feed_forward_length", 0, "the layers have no feed-forward block"),
    ONLY("attention.head_count", 0, "the layers have no attention"),
    KEYS_END,
};

/* Return the width of a head: a number, or "auto". All heads must have the width d_inner. */
static int head_of(struct binder *b, int64_t d_inner, int n_head)
{
    static const char key[] = "ssm.head_dim", heads_key[] = "ssm.time_step_rank";
    const struct meta *m = config_meta(b, key);
    if (b->rc != 0) return 1;
    if (d_inner % n_head)
        config_refuse(b, heads_key, ERR_FORMAT, "must be a divisor of the width %lld, got %d",
                      (long long)d_inner, n_head);
    if ((!m && isnan(config_default(b, key))) || config_is_text(m, "auto")) {
        if (d_inner / n_head > D_HEAD_MAX)
            config_refuse(b, heads_key, ERR_LIMIT, "must give heads of at most %d, got %lld",
                          D_HEAD_MAX, (long long)(d_inner / n_head));
        return b->rc == 0 ? (int)(d_inner / n_head) : 1;
    }
    const int d = config_int(b, key, 1, D_HEAD_MAX, 0);
    if (b->rc == 0 && (int64_t)d * n_head != d_inner)
        config_refuse(b, key, ERR_FORMAT, "must give the width %lld with %d heads, got %d",
                      (long long)d_inner, n_head, d);
    return d;
}

void mamba2_read_sizes(struct mamba2_sizes *s, struct binder *b, int64_t d_inner)
{
    static const char heads_key[] = "ssm.time_step_rank";
    s->n_head = config_int(b, heads_key, 1, HEADS_MAX, 0);
    s->d_head = d_inner > 0 ? head_of(b, d_inner, s->n_head)
                            : config_int(b, "ssm.head_dim", 1, D_HEAD_MAX, 0);
    s->n_group = config_int(b, "ssm.group_count", 1, HEADS_MAX, 0);
    s->d_state = config_int(b, "ssm.state_size", 1, D_HEAD_MAX, 0);
    s->n_tap = config_int(b, "ssm.conv_kernel", 2, TAPS_MAX, 0);
    if (b->rc == 0 && (int64_t)s->n_head * s->d_head > WIDTH_MAX)
        config_refuse(b, heads_key, ERR_LIMIT, "must give a width of at most %d, got %lld",
                      WIDTH_MAX, (long long)s->n_head * s->d_head);
    if (b->rc == 0 && s->n_head % s->n_group)
        config_refuse(b, heads_key, ERR_FORMAT, "must be a multiple of %d, got %d", s->n_group,
                      s->n_head);
}

/* Return a limit of time steps in a GGUF; 0 if there is none. */
static float gguf_limit(struct binder *b, const char *key)
{
    const double limit = config_real(b, key, 0);
    if (limit < 0) config_refuse(b, key, ERR_FORMAT, "must be at least 0, got %g", limit);
    return (float)limit;
}

void mamba2_read_gguf(struct mamba2_sizes *s, struct binder *b)
{
    static const char most[] = "ssm.time_step_max";
    const struct config *c = &b->m->config;
    mamba2_read_sizes(s, b, config_int(b, "ssm.inner_size", 1, WIDTH_MAX, 0));
    s->step_least = gguf_limit(b, "ssm.time_step_min");
    s->step_max = gguf_limit(b, most);
    if (s->step_max > 0 && s->step_max < s->step_least)
        config_refuse(b, most, ERR_FORMAT, "must be 0 or at least %g, got %g",
                      (double)s->step_least, (double)s->step_max);
    int il = 0;
    while (!b->m->arch->no_attention && il + 1 < c->n_layer && !c->layer[il].recurrent) il++;
    s->biased = bind_has_bias(b, "blk.%d.ssm_in", il);
    s->o_biased = bind_has_bias(b, "blk.%d.ssm_out", il);
    s->conv_biased = bind_has_bias(b, "blk.%d.ssm_conv1d", il);
}

static void config(struct config *c, struct binder *b)
{
    struct mamba2_sizes *s = bind_memory(b, "the sizes of recurrent layers", sizeof *s);
    if (!s) return;
    if (config_is_hf(b)) {
        mamba2_read_sizes(s, b, (int64_t)config_int(b, "config.expand", 1, 1 << 10, 0) * c->d);
        s->biased = s->o_biased = config_bool(b, "config.use_bias", false);
        s->conv_biased = config_bool(b, "config.use_conv_bias", true);
        mamba2_read_limit(s, b);
    } else {
        mamba2_read_gguf(s, b);
    }
    c->own = s, c->own_bytes = sizeof *s;
    for (int i = 0; i < c->n_layer; i++) c->layer[i].recurrent = true;
}

static int64_t size(const struct config *c, enum tensor_size size)
{
    return mamba2_size(c->own, size);
}

struct mamba2_layer {
    struct norm norm;
    struct mamba2_block mixer;
};

static void bind(struct binder *b, void *layer, int il)
{
    struct mamba2_layer *l = layer;
    bind_norm(b, &l->norm, "blk.%d.attn_norm", il);
    bind_mamba2(b, &l->mixer, il, b->m->config.own);
}

static void layer(struct fwd *f, const void *layer)
{
    const struct mamba2_layer *l = layer;
    fwd_mamba2_add(f, f->x, fwd_normed(f, f->x, &l->norm), &l->mixer);
}

const struct arch arch_mamba2 = {
    .name = "mamba2",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .convert = &mamba2_convert,
    .no_rope = true,
    .no_attention = true,
    .layer_bytes = sizeof(struct mamba2_layer),
    .size = size,
    .config = config,
    .bind = bind,
    .layer = layer,
};
