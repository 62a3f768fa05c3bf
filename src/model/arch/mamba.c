/* mamba.c - Mamba ("Linear-Time Sequence Modeling with Selective State Spaces", arXiv 2312.00752):
 * only recurrent layers. A layer adds its block to the residual stream, after a norm. GGUF files of
 * Falcon-Mamba also have this architecture, with a key for the norms of dt, B and C. */
#include "mamba_impl.h"

static const struct config_key hf_key[] = {MAMBA_HF_KEYS, KEYS_END};

static const struct config_key gguf_key[] = {
    KEY_UNSET("ssm.conv_kernel"),
    KEY_UNSET("ssm.state_size"),
    KEY_UNSET("ssm.inner_size"),
    KEY_UNSET("ssm.time_step_rank"),
    KEY("ssm.dt_b_c_rms", 0),
    ONLY("feed_forward_length", 0, "the layers have no feed-forward block"),
    ONLY("attention.head_count", 0, "the layers have no attention"),
    KEYS_END,
};

/* Return the width of compressed time steps: a number, or "auto" in a config.json. */
static int rank_of(struct binder *b, int d)
{
    static const char key[] = "ssm.time_step_rank";
    const struct meta *m = config_meta(b, key);
    if (config_is_hf(b) && (!m || config_is_text(m, "auto"))) return (d + 15) / 16;
    return config_int(b, key, 1, WIDTH_MAX, 0);
}

/* Return the width of the scan: a number, or a multiple of the width of the model. */
static int inner_of(struct binder *b, int d)
{
    static const char key[] = "ssm.inner_size", expand[] = "config.expand",
                      hybrid[] = "config.mamba_expand";
    const char *expand_key = config_has(b, hybrid) ? hybrid : expand;
    if (!config_is_hf(b)) return config_int(b, key, 1, WIDTH_MAX, 0);
    const int64_t times = config_int(b, expand_key, 1, WIDTH_MAX, 0);
    if (config_meta(b, key)) return config_int(b, key, 1, WIDTH_MAX, 0);
    if (b->rc == 0 && times * d > WIDTH_MAX)
        config_refuse(b, expand_key, ERR_LIMIT, "must give a width of at most %d, got %lld",
                      WIDTH_MAX, (long long)(times * d));
    return b->rc == 0 ? (int)(times * d) : 1;
}

void mamba_read_sizes(struct mamba_sizes *s, struct config *c, struct binder *b)
{
    s->n_tap = config_int(b, "ssm.conv_kernel", 2, TAPS_MAX, 0);
    s->d_state = config_int(b, "ssm.state_size", 1, D_HEAD_MAX, 0);
    s->d_inner = inner_of(b, c->d);
    s->rank = rank_of(b, c->d);
}

void mamba_config(struct config *c, struct binder *b, const char *eps_key)
{
    const bool hf = config_is_hf(b);
    struct mamba_sizes *s = bind_memory(b, "the sizes of recurrent layers", sizeof *s);
    if (!s) return;
    mamba_read_sizes(s, c, b);
    s->biased =
        hf ? config_bool(b, "config.use_bias", false) : bind_has_bias(b, "blk.%d.ssm_in", 0);
    s->conv_biased = hf ? config_bool(b, "config.use_conv_bias", true)
                        : bind_has_bias(b, "blk.%d.ssm_conv1d", 0);
    s->normed = hf ? eps_key != NULL : config_bool(b, "ssm.dt_b_c_rms", false);
    if (s->normed) s->norm_eps = eps_key ? (float)config_real(b, eps_key, NAN) : c->rms_eps;
    if (b->rc == 0 && s->normed && !(s->norm_eps >= 0))
        config_refuse(b, eps_key ? eps_key : "attention.layer_norm_rms_epsilon", ERR_FORMAT,
                      "must be at least 0, got %g", (double)s->norm_eps);
    c->own = s, c->own_bytes = sizeof *s;
    for (int i = 0; i < c->n_layer; i++) c->layer[i].recurrent = true;
}

int64_t mamba_arch_size(const struct config *c, enum tensor_size size)
{
    return mamba_size(c->own, size);
}

void mamba_bind(struct binder *b, void *layer, int il)
{
    struct mamba_layer *l = layer;
    bind_norm(b, &l->norm, "blk.%d.attn_norm", il);
    bind_mamba(b, &l->mixer, il, b->m->config.own);
}

void mamba_layer(struct fwd *f, const void *layer)
{
    const struct mamba_layer *l = layer;
    fwd_mamba_add(f, f->x, fwd_normed(f, f->x, &l->norm), &l->mixer);
}

static void config(struct config *c, struct binder *b)
{
    mamba_config(c, b, NULL);
}

const struct arch arch_mamba = {
    .name = "mamba",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .config = config,
    MAMBA_ARCH,
};
