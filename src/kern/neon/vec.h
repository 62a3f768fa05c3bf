/* vec.h - the vector of Armv8 with ASIMD. ../avx512/vec.h documents the names.
 *
 * FMAX returns a NaN if an operand is a NaN, so vf_max is a comparison and a selection. Shifts and
 * similar operations are the compiler's vector operators, because the intrinsics require a literal
 * count. The speed is not measured, because no Arm machine was available. Any thread: vectors are
 * values. */
#ifndef QUOTH_KERN_NEON_VEC_H
#define QUOTH_KERN_NEON_VEC_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

enum { VL = 4, N_VREG = 32 };
typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint32x4_t vmask; /* mask of lanes: all bits of a lane are equal */

/* Set FZ: subnormal results and operands become 0, and FPSR reports flushed results. Arm flushes by
 * the value before rounding, x86 by the value after rounding. The results differ between 2^-126 -
 * 2^-151 and 2^-126. */
static inline unsigned flush_begin(void)
{
    uint64_t former, status;
    __asm__ volatile("mrs %0, fpcr" : "=r"(former));
    __asm__ volatile("mrs %0, fpsr" : "=r"(status));
    __asm__ volatile("msr fpsr, %0" : : "r"(status & ~(uint64_t)8));
    __asm__ volatile("msr fpcr, %0" : : "r"(former | 1 << 24) : "memory");
    return (unsigned)former;
}
static inline void flush_end(unsigned former)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)former) : "memory");
}
enum { FLUSH_STRAYS = 1 };
static inline int flush_strayed(void)
{
    uint64_t status;
    __asm__ volatile("mrs %0, fpsr" : "=r"(status) : : "memory");
    if (status & 8) __asm__ volatile("msr fpsr, %0" : : "r"(status & ~(uint64_t)8));
    return (status & 8) != 0;
}

/* clang-format off */
static inline vf vf_zero(void) { return vdupq_n_f32(0); }
static inline vf vf_set1(float x) { return vdupq_n_f32(x); }
static inline vf vf_load(const float *p) { return vld1q_f32(p); }
static inline void vf_store(float *p, vf x) { vst1q_f32(p, x); }
static inline vmask lanes_below(int n) { return vcltq_s32((int32x4_t){0, 1, 2, 3}, vdupq_n_s32(n)); }
static inline vf vf_load_n(const float *p, int n)
{
    if (n == VL) return vld1q_f32(p);
    float x[VL] = {0};
    memcpy(x, p, (size_t)n * sizeof *x);
    return vld1q_f32(x);
}
static inline void vf_store_n(float *p, vf x, int n)
{
    if (n == VL)
        vst1q_f32(p, x);
    else
        memcpy(p, &x, (size_t)n * sizeof *p);
}

static inline vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
static inline vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
static inline vf vf_abs(vf a) { return vabsq_f32(a); }
static inline vmask vf_gt(vf a, vf b) { return vcgtq_f32(a, b); }
static inline vmask vf_ge(vf a, vf b) { return vcgeq_f32(a, b); }
static inline vmask vf_le(vf a, vf b) { return vcleq_f32(a, b); }
static inline vf vf_select(vmask m, vf yes, vf no) { return vbslq_f32(m, yes, no); }
static inline vf vf_max(vf a, vf b) { return vf_select(vf_gt(a, b), a, b); }
static inline vf vf_min(vf a, vf b) { return vf_select(vf_gt(b, a), a, b); }
static inline vf vf_first(vf a, int n) { return vf_select(lanes_below(n), a, vf_zero()); }
static inline vmask vmask_and(vmask a, vmask b) { return vandq_u32(a, b); }
static inline vmask vmask_below(int n) { return lanes_below(n); }
static inline vmask vmask_of_bits(uint32_t u) { return vtstq_u32(vdupq_n_u32(u), (uint32x4_t){1, 2, 4, 8}); }
static inline unsigned vmask_bits(vmask m) { return vaddvq_u32(vandq_u32(m, (uint32x4_t){1, 2, 4, 8})); }
static inline int vmask_any(vmask m) { return vmaxvq_u32(m) != 0; }
static inline int vf_compress(float *to, int32_t *index, vf x, int at, vmask m)
{
    float lane[VL];
    int n = 0;
    vst1q_f32(lane, x);
    for (unsigned bits = vmask_bits(m); bits; bits &= bits - 1, n++) {
        int j = __builtin_ctz(bits);
        to[n] = lane[j];
        index[n] = at + j;
    }
    return n;
}
static inline vmask vf_not_less(vf a, vf b) { return vmvnq_u32(vcltq_f32(a, b)); }
static inline vf vf_scale2_if(vmask m, vf a, vf n)
{
    vi f = vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vf_select(m, vmulq_f32(a, vreinterpretq_f32_s32(f)), vf_zero());
}
/* Return a * 2^n, in two factors. The first product is exact. */
static inline vf vf_scale2(vf a, vf n)
{
    vi e = vcvtnq_s32_f32(n), half = vshrq_n_s32(e, 1), bias = vdupq_n_s32(127);
    vi f = vshlq_n_s32(vaddq_s32(half, bias), 23), g = vshlq_n_s32(vaddq_s32(vsubq_s32(e, half), bias), 23);
    return vmulq_f32(vmulq_f32(a, vreinterpretq_f32_s32(f)), vreinterpretq_f32_s32(g));
}

