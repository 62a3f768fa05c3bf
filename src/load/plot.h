/* plot.h - private to load: curves as SVG pictures, alone or in an HTML page, without external
 * files. Main thread only. */
#ifndef QUOTH_LOAD_PLOT_H
#define QUOTH_LOAD_PLOT_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct plot_curve {
    const char *name;    /* name of the curve, borrowed */
    const double *x, *y; /* borrowed [n], x ascending */
    size_t n;
};

struct plot {
    const char *title, *x_title, *y_title; /* borrowed */
    bool log_x;                            /* true: the x axis is logarithmic; x must be above 0 */
    /* upper end of the y axis, which begins at 0; 0: a round number above all values */
    double y_max;
    /* curves, borrowed [n_curve]; the first 8 have different colours */
    const struct plot_curve *curve;
    size_t n_curve;
};

void plot_put(struct buf *b, const struct plot *p); /* Append an <svg> element. */
/* Write the picture to a file. ERR_IO for a failed write, ERR_ARG for a path that is too long,
 * ERR_MEMORY. */
int plot_write(const char *path, const struct plot *p, struct err *e);

/* Begin an HTML page in `b` with a heading, and a table as preformatted text. The caller then
 * appends the rest of the page to `b`. */
void html_begin(struct buf *b, const char *title, const char *table);
/* Write the page to a file and free b. ERR_MEMORY if an append failed, ERR_IO, ERR_ARG for a path
 * that is too long. */
int html_end(struct buf *b, const char *path, struct err *e);

#endif
