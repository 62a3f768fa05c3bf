/* gemma3n.c - Gemma 3n, text: layers of Gemma 3 with values normalized per head, over several
 * residual streams (block/altup.c). A learned residual of low rank is added next to attention
 * ("LAUREL", arXiv 2411.07501). The gates of the first layers are sparse. Each layer has its own
 * input (block/input.c). The last layers use the keys and values of earlier layers
 * (block/attn.c). */
#include "gemma_impl.h"

struct gemma3n_ends {
    /* first member, because the functions of a decoder receive its address */
    struct decoder_ends decoder;
    struct other_embeddings others;
    struct layer_inputs inputs;
    struct altup_ends altup;
};

struct gemma3n_layer {
    struct decoder_layer decoder;
    struct altup_block altup;
    struct linear laurel_left, laurel_right; /* matrices [d_laurel, d] and [d, d_laurel] */
    struct norm laurel_norm;
    struct input_block input;
    const float *scale; /* factors of the active stream, borrowed f32 [d]; NULL if none */
    bool cuts_gates;
    float gate_cut;
    int at_laurel;
};

/* ---- binding ---- */

static void bind_ends(struct binder *b, void *ends)
{
    struct gemma3n_ends *e = ends;
    const struct gemma_own *own = b->m->config.own;
    bind_inputs(b, &e->inputs, own->d_input, own->n_input);
    bind_altup_ends(b, &e->altup, own->n_stream);
    bind_others(b, &e->others);
    decoder_bind(b, &e->decoder);
}

/* Bind the factors of the layer's input, unless config.json disables the factors. */
static void bind_scale(struct binder *b, const float **scale, int il)
{
    char name[160];
    const int n = b->m->config.d;
    bind_name(b, name, "blk.%d.altup_correct_scale", il, "weight");
    *scale = bind_required(b, name, n);
    const struct gemma_own *own = b->m->config.own;
    if (own->scales)
        bind_vector(b, scale, n);
    else
        *scale = NULL;
}

static void bind(struct binder *b, void *layer, int il)
{
    struct gemma3n_layer *l = layer;
    const struct gemma_own *own = b->m->config.own;
    decoder_bind_layer(b, &l->decoder, il);
    bind_altup(b, &l->altup, il, own->n_stream, own->active);
    bind_linear(b, &l->laurel_left, "blk.%d.laurel_l", il, BIAS_NONE);
    bind_linear(b, &l->laurel_right, "blk.%d.laurel_r", il, BIAS_NONE);
    bind_norm(b, &l->laurel_norm, "blk.%d.laurel_post_norm", il);
    bind_input(b, &l->input, il, own->d_input);
    bind_scale(b, &l->scale, il);
    l->cuts_gates = b->m->config.layer[il].cuts_gates;
    l->gate_cut = b->m->config.layer[il].gate_cut;
    l->at_laurel = bind_rows(b, "laurel", own->d_laurel);
}

/* ---- the forward pass ---- */

static void embed(struct fwd *f, const void *ends)
{
    const struct gemma3n_ends *e = ends;
    decoder_embed(f, &e->decoder);
    fwd_others(f, &e->others);
    fwd_inputs(f, &e->inputs);
    fwd_split(f, &e->altup);
}

/* Set f->x to (a + post(attn h) + laurel h) / sqrt(2). h is the norm of the active prediction a,
 * and laurel h is h + norm(right(left h)). */
static void attend(struct fwd *f, const struct gemma3n_layer *l, const float *a)
{
    const struct decoder_layer *d = &l->decoder;
    float *low = fwd_at(f, l->at_laurel);
    fwd_norm(f, f->h, a, &d->attn_norm);
    fwd_linear(f, low, &l->laurel_left, f->h, f->n_row);
    fwd_linear(f, f->x, &l->laurel_right, low, f->n_row);
    fwd_norm(f, f->x, f->x, &l->laurel_norm);
    fwd_add(f, f->x, f->h);
    fwd_attn(f, f->y, fwd_plain(f->h), &d->attn);
    fwd_norm(f, f->y, f->y, &d->attn_post);
    fwd_add(f, f->x, f->y);
    fwd_add(f, f->x, a);
    fwd_scale(f, f->x, (float)(1 / sqrt(2)));
}

/* Add the layer's input to all streams except the first. The active stream is the gate of the
 * layer's input. */
static void add_input(struct fwd *f, const struct gemma3n_layer *l)
{
    const float *x = fwd_prediction(f, &l->altup, l->altup.active);
    if (l->scale) {
        fwd_scale_columns(f, f->h, x, l->scale);
        x = f->h;
    }
    fwd_input(f, f->y, x, &l->input);
    for (int i = 1; i < l->altup.n_stream; i++) fwd_add(f, fwd_prediction(f, &l->altup, i), f->y);
}

static void layer(struct fwd *f, const void *layer)
{
    const struct gemma3n_layer *l = layer;
    const struct decoder_layer *d = &l->decoder;
    fwd_predict(f, &l->altup);
    attend(f, l, fwd_prediction(f, &l->altup, l->altup.active));
    if (l->cuts_gates)
        fwd_ffn_cut(f, f->y, fwd_normed(f, f->x, &d->ffn_norm), &d->feed.ffn, l->gate_cut);
    else
        fwd_ffn(f, f->y, fwd_normed(f, f->x, &d->ffn_norm), &d->feed.ffn);
    fwd_norm(f, f->y, f->y, &d->ffn_post);
    fwd_add(f, f->x, f->y);
    fwd_correct(f, f->x, &l->altup);
    add_input(f, l);
}

static struct model_out output(struct fwd *f, const void *ends)
{
    const struct gemma3n_ends *e = ends;
    float *h = fwd_merge(f, &e->altup);
    fwd_norm(f, h, h, &e->decoder.norm);
    struct model_out out = fwd_head(f, h, &e->decoder);
    fwd_softcap(f, &out, f->m->config.logit_softcap);
    return out;
}

const struct arch arch_gemma3n = {
    .name = "gemma3n",
    .convert = &gemma3n_convert,
    .hf_key = gemma3n_hf_key,
    .gguf_key = gemma3n_gguf_key,
    .gguf_neox = true,
    .gguf_lists = true,
    .hf_lists = true,
    .curve = CURVE_gelu_tanh,
    .ends_bytes = sizeof(struct gemma3n_ends),
    .layer_bytes = sizeof(struct gemma3n_layer),
    .size = gemma_size,
    .config = gemma3n_config,
    .bind_ends = bind_ends,
    .bind = bind,
    .embed = embed,
    .layer = layer,
    .output = output,
};
