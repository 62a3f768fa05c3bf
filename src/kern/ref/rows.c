/* rows.c - the reference of the passes over a row of logits (kern.h, tmpl/rows.h). */
#include "ref.h"

#include <float.h>

static int block_len(int n, int from)
{
    return n - from < ROW_BLOCK ? n - from : ROW_BLOCK;
}

/* Return the maximum. `x > m ? x : m` ignores a NaN x. */
static float max_of(const float *x, int n)
{
    float m = -INFINITY;
    for (int i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
    return m < FLT_MAX ? m : FLT_MAX;
}

static float row_max(float *block_max, const float *x, int n)
{
    for (int i = 0; i < n; i += ROW_BLOCK)
        block_max[i / ROW_BLOCK] = max_of(x + i, block_len(n, i));
    return max_of(block_max, (n + ROW_BLOCK - 1) / ROW_BLOCK);
}

static void row_mask(float *y, const float *x, const uint32_t *mask, int n)
{
    for (int i = 0; i < n; i++) y[i] = mask[i / 32] >> i % 32 & 1 ? x[i] : -INFINITY;
}

static float weight_of(float x, float max, float scale)
{
    float t = (x - max) * scale;
    t = t > -105.0f ? t : -105.0f; /* the comparison replaces a NaN by -105, and exp(-105) is 0 */
    return exp_f32(t < 0 ? t : 0);
}

REF_FMA static double row_exp(float *weight, float *block_sum, const float *x, int n, float max,
                              float scale)
{
    double total = 0;
    for (int from = 0; from < n; from += ROW_BLOCK) {
        float s[16] = {0};
        for (int i = from; i < from + block_len(n, from); i++) {
            float w = weight_of(x[i], max, scale);
            s[i % 16] += w;
            if (weight) weight[i] = w;
        }
        block_sum[from / ROW_BLOCK] = tree16(s);
        total += (double)block_sum[from / ROW_BLOCK];
    }
    return total;
}

static int row_find(int32_t *index, float *value, const float *x, const float *block_max, int n,
                    float lo, float hi)
{
    int n_found = 0;
    for (int from = 0; from < n; from += ROW_BLOCK) {
        if (!(block_max[from / ROW_BLOCK] >= lo)) continue;
        for (int i = from; i < from + block_len(n, from); i++) {
            float v = x[i] > FLT_MAX ? FLT_MAX : x[i];
            index[n_found] = i;
            value[n_found] = v;
            n_found += v >= lo && v < hi;
        }
    }
    return n_found;
}

static double row_mass(const float *w, const float *x, int n, float floor, int *n_above)
{
    double total = 0;
    *n_above = 0;
    for (int from = 0; from < n; from += ROW_BLOCK) {
        float s[16] = {0};
        for (int i = from; i < from + block_len(n, from); i++) {
            bool above = x[i] >= floor;
            *n_above += above;
            s[i % 16] += above && w ? w[i] : 0;
        }
        total += (double)tree16(s);
    }
    return w ? total : *n_above;
}

static float bounded(float x)
{
    x = x > -0x1p60f ? x : -0x1p60f;
    return x < 0x1p60f ? x : 0x1p60f;
}

static double row_product(const float *a, float p, const float *b, float q, int n)
{
    double total = 0;
    for (int from = 0; from < n; from += ROW_BLOCK) {
        float s[16] = {0};
        for (int i = from; i < from + block_len(n, from); i++)
            s[i % 16] = fmaf(bounded(a[i] - p), b ? bounded(b[i] - q) : 1, s[i % 16]);
        total += (double)tree16(s);
    }
    return total;
}

void kern_rows_ref(struct kern *k)
{
    k->row_max = row_max;
    k->row_mask = row_mask;
    k->row_exp = row_exp;
    k->row_find = row_find;
    k->row_mass = row_mass;
    k->row_product = row_product;
}
