/* dot.h - integer dot products of AVX2, for tmpl/linear_q8.h.
 *
 * vpmaddubsw adds two products u8 x s8 in 16 bits and saturates. The sum of two products fits for
 * bytes up to 129. The sum of several pairs fits for smaller bytes. The sum of four pairs of 4-bit
 * codes is at most 15 * 127 * 2 * 4 = 15,240. Wider bytes are passed as signed bytes: |w| x (a with
 * the sign of w). A sum of four pairs is widened once, so 4-bit codes exceed the peak of the probe,
 * which widens each pair, and wide codes reach 0.72 (Q8_0) of it. Any thread may call kernels,
 * because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_AVX2_DOT_H
#define QUOTH_KERN_AVX2_DOT_H

#include "vec.h"

#include "kern/tmpl/pair_none.h"

#include <string.h>

enum {
    WIDE_FILE = 0,
    STRIPS = 1, /* 8 of 16 registers are codes */
    WIDE_SIGNED = 1,
};

/* clang-format off */
static inline vi vi_dot16(vi acc, vi a, vi b) { return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b)); }
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
    vi sum, part; /* sums in 32 bits; sums of pairs of products in 16 bits */
};
static inline struct dot dot_from(vi sum)
{
    return (struct dot){sum, sum};
}
static inline vi dot_sum(struct dot d)
{
    return d.sum;
}

static inline vi pairs(vi w, vi a, int max)
{
    if (max > 129) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
    return _mm256_maddubs_epi16(w, a);
}

static inline struct dot dot_step(struct dot d, vi w, vi a, int max, int i)
{
    /* number of pairs that a part can hold */
    const int n_fit = max > 129 ? 1 : INT16_MAX / (2 * 127 * max);
    const int n = n_fit >= 4 ? 4 : n_fit >= 2 ? 2 : 1;
    d.part = i % n ? _mm256_add_epi16(d.part, pairs(w, a, max)) : pairs(w, a, max);
    if (i % n == n - 1) d.sum = vi_dot16(d.sum, d.part, _mm256_set1_epi16(1));
    return d;
}

#endif
