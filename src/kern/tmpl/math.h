/* math.h - log, tanh, erf and the activations of a vector: the operations of kern_math.h, written
 * with the names of vec.h.
 *
 * The other templates include math.h after the level's vec.h. Each function has these instructions
 * in addition to the instructions of exp: silu 3 (one of them a division), tanh 14, expm1 15, erf
 * 21, log 25. The number of instructions limits the ops that use these functions.
 * docs/measurements.md, "AVX-VNNI, and shares of small ops", has the share of each op in a step.
 * Any thread; pure functions. */
#ifndef QUOTH_KERN_TMPL_MATH_H
#define QUOTH_KERN_TMPL_MATH_H

#include "kern/tmpl/exp.h"

/* Return ln x per lane, with the bits of log_f32. */
static inline vf vf_log(vf x)
{
    const vi sqrt_half = vi_set1(0x3F3504F3);
    vmask tiny = vf_gt(vf_set1(0x1p-126f), x);
    vi u = vi_sub(vi_cast(vf_select(tiny, vf_mul(x, vf_set1(0x1p24f)), x)), sqrt_half);
    vf n = vf_sub(vf_of_vi(vi_sra(u, 23)), vf_select(tiny, vf_set1(24.0f), vf_zero()));
    vf m = vf_cast(vi_add(vi_and(u, vi_set1(0x007FFFFF)), sqrt_half));
    vf f = vf_sub(m, vf_set1(1.0f));
    vf s = vf_div(f, vf_add(f, vf_set1(2.0f))), z = vf_mul(s, s);
    vf half = vf_mul(vf_set1(0.5f), f), h = vf_mul(half, f), lost = vf_fnma(half, f, h);
    vf r = vf_set1(0x1.f13b20p-3f);
    r = vf_fma(r, z, vf_set1(0x1.23d3e0p-2f));
    r = vf_fma(r, z, vf_set1(0x1.999c26p-2f));
    r = vf_fma(r, z, vf_set1(0x1.555554p-1f));
    vf low = vf_fma(s, vf_fma(r, z, h), vf_fma(n, vf_set1(0x1.7f7d1cp-20f), lost));
    vf y = vf_fma(n, vf_set1(0x1.62e400p-1f), vf_sub(f, vf_sub(h, low)));
    y = vf_select(vf_le(x, vf_set1(0x1.fffffep127f)), y, x);
    vf other = vf_select(vf_le(vf_abs(x), vf_zero()), vf_set1(-INFINITY), vf_set1(NAN));
    return vf_select(vf_gt(x, vf_zero()), y, other);
}

/* Return ln(1 + exp(x)) per lane, with the bits of softplus_f32. */
static inline vf vf_softplus(vf x)
{
    vf one = vf_set1(1.0f), e = vf_exp(vf_sub(vf_zero(), vf_abs(x))), u = vf_add(one, e);
    vf low = vf_add(vf_log(u), vf_div(vf_sub(e, vf_sub(u, one)), u));
    return vf_select(vf_gt(x, vf_zero()), vf_add(x, low), low);
}

/* Return a value >= 0 with the sign of x. */
static inline vf vf_with_sign(vf value, vf x)
{
    return vf_cast(vi_or(vi_cast(value), vi_and(vi_cast(x), vi_set1(INT32_MIN))));
}

/* Return tanh x per lane, with the bits of tanh_f32. */
static inline vf vf_tanh(vf x)
{
    vf a = vf_abs(x), z = vf_mul(a, a);
    vf p = vf_set1(0x1.c89750p-10f);
    p = vf_fma(p, z, vf_set1(-0x1.f662fep-8f));
    p = vf_fma(p, z, vf_set1(0x1.5f9082p-6f));
    p = vf_fma(p, z, vf_set1(-0x1.b98108p-5f));
    p = vf_fma(p, z, vf_set1(0x1.110ddap-3f));
    p = vf_fma(p, z, vf_set1(-0x1.55554ap-2f));
    vf small = vf_fma(vf_mul(p, z), a, a);
    vf e = vf_add(vf_exp(vf_add(a, a)), vf_set1(1.0f));
    vf large = vf_sub(vf_set1(1.0f), vf_div(vf_set1(2.0f), e));
    return vf_with_sign(vf_select(vf_gt(vf_set1(0.75f), a), small, large), x);
}

