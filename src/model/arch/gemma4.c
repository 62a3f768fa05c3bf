/* gemma4.c - Gemma 4, text: layers of Gemma 3, with values normalized per head. Layers without a
 * window differ from sliding layers in the sizes of heads, and their rope leaves the last lanes
 * unchanged. In some models, the values of layers without a window are the keys before the norm. In
 * some models, the last layers use the keys and values of earlier layers (block/attn.c). In some
 * models, each layer has its own input (block/input.c). In some models, a mixture of experts is
 * parallel to the feed-forward block. */
#include "gemma_impl.h"

struct gemma4_ends {
    /* first member, because the functions of a decoder receive its address */
    struct decoder_ends decoder;
    struct layer_inputs inputs;
};

/* The mixture of a layer. moe.n_expert is 0 if the layer has none. */
struct gemma4_mixture {
    struct moe_block moe;
    struct norm router_norm, norm; /* norms of the inputs of the router and of the experts */
    /* norms of the results of the feed-forward block and of the mixture */
    struct norm dense_post, mixture_post;
    int at_sum;
};

struct gemma4_layer {
    struct decoder_layer decoder;
    struct gemma4_mixture mixture;
    struct input_block input;
    float scale; /* factor of the residual stream after the layer */
};

/* ---- binding ---- */

/* Bind the ends, and check that the table of inputs has a row for every token. */
static void bind_ends(struct binder *b, void *ends)
{
    struct gemma4_ends *e = ends;
    const struct gemma_own *own = b->m->config.own;
    if (own->d_input > 0) bind_inputs(b, &e->inputs, own->d_input, own->n_input);
    decoder_bind(b, &e->decoder);
    /* number of rows of the embedding if the config lacks vocab_size */
    const int n_vocab = b->m->config.n_vocab;
    if (b->rc == 0 && own->d_input > 0 && own->n_input < n_vocab)
        b->rc = err_set(b->e, ERR_UNSUPPORTED,
                        "%s: vocab_size_per_layer_input: must be at least vocab_size, %d, got %d",
                        checkpoint_path(b->checkpoint), n_vocab, own->n_input);
}

/* Bind the mixture. The router's norm has the weights scale / sqrt(d). */
static void bind_mixture(struct binder *b, struct gemma4_mixture *x, int il)
{
    const struct config *c = &b->m->config;
    bind_moe(b, &x->moe, il);
    bind_norm(b, &x->dense_post, "blk.%d.post_ffw_norm_1", il);
    bind_norm(b, &x->norm, "blk.%d.pre_ffw_norm_2", il);
    bind_norm(b, &x->mixture_post, "blk.%d.post_ffw_norm_2", il);
    x->router_norm = (struct norm){.eps = c->rms_eps, .n = c->d};
    bind_scaled(b, &x->router_norm.g, "ffn_gate_inp.scale", il, c->d, (float)(1 / sqrt(c->d)));
    bind_scaled(b, &x->moe.route.scale,
                config_is_hf(b) ? "ffn_gate_inp.per_expert_scale" : "ffn_down_exps.scale", il,
                x->moe.n_expert, 1);
    x->at_sum = bind_rows(b, "mixture", c->d);
}

static void bind(struct binder *b, void *layer, int il)
{
    struct gemma4_layer *l = layer;
    const struct gemma_own *own = b->m->config.own;
    char name[160];
    decoder_bind_layer(b, &l->decoder, il);
    if (b->m->config.layer[il].n_expert > 0) bind_mixture(b, &l->mixture, il);
    if (own->d_input > 0) bind_input(b, &l->input, il, own->d_input);
    bind_name(b, name, "blk.%d.layer_output_scale", il, "weight");
    const float *scale = b->rc == 0 ? bind_extra(b, name, 1) : NULL;
    l->scale = scale ? *scale : 1;
}

/* ---- the forward pass ---- */

static void embed(struct fwd *f, const void *ends)
{
    const struct gemma4_ends *e = ends;
    decoder_embed(f, &e->decoder);
    if (e->inputs.d_input > 0) fwd_inputs(f, &e->inputs);
}

/* Compute x += post(attn(norm x)); x += post(dense_post(ffn(norm x)) + mixture_post(moe(norm x))).
 * The router and the experts have different norms. */
static void mixed(struct fwd *f, const struct decoder_layer *d, const struct gemma4_mixture *x)
{
    float *sum = fwd_at(f, x->at_sum);
    fwd_attn(f, f->y, fwd_normed(f, f->x, &d->attn_norm), &d->attn);
    fwd_norm(f, f->y, f->y, &d->attn_post);
    fwd_add(f, f->x, f->y);
    fwd_ffn(f, f->y, fwd_normed(f, f->x, &d->ffn_norm), &d->feed.ffn);
    fwd_norm(f, sum, f->y, &x->dense_post);
    fwd_norm(f, f->h, f->x, &x->router_norm);
    fwd_route(f, f->h, &x->moe);
    fwd_norm(f, f->h, f->x, &x->norm);
    fwd_mix(f, f->y, f->h, &x->moe, false);
    fwd_norm(f, f->y, f->y, &x->mixture_post);
    fwd_add(f, sum, f->y);
    fwd_norm(f, sum, sum, &d->ffn_post);
    fwd_add(f, f->x, sum);
}

static void layer(struct fwd *f, const void *layer)
{
    const struct gemma4_layer *l = layer;
    if (l->mixture.moe.n_expert > 0)
        mixed(f, &l->decoder, &l->mixture);
    else
        decoder_layer(f, &l->decoder);
    if (l->input.d_input > 0) {
        fwd_input(f, f->y, f->x, &l->input);
        fwd_add(f, f->x, f->y);
    }
    if (l->scale != 1) fwd_scale(f, f->x, l->scale);
}

static const struct rope_type rope_type[] = {
    ROPE_TYPES, {"proportional", ROPE_PROPORTIONAL, NULL}, ROPE_TYPES_END};

const struct arch arch_gemma4 = {
    .name = "gemma4",
    .convert = &gemma4_convert,
    .hf_key = gemma4_hf_key,
    .gguf_key = gemma4_gguf_key,
    .gguf_neox = true,
    .gguf_lists = true,
    .rope_type = rope_type,
    .curve = CURVE_gelu_tanh,
    .ends_bytes = sizeof(struct gemma4_ends),
    .layer_bytes = sizeof(struct gemma4_layer),
    .size = gemma_size,
    .config = gemma4_config,
    .bind_ends = bind_ends,
    .bind = bind,
    .embed = embed,
    .layer = layer,
};
