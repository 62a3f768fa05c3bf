/* curve.h - names of the functions of one value. kern_math.h defines their results and errors. This
 * file is part of kern.h. Any thread. */
#ifndef QUOTH_KERN_CURVE_H
#define QUOTH_KERN_CURVE_H

#define CURVE(f) CURVE_##f,
enum curve {
#include "curves.def"
    CURVE_COUNT
};
#undef CURVE

#endif
