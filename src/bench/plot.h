/* plot.h - private to bench: curves as SVG pictures, alone or in a page, that need nothing else. */
#ifndef QUOTH_BENCH_PLOT_H
#define QUOTH_BENCH_PLOT_H

#include "base/buf.h"
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
    bool log_x;   /* x > 0 then               */
    double y_max; /* the axis goes from 0 to this; 0: to a round number above all */
    const struct plot_curve *curve; /* borrowed [n_curve], 8 at most have colours of their own */
    size_t n_curve;
};

void plot_put(struct buf *b, const struct plot *p); /* an <svg> element */
int plot_write(const char *path, const struct plot *p, struct err *e);

/* An HTML file: a heading, a table as preformatted text, then whatever is put into `b`. */
void page_begin(struct buf *b, const char *title, const char *table);
/* Writes it and frees b. ERR_MEMORY where something did not fit into it. */
int page_end(struct buf *b, const char *path, struct err *e);

#endif
