/* linear_float.c - linear layers with f32 activations by AVX2. */
#include "avx2.h"
#include "dot.h"

/* TILES: 16 registers hold 12 sums, 2 weights and 1 activation. */
#define TILES(X)      X(1) X(2) X(3) X(4) X(5) X(6)
#define DIRECTS(X)    X(1) X(2) X(3) X(4)
#define TILES_BF16(X) X(1) X(2) X(3)
#include "kern/tmpl/linear_bf16.h"

void kern_linear_float_avx2(struct kern *k)
{
    linear_float_slots(k);
    linear_bf16_slots(k);
}
