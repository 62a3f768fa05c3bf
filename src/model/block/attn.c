/* attn.c - the attention block. The steps of the block are q, k, v; head norms, rope, KV pages and
 * attention; the output projection. The architecture defines the operations before and after it.
 *
 *   in --norm--> q k v --> norm of heads, rope --> KV pages --> softmax(q K^T * scale) V --> o
 *                '-- one fused list --'   '-- rope_put --'      '-- attn, grouped query --'
 *
 * Some files store q, k and v as one matrix attn_qkv. The rows of attn_qkv are the rows of q, then
 * k, then v. Some classes group the rows by KV head: the query heads of a KV head, its k, its v.
 *
 * A layer without k and v attends to the pages of an earlier layer (Gemma 3n, Gemma 4). The earlier
 * layer has already stored the rows of the step. */
#include "model/model_impl.h"

/* Bind the norms of q and k, if the architecture has any. The norms are of heads, of heads with
 * weights per head, or of whole rows. The table of tensors gives the size of the weights. Norms
 * with weights per head are optional: config.json or the tensors of a GGUF determine them. */
static void bind_head_norms(struct binder *b, struct attn_block *a, int il)
{
    static const char q[] = "blk.%d.attn_q_norm", k[] = "blk.%d.attn_k_norm";
    const struct config *c = &b->m->config;
    const struct tensor_row *row = bind_row(b, q);
    if (!row) return;
    if (row->some && (config_is_hf(b) ? !c->head_norms : !bind_has(b, q, il))) return;
    if (row->some && b->m->arch->layer_norm_eps) {
        bind_part_norm(b, &a->q_row, q, il, c->layer[il].n_head);
        bind_part_norm(b, &a->k_row, k, il, c->layer[il].n_head_kv);
        return;
    }
    bind_norm(b, row->k == SIZE_D_HEAD ? &a->q_norm : &a->q_row, q, il);
    if (!c->layer[il].reuses_kv)
        bind_norm(b, row->k == SIZE_D_HEAD ? &a->k_norm : &a->k_row, k, il);
}

/* Bind q, k and v as parts of one matrix. */
static void bind_fused(struct binder *b, struct attn_block *a, int il)
{
    static const char stem[] = "blk.%d.attn_qkv";
    const struct config *c = &b->m->config;
    const struct layer_config *l = &c->layer[il];
    const int64_t d = l->d_head, d_q = l->n_head * d, d_kv = l->n_head_kv * d,
                  d_group = d_q / l->n_head_kv, step = d_group + 2 * d;
    struct row_part q = {.n = d_q}, k = {.first = d_q, .n = d_kv},
                    v = {.first = d_q + d_kv, .n = d_kv};
    if (b->m->arch->hf_groups && config_is_hf(b) && l->n_head_kv > 1) {
        q.run = d_group, k.run = v.run = d;
        q.step = k.step = v.step = step;
        k.first = d_group, v.first = d_group + d;
    }
    bind_part(b, &a->q, stem, il, c->qkv_bias, &q);
    bind_part(b, &a->k, stem, il, c->qkv_bias, &k);
    bind_part(b, &a->v, stem, il, c->qkv_bias, &v);
}

/* Return the slope of head h ("Train Short, Test Long", arXiv 2108.12409). The heads after the
 * largest power of 2 have slopes between the slopes of the first heads. */
static double slope_of(double alibi, int n_head, int h)
{
    int n = 1;
    while (n <= n_head / 2) n *= 2;
    return h < n ? exp2(-alibi * (h + 1) / n) : exp2(-alibi * (2 * (h - n) + 1) / (2 * n));
}

/* Bind the slopes of ALiBi. */
static void bind_slopes(struct binder *b, struct attn_block *a, int n_head)
{
    const struct config *c = &b->m->config;
    if (c->alibi == 0 || b->rc != 0) return;
    float *v = arena_push(&b->m->arena, (size_t)n_head * sizeof *v, 64);
    if (!v) b->rc = err_memory(b->e, "slopes", (size_t)n_head * sizeof *v);
    for (int h = 0; h < n_head && v; h++)
        v[h] = (float)(slope_of(c->alibi, n_head, h) * (double)c->alibi_scale);
    a->spec.slope = v;
    bind_vector(b, &a->spec.slope, n_head);
}

