/* server.c - open and close the server. Steps shared by all endpoints: read a body, reject, answer.
 *
 *    exchange --server_body--> JSON object with a known `model`
 *             --put(api, body)--> text --server_reply--> 200
 *                             '-> error --server_fail--> status of the error, in the path's format
 *
 * server_answer is this path for handlers without the engine. post_call.c has the path of dialects.
 * The routes are static (routes.def), so a new endpoint is one line.
 *
 * A request for a model that is not loaded leaves its handler thread and returns later (wait.c). */
#include "server_impl.h"

#include "batches.h"
#include "hub_jobs.h"
#include "responses_background.h"

#include "base/hash.h"
#include "base/os.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUTE(method, path, handler, how)
#define ROUTE_AS(id, method, path, handler, how) extern const struct error_form id##_errors;
#include "routes.def"
#undef ROUTE
static const struct net_route routes[] = {
#define ROUTE(m, p, handler, flags) {.method = m, .path = p, .handle = handler, .how = flags},
#define ROUTE_AS(id, m, p, handler, flags)                                                         \
    {.method = m, .path = p, .handle = handler, .how = flags, .errors = &id##_errors.net},
#define DIALECT(p, id) {.method = "POST", .path = p, .handle = post_call},
#include "routes.def"
#undef ROUTE
};

enum { N_ROUTE = sizeof routes / sizeof routes[0] };
extern const struct error_form openai_errors;
#define ERRORS(id) extern const struct error_form id##_errors;
#include "errors.def"
static const struct net_errors *const selected[] = {
#define ERRORS(id) &id##_errors.net,
#include "errors.def"
    NULL};

/* Return the form of failures of a path. */
static const struct error_form *errors_of(const struct server *s, const char *path)
{
    const struct dialect *d = dialect_find(path);
    return d ? d->errors : &s->errors;
}

/* Check that each name selects either the model or one adapter. */
static int check_names(const struct server *s, struct err *e)
{
    if (!s->only) return 0;
    const struct session *session = s->only->session;
    const struct served_spec *spec = served_spec(models_at(s->models, 0));
    if (s->o.any_name && session->additions.n_set > 1)
        return err_field(e, ERR_ARG, "served-model-name",
                         ": must not be \"*\" if adapters have names, got %d adapters",
                         session->additions.n_set - 1);
    for (int i = 0; i < spec->n_name; i++)
        if (session_adapter(session, spec->name[i]))
            return err_field(e, ERR_ARG, "served-model-name",
                             ": must not be the name of an adapter, got \"%.100s\"", spec->name[i]);
    return 0;
}

/* The routes are copied, because each route gets the error format of its dialect. server_close
 * accepts a half-open server. */
int server_open(struct server **out, const struct server_options *o, struct err *e)
{
    struct server *s = calloc(1, sizeof *s);
    *out = s;
    if (!s) return err_memory(e, "a server", sizeof *s);
    s->o = *o;
    s->models = o->models;
    s->only = models_only(o->models);
    s->created = time_wall_us() / 1000000;
    s->errors = openai_errors;
    s->errors.net.others = selected;
    s->route = malloc(sizeof routes);
    for (int i = 0; s->route && i < N_ROUTE; i++) {
        s->route[i] = routes[i];
        if (!routes[i].errors) s->route[i].errors = &errors_of(s, routes[i].path)->net;
    }
    s->o.net.route = s->route;
    s->o.net.n_route = N_ROUTE;
    s->o.net.errors = &s->errors.net;
    s->o.net.ctx = s;
    int rc = s->route ? check_names(s, e) : err_memory(e, "routes", sizeof routes);
    if (rc == 0) rc = orca_open(s, e);
    if (rc == 0 && o->store) rc = jobs_open(&s->jobs, o->store, e);
    if (rc == 0 && o->store) rc = batches_open(&s->batches, s, e);
    if (rc == 0 && o->hub) rc = hub_jobs_open(&s->hub, o->models, e);
    if (rc == 0) rc = net_open(&s->net, &s->o.net, e);
    if (rc != 0) server_close(s), *out = NULL;
    return rc;
}

const struct net *server_net(const struct server *s)
{
    return s->net;
}

void server_drain(struct server *s, int wait_ms)
{
    /* a load may take minutes, so requests that wait for a load end now */
    models_stop(s->models);
    /* batches end before requests of clients, because batches continue after the next start */
    batches_stop(s->batches);
    jobs_stop(s->jobs);
    hub_jobs_stop(s->hub);
    net_drain(s->net, wait_ms);
}

/* net_close is first, because it waits for all handlers, which use the server's other parts. */
void server_close(struct server *s)
{
    if (!s) return;
    batches_stop(s->batches);
    jobs_stop(s->jobs);
    hub_jobs_stop(s->hub);
    net_close(s->net);
    hub_jobs_close(s->hub);
    batches_close(s->batches);
    jobs_close(s->jobs);
    orca_close(s);
    free(s->route);
    free(s);
}

/* ---- for handlers ---- */

/* Every net_errors of this server is the first member of an error_form. */
const struct error_form *server_form(const struct exchange *x)
{
    return (const struct error_form *)exchange_errors(x);
}

/* Temporary errors have the header Retry-After, in seconds. */
void server_fail(struct exchange *x, int rc, const struct err *e)
{
    const struct error_form *form = server_form(x);
    struct buf b = {0};
    if (exchange_begun(x)) {
        early_fail(x, rc, e);
        return;
    }
    form->put(&b, rc, e, exchange_id(x));
    if (rc == ERR_BUSY || api_status(rc) == 503) exchange_add_header(x, "Retry-After", "1");
    if (b.failed)
        exchange_no_memory(x);
    else
        exchange_reply(x, api_status(rc), form->net.type, b.data, b.n);
    buf_deinit(&b);
}

/* The text is freed, also after an error. A failed buffer becomes an error, never a truncated
 * answer. */
void server_reply(struct exchange *x, struct buf *json)
{
    struct err e;
    if (json->failed)
        server_fail(x, err_memory(&e, "an answer", json->n), &e);
    else
        exchange_reply(x, 200, "application/json", json->data ? json->data : "", json->n);
    buf_deinit(json);
}

void put_prompt(struct buf *b, struct buf *text)
{
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    out_text(&o, "prompt", text->data, text->n);
    out_end(&o);
    b->failed |= text->failed;
    buf_deinit(text);
}

/* The beginning of an answer is dropped if `put` returns an error. */
void server_answer(const struct server *s, struct exchange *x, server_put_fn *put)
{
    const struct api *api;
    struct json *body = server_body(s, x, &api);
    struct err e = {0};
    struct buf b = {0};
    if (!body) return;
    int rc = put(api, body, &b, &e);
    json_drop(body);
    served_drop(api);
    if (rc == 0)
        server_reply(x, &b);
    else
        server_fail(x, rc, &e);
    buf_deinit(&b);
}

/* ---- the models ---- */

/* Append the names of the models and adapters. */
static void add_names(struct buf *b, const struct server *s)
{
    struct listed l;
    for (int i = 0; server_listed(s, i, false, &l); i++)
        buf_addf(b, "%s\"%s\"", i ? ", " : "", l.name);
}

/* Return the model of the hub with a longer or shorter form of its name; NULL if none. */
static struct served *find_hub_name(const struct server *s, const char *name)
{
    char text[HUB_NAME_BYTES];
    struct hub_name n;
    if (hub_name_typed(&n, name, NULL) != 0) return NULL;
    hub_served_name(text, &n);
    return models_find(s->models, text);
}

int server_model(const struct server *s, const char *name, struct served **out, struct err *e)
{
    struct served *m = models_find(s->models, name);
    if (!m && name && s->hub) m = find_hub_name(s, name);
    /* --served-model-name "*": every name selects the only model */
    const bool any = s->o.any_name && models_n(s->models) == 1;
    if (!m && (any || (s->only && session_adapter(s->only->session, name))))
        m = models_at(s->models, 0);
    if (out) *out = m;
    if (m) return 0;
    struct buf all = {0};
    add_names(&all, s);
    /* a server of the hub may have many names, so the list in an error is truncated */
    const int n = all.n < 200 ? (int)all.n : 200;
    const char *text = all.n ? all.data : "";
    int rc = name ? err_field(e, ERR_MISSING, "model", ": \"%.100s\" not found; available: %.*s",
                              name, n, text)
                  : err_field(e, ERR_ARG, "model", ": must be given; available: %.*s", n, text);
    buf_deinit(&all);
    return rc;
}

const struct api *server_take(const struct server *s, struct exchange *x, const char *name)
{
    struct err e = {0};
    const struct api *a;
    int rc = wait_take(s, x, name, NULL, &a, &e);
    if (rc != 0) server_fail(x, rc, &e);
    return a;
}

const struct api *server_query_model(const struct server *s, struct exchange *x)
{
    struct buf name = {0};
    const struct api *a = NULL;
    struct err e = {0};
    const int found = exchange_query(x, "model", &name);
    if (name.failed)
        server_fail(x, err_memory(&e, "model", name.n), &e);
    else
        a = server_take(s, x, found == 1 && name.data ? name.data : NULL);
    buf_deinit(&name);
    return a;
}

struct server_load server_load(const struct server *s)
{
    struct server_load l = {0};
    struct stats_view v;
    for (int i = 0; i < models_n(s->models); i++) {
        const struct api *a = served_peek(models_at(s->models, i));
        if (!a) continue;
        stats_read(engine_stats(a->session->engine), &v);
        l.n_running += v.value[STAT_running];
        l.n_waiting += v.value[STAT_waiting];
        l.n_refused += v.value[STAT_refused_full];
        l.n_seq += engine_seq_max(a->session->engine);
        l.kv_usage = fmax(l.kv_usage, (double)v.value[STAT_kv_usage] * 1e-6);
        served_unpeek(a);
    }
    return l;
}

uint64_t server_owner(const struct exchange *x)
{
    const struct net_key *key = exchange_key(x);
    return key ? hash_bytes(key->secret, strlen(key->secret), 2) : 0;
}

int server_query_int(const struct exchange *x, const char *name, int64_t lo, int64_t hi,
                     int64_t *out, struct err *e)
{
    struct buf text = {0};
    char *end = NULL;
    int rc = 0;
    const int found = exchange_query(x, name, &text);
    const long long n = found == 1 && text.data ? strtoll(text.data, &end, 10) : 0;
    if (text.failed)
        rc = err_memory(e, name, text.n);
    else if (found == 1 && text.data && *end == 0 && n >= lo && n <= hi)
        *out = n;
    else if (found != 0)
        rc = err_field(e, ERR_ARG, name, ": must be in [%lld, %lld], got \"%.40s\"", (long long)lo,
                       (long long)hi, text.data ? text.data : "");
    buf_deinit(&text);
    return rc;
}

/* Set *out to the parsed body, owned by the caller; NULL after an error. Duplicate names are
 * rejected, because a proxy may check another occurrence. */
static int read_json(const struct server *s, const struct exchange *x, struct json **out,
                     struct err *e)
{
    /* a parsed empty object takes 250 bytes, so a body of 32 MiB could take gigabytes */
    static const struct json_limits limits = {
        .depth_max = 200, .node_max = 1 << 20, .unique = true};
    size_t n;
    const char *text = exchange_body(x, &n);
    int64_t begin_us = time_us();
    *out = NULL;
    int rc = json_parse(out, text, n, &limits, e);
    /* with several models, the engine that counts the time is known only after `model` was read
     * (server_read) */
    if (s->only) count_time(s->only, TIMES_parse, begin_us);
    if (rc == ERR_FORMAT || rc == ERR_LIMIT) err_prefix(e, rc = ERR_FORMAT, "the body is not JSON");
    if (rc == 0 && json_kind(*out) != JK_OBJECT)
        rc = err_set(e, ERR_ARG, "the body: expected an object, got %s",
                     json_kind_name(json_kind(*out)));
    if (rc == 0) return 0;
    json_drop(*out);
    *out = NULL;
    return rc;
}

struct json *server_json(const struct server *s, struct exchange *x)
{
    struct err e = {0};
    struct json *body;
    int rc = read_json(s, x, &body, &e);
    if (rc != 0) server_fail(x, rc, &e);
    return body;
}

int server_read(const struct server *s, struct exchange *x, struct json **out,
                const struct api **api, struct err *e)
{
    const int64_t begin_us = time_us();
    int rc = read_json(s, x, out, e);
    if (rc != 0) return rc;
    const struct json *named = body_field(*out, "model");
    const char *name = json_text(named, NULL);
    if (named && !name)
        rc = body_wrong("model", "a string without NUL", named, e);
    else if (!api && name)
        rc = server_model(s, name, NULL, e);
    if (rc == 0 && api) {
        rc = wait_take(s, x, name, *out, api, e);
        if (*api && !s->only) count_time(*api, TIMES_parse, begin_us);
    }
    if (rc == 0 && (!api || *api)) return 0;
    json_drop(*out);
    *out = NULL;
    return rc;
}

struct json *server_body(const struct server *s, struct exchange *x, const struct api **api)
{
    struct err e = {0};
    struct json *body;
    int rc = server_read(s, x, &body, api, &e);
    if (rc != 0) server_fail(x, rc, &e);
    return body;
}
