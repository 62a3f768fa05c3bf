/* scrape.h - what a server's /metrics says, in Prometheus' text format, for those who ask a few of its
 * series. Any server's page will do; what is not there is not a number. */
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
    VEC(struct scrape_row) row; /* owned; by name, those of a name in the page's order */
};

/* Find the samples of a page of n bytes (borrowed as long as *s is used); lines that are none are passed over. false:
 * no memory. */
bool scrape_read(struct scrape *s, const char *page, size_t n);
void scrape_deinit(struct scrape *s);

/* The sum of all series of that name whose labels contain `label` (like reason="stop"; NULL: all); NAN: there is none. */
double scrape_sum(const struct scrape *s, const char *name, const char *label);
/* A label's value in the first series of that name, as it is written; false: there is none. */
bool scrape_label(const struct scrape *s, const char *name, const char *key, char *out,
                  size_t n_out);

/* A histogram, all series of its name added up; in units of 1e-6 of the page's. */
struct scrape_times {
    int64_t bound[HISTOGRAM_BOUNDS_MAX];
    uint64_t count[HISTOGRAM_BOUNDS_MAX + 1]; /* between bounds, as struct histogram has them */
    int n_bound;
    int64_t sum;
};
/* false: there is none, or it has no bounds (then there is no value in it either). Bounds beyond HISTOGRAM_BOUNDS_MAX are left out. */
bool scrape_times(const struct scrape *s, const char *name, struct scrape_times *t);
struct histogram scrape_histogram(const struct scrape_times *t); /* borrows t's bounds */
/* b since a: what came between two pages of one server. */
struct scrape_times scrape_since(const struct scrape_times *a, const struct scrape_times *b);

#endif
