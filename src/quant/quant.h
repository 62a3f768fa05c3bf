/* quant.h - number formats: what their bytes mean. Pure functions, any thread, no allocation.
 *
 * A tensor row of n values in a block format is n / block consecutive blocks; n is always a
 * multiple of the block. Blocks are little-endian as published, with no alignment (use
 * memcpy-style loads). This folder is the specification: plain scalar code, one file per format;
 * src/kern has the fast forms, equal bit for bit. */
#ifndef QUOTH_QUANT_H
#define QUOTH_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum qtype {
#define QTYPE(id, name, block, n_byte, gguf_id) QT_##id,
#include "types.def"
#undef QTYPE
    QT_COUNT
};

enum { BLOCK_MAX = 256, SUB_MAX = 16 };

/* One block of a block format as integers. Value i, in sub-block j = i / (values per scale), is
 *     d * scale[j] * q[i] - dmin * min[j]
 * where the products are exact in f32 and only the difference rounds. NVFP4 alone is different:
 * there scale[j] is the E4M3 code of sub-block j's step, and d is not used. */
struct block {
    float d, dmin; /* dmin and min[] only in formats that have minimums */
    int16_t scale[SUB_MAX], min[SUB_MAX];
    int8_t q[BLOCK_MAX];
};

struct qtype_ops {
    /* y f32 [n] = the exact value of each of the n numbers in x. Never NULL. */
    void (*decode)(float *y, const void *x, int64_t n);

    /* x f32 [n] -> y, our best encoding. importance f32 [n] (squared-error weights, each >= 0) or
     * NULL. Non-finite input: encoded as zero in block formats. NULL: the type cannot be encoded. */
    void (*encode)(void *y, const float *x, int64_t n, const float *importance);

    /* The integer dot product of DESIGN 5: w is n values (n <= 256, a multiple of the block) that
     * start at a multiple of 256 in their row, a is int8 [n]. Returns the group's
     *     T = 0;  per weight block ascending: T = fmaf((float)isum, w_scale, T)
     * each file's head says what isum, w_scale and the terms for minimums are.
     * NULL for float formats (they are computed in floating point, see kern.h). */
    float (*dot_group)(const void *w, const int8_t *a, int n);

    /* The integers of the block at x. Fills what the format has and leaves the rest. NULL for float
     * formats. */
    void (*unpack)(struct block *b, const uint8_t *x);
};

struct qtype_info {
    const char *name; /* as GGUF tools print it, upper case */
    int block;        /* values per block                   */
    int n_byte;       /* bytes per block                    */
    int gguf_id;      /* GGUF's ggml_type, -1 if it has none */
    /* NULL for plain integers (F64, I*, U8, BOOL: carried, not computed with) */
    const struct qtype_ops *ops;
};
extern const struct qtype_info qtype_info[QT_COUNT];

/* -1 when unknown. Names compare without regard to case. */
int qtype_of_gguf(uint32_t gguf_id);
int qtype_of_name(const char *name);

/* Bytes of n values; n must be a multiple of the block. */
static inline size_t qtype_bytes(enum qtype t, int64_t n)
{
    return (size_t)(n / qtype_info[t].block) * (size_t)qtype_info[t].n_byte;
}

/* Weight types whose linear layers take int8 activations by default (all block formats). */
static inline bool qtype_is_block(enum qtype t)
{
    return qtype_info[t].ops && qtype_info[t].ops->dot_group;
}

/* Scalar conversions, exact or round-to-nearest-even; NaN stays NaN, infinities stay (E4M3 has
 * none: values that overflow become NaN, 0x7F; see f8.c for the saturating form). */
float f32_of_f16(uint16_t h);
uint16_t f16_of_f32(float x);
static inline float f32_of_bf16(uint16_t h)
{
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)h << 16};
    return v.f;
}
uint16_t bf16_of_f32(float x);
float f32_of_e4m3(uint8_t b);
uint8_t e4m3_of_f32(float x);
float f32_of_e5m2(uint8_t b);
uint8_t e5m2_of_f32(float x);

#endif