static inline float vf_tree16(const vf s[16 / VL])
{
    vf b = vaddq_f32(vaddq_f32(s[0], s[2]), vaddq_f32(s[1], s[3]));
    return vpadds_f32(vadd_f32(vget_low_f32(b), vget_high_f32(b)));
}
static inline float vf_max_lanes(vf a) { return vmaxvq_f32(a); }
static inline vf vf_quads(const float *p, int step) { (void)step; return vld1q_f32(p); }
static inline void vf_turn_quads(vf a[4])
{
    float64x2_t x = vreinterpretq_f64_f32(vzip1q_f32(a[0], a[1])), y = vreinterpretq_f64_f32(vzip1q_f32(a[2], a[3]));
    float64x2_t z = vreinterpretq_f64_f32(vzip2q_f32(a[0], a[1])), w = vreinterpretq_f64_f32(vzip2q_f32(a[2], a[3]));
    a[0] = vreinterpretq_f32_f64(vzip1q_f64(x, y)), a[1] = vreinterpretq_f32_f64(vzip2q_f64(x, y));
    a[2] = vreinterpretq_f32_f64(vzip1q_f64(z, w)), a[3] = vreinterpretq_f32_f64(vzip2q_f64(z, w));
}
static inline vf vf_pairs(vf a) { return vzip1q_f32(a, a); }
static inline vf vf_swap_pairs(vf a) { return vrev64q_f32(a); }
static inline vf vf_negate_even(vf a) { return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(a), (uint32x4_t){1u << 31, 0, 1u << 31, 0})); }

static inline vi vi_zero(void) { return vdupq_n_s32(0); }
static inline vi vi_set1(int x) { return vdupq_n_s32(x); }
static inline vi vi_set1_i8(int x) { return vreinterpretq_s32_s8(vdupq_n_s8((int8_t)x)); }
static inline vi vi_load(const void *p) { return vreinterpretq_s32_u8(vld1q_u8(p)); }
static inline void vi_store(void *p, vi x) { vst1q_u8(p, vreinterpretq_u8_s32(x)); }
static inline vi vi_add(vi a, vi b) { return vaddq_s32(a, b); }
static inline vi vi_sub(vi a, vi b) { return vsubq_s32(a, b); }
static inline vi vi_sub_i8(vi a, vi b) { return vreinterpretq_s32_s8(vsubq_s8(vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b))); }
static inline vi vi_mul(vi a, vi b) { return vmulq_s32(a, b); }
static inline vi vi_max(vi a, vi b) { return vmaxq_s32(a, b); }
static inline vmask vi_gt(vi a, vi b) { return vcgtq_s32(a, b); }
static inline int vi_max_lanes(vi a) { return vmaxvq_s32(a); }
static inline vi vi_and(vi a, vi b) { return vandq_s32(a, b); }
static inline vi vi_or(vi a, vi b) { return vorrq_s32(a, b); }
static inline vi vi_xor(vi a, vi b) { return veorq_s32(a, b); }
static inline vi vi_sll(vi a, int n) { return vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) << n); }
static inline vi vi_srl(vi a, int n) { return vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) >> n); }
static inline vi vi_sra(vi a, int n) { return a >> n; }

static inline vf vf_of_vi(vi a) { return vcvtq_f32_s32(a); }
static inline vi vi_round(vf a) { return vcvtnq_s32_f32(a); }
static inline vf vf_cast(vi a) { return vreinterpretq_f32_s32(a); }
static inline vi vi_cast(vf a) { return vreinterpretq_s32_f32(a); }

