/* linear.c - the reference of the linear layers. This file computes each output of each row
 * separately, in the order of kern.h.
 *
 *   y [n_row, n_out] = x [n_row, k] * w [n_out, k]^T
 *
 *   panel     PANEL consecutive outputs of w, whose weights are interleaved; a lane is one output
 *   group     ACT_GROUP consecutive inputs; activations have one scale per row and group
 *   block     64 int8 activations of one row; blocks of all rows follow each other (gather_q8)
 *
 * Each result is a sum over groups in ascending order. Therefore the fast levels can use any tiling
 * of rows and panels and still compute the same bits. */
#include "ref.h"

#include "kern/panel_impl.h"

/* Return the address of the values of a row's group that begins at input g. One value has n_byte
 * bytes. */
static const void *act_group(const struct act *x, int row, int g, size_t n_byte)
{
    return (const char *)x->x + ((int64_t)(g / ACT_GROUP) * x->n_row + row) * ACT_GROUP * n_byte;
}

/* ---- int8 activations ---- */

/* Copy the row's group to contiguous values, from blocks of 64. */
static void gather_q8(int8_t *q, const struct act *x, int row, int g, int n)
{
    for (int i = 0; i < n; i += 64)
        memcpy(q + i, (const int8_t *)x->x + ((int64_t)(g + i) / 64 * x->n_row + row) * 64, 64);
}

/* Return the dot product of n values. Integer sums are exact in any order: 256 products of int8,
 * or 64 products of 14 bits and int8, stay below 2^31. */
static int dot(const int16_t *w, const int8_t *a, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) sum += w[i] * a[i];
    return sum;
}

static int sum_of(const int8_t *a, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) sum += a[i];
    return sum;
}

/* Sum a group of a format with integer scales (K quants). The scaled sums stay integers until the
 * end of the group, so they are also exact. Minima are subtracted once per group. */
static float dot_int_scales(const struct lane_group *l, int sub, bool has_min, const int8_t *a)
{
    int isum = 0, msum = 0;
    for (int j = 0; j * sub < l->n; j++) {
        isum += l->scale[j] * dot(l->q + j * sub, a + j * sub, sub);
        if (has_min) msum += l->min[j] * sum_of(a + j * sub, sub);
    }
    float t = fmaf((float)isum, l->d[0], 0.0f);
    return has_min ? fmaf((float)-msum, l->m[0], t) : t;
}

/* Return dot_group of quant.h, computed from the panel's numbers. Formats with float scales add one
 * fma per sub-block, in ascending order. */
static float dot_lane(const struct panel_format *f, const struct lane_group *l, const int8_t *a)
{
    int step = f->sub;
    if (f->scales == PANEL_I8 || f->scales == PANEL_I6_MIN || f->scales == PANEL_I4_MIN)
        return dot_int_scales(l, f->sub, f->scales != PANEL_I8, a);
    if (panel_is_one(f)) step = f->block;
    float t = 0;
    for (int i = 0; i < l->n; i += step) {
        int n = l->n - i < step ? l->n - i : step;
        const float d = panel_upper(f) ? l->d[i / step] * f->unit : l->d[i / step];
        t = fmaf((float)dot(l->q + i, a + i, n), d, t);
        if (f->scales == PANEL_F16_MIN) t = fmaf((float)sum_of(a + i, n), l->m[i / step], t);
    }
    return t;
}

/* Compute c [n_row], the values of one output for all rows. */
REF_FMA static void lane_q8(float *c, const struct panels *w, const uint8_t *panel, int lane,
                            const struct act *x, int row, int n_row)
{
    const struct panel_format *f = panel_format_of(w->type);
    for (int i = 0; i < n_row; i++) c[i] = 0;
    for (int g = 0; g < w->k; g += ACT_GROUP) {
        int n_unit = group_units(g, w->k);
        struct lane_group l;
        panel_lane_group(&l, f, panel, n_unit, lane);
        panel += panel_group_bytes(f, n_unit);
        for (int i = 0; i < n_row; i++) {
            int8_t a[ACT_GROUP];
            gather_q8(a, x, row + i, g, l.n);
            c[i] = fmaf(dot_lane(f, &l, a), x->scale[(int64_t)(g / ACT_GROUP) * x->n_row + row + i],
                        c[i]);
        }
    }
}

/* ---- float activations ---- */

/* Compute c [n_row] for f32 activations. The first group is stored instead of added, so that -0
 * stays -0. */
