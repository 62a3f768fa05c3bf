/* quant_impl.h - private to src/quant: code shared by the format files.
 *
 *     bytes --unpack--> struct block --> decode, dot_group
 *     f32 --format_encode--> struct values --fit--> struct block --pack--> bytes
 *
 * A format file defines the mapping of its bytes to integers and selects the fit that chooses the
 * integers. unpack and pack are inverses on an encoder's output. BLOCK_OPS makes the qtype_ops from
 * these functions. The loops are inline with a constant `format`, so all lengths are constants for
 * the compiler. Any thread. */
#ifndef QUOTH_QUANT_IMPL_H
#define QUOTH_QUANT_IMPL_H

#include "float_impl.h"
#include "quant.h"

#include <math.h>

#define QTYPE(id, ...) extern const struct qtype_ops qtype_ops_##id;
#define QPLAIN(...)
#include "types.def"

/* Input values of a block. The values are finite, and divided by `unit`, their largest magnitude (1
 * if all are zero). Therefore sums of values do not overflow or vanish. x and w are borrowed for
 * the call. */
struct values {
    const float *x; /* [n], in [-1, 1]                         */
    const float *w; /* [n] squared-error weights, not all zero */
    int n;
    float unit;
};

/* Description of a format. All pointers are static. */
struct format {
    int n, sub; /* numbers of values per block and per sub-block; sub divides n */
    int n_byte;
    bool has_min;
    void (*unpack)(struct block *b, const uint8_t *x);
    void (*pack)(uint8_t *y, const struct block *b);
    void (*fit)(struct block *b, const struct values *v, const struct format *f);
    const struct coder *coder; /* parameters of fit */
};

/* ---- bytes ---- */

