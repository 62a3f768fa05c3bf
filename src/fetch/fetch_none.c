/* fetch_none.c - replacement of fetch_curl.c in builds without libcurl: every call fails. */
#include "fetch.h"

int fetch_open(struct fetch **out, const struct fetch_options *o, struct err *e)
{
    (void)o;
    *out = NULL;
    return err_set(
        e, ERR_UNSUPPORTED,
        "this quoth was built without libcurl and cannot connect to servers; use quoth's "
        "package, or run make (not make static) with libcurl4-openssl-dev (Debian's "
        "name)");
}

/* Do nothing. No client exists, because fetch_open always fails. */

void fetch_close(struct fetch *f)
{
    (void)f;
}

int fetch_start(struct fetch *f, const struct fetch_request *r, struct err *e)
{
    (void)r;
    return fetch_open(&f, NULL, e);
}

const char *fetch_header(const struct fetch_head *h, const char *name)
{
    (void)h, (void)name;
    return NULL;
}

void fetch_wait(struct fetch *f, int64_t until_us)
{
    (void)f, (void)until_us;
}

size_t fetch_n_in_flight(const struct fetch *f)
{
    (void)f;
    return 0;
}

size_t fetch_body_max(const struct fetch *f)
{
    (void)f;
    return 0;
}