/* Bind the sinks: scores of a key without a value, one per head. */
static void bind_sinks(struct binder *b, struct attn_block *a, int il)
{
    static const char stem[] = "blk.%d.attn_sinks";
    const int n_head = b->m->config.layer[il].n_head;
    if (!bind_row(b, stem)) return;
    a->spec.sink = bind_floats(b, stem, il, 1, n_head);
    bind_vector(b, &a->spec.sink, n_head);
}

/* Bind the matrices before attention. */
static void bind_projections(struct binder *b, struct attn_block *a, int il)
{
    const struct config *c = &b->m->config;
    const struct layer_config *l = &c->layer[il];
    if (bind_is_fused(b, "blk.%d.attn_qkv", "blk.%d.attn_q", il)) {
        bind_fused(b, a, il);
        return;
    }
    bind_linear(b, &a->q, "blk.%d.attn_q", il, c->qkv_bias);
    if (!l->reuses_kv) bind_linear(b, &a->k, "blk.%d.attn_k", il, c->qkv_bias);
    if (!l->reuses_kv && !l->v_is_k) bind_linear(b, &a->v, "blk.%d.attn_v", il, c->qkv_bias);
}

/* Reserve the scratch buffers by name. All layers share these buffers, so each buffer has the size
 * of the widest layer. The model records the largest head and group, because the backend reserves
 * its scratch by these sizes. */
void bind_attend(struct binder *b, struct attn_block *a, int il, const struct kv_geometry *g)
{
    struct model *m = b->m;
    const struct config *c = &m->config;
    const struct layer_config *l = &c->layer[il];
    const int d_max = g->d_k > g->d_v ? g->d_k : g->d_v, n_group = l->n_head / g->n_head_kv;
    a->spec = (struct attn_spec){.part = il < c->n_encoder ? ATTN_ALL : ATTN_TARGET,
                                 .n_head = l->n_head,
                                 .n_head_kv = g->n_head_kv,
                                 .d_k = g->d_k,
                                 .d_v = g->d_v,
                                 .scale = l->attn_scale,
                                 .softcap = l->softcap,
                                 .window = l->window,
                                 .chunk = l->chunk,
                                 .n_later = l->n_later};
    bind_slopes(b, a, l->n_head);
    bind_sinks(b, a, il);
    a->il = l->kv_layer;
    a->rope = l->rope;
    a->at_q = bind_rows(b, "q", (int64_t)l->n_head * g->d_k);
    a->at_k = bind_rows(b, "k", (int64_t)g->n_head_kv * g->d_k);
    a->at_v = bind_rows(b, "v", g->latent ? 0 : (int64_t)g->n_head_kv * g->d_v);
    a->at_attn = bind_rows(b, "attn", (int64_t)l->n_head * g->d_v);
    if (!l->reuses_kv) m->kv_geometry[a->il] = *g;
    if (d_max > m->d_head_max) m->d_head_max = d_max;
    if (n_group > m->group_max) m->group_max = n_group;
}

void bind_attn(struct binder *b, struct attn_block *a, int il)
{
    const struct config *c = &b->m->config;
    const struct layer_config *l = &c->layer[il];
    bind_projections(b, a, il);
    bind_linear(b, &a->o, bind_row(b, "blk.%d.attn_o") ? "blk.%d.attn_o" : "blk.%d.attn_output", il,
                c->o_bias);
    bind_head_norms(b, a, il);
    a->reuses_kv = l->reuses_kv;
    a->v_is_k = l->v_is_k;
    if (c->v_norms && !l->reuses_kv) bind_ones(b, &a->v_norm, l->d_head, 0);
    CHECK(!l->v_is_k || c->v_norms, "layer %d: values equal to keys need a norm", il);
    CHECK(!l->reuses_kv || l->kv_layer < il, "layer %d uses layer %d", il, l->kv_layer);
    a->limit = c->qkv_limit;
    bind_attend(b, a, il, &(struct kv_geometry){l->n_head_kv, l->d_head, l->d_head, false});
}

void fwd_qkv(struct fwd *f, struct input in, const struct attn_block *a)
{
    const struct output out[] = {
        {&a->q, fwd_at(f, a->at_q)}, {&a->k, fwd_at(f, a->at_k)}, {&a->v, fwd_at(f, a->at_v)}};
    fwd_linears(f, out, a->reuses_kv ? 1 : a->v_is_k ? 2 : 3, &in);
}

