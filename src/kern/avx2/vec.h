/* vec.h - the vector of AVX2 with FMA and F16C. ../avx512/vec.h documents the names. Any thread:
 * vectors are values. */
#ifndef QUOTH_KERN_AVX2_VEC_H
#define QUOTH_KERN_AVX2_VEC_H

#include <immintrin.h>
#include <stdint.h>

enum { VL = 8, N_VREG = 16 };
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vmask; /* mask of lanes: all bits of a lane are equal */

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
static inline vf vf_zero(void) { return _mm256_setzero_ps(); }
static inline vf vf_set1(float x) { return _mm256_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
static inline __m256i lanes_below(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf vf_load_n(const float *p, int n) { return _mm256_maskload_ps(p, lanes_below(n)); }
static inline void vf_store_n(float *p, vf x, int n) { _mm256_maskstore_ps(p, lanes_below(n), x); }

static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline vmask vf_gt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
static inline vmask vf_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
static inline vf vf_select(vmask m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, m); }
static inline vf vf_first(vf a, int n) { return _mm256_and_ps(a, _mm256_castsi256_ps(lanes_below(n))); }
static inline vmask vf_ge(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
static inline vmask vmask_and(vmask a, vmask b) { return _mm256_and_ps(a, b); }
static inline vmask vmask_below(int n) { return _mm256_castsi256_ps(lanes_below(n)); }
static inline vmask vmask_of_bits(uint32_t u)
{
    __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)u), bit), bit));
}
static inline unsigned vmask_bits(vmask m) { return (unsigned)_mm256_movemask_ps(m); }
static inline int vf_compress(float *to, int32_t *index, vf x, int at, vmask m)
{
    float lane[VL];
    int n = 0;
    unsigned bits = vmask_bits(m);
    __m256i i = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(at));
    if (bits == 0xFF) _mm256_storeu_ps(to, x), _mm256_storeu_si256((__m256i *)index, i);
    if (bits == 0xFF) return VL;
    _mm256_storeu_ps(lane, x);
    for (; bits; bits &= bits - 1, n++) {
        int j = __builtin_ctz(bits);
        to[n] = lane[j];
        index[n] = at + j;
    }
    return n;
}
static inline int vmask_any(vmask m) { return _mm256_movemask_ps(m) != 0; }
static inline vmask vf_not_less(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_NLT_UQ); }
static inline vf vf_scale2_if(vmask m, vf a, vf n)
{
    __m256i f = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_and_ps(m, _mm256_mul_ps(a, _mm256_castsi256_ps(f)));
}
/* Return a * 2^n, in two factors. The first product is exact. */
static inline vf vf_scale2(vf a, vf n)
{
    __m256i e = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(e, 1), bias = _mm256_set1_epi32(127);
    __m256i f = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i g = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(e, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(f)), _mm256_castsi256_ps(g));
}

static inline float vf_tree16(const vf s[16 / VL])
{
    vf a = _mm256_add_ps(s[0], s[1]);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float vf_max_lanes(vf a)
{
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
static inline vf vf_pairs(vf a) { return _mm256_permutevar8x32_ps(a, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)); }
static inline vf vf_swap_pairs(vf a) { return _mm256_permute_ps(a, 0xB1); }
static inline vf vf_negate_even(vf a) { return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi64x(0x80000000))); }

static inline vi vi_zero(void) { return _mm256_setzero_si256(); }
static inline vi vi_set1(int x) { return _mm256_set1_epi32(x); }
static inline vi vi_set1_i8(int x) { return _mm256_set1_epi8((char)x); }
static inline vi vi_load(const void *p) { return _mm256_loadu_si256(p); }
static inline void vi_store(void *p, vi x) { _mm256_storeu_si256(p, x); }
static inline vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
static inline vi vi_sub_i8(vi a, vi b) { return _mm256_sub_epi8(a, b); }
static inline vi vi_mul(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
static inline vi vi_max(vi a, vi b) { return _mm256_max_epi32(a, b); }
static inline vmask vi_gt(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)); }
static inline int vi_max_lanes(vi a)
{
    __m128i b = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    b = _mm_max_epi32(b, _mm_unpackhi_epi64(b, b));
    return _mm_cvtsi128_si32(_mm_max_epi32(b, _mm_shuffle_epi32(b, 0x55)));
}
static inline vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
static inline vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
static inline vi vi_sll(vi a, int n) { return _mm256_slli_epi32(a, n); }
static inline vi vi_srl(vi a, int n) { return _mm256_srli_epi32(a, n); }
static inline vi vi_sra(vi a, int n) { return _mm256_srai_epi32(a, n); }

static inline vf vf_of_vi(vi a) { return _mm256_cvtepi32_ps(a); }
static inline vi vi_round(vf a) { return _mm256_cvtps_epi32(a); }
static inline vf vf_cast(vi a) { return _mm256_castsi256_ps(a); }
static inline vi vi_cast(vf a) { return _mm256_castps_si256(a); }

