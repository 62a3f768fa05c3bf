/* linear.c - the caller of the linear ops of all layers. The functions of linear.c receive the
 * batch. linear.c is therefore the place for additions per sequence to a linear layer (adapters),
 * and for parts that other ranks compute.
 *
 * The rows of a sequence with an addition become y += b(scale * a(x)), or out * l(in * x), after y
 * is complete. The products are linear ops, so the bits of a row depend only on the row and its
 * adapter. Rows without an addition have the same bits as in a model without adapters, because
 * fused ops equal plain ops. */
#include "model_impl.h"

/* ---- additions ---- */

/* Return the addition to l for sequence s of the batch; NULL if none. */
static const struct addition *addition_to(const struct fwd *f, const struct linear *l, int s)
{
    const struct addition *const *add = f->m->additions->set[f->batch->adapter[s]].add;
    return add ? add[l->w.number] : NULL;
}

/* Return true if a sequence of the batch has an addition to l. */
static bool has_additions(const struct fwd *f, const struct linear *l)
{
    const struct additions *all = f->m->additions;
    for (int s = 0; all && all->inner && s < f->batch->n_seq; s++)
        if (addition_to(f, l, s)) return true;
    return false;
}

/* Return true if a sequence of the batch has factors of l. Its rows of y are then not a sum of l's
 * rows and an addition. */
static bool has_factors(const struct fwd *f, const struct linear *l)
{
    const struct additions *all = f->m->additions;
    for (int s = 0; all && all->inner && s < f->batch->n_seq; s++) {
        const struct addition *add = addition_to(f, l, s);
        if (add && (add->in || add->out)) return true;
    }
    return false;
}

/* A function of n_row rows y f32 [n_row, n_out] of l, whose input is x f32 [n_row, k]. */
typedef void rows_fn(struct fwd *f, float *y, const struct linear *l, const float *x,
                     const struct addition *add, int n_row);

/* Multiply the inputs and outputs of l by the factors. */
static void apply_factors(struct fwd *f, float *y, const struct linear *l, const float *x,
                          const struct addition *add, int n_row)
{
    struct backend *b = f->m->backend;
    float *inner = f->m->additions->inner;
    if (add->in) {
        b->op->scale_columns(b, inner, x, add->in, n_row, l->w.k);
        b->op->linear(b, y, l, inner, n_row);
    }
    if (add->out) b->op->scale_columns(b, y, y, add->out, n_row, l->w.n_out);
}

/* Add the products with the matrices a and b. */
static void add_products(struct fwd *f, float *y, const struct linear *l, const float *x,
                         const struct addition *add, int n_row)
{
    struct backend *b = f->m->backend;
    const struct additions *all = f->m->additions;
    (void)l;
    if (add->a.w.n_out == 0) return;
    b->op->linear(b, all->inner, &add->a, x, n_row);
    b->op->scale(b, all->inner, n_row * add->a.w.n_out, add->scale);
    backend_linear_add(b, y, &add->b, all->inner, n_row, all->outer);
}

/* Multiply by the factors, then add the products. */
static void apply_addition(struct fwd *f, float *y, const struct linear *l, const float *x,
                           const struct addition *add, int n_row)
{
    apply_factors(f, y, l, x, add, n_row);
    add_products(f, y, l, x, add, n_row);
}

/* Call fn for the rows x of the whole batch that have an addition to l. */
static void each_addition(struct fwd *f, float *y, const struct linear *l, const float *x,
                          rows_fn *fn)
{
    const int32_t *row0 = f->batch->row0;
    if (!has_additions(f, l)) return;
    for (int s = 0, end; s < f->batch->n_seq; s = end) {
        const struct addition *add = addition_to(f, l, s);
        for (end = s + 1; end < f->batch->n_seq && addition_to(f, l, end) == add;) end++;
        const int n_row = row0[end] - row0[s], r = row0[s] - row0[0];
        if (add) fn(f, y + r * l->w.n_out, l, x + r * l->w.k, add, n_row);
    }
}

/* ---- layers ---- */

void fwd_linear(struct fwd *f, float *y, const struct linear *l, const float *x, int n_row)
{
    struct backend *b = f->m->backend;
    b->op->linear(b, y, l, x, n_row);
    each_addition(f, y, l, x, apply_addition);
}

void fwd_linears(struct fwd *f, const struct output *out, int n, const struct input *in)
{
    bool any = false;
    for (int i = 0; i < n; i++) any |= has_additions(f, out[i].l);
    const struct input x = any ? fwd_plain(fwd_made(f, *in, out->l->w.k)) : *in;
    backend_linears(f->m->backend, out, n, &x, f->n_row);
    for (int i = 0; i < n && any; i++) each_addition(f, out[i].y, out[i].l, x.x, apply_addition);
}

void fwd_linear_add(struct fwd *f, float *y, const struct linear *l, const float *x)
{
    struct backend *b = f->m->backend;
    if (has_factors(f, l)) { /* the sums of rows without factors have the usual order */
        b->op->linear(b, f->y, l, x, f->n_row);
        each_addition(f, f->y, l, x, apply_factors);
        b->op->add(b, y, f->y, f->n_row * l->w.n_out);
    } else {
        backend_linear_add(b, y, l, x, f->n_row, f->y);
    }
    each_addition(f, y, l, x, add_products);
}

void fwd_experts(struct fwd *f, const struct output *out, int n, const float *x,
                 const struct route *r, bool by_entry)
{
    struct backend *b = f->m->backend;
    b->op->experts(b, out, n, x, r, by_entry, f->n_row);
}

void fwd_parts(struct fwd *f, float *y, const struct linear *l, const float *x,
               const struct columns *s)
{
    struct backend *b = f->m->backend;
    b->op->parts(b, y, l, x, s, f->n_row);
}

void fwd_glu_linears(struct fwd *f, float *y, const struct glu *g, const struct input *in)
{
    struct backend *b = f->m->backend;
    if (!has_additions(f, g->gate) && !has_additions(f, g->up) && !has_additions(f, g->down)) {
        backend_glu(b, y, g, in, f->n_row);
        return;
    }
    const struct output out[] = {{g->gate, g->a}, {g->up, g->b}};
    fwd_linears(f, out, 2, in);
    b->op->curve_mul(b, g->a, g->a, g->b, f->n_row * g->gate->w.n_out, g->curve);
    if (g->add)
        fwd_linear_add(f, y, g->down, g->a);
    else
        fwd_linear(f, y, g->down, g->a, f->n_row);
}
