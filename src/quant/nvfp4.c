/* nvfp4.c - NVFP4: 64 values of FP4 E2M1 in 4 sub-blocks of 16, each with an FP8 scale (NVIDIA;
 * block layout published by llama.cpp).
 *
 *     0          4                  36
 *     [ 4 scales ][ 32 bytes of codes ]
 *
 *     scales  E4M3 without the sign bit; 0x7F is 0
 *     codes   four runs of 8 bytes: byte m: value m low nibble, value m + 8 high nibble
 *
 * value = e4m3(scale) / 2 * level_e2m1[code]; the table is doubled. The scales have no common unit,
 * so they are not integers. Therefore each sub-block is a separate weight block: isum = sum level *
 * a over 16 values, w_scale = e4m3(scale) / 2. The tensor-wide scale of NVFP4 weights is a separate
 * tensor. */
#include "quant_impl.h"

enum { SUB = 16, N_SUB = 4 };

static float step_of(int scale)
{
    return (scale & 127) == 127 ? 0.0f : f32_of_e4m3((uint8_t)(scale & 127)) * 0.5f;
}

/* Read a block. b->scale receives the scales' codes. */
static void unpack(struct block *b, const uint8_t *x)
{
    for (int j = 0; j < N_SUB; j++) b->scale[j] = x[j];
    fields_unpack(b->q, x + N_SUB, 64, 8, 4);
    levels_of_codes(b->q, level_e2m1, 64);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code[64];
    for (int j = 0; j < N_SUB; j++) y[j] = (uint8_t)b->scale[j];
    codes_of_levels(code, b->q, level_e2m1, 64);
    fields_pack(y + N_SUB, code, 64, 8, 4, 0);
}

static const struct coder coder = {.nearest = level_nearest, .level = ladder_e2m1};

/* Try all scales from 0.5 to 1.5 times the scale by which the largest value is at the outermost
 * level. A factor of two is 8 codes. */
static void sub_fit(struct block *b, const struct values *v, const struct coder *c, int j)
{
    const float *x = v->x + j * SUB, *w = v->w + j * SUB;
    float max = 0.0f, least = INFINITY;
    for (int i = 0; i < SUB; i++) max = fmaxf(max, fabsf(x[i]));
    float target = max * v->unit / 6.0f;
    int middle = target < 448.0f ? e4m3_of_f32(target) : 126;
    for (int scale = middle - 8; scale <= middle + 5; scale++) {
        int8_t q[SUB];
        if (scale < 0 || scale > 126) continue;
        float step = step_of(scale) / v->unit;
        level_nearest(c, q, x, w, SUB, step);
        float e = step_error(q, x, w, SUB, step);
        if (e >= least) continue;
        least = e;
        b->scale[j] = (int16_t)scale;
        memcpy(b->q + j * SUB, q, SUB);
    }
}

static void fit_block(struct block *b, const struct values *v, const struct format *f)
{
    for (int j = 0; j < N_SUB; j++) sub_fit(b, v, f->coder, j);
}

static void decode(float *y, const void *x, int64_t n)
{
    struct block b;
    const uint8_t *at = x;
    for (int64_t i = 0; i < n; i += 64, at += 36) {
        unpack(&b, at);
        for (int j = 0; j < N_SUB; j++, y += SUB) {
            float step = step_of(b.scale[j]);
            for (int k = 0; k < SUB; k++) y[k] = step * (float)b.q[j * SUB + k];
        }
    }
}

static float dot_group(const void *w, const int8_t *a, int n)
{
    struct block b;
    const uint8_t *at = w;
    float t = 0.0f;
    for (int i = 0; i < n; i += 64, at += 36, a += 64) {
        unpack(&b, at);
        for (int j = 0; j < N_SUB; j++) {
            int32_t isum = int_dot(b.q + j * SUB, a + j * SUB, SUB);
            t = fmaf((float)isum, step_of(b.scale[j]), t);
        }
    }
    return t;
}

static const struct format format = {64, SUB, 36, false, unpack, pack, fit_block, &coder};
ENCODE_OP(format)
const struct qtype_ops qtype_ops_nvfp4 = {decode, encode, dot_group, unpack};
