/* act.c - the reference of activation conversions.
 *
 *   F32    float [group][row][ACT_GROUP]
 *   BF16   uint16_t [group][row][ACT_GROUP]
 *   Q8     int8 [block of 64][row][64], scale f32 [group][row], sum i16 [block of 32][row][2]
 *
 * Groups are the outer dimension, because a kernel processes one group of k for all its rows before
 * the next group. Each function converts one row, so that rows can be divided among threads. */
#include "ref.h"

static void act_f32(const struct act *a, int row, const float *x)
{
    for (int g = 0; g < a->k; g += ACT_GROUP) {
        float *y = (float *)a->x + ((int64_t)(g / ACT_GROUP) * a->n_row + row) * ACT_GROUP;
        int n = a->k - g < ACT_GROUP ? a->k - g : ACT_GROUP;
        memcpy(y, x + g, (size_t)n * sizeof *y);
        memset(y + n, 0, (size_t)(ACT_GROUP - n) * sizeof *y);
    }
}

/* Convert a row to bf16. Subnormals become zero, as with the instruction vcvtneps2bf16. */
static void act_bf16(const struct act *a, int row, const float *x)
{
    for (int g = 0; g < a->k; g += ACT_GROUP) {
        uint16_t *y = (uint16_t *)a->x + ((int64_t)(g / ACT_GROUP) * a->n_row + row) * ACT_GROUP;
        for (int i = 0; i < ACT_GROUP; i++)
            y[i] = g + i < a->k ? bf16_of_f32(flush_subnormal(x[g + i])) : 0;
    }
}

/* Convert x f32 [n] to q int8 [ACT_GROUP], zeros past n. Return the scale. The scale of a group
 * with a NaN or an infinity is NaN, so the outputs are NaN. Groups below 2^-120 become zero,
 * because 127 / amax could overflow. */
static float group_q8(int8_t *q, const float *x, int n)
{
    float amax = 0;
    bool finite = true;
    for (int i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        finite &= a <= 0x1.fffffep127f; /* the comparison is also false for a NaN */
        amax = a > amax ? a : amax;
    }
    bool zero = !finite || amax < 0x1p-120f;
    float inv = zero ? 0 : 127.0f / amax;
    memset(q, 0, ACT_GROUP);
    for (int i = 0; i < n && !zero; i++) {
        float t = x[i] * inv + 0x1.8p23f; /* the addition rounds to nearest even */
        q[i] = (int8_t)(int32_t)(bits_of_f32(t) - bits_of_f32(0x1.8p23f));
    }
    return !finite ? NAN : zero ? 0 : amax / 127.0f;
}

/* Return the sum of 16 values. Formats with minima multiply these sums by the minima. */
static int16_t sum16(const int8_t *q)
{
    int sum = 0;
    for (int i = 0; i < 16; i++) sum += q[i];
    return (int16_t)sum;
}

static void act_q8(const struct act *a, int row, const float *x)
{
    for (int g = 0; g < a->k; g += ACT_GROUP) {
        int8_t q[ACT_GROUP], *y = a->x;
        int n = a->k - g < ACT_GROUP ? a->k - g : ACT_GROUP;
        a->scale[(int64_t)(g / ACT_GROUP) * a->n_row + row] = group_q8(q, x + g, n);
        for (int i = 0; i < n; i += 64)
            memcpy(y + ((int64_t)(g + i) / 64 * a->n_row + row) * 64, q + i, 64);
        for (int i = 0; i < n; i += 16)
            a->sum[((int64_t)(g + i) / 32 * a->n_row + row) * 2 + i / 16 % 2] = sum16(q + i);
    }
}

void kern_act_ref(struct kern *k)
{
    k->act[ACT_F32] = act_f32;
    k->act[ACT_BF16] = act_bf16;
    k->act[ACT_Q8] = act_q8;
}
