/* fetch.c - functions that wait for the complete answer of a request (fetch.h). All other functions
 * of src/fetch deliver bytes as they arrive. */
#include "fetch.h"

#include <stdbool.h>

/* State of a request whose caller waits. */
struct response {
    struct buf *body; /* body received so far; borrowed */
    size_t n, n_max;
    int status;
    bool done, too_long;
    struct err error; /* reason of a failure; "" if the answer is complete */
};

/* Append a piece of the body. Compare n with the remaining room, because a sum could overflow. */
static bool on_body(void *ctx, int status, const char *data, size_t n)
{
    struct response *a = ctx;
    (void)status;
    a->too_long = n > a->n_max - a->n;
    if (a->too_long) return false;
    buf_add(a->body, data, n);
    a->n += n;
    return !a->body->failed;
}

/* Store the result. A transfer stopped by on_body also has an error, so fetch_perform checks
 * too_long first. */
static void on_done(void *ctx, const struct fetch_result *r)
{
    struct response *a = ctx;
    a->status = r->status;
    a->done = true;
    if (r->error) err_set(&a->error, ERR_IO, "%s", r->error);
}

/* Other requests of f continue during the wait. */
int fetch_perform(struct fetch *f, const struct fetch_request *r, struct buf *body, int *status,
                  struct err *e)
{
    struct fetch_request request = *r;
    struct response a = {.body = body, .n_max = fetch_body_max(f)};
    request.ctx = &a;
    request.on_body = on_body;
    request.on_done = on_done;
    int rc = fetch_start(f, &request, e);
    if (rc != 0) return rc;
    while (!a.done) fetch_wait(f, INT64_MAX);
    if (status) *status = a.status;
    if (a.too_long)
        return err_set(e, ERR_LIMIT, "%s: the answer has more than %zu bytes", r->url, a.n_max);
    if (body->failed) return err_memory(e, r->url, a.n);
    return a.error.text[0] ? err_set(e, ERR_IO, "%s: %s", r->url, a.error.text) : 0;
}

/* Open a client for one request. Several requests should share a client, which reuses
 * connections. */
int fetch_get(const char *url, const char *const *header, size_t n_header,
              const struct fetch_options *o, struct buf *body, int *status, struct err *e)
{
    struct fetch *f;
    int rc = fetch_open(&f, o, e);
    if (rc != 0) return rc;
    struct fetch_request r = {.url = url, .header = header, .n_header = n_header};
    rc = fetch_perform(f, &r, body, status, e);
    fetch_close(f);
    return rc;
}
