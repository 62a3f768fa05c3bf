/* range.h - the legal values of a number: an interval, and one more value outside it. */
#ifndef QUOTH_BASE_RANGE_H
#define QUOTH_BASE_RANGE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

struct range {
    double low, high, also; /* also: another legal value (high: none) */
    bool open;              /* low itself is not legal */
    const char *text;       /* "in [0, 1]": completes "must be" */
};

/* Return true if x is legal. NaN never is. */
static inline bool range_has(const struct range *r, double x)
{
    return x == r->also || (x >= r->low && x <= r->high && !(r->open && x == r->low));
}

/* Convert to float; values out of its range become an infinity, which is in no range. */
static inline float to_float(double x)
{
    return x > FLT_MAX ? INFINITY : x < -FLT_MAX ? -INFINITY : (float)x;
}

#endif