static void clamp_qkv(struct fwd *f, const struct attn_block *a)
{
    fwd_clamp(f, fwd_at(f, a->at_q), a->q.w.n_out, a->limit);
    fwd_clamp(f, fwd_at(f, a->at_k), a->k.w.n_out, a->limit);
    fwd_clamp(f, fwd_at(f, a->at_v), a->v.w.n_out, a->limit);
}

void fwd_put(struct fwd *f, const float *k, const struct attn_block *a)
{
    struct model *m = f->m;
    m->backend->op->kv_put(m->backend, &m->kv.layer[a->il], k, fwd_at(f, a->at_v),
                           f->on_device->slot, f->n_row);
}

/* Normalize and rotate the heads of q. The pages already contain k and v. */
static void turn_query(struct fwd *f, float *q, const struct attn_block *a)
{
    const struct attn_spec *s = &a->spec;
    if (a->q_norm.g) fwd_head_norm(f, q, s->n_head, &a->q_norm);
    if (a->rope != ROPE_OFF) fwd_rope(f, q, s->n_head, s->d_k, a->rope);
}

/* Normalize and rotate the heads of q and k, and store k and v. A layer without rope (NoPE) only
 * stores k and v. The norm of values is computed before k changes, because it may read k. */
static void put_rows(struct fwd *f, float *q, float *k, const struct attn_block *a)
{
    struct model *m = f->m;
    struct backend *b = m->backend;
    const struct attn_spec *s = &a->spec;
    float *v = fwd_at(f, a->at_v);
    if (a->v_norm.g)
        b->op->rms_norm(b, v, a->v_is_k ? k : v, a->v_norm.g, f->n_row * s->n_head_kv, s->d_v,
                        a->v_norm.eps);
    if (a->put)
        a->put(f, q, k, a);
    else
        backend_rope_put(b,
                         &(struct rope_put){
                             .q = q,
                             .k = k,
                             .v = v,
                             .n_head = s->n_head,
                             .q_norm = a->q_norm.g,
                             .k_norm = a->k_norm.g,
                             .eps = a->q_norm.eps,
                             .rope = a->rope == ROPE_OFF ? NULL : &m->rope[a->rope],
                             .kv = &m->kv.layer[a->il],
                             .pos = f->angle,
                             .slot = f->on_device->slot,
                         },
                         f->n_row);
    trace(f, "k", k, (int64_t)s->n_head_kv * s->d_k);
}

/* The result is in the scratch `attn`. */
void fwd_attend(struct fwd *f, const struct attn_block *a)
{
    struct backend *b = f->m->backend;
    const struct attn_spec *s = &a->spec;
    float *q = fwd_at(f, a->at_q), *attn = fwd_at(f, a->at_attn);
    if (a->q_row.g) fwd_norm(f, q, q, &a->q_row);
    if (a->k_row.g) fwd_norm(f, fwd_at(f, a->at_k), fwd_at(f, a->at_k), &a->k_row);
    if (a->limit > 0) clamp_qkv(f, a);
    if (a->reuses_kv)
        turn_query(f, q, a);
    else
        put_rows(f, q, fwd_at(f, a->at_k), a);
    trace(f, "q", q, (int64_t)s->n_head * s->d_k);
    const struct kv_layer *kv = &f->m->kv.layer[a->il];
    b->op->attn(b, attn, q, kv, f->on_device, s);
    trace(f, "attn", attn, (int64_t)s->n_head * s->d_v);
}

void fwd_attn_out(struct fwd *f, float *y, const struct attn_block *a)
{
    fwd_linear(f, y, &a->o, fwd_at(f, a->at_attn), f->n_row);
    trace(f, "attn_out", y, a->o.w.n_out);
}

void fwd_attn_out_add(struct fwd *f, float *x, const struct attn_block *a)
{
    fwd_linear_add(f, x, &a->o, fwd_at(f, a->at_attn));
    trace(f, "attn_out", f->y, a->o.w.n_out);
}

void fwd_attn(struct fwd *f, float *y, struct input in, const struct attn_block *a)
{
    fwd_qkv(f, in, a);
    fwd_attend(f, a);
    fwd_attn_out(f, y, a);
}

void fwd_attn_add(struct fwd *f, float *x, struct input in, const struct attn_block *a)
{
    fwd_qkv(f, in, a);
    fwd_attend(f, a);
    fwd_attn_out_add(f, x, a);
}
