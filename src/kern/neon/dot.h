/* dot.h - integer dot products of Armv8.2 with DotProd, for tmpl/linear_q8.h. Both operands of SDOT
 * are signed bytes, so 128 is subtracted from wide codes. SDOT selects the quad of activations by
 * its number, so one load instruction loads four quads. The speed is not measured, because no Arm
 * machine was available. Any thread may call kernels, because they change only the memory of their
 * arguments. */
#ifndef QUOTH_KERN_NEON_DOT_H
#define QUOTH_KERN_NEON_DOT_H

#include "vec.h"

#include "kern/tmpl/pair_none.h"

enum {
    WIDE_FILE = 0,
    STRIPS = 2, /* 32 registers: 16 of codes, 4 of sums, 4 of scales, 2 of activations */
    WIDE_SIGNED = 1,
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
    int8x16_t w = vreinterpretq_s8_s32(codes), s = vreinterpretq_s8_s32(four);
    (void)max;
    switch (i) {
    case 0:
        return (struct dot){vdotq_laneq_s32(d.sum, w, s, 0)};
    case 1:
        return (struct dot){vdotq_laneq_s32(d.sum, w, s, 1)};
    case 2:
        return (struct dot){vdotq_laneq_s32(d.sum, w, s, 2)};
    default:
        return (struct dot){vdotq_laneq_s32(d.sum, w, s, 3)};
    }
}

#endif
