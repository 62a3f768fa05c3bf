/* scrape.h - a server's /metrics in Prometheus' text format, for callers that need a few of its
 * series. Works with any server's page; an absent value is NAN. */
#ifndef QUOTH_FETCH_SCRAPE_H
#define QUOTH_FETCH_SCRAPE_H

#include "base/buf.h"
#include "base/histogram.h"

struct scrape_row {
    const char *name, *labels; /* into the page; labels without their braces */
    size_t n_name, n_labels;
    double value;
};

struct scrape {
    VEC(struct scrape_row) row; /* owned; sorted by name, rows of one name in the page's order */
};

/* Parse the samples of a page of n bytes (borrowed as long as *s is used); other lines are skipped.
 * Returns false if out of memory. */
bool scrape_read(struct scrape *s, const char *page, size_t n);
void scrape_deinit(struct scrape *s);

/* Return the sum of all series of that name whose labels contain `label` (for example
 * reason="stop"; NULL: all); NAN if there is none. */
double scrape_sum(const struct scrape *s, const char *name, const char *label);
/* Copy a label's value from the first series of that name, as written; false if there is none. */
bool scrape_label(const struct scrape *s, const char *name, const char *key, char *out,
                  size_t n_out);

/* A histogram, summed over all series of its name; in units of 1e-6 of the page's. */
struct scrape_times {
    int64_t bound[HISTOGRAM_BOUNDS_MAX];
    uint64_t count[HISTOGRAM_BOUNDS_MAX + 1]; /* between bounds, as in struct histogram */
    int n_bound;
    int64_t sum;
};
/* Return false if there is no histogram, or one without bounds (and therefore without values).
 * Bounds beyond HISTOGRAM_BOUNDS_MAX are left out. */
bool scrape_times(const struct scrape *s, const char *name, struct scrape_times *t);
struct histogram scrape_histogram(const struct scrape_times *t); /* borrows t's bounds */
/* Return b - a: what was counted between two pages of one server. */
struct scrape_times scrape_since(const struct scrape_times *a, const struct scrape_times *b);

#endif
