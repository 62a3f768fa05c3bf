/* server_impl.h - private to src/api: functions shared by the handlers of routes.def. */
#ifndef QUOTH_API_SERVER_IMPL_H
#define QUOTH_API_SERVER_IMPL_H

#include "dialect.h"

#include "base/json.h"

struct server {
    struct server_options o;  /* its pointers are borrowed from the caller of server_open */
    const struct api *api;    /* borrowed: o.api */
    struct net_route *route;  /* owned; the rows of routes.def, each with its dialect's errors */
    struct error_form errors; /* form of paths without a dialect */
    struct net *net;          /* HTTP server, owned */
    struct orca *orca;        /* samples of the load, owned */
    int64_t created;          /* time at which the model was opened, seconds since 1970 */
};

#define ROUTE(method, path, handler, how) void handler(struct exchange *x, void *server);
#include "routes.def"
#undef ROUTE

/* Return the body as an object with a valid or absent `model`. The caller drops it. NULL if the
 * body was rejected. The exchange has then ended. */
struct json *server_body(const struct server *s, struct exchange *x);
/* Append the answer to a body, for server_answer. Return 0, or an ERR_* code that becomes the error
 * response: ERR_ARG, ERR_LIMIT, ERR_UNSUPPORTED, ERR_BUSY or ERR_MEMORY. Handler thread. */
typedef int server_put_fn(const struct api *a, const struct json *body, struct buf *b,
                          struct err *e);
/* Append {"prompt":...} and free the text. */
void put_prompt(struct buf *b, struct buf *text);
/* Handle a request that needs no engine: read the body, call `put`, send the answer or error. */
void server_answer(const struct server *s, struct exchange *x, server_put_fn *put);
/* Return 0 if `name` is a name of the model or of an adapter, otherwise ERR_MISSING with the field
 * "model". */
int server_model(const struct server *s, const char *name, struct err *e);
/* Return the number of names of the model and its adapters, and name i, borrowed. */
int server_n_model(const struct server *s);
const char *server_model_name(const struct server *s, int i);
/* Answer GET /v1/models and /v1/models/{id} in Anthropic's form. `name` is a known name. */
void anthropic_get_models(struct exchange *x, const struct server *s);
void anthropic_get_model(struct exchange *x, const struct server *s, const char *name);
/* Open s->orca and take its first sample. Call before the first request. ERR_MEMORY. */
int orca_open(struct server *s, struct err *e);
void orca_close(struct server *s); /* accepts a half-built server */
/* Add the current load to the answer's head, if the client requests it. Call before the answer
 * begins. */
void orca_put(struct exchange *x, const struct server *s);
/* Send the answer of a failure, which ends the exchange. */
void server_fail(struct exchange *x, int rc, const struct err *e);
/* Send a JSON answer and free the buf. This ends the exchange. */
void server_reply(struct exchange *x, struct buf *json);

#endif
