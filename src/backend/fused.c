/* fused.c - fused ops as sequences of plain ops, for backends that do not implement fused ops.
 *
 * Each backend_* function computes the same values in one of two ways:
 *
 *   the backend has the fused op, and b->plain does not disable it --> one op
 *   otherwise                                                      --> plain ops in their order
 *
 * Therefore callers in src/model call the fused form only. A new backend may begin with plain ops.
 * Tests disable one fusion after another, and compare the results (fused_test.c). */
#include "backend_impl.h"

#include "base/check.h"

#define FUSION(id, what) #id,
const char *const fusion_name[FUSION_COUNT] = {
#include "fusions.def"
};
#undef FUSION
#define FUSION(id, what) what,
const char *const fusion_what[FUSION_COUNT] = {
#include "fusions.def"
};
#undef FUSION

/* Return an input without a pending norm. A pending norm is written to in->h. */
struct input backend_normed(struct backend *b, const struct input *in, int64_t k, int n_row)
{
    CHECK(k >= 1 && n_row >= 0, "%d rows of %lld", n_row, (long long)k);
    if (!in->g) return *in;
    b->op->rms_norm(b, in->h, in->x, in->g, n_row, (int)k, in->eps);
    return (struct input){.x = in->h};
}

/* Use op->linears also for a single layer, because op->linears can include the norm. A norm is
 * fused only in a call of op->linears. */
void backend_linears(struct backend *b, const struct output *out, int n, const struct input *in,
                     int n_row)
{
    CHECK(n >= 1 && n_row >= 0, "%d layers, %d rows", n, n_row);
    const bool as_list = b->op->linears && (n == 1 || backend_fuses(b, FUSE_list));
    const bool with_norm = as_list && backend_fuses(b, FUSE_norm);
    const struct input x = with_norm ? *in : backend_normed(b, in, out->l->w.k, n_row);
    if (as_list)
        b->op->linears(b, out, n, &x, n_row);
    else
        for (int i = 0; i < n; i++) b->op->linear(b, out[i].y, out[i].l, x.x, n_row);
}

/* In the plain form, put the product into scratch. scratch must not be y, because the function adds
 * the product to y. */
void backend_linear_add(struct backend *b, float *y, const struct linear *l, const float *x,
                        int n_row, float *scratch)
{
    CHECK(scratch != y && n_row >= 0, "%d rows: the scratch must not be the result", n_row);
    if (b->op->linear_add && backend_fuses(b, FUSE_add)) {
        b->op->linear_add(b, y, l, x, n_row);
        return;
    }
    b->op->linear(b, scratch, l, x, n_row);
    b->op->add(b, y, scratch, (int64_t)n_row * l->w.n_out);
}

/* Put the gate into the scratch a, and up into the scratch b. Then put the product of gate and up
 * into a. */
void backend_glu_plain(struct backend *b, float *y, const struct glu *g, const struct input *in,
                       int n_row)
{
    const struct input x = backend_normed(b, in, g->gate->w.k, n_row);
    b->op->linear(b, g->a, g->gate, x.x, n_row);
    b->op->linear(b, g->b, g->up, x.x, n_row);
    b->op->curve_mul(b, g->a, g->a, g->b, n_row * g->gate->w.n_out, g->curve);
    if (g->add)
        backend_linear_add(b, y, g->down, g->a, n_row, g->y);
    else
        b->op->linear(b, y, g->down, g->a, n_row);
}

void backend_glu(struct backend *b, float *y, const struct glu *g, const struct input *in,
                 int n_row)
{
    CHECK(g->gate->w.n_out == g->up->w.n_out && g->down->w.k == g->up->w.n_out,
          "gate %lld, up %lld, down %lld", (long long)g->gate->w.n_out, (long long)g->up->w.n_out,
          (long long)g->down->w.k);
    if (!b->op->glu || !backend_fuses(b, FUSE_glu)) {
        backend_glu_plain(b, y, g, in, n_row);
        return;
    }
    const struct input x =
        backend_fuses(b, FUSE_norm) ? *in : backend_normed(b, in, g->gate->w.k, n_row);
    b->op->glu(b, y, g, &x, n_row);
}

/* Normalize each head as a row of d_k values, then rotate it. Qwen3 and Gemma 3 also normalize
 * before the rotation. */
static void heads(struct backend *b, const struct rope_put *r, float *x, const float *norm,
                  int n_head, int n_row)
{
    if (norm) b->op->rms_norm(b, x, x, norm, n_row * n_head, r->kv->d_k, r->eps);
    if (r->rope) b->op->rope(b, x, n_head, r->kv->d_k, r->pos, n_row, r->rope);
}

/* Rotate q and k. q stays in place for attention. k and v are stored in KV pages. */
void backend_rope_put(struct backend *b, const struct rope_put *r, int n_row)
{
    if (b->op->rope_put && backend_fuses(b, FUSE_rope)) {
        b->op->rope_put(b, r, n_row);
        return;
    }
    heads(b, r, r->q, r->q_norm, r->n_head, n_row);
    heads(b, r, r->k, r->k_norm, r->kv->n_head_kv, n_row);
    b->op->kv_put(b, r->kv, r->k, r->v, r->slot, n_row);
}
