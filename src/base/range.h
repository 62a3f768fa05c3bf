/* range.h - the legal values of a number: an interval, and one additional value. Any thread. */
#ifndef QUOTH_BASE_RANGE_H
#define QUOTH_BASE_RANGE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

struct range {
    double low, high, also; /* bounds; additional legal value (none if equal to high) */
    bool open;              /* true if low is not a legal value */
    const char *text;       /* static text that completes "must be", such as "in [0, 1]" */
};

/* Return true if x is legal. NaN is never legal. */
static inline bool range_has(const struct range *r, double x)
{
    return x == r->also || (x >= r->low && x <= r->high && !(r->open && x == r->low));
}

/* Convert to float. A value outside of float's range becomes an infinity, which is never legal. */
static inline float to_float(double x)
{
    return x > FLT_MAX ? INFINITY : x < -FLT_MAX ? -INFINITY : (float)x;
}

#endif
