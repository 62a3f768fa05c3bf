/* bias.h - biases of attention scores by distance: the layout of a head's table. This file is part
 * of kern.h.
 *
 * The bias of a key at a distance (its position minus the row's position) is constant beyond a
 * reach, as in T5's buckets (arXiv 1910.10683). Number i of a table is the bias of the distance
 * i - reach - 15, clamped to [-reach, reach]. With the repeated ends, kernels can load 16 biases
 * together. */
#ifndef QUOTH_KERN_BIAS_H
#define QUOTH_KERN_BIAS_H

#include <stdint.h>

enum { BIAS_EDGE = 15 }; /* repeated biases at each end */

/* Return the number of floats of a head's table. Any thread. */
static inline int bias_floats(int reach)
{
    return 2 * reach + 1 + 2 * BIAS_EDGE;
}

/* Return the index of the biases of 16 positions whose first one is at `distance`. Any
 * thread. */
static inline int bias_at(int reach, int64_t distance)
{
    const int far = reach + BIAS_EDGE;
    return (distance < -far ? -far : distance > reach ? reach : (int)distance) + far;
}

#endif
