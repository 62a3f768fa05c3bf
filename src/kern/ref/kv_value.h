/* kv_value.h - access to one stored value of K or V, for the reference's loops. Any thread may call
 * kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_REF_KV_VALUE_H
#define QUOTH_KERN_REF_KV_VALUE_H

#include "kern/kern_impl.h"

/* Return value i of x as f32 (KV_Q8: the integer without its scale). */
static inline float kv_value(enum kv_type t, const void *x, int64_t i)
{
    const uint8_t *code = x;
    float f;
    uint16_t h = 0;
    if (t == KV_F32) return memcpy(&f, code + i * 4, 4), f;
    if (t == KV_Q8) return (float)((const int8_t *)x)[i];
    if (t == KV_FP8_E4M3) return f32_of_e4m3(code[i]);
    if (t == KV_FP8_E5M2) return f32_of_e5m2(code[i]);
    memcpy(&h, code + i * 2, 2);
    return t == KV_F16 ? f32_of_f16(h) : f32_of_bf16(h);
}

#endif
