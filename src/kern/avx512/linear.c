/* linear.c - linear layers by AVX-512. */
#include "avx512.h"
#include "dot.h"

#include "kern/tmpl/linear_level.h"

void kern_linear_avx512(struct kern *k)
{
    linear_slots(k);
}

void linear_q8_avx512(const struct linear_out *out, const struct panels *w, int panel, int n_panel,
                      const struct act *x, int row, int n_row)
{
    linear_q8(out, w, panel, n_panel, x, row, n_row);
}
