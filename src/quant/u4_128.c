/* u4_128.c - 128 integers of 4 bits with one scale and one zero: the groups of GPTQ, AWQ and
 * compressed-tensors checkpoints. The layout is quoth's own and is never read from a file.
 *
 *     0    2    3                   67
 *     [ d ][ z ][ 64 bytes of codes ]     d f16, z in [0, 15]
 *
 *     codes  byte i: value i low nibble, value i + 64 high nibble
 *
 * value = d * (code - z). isum = sum (code - z) * a, w_scale = d. unpack sets min[0] to z. */
#include "quant_impl.h"

enum { N = 128, MAX = 15 };

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = half_load(x);
    b->scale[0] = 1;
    b->min[0] = x[2] & MAX;
    fields_unpack(b->q, x + 3, N, N / 2, 4);
    q_add(b->q, N, -b->min[0]);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code[N];
    q_shifted(code, b->q, N, b->min[0]);
    half_store(y, b->d);
    y[2] = (uint8_t)b->min[0];
    fields_pack(y + 3, code, N, N / 2, 4, 0);
}

/* Set q to the integers nearest to x / d in [-zero, MAX - zero]. */
static void nearest(int8_t *q, const float *x, float d, int zero)
{
    for (int i = 0; i < N; i++) {
        const float v = d > 0 ? rintf(x[i] / d) : 0;
        q[i] = (int8_t)fminf(fmaxf(v, (float)-zero), (float)(MAX - zero));
    }
}

/* Return the step with the least error for q. */
static float best_step(const int8_t *q, const struct values *v)
{
    float above = 0, below = 0;
    for (int i = 0; i < N; i++) {
        above += v->w[i] * v->x[i] * (float)q[i];
        below += v->w[i] * (float)(q[i] * q[i]);
    }
    return below > 0 ? above / below : 0;
}

/* Try every zero with several steps. Small steps clamp the largest values. */
static void fit(struct block *b, const struct values *v, const struct format *f)
{
    float lo = 0, hi = 0, least = INFINITY;
    (void)f;
    for (int i = 0; i < N; i++) lo = fminf(lo, v->x[i]), hi = fmaxf(hi, v->x[i]);
    for (int zero = 0; zero <= MAX; zero++)
        for (int k = 0; k < 6; k++) {
            const float up = zero < MAX ? hi / (float)(MAX - zero) : 0,
                        down = zero ? -lo / (float)zero : 0;
            float d = fmaxf(up, down) * (1 - 0.08f * (float)k);
            int8_t q[N];
            nearest(q, v->x, d, zero);
            d = half_near(best_step(q, v) * v->unit);
            nearest(q, v->x, d / v->unit, zero);
            const float e = step_error(q, v->x, v->w, N, d / v->unit);
            if (!(e < least)) continue;
            least = e;
            b->d = d, b->scale[0] = 1, b->min[0] = (int16_t)zero;
            memcpy(b->q, q, N);
        }
}

static const struct format format = {N, N, 67, false, unpack, pack, fit, NULL};
BLOCK_OPS(u4_128, format)
