/* plot.c - draw curves as SVG, and write pages with plots. A plot is a frame with ticks and a line
 * for each curve. The curve's name is next to the line, in the same colour. The background is
 * white, so that plots are legible on any page. */
#include "plot.h"

#include "base/os.h"

#include <math.h>

/* Sizes in pixels. RIGHT is wide, because the right margin contains the names of curves. */
enum { WIDTH = 760, HEIGHT = 420, LEFT = 70, RIGHT = 150, TOP = 40, BOTTOM = 50 };

static const char *const colour[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                     "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"};
enum { N_COLOUR = sizeof colour / sizeof colour[0] };

struct frame {
    const struct plot *p; /* borrowed */
    double x0, x1;        /* range of the x axis, as logarithms if log_x is true */
    double y1;
};

static double x_of(const struct frame *f, double x)
{
    double v = f->p->log_x ? log10(x) : x;
    return LEFT + (v - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct frame *f, double y)
{
    return HEIGHT - BOTTOM - y / f->y1 * (HEIGHT - TOP - BOTTOM);
}

/* Return a number above y that five ticks divide into round numbers. The number is close to y, so
 * that curves are not flat. */
static double round_above(double y)
{
    static const double step[] = {1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10};
    if (!(y > 0)) return 1;
    double power = pow(10, floor(log10(y)));
    size_t i = 0;
    while (i + 1 < sizeof step / sizeof step[0] && y > step[i] * power) i++;
    return step[i] * power;
}

/* Set the ranges of both axes. y begins at 0. An empty or constant x range is widened to 1, because
 * x_of divides by its length. */
static void find_range(struct frame *f)
{
    double y_max = 0;
    f->x0 = INFINITY, f->x1 = -INFINITY;
    for (size_t i = 0; i < f->p->n_curve; i++)
        for (size_t k = 0; k < f->p->curve[i].n; k++) {
            double x = f->p->curve[i].x[k], v = f->p->log_x ? log10(x) : x;
            f->x0 = fmin(f->x0, v), f->x1 = fmax(f->x1, v);
            y_max = fmax(y_max, f->p->curve[i].y[k]);
        }
    f->y1 = f->p->y_max > 0 ? f->p->y_max : round_above(y_max);
    if (!(f->x1 >= f->x0)) f->x0 = f->x1 = 0;
    if (!(f->x1 > f->x0)) f->x0 -= 0.5, f->x1 += 0.5;
}

/* Append a tick of the x axis. A tick outside the frame is omitted, with a tolerance of half a
 * pixel for rounding errors. */
static void put_tick_x(struct buf *b, const struct frame *f, double x)
{
    double at = x_of(f, x);
    if (at < LEFT - 0.5 || at > WIDTH - RIGHT + 0.5) return;
    buf_addf(b, "<path d=\"M%.1f %dV%d\" stroke=\"#ddd\"/>", at, TOP, HEIGHT - BOTTOM);
    buf_addf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", at,
             HEIGHT - BOTTOM + 16, x);
}

/* Append both axes. y has five equal ticks at round numbers (round_above). x has ticks at round
 * numbers within its range. */
static void put_axes(struct buf *b, const struct frame *f)
{
    const struct plot *p = f->p;
    for (int i = 0; i <= 5; i++) {
        double y = f->y1 * i / 5, at = y_of(f, y);
        buf_addf(b, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>", LEFT, at, WIDTH - RIGHT);
        buf_addf(b, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 6, at + 4,
                 y);
    }
    /* a logarithmic axis has ticks at 1, 2 and 5 times powers of ten (k = 1, 2, 5) */
    for (int i = (int)floor(f->x0) - 1; p->log_x && i <= f->x1; i++)
        for (int k = 1; k <= 5; k += k == 1 ? 1 : 3) put_tick_x(b, f, k * pow(10, i));
    double step = pow(10, floor(log10(f->x1 - f->x0)));
    if ((f->x1 - f->x0) / step < 3) step /= 4;
    for (double x = ceil(f->x0 / step) * step; !p->log_x && x <= f->x1; x += step)
        put_tick_x(b, f, x);
    buf_addf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
             (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, p->x_title);
    buf_addf(b,
             "<text x=\"16\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 16 "
             "%d)\">%s</text>\n",
             (TOP + HEIGHT - BOTTOM) / 2, (TOP + HEIGHT - BOTTOM) / 2, p->y_title);
    buf_addf(b, "<text x=\"%d\" y=\"22\" font-size=\"15\">%s</text>\n", LEFT, p->title);
}

/* Append a curve. Points closer than 2 pixels to the last drawn point are omitted, except the first
 * and the last point, so that pages are small. */
static void put_curve(struct buf *b, const struct frame *f, size_t i)
{
    const struct plot_curve *c = &f->p->curve[i];
    const char *ink = colour[i % N_COLOUR];
    buf_addf(b, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"", ink);
    double x0 = -WIDTH, y0 = -HEIGHT;
    for (size_t k = 0; k < c->n; k++) {
        double x = x_of(f, c->x[k]), y = y_of(f, c->y[k]);
        if (k > 0 && k + 1 < c->n && fabs(x - x0) < 2 && fabs(y - y0) < 2) continue;
        buf_addf(b, "%c%.1f %.1f", k ? 'L' : 'M', x, y);
        x0 = x, y0 = y;
    }
    buf_addf(b, "\"/>\n<path d=\"M%d %dh18\" stroke=\"%s\" stroke-width=\"2\"/>",
             WIDTH - RIGHT + 12, TOP + 10 + (int)i * 20, ink);
    buf_addf(b, "<text x=\"%d\" y=\"%d\">%s</text>\n", WIDTH - RIGHT + 36, TOP + 14 + (int)i * 20,
             c->name);
}

void plot_put(struct buf *b, const struct plot *p)
{
    struct frame f = {.p = p};
    find_range(&f);
    buf_addf(b,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
             "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
             "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
             WIDTH, HEIGHT, WIDTH, WIDTH, HEIGHT);
    put_axes(b, &f);
    for (size_t i = 0; i < p->n_curve; i++) put_curve(b, &f, i);
    buf_add_text(b, "</svg>\n");
}

/* Write b to a file, and free b. */
static int write_out(struct buf *b, const char *path, struct err *e)
{
    int rc = b->failed ? err_memory(e, path, b->n) : file_write(path, b->data, b->n, e);
    buf_deinit(b);
    return rc;
}

int plot_write(const char *path, const struct plot *p, struct err *e)
{
    struct buf b = {0};
    plot_put(&b, p);
    return write_out(&b, path, e);
}

/* ---- pages ---- */

/* Append text as HTML. Titles contain names of models and servers, which may contain any
 * characters. */
static void put_escaped(struct buf *b, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '<')
            buf_add_text(b, "&lt;");
        else if (*c == '>')
            buf_add_text(b, "&gt;");
        else if (*c == '&')
            buf_add_text(b, "&amp;");
        else
            buf_add_char(b, *c);
    }
}

void html_begin(struct buf *b, const char *title, const char *table)
{
    buf_add_text(b, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>");
    put_escaped(b, title);
    buf_add_text(b, "</title><style>body{font:14px sans-serif;max-width:60em;margin:2em auto;"
                    "padding:0 1em}svg{display:block;max-width:100%;margin:1em 0}pre{overflow:auto}"
                    "</style><h1>");
    put_escaped(b, title);
    buf_add_text(b, "</h1><pre>");
    put_escaped(b, table);
    buf_add_text(b, "</pre>\n");
}

int html_end(struct buf *b, const char *path, struct err *e)
{
    buf_add_text(b, "</html>\n");
    return write_out(b, path, e);
}
