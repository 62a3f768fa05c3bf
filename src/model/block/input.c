/* input.c - inputs of single layers (Gemma 3n, Gemma 4: per-layer embeddings). A second embedding
 * of the token has a part for each layer. A projection of the first embedding is added to this
 * part.
 *
 *   table[token] * sqrt(d_input) ----------.
 *   x --project--> / sqrt(d) --norm------- + --> / sqrt(2) --> all [n_row, n_layer, d_input]
 *
 *   layer il:  x --gate--> curve --> * all[:, il] --project--> norm --> y */
#include "model/model_impl.h"

/* Return the number of values of the inputs of all rows. */
static int64_t all_values(const struct fwd *f, const struct layer_inputs *s)
{
    return (int64_t)f->n_row * f->m->config.n_layer * s->d_input;
}

void bind_inputs(struct binder *b, struct layer_inputs *s, int d_input, int n_input)
{
    const int64_t n = (int64_t)b->m->config.n_layer * d_input;
    s->d_input = d_input, s->n_input = n_input;
    bind_table(b, &s->table, "per_layer_token_embd", 0);
    bind_linear(b, &s->project, "per_layer_model_proj", -1, BIAS_NONE);
    bind_norm(b, &s->norm, "per_layer_proj_norm", -1);
    s->at_all = bind_rows(b, "layer inputs", n);
    s->at_projected = bind_rows(b, "projected inputs", n);
    s->at_id = bind_rows(b, "input ids", 1);
}

/* Return the rows of the table for the batch's tokens, on the device. As in Gemma 3n, the number of
 * the row is the token's id, or 0 for a token without a row. */
static const int32_t *table_rows(struct fwd *f, const struct layer_inputs *s)
{
    if (s->n_input >= f->m->config.n_vocab) return f->on_device->token;
    int32_t *id = fwd_host_ids(f, s->at_id);
    for (int i = 0; i < f->n_row; i++)
        id[i] = f->batch->token[i] < s->n_input ? f->batch->token[i] : 0;
    return fwd_put_ids(f, s->at_id);
}

void fwd_inputs(struct fwd *f, const struct layer_inputs *s)
{
    const struct config *c = &f->m->config;
    struct backend *b = f->m->backend;
    const int64_t n = all_values(f, s);
    float *all = fwd_at(f, s->at_all), *projected = fwd_at(f, s->at_projected);
    b->op->embed(b, all, &s->table, table_rows(f, s), f->n_row);
    b->op->scale(b, all, n, sqrtf((float)s->d_input));
    fwd_linear(f, projected, &s->project, f->x, f->n_row);
    b->op->scale(b, projected, n, (float)(1 / sqrt(c->d)));
    b->op->rms_norm(b, projected, projected, s->norm.g, f->n_row * c->n_layer, s->d_input,
                    s->norm.eps);
    b->op->add(b, all, projected, n);
    b->op->scale(b, all, n, (float)(1 / sqrt(2)));
    trace(f, "layer_inputs", all, (int64_t)c->n_layer * s->d_input);
}

void bind_input(struct binder *b, struct input_block *u, int il, int d_input)
{
    const struct config *c = &b->m->config;
    bind_linear(b, &u->gate, "blk.%d.inp_gate", il, BIAS_NONE);
    bind_linear(b, &u->project, "blk.%d.proj", il, BIAS_NONE);
    bind_norm(b, &u->norm, "blk.%d.post_norm", il);
    u->curve = c->curve;
    u->d_input = d_input, u->il = il;
    u->at_all = bind_rows(b, "layer inputs", (int64_t)c->n_layer * d_input);
    u->at_own = bind_rows(b, "own input", d_input);
    u->at_gate = bind_rows(b, "input gate", d_input);
}

void fwd_input(struct fwd *f, float *y, const float *x, const struct input_block *u)
{
    const struct config *c = &f->m->config;
    struct backend *b = f->m->backend;
    const int d = u->d_input;
    const struct columns part = {.n_part = 1, .n = d, .y_row = d, .x_row = (int64_t)c->n_layer * d};
    float *own = fwd_at(f, u->at_own), *gate = fwd_at(f, u->at_gate);
    fwd_linear(f, gate, &u->gate, x, f->n_row);
    fwd_columns(f, own, fwd_at(f, u->at_all) + (int64_t)u->il * d, &part);
    b->op->curve_mul(b, gate, gate, own, (int64_t)f->n_row * d, u->curve);
    fwd_linear(f, y, &u->project, gate, f->n_row);
    fwd_norm(f, y, y, &u->norm);
    trace(f, "input_out", y, c->d);
}
