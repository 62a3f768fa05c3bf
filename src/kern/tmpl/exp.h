/* exp.h - exp of a vector: the operations of exp_f32 (kern_math.h), written with the names of
 * vec.h.
 *
 * The other templates include exp.h after the level's vec.h. exp takes about 14 instructions,
 * attention's 2^x takes 10. The throughput of exp limits softmax and activations. Calls on
 * independent vectors hide the latency of about 50 cycles. Any thread; pure functions. */
#ifndef QUOTH_KERN_TMPL_EXP_H
#define QUOTH_KERN_TMPL_EXP_H

/* Return exp(c) for -105 <= c <= 89 or NaN. */
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

/* Return e^x per lane, with the bits of exp_f32. */
static inline vf vf_exp(vf x)
{
    return vf_exp_bounded(vf_max(vf_set1(-105.0f), vf_min(vf_set1(89.0f), x))); /* a NaN stays */
}

/* Return exp2_weight of kern_impl.h. */
static inline vf vf_exp2_weight(vf x)
{
    const vf magic = vf_set1(0x1.8p23f);
    vf n = vf_sub(vf_add(x, magic), magic), r = vf_sub(x, n);
    vf p = vf_set1(0x1.5cbe7cp-10f);
    p = vf_fma(p, r, vf_set1(0x1.3cf40ap-7f));
    p = vf_fma(p, r, vf_set1(0x1.c6b596p-5f));
    p = vf_fma(p, r, vf_set1(0x1.ebf9a4p-3f));
    p = vf_fma(p, r, vf_set1(0x1.62e42ap-1f));
    p = vf_fma(p, r, vf_set1(1.0f));
    return vf_scale2_if(vf_not_less(x, vf_set1(-100.0f)), p, n);
}

#endif
