/* scrape.h - parser of a server's /metrics in the text format of Prometheus, for callers that need
 * a few series. The parser accepts any server's page. An absent value is NAN. Any thread. A struct
 * scrape belongs to one thread at a time. */
#ifndef QUOTH_FETCH_SCRAPE_H
#define QUOTH_FETCH_SCRAPE_H

#include "base/buf.h"
#include "base/histogram.h"

struct scrape_row {
    const char *name, *labels; /* borrowed from the page: name, and labels without their braces */
    size_t n_name, n_labels;
    double value;
};

struct scrape {
    /* samples sorted by name, owned. Rows with equal names have the page's order. */
    VEC(struct scrape_row) row;
};

/* Parse the samples of a page of n bytes. Other lines are skipped. The page is borrowed as long as
 * *s is used. Return false if memory is exhausted. */
bool scrape_read(struct scrape *s, const char *page, size_t n);
/* Free the rows of s. A zeroed struct is allowed. */
void scrape_deinit(struct scrape *s);

/* Return the sum of all series of that name whose labels contain `label`, such as reason="stop"
 * (NULL: all series). NAN if no series matches. */
double scrape_sum(const struct scrape *s, const char *name, const char *label);
/* Copy a label's value from the first series of that name, unchanged. Return false if no series has
 * the label. */
bool scrape_label(const struct scrape *s, const char *name, const char *key, char *out,
                  size_t n_out);

/* A histogram, summed over all series of its name. The unit of the histogram is 1e-6 of the page's
 * unit. */
struct scrape_times {
    int64_t bound[HISTOGRAM_BOUNDS_MAX];
    /* counts between the bounds, as in struct histogram */
    uint64_t count[HISTOGRAM_BOUNDS_MAX + 1];
    int n_bound;
    int64_t sum;
};
/* Get a histogram. Return false if the page does not contain the histogram, or if the histogram has
 * no bounds. Bounds beyond HISTOGRAM_BOUNDS_MAX are omitted. */
bool scrape_times(const struct scrape *s, const char *name, struct scrape_times *t);
/* Return a histogram that borrows the bounds of t. */
struct histogram scrape_histogram(const struct scrape_times *t);
/* Return b - a: the counts between two pages of one server. */
struct scrape_times scrape_since(const struct scrape_times *a, const struct scrape_times *b);

#endif
