/* check.c - may this request be answered? Asked when its head is there and before its body is read,
 * so that who may not ask costs nothing. Each refusal is OpenAI's error object. */
#include "net_impl.h"

#include "base/os.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool refuse_limit(const struct conn *c, struct exchange *x)
{
    const struct net_options *o = &c->net->o;
    if (c->refuse || atomic_load(&c->net->draining)) {
        x->close = true;
        exchange_error(x, &(struct net_error){.status = 503, .retry_after = 1}, "%s",
                       c->refuse ? "too many connections; try again later"
                                 : "the server is shutting down");
    } else if (x->head.n_body > (int64_t)o->n_body_max) {
        exchange_error(x, &(struct net_error){.status = 413},
                       "a body of %lld bytes is larger than the limit of %zu",
                       (long long)x->head.n_body, o->n_body_max);
    } else if (x->head.n_body > 0 &&
               (size_t)x->head.n_body + atomic_load(&c->net->n_body_held) > o->n_body_total_max) {
        exchange_error(x, &(struct net_error){.status = 503, .retry_after = 1},
                       "the server holds as much of requests as it may; try again later");
    } else {
        return false;
    }
    return true;
}

/* ---- pages of other origins ---- */

static bool refuse_page(const struct conn *c, struct exchange *x)
{
    const char *host = head_header(&x->head, "host"), *origin = head_header(&x->head, "origin");
    if (!guard_host(&c->net->guard, host)) {
        exchange_error(x, &(struct net_error){.status = 403, .code = "host_not_allowed"},
                       "Host \"%.200s\" is not a name of this server, which listens on loopback; "
                       "--allowed-hosts adds names",
                       host);
        return true;
    }
    if (!guard_origin(&c->net->guard, origin, host)) {
        exchange_error(
            x, &(struct net_error){.status = 403, .code = "origin_not_allowed"},
            "pages of \"%.200s\" may not use this server; --allowed-origins adds origins", origin);
        return true;
    }
    if (origin) {
        exchange_add_header(x, "Access-Control-Allow-Origin", origin);
        exchange_add_header(x, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
        exchange_add_header(x, "Vary", "Origin");
    }
    return false;
}

/* A browser asks before it sends what a form could not. */
static bool answer_preflight(struct exchange *x)
{
    const char *headers = head_header(&x->head, "access-control-request-headers");
    if (strcmp(x->head.method, "OPTIONS") != 0 ||
        !head_header(&x->head, "access-control-request-method"))
        return false;
    exchange_add_header(x, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    exchange_add_header(x, "Access-Control-Allow-Headers",
                        headers ? headers : "Authorization, Content-Type");
    exchange_add_header(x, "Access-Control-Max-Age", "600");
    exchange_reply(x, 204, NULL, "", 0);
    return true;
}

/* ---- keys ---- */

static struct net_key *key_of(const struct net *n, const struct exchange *x)
{
    const char *text = head_header(&x->head, "authorization");
    if (!text || strncasecmp(text, "bearer ", 7) != 0) return NULL;
    text += 7 + strspn(text + 7, " ");
    return net_keys_find(n->o.keys, text, strlen(text));
}

static bool refuse_key(struct net *n, struct exchange *x)
{
    if (!n->o.keys || n->o.keys->n == 0 || (x->route && x->route->how & ROUTE_OPEN)) return false;
    x->key = key_of(n, x);
    if (!x->key) {
        exchange_error(x, &(struct net_error){.status = 401},
                       head_header(&x->head, "authorization")
                           ? "this API key is not known here"
                           : "an API key is needed: Authorization: Bearer KEY");
        return true;
    }
    int wait = key_wait_s(x->key, time_us());
    if (wait > 0)
        exchange_error(x, &(struct net_error){.status = 429, .retry_after = wait},
                       "key %s may ask %g times a minute; try again in %d s", x->key->name,
                       x->key->per_minute, wait);
    else if (x->route && x->route->how & ROUTE_ADMIN && !x->key->admin)
        exchange_error(x, &(struct net_error){.status = 403, .code = "admin_key_needed"},
                       "key %s is no administrator's; role=admin in the key file makes it one",
                       x->key->name);
    else
        return false;
    return true;
}

/* ---- all of it ---- */

/* A client's own id if it is short and printable, else one that will not come again. */
static void choose_id(struct exchange *x)
{
    static uint64_t state; /* loop thread */
    const char *id = head_header(&x->head, "x-request-id");
    size_t n = id ? strlen(id) : 0, n_good = 0;
    while (n_good < n && (unsigned char)id[n_good] > ' ' && (unsigned char)id[n_good] < 127)
        n_good++;
    if (!state) state = (uint64_t)time_wall_us() ^ (uint64_t)(uintptr_t)x << 20;
    if (n > 0 && n <= 128 && n_good == n)
        memcpy(x->id, id, n + 1);
    else
        snprintf(x->id, sizeof x->id, "req-%016llx%016llx", (unsigned long long)rng_next(&state),
                 (unsigned long long)rng_next(&state));
}

static bool refuse_path(struct exchange *x, const struct buf *allow)
{
    if (x->route) return false;
    if (allow->n == 0) {
        exchange_error(x, &(struct net_error){.status = 404}, "there is no %.200s here",
                       x->head.path);
        return true;
    }
    exchange_add_header(x, "Allow", allow->data);
    exchange_error(x, &(struct net_error){.status = 405}, "%.200s does not take %.40s, but %s",
                   x->head.path, x->head.method, allow->data);
    return true;
}

bool check_head(struct conn *c, struct exchange *x)
{
    struct net *n = c->net;
    struct buf allow = {0};
    bool has_body = x->head.n_body > 0 || x->head.chunked;
    choose_id(x);
    x->route =
        route_find(n->o.route, n->o.n_route, x->head.method, x->head.path, &x->param, &allow);
    x->close = !x->head.keep_alive || has_body; /* a refusal leaves the body unread */
    bool refused = refuse_limit(c, x) || refuse_page(c, x) || answer_preflight(x) ||
                   refuse_key(n, x) || refuse_path(x, &allow);
    if (!refused) x->close = !x->head.keep_alive;
    buf_deinit(&allow);
    return !refused;
}
