/* curve.h - functions of one value, by name; kern_math.h defines what they compute and how exactly.
 * Part of kern.h. */
#ifndef QUOTH_KERN_CURVE_H
#define QUOTH_KERN_CURVE_H

#define CURVE(f) CURVE_##f,
enum curve {
#include "curves.def"
    CURVE_COUNT
};
#undef CURVE

#endif
