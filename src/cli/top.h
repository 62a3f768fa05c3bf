/* top.h - private to cli: quoth top's readings of a server, and their display.
 *
 *   /metrics --top_sample_read--> struct top_sample --top_add--> struct top
 *                                                                   | top_figures
 *                                                                   v
 *   a screen, or a JSON object <--top_page, top_json-- struct top_figures
 *
 * Names are those of vLLM, so top_sample_read can also read pages of vLLM's servers. Values that a
 * server does not report are NAN, and are shown as a dash. Any thread may call top_sample_read.
 * Only the main thread calls the other functions. */
#ifndef QUOTH_CLI_TOP_H
#define QUOTH_CLI_TOP_H

#include "draw.h"

#include "base/err.h"
#include "fetch/fetch.h"

/* Series of the server's metrics. */
#define TOP(id, name, label) TOP_##id,
enum top_id {
#include "top.def"
    TOP_COUNT
};
#undef TOP

enum top_times { TOP_TTFT, TOP_ITL, TOP_QUEUE, TOP_E2EL, TOP_TIMES };

/* One reading of a server. */
struct top_sample {
    int64_t time_us;     /* time of the reading, monotonic */
    char model[96];      /* name of the model; "": not reported */
    double v[TOP_COUNT]; /* values of the series; NAN: not reported */
    struct scrape_times times[TOP_TIMES];
};
/* Read a page. ERR_FORMAT: the page is not a metrics page of a model server. */
int top_sample_read(struct top_sample *s, const char *page, size_t n, struct err *e);

/* ---- the last minutes ---- */

enum { TOP_WINDOW = 10, TOP_POINTS = 600 };

enum top_curve {
    TOP_CURVE_GENERATION,
    TOP_CURVE_PROMPT,
    TOP_CURVE_RUNNING,
    TOP_CURVE_WAITING,
    TOP_CURVE_KV,
    TOP_CURVE_HITS,
    TOP_CURVES
};

struct top {
    const char *url; /* URL of the server, borrowed */
    /* readings since the server's last start, oldest first */
    struct top_sample sample[TOP_WINDOW + 1];
    int n_sample;
    /* points of the curves, one per reading; NAN for a failed reading */
    float point[TOP_POINTS][TOP_CURVES];
    int n_point;
    char trouble[200]; /* error of the last reading; "" if none */
    bool restarted;    /* true: the server was restarted between two readings */
};
void top_add(struct top *t, const struct top_sample *s);
void top_miss(struct top *t, const char *why); /* record a failed reading */

/* Figures of a page: current levels, and rates over the window. */
struct top_figures {
    /* borrowed from struct top; NULL without a successful reading, and all other fields are then
     * invalid */
    const struct top_sample *now;
    double seconds;          /* length of the window; 0 if there is only one reading */
    double per_s[TOP_COUNT]; /* rates of counters over the window; NAN without a window */
    double hit_rate, accept_rate, rows_per_step, cpu;
    double forward, sample; /* shares of the steps' time */
    /* times of the window, or since the server's start if there is no window */
    struct scrape_times recent[TOP_TIMES];
};
void top_figures(const struct top *t, struct top_figures *f);

/* ---- display ---- */

struct top_look {
    struct screen_size size; /* n_row 0: write a report with all rows and without curves */
    bool utf8, colour;
    int64_t wall_s; /* current time */
};
/* Append rows that end with newlines, including the last one. No row is longer than the screen. */
void top_page(const struct top *t, const struct top_look *look, struct buf *out);
void top_json(const struct top *t, struct buf *out);

#endif
