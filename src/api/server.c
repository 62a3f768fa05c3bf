/* server.c - open and close the server. Steps shared by all endpoints: read a body, reject, answer.
 *
 *    exchange --server_body--> JSON object with a known `model`
 *             --put(api, body)--> text --server_reply--> 200
 *                             '-> error --server_fail--> status of the error, in the path's format
 *
 * server_answer is this path for handlers without the engine. post_call.c has that of dialects. The
 * routes are static (routes.def), so a new endpoint is one line. */
#include "server_impl.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

static const struct net_route routes[] = {
#define ROUTE(m, p, handler, flags) {.method = m, .path = p, .handle = handler, .how = flags},
#define DIALECT(p, id)              {.method = "POST", .path = p, .handle = post_call},
#include "routes.def"
#undef ROUTE
};

enum { N_ROUTE = sizeof routes / sizeof routes[0] };
extern const struct error_form openai_errors, anthropic_errors;

/* Return the form of failures of a path. */
static const struct error_form *errors_of(const struct server *s, const char *path)
{
    const struct dialect *d = dialect_find(path);
    return d ? d->errors : &s->errors;
}

/* Check that each name selects the model or one adapter. */
static int check_names(const struct server_options *o, struct err *e)
{
    const struct session *s = o->api->session;
    if (o->any_name && s->additions.n_set > 1)
        return err_field(e, ERR_ARG, "served-model-name",
                         ": must not be \"*\" if adapters have names, got %d adapters",
                         s->additions.n_set - 1);
    for (int i = 0; i < o->n_name; i++)
        if (session_adapter(s, o->name[i]))
            return err_field(e, ERR_ARG, "served-model-name",
                             ": must not be the name of an adapter, got \"%.100s\"", o->name[i]);
    return 0;
}

/* The routes are copied, because each gets the error format of its dialect. server_close accepts a
 * half-open server. */
int server_open(struct server **out, const struct server_options *o, struct err *e)
{
    struct server *s = calloc(1, sizeof *s);
    *out = s;
    if (!s) return err_memory(e, "a server", sizeof *s);
    s->o = *o;
    s->api = o->api;
    s->created = time_wall_us() / 1000000;
    s->errors = openai_errors;
    s->errors.net.header = "anthropic-version";
    s->errors.net.with_header = &anthropic_errors.net;
    s->route = malloc(sizeof routes);
    for (int i = 0; s->route && i < N_ROUTE; i++) {
        s->route[i] = routes[i];
        s->route[i].errors = &errors_of(s, routes[i].path)->net;
    }
    s->o.net.route = s->route;
    s->o.net.n_route = N_ROUTE;
    s->o.net.errors = &s->errors.net;
    s->o.net.ctx = s;
    int rc = s->route ? check_names(o, e) : err_memory(e, "routes", sizeof routes);
    if (rc == 0) rc = orca_open(s, e);
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
    net_drain(s->net, wait_ms);
}

/* net_close waits for all handlers, which use the other parts. */
void server_close(struct server *s)
{
    if (!s) return;
    net_close(s->net);
    orca_close(s);
    free(s->route);
    free(s);
}

/* ---- for handlers ---- */

/* Errors that end by themselves have the header Retry-After, in seconds. Every format of errors of
 * this server is the first member of an error_form. */
void server_fail(struct exchange *x, int rc, const struct err *e)
{
    const struct error_form *form = (const struct error_form *)exchange_errors(x);
    struct buf b = {0};
    form->put(&b, rc, e, exchange_id(x));
    if (rc == ERR_BUSY || rc == ERR_MEMORY) exchange_add_header(x, "Retry-After", "1");
    if (b.failed)
        exchange_no_memory(x);
    else
        exchange_reply(x, api_status(rc), form->net.type, b.data, b.n);
    buf_deinit(&b);
}

/* The text is freed in any case. A failed buffer becomes an error, never a truncated answer. */
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

/* An answer that `put` has begun is dropped if it returns an error. */
void server_answer(const struct server *s, struct exchange *x, server_put_fn *put)
{
    struct json *body = server_body(s, x);
    struct err e = {0};
    struct buf b = {0};
    if (!body) return;
    int rc = put(s->api, body, &b, &e);
    json_drop(body);
    if (rc == 0)
        server_reply(x, &b);
    else
        server_fail(x, rc, &e);
    buf_deinit(&b);
}

/* Append the names of the model and of its adapters. */
static void add_names(struct buf *b, const struct server *s)
{
    const struct additions *a = &s->api->session->additions;
    for (int i = 0; i < s->o.n_name; i++) buf_addf(b, "%s\"%s\"", i ? ", " : "", s->o.name[i]);
    for (int i = 1; i < a->n_set; i++) buf_addf(b, ", \"%s\"", a->set[i].name);
}

/* Check the model's name in a request. ERR_MISSING if it is unknown. */
int server_model(const struct server *s, const char *name, struct err *e)
{
    if (s->o.any_name || session_adapter(s->api->session, name)) return 0;
    for (int i = 0; i < s->o.n_name; i++)
        if (strcmp(s->o.name[i], name) == 0) return 0;
    struct buf all = {0};
    add_names(&all, s);
    int rc = err_field(e, ERR_MISSING, "model", ": \"%.100s\" not found; available: %.*s", name,
                       all.n < 200 ? (int)all.n : 200, all.n ? all.data : "");
    buf_deinit(&all);
    return rc;
}

/* Return the parsed body, owned by the caller. On failure the request is answered, and NULL is
 * returned. Duplicate names are rejected, because a proxy may check another one. */
struct json *server_body(const struct server *s, struct exchange *x)
{
    /* a parsed empty object takes 250 bytes, so a body of 32 MiB could take gigabytes */
    static const struct json_limits limits = {
        .depth_max = 200, .node_max = 1 << 20, .unique = true};
    struct err e = {0};
    struct json *body = NULL;
    size_t n;
    const char *text = exchange_body(x, &n);
    int64_t begin_us = time_us();
    int rc = json_parse(&body, text, n, &limits, &e);
    count_time(s->api, TIMES_parse, begin_us);
    if (rc == ERR_FORMAT || rc == ERR_LIMIT)
        err_prefix(&e, rc = ERR_FORMAT, "the body is not JSON");
    if (rc == 0 && json_kind(body) != JK_OBJECT)
        rc = err_set(&e, ERR_ARG, "the body: expected an object, got %s",
                     json_kind_name(json_kind(body)));
    const struct json *named = rc == 0 ? body_field(body, "model") : NULL;
    const char *model = json_text(named, NULL);
    if (named)
        rc = model ? server_model(s, model, &e)
                   : body_wrong("model", "a string without NUL", named, &e);
    if (rc == 0) return body;
    json_drop(body);
    server_fail(x, rc, &e);
    return NULL;
}
