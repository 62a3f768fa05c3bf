/* ops.c - elementwise ops, conversions of activations and passes over logits in AVX-512 vectors. */
#include "avx512.h"
#include "vec.h"

#include "kern/tmpl/ops.h"
#include "kern/tmpl/act.h"
#include "kern/tmpl/rows.h"
#include "kern/tmpl/scan.h"

void kern_ops_avx512(struct kern *k)
{
    ops_fill(k);
    act_fill(k);
    rows_fill(k);
    scan_fill(k);
}
