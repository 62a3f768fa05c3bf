/* attn.c - attention in AVX-512, from ../tmpl/attn.h and ../tmpl/kv.h. */
#include "avx512.h"
#include "vec.h"

#include "kern/tmpl/attn.h"
#include "kern/tmpl/kv.h"

void kern_attn_avx512(struct kern *k)
{
    attn_slots(k);
    kv_slots(k);
}
