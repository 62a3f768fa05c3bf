/* remote.c - requests to a hub: token, redirects and retries.
 *
 * The token is sent only to URLs with the scheme, host and port of the hub. A redirect from https
 * to http is rejected. Temporary failures (no connection, 408, 429, 5xx, an interruption) are
 * retried after a growing time, or after the time that the server requires. */
#include "hub_impl.h"

#include "base/cancel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    N_REDIRECT_MAX = 5,
    N_FAIL_MAX = 5,      /* failures without progress before the last one */
    FIRST_WAIT_MS = 500, /* doubled by each further failure */
    WAIT_MAX_MS = 30000,
    RETRY_AFTER_MAX_S = 300,
    IDLE_S = 30,         /* time without data after which a connection counts as interrupted */
    BODY_MAX = 32 << 20, /* lists and manifests */
    PIECE_BYTES = 512 << 10,
    POLL_US = 100000 /* time between two checks for a cancellation */
};

int remote_open(struct remote *c, const char *origin, const struct hub_name *n,
                const struct hub_pull_options *o, struct err *e)
{
    *c = (struct remote){.o = o};
    hub_name_text(c->name, n);
    int rc = path_put(c->origin, e, "%s", origin);
    if (rc == 0)
        rc = fetch_open(&c->fetch,
                        &(struct fetch_options){
                            .idle_s = IDLE_S, .bytes_max = BODY_MAX, .piece_bytes = PIECE_BYTES},
                        e);
    return rc;
}

void remote_close(struct remote *c)
{
    fetch_close(c->fetch);
    c->fetch = NULL;
    buf_deinit(&c->token);
}

/* Return the bytes of "scheme://host:port" at the beginning of a URL. */
static size_t n_origin(const char *url)
{
    const char *host = strstr(url, "://");
    return host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : 0;
}

bool remote_owns(const struct remote *c, const char *url)
{
    size_t n = n_origin(c->origin);
    return n > 0 && n_origin(url) == n && strncasecmp(url, c->origin, n) == 0;
}

void url_put(struct buf *b, const char *text, bool slash)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
    for (; *text; text++) {
        if (strchr(plain, *text) || (slash && *text == '/'))
            buf_add_char(b, *text);
        else
            buf_addf(b, "%%%02X", (unsigned char)*text);
    }
}

int remote_status_error(const struct remote *c, int status, const char *url, struct err *e)
{
    if (status == 401 || status == 403)
        return err_set(e, ERR_ARG, "%s: the server denies access (status %d)%s", c->name, status,
                       strncmp(c->name, "hf:", 3) ? ""
                       : c->token.n ? "; accept the terms of the model on its page, or use the "
                                      "HF_TOKEN of an account with access"
                                    : "; HF_TOKEN must have the token of an account with access");
    if (status == 404)
        return err_set(e, ERR_MISSING, "%s: not found on %.200s", c->name, c->origin);
    if (status == 408 || status == 425 || status == 429 || status >= 500) return 0;
    /* the query of a URL may have a signature */
    return err_set(e, ERR_IO, "%s: %.*s returned status %d", c->name,
                   (int)strcspn(url, "?") < 200 ? (int)strcspn(url, "?") : 200, url, status);
}

int remote_redirect(const struct remote *c, char url[static HUB_PATH_BYTES], const char *to,
                    int *n_redirect, struct err *e)
{
    if (!to || !*to)
        return err_set(e, ERR_FORMAT, "%s: a redirect without a valid Location", c->name);
    if (++*n_redirect > N_REDIRECT_MAX)
        return err_set(e, ERR_FORMAT, "%s: the answer has more than %d redirects", c->name,
                       N_REDIRECT_MAX);
    if (strncasecmp(url, "https:", 6) == 0 && strncasecmp(to, "https:", 6) != 0)
        return err_set(e, ERR_FORMAT, "%s: a redirect from https to %.100s is not allowed", c->name,
                       to);
    return path_put(url, e, "%s", to);
}

int patience_fail(struct patience *p, const struct remote *c, const struct fetch_result *r,
                  const char *why, bool progress, struct err *e)
{
    char text[HUB_NAME_BYTES + 400];
    snprintf(p->why, sizeof p->why, "%s", why);
    if (r->retry_after_s > RETRY_AFTER_MAX_S)
        return err_set(e, ERR_IO, "%s: the server requires a wait of %lld s (status %d)", c->name,
                       (long long)r->retry_after_s, r->status);
    if (progress) p->n_fail = 0;
    /* failures of parallel connections count as one failure */
    if (time_us() < p->until_us && r->retry_after_s == 0) return 0;
    if (p->n_fail++ >= N_FAIL_MAX) return err_set(e, ERR_IO, "%s: %s", c->name, p->why);
    int64_t ms = (int64_t)FIRST_WAIT_MS << (p->n_fail - 1);
    if (ms > WAIT_MAX_MS) ms = WAIT_MAX_MS;
    if (r->retry_after_s) ms = 1000 * r->retry_after_s;
    if (progress && !r->retry_after_s) ms = 0;
    const int64_t until_us = time_us() + 1000 * ms;
    if (p->until_us < until_us) p->until_us = until_us;
    snprintf(text, sizeof text, "%s: %s; next try in %lld s", c->name, p->why,
             (long long)(ms + 999) / 1000);
    if (ms >= FIRST_WAIT_MS && c->o && c->o->note) c->o->note(c->o->ctx, text);
    return 0;
}

