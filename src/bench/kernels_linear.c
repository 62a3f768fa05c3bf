/* kernels_linear.c - quoth bench kernels --op linear: measure all matrices in the order of the
 * file, as in a forward pass. Each matrix is timed separately, with the cache hits of a forward
 * pass. A sample is one pass through all matrices. GB/s counts the bytes of the weights in their
 * file format. */
#include "kernels_ops.h"

#include "base/os.h"

/* Return false for a head with more rows than sequences, because a sequence has one row of
 * logits. */
static bool is_met(const struct ops *b, const struct matrix_set *g, int n_row)
{
    return !g->is_head || n_row <= b->plan->n_seq;
}

/* Run one pass through all matrices, and add its mean times to the groups' samples. */
static bool turn_linear(struct ops *b, int n_row)
{
    struct backend *be = b->s.backend;
    double us[GROUPS_MAX] = {0};
    size_t n[GROUPS_MAX] = {0};
    int64_t before = time_us(), now;
    for (size_t i = 0; i < b->order.n; i++) {
        uint32_t g = b->order.v[i];
        const struct linear *l = &b->group.v[g].matrix.v[n[g]++];
        if (is_met(b, &b->group.v[g], n_row)) be->op->linear(be, b->y, l, b->x, n_row);
        now = time_us();
        us[g] += (double)(now - before);
        before = now;
    }
    for (size_t g = 0; g < b->group.n; g++)
        if (!vec_push(&b->group.v[g].us, us[g] / (double)n[g])) return false;
    return true;
}

/* Print the row of a group: matrices of equal name, type and shape. */
static void print_linear(const struct ops *b, const struct matrix_set *g, int n_row,
                         const struct limit limit[2])
{
    double values = (double)g->k * (double)g->n_out;
    struct op_case c = {.op = "linear",
                        .part = g->part,
                        .type = qtype_info[g->type].name,
                        .group = g,
                        .n_row = n_row,
                        .n = g->k,
                        .bytes = (double)qtype_bytes(g->type, g->k) * (double)g->n_out,
                        .ops = 2 * values * n_row};
    ops_print_call(b, &c, &g->us, limit);
}

/* Measure all matrices with n_row rows, and the limits of the machine before and after. */
static int measure_linear_rows(struct ops *b, int n_row, struct err *e)
{
    struct limit limit[N_ARITH][2];
    struct limits *l = b->plan->limits ? b->limits : NULL;
    progress_note("linear");
    /* warm up; the samples of this pass are dropped */
    turn_linear(b, n_row);
    for (size_t g = 0; g < b->group.n; g++) b->group.v[g].us.n = 0;
    for (enum arith k = 0; k < N_ARITH; k++) limit[k][0] = limits_now(l, k);
    bool ok = true;
    for (int i = 0; i < b->plan->n_repeat && ok; i++) ok = turn_linear(b, n_row);
    for (enum arith k = 0; k < N_ARITH; k++) limit[k][1] = limits_now(l, k);
    progress_note(NULL);
    for (size_t g = 0; g < b->group.n && ok; g++)
        if (is_met(b, &b->group.v[g], n_row))
            print_linear(b, &b->group.v[g], n_row, limit[arith_of(b->group.v[g].type)]);
    return ok ? 0 : err_memory(e, "samples", sizeof(double));
}

int ops_measure_linear(struct ops *b, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < b->n_row.n && rc == 0; i++)
        rc = measure_linear_rows(b, b->n_row.v[i], e);
    return rc;
}