REF_FMA static void lane_f32(float *c, const struct panels *w, int r, const struct act *x, int row,
                             int n_row)
{
    float values[ACT_GROUP];
    for (int g = 0; g < w->k; g += ACT_GROUP) {
        int n = panel_row_group(values, w, r, g);
        for (int i = 0; i < n_row; i++) {
            const float *a = act_group(x, row + i, g, sizeof(float));
            float t = 0;
            for (int j = 0; j < n; j++) t = fmaf(values[j], a[j], t);
            c[i] = g ? c[i] + t : t;
        }
    }
}

/* Compute c [n_row] for bf16 activations, in steps of 32 inputs in the order of the instruction
 * tdpbf16ps (dot32_bf16). A panel interleaves pairs of inputs: 4 bytes of each output. */
static void lane_bf16(float *c, const struct panels *w, const uint8_t *panel, int lane,
                      const struct act *x, int row, int n_row)
{
    for (int i = 0; i < n_row; i++) c[i] = 0;
    for (int k = 0; k < w->k; k += 32) {
        uint16_t block[32] = {0}; /* values past the end are zeros */
        for (int j = 0; j < 32 && k + j < w->k; j += 2)
            memcpy(block + j, panel + ((int64_t)(k + j) / 2 * PANEL + lane) * 4, 4);
        for (int i = 0; i < n_row; i++) {
            const uint16_t *a = act_group(x, row + i, k, sizeof(uint16_t));
            c[i] = dot32_bf16(c[i], block, a + k % ACT_GROUP);
        }
    }
}

/* Compute c [n_row] of E4M3_128 for bf16 activations. lane_bf16 computes the sums T of a block. The
 * fma with the scale also flushes subnormal numbers to zero. */
static void lane_e4m3(float *c, const uint8_t *panel, int lane, const struct act *x, int row,
                      int n_row)
{
    const int run = scaled_run(QT_e4m3_128);
    for (int i = 0; i < n_row; i++) c[i] = 0;
    for (int k = 0; k < x->k; k += run, panel += scaled_bytes(QT_e4m3_128)) {
        uint16_t w[BLOCK_MAX];
        float scale;
        memcpy(&scale, panel + 4 * lane, sizeof scale);
        for (int j = 0; j < run; j++)
            w[j] = bf16_of_f32(f32_of_e4m3(panel[(4 + j) * PANEL + lane]));
        for (int i = 0; i < n_row; i++) {
            const uint16_t *a = act_group(x, row + i, k, sizeof(uint16_t));
            float t = 0;
            for (int j = 0; j < run; j += 32) t = dot32_bf16(t, w + j, a + k % ACT_GROUP + j);
            c[i] = fma_flush(t, scale, c[i]);
        }
    }
}

/* ---- panels of outputs ---- */

/* Store one output of n_row rows. The bias is added to the finished sum, and then the old value of
 * y is added. */
static void put(const struct linear_out *out, const float *c, int r, int row, int n_row)
{
    for (int i = 0; i < n_row; i++) {
        float *y = out->y + (row + i) * out->stride + r;
        float v = out->bias ? c[i] + out->bias[r] : c[i];
        *y = out->add ? *y + v : v;
    }
}

static void outputs(float *c, const struct panels *w, int r, const struct act *x, int row,
                    int n_row)
{
    const uint8_t *panel = w->data + r / PANEL * w->stride;
    if (x->type == ACT_Q8)
        lane_q8(c, w, panel, r % PANEL, x, row, n_row);
    else if (x->type == ACT_BF16 && w->type == QT_e4m3_128)
        lane_e4m3(c, panel, r % PANEL, x, row, n_row);
    else if (x->type == ACT_BF16)
        lane_bf16(c, w, panel, r % PANEL, x, row, n_row);
    else
        lane_f32(c, w, r, x, row, n_row);
}

static void linear(const struct linear_out *out, const struct panels *w, int panel, int n_panel,
                   const struct act *x, int row, int n_row)
{
    float c[LINEAR_ROWS_MAX];
    int end = (panel + n_panel) * PANEL;
    for (int r = panel * PANEL; r < end && r < w->n_out; r++) {
        outputs(c, w, r, x, row, n_row);
        put(out, c, r, row, n_row);
    }
}

/* Fill the slots. A slot is NULL if the number format cannot use this type of activations. Callers
 * choose the type by format (act_type_of in backend/cpu/linear.c). */
void kern_linear_ref(struct kern *k)
{
    for (int act = 0; act < ACT_COUNT; act++) k->linear_rows[act] = LINEAR_ROWS;
    for (int t = 0; t < QT_COUNT; t++)
        for (int act = 0; act < ACT_COUNT; act++) {
            bool has = act == ACT_Q8     ? qtype_takes_int8((enum qtype)t)
                       : act == ACT_BF16 ? qtype_takes_bf16((enum qtype)t)
                                         : qtype_info[t].ops != NULL;
            k->linear[act][t] = has ? linear : NULL;
        }
}
