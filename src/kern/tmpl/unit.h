/* unit.h - a unit of a panel (32 k of VL outputs) as bytes, and its scales as vectors, for any
 * vector type (vec.h, dot.h). The head of panel.c has a drawing of the layout. The heads of
 * linear_q8.h and linear_float.h have the measured shares. Any thread may call kernels, because
 * they change only the memory of their arguments. */
#ifndef QUOTH_KERN_TMPL_UNIT_H
#define QUOTH_KERN_TMPL_UNIT_H

#include "kern/kern_impl.h"
#include "kern/panel_impl.h"

#define ALWAYS static inline __attribute__((always_inline))

/* ---- codes -> bytes ---- */

struct half { /* k-quads of a strip for 16 k */
    vi w0, w1, w2, w3;
};

struct unit {
    vi w0, w1, w2, w3, w4, w5, w6, w7;
};

/* Shift v up by `up` bits (down if negative) and mask it. 32-bit shifts move bits across bytes, and
 * the mask removes them. */
ALWAYS vi field(vi v, int up, vi mask)
{
    return vi_and(up > 0 ? vi_sll(v, up) : up < 0 ? vi_srl(v, -up) : v, mask);
}

ALWAYS struct half half_low(int bits, const uint8_t *p, int h)
{
    struct half u;
    if (bits == 8) {
        p += 256 * h;
        u.w0 = vi_load(p), u.w1 = vi_load(p + 64), u.w2 = vi_load(p + 128), u.w3 = vi_load(p + 192);
    } else if (bits >= 4) {
        p += 128 * h;
        vi m = vi_set1_i8(15), a = vi_load(p), b = vi_load(p + 64);
        u.w0 = field(a, 0, m), u.w1 = field(a, -4, m);
        u.w2 = field(b, 0, m), u.w3 = field(b, -4, m);
    } else if (bits >= 2) {
        vi m = vi_set1_i8(3), a = vi_load(p + 64 * h);
        u.w0 = field(a, 0, m), u.w1 = field(a, -2, m);
        u.w2 = field(a, -4, m), u.w3 = field(a, -6, m);
    } else {
        vi m = vi_set1_i8(1), a = vi_load(p);
        u.w0 = field(a, -4 * h, m), u.w1 = field(a, -4 * h - 1, m);
        u.w2 = field(a, -4 * h - 2, m), u.w3 = field(a, -4 * h - 3, m);
    }
    return u;
}

/* Add one high bit per code, at bit `at`. */
ALWAYS void half_high1(struct half *u, int at, const uint8_t *p, int h)
{
    vi a = vi_load(p), m = vi_set1_i8(1 << at);
    const int up = at - 4 * h;
    u->w0 = vi_or(u->w0, field(a, up, m)), u->w1 = vi_or(u->w1, field(a, up - 1, m));
    u->w2 = vi_or(u->w2, field(a, up - 2, m)), u->w3 = vi_or(u->w3, field(a, up - 3, m));
}

/* Add two high bits per code, at bits 4 and 5. */
ALWAYS void half_high2(struct half *u, const uint8_t *p, int h)
{
    vi a = vi_load(p + 64 * h), m = vi_set1_i8(0x30);
    u->w0 = vi_or(u->w0, field(a, 4, m)), u->w1 = vi_or(u->w1, field(a, 2, m));
    u->w2 = vi_or(u->w2, field(a, 0, m)), u->w3 = vi_or(u->w3, field(a, -2, m));
}

/* Return true if 128 is subtracted from the bytes for dot_step. */
ALWAYS bool is_signed(const struct panel_format *f)
{
    return WIDE_SIGNED && panel_bytes_max(f) > 127;
}

/* Return `zero` of the equation value = byte - zero, for the bytes of dot_step (is_signed: byte -
 * 128). The result is 0 for ZERO_OWN, because block_end subtracts that zero. */
ALWAYS int zero_of(const struct panel_format *f)
{
    if (f->zero == ZERO_OWN) return 0;
    return is_signed(f) ? f->zero - 128 : f->zero;
}

/* Extend low bits to bytes: add high bits, look up levels, subtract 128 if is_signed is true. */
ALWAYS void half_rest(struct half *u, const struct panel_format *f, const uint8_t *p, int h)
{
    if (f->bits == 6) half_high2(u, p + 256, h);
    if (f->bits == 5) half_high1(u, 4, p + 256, h);
    if (f->bits == 3) half_high1(u, 2, p + 128, h);
    if (f->levels != LEVELS_NONE) {
        vi t = vi_table(panel_level[f->levels]);
        u->w0 = vi_lut(t, u->w0), u->w1 = vi_lut(t, u->w1);
        u->w2 = vi_lut(t, u->w2), u->w3 = vi_lut(t, u->w3);
    }
    if (is_signed(f)) {
        vi m = vi_set1_i8(-128);
        u->w0 = vi_xor(u->w0, m), u->w1 = vi_xor(u->w1, m);
        u->w2 = vi_xor(u->w2, m), u->w3 = vi_xor(u->w3, m);
    }
}

