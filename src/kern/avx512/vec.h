/* vec.h - the vector of AVX-512: the operations that src/kern/tmpl uses. Every level that
 * instantiates templates has a vec.h with the same names. This file documents these names:
 *
 *   VL              f32 lanes of a vector; divides 16, the lanes of every canonical order
 *   N_VREG          vector registers
 *   vf, vi          vectors of VL f32 and of VL i32 (or 4 VL bytes)
 *   vf_max(a, b)    a > b ? a : b per lane (b if a or b is NaN)
 *   vf_fma(a, b, c) a * b + c, rounded once; vf_fnma(a, b, c) c - a * b
 *   vf_max_rows(s, stride)  lane r: the largest of the 16 floats at s + r * stride; r < VL
 *   vf_scale2(a, n) a * 2^n, rounded once: a in [1/2, 2], n an integer in [-160, 140]; NaN stays
 *   vf_scale2_if(m, a, n)   a * 2^n if m, otherwise 0: a in [1/2, 2], n an integer in
 *                   [-120, 120] or a NaN, which stays.
 *                   In other lanes a and n are any numbers, also infinite
 *   vf_not_less(a, b)       !(a < b): true of a NaN
 *   vf_tree16(s)    sum of the 16 lanes of 16 / VL vectors, by the tree +8 +4 +2 +1
 *   vf_lut16(t, i)  t[i & 15] per lane, of t f32 [16]; bits of i above 4 are any (i of vi_load_u8)
 *   vf_pairs(a)     a0 a0 a1 a1 ... of its lower half; vf_swap_pairs(a) a1 a0 a3 a2 ...
 *   vf_compress     write the lanes of x under m to `to`, their numbers (+ at) to `index`, in
 *                   order; may write VL of both. Return their count
 *   _n              the first n lanes, 0 <= n <= VL: loads give 0 in other lanes, stores do not
 *                   change their memory
 * Loads and stores accept any alignment. Any thread: vectors are values. */
#ifndef QUOTH_KERN_AVX512_VEC_H
#define QUOTH_KERN_AVX512_VEC_H

#include <immintrin.h>
#include <stdint.h>

enum { VL = 16, N_VREG = 32 };
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vmask; /* mask of lanes */

/* Set FTZ and DAZ: subnormal results and operands become 0. */
static inline unsigned flush_begin(void)
{
    unsigned former = _mm_getcsr();
    _mm_setcsr(former | 0x8040);
    return former;
}
static inline void flush_end(unsigned former)
{
    _mm_setcsr(former);
}
enum { FLUSH_STRAYS = 0 }; /* 1: flush_strayed may be true */
static inline int flush_strayed(void)
{
    return 0;
}

/* clang-format off */
static inline vf vf_zero(void) { return _mm512_setzero_ps(); }
static inline vf vf_set1(float x) { return _mm512_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
static inline vmask lanes_below(int n) { return (vmask)((1u << n) - 1); }
static inline vf vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(lanes_below(n), p); }
static inline void vf_store_n(float *p, vf x, int n) { _mm512_mask_storeu_ps(p, lanes_below(n), x); }

static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline vmask vf_gt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
static inline vmask vf_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static inline vf vf_select(vmask m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
/* Return a with zeros in lanes n and above. */
static inline vf vf_first(vf a, int n) { return _mm512_maskz_mov_ps(lanes_below(n), a); }
static inline vmask vf_ge(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
static inline vmask vmask_and(vmask a, vmask b) { return a & b; }
static inline vmask vmask_below(int n) { return lanes_below(n); }
static inline vmask vmask_of_bits(uint32_t u) { return (vmask)u; }
static inline unsigned vmask_bits(vmask m) { return m; }
static inline int vf_compress(float *to, int32_t *index, vf x, int at, vmask m)
{
    __m512i i = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), _mm512_set1_epi32(at));
    /* compress to a register first, because compressing to memory is slow */
    _mm512_storeu_ps(to, _mm512_maskz_compress_ps(m, x));
    _mm512_storeu_si512(index, _mm512_maskz_compress_epi32(m, i));
    return __builtin_popcount(m);
}
static inline int vmask_any(vmask m) { return m != 0; }
static inline vf vf_scale2(vf a, vf n) { return _mm512_scalef_ps(a, n); }
static inline vf vf_scale2_if(vmask m, vf a, vf n) { return _mm512_maskz_scalef_ps(m, a, n); }
static inline vmask vf_not_less(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }

static inline float vf_tree8(__m256 a)
{
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float vf_tree16(const vf s[16 / VL]) { return vf_tree8(_mm256_add_ps(_mm512_castps512_ps256(s[0]), _mm512_extractf32x8_ps(s[0], 1))); }
static inline float vf_max_lanes(vf a) { return _mm512_reduce_max_ps(a); }
static inline vf vf_pairs(vf a) { return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7), a); }
static inline vf vf_swap_pairs(vf a) { return _mm512_permute_ps(a, 0xB1); }
static inline vf vf_negate_even(vf a) { return _mm512_xor_ps(a, _mm512_castsi512_ps(_mm512_set1_epi64(0x80000000))); }

static inline vi vi_zero(void) { return _mm512_setzero_si512(); }
static inline vi vi_set1(int x) { return _mm512_set1_epi32(x); }
static inline vi vi_set1_i8(int x) { return _mm512_set1_epi8((char)x); }
static inline vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
static inline void vi_store(void *p, vi x) { _mm512_storeu_si512(p, x); }
static inline vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
static inline vi vi_sub_i8(vi a, vi b) { return _mm512_sub_epi8(a, b); } /* subtract bytes */
static inline vi vi_mul(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
static inline vi vi_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
static inline vmask vi_gt(vi a, vi b) { return _mm512_cmpgt_epi32_mask(a, b); }
static inline int vi_max_lanes(vi a) { return _mm512_reduce_max_epi32(a); }
static inline vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
static inline vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
static inline vi vi_sll(vi a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
static inline vi vi_srl(vi a, int n) { return _mm512_srli_epi32(a, (unsigned)n); }
static inline vi vi_sra(vi a, int n) { return _mm512_srai_epi32(a, (unsigned)n); }

static inline vf vf_of_vi(vi a) { return _mm512_cvtepi32_ps(a); }   /* round to nearest even */
static inline vi vi_round(vf a) { return _mm512_cvtps_epi32(a); }   /* round to nearest even */
static inline vf vf_cast(vi a) { return _mm512_castsi512_ps(a); }   /* keep the bits */
static inline vi vi_cast(vf a) { return _mm512_castps_si512(a); }

/* Load VL values of a narrower type, widened as in quant.h. */
static inline vf vf_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
static inline vf vf_load_bf16(const void *p) { return vf_cast(vi_sll(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16)); }
static inline vi vi_load_i8(const void *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128(p)); }
static inline vi vi_load_u8(const void *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(p)); }
static inline vi vi_load_u16(const void *p) { return _mm512_cvtepu16_epi32(_mm256_loadu_si256(p)); }
/* Store the low 16 bits of each lane, rounded to f16. */
static inline void vf_store_f16(void *p, vf a) { _mm256_storeu_si256(p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)); }
static inline void vi_store_u16(void *p, vi a) { _mm256_storeu_si256(p, _mm512_cvtepi32_epi16(a)); }
/* Store 4 VL bytes from four vectors of values in [-128, 127]. */
static inline void vi_store_i8(int8_t *p, const vi a[4])
{
    for (int j = 0; j < 4; j++) _mm_storeu_si128((__m128i *)(p + 16 * j), _mm512_cvtepi32_epi8(a[j]));
}
/* Return the sum of 16 bytes. */
static inline int sum16_i8(const int8_t *p)
{
    __m128i u = _mm_xor_si128(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8(-128));
    __m128i s = _mm_sad_epu8(u, _mm_setzero_si128());
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_unpackhi_epi64(s, s))) - 16 * 128;
}
static inline vf vf_lut16(const float *t, vi i) { return _mm512_permutexvar_ps(i, _mm512_loadu_ps(t)); }
static inline void vi_store_u8(void *p, vi x) { _mm_storeu_si128(p, _mm512_cvtepi32_epi8(x)); }

