/* rwkv.c - RWKV-4 ("RWKV: Reinventing RNNs for the Transformer Era", arXiv 2305.13048): only
 * recurrent layers. The residual stream begins with a norm of the embedding. */
#include "rwkv_arch_impl.h"

#define OUTPUT_EPSILON 1e-5f /* epsilon of the last norm, a constant of the classes */

/* number of halvings for which the factor 4^n of an epsilon is not finite in f32 */
enum { HALVINGS_MAX = 64 };

static const struct config_key hf_key[] = {
    KEY("vocab_size", 50277),
    KEY("embedding_length", 4096),
    KEY("block_count", 32),
    RWKV_HF_KEYS,
    KEYS_END,
};

struct rwkv_sizes *rwkv_read_sizes(struct config *c, struct binder *b, int64_t d_ff)
{
    struct rwkv_sizes *s = bind_memory(b, "the sizes of recurrent layers", sizeof *s);
    if (!s) return NULL;
    c->own = s, c->own_bytes = sizeof *s;
    const bool hf = config_is_hf(b);
    s->d_att = hf ? config_int(b, "config.attention_hidden_size", 1, WIDTH_MAX, c->d) : c->d;
    const char *key = hf ? "config.rescale_every" : "rescale_every_n_layers";
    s->rescale = config_int(b, key, INT32_MIN, INT32_MAX, hf ? 6 : 0);
    if (s->rescale < 0) s->rescale = 0;
    if (s->rescale > 0 && c->n_layer / s->rescale >= HALVINGS_MAX)
        config_refuse(b, key, ERR_UNSUPPORTED, "must be 0 or at least %d for %d layers, got %d",
                      c->n_layer / HALVINGS_MAX + 1, c->n_layer, s->rescale);
    c->d_ff = config_int(b, "feed_forward_length", 1, D_FF_MAX, hf ? d_ff : 0);
    for (int i = 0; i < c->n_layer; i++) c->layer[i].recurrent = true, c->layer[i].d_ff = c->d_ff;
    return s;
}

int64_t rwkv_arch_size(const struct config *c, enum tensor_size size)
{
    return rwkv_size(c->own, size);
}

static void config(struct config *c, struct binder *b)
{
    rwkv_read_sizes(c, b, 4 * (int64_t)c->d);
}

/* The class halves the residual stream after every `rescale` layers, and halves the matrices that
 * add to it as often. The norms make the factor invisible, except for their epsilon: a norm of x/2
 * with e equals a norm of x with 4 e. */
static void scale_eps(struct norm *n, const struct config *c, int n_done)
{
    const struct rwkv_sizes *s = c->own;
    if (s->rescale > 0) n->eps *= (float)pow(4, n_done / s->rescale);
}

float rwkv_divisor(const struct config *c, int il)
{
    const struct rwkv_sizes *s = c->own;
    return s->rescale > 0 && il >= s->rescale ? (float)exp2(il / s->rescale) : 0;
}

void rwkv_bind(struct binder *b, void *layer, int il)
{
    struct rwkv_layer *l = layer;
    bind_norm(b, &l->time_norm, "blk.%d.attn_norm", il);
    bind_time(b, &l->time, il, b->m->config.own);
    bind_norm(b, &l->channel_norm, "blk.%d.attn_norm_2", il);
    bind_channel(b, &l->channel, il, l->time.s.rank_mix == 0);
    scale_eps(&l->time_norm, &b->m->config, il);
    scale_eps(&l->channel_norm, &b->m->config, il);
    if (!config_is_hf(b)) l->time.factor = l->channel.factor = rwkv_divisor(&b->m->config, il);
}

void rwkv_bind_ends(struct binder *b, void *ends)
{
    struct decoder_ends *e = ends;
    decoder_bind(b, ends);
    e->norm.eps = OUTPUT_EPSILON;
    scale_eps(&e->norm, &b->m->config, b->m->config.n_layer);
}

/* The result of the norm is in f->h. Mixing needs it until all inputs are computed. */
void rwkv_layer(struct fwd *f, const void *layer)
{
    const struct rwkv_layer *l = layer;
    fwd_norm(f, f->h, f->x, &l->time_norm);
    fwd_time_add(f, f->x, f->h, &l->time);
    fwd_norm(f, f->h, f->x, &l->channel_norm);
    fwd_channel_add(f, f->x, f->h, &l->channel);
}

const struct arch arch_rwkv = {
    .name = "rwkv",
    .hf_key = hf_key,
    .gguf_why = "llama.cpp has no such architecture",
    .config = config,
    RWKV_ARCH,
};
