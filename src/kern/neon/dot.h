/* dot.h - integer dot products of Armv8.2 with DotProd, for tmpl/linear_q8.h. SDOT takes signed bytes on
 * both sides: wide codes come less 128. */
#ifndef QUOTH_KERN_NEON_DOT_H
#define QUOTH_KERN_NEON_DOT_H

#include "vec.h"

enum {
    STRIPS = 2, /* 16 registers of codes, 4 sums, 4 scales, 1 of activations: of 32 */
    WIDE_SIGNED = 1,
};

static inline vi vi_dot16(vi acc, vi a, vi b)
{
    int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
    vi low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
    return vaddq_s32(acc, vpaddq_s32(low, vmull_high_s16(x, y)));
}
static inline vi vi_table(const uint8_t *t)
{
    return vi_load(t);
}
static inline vi vi_lut(vi table, vi codes)
{
    return vreinterpretq_s32_u8(
        vqtbl1q_u8(vreinterpretq_u8_s32(table), vreinterpretq_u8_s32(codes)));
}
static inline vi vi_bcast4(const void *p)
{
    int x;
    memcpy(&x, p, sizeof x);
    return vdupq_n_s32(x);
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
static inline struct dot dot_step(struct dot d, vi w, vi s, int max, int i)
{
    (void)max, (void)i;
    return (struct dot){vdotq_s32(d.sum, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(s))};
}

#endif