/* Return erf x per lane, with the bits of erf_f32. */
static inline vf vf_erf(vf x)
{
    vf a = vf_abs(x), z = vf_mul(a, a), t = vf_min(a, vf_set1(4.0f));
    vf p = vf_set1(0x1.4f8e58p-14f);
    p = vf_fma(p, z, vf_set1(-0x1.a6126ep-11f));
    p = vf_fma(p, z, vf_set1(0x1.544aa8p-8f));
    p = vf_fma(p, z, vf_set1(-0x1.b80120p-6f));
    p = vf_fma(p, z, vf_set1(0x1.ce2d64p-4f));
    p = vf_fma(p, z, vf_set1(-0x1.812740p-2f));
    p = vf_fma(p, z, vf_set1(0x1.06eba8p-3f));
    vf q = vf_set1(-0x1.96ac00p-13f);
    q = vf_fma(q, t, vf_set1(0x1.8c443ap-9f));
    q = vf_fma(q, t, vf_set1(-0x1.6adb0cp-6f));
    q = vf_fma(q, t, vf_set1(0x1.a9052cp-4f));
    q = vf_fma(q, t, vf_set1(0x1.4655d4p-1f));
    q = vf_fma(q, t, vf_set1(0x1.20a7dcp0f));
    q = vf_fma(q, t, vf_set1(0x1.d4b938p-13f));
    vf small = vf_fma(p, a, a), large = vf_sub(vf_set1(1.0f), vf_exp(vf_sub(vf_zero(), q)));
    vf y = vf_select(vf_gt(vf_set1(0.953125f), a), small, large);
    return vf_with_sign(vf_select(vf_le(a, vf_set1(INFINITY)), y, a), x);
}

static inline vf vf_expm1(vf x)
{
    vf p = vf_set1(0x1.27e4fcp-22f);
    p = vf_fma(p, x, vf_set1(0x1.71de3ap-19f));
    p = vf_fma(p, x, vf_set1(0x1.a01a02p-16f));
    p = vf_fma(p, x, vf_set1(0x1.a01a02p-13f));
    p = vf_fma(p, x, vf_set1(0x1.6c16c2p-10f));
    p = vf_fma(p, x, vf_set1(0x1.111112p-7f));
    p = vf_fma(p, x, vf_set1(0x1.555556p-5f));
    p = vf_fma(p, x, vf_set1(0x1.555556p-3f));
    p = vf_fma(p, x, vf_set1(0.5f));
    vf small = vf_fma(vf_mul(p, x), x, x), large = vf_sub(vf_exp(x), vf_set1(1.0f));
    return vf_select(vf_gt(vf_set1(0.7f), vf_abs(x)), small, large);
}

/* Return x / (1 + exp(minus_ax)). */
static inline vf vf_gated(vf x, vf minus_ax)
{
    return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(minus_ax)));
}

static inline vf vf_sigmoid(vf x)
{
    return vf_gated(vf_set1(1.0f), vf_sub(vf_zero(), x));
}

static inline vf vf_silu(vf x)
{
    return vf_gated(x, vf_sub(vf_zero(), x));
}

static inline vf vf_gelu_tanh(vf x)
{
    vf slope = vf_fma(vf_mul(x, x), vf_set1(-0x1.2444f2p-4f), vf_set1(-0x1.988454p0f));
    return vf_gated(x, vf_mul(x, slope));
}

static inline vf vf_gelu_erf(vf x)
{
    vf e = vf_erf(vf_mul(x, vf_set1(0x1.6a09e6p-1f)));
    return vf_mul(vf_mul(vf_set1(0.5f), x), vf_add(vf_set1(1.0f), e));
}

static inline vf vf_relu(vf x)
{
    return vf_select(vf_le(x, vf_zero()), vf_zero(), x);
}

static inline vf vf_relu2(vf x)
{
    vf y = vf_relu(x);
    return vf_mul(y, y);
}

#endif