/* ---- a request whose answer is short ---- */

/* Process events until a time, at most POLL_US. ERR_BUSY if the thread's work is cancelled. */
static int wait_until(struct remote *c, int64_t until_us, struct err *e)
{
    const int64_t poll_us = time_us() + POLL_US;
    fetch_wait(c->fetch, until_us < poll_us ? until_us : poll_us);
    return cancelled() ? err_cancelled(e) : 0;
}

/* What the callbacks of one GET share with remote_get, which waits for `done`. */
struct get {
    struct buf *body; /* borrowed */
    char *next;       /* see remote_get; NULL: not needed */
    char redirect[HUB_PATH_BYTES];
    struct fetch_result result;
    char why[300];
    bool done, too_long;
};

static bool get_head(void *ctx, int status, const struct fetch_head *h)
{
    struct get *g = ctx;
    const char *link = status == 200 ? fetch_header(h, "link") : NULL;
    if (g->next && (!link || !link_next(g->next, HUB_PATH_BYTES, link))) *g->next = 0;
    return true;
}

static bool get_body(void *ctx, int status, const char *data, size_t n)
{
    struct get *g = ctx;
    if (status != 200) return true;
    g->too_long = g->body->n + n > BODY_MAX;
    if (g->too_long) return false;
    buf_add(g->body, data, n);
    return !g->body->failed;
}

static void get_done(void *ctx, const struct fetch_result *r)
{
    struct get *g = ctx;
    g->result = *r;
    snprintf(g->why, sizeof g->why, "%s", r->error ? r->error : "");
    int n = snprintf(g->redirect, sizeof g->redirect, "%s", r->redirect ? r->redirect : "");
    if ((size_t)n >= sizeof g->redirect) *g->redirect = 0;
    g->done = true;
}

/* Send a request without retries. The token goes to the hub's own servers only, not to a redirected
 * one. */
static int get_once(struct remote *c, struct get *g, const char *url, const char *accept,
                    struct err *e)
{
    const char *header[2];
    char text[200];
    size_t n = 0;
    if (c->token.n && remote_owns(c, url)) header[n++] = c->token.data;
    if (accept && snprintf(text, sizeof text, "Accept: %s", accept) > 0) header[n++] = text;
    struct fetch_request r = {.url = url,
                              .header = header,
                              .n_header = n,
                              .ctx = g,
                              .on_head = get_head,
                              .on_body = get_body,
                              .on_done = get_done};
    g->done = g->too_long = false;
    g->body->n = 0;
    int rc = fetch_start(c->fetch, &r, e);
    while (rc == 0 && !g->done) rc = wait_until(c, time_us() + POLL_US, e);
    if (rc == 0 && g->body->failed) rc = err_memory(e, url, g->body->n);
    if (rc == 0 && g->too_long)
        rc = err_set(e, ERR_LIMIT, "%s: the answer has more than %d bytes", c->name, BODY_MAX);
    return rc;
}

int remote_get(struct remote *c, const char *url, const char *accept, struct buf *body,
               char next[HUB_PATH_BYTES], struct err *e)
{
    struct get g = {.body = body, .next = next};
    struct patience p = {0};
    char at[HUB_PATH_BYTES], why[300];
    int n_redirect = 0, rc = path_put(at, e, "%s", url);
    while (rc == 0) {
        rc = get_once(c, &g, at, accept, e);
        const int status = g.result.status;
        if (rc != 0) break;
        if (status == 200 && !*g.why) return 0;
        if (status >= 300 && status < 400) {
            rc = remote_redirect(c, at, g.redirect, &n_redirect, e);
            continue;
        }
        if (!*g.why) rc = remote_status_error(c, status, at, e);
        snprintf(why, sizeof why, "%s", g.why);
        if (!*g.why) snprintf(why, sizeof why, "the server returned status %d", status);
        if (rc == 0) rc = patience_fail(&p, c, &g.result, why, false, e);
        while (rc == 0 && time_us() < p.until_us) rc = wait_until(c, p.until_us, e);
    }
    return rc;
}
