/* dot2_test.c - goal: dot2_bf16 is the instruction vdpbf16ps, bit for bit. Method: random
 * operands, of ordinary size and of any bits at all, through both. */
#include "../../../tests/unit.h"

#include "base/cpu.h"
#include "base/rng.h"
#include "kern/kern_impl.h"

#include <immintrin.h>

static float instruction(float c, uint32_t a, uint32_t b)
{
    __m128i va = _mm_set1_epi32((int)a), vb = _mm_set1_epi32((int)b);
    return _mm_cvtss_f32(_mm_dpbf16_ps(_mm_set1_ps(c), (__m128bh)va, (__m128bh)vb));
}

TEST(dot2_bf16_is_the_instruction)
{
    if (!(cpu_flags() & CPU_AVX512X)) SKIP("this processor has no AVX512_BF16");
    uint64_t rng = 1;
    long n = test_long() ? 20000000 : 1000000, n_bad = 0;
    for (long i = 0; i < n; i++) {
        uint64_t r = rng_next(&rng);
        uint32_t c = (uint32_t)rng_next(&rng), a = (uint32_t)r, b = (uint32_t)(r >> 32);
        if (i % 4) /* exponents near 1: sums that round, cancel and carry */
            a = (a & 0x83FF83FF) | 0x3C003C00, b = (b & 0x83FF83FF) | 0x3C003C00,
            c = (c & 0x83FFFFFF) | 0x3C000000;
        float got = dot2_bf16(f32_of_bits(c), (uint16_t)a, (uint16_t)(a >> 16), (uint16_t)b,
                              (uint16_t)(b >> 16));
        float want = instruction(f32_of_bits(c), a, b);
        n_bad += bits_of_f32(got) != bits_of_f32(want) && !(isnan(got) && isnan(want));
    }
    EXPECT_INT(n_bad, 0);
}
