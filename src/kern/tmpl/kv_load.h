/* kv_load.h - load VL stored values of K or V as f32, written with the names of vec.h. KV_Q8 gives
 * the integers without their scales. attn.h multiplies the values immediately, kv.h stores them.
 * Any thread may call kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_TMPL_KV_LOAD_H
#define QUOTH_KERN_TMPL_KV_LOAD_H

#include "kern/kern_impl.h"

#define INLINE static inline __attribute__((always_inline))

static inline vf load_f32(const void *p)
{
    return vf_load(p);
}

static inline vf load_q8(const void *p)
{
    return vf_of_vi(vi_load_i8(p));
}

#endif
