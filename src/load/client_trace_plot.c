/* client_trace_plot.c - plot clients' records as curves on a page; see client_trace.h. Means over
 * time use spans of equal length. The resolution of the picture limits the number of spans. The
 * mean of a span is drawn at the span's end. */
#include "plot.h"
#include "client_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* N_POINT: points of a curve, about two per pixel column of a plot.
 * N_SPAN: spans of a curve over time. */
enum { N_POINT = 300, N_SPAN = 60, CURVES_MAX = 4 };

/* The points of one plot. */
struct trace_plot {
    struct plot_curve curve[CURVES_MAX];
    double x[CURVES_MAX][N_POINT + 1], y[CURVES_MAX][N_POINT + 1];
    size_t n;
};

/* Begin a curve, to which sketch_point adds. The arrays are fixed, so no step can fail. */
static void sketch_curve(struct trace_plot *k, const char *name)
{
    k->curve[k->n] = (struct plot_curve){.name = name, .x = k->x[k->n], .y = k->y[k->n]};
    k->n++;
}

/* Add a point to the last curve. */
static void sketch_point(struct trace_plot *k, double x, double y)
{
    size_t i = k->n - 1, at = k->curve[i].n;
    if (at > N_POINT) return;
    k->x[i][at] = x;
    k->y[i][at] = y;
    k->curve[i].n++;
}

/* Append the plot and reset the sketch for the next plot. A plot without points is omitted. */
static void sketch_end(struct buf *b, struct trace_plot *k, struct plot p)
{
    size_t n = 0;
    for (size_t i = 0; i < k->n; i++) n += k->curve[i].n;
    p.curve = k->curve;
    p.n_curve = k->n;
    if (n > 0) plot_put(b, &p);
    memset(k, 0, sizeof *k);
}

/* ---- distributions ---- */

/* Plot percentiles 0 to 100 on the y axis. A curve with lower latencies is further left. The
 * minimum of x is 0.01 ms, because its logarithm requires a positive number. */
static void put_distributions(struct buf *b, struct trace_plot *k, const struct client_figures *f)
{
    static const enum latency list[] = {TTFT, TPOT, ITL, E2EL};
    for (int i = 0; i < 4; i++) {
        const struct samples *ms = &f->ms[list[i]];
        if (ms->n == 0) continue;
        sketch_curve(k, latency_kind[list[i]].word);
        for (int j = 0; j <= N_POINT; j++) {
            double percent = 100.0 * j / N_POINT;
            sketch_point(k, fmax(samples_percentile(ms, percent), 0.01), percent);
        }
    }
    sketch_end(b, k,
               (struct plot){.title = "Latencies",
                             .x_title = "milliseconds",
                             .y_title = "% within so many",
                             .log_x = true,
                             .y_max = 100});
}

/* ---- over time ---- */

/* Equal spans of a run. The spans begin at the first submission. */
struct plot_spans {
    int64_t begin_us;
    double us; /* length of a span */
    int n;     /* number of spans */
};

/* Return the spans of the plots over time. n is 0 and all plots over time are omitted if the run
 * has the length 0. */
static struct plot_spans spans(const struct client_figures *f)
{
    return (struct plot_spans){
        .begin_us = f->begin_us, .us = f->seconds * 1e6 / N_SPAN, .n = f->seconds > 0 ? N_SPAN : 0};
}

/* Return the index of the span with time us, clamped to [0, n). */
static int span_of(const struct plot_spans *s, int64_t us)
{
    double at = (double)(us - s->begin_us) / s->us;
    return at < 0 ? 0 : at >= s->n ? s->n - 1 : (int)at;
}

static double span_end(const struct plot_spans *s, int i)
{
    return s->us * 1e-6 * (i + 1);
}

/* Values of one quantity, grouped by span. */
struct by_span {
    struct samples in[N_SPAN];
};

/* Plot three percentiles of each span that has a value. Free the values. */
static void put_percentiles(struct buf *b, struct trace_plot *k, const struct plot_spans *s,
                            struct by_span *v, struct plot p)
{
    static const struct {
        const char *name; /* static */
        double percent;
    } line[] = {{"median", 50}, {"p90", 90}, {"p99", 99}};
    for (int i = 0; i < s->n; i++) samples_sort(&v->in[i]);
    for (int l = 0; l < 3; l++) {
        sketch_curve(k, line[l].name);
        for (int i = 0; i < s->n; i++)
            if (v->in[i].n)
                sketch_point(k, span_end(s, i), samples_percentile(&v->in[i], line[l].percent));
    }
    sketch_end(b, k, p);
    for (int i = 0; i < N_SPAN; i++) vec_deinit(&v->in[i]);
}

/* Append the points of first tokens. A failed push only omits a point, because a page without a
 * point is better than no page. */
static void put_first_tokens(struct buf *b, struct trace_plot *k, const struct plot_spans *s,
                             const struct client_trace *v, size_t n)
{
    struct by_span ms = {0};
    for (size_t i = 0; i < n; i++)
        if (v[i].n_time && !v[i].error)
            (void)!vec_push(&ms.in[span_of(s, v[i].token_us[0])],
                            (double)(v[i].token_us[0] - v[i].submit_us) * 1e-3);
    put_percentiles(b, k, s, &ms,
                    (struct plot){.title = "Time to first token, over time",
                                  .x_title = "seconds",
                                  .y_title = "milliseconds"});
}