static inline vf vf_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }
static inline vf vf_load_bf16(const void *p) { return vf_cast(vi_sll(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16)); }
static inline vi vi_load_i8(const void *p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64(p)); }
static inline vi vi_load_u8(const void *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(p)); }
static inline vi vi_load_u16(const void *p) { return _mm256_cvtepu16_epi32(_mm_loadu_si128(p)); }
static inline void vf_store_f16(void *p, vf a) { _mm_storeu_si128(p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)); }
static inline void vi_store_u16(void *p, vi a)
{
    __m256i b = _mm256_packus_epi32(a, a); /* both halves contain the result twice */
    _mm_storeu_si128(p, _mm256_castsi256_si128(_mm256_permute4x64_epi64(b, 0x08)));
}
static inline void vi_store_i8(int8_t *p, const vi a[4])
{
    __m256i lo = _mm256_packs_epi32(a[0], a[1]), hi = _mm256_packs_epi32(a[2], a[3]);
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* packing works within halves */
    _mm256_storeu_si256((__m256i *)p, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(lo, hi), order));
}
static inline int sum16_i8(const int8_t *p)
{
    __m128i u = _mm_xor_si128(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8(-128));
    __m128i s = _mm_sad_epu8(u, _mm_setzero_si128());
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_unpackhi_epi64(s, s))) - 16 * 128;
}
static inline vf vf_lut16(const float *t, vi i)
{
    vf low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(t), i), high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(t + 8), i);
    return _mm256_blendv_ps(low, high, vf_cast(vi_sll(i, 28)));
}
static inline void vi_store_u8(void *p, vi a)
{
    /* 4 bytes of each half, twice */
    __m256i b = _mm256_shuffle_epi8(a, _mm256_set1_epi64x(0x0C080400));
    _mm_storel_epi64(p, _mm_unpacklo_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1)));
}

static inline vf vf_quads(const float *p, int step) { return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + step), 1); }
static inline void vf_turn_quads(vf a[4])
{
    __m256d x = _mm256_castps_pd(_mm256_unpacklo_ps(a[0], a[1])), y = _mm256_castps_pd(_mm256_unpacklo_ps(a[2], a[3]));
    __m256d z = _mm256_castps_pd(_mm256_unpackhi_ps(a[0], a[1])), w = _mm256_castps_pd(_mm256_unpackhi_ps(a[2], a[3]));
    a[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(x, y)), a[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x, y));
    a[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(z, w)), a[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(z, w));
}
static inline vf vf_load_e5m2(const void *p) { return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(_mm_loadl_epi64(p)), 8)); }
/* Load e4m3 as an f16 with the same fields. The f16 is 2^8 times too small. The added 1 carries
 * into the exponent's upper bit only for 0x7F. The result is then NaN. */
static inline vf vf_load_e4m3(const void *p)
{
    __m128i h = _mm_slli_epi16(_mm_cvtepi8_epi16(_mm_loadl_epi64(p)), 7);
    __m128i carry = _mm_add_epi16(_mm_and_si128(h, _mm_set1_epi16(0x3F80)), _mm_set1_epi16(0x80));
    h = _mm_and_si128(h, _mm_set1_epi16((short)0xBF80));
    return vf_mul(_mm256_cvtph_ps(_mm_or_si128(h, _mm_and_si128(carry, _mm_set1_epi16(0x4000)))), vf_set1(256));
}

/* Load the values at p and at p + 16. */
static inline void vf_load2_e4m3(vf y[2], const void *p)
{
    __m128i b = _mm_unpacklo_epi64(_mm_loadl_epi64(p), _mm_loadl_epi64((const __m128i *)p + 1));
    vi h = _mm256_slli_epi16(_mm256_cvtepi8_epi16(b), 7);
    vi carry = _mm256_add_epi16(vi_and(h, _mm256_set1_epi16(0x3F80)), _mm256_set1_epi16(0x80));
    h = vi_or(vi_and(h, _mm256_set1_epi16((short)0xBF80)), vi_and(carry, _mm256_set1_epi16(0x4000)));
    y[0] = vf_mul(_mm256_cvtph_ps(_mm256_castsi256_si128(h)), vf_set1(256));
    y[1] = vf_mul(_mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)), vf_set1(256));
}

/* Return maxima of two rows. One half of the result has the 4 partial maxima of row i. The other
 * half has the partial maxima of row i + 4. */
static inline vf max_halves(const float *s, int stride, int i)
{
    vf a = vf_max(vf_load(s + i * stride), vf_load(s + i * stride + 8));
    vf b = vf_max(vf_load(s + (i + 4) * stride), vf_load(s + (i + 4) * stride + 8));
    return vf_max(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
static inline vf vf_max_rows(const float *s, int stride)
{
    vf a = max_halves(s, stride, 0), b = max_halves(s, stride, 1);
    vf c = max_halves(s, stride, 2), d = max_halves(s, stride, 3);
    vf ab = vf_max(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    vf cd = vf_max(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    __m256d x = _mm256_castps_pd(ab), y = _mm256_castps_pd(cd);
    return vf_max(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)), _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
}
/* clang-format on */

#endif
