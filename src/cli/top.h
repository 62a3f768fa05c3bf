/* top.h - private to cli: what quoth top knows of a server, and how it looks.
 *
 *   /metrics --top_sample_read--> struct top_sample --top_add--> struct top --top_figures--> struct top_figures
 *                                                                                               | top_page, top_json
 *                                                                                               v
 *                                                                              a screen, or a JSON object
 *
 * Names are vLLM's, so that its servers are shown too; what a server does not tell is NAN here and a dash there. */
#ifndef QUOTH_CLI_TOP_H
#define QUOTH_CLI_TOP_H

#include "draw.h"

#include "base/err.h"
#include "fetch/fetch.h"

/* Its series. */
#define TOP(id, name, label) TOP_##id,
enum top_id {
#include "top.def"
    TOP_COUNT
};
#undef TOP

enum top_times { TOP_TTFT, TOP_ITL, TOP_QUEUE, TOP_E2EL, TOP_TIMES };

/* One reading of a server. */
struct top_sample {
    int64_t time_us;     /* when it came, monotonic */
    char model[96];      /* "": not told            */
    double v[TOP_COUNT]; /* NAN: not told           */
    struct scrape_times times[TOP_TIMES];
};
/* ERR_FORMAT: the page is not a metrics page of a server of models. */
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
    struct top_sample sample[TOP_WINDOW + 1]; /* oldest first; of one life of the server */
    int n_sample;
    float point[TOP_POINTS][TOP_CURVES]; /* one per reading, NAN where there was none */
    int n_point;
    char trouble[200]; /* "": the last reading was fine */
    bool restarted;    /* the server began anew under our eyes */
};
void top_add(struct top *t, const struct top_sample *s);
void top_miss(struct top *t, const char *why); /* there was no reading */

/* What a page shows: levels now, rates over the window's time. */
struct top_figures {
    const struct top_sample *now; /* NULL: nothing was ever read; then nothing else counts */
    double seconds;               /* of the window, 0: there is one reading alone */
    double per_s[TOP_COUNT];      /* NAN without a window */
    double hit_rate, accept_rate, rows_per_step, cpu;
    double forward, sample;                /* shares of the steps' time */
    struct scrape_times recent[TOP_TIMES]; /* of the window; all of it without one */
};
void top_figures(const struct top *t, struct top_figures *f);

/* ---- how it looks ---- */

struct top_look {
    struct screen_size size; /* n_row 0: a report, as many rows as it takes, no curves */
    bool utf8, colour;
    int64_t wall_s; /* what time it is */
};
/* Rows that end with newlines (the last one too), none longer than the screen. */
void top_page(const struct top *t, const struct top_look *look, struct buf *out);
void top_json(const struct top *t, struct buf *out);

#endif