static inline vf vf_load_e5m2(const void *p) { return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(p)), 8)); }
/* Load e4m3 as an f16 with the same fields. The f16 is 2^8 times too small. The added 1 carries
 * into the exponent's upper bit only for 0x7F. The result is then NaN. */
static inline vf vf_load_e4m3(const void *p)
{
    __m256i h = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(p)), 7);
    __m256i carry = _mm256_add_epi16(_mm256_and_si256(h, _mm256_set1_epi16(0x3F80)), _mm256_set1_epi16(0x80));
    /* h or carry */
    h = _mm256_ternarylogic_epi32(_mm256_set1_epi16((short)0xBF80), h, carry, 0xCA);
    return vf_mul(_mm512_cvtph_ps(h), vf_set1(256));
}

/* Load the values at p and at p + 16. */
static inline void vf_load2_e4m3(vf y[2], const void *p)
{
    vi h = _mm512_slli_epi16(_mm512_cvtepi8_epi16(_mm256_loadu_si256(p)), 7);
    vi carry = _mm512_add_epi16(_mm512_and_si512(h, _mm512_set1_epi16(0x3F80)), _mm512_set1_epi16(0x80));
    h = _mm512_ternarylogic_epi32(_mm512_set1_epi16((short)0xBF80), h, carry, 0xCA);
    y[0] = vf_mul(_mm512_cvtph_ps(_mm512_castsi512_si256(h)), vf_set1(256));
    y[1] = vf_mul(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(h, 1)), vf_set1(256));
}

/* Return 4 values of each of 4 rows, which are `step` values apart. */
static inline vf vf_quads(const float *p, int step)
{
    vf a = _mm512_castps128_ps512(_mm_loadu_ps(p));
    a = _mm512_insertf32x4(a, _mm_loadu_ps(p + step), 1);
    a = _mm512_insertf32x4(a, _mm_loadu_ps(p + 2 * step), 2);
    return _mm512_insertf32x4(a, _mm_loadu_ps(p + 3 * step), 3);
}
/* Transpose the quads of 4 vectors: lane 4 q + i of vector j becomes lane 4 q + j of vector i. */
static inline void vf_turn_quads(vf a[4])
{
    __m512d x = _mm512_castps_pd(_mm512_unpacklo_ps(a[0], a[1])), y = _mm512_castps_pd(_mm512_unpacklo_ps(a[2], a[3]));
    __m512d z = _mm512_castps_pd(_mm512_unpackhi_ps(a[0], a[1])), w = _mm512_castps_pd(_mm512_unpackhi_ps(a[2], a[3]));
    a[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), a[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    a[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(z, w)), a[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(z, w));
}

/* Return maxima of four rows. Lane 4 r' + j of the result is one of the 4 partial maxima of row i +
 * 4 r'. */
static inline vf max_quarters(const float *s, int stride, int i)
{
    vf a = vf_load(s + i * stride), b = vf_load(s + (i + 4) * stride);
    vf c = vf_load(s + (i + 8) * stride), d = vf_load(s + (i + 12) * stride);
    vf ab = vf_max(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    vf cd = vf_max(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xEE));
    return vf_max(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
}
static inline vf vf_max_rows(const float *s, int stride)
{
    vf a = max_quarters(s, stride, 0), b = max_quarters(s, stride, 1);
    vf c = max_quarters(s, stride, 2), d = max_quarters(s, stride, 3);
    vf ab = vf_max(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    vf cd = vf_max(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    __m512d x = _mm512_castps_pd(ab), y = _mm512_castps_pd(cd);
    return vf_max(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}
/* clang-format on */

#endif
