/* act.c - the reference of activation conversions. */
#include "kern/kern_impl.h"

static void act_f32(const struct act *a, int row, const float *x)
{
    for (int g = 0; g < a->k; g += ACT_GROUP) {
        float *y = (float *)a->x + ((int64_t)(g / ACT_GROUP) * a->n_row + row) * ACT_GROUP;
        int n = a->k - g < ACT_GROUP ? a->k - g : ACT_GROUP;
        memcpy(y, x + g, (size_t)n * sizeof *y);
        memset(y + n, 0, (size_t)(ACT_GROUP - n) * sizeof *y);
    }
}

static void act_bf16(const struct act *a, int row, const float *x)
{
    for (int g = 0; g < a->k; g += ACT_GROUP) {
        uint16_t *y = (uint16_t *)a->x + ((int64_t)(g / ACT_GROUP) * a->n_row + row) * ACT_GROUP;
        for (int i = 0; i < ACT_GROUP; i++)
            y[i] = g + i < a->k ? bf16_of_f32(flush_subnormal(x[g + i])) : 0;
    }
}

/* Convert x f32 [n] to q int8 [ACT_GROUP], zeros past n. Returns the scale. */
static float group_q8(int8_t *q, const float *x, int n)
{
    float amax = 0;
    bool finite = true;
    for (int i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        finite &= a <= 0x1.fffffep127f; /* false for NaN too */
        amax = a > amax ? a : amax;
    }
    bool zero = !finite || amax < 0x1p-120f;
    float inv = zero ? 0 : 127.0f / amax;
    memset(q, 0, ACT_GROUP);
    for (int i = 0; i < n && !zero; i++) {
        float t = x[i] * inv + 0x1.8p23f; /* rounds to nearest even */
        q[i] = (int8_t)(int32_t)(bits_of_f32(t) - bits_of_f32(0x1.8p23f));
    }
    return !finite ? NAN : zero ? 0 : amax / 127.0f;
}

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
