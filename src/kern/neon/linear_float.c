/* linear_float.c - linear layers with f32 and bf16 activations by ASIMD. The speed is not measured,
 * because no Arm machine was available. */
#include "neon.h"
#include "dot.h"

/* TILES: 32 registers hold 24 sums, 2 weights and 1 activation. */
#define TILES(X)      X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define DIRECTS(X)    X(1) X(2) X(3) X(4)
#define TILES_BF16(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "kern/tmpl/linear_bf16.h"

void kern_linear_float_neon(struct kern *k)
{
    linear_float_slots(k);
    linear_bf16_slots(k);
}
