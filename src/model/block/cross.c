/* cross.c - a model of encoder and decoder ("Attention Is All You Need", arXiv 1706.03762). A
 * sequence is a source, then a target, at consecutive positions:
 *
 *   positions     0 ... source - 1          source ... kv_len - 1
 *   layers        the encoder's             the decoder's
 *   pages         K and V of the encoder's  K and V of the decoder's layers
 *                 output, for each layer
 *                 of the decoder
 *
 * Both kinds of attention of a decoder layer therefore use one page table. Self-attention reads the
 * positions of the target, and cross-attention the positions of the source (enum attn_part). All
 * rows of a source are computed in one step. During the encoder's computation, the pages of the
 * source contain K and V of the encoder's current layer. */
#include "model/model_impl.h"

#include <stdio.h>
#include <string.h>

void bind_check_copies(struct binder *b)
{
    static const char name[] = "token_embd";
    const struct tensor_info *own = checkpoint_tensor(b->checkpoint, "token_embd.weight");
    const char *alias;
    for (int i = 0; own && (alias = tensor_alias(b->m->arch->name, name, i)); i++) {
        char raw[160];
        snprintf(raw, sizeof raw, "%s.weight", alias);
        const struct tensor_info *t = bind_find(b, raw);
        if (!t) continue;
        const bool same = t->type == own->type && t->n_byte == own->n_byte && t->data &&
                          memcmp(t->dim, own->dim, sizeof t->dim) == 0 &&
                          memcmp(t->data, own->data, t->n_byte) == 0;
        if (!same && b->rc == 0)
            b->rc = err_set(b->e, ERR_UNSUPPORTED,
                            "%s: tensor %s: must equal %s: other embeddings of an encoder or a "
                            "decoder are not supported yet",
                            checkpoint_path(b->checkpoint), raw, own->name_raw);
    }
}

/* Check that the first tokens of a target are in the vocabulary. */
static void check_starts(struct binder *b)
{
    const struct config *c = &b->m->config;
    for (int i = 0; i < c->n_start && b->rc == 0; i++)
        if (c->start[i] >= c->n_vocab)
            config_refuse(b, i ? "forced_bos_token_id" : "decoder_start_token_id", ERR_FORMAT,
                          "must be in [0, %d), got %d", c->n_vocab, c->start[i]);
}

/* Encoder and decoder share one embedding. The decoder's head is bound last. */
void cross_bind_ends(struct binder *b, void *ends)
{
    struct cross_ends *e = ends;
    b->part = "enc.";
    encoder_bind(b, &e->encoder);
    b->part = "dec.";
    if (b->rc == 0) decoder_bind_inputs(b, &e->decoder);
    if (b->rc == 0 && bind_row(b, "output_norm")) bind_norm(b, &e->decoder.norm, "output_norm", -1);
    if (b->rc == 0) decoder_bind_head(b, &e->decoder);
    if (b->rc == 0) bind_check_copies(b);
    if (b->rc == 0) check_starts(b);
}

void bind_cross(struct binder *b, struct cross_block *c, int il)
{
    const struct config *config = &b->m->config;
    const struct layer_config *l = &config->layer[il];
    bind_linear(b, &c->q, "blk.%d.cross_attn_q", il, config->qkv_bias);
    bind_linear(b, &c->k, "blk.%d.cross_attn_k", il, config->qkv_bias);
    bind_linear(b, &c->v, "blk.%d.cross_attn_v", il, config->qkv_bias);
    bind_linear(b, &c->o, "blk.%d.cross_attn_o", il, config->o_bias);
    c->spec = (struct attn_spec){.part = ATTN_SOURCE,
                                 .n_head = l->n_head,
                                 .n_head_kv = l->n_head_kv,
                                 .d_k = l->d_head,
                                 .d_v = l->d_head,
                                 .scale = l->attn_scale};
    c->il = il;
    c->at_q = bind_rows(b, "q", (int64_t)l->n_head * l->d_head);
    c->at_k = bind_rows(b, "k", (int64_t)l->n_head_kv * l->d_head);
    c->at_v = bind_rows(b, "v", (int64_t)l->n_head_kv * l->d_head);
    c->at_attn = bind_rows(b, "attn", (int64_t)l->n_head * l->d_head);
}

/* Store K and V of the encoder's output x f32 [n_row, d]. */
static void put_source(struct fwd *f, const float *x, const struct cross_block *c)
{
    struct backend *b = f->m->backend;
    float *k = fwd_at(f, c->at_k), *v = fwd_at(f, c->at_v);
    const struct input in = fwd_plain(x);
    fwd_linears(f, (const struct output[]){{&c->k, k}, {&c->v, v}}, 2, &in);
    b->op->kv_put(b, &f->m->kv.layer[c->il], k, v, f->on_device->slot, f->n_row);
}

void fwd_source(struct fwd *f)
{
    const struct model *m = f->m;
    const struct cross_ends *e = m->ends;
    encoder_embed(f, &e->encoder);
    trace(f, "source_embd", f->x, m->config.d);
    fwd_layers(f, 0, m->config.n_encoder);
    if (e->encoder.norm.g) fwd_norm(f, f->x, f->x, &e->encoder.norm);
    trace(f, "source", f->x, m->config.d);
    for (int il = m->config.n_encoder; il < m->config.n_layer; il++) {
        const struct decoder_layer *l = m->layer;
        put_source(f, f->x, &l[il].cross);
    }
}

/* Compute the attention of `in` to the source, without the output projection. */
static void attend(struct fwd *f, struct input in, const struct cross_block *c)
{
    struct backend *b = f->m->backend;
    float *q = fwd_at(f, c->at_q), *attn = fwd_at(f, c->at_attn);
    fwd_linears(f, &(struct output){&c->q, q}, 1, &in);
    b->op->attn(b, attn, q, &f->m->kv.layer[c->il], f->on_device, &c->spec);
    trace(f, "cross_attn", attn, (int64_t)c->spec.n_head * c->spec.d_v);
}

void fwd_cross(struct fwd *f, float *y, struct input in, const struct cross_block *c)
{
    attend(f, in, c);
    fwd_linear(f, y, &c->o, fwd_at(f, c->at_attn), f->n_row);
}

void fwd_cross_add(struct fwd *f, float *x, struct input in, const struct cross_block *c)
{
    attend(f, in, c);
    fwd_linear_add(f, x, &c->o, fwd_at(f, c->at_attn));
}
