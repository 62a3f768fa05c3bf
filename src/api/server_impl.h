/* server_impl.h - private to src/api: what the handlers of routes.def share. */
#ifndef QUOTH_API_SERVER_IMPL_H
#define QUOTH_API_SERVER_IMPL_H

#include "api_impl.h"

#include "base/json.h"

struct server {
    struct server_options o;
    const struct api *api;
    struct net_route *route; /* owned: routes.def, each with its dialect's errors */
    struct net *net;         /* owned */
    struct orca *orca;       /* owned */
    int64_t created;         /* seconds since 1970: when the model was opened */
};

#define ROUTE(method, path, handler, how) void handler(struct exchange *x, void *server);
#define DIALECT(path, id)
#include "routes.def"
#undef ROUTE
#undef DIALECT

/* The body as an object with a `model` that is ours, if it names one; NULL: it was refused, and the exchange is over.
 * The caller drops it. */
struct json *server_body(const struct server *s, struct exchange *x);
/* The whole of a handler that needs no engine: a body is read, `put` appends the answer, or says why not. */
typedef int server_put_fn(const struct api *a, const struct json *body, struct buf *b,
                          struct err *e);
/* {"prompt":...}; frees the text. */
void put_prompt(struct buf *b, struct buf *text);
void server_answer(const struct server *s, struct exchange *x, server_put_fn *put);
/* Is that a name of the model? Else a sentence. */
int server_model(const struct server *s, const char *name, struct err *e);
int orca_open(struct server *s, struct err *e); /* before there are requests */
void orca_close(struct server *s);              /* safe on a half-opened one */
/* The load of the moment into the answer's head, if the client asked for it. Before the answer begins. */
void orca_put(struct exchange *x, const struct server *s);
/* The answer of a failure; the exchange is over. */
void server_fail(struct exchange *x, int rc, const struct err *e);
/* A JSON answer; the exchange is over. Frees the buf. */
void server_reply(struct exchange *x, struct buf *json);

#endif
