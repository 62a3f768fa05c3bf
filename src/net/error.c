/* error.c - rejections and failures as answers. The route gives the format of the body (struct
 * net_errors). This room sets the status, an error code and a message. net_open prepares the
 * answers for errors that must not allocate memory.
 *
 *    handler, check.c --exchange_error--> net_error --put of the route--> body --exchange_reply-->
 *    memory is exhausted   --exchange_no_memory--> fixed answer of the route (prepared)
 *    no exchange      --refuse_static (conn.c)--> fixed answer of the server (prepared) */
#include "net_impl.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Append the message as a line: the format of a server without net_errors. */
static void put_line(struct buf *out, const struct net_error *e)
{
    buf_add_text(out, e->text);
    buf_add_char(out, '\n');
}

static const struct net_errors plain = {.type = "text/plain; charset=utf-8", .put = put_line};

/* Return the error format of a route. r is NULL for requests without a route. */
static const struct net_errors *form_of(const struct net *n, const struct net_route *r)
{
    if (r && r->errors) return r->errors;
    return n->o.errors ? n->o.errors : &plain;
}

/* Return true if the request has the header or the path of a format. */
static bool selects(const struct exchange *x, const struct net_errors *form)
{
    const char *path = x->head.path;
    if (form->path && path && strncmp(path, form->path, strlen(form->path)) == 0) return true;
    return form->header && head_header(&x->head, form->header);
}

const struct net_errors *exchange_errors(const struct exchange *x)
{
    const struct net_errors *form = form_of(x->net, x->route);
    for (const struct net_errors *const *o = form->others; o && *o; o++)
        if (selects(x, *o)) return *o;
    return form;
}

/* The prepared answer replaces the error if the format's `put` runs out of memory. */
void exchange_error(struct exchange *x, const struct net_error *how, const char *fmt, ...)
{
    const struct net_errors *form = exchange_errors(x);
    struct net_error e = *how;
    char text[1024], seconds[16];
    struct buf body = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    e.text = text;
    e.id = x->id[0] ? x->id : NULL;
    form->put(&body, &e);
    if (e.retry_after) {
        snprintf(seconds, sizeof seconds, "%d", e.retry_after);
        exchange_add_header(x, "Retry-After", seconds);
    }
    if (e.status == 401) exchange_add_header(x, "WWW-Authenticate", "Bearer");
    if (body.failed)
        exchange_no_memory(x);
    else
        exchange_reply(x, e.status, form->type, body.data, body.n);
    buf_deinit(&body);
}

/* ---- prepared answers ---- */

/* Prepare both forms of an error. Return false if memory is exhausted; fixed_close then frees the
 * parts.
 *    whole   head, Content-Length and body
 *    head    the same head without a length, for HEAD requests */
static bool fixed_make(struct fixed *f, const struct net_errors *form, const struct net_error *e)
{
    static const char begin[] = "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n";
    const char *name = status_reason(e->status);
    const char *end = e->retry_after ? "Retry-After: 1\r\nConnection: close\r\n\r\n"
                                     : "Connection: close\r\n\r\n";
    struct buf body = {0}, whole = {0}, head = {0};
    form->put(&body, e);
    buf_addf(&head, begin, e->status, name, form->type);
    buf_add_text(&head, end);
    buf_addf(&whole, begin, e->status, name, form->type);
    buf_addf(&whole, "Content-Length: %zu\r\n", body.n);
    buf_add_text(&whole, end);
    buf_add(&whole, body.data, body.n);
    bool made = !body.failed && !head.failed && !whole.failed;
    f->head = buf_detach(&head);
    f->whole = buf_detach(&whole);
    buf_deinit(&head); /* buf_detach does not free a failed buf */
    buf_deinit(&whole);
    buf_deinit(&body);
    return made;
}

int fixed_open(struct net *n, struct err *e)
{
    static const struct net_error
        no_memory = {.status = 503, .retry_after = 1, .text = "out of memory: try again later"},
        no_room = {.status = 503,
                   .retry_after = 1,
                   .text = "the server has no room for another request; try again later"},
        no_tls = {.status = 400,
                  .text = "this port expects TLS: use a URL that begins with https://"};
    size_t n_form = (size_t)n->o.n_route + 1;
    bool made = fixed_make(&n->no_room, form_of(n, NULL), &no_room) &&
                fixed_make(&n->no_tls, form_of(n, NULL), &no_tls);
    n->no_memory = calloc(n_form, sizeof *n->no_memory);
    for (size_t i = 0; made && n->no_memory && i < n_form; i++) {
        const struct net_route *r = i + 1 < n_form ? &n->o.route[i] : NULL;
        made = fixed_make(&n->no_memory[i], form_of(n, r), &no_memory);
    }
    return made && n->no_memory ? 0 : err_memory(e, "the server's refusals", n_form);
}

void fixed_close(struct net *n)
{
    for (int i = 0; n->no_memory && i <= n->o.n_route; i++)
        free(n->no_memory[i].head), free(n->no_memory[i].whole);
    free(n->no_memory);
    free(n->no_room.head), free(n->no_room.whole);
    free(n->no_tls.head), free(n->no_tls.whole);
}

const char *fixed_no_memory(const struct exchange *x, bool body)
{
    const struct net *n = x->net;
    const struct fixed *f = &n->no_memory[x->route ? x->route - n->o.route : n->o.n_route];
    return body ? f->whole : f->head;
}