static inline uint16_t u16_load(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

/* Write a little-endian u16 at any alignment. */
static inline void u16_store(uint8_t *p, uint16_t u)
{
    p[0] = (uint8_t)u;
    p[1] = (uint8_t)(u >> 8);
}

/* Read a little-endian u32 at any alignment. */
static inline uint32_t u32_load(const uint8_t *p)
{
    return u16_load(p) | (uint32_t)u16_load(p + 2) << 16;
}

/* Write a little-endian u32 at any alignment. */
static inline void u32_store(uint8_t *p, uint32_t u)
{
    u16_store(p, (uint16_t)u);
    u16_store(p + 2, (uint16_t)(u >> 16));
}

/* Read an f16 as f32. */
static inline float half_load(const uint8_t *p)
{
    return f32_of_f16(u16_load(p));
}

/* Write x as f16. */
static inline void half_store(uint8_t *p, float x)
{
    u16_store(p, f16_of_f32(x));
}

/* Unpack n bit fields of x u8 [n * n_bit / 8] to q i8 [n], in runs of `run` bytes. Field k of byte
 * m is value k * run + m of the run. Most formats have runs of this kind. Examples are nibbles of a
 * block's halves (run 16, 4 bits), the 2-bit codes of the k-quants (run 32), and plain bit strings
 * (run 1). */
static inline void fields_unpack(int8_t *q, const uint8_t *x, int n, int run, int n_bit)
{
    const int per_byte = 8 / n_bit, mask = (1 << n_bit) - 1;
    for (int at = 0; at < n; at += per_byte * run, x += run)
        for (int k = 0; k < per_byte; k++) {
            int m = 0;
            /* process eight bytes together; fields stay in their bytes */
            for (; m + 8 <= run; m += 8) {
                uint64_t u;
                memcpy(&u, x + m, sizeof u);
                u = u >> (k * n_bit) & 0x0101010101010101u * (uint64_t)mask;
                memcpy(q + at + k * run + m, &u, sizeof u);
            }
            for (; m < run; m++) q[at + k * run + m] = (int8_t)((x[m] >> (k * n_bit)) & mask);
        }
}

/* Pack bits [from, from + n_bit) of each value of q i8 [n] as bit fields, to y u8 [n * n_bit / 8].
 * fields_pack is the inverse of fields_unpack. */
static inline void fields_pack(uint8_t *y, const int8_t *q, int n, int run, int n_bit, int from)
{
    int per_byte = 8 / n_bit, mask = (1 << n_bit) - 1;
    memset(y, 0, (size_t)(n / per_byte));
    for (int at = 0; at < n; at += per_byte * run, y += run)
        for (int k = 0; k < per_byte; k++)
            for (int m = 0; m < run; m++)
                y[m] |= (uint8_t)(((q[at + k * run + m] >> from) & mask) << (k * n_bit));
}

/* Set q i8 [n] |= high i8 [n] << by, for formats that store upper bits separately. */
static inline void bits_join(int8_t *q, const int8_t *high, int n, int by)
{
    for (int i = 0; i < n; i++) q[i] = (int8_t)(q[i] | high[i] << by);
}

/* Add `by` to q i8 [n]. */
static inline void q_add(int8_t *q, int n, int by)
{
    for (int i = 0; i < n; i++) q[i] = (int8_t)(q[i] + by);
}

/* Write y i8 [n] = q i8 [n] + by, the codes that pack stores, for formats with a zero point. */
static inline void q_shifted(int8_t *y, const int8_t *q, int n, int by)
{
    for (int i = 0; i < n; i++) y[i] = (int8_t)(q[i] + by);
}

/* ---- decode and dot, from unpacked blocks ---- */

/* Decode the blocks of n values in x to y f32 [n]. */
static inline void format_decode(const struct format *f, float *y, const uint8_t *x, int64_t n)
{
    struct block b;
    for (int64_t at = 0; at < n; at += f->n, x += f->n_byte) {
        f->unpack(&b, x);
        for (int j = 0; j < f->n / f->sub; j++) {
            const int8_t *q = b.q + j * f->sub;
            float step = b.d * (float)b.scale[j];
            float low = f->has_min ? b.dmin * (float)b.min[j] : 0.0f;
            for (int i = 0; i < f->sub; i++) y[i] = step * (float)q[i] - low;
            y += f->sub;
        }
    }
}

/* Return the dot product of q i8 [n] and a i8 [n]. */
static inline int32_t int_dot(const int8_t *q, const int8_t *a, int n)
{
    int32_t sum = 0;
    for (int i = 0; i < n; i++) sum += q[i] * a[i];
    return sum;
}

/* Return the sum of a i8 [n]. */
static inline int32_t int_sum(const int8_t *a, int n)
{
    int32_t sum = 0;
    for (int i = 0; i < n; i++) sum += a[i];
    return sum;
}

/* Return the dot product of the blocks of n values in w and a i8 [n] (qtype_ops.dot_group). */
static inline float format_dot(const struct format *f, const uint8_t *w, const int8_t *a, int n)
{
    struct block b;
    float t = 0.0f;
    for (int at = 0; at < n; at += f->n, w += f->n_byte) {
        int32_t isum = 0, msum = 0;
        f->unpack(&b, w);
        for (int j = 0; j < f->n / f->sub; j++, a += f->sub) {
            isum += b.scale[j] * int_dot(b.q + j * f->sub, a, f->sub);
            if (f->has_min) msum += b.min[j] * int_sum(a, f->sub);
        }
        t = fmaf((float)isum, b.d, t);
        if (f->has_min) t = fmaf((float)-msum, b.dmin, t);
    }
    return t;
}

/* Clean, fit and pack x f32 [n] to y, block by block (encode.c). importance f32 [n] has the weights
 * of squared errors; NULL: all weights are 1. */
void format_encode(const struct format *f, uint8_t *y, const float *x, int64_t n,
                   const float *importance);

#define ENCODE_OP(f)                                                                               \
    static void encode(void *y, const float *x, int64_t n, const float *importance)                \
    {                                                                                              \
        format_encode(&(f), y, x, n, importance);                                                  \
    }
#define BLOCK_OPS(id, f)                                                                           \
    static void decode(float *y, const void *x, int64_t n)                                         \
    {                                                                                              \
        format_decode(&(f), y, x, n);                                                              \
    }                                                                                              \
    ENCODE_OP(f)                                                                                   \
    static float dot_group(const void *w, const int8_t *a, int n)                                  \
    {                                                                                              \
        return format_dot(&(f), w, a, n);                                                          \
    }                                                                                              \
    const struct qtype_ops qtype_ops_##id = {decode, encode, dot_group, unpack};

/* ---- fitting ---- */

/* Return the f16 nearest to x, within f16's finite range. */
float half_near(float x);

/* Return sum w (x - step q)^2 of q i8 [n], x f32 [n] and w f32 [n]. */
float step_error(const int8_t *q, const float *x, const float *w, int n, float step);

/* Encoding of a sub-block's values as integers, and the steps that fit_scale.c tries. All pointers
 * are static. */
struct coder {
    /* Write to q i8 [n] the admissible integers for x f32 [n] with the least sum w (x - step q)^2,
     * w f32 [n]. Any integers are correct if step is 0. */
    void (*nearest)(const struct coder *c, int8_t *q, const float *x, const float *w, int n,
                    float step);
    /* Range of q. Positive and negative steps are tried if lo != -hi. fit_line and fit_lines use
     * only hi and scale.hi. */
    int lo, hi;
    const int8_t *level;     /* level_nearest: 16 integers, ascending                 */
    const struct grid *grid; /* grid_nearest                                          */
    bool even;               /* grid_nearest: true if the signs of each 8 values have even parity */
    int run;                 /* shift_nearest: number of values that share a shift    */
    struct {
        float from, to; /* range of max|x| / step for the steps to try */
        int n;          /* number of steps, evenly spaced in that range */
    } fan;
    struct {
        /* range and step of admissible integer scales; 1, 1, 1: the block has no integer scales */
        int lo, hi, by;
    } scale;
    int d_factor; /* the block stores d * d_factor as f16 */
};

/* Set q i8 [n] to the integers nearest to x / step, x f32 [n], within the coder's range. w f32 [n]
 * is not used. */
void uniform_nearest(const struct coder *c, int8_t *q, const float *x, const float *w, int n,
                     float step);
/* Set q i8 [n] to the levels nearest to x / step, x f32 [n]. w f32 [n] is not used. */
void level_nearest(const struct coder *c, int8_t *q, const float *x, const float *w, int n,
                   float step);

/* Each fit function chooses d, scale[] and q[] (also dmin and min[]) of a zeroed b for the values
 * v. */

/* Fit a block without minimums. f->sub values share a scale. */
void fit_scales(struct block *b, const struct values *v, const struct format *f);

/* Fit one f16 step and one f16 offset for the block: q in [0, hi], scale 1, min -1. dmin is the
 * offset. */
void fit_line(struct block *b, const struct values *v, const struct format *f);

/* Fit a k-quant with minimums: q in [0, hi], scale[] and min[] in [0, scale.hi]. */
void fit_lines(struct block *b, const struct values *v, const struct format *f);

/* ---- 16-level code tables ---- */

extern const int8_t level_iq4[16];   /* IQ4_NL, IQ4_XS            */
extern const int8_t level_e2m1[16];  /* MXFP4, NVFP4: 2 x E2M1    */
extern const int8_t ladder_e2m1[16]; /* levels of E2M1, ascending */

/* Replace the codes in q i8 [n] by their levels. */
static inline void levels_of_codes(int8_t *q, const int8_t level[16], int n)
{
    for (int i = 0; i < n; i++) q[i] = level[q[i]];
}

/* Write the first code of each level of q i8 [n] to code i8 [n]. codes_of_levels is the inverse of
 * levels_of_codes. */
void codes_of_levels(int8_t *code, const int8_t *q, const int8_t level[16], int n);

/* ---- code books of the IQ formats (iq_grid.c) ---- */

/* A grid: n points of dim values each. A point is stored as its digits. Digit i has n_bit bits,
 * from bit i * n_bit up, and is the index of value i in `level`. Keys ascend. The code of a point
 * is its index. */
struct grid {
    const uint16_t *key; /* [n] points, static */
    int n, dim, n_bit, n_level;
    int8_t level[8];
};
extern const struct grid grid_iq1, grid_iq2_xxs, grid_iq2_xs, grid_iq2_s, grid_iq3_xxs, grid_iq3_s;

/* Write the values of a point to q i8 [g->dim]. */
static inline void grid_point(int8_t *q, const struct grid *g, int code)
{
    int key = g->key[code], mask = (1 << g->n_bit) - 1;
    for (int i = 0; i < g->dim; i++) q[i] = g->level[(key >> (i * g->n_bit)) & mask];
}

/* Return the code of the point with the values q i8 [g->dim]. The point must exist. */
int grid_code(const struct grid *g, const int8_t *q);

/* Costs of a search. cost[i][l]: cost of level l for value i. */
struct grid_cost {
    float cost[8][8];
    float extra[8][8]; /* additional cost of the wrong sign of value i at level l */
};

/* Find the point with the least cost. Write the levels of the point to q i8 [dim] and return the
 * cost of the point. Exactly one value has the wrong sign if `flip` is true: the value with the
 * least additional cost. The result includes this cost. */
float grid_search(const struct grid *g, const struct grid_cost *c, bool flip, int8_t *q);

/* Set q i8 [n] to the points of c->grid, with a sign per value, that are nearest to x / step. x and
 * w are f32 [n]; w has the weights of squared errors (grid_signed.c). */
void grid_nearest(const struct coder *c, int8_t *q, const float *x, const float *w, int n,
                  float step);
uint8_t signs_of(const int8_t q[8]); /* return the signs: bit i is set if q[i] < 0 */
/* Negate the values whose sign bit is set. */
void signs_apply(int8_t q[8], unsigned signs);
int magnitude_code(const struct grid *g, const int8_t *q); /* return grid_code of |q| */

/* Return eight signs from seven bits. The eighth sign makes the number of minuses even. */
static inline unsigned signs_of_7(unsigned bits)
{
    bits &= 127;
    return bits | (unsigned)(__builtin_popcount(bits) & 1) << 7;
}

/* Unpack n scales 2 s + 1, whose s are consecutive nibbles of x u8 [n / 2]. IQ2_XS, IQ2_S and IQ3_S
 * have these scales. */
void odd_scales_unpack(struct block *b, const uint8_t *x, int n);
/* Write the n scales that odd_scales_unpack reads to y u8 [n / 2]. */
void odd_scales_pack(uint8_t *y, const struct block *b, int n);

/* Set q i8 [n] to the integers 8 g + shift nearest to x / step. x and w are f32 [n]; w has the
 * weights of squared errors. g is a point of a grid of -1, 0, 1. shift is -1 or 1 for each c->run
 * values (iq1.c). */
void shift_nearest(const struct coder *c, int8_t *q, const float *x, const float *w, int n,
                   float step);
/* Write the integers of the point `code`, with shift -1 if minus, otherwise 1. */
void shift_point(int8_t q[8], int code, bool minus);
int shift_code(const int8_t q[8]); /* return the code of the point */
/* Return true if the shift of the values is -1. */
static inline bool shift_is_minus(const int8_t q[8])
{
    return (q[0] & 7) == 7;
}

/* ---- scales of Q4_K and Q5_K (k_scale.c) ---- */

/* Unpack x u8 [12]: eight 6-bit scales and eight 6-bit minimums. */
void k_scales_unpack(struct block *b, const uint8_t *x);
/* Write the scales and minimums that k_scales_unpack reads to y u8 [12]. */
void k_scales_pack(uint8_t *y, const struct block *b);

#endif
