/* check.c - checks of a request after its head. The body of a rejected request is not read. A
 * rejection is an error in the route's format. */
#include "net_impl.h"

#include "base/hash.h"
#include "base/os.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char body_full[] = "the memory of requests is exhausted; try again later";

/* Reject a request during net_drain, or with a Content-Length above the limit. The length of a
 * chunked body is unknown before its end, so chunks_push applies the limit to chunked bodies. */
static bool refuse_limit(const struct conn *c, struct exchange *x)
{
    const struct net_options *o = &c->net->o;
    if (atomic_load(&c->net->draining)) {
        x->close_wanted = true;
        exchange_error(x, &(struct net_error){.status = 503, .retry_after = 1},
                       "the server is shutting down");
    } else if (x->head.n_body > (int64_t)o->body_max) {
        exchange_error(x, &(struct net_error){.status = 413},
                       "the body has %lld bytes, more than %zu", (long long)x->head.n_body,
                       o->body_max);
    } else {
        return false;
    }
    return true;
}

/* Return true if the holder of x may use the reserve of connections and exchanges. The holder's
 * exchanges must not exceed the share that it would have with one more holder of its weight. */
static bool below_share(const struct net *n, const struct exchange *x)
{
    double own = x->holder->weight, all = own;
    for (const struct holder *h = n->holders; h; h = h->next)
        if (h->n_exchange > 0) all += h->weight;
    return x->holder->n_exchange * all <= n->o.conn_max * own;
}

/* Reject x if no place is free. Quick routes and small holders have a reserve. */
static bool refuse_place(struct conn *c, struct exchange *x)
{
    struct net *n = c->net;
    bool full = (size_t)atomic_load(&n->n_exchange) > n->exchange_max;
    x->holder = holder_get(n, x->holder_id);
    if (x->holder) {
        x->holder->n_exchange++;
        x->holder->weight = exchange_holder_weight(x);
        if (x->key) holder_claim(c, x->holder);
    }
    bool placed =
        x->holder && (!(c->refuse || full) || x->route->how & ROUTE_QUICK || below_share(n, x));
    if (placed && body_fits(x, x->head.n_body)) return false;
    x->close_wanted = true;
    exchange_error(x, &(struct net_error){.status = 503, .retry_after = 1}, "%s",
                   placed      ? body_full
                   : c->refuse ? "too many connections; try again later"
                               : "too many requests at once; try again later");
    return true;
}

/* ---- pages of other origins ---- */

/* Reject a request of a web page that may not use the server, or add the headers of CORS. This
 * check precedes the check of keys, because a browser sends a preflight without a key. */
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
            "Origin: must be an allowed origin, got \"%.200s\"; --allowed-origins adds origins",
            origin);
        return true;
    }
    if (origin) {
        exchange_add_header(x, "Access-Control-Allow-Origin", origin);
        exchange_add_header(x, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
        exchange_add_header(x, "Vary", "Origin");
    }
    return false;
}

