/* falcon_h1.c - Falcon-H1 (arXiv 2507.22448): attention and Mamba-2 in each layer read one norm of
 * the residual stream, and both results are added. The class has factors of many inputs and results
 * (muP). The factors of inputs are applied to results, and biases are divided by them. The tensors
 * of a GGUF are already multiplied by the factors.
 *
 *   x += s * mamba2(norm x) + o * attn(i * norm x);  x += d * down(curve(g * gate h) * up h) */
#include "falcon_h1_impl.h"

#include <string.h>

/* defaults of FalconH1Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 128000),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 14336),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 8),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 8192),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.mlp_bias", 0),
    KEY("config.projectors_bias", 0),
    KEY("config.mamba_d_ssm", 1024),
    KEY("config.mamba_rms_norm", 0),
    KEY("config.mamba_norm_before_gate", 1),
    KEY("config.embedding_multiplier", 1),
    KEY("config.lm_head_multiplier", 1),
    KEY("config.attention_in_multiplier", 1),
    KEY("config.attention_out_multiplier", 1),
    KEY("config.key_multiplier", 1),
    KEY("config.ssm_in_multiplier", 1),
    KEY("config.ssm_out_multiplier", 1),
    KEY_UNSET("config.ssm_multipliers"),
    KEY_UNSET("config.mlp_multipliers"),
    MAMBA2_HYBRID_KEYS,
    IDLE("config.mamba_use_mlp", "field of the original code, which the class only stores"),
    IDLE("config.mlp_expansion_factor", "field of the original code, which the class only stores"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    MAMBA2_GGUF_KEYS,
    KEYS_END,
};

void falcon_h1_unscale(struct mamba2_sizes *s)
{
    s->scaled = 0, s->in_scale = 0;
    memset(s->part_scale, 0, sizeof s->part_scale);
}

const struct falcon_h1_own falcon_h1_folded = {
    .attn_in = 1, .key = 1, .attn_out = 1, .ssm_out = 1, .gate = 1, .down = 1};

/* Read a list of n factors; all are 1 if the list is null. */
static void factors(struct binder *b, const char *key, float *v, size_t n)
{
    char text[80];
    const struct meta *list = config_meta(b, key);
    for (size_t i = 0; i < n; i++) v[i] = 1;
    if (meta_kind(list) == META_NONE) return;
    bool good = meta_kind(list) == META_LIST && meta_count(list) == n;
    for (size_t i = 0; i < n && good; i++) {
        v[i] = (float)meta_item_real(list, i, NAN);
        good = config_fits(meta_item_real(list, i, NAN));
    }
    if (!good)
        config_refuse(b, key, ERR_FORMAT, "must be a list of %zu numbers, got %s", n,
                      config_value_text(list, text));
}

/* Return a factor of an input. Biases are divided by it. */
static float input_factor(struct binder *b, const char *key)
{
    const double x = config_real(b, key, 1);
    if (b->rc == 0 && (float)x == 0)
        config_refuse(b, key, ERR_UNSUPPORTED, "must not be 0: not supported yet");
    return b->rc == 0 ? (float)x : 1;
}

/* Read the sizes and factors of Mamba-2. */
static void read_mamba(struct config *c, struct binder *b, struct falcon_h1_own *own)
{
    static const char width[] = "config.mamba_d_ssm", parts[] = "config.ssm_multipliers";
    const struct meta *m = config_meta(b, width);
    const bool none = m && meta_kind(m) == META_NONE;
    struct mamba2_sizes *s =
        mamba2_hybrid_sizes(c, b, none ? 0 : config_int(b, width, 1, WIDTH_MAX, 0));
    if (!s) return;
    s->o_biased = config_bool(b, "config.projectors_bias", false);
    s->no_norm = !config_bool(b, "config.mamba_rms_norm", false);
    const bool before = config_bool(b, "config.mamba_norm_before_gate", true);
    s->norm_first = !s->no_norm && before;
    s->in_scale = input_factor(b, "config.ssm_in_multiplier");
    factors(b, parts, s->part_scale, 5);
    /* the biases of time steps are divided by this product */
    const double steps = (double)s->in_scale * (double)s->part_scale[4];
    if (b->rc == 0 && (steps == 0 || !config_fits(steps)))
        config_refuse(b, parts, ERR_UNSUPPORTED,
                      "[4]: must give a normal number of float32 with ssm_in_multiplier, got %g",
                      steps);
    s->scaled = s->in_scale != 1;
    for (int i = 0; i < 5; i++) s->scaled |= s->part_scale[i] != 1;
    if (!s->scaled) falcon_h1_unscale(s);
    own->mamba = *s;
}

