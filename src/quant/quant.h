/* quant.h - number formats: the meaning of their bytes. All functions are pure and allocate no
 * memory. Any thread may call them.
 *
 * A tensor row of n values in a format of blocks is n / block consecutive blocks. n is always a
 * multiple of the block. Blocks are little-endian as published, and unaligned, so memcpy reads
 * them. This folder is the specification, in plain scalar code with one file per format. src/kern
 * has fast versions with the same results bit for bit. */
#ifndef QUOTH_QUANT_H
#define QUOTH_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum qtype {
#define QTYPE(id, ...) QT_##id,
#include "types.def"
    QT_COUNT
};

/* Storage of K and V. KV_Q8: int8 times an f32 scale per token and head. The scale is amax /
 * 127. */
enum kv_type { KV_F32, KV_F16, KV_BF16, KV_Q8, KV_FP8_E4M3, KV_FP8_E5M2, KV_TYPE_COUNT };

enum { BLOCK_MAX = 256, SUB_MAX = 16 };

/* One block of a block format as integers. Value i, in sub-block j = i / (values per scale), is
 *     d * scale[j] * q[i] - dmin * min[j]
 * The products are exact in f32. Only the difference is rounded. NVFP4 is an exception: scale[j] is
 * the E4M3 code of sub-block j's step, and d is not used. */
struct block {
    float d, dmin; /* dmin and min[] only in formats with minimums */
    int16_t scale[SUB_MAX], min[SUB_MAX];
    int8_t q[BLOCK_MAX];
};

struct qtype_ops {
    /* Write the exact values of the n numbers in x to y f32 [n]. The pointer is never NULL. */
    void (*decode)(float *y, const void *x, int64_t n);

    /* Encode x f32 [n] to y with the least error that the search finds. importance f32 [n] has the
     * weights of squared errors, each >= 0; NULL: all weights are 1. Non-finite input is encoded as
     * zero in block formats. The pointer is NULL if the type cannot be encoded. */
    void (*encode)(void *y, const float *x, int64_t n, const float *importance);

    /* Return the integer dot product that docs/design.md, section 5, defines. w has n values, which
     * begin at a multiple of 256 in their row. n <= 256 is a multiple of the block. a is int8 [n].
     * The result is the group's
     *     T = 0;  per weight block ascending: T = fmaf((float)isum, w_scale, T)
     * Each format file's head defines isum, w_scale and the terms of minimums. The pointer is NULL
     * for float formats, which are computed in floating point (kern.h). */
    float (*dot_group)(const void *w, const int8_t *a, int n);

    /* Read the integers of the block at x. Only the fields of the format are set. For levels of
     * 4-bit codes (NF4_64, FP4_64), q has the codes. The pointer is NULL for other float
     * formats. */
    void (*unpack)(struct block *b, const uint8_t *x);
};

/* A row of types.def. Pointers are static. */
struct qtype_info {
    const char *name; /* name in upper case, as in GGUF tools */
    int block;        /* values per block                   */
    int n_byte;       /* bytes per block                    */
    int gguf_id;      /* ggml_type of GGUF; -1 if GGUF lacks the type      */
    /* type with smaller blocks, for rows that are not a multiple of the block */
    enum qtype smaller;
    /* NULL for types without arithmetic (F64, I*, U8, BOOL) */
    const struct qtype_ops *ops;
};
extern const struct qtype_info qtype_info[QT_COUNT];

/* Return the type; -1 if unknown. The case of names is ignored. */
int qtype_of_gguf(uint32_t gguf_id);
/* Return the type of a name such as "q4_k", in any case; -1 if unknown. */
int qtype_of_name(const char *name);

/* Return the number of bytes of n values. n must be a multiple of the block. */
static inline size_t qtype_bytes(enum qtype t, int64_t n)
{
    return (size_t)(n / qtype_info[t].block) * (size_t)qtype_info[t].n_byte;
}

/* Return value i of the row x, which has more than i values. A block format is decoded by the
 * block. The type must have arithmetic. */
float qtype_value(enum qtype t, const void *x, int64_t i);

/* Return true for block formats of integers, whose linear layers use int8 activations by
 * default. */
static inline bool qtype_is_block(enum qtype t)
{
    return qtype_info[t].ops && qtype_info[t].ops->dot_group;
}

/* Return true for floats with a scale per block (scaled_impl.h). These types do not occur in
 * files. */
static inline bool qtype_is_scaled(enum qtype t)
{
    return qtype_info[t].block > 1 && !qtype_is_block(t);
}

/* Return true for types whose linear layers use int8 activations by default: block formats, and
 * levels of 4-bit codes. */
static inline bool qtype_takes_int8(enum qtype t)
{
    return qtype_is_block(t) || t == QT_nf4_64 || t == QT_fp4_64;
}

/* Return true for types whose linear layers use bf16 activations by default. The codes of these
 * types are bf16 numbers. */
static inline bool qtype_takes_bf16(enum qtype t)
{
    return t == QT_bf16 || t == QT_e4m3_128;
}

/* Values of the codes of NF4 and of bitsandbytes' FP4. */
extern const float level_nf4[16], level_fp4[16];

/* Convert a scalar, exactly or rounded to nearest even. A NaN stays a NaN. Infinities stay, except
 * in E4M3, which has no infinity. In E4M3, values that overflow become NaN (0x7F). f8.c has the
 * saturating conversion. */
float f32_of_f16(uint16_t h);
/* Return x as f16. */
uint16_t f16_of_f32(float x);
/* Return the value of a BF16 code. */
static inline float f32_of_bf16(uint16_t h)
{
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)h << 16};
    return v.f;
}
/* Return x as a BF16 code, rounded to nearest even. */
uint16_t bf16_of_f32(float x);
/* Return the value of an FP8 E4M3 code. */
float f32_of_e4m3(uint8_t b);
/* Return x as an FP8 E4M3 code. */
uint8_t e4m3_of_f32(float x);
/* Return the value of an FP8 E5M2 code. */
float f32_of_e5m2(uint8_t b);
/* Return x as an FP8 E5M2 code. */
uint8_t e5m2_of_f32(float x);

#endif
