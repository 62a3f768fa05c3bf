/* apertus.c - Apertus ("Apertus: Democratizing Open and Compliant LLMs", arXiv 2509.14233). Apertus
 * is a llama with norms of q and k heads. Its feed-forward block has the activation xIELU and no
 * gate. */
#include "model/convert_impl.h"

#include <stdio.h>

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
    IDLE("config.mlp_bias", "field of published files that transformers ignores"),
    IDLE("config.post_norm", "field of published files that transformers ignores"),
    IDLE("config.qk_norm", "field of published files that transformers ignores"),
    KEYS_END,
};

/* Set rope_parameters to the default of the class. A rope_theta at the top level has no effect on
 * this default. */
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

/* Return ln(1 + e^x). */
static double softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}

/* Return a parameter of xIELU: a tensor of one value, or an item of a list in a GGUF's metadata. */
static double xielu_part(struct binder *b, const char *part, int il)
{
    char name[160];
    const float *x = NULL;
    double v = NAN;
    bind_name(b, name, "blk.%d.xielu", il, part);
    if (config_is_hf(b))
        x = bind_required(b, name, 1);
    else {
        snprintf(name, sizeof name, "xielu.%s", part);
        v = meta_item_real(checkpoint_meta(b->checkpoint, name), (size_t)il, NAN);
    }
    if (x) v = (double)*x;
    if (b->rc == 0 && !isfinite(v))
        b->rc = err_set(b->e, ERR_MISSING, "%s: %s of layer %d is missing",
                        checkpoint_path(b->checkpoint), name, il);
    return v;
}

static void bind_xielu(struct binder *b, struct xielu *p, int il)
{
    const double alpha_p = xielu_part(b, "alpha_p", il), alpha_n = xielu_part(b, "alpha_n", il),
                 beta = xielu_part(b, "beta", il), eps = xielu_part(b, "eps", il);
    *p = (struct xielu){.alpha_p = (float)softplus(alpha_p),
                        .alpha_n = (float)(beta + softplus(alpha_n)),
                        .beta = (float)beta,
                        .eps = (float)eps};
}

static void bind(struct binder *b, void *layer, int il)
{
    struct decoder_layer *l = layer;
    decoder_bind_layer(b, l, il);
    if (b->rc != 0 || !b->m->config.own_curve) return;
    struct xielu *p = bind_memory(b, "the parameters of xIELU", sizeof *p);
    if (p) bind_xielu(b, p, il);
    l->feed.ffn.act = fwd_xielu;
    l->feed.ffn.act_param = p;
}

/* ---- conversion ---- */

static const char *const part[] = {"alpha_n", "alpha_p", "beta", "eps"};

/* Write the parameters of xIELU. A directory has each parameter as a tensor of one value. */
static void put_keys(struct key_writer *w)
{
    const int n = w->m->config.n_layer;
    for (size_t p = 0; p < 4 && w->m->config.own_curve; p++) {
        char name[64];
        float v[LAYERS_MAX];
        for (int i = 0; i < n; i++) {
            snprintf(name, sizeof name, "blk.%d.xielu.%s", i, part[p]);
            const struct tensor_info *t = checkpoint_tensor(w->m->checkpoint, name);
            v[i] = 0;
            if (t) qtype_info[t->type].ops->decode(&v[i], t->data, 1);
        }
        snprintf(name, sizeof name, "xielu.%s", part[p]);
        gguf_put_floats(w, name, v, (size_t)n);
    }
}

/* Add the parameters of xIELU, each as a tensor of one value. A GGUF has the parameters as lists.
 * In transformers, two of the tensors are vectors and two have no dimension. */
static int put_tensors(struct conversion *g, const struct hf_class *class, struct err *e)
{
    const int n = g->m->config.n_layer;
    int rc = 0;
    for (int i = 0; i < 4 * n && g->m->config.own_curve && rc == 0; i++) {
        char key[40], name[80], raw[200];
        snprintf(key, sizeof key, "xielu.%s", part[i % 4]);
        snprintf(name, sizeof name, "blk.%d.%s", i / 4, key);
        const double x = meta_item_real(checkpoint_meta(g->c, key), (size_t)(i / 4), 0);
        if (conversion_raw_name(raw, sizeof raw, g, class, name, -1))
            rc = conversion_add_value(g, raw, i % 4 < 2, (float)x, e);
    }
    return rc;
}

static const struct arch_convert own_convert = {
    .key_tensors = ".xielu.", .put_keys = put_keys, .put_tensors = put_tensors};

const struct arch arch_apertus = {
    .name = "apertus",
    .convert = &own_convert,
    .hf_key = hf_key,
    .gguf_neox = true,
    .own_curve = "xielu",
    .config = config,
    .bind = bind,
};
