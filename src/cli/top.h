/* top.h - private to cli: quoth top's readings of a server, and their display.
 *
 *   /metrics --top_sample_read--> struct top_sample --top_add--> struct top --top_figures--> struct top_figures
 *                                                                                               | top_page, top_json
 *                                                                                               v
 *                                                                              a screen, or a JSON object
 *
 * Names are vLLM's, so that its servers work too. Values that a server does not report are NAN, and shown as a dash. */
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
    char model[96];      /* "": not reported        */
    double v[TOP_COUNT]; /* NAN: not reported       */
    struct scrape_times times[TOP_TIMES];
};
/* Read a page. ERR_FORMAT: it is not a metrics page of a model server. */
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
    const char *url;                          /* borrowed */
    struct top_sample sample[TOP_WINDOW + 1]; /* oldest first; since the server's last start */
    int n_sample;
    float point[TOP_POINTS][TOP_CURVES]; /* one per reading, NAN if a reading failed */
    int n_point;
    char trouble[200]; /* "": the last reading succeeded */
    bool restarted;    /* the server was restarted between two readings */
};
void top_add(struct top *t, const struct top_sample *s);
void top_miss(struct top *t, const char *why); /* record a failed reading */

/* Figures of a page: current levels, and rates over the window. */
struct top_figures {
    const struct top_sample *now; /* NULL: no reading succeeded; the rest is then invalid */
    double seconds;               /* length of the window; 0: only one reading */
    double per_s[TOP_COUNT];      /* NAN if there is no window */
    double hit_rate, accept_rate, rows_per_step, cpu;
    double forward, sample;                /* shares of the steps' time */
    struct scrape_times recent[TOP_TIMES]; /* of the window; without one since the start */
};
void top_figures(const struct top *t, struct top_figures *f);

/* ---- how it looks ---- */

struct top_look {
    struct screen_size size; /* n_row 0: a report with as many rows as needed, no curves */
    bool utf8, colour;
    int64_t wall_s; /* current time */
};
/* Append rows that end with newlines (the last one too), none longer than the screen. */
void top_page(const struct top *t, const struct top_look *look, struct buf *out);
void top_json(const struct top *t, struct buf *out);

#endif
