/* exp.h - exp of a vector: exp_f32 of kern_impl.h, operation for operation, in the names of vec.h.
 *
 * Included by the templates beside it, after the level's vec.h. About 14 instructions; throughput
 * matters (the softmax of attention, activations), latency (some 50 cycles) is hidden by calls on
 * independent vectors. */
#ifndef QUOTH_KERN_TMPL_EXP_H
#define QUOTH_KERN_TMPL_EXP_H

/* -105 <= c <= 89, or NaN */
static inline vf vf_exp_bounded(vf c)
{
    const vf magic = vf_set1(0x1.8p23f);
    vf n = vf_sub(vf_fma(c, vf_set1(0x1.715476p0f), magic), magic);
    vf r = vf_fma(n, vf_set1(-0x1.62e400p-1f), c);
    r = vf_fma(n, vf_set1(-0x1.7f7d1cp-20f), r);
    vf p = vf_set1(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set1(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set1(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set1(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set1(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set1(5.0000001201e-1f));
    p = vf_add(vf_fma(vf_mul(p, r), r, r), vf_set1(1.0f));
    return vf_scale2(p, n);
}

static inline vf vf_exp(vf x)
{
    return vf_exp_bounded(vf_max(vf_set1(-105.0f), vf_min(vf_set1(89.0f), x))); /* a NaN stays */
}

/* exp_weight of kern_impl.h. */
static inline vf vf_exp_weight(vf x)
{
    const vf least = vf_set1(-87.0f);
    return vf_select(vf_gt(least, x), vf_zero(), vf_exp_bounded(vf_max(least, x)));
}

#endif