/* Answer a CORS preflight. A browser sends a preflight before a request that a form cannot make. */
static bool answer_preflight(struct exchange *x)
{
    const char *headers = head_header(&x->head, "access-control-request-headers");
    if (strcmp(x->head.method, "OPTIONS") != 0 ||
        !head_header(&x->head, "access-control-request-method"))
        return false;
    exchange_add_header(x, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    exchange_add_header(x, "Access-Control-Allow-Headers",
                        headers && head_is_name_list(headers) ? headers
                                                              : "Authorization, Content-Type");
    exchange_add_header(x, "Access-Control-Max-Age", "600");
    exchange_reply(x, 204, NULL, "", 0);
    return true;
}

/* ---- keys ---- */

/* Return the key in the header of OpenAI, or in the header of Anthropic if there is no key in the
 * header of OpenAI. NULL if the key is unknown. */
static struct net_key *key_of(const struct net *n, const struct exchange *x)
{
    const char *text = head_header(&x->head, "authorization");
    if (text && strncasecmp(text, "bearer ", 7) == 0)
        text += 7 + strspn(text + 7, " ");
    else
        text = head_header(&x->head, "x-api-key");
    return text ? net_keys_find(n->o.keys, text, strlen(text)) : NULL;
}

/* Reject a request without a valid key, above its key's rate, or without the right to an
 * administrator's route. An unknown path also requires a key, so that a client without a key cannot
 * find out which routes exist. */
static bool refuse_key(struct net *n, struct exchange *x)
{
    if (!n->o.keys || n->o.keys->n == 0 || (x->route && x->route->how & ROUTE_OPEN)) return false;
    x->key = key_of(n, x);
    /* the key replaces the address as holder, before any check that uses the holder */
    if (x->key) x->holder_id = hash_bytes(x->key->name, strlen(x->key->name), 0) | 1;
    if (!x->key) {
        exchange_error(
            x, &(struct net_error){.status = 401},
            head_header(&x->head, "authorization") || head_header(&x->head, "x-api-key")
                ? "the API key is unknown"
                : "an API key is required: Authorization: Bearer KEY, or x-api-key: KEY");
        return true;
    }
    int wait = key_wait_s(x->key, time_us());
    if (wait > 0)
        exchange_error(x, &(struct net_error){.status = 429, .retry_after = wait},
                       "key %s: must send at most %g requests a minute; try again in %d s",
                       x->key->name, x->key->per_minute, wait);
    else if (x->route && x->route->how & ROUTE_ADMIN && !x->key->admin)
        exchange_error(x, &(struct net_error){.status = 403, .code = "admin_key_needed"},
                       "key %s: must be an administrator's (role=admin in the key file)",
                       x->key->name);
    else
        return false;
    return true;
}

/* Return true if a proxy has forwarded the request. */
static bool is_forwarded(const struct exchange *x)
{
    static const char *const header[] = {"forwarded",        "via",
                                         "x-forwarded-for",  "x-forwarded-host",
                                         "x-real-ip",        "x-forwarded-proto",
                                         "cf-connecting-ip", "x-forwarded-server"};
    for (size_t i = 0; i < sizeof header / sizeof *header; i++)
        if (head_header(&x->head, header[i])) return true;
    return false;
}

/* Reject a request for a ROUTE_LOCAL if the server has no keys and the client may be on another
 * machine. The Host must be a name of loopback, because the domain of a web page may resolve to
 * loopback. */
static bool refuse_remote(const struct conn *c, struct exchange *x)
{
    const char *host = head_header(&x->head, "host");
    const bool has_keys = c->net->o.keys && c->net->o.keys->n > 0;
    if (has_keys || !x->route || !(x->route->how & ROUTE_LOCAL)) return false;
    const bool near =
        c->local || (address_is_loopback(&c->address) && (!host || name_is_loopback(host)));
    if (near && !is_forwarded(x)) return false;
    exchange_error(x, &(struct net_error){.status = 403, .code = "admin_key_needed"},
                   "%s %.100s needs an administrator's key (role=admin in --api-key-file), or a "
                   "client on this machine without a proxy",
                   x->head.method, x->route->path);
    return true;
}

/* ---- checks in order ---- */

/* Use the client's id if it is short and printable, otherwise a unique id. */
static void choose_id(struct exchange *x)
{
    static uint64_t state; /* used by the loop thread only */
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

/* Reject a request without a route: 404, or 405 if the path has routes of other methods. A NULL
 * `param` means that memory is exhausted in route_find. */
static bool refuse_path(struct exchange *x, const struct buf *allow)
{
    bool no_memory = allow->failed || (x->route && !x->param && strchr(x->route->path, '{'));
    if (no_memory) return exchange_no_memory(x), true;
    if (x->route) return false;
    if (allow->n == 0) {
        exchange_error(x, &(struct net_error){.status = 404}, "%.200s not found", x->head.path);
        return true;
    }
    exchange_add_header(x, "Allow", allow->data);
    exchange_error(x, &(struct net_error){.status = 405},
                   "%.200s: the method must be %s, got %.40s", x->head.path, allow->data,
                   x->head.method);
    return true;
}

/* Identify the client of trusted proxies, for limits and logs. */
static void name_client(const struct conn *c, struct exchange *x)
{
    struct address a = c->address;
    if (!client_forwarded(&a, &c->net->proxies, &x->head)) return;
    x->holder_id = address_id(&a);
    address_put(x->peer, sizeof x->peer, &a);
}

/* Reject compressed bodies, forms and plain texts. A page of another origin may send forms and
 * texts without a preflight. Routes for forms rely on the check of the origin (refuse_page). The
 * type application/x-www-form-urlencoded is accepted because `curl -d` sends it with any JSON. */
static bool refuse_type(struct exchange *x, bool has_body)
{
    const char *type = head_header(&x->head, "content-type"),
               *coding = head_header(&x->head, "content-encoding");
    if (has_body && coding && *coding && strcasecmp(coding, "identity") != 0) {
        exchange_error(x, &(struct net_error){.status = 415},
                       "Content-Encoding: not supported; expected none, got %.100s", coding);
        return true;
    }
    if (!has_body || !type) return false;
    const bool form = strncasecmp(type, "multipart/", 10) == 0;
    if (!form && strncasecmp(type, "text/", 5) != 0) return false;
    if (form && x->route->how & ROUTE_FORM) return false;
    exchange_error(x, &(struct net_error){.status = 415},
                   "Content-Type: expected application/json, got %.100s", type);
    return true;
}

/* Remove the last slash, which route_find ignores, so that handlers get the path of their route. */
static void trim_path(struct exchange *x)
{
    if (x->route && !strchr(x->route->path, '{')) x->head.path[strlen(x->route->path)] = '\0';
}

/* The id and the peer are set first, because each rejection is logged with its id and peer. Checks
 * without a holder follow. refuse_place is last, because it creates the holder and counts the
 * exchange. */
bool check_head(struct conn *c, struct exchange *x)
{
    struct net *n = c->net;
    struct buf allow = {0};
    bool has_body = x->head.n_body > 0 || x->head.chunked;
    choose_id(x);
    name_client(c, x);
    x->route =
        route_find(n->o.route, n->o.n_route, x->head.method, x->head.path, &x->param, &allow);
    trim_path(x);
    x->close_wanted = !x->head.keep_alive || has_body; /* a rejection does not read the body */
    bool refused = refuse_limit(c, x) || refuse_page(c, x) || answer_preflight(x) ||
                   refuse_key(n, x) || refuse_path(x, &allow) || refuse_remote(c, x) ||
                   refuse_type(x, has_body) || refuse_place(c, x);
    if (!refused) x->close_wanted = !x->head.keep_alive || c->refuse;
    buf_deinit(&allow);
    return !refused;
}
