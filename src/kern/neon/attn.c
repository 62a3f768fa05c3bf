/* attn.c - attention in ASIMD, from ../tmpl/attn.h and ../tmpl/kv.h. The speed is not measured,
 * because no Arm machine was available. */
#include "neon.h"
#include "vec.h"

#include "kern/tmpl/attn.h"
#include "kern/tmpl/kv.h"

void kern_attn_neon(struct kern *k)
{
    attn_slots(k);
    kv_slots(k);
}
