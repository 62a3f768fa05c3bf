/* traffic_page.c - a measurement as one HTML file: the table, each latency's distribution, and what was
 * going on over time. Drawn as SVG in the file itself; nothing is fetched. */
#include "traffic.h"

#include "base/os.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 640, HEIGHT = 220, LEFT = 60, BOTTOM = 30, N_POINT = 300 };

static const char *const color[] = {"#0b6", "#06c", "#c60", "#909", "#666"};

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

/* ---- one drawing: a frame with its scales, then lines in it ---- */

struct frame {
    double x0, x1, y1; /* the values at its edges; y begins at 0 */
    bool log_x;
};

static double across(const struct frame *f, double x)
{
    double part = f->log_x ? log(x / f->x0) / log(f->x1 / f->x0) : (x - f->x0) / (f->x1 - f->x0);
    return LEFT + part * (WIDTH - LEFT);
}

static double up(const struct frame *f, double y)
{
    return HEIGHT - BOTTOM - y / f->y1 * (HEIGHT - BOTTOM - 10);
}

static void frame_begin(struct buf *b, const struct frame *f, const char *title, const char *unit)
{
    buf_addf(b, "<h2>%s</h2><svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">", title,
             WIDTH + 20, HEIGHT, WIDTH + 20, HEIGHT);
    for (int i = 0; i <= 4; i++) {
        double part = i / 4.0;
        double x = f->log_x ? f->x0 * pow(f->x1 / f->x0, part) : f->x0 + (f->x1 - f->x0) * part;
        buf_addf(b, "<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">%.3g</text>", across(f, x),
                 HEIGHT - 10, x);
        buf_addf(b, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%.3g</text>", LEFT - 6,
                 up(f, f->y1 * part) + 4, f->y1 * part);
        buf_addf(b, "<path class=\"g\" d=\"M%d %.1fH%d\"/>", LEFT, up(f, f->y1 * part), WIDTH);
    }
    buf_addf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>", WIDTH, HEIGHT - 36, unit);
}

static void frame_end(struct buf *b)
{
    buf_add_text(b, "</svg>");
}

static void line_begin(struct buf *b, int i, const char *name)
{
    buf_addf(b,
             "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text><polyline fill=\"none\" "
             "stroke=\"%s\" points=\"",
             LEFT + 8, 22 + 15 * i, color[i], name, color[i]);
}

static void point(struct buf *b, const struct frame *f, double x, double y)
{
    buf_addf(b, "%.1f,%.1f ", across(f, x), up(f, y));
}

/* ---- distributions ---- */

static void put_distributions(struct buf *b, const struct traffic_figures *figures)
{
    struct frame f = {.x0 = INFINITY, .x1 = 0, .y1 = 100, .log_x = true};
    for (int k = 0; k < N_LATENCY; k++) {
        const struct bench_samples *s = &figures->ms[k];
        if (s->n == 0) continue;
        f.x0 = fmin(f.x0, fmax(s->v[0], 0.01));
        f.x1 = fmax(f.x1, s->v[s->n - 1]);
    }
    if (!(f.x1 > 0)) return;
    if (f.x1 <= f.x0) f.x1 = f.x0 * 2;
    frame_begin(b, &f, "Latencies", "% of all, within so many ms");
    for (int k = 0; k < N_LATENCY; k++) {
        line_begin(b, k, latency_title[k]);
        for (int i = 0; i <= N_POINT && figures->ms[k].n; i++) {
            double percent = 100.0 * i / N_POINT;
            point(b, &f, fmax(bench_percentile(&figures->ms[k], percent), f.x0), percent);
        }
        buf_add_text(b, "\"/>");
    }
    frame_end(b);
}

/* ---- over time ---- */

typedef double value_fn(const struct traffic_sample *s, const struct traffic_sample *before);

static double running(const struct traffic_sample *s, const struct traffic_sample *before)
{
    (void)before;
    return s->n_running;
}

static double waiting(const struct traffic_sample *s, const struct traffic_sample *before)
{
    (void)before;
    return s->n_waiting;
}

static double pages(const struct traffic_sample *s, const struct traffic_sample *before)
{
    (void)before;
    return s->kv_ppm * 1e-4;
}

static double rate(const struct traffic_sample *s, const struct traffic_sample *before)
{
    double us = (double)(s->us - before->us);
    return us > 0 ? (double)(s->n_output - before->n_output) * 1e6 / us : 0;
}

static double memory(const struct traffic_sample *s, const struct traffic_sample *before)
{
    (void)before;
    return (double)s->memory / 1048576;
}

struct series {
    const char *name;
    value_fn *value;
};

static void put_curves(struct buf *b, const struct traffic_result *r, const char *title,
                       const struct series *c, int n_curve)
{
    size_t n = r->sample.n, step = n / N_POINT + 1;
    if (n < 2) return;
    const struct traffic_sample *v = r->sample.v;
    struct frame f = {.x0 = 0, .x1 = (double)v[n - 1].us * 1e-6, .y1 = 0};
    for (int k = 0; k < n_curve; k++)
        for (size_t i = step; i < n; i += step) f.y1 = fmax(f.y1, c[k].value(&v[i], &v[i - step]));
    if (!(f.y1 > 0) || !(f.x1 > 0)) return;
    frame_begin(b, &f, title, "seconds");
    for (int k = 0; k < n_curve; k++) {
        line_begin(b, k, c[k].name);
        for (size_t i = step; i < n; i += step)
            point(b, &f, (double)v[i].us * 1e-6, c[k].value(&v[i], &v[i - step]));
        buf_add_text(b, "\"/>");
    }
    frame_end(b);
}

int traffic_page(const char *path, const char *title, const char *table,
                 const struct traffic_figures *f, const struct traffic_result *r, struct err *e)
{
    struct buf b = {0};
    buf_add_text(&b, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>");
    put_escaped(&b, title);
    buf_add_text(&b, "</title><style>body{font:14px sans-serif;max-width:60em;margin:2em auto}"
                     "text{font-size:11px}.g{stroke:#ddd}</style><h1>");
    put_escaped(&b, title);
    buf_add_text(&b, "</h1><pre>");
    put_escaped(&b, table);
    buf_add_text(&b, "</pre>");
    put_distributions(&b, f);
    put_curves(&b, r, "Requests", (struct series[]){{"running", running}, {"waiting", waiting}}, 2);
    put_curves(&b, r, "Tokens a second", (struct series[]){{"generated", rate}}, 1);
    put_curves(&b, r, "KV pages", (struct series[]){{"% held", pages}}, 1);
    put_curves(&b, r, "Memory beyond files", (struct series[]){{"MiB", memory}}, 1);
    buf_add_text(&b, "</html>\n");
    int rc = b.failed ? err_memory(e, "a page", b.n) : file_write(path, b.data, b.n, e);
    buf_deinit(&b);
    return rc;
}
