/* traffic_page.c - a measurement as one HTML file: the table, what clients saw, and what the engine did over time.
 * Drawn as SVG in the file itself; nothing is fetched. */
#include "plot.h"
#include "traffic.h"

int traffic_page(const char *path, const char *title, const char *table,
                 const struct traffic_figures *f, const struct traffic_result *r, struct err *e)
{
    struct buf b = {0};
    page_begin(&b, title, table);
    seen_plots(&b, r->seen, r->n, &f->seen);
    load_plots(&b, r->sample.v, r->sample.n);
    buf_add_text(&b, "</html>\n");
    return page_end(&b, path, e);
}
