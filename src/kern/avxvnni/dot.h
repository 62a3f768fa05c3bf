/* dot.h - integer dot products of AVX-VNNI, for tmpl/linear_q8.h.
 *
 * One vpdpbusd replaces AVX2's vpmaddubsw, vpmaddwd and vpaddd. The bound for many rows is the rate
 * of vpdpbusd: two instructions of 32 products per cycle. The bound for one row is the bytes of the
 * weights. On one thread of a Zen 5, 32 rows reach 0.66 (Q4_0), 0.60 (Q4_K) and 0.59 (Q6_K, Q8_0)
 * of the peak. The ratio to the rate of AVX2 is 1.17 (Q4_0), 1.11 (Q4_K), 1.25 (Q6_K) and 1.62
 * (Q8_0). docs/measurements.md, "AVX-VNNI", has the measurements. Any thread may call kernels,
 * because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_AVXVNNI_DOT_H
#define QUOTH_KERN_AVXVNNI_DOT_H

#include "../avx2/vec.h"

#include "kern/tmpl/pair_none.h"

#include <string.h>

enum {
    WIDE_FILE = 0,
    STRIPS = 1, /* 8 of 16 registers are codes */
    WIDE_SIGNED = 0,
};

/* clang-format off */
static inline vi vi_dot16(vi acc, vi a, vi b) { return _mm256_dpwssd_avx_epi32(acc, a, b); }
static inline vi vi_table(const uint8_t *t) { return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)t)); }
static inline vi vi_lut(vi table, vi codes) { return _mm256_shuffle_epi8(table, codes); }
/* clang-format on */
static inline vi vi_bcast4(const void *p)
{
    int x;
    memcpy(&x, p, sizeof x);
    return _mm256_set1_epi32(x);
}
static inline vi vi_quad(const int8_t *q, int i)
{
    return vi_bcast4(q + 4 * i);
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
static inline struct dot dot_step(struct dot d, vi u, vi s, int max, int i)
{
    (void)max, (void)i;
    return (struct dot){_mm256_dpbusd_avx_epi32(d.sum, u, s)};
}

#endif
