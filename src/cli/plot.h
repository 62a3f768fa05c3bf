/* plot.h - private to cli: curves as an SVG picture that needs nothing else. */
#ifndef QUOTH_CLI_PLOT_H
#define QUOTH_CLI_PLOT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct plot_curve {
    const char *name;
    const double *x, *y; /* borrowed [n], x ascending */
    size_t n;
};

struct plot {
    const char *title, *x_title, *y_title;
    bool log_x;                     /* x > 0 then               */
    double y_max;                   /* the axis goes from 0 to this */
    const struct plot_curve *curve; /* borrowed [n_curve], 8 at most have colours of their own */
    size_t n_curve;
};

int plot_write(const char *path, const struct plot *p, struct err *e);

#endif
