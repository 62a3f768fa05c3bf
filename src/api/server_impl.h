/* server_impl.h - private to src/api: functions shared by the handlers of routes.def. */
#ifndef QUOTH_API_SERVER_IMPL_H
#define QUOTH_API_SERVER_IMPL_H

#include "api_impl.h"

#include "base/json.h"

struct server {
    struct server_options o;
    const struct api *api;
    struct net_route *route; /* owned: the rows of routes.def, each with its dialect's errors */
    struct net *net;         /* owned */
    struct orca *orca;       /* owned */
    int64_t created;         /* seconds since 1970 at which the model was opened */
};

#define ROUTE(method, path, handler, how) void handler(struct exchange *x, void *server);
#define DIALECT(path, id)
#include "routes.def"
#undef ROUTE
#undef DIALECT

/* Return the body as an object with a valid or absent `model`, which the caller drops. NULL if it
 * was rejected; the exchange is then over. */
struct json *server_body(const struct server *s, struct exchange *x);
/* Handle a request that needs no engine: read a body; `put` appends the answer or returns an error.
 */
typedef int server_put_fn(const struct api *a, const struct json *body, struct buf *b,
                          struct err *e);
/* Append {"prompt":...} and free the text. */
void put_prompt(struct buf *b, struct buf *text);
void server_answer(const struct server *s, struct exchange *x, server_put_fn *put);
/* Check that it is a name of the model. */
int server_model(const struct server *s, const char *name, struct err *e);
int orca_open(struct server *s, struct err *e); /* call before the first request */
void orca_close(struct server *s);              /* safe on a half-opened one */
/* Add the present load to the answer's head, if the client requests it. Call before the answer
 * begins. */
void orca_put(struct exchange *x, const struct server *s);
/* Send the answer of a failure; the exchange is then over. */
void server_fail(struct exchange *x, int rc, const struct err *e);
/* Send a JSON answer and free the buf; the exchange is then over. */
void server_reply(struct exchange *x, struct buf *json);

#endif
