/* attn.c - attention in AVX2, from ../tmpl/attn.h and ../tmpl/kv.h. */
#include "avx2.h"
#include "vec.h"

#include "kern/tmpl/attn.h"
#include "kern/tmpl/kv.h"

void kern_attn_avx2(struct kern *k)
{
    attn_slots(k);
    kv_slots(k);
}