static void put_gaps(struct buf *b, struct trace_plot *k, const struct plot_spans *s,
                     const struct client_trace *v, size_t n)
{
    struct by_span ms = {0};
    for (size_t i = 0; i < n; i++)
        for (int t = 1; t < v[i].n_time && !v[i].error; t++)
            (void)!vec_push(&ms.in[span_of(s, v[i].token_us[t])],
                            (double)(v[i].token_us[t] - v[i].token_us[t - 1]) * 1e-3);
    put_percentiles(b, k, s, &ms,
                    (struct plot){.title = "Inter-token latency, over time",
                                  .x_title = "seconds",
                                  .y_title = "milliseconds"});
}

/* Append the tokens over time. As in busiest_second, an event with several tokens counts as that
 * number of tokens. */
static void put_tokens(struct buf *b, struct trace_plot *k, const struct plot_spans *s,
                       const struct client_trace *v, size_t n)
{
    double count[N_SPAN] = {0};
    for (size_t i = 0; i < n; i++)
        for (int t = 0; t < v[i].n_time && !v[i].error; t++)
            count[span_of(s, v[i].token_us[t])] += (double)v[i].n_token / v[i].n_time;
    sketch_curve(k, "generated");
    for (int i = 0; i < s->n; i++) sketch_point(k, span_end(s, i), count[i] * 1e6 / s->us);
    sketch_end(b, k,
               (struct plot){
                   .title = "Tokens a second", .x_title = "seconds", .y_title = "tokens a second"});
}

/* Append, for each span, the mean number of requests in flight and the mean number of requests that
 * wait at their client. Each request adds the time of its overlap with the span. The mean is the
 * sum of these times divided by the span's length. */
static void put_under_way(struct buf *b, struct trace_plot *k, const struct plot_spans *s,
                          const struct client_trace *v, size_t n)
{
    for (int line = 0; line < 2; line++) {
        double us[N_SPAN] = {0};
        for (size_t i = 0; i < n; i++) {
            int64_t from = line ? v[i].arrive_us : v[i].submit_us,
                    to = line ? v[i].submit_us : v[i].done_us;
            if (v[i].error) continue;
            for (int j = span_of(s, from); j < s->n; j++) {
                double lo = (double)s->begin_us + s->us * j, hi = lo + s->us;
                if (lo >= (double)to) break;
                us[j] += fmax(0, fmin(hi, (double)to) - fmax(lo, (double)from));
            }
        }
        sketch_curve(k, line ? "waiting at clients" : "in flight");
        for (int i = 0; i < s->n; i++) sketch_point(k, span_end(s, i), us[i] / s->us);
    }
    sketch_end(b, k,
               (struct plot){.title = "Requests", .x_title = "seconds", .y_title = "requests"});
}

/* The sketch is on the heap, because a sketch is too large for the stack. */
void client_plots(struct buf *b, const struct client_trace *v, size_t n,
                  const struct client_figures *f)
{
    struct plot_spans s = spans(f);
    struct trace_plot *k = calloc(1, sizeof *k);
    if (!k) {
        b->failed = true;
        return;
    }
    put_distributions(b, k, f);
    if (s.n) {
        put_first_tokens(b, k, &s, v, n);
        put_gaps(b, k, &s, v, n);
        put_tokens(b, k, &s, v, n);
        put_under_way(b, k, &s, v, n);
    }
    free(k);
}

/* ---- the server ---- */

/* Return one quantity of a sample, in the unit of its plot. */
typedef double load_fn(const struct load_sample *s);

static double running(const struct load_sample *s)
{
    return s->n_running;
}

static double waiting(const struct load_sample *s)
{
    return s->n_waiting;
}

static double pages(const struct load_sample *s)
{
    return s->kv_ppm * 1e-4;
}

static double memory(const struct load_sample *s)
{
    return (double)s->memory / 1048576;
}

/* Draw every step-th sample, so that a long run fits into N_POINT points. */
static void put_load(struct trace_plot *k, const char *name, load_fn *value,
                     const struct load_sample *v, size_t n)
{
    size_t step = n / N_POINT + 1;
    sketch_curve(k, name);
    for (size_t i = 0; i < n; i += step) sketch_point(k, (double)v[i].us * 1e-6, value(&v[i]));
}

void load_plots(struct buf *b, const struct load_sample *v, size_t n)
{
    struct trace_plot *k = n > 1 ? calloc(1, sizeof *k) : NULL;
    if (!k) return;
    put_load(k, "running", running, v, n);
    put_load(k, "waiting", waiting, v, n);
    sketch_end(b, k,
               (struct plot){.title = "Sequences", .x_title = "seconds", .y_title = "sequences"});
    put_load(k, "held", pages, v, n);
    sketch_end(b, k, (struct plot){.title = "KV pages", .x_title = "seconds", .y_title = "%"});
    if (v[n - 1].memory) {
        put_load(k, "memory", memory, v, n);
        sketch_end(
            b, k,
            (struct plot){.title = "Memory beyond files", .x_title = "seconds", .y_title = "MiB"});
    }
    free(k);
}

/* ---- a page ---- */

int client_page_write(const struct client_page *p, const char *path, struct err *e)
{
    struct buf b = {0};
    html_begin(&b, p->title, p->table);
    client_plots(&b, p->trace, p->n_trace, p->figures);
    load_plots(&b, p->load, p->n_load);
    return html_end(&b, path, e);
}
