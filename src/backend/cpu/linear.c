/* linear.c - y = x W^T + b on the CPU: convert the activations once, then chunks of output rows
 * on the pool. */
#include "cpu_impl.h"

struct linear_job {
    struct cpu_backend *c;
    float *y;
    const struct linear *l;
    const float *x;
    int n_row;
    enum act_type act;
    int rows_per_chunk;
};

static enum act_type act_type_of(const struct cpu_backend *c, enum qtype t)
{
    if (c->act == ACT_CHOICE_F32) return ACT_F32;
    if (qtype_is_block(t)) return ACT_Q8;
    return t == QT_bf16 ? ACT_BF16 : ACT_F32;
}

static const void *act_row(const struct linear_job *j, int i)
{
    int64_t k = j->l->w.k;
    switch (j->act) {
    case ACT_Q8:
        return j->c->act_data + i * k;
    case ACT_BF16:
        return j->c->act_data + i * k * 2;
    default:
        return j->x + i * k;
    }
}

static int n_group(int64_t k)
{
    return (int)((k + ACT_GROUP - 1) / ACT_GROUP);
}

static void convert_row(void *ctx, int i, int worker)
{
    (void)worker;
    struct linear_job *j = ctx;
    int k = (int)j->l->w.k;
    const float *x = j->x + (int64_t)i * k;
    if (j->act == ACT_Q8)
        j->c->kern.act_q8((int8_t *)act_row(j, i), j->c->act_scale + (int64_t)i * n_group(k), x, k);
    else
        j->c->kern.act_bf16((uint16_t *)act_row(j, i), x, k);
}

static void linear_chunk(void *ctx, int chunk, int worker)
{
    (void)worker;
    struct linear_job *j = ctx;
    const struct tensor *w = &j->l->w;
    int64_t r0 = (int64_t)chunk * j->rows_per_chunk;
    int n = (int)(w->n_out - r0 < j->rows_per_chunk ? w->n_out - r0 : j->rows_per_chunk);
    j->c->kern.linear[j->act][w->type](j->y + r0, w->n_out, w->type, w->data + r0 * w->row_bytes,
                                       w->row_bytes, n, act_row(j, 0), j->c->act_scale, j->n_row,
                                       (int)w->k);
    if (!j->l->bias) return;
    for (int i = 0; i < j->n_row; i++) j->c->kern.add(j->y + i * w->n_out + r0, j->l->bias + r0, n);
}

void cpu_linear(struct backend *b, float *y, const struct linear *l, const float *x, int n_row)
{
    struct cpu_backend *c = cpu_of(b);
    /* A chunk of about 64 kB of weights: long enough to hide a claim, short enough to share
     * evenly. */
    int64_t rows = 65536 / (l->w.row_bytes ? l->w.row_bytes : 1);
    if (rows < 4) rows = 4;
    struct linear_job j = {c, y, l, x, n_row, act_type_of(c, l->w.type), (int)rows};
    if (j.act != ACT_F32) {
        if ((int64_t)n_row * l->w.k >= 1 << 16)
            pool_run(c->pool, convert_row, &j, n_row);
        else
            for (int i = 0; i < n_row; i++) convert_row(&j, i, 0);
    }
    pool_run(c->pool, linear_chunk, &j, (int)((l->w.n_out + rows - 1) / rows));
}