static inline uint16x4_t load4_u16(const void *p) { return vreinterpret_u16_u8(vld1_u8(p)); }
static inline uint8x8_t load4_u8(const void *p) /* load 4 bytes, followed by zeros */
{
    uint32_t u;
    memcpy(&u, p, sizeof u);
    return vreinterpret_u8_u32(vset_lane_u32(u, vdup_n_u32(0), 0));
}
static inline vf vf_load_f16(const void *p) { return vcvt_f32_f16(vreinterpret_f16_u16(load4_u16(p))); }
static inline vf vf_load_bf16(const void *p) { return vreinterpretq_f32_u32(vshll_n_u16(load4_u16(p), 16)); }
static inline vi vi_load_i8(const void *p) { return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load4_u8(p))))); }
static inline vi vi_load_u8(const void *p) { return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(load4_u8(p))))); }
static inline vi vi_load_u16(const void *p) { return vreinterpretq_s32_u32(vmovl_u16(load4_u16(p))); }
static inline void vf_store_f16(void *p, vf a) { vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(a))); }
static inline void vi_store_u16(void *p, vi a) { vst1_u8(p, vreinterpret_u8_u16(vmovn_u32(vreinterpretq_u32_s32(a)))); }
static inline void vi_store_i8(int8_t *p, const vi a[4])
{
    int16x8_t lo = vuzp1q_s16(vreinterpretq_s16_s32(a[0]), vreinterpretq_s16_s32(a[1]));
    int16x8_t hi = vuzp1q_s16(vreinterpretq_s16_s32(a[2]), vreinterpretq_s16_s32(a[3]));
    vst1q_s8(p, vuzp1q_s8(vreinterpretq_s8_s16(lo), vreinterpretq_s8_s16(hi)));
}
static inline int sum16_i8(const int8_t *p) { return vaddlvq_s8(vld1q_s8(p)); }
static inline vf vf_lut16(const float *t, vi i)
{
    const uint8x16x4_t table = vld1q_u8_x4((const uint8_t *)t);
    const uint32x4_t first = vmulq_n_u32(vandq_u32(vreinterpretq_u32_s32(i), vdupq_n_u32(15)), 0x04040404u);
    return vreinterpretq_f32_u8(vqtbl4q_u8(table, vreinterpretq_u8_u32(vaddq_u32(first, vdupq_n_u32(0x03020100u)))));
}
static inline void vi_store_u8(void *p, vi a)
{
    int16x8_t low = vcombine_s16(vmovn_s32(a), vdup_n_s16(0));
    uint32_t u = vget_lane_u32(vreinterpret_u32_s8(vmovn_s16(low)), 0);
    memcpy(p, &u, sizeof u);
}

static inline vf vf_load_e5m2(const void *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(vshll_n_u8(load4_u8(p), 8)))); }
/* Load e4m3 as an f16 with the same fields. The f16 is 2^8 times too small. 0x7F becomes NaN. */
static inline vf vf_load_e4m3(const void *p)
{
    int16x4_t h = vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load4_u8(p))));
    uint16x4_t b = vreinterpret_u16_s16(h), sign = vand_u16(b, vdup_n_u16(0x8000));
    uint16x4_t is_nan = vceq_u16(vand_u16(b, vdup_n_u16(0x7F)), vdup_n_u16(0x7F));
    b = vand_u16(vshl_n_u16(b, 7), vdup_n_u16(0xBF80));
    b = vbsl_u16(is_nan, vorr_u16(sign, vdup_n_u16(0x7E00)), b);
    return vf_mul(vcvt_f32_f16(vreinterpret_f16_u16(b)), vf_set1(256));
}
/* Load the values at p and at p + 16. */
static inline void vf_load2_e4m3(vf y[2], const uint8_t *p)
{
    y[0] = vf_load_e4m3(p), y[1] = vf_load_e4m3(p + 16);
}

static inline vf max_row(const float *s)
{
    return vmaxq_f32(vmaxq_f32(vf_load(s), vf_load(s + 4)), vmaxq_f32(vf_load(s + 8), vf_load(s + 12)));
}
static inline vf vf_max_rows(const float *s, int stride)
{
    vf ab = vpmaxq_f32(max_row(s), max_row(s + stride));
    return vpmaxq_f32(ab, vpmaxq_f32(max_row(s + 2 * stride), max_row(s + 3 * stride)));
}

/* Add the products of pairs of a and b to acc, for tmpl/linear_q8.h. */
static inline vi vi_dot16(vi acc, vi a, vi b)
{
    int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
    vi low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
    return vaddq_s32(acc, vpaddq_s32(low, vmull_high_s16(x, y)));
}
static inline vi vi_table(const uint8_t *t) { return vi_load(t); }
static inline vi vi_lut(vi table, vi codes) { return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(table), vreinterpretq_u8_s32(codes))); }
static inline vi vi_bcast4(const void *p)
{
    int x;
    memcpy(&x, p, sizeof x);
    return vdupq_n_s32(x);
}
/* clang-format on */

#endif
