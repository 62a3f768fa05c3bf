/* encoder.c - the ends of an encoder (BERT, arXiv 1810.04805): embeddings of tokens, learned
 * positions and segments before the layers, hidden states after the layers. The architecture's
 * table of tensors defines which norms exist: a norm of the embeddings, a norm after the layers, or
 * both norms. */
#include "model/model_impl.h"

int encoder_segments(struct binder *b)
{
    enum { SEGMENTS_MAX = 1 << 16 };
    if (config_is_hf(b)) return config_int(b, "config.type_vocab_size", 0, SEGMENTS_MAX, 0);
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, "token_types.weight");
    return t && t->dim[1] <= SEGMENTS_MAX ? (int)t->dim[1] : 0;
}

void encoder_bind(struct binder *b, void *ends)
{
    struct encoder_ends *e = ends;
    struct config *c = &b->m->config;
    bind_vocab(b);
    if (b->rc != 0) return;
    bind_table(b, &e->token, "token_embd", 0);
    if (c->n_position > 0)
        bind_table(b, &e->position, "position_embd", c->position0 - (c->pads_apart ? 1 : 0));
    if (c->pads_apart) e->at_place = bind_rows(b, "positions of tokens", 1);
    if (c->n_segment > 0) bind_table(b, &e->segment, "token_types", 0);
    if (bind_row(b, "token_embd_norm")) bind_norm(b, &e->embd_norm, "token_embd_norm", -1);
    if (bind_row(b, "output_norm")) bind_norm(b, &e->norm, "output_norm", -1);
}

/* Return the rows of the table of positions, on the device, for a model with pads_apart. Row 0 is
 * that of a padding token. Row n is that of the n-th other token, because a step has all rows of
 * its texts. */
static const int32_t *places(struct fwd *f, const struct encoder_ends *e)
{
    const struct batch *b = f->batch;
    int32_t *place = fwd_host_ids(f, e->at_place);
    for (int s = 0; s < b->n_seq; s++)
        for (int i = b->row0[s], n = 0; i < b->row0[s + 1]; i++)
            place[i] = b->token[i] == f->m->config.pad ? 0 : ++n;
    return fwd_put_ids(f, e->at_place);
}

/* Add the embeddings in the order of the reference. */
void encoder_embed(struct fwd *f, const void *ends)
{
    const struct encoder_ends *e = ends;
    struct backend *b = f->m->backend;
    const float scale = f->m->config.embed_scale;
    fwd_embed(f, f->x, &e->token);
    if (scale != 1) fwd_scale(f, f->x, scale);
    if (e->segment.data) {
        b->op->embed(b, f->y, &e->segment, f->on_device->segment, f->n_row);
        fwd_add(f, f->x, f->y);
    }
    if (f->m->config.pads_apart) {
        b->op->embed(b, f->y, &e->position, places(f, e), f->n_row);
        fwd_add(f, f->x, f->y);
    } else {
        fwd_position(f, &e->position);
    }
    if (e->embd_norm.g) fwd_norm(f, f->x, f->x, &e->embd_norm);
}

struct model_out encoder_output(struct fwd *f, const void *ends)
{
    const struct encoder_ends *e = ends;
    float *h = fwd_wanted(f);
    if (e->norm.g) fwd_norm(f, h, h, &e->norm);
    return (struct model_out){.logits = h, .hidden = h, .n_hidden = f->n_row};
}