/* Return half h, or both halves, of the unit as bytes. p is the address of the strip's outputs in
 * the unit. */
ALWAYS struct half half_bytes(const struct panel_format *f, const uint8_t *p, int h)
{
    struct half u = half_low(f->bits, p, h);
    half_rest(&u, f, p, h);
    return u;
}

ALWAYS struct unit unit_bytes(const struct panel_format *f, const uint8_t *p)
{
    struct half a = half_low(f->bits, p, 0), b = half_low(f->bits, p, 1);
    half_rest(&a, f, p, 0), half_rest(&b, f, p, 1);
    return (struct unit){a.w0, a.w1, a.w2, a.w3, b.w0, b.w1, b.w2, b.w3};
}

/* ---- scales: s is the group's scales, `lane` the strip's first output ---- */

ALWAYS vf scale_f16(const struct panel_format *f, const uint8_t *s, int i, int lane)
{
    vf d = vf_load_f16(s + (i * PANEL + lane) * 2);
    return f->unit == 1.0f ? d : vf_mul(d, vf_set1(f->unit));
}

/* Return the scale of block i, for formats with one scale per block. */
ALWAYS vf scale_one(const struct panel_format *f, const uint8_t *s, int i, int lane)
{
    if (f->scales == PANEL_ONE) return scale_f16(f, s, i, lane);
    vf d = vf_load((const float *)(const void *)s + i * PANEL + lane);
    return f->unit == 1.0f ? d : vf_mul(d, vf_set1(f->unit));
}

/* Return 2^(e - 128), a subnormal for e < 2. */
ALWAYS vf scale_e8m0(const uint8_t *s, int i, int lane)
{
    vi e = vi_load_u8(s + i * PANEL + lane);
    vf normal = vf_max(vf_cast(vi_sll(e, 23)), vf_set1(0x1p-126f));
    return vf_mul(normal, vf_select(vf_gt(vf_of_vi(e), vf_zero()), vf_set1(0.5f), vf_set1(0.25f)));
}

/* Return e4m3(code) / 2, or 0 for code 127. Multiplication by 2^120, the difference of the
 * exponents' biases, makes subnormals correct. */
ALWAYS vf scale_e4m3(const uint8_t *s, int i, int lane)
{
    vi code = vi_and(vi_load_u8(s + i * PANEL + lane), vi_set1(127));
    vf x = vf_mul(vf_cast(vi_sll(code, 20)), vf_set1(0x1p119f));
    return vf_select(vf_gt(vf_of_vi(code), vf_set1(126.5f)), vf_zero(), x);
}

/* Return the f32 scale of unit u (E4M3: of its half). */
ALWAYS vf scale_f32(const struct panel_format *f, const uint8_t *s, int u, int half, int lane)
{
    if (f->scales == PANEL_E8M0) return scale_e8m0(s, u, lane);
    if (f->scales == PANEL_E4M3) return scale_e4m3(s, 2 * u + half, lane);
    return scale_f16(f, s, f->scales == PANEL_F16_MIN ? 2 * u : u, lane);
}

ALWAYS vi scale_int(const struct panel_format *f, const uint8_t *s, int j, int lane)
{
    if (f->scales == PANEL_I8) return vi_load_i8(s + 32 + j * PANEL + lane);
    vi low = vi_and(vi_load_u8(s + 64 + j * PANEL + lane), vi_set1(15));
    if (f->scales == PANEL_I4_MIN) return low;
    vi high = vi_srl(vi_load_u8(s + 192 + (j & 3) * PANEL + lane), j & 4);
    return vi_or(low, vi_sll(vi_and(high, vi_set1(3)), 4));
}

ALWAYS vi min_int(const struct panel_format *f, const uint8_t *s, int j, int lane)
{
    vi low = vi_srl(vi_load_u8(s + 64 + j * PANEL + lane), 4);
    if (f->scales == PANEL_I4_MIN) return low;
    vi high = vi_srl(vi_load_u8(s + 192 + (j & 3) * PANEL + lane), (j & 4) + 2);
    return vi_or(low, vi_sll(vi_and(high, vi_set1(3)), 4));
}

/* Return the minimums of unit u's halves as pairs. The caller multiplies the pairs of sums by these
 * minimums. */
ALWAYS vi min_pair(const struct panel_format *f, const uint8_t *s, int u, int lane)
{
    if (f->sub == UNIT) {
        vi m = min_int(f, s, u, lane);
        return vi_or(m, vi_sll(m, 16));
    }
    return vi_or(min_int(f, s, 2 * u, lane), vi_sll(min_int(f, s, 2 * u + 1, lane), 16));
}

ALWAYS bool is_f32_scaled(const struct panel_format *f)
{
    return f->scales <= PANEL_E4M3;
}

#endif
