/* dot.h - integer products of Armv8.6's I8MM, for tmpl/linear_q8.h: unsigned codes x signed
 * activations. USDOT computes one row, USMMLA two rows: [2 outputs][8 k] x [2 rows][8 k]. One
 * USMMLA does the work of two USDOT. The speed is not measured, because no Arm machine was
 * available. Any thread may call kernels, because they change only the memory of their
 * arguments. */
#ifndef QUOTH_KERN_NEON_I8MM_DOT_H
#define QUOTH_KERN_NEON_I8MM_DOT_H

#include "../neon/vec.h"

enum {
    WIDE_FILE = 0,
    STRIPS = 2, /* 32 registers: 16 of codes, 8 of sums, 4 of scales, 2 of activations */
    WIDE_SIGNED = 0,
    PAIRS = 1,
};

static inline vi vi_quad(const int8_t *q, int i)
{
    return vi_load(q + i / 4 * 16);
}

struct dot {
    vi sum;
};
static inline struct dot dot_from(vi sum)
{
    return (struct dot){sum};
}
static inline vi dot_sum(struct dot d)
{
    return d.sum;
}
static inline struct dot dot_step(struct dot d, vi codes, vi four, int max, int i)
{
    uint8x16_t w = vreinterpretq_u8_s32(codes);
    int8x16_t s = vreinterpretq_s8_s32(four);
    (void)max;
    switch (i) {
    case 0:
        return (struct dot){vusdotq_laneq_s32(d.sum, w, s, 0)};
    case 1:
        return (struct dot){vusdotq_laneq_s32(d.sum, w, s, 1)};
    case 2:
        return (struct dot){vusdotq_laneq_s32(d.sum, w, s, 2)};
    default:
        return (struct dot){vusdotq_laneq_s32(d.sum, w, s, 3)};
    }
}

/* ---- two rows ---- */

struct pair {
    vi a, b; /* a: outputs 0 and 1, b: outputs 2 and 3; [output][row] */
};
static inline void pair_order(vi *a, vi *b)
{
    vi low = vzip1q_s32(*a, *b);
    *b = vzip2q_s32(*a, *b);
    *a = low;
}
static inline vi pair_octet(const int8_t *q, const int8_t *other, int j)
{
    return vreinterpretq_s32_s8(vcombine_s8(vld1_s8(q + 8 * j), vld1_s8(other + 8 * j)));
}
static inline struct pair pair_from(const int *start)
{
    vi s = vcombine_s32(vld1_s32(start), vld1_s32(start));
    return (struct pair){s, s};
}
static inline struct pair pair_step(struct pair p, vi a, vi b, vi octet)
{
    int8x16_t s = vreinterpretq_s8_s32(octet);
    p.a = vusmmlaq_s32(p.a, vreinterpretq_u8_s32(a), s);
    p.b = vusmmlaq_s32(p.b, vreinterpretq_u8_s32(b), s);
    return p;
}
static inline vi pair_row(struct pair p, int row)
{
    return row ? vuzp2q_s32(p.a, p.b) : vuzp1q_s32(p.a, p.b);
}

#endif
