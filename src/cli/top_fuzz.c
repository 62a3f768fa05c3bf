/* top_fuzz.c - goal: fetch/scrape.c finds every sample of mutated pages of metrics, histograms are
 * consistent, and top draws the page. */
#include "top.h"

#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void draw(const struct top_sample *s)
{
    static struct top t;
    struct buf out = {0};
    struct top_look look = {.size = {.n_column = 80, .n_row = 24}, .utf8 = true, .colour = true};
    memset(&t, 0, sizeof t);
    t.url = "http://127.0.0.1:8000";
    struct top_sample later = *s;
    later.time_us += 1000000;
    top_add(&t, s);
    top_add(&t, &later);
    top_page(&t, &look, &out);
    top_json(&t, &out);
    assert(!out.failed);
    buf_deinit(&out);
}

FUZZ(scrape)
{
    struct scrape p = {0};
    struct err e;
    char *page = malloc(n + 1); /* on the heap, so that a sanitizer detects reads past its end */
    assert(page);
    memcpy(page, data, n);
    bool ok = scrape_read(&p, page, n);
    assert(ok);
    for (size_t i = 0; i < p.row.n; i++) {
        char name[100];
        struct scrape_times t;
        if (p.row.v[i].n_name >= sizeof name || memchr(p.row.v[i].name, 0, p.row.v[i].n_name))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)p.row.v[i].n_name, p.row.v[i].name);
        (void)scrape_sum(&p, name, NULL);
        (void)scrape_times(&p, name, &t);
        struct histogram h = scrape_histogram(&t);
        double median = histogram_quantile(&h, 0.5);
        assert(h.n == 0 || !isnan(median));
        fuzz_accepted();
        if (i > 50) break;
    }
    scrape_deinit(&p);
    struct top_sample s = {.time_us = 5};
    if (top_sample_read(&s, page, n, &e) == 0) draw(&s);
    free(page);
}