static void config(struct config *c, struct binder *b)
{
    struct falcon_h1_own *own = bind_memory(b, "factors of layers", sizeof *own);
    float ffn[2];
    if (!own) return;
    if (!config_is_hf(b)) {
        *own = falcon_h1_folded;
        mamba2_read_gguf(&own->mamba, b);
        own->mamba.no_norm = !bind_has(b, "blk.%d.ssm_norm", 0);
        c->own = own, c->own_bytes = sizeof *own;
        return;
    }
    read_mamba(c, b, own);
    factors(b, "config.mlp_multipliers", ffn, 2);
    if (b->rc == 0 && ffn[0] == 0)
        config_refuse(b, "config.mlp_multipliers", ERR_UNSUPPORTED,
                      "[0]: must not be 0: not supported yet");
    own->gate = ffn[0], own->down = ffn[1];
    own->attn_in = input_factor(b, "config.attention_in_multiplier");
    own->attn_out = (float)config_real(b, "config.attention_out_multiplier", 1);
    own->ssm_out = (float)config_real(b, "config.ssm_out_multiplier", 1);
    c->embed_scale = (float)config_real(b, "config.embedding_multiplier", 1);
    c->logit_scale = (float)config_real(b, "config.lm_head_multiplier", 1);
    own->key = (float)config_real(b, "config.key_multiplier", 1);
    const float scores = own->attn_in * own->attn_in * own->key;
    for (int i = 0; i < c->n_layer; i++) c->layer[i].attn_scale *= scores;
    c->own = own, c->own_bytes = sizeof *own;
}

struct falcon_h1_layer {
    struct norm attn_norm, ffn_norm;
    struct attn_block attn;
    struct mamba2_block mamba;
    struct ffn_block ffn;
    int at_attn; /* scratch: result of attention [d] */
};

static void bind(struct binder *b, void *layer, int il)
{
    struct falcon_h1_layer *l = layer;
    const struct falcon_h1_own *own = b->m->config.own;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    bind_mamba2(b, &l->mamba, il, &own->mamba);
    bind_attn(b, &l->attn, il);
    struct linear *const of[] = {&l->attn.q, &l->attn.k, &l->attn.v, &l->attn.o};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) bind_divide_bias(b, of[i], own->attn_in);
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm", il);
    bind_ffn(b, &l->ffn, il);
    l->ffn.gate_scale = own->gate;
    l->at_attn = bind_rows(b, "hybrid attn", b->m->config.d);
}

static void layer(struct fwd *f, const void *layer)
{
    const struct falcon_h1_layer *l = layer;
    const struct falcon_h1_own *own = f->m->config.own;
    float *attn = fwd_at(f, l->at_attn);
    fwd_mamba2(f, f->y, fwd_normed(f, f->x, &l->attn_norm), &l->mamba);
    fwd_scale(f, f->y, own->ssm_out);
    fwd_attn(f, attn, fwd_normed(f, f->x, &l->attn_norm), &l->attn);
    fwd_scale(f, attn, own->attn_in * own->attn_out);
    fwd_add(f, f->x, f->y);
    fwd_add(f, f->x, attn);
    const float *inner = fwd_ffn_inner(f, fwd_normed(f, f->x, &l->ffn_norm), &l->ffn);
    fwd_linear(f, f->y, &l->ffn.down, inner, f->n_row);
    fwd_scale(f, f->y, own->down);
    fwd_add(f, f->x, f->y);
}

const struct arch arch_falcon_h1 = {
    .name = "falcon-h1",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .convert = &falcon_h1_convert,
    .layer_bytes = sizeof(struct falcon_h1_layer),
    .size = mamba2_hybrid_size,
    .config = config,
    .bind = bind,
    .layer = layer,
};
