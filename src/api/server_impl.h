/* server_impl.h - private to src/api: functions shared by the handlers of routes.def. */
#ifndef QUOTH_API_SERVER_IMPL_H
#define QUOTH_API_SERVER_IMPL_H

#include "dialect.h"

#include "base/json.h"

struct batch_runner;
struct hub_jobs;
struct jobs;
struct job;

struct server {
    /* options; the pointers are borrowed from the caller of server_open */
    struct server_options o;
    struct models *models;    /* models of the server, borrowed from o.models */
    const struct api *only;   /* api of the only model, borrowed; NULL: several models */
    struct net_route *route;  /* owned; the rows of routes.def, each with its dialect's errors */
    struct error_form errors; /* form of paths without a dialect */
    struct net *net;          /* HTTP server, owned */
    struct jobs *jobs;        /* responses in the background, owned; NULL without a store */
    struct batch_runner *batches; /* answers of batches, owned; NULL without a store */
    struct hub_jobs *hub;         /* changes of the hub's stores, owned; NULL: not allowed */
    struct orca *orca;            /* samples of the load, owned */
    int64_t created;              /* time at which the model was opened, seconds since 1970 */
};

#define ROUTE(method, path, handler, how) void handler(struct exchange *x, void *server);
#include "routes.def"
#undef ROUTE

/* Return the body as an object with a valid or absent `model`. The caller drops it. Set *api to the
 * model's api with a reference, which the caller drops (served_drop). api NULL: no model is needed.
 * Return NULL if the body was rejected, and the exchange has ended. Also return NULL if the model
 * is not loaded: the handler runs again after the load, and must return now. */
struct json *server_body(const struct server *s, struct exchange *x, const struct api **api);
/* Read the body as server_body does, and set *body to the parsed body. After an error the exchange
 * has not ended, and the caller sends the error. The handler must return if *body is NULL without
 * an error, because the model is not loaded. Errors: those of json_parse and served_take, ERR_ARG,
 * ERR_MISSING. */
int server_read(const struct server *s, struct exchange *x, struct json **body,
                const struct api **api, struct err *e);
/* Begin the span of a request. Its parent is the span in the request's head, if there is one. Add
 * the new span to the head of the answer. Return NULL if traces are disabled. If the answer has
 * begun early, return the span of its wait. Call once per answer. The caller ends the span. */
struct span *server_begin_span(const struct server *s, struct exchange *x);
/* Return the api of the model `name` with a reference; name NULL: the only model. Returns NULL in
 * the cases of server_body. */
const struct api *server_take(const struct server *s, struct exchange *x, const char *name);
/* Return the api of the query's `model` with a reference, or of the only model. Returns NULL in the
 * cases of server_body. */
const struct api *server_query_model(const struct server *s, struct exchange *x);
/* Return the body as server_body does, with any `model`. */
struct json *server_json(const struct server *s, struct exchange *x);
/* Append the answer to a body, for server_answer. Return 0, or an ERR_* code that becomes the error
 * response: ERR_ARG, ERR_LIMIT, ERR_UNSUPPORTED, ERR_BUSY or ERR_MEMORY. Handler thread. */
typedef int server_put_fn(const struct api *a, const struct json *body, struct buf *b,
                          struct err *e);
/* Append {"prompt":...} and free the text. */
void put_prompt(struct buf *b, struct buf *text);
/* Handle a request that needs no engine: read the body, call `put`, send the answer or error. */
void server_answer(const struct server *s, struct exchange *x, server_put_fn *put);
/* Set *out (may be NULL) to the model with the name, or with an adapter of the name. name NULL: the
 * only model. Errors with the field "model": ERR_MISSING for an unknown name, ERR_ARG if a name is
 * required. */
int server_model(const struct server *s, const char *name, struct served **out, struct err *e);
/* Return the owner of the client's records: a number of its key; 0 without keys. A client without a
 * key may change its address. The number is made from the secret, because names of keys may change
 * between two starts. */
uint64_t server_owner(const struct exchange *x);
/* Append a page of items, which are separated by commas, by the parameters limit, order and after
 * of the query. ERR_ARG with the parameter, ERR_MEMORY. */
int server_put_page(const struct exchange *x, const struct buf *items, struct buf *out,
                    struct err *e);
/* Append the list of all items, in their order. ERR_MEMORY. */
int server_put_list(const struct buf *items, struct buf *out, struct err *e);
/* Answer with the events of a job after number `after` (-1: all), or with the response after its
 * end. The exchange takes the reference to the job. */
void server_read_job(struct exchange *x, struct job *take_job, bool events, int64_t after);
/* Answer with the events of a complete response. The exchange takes the content of the log. */
void server_read_log(struct exchange *x, struct buf *take_log, int64_t after);
/* Set *out to a parameter of the query; unchanged if it is absent. ERR_ARG with the parameter's
 * name if the value is not an integer in [lo, hi], ERR_MEMORY. */
int server_query_int(const struct exchange *x, const char *name, int64_t lo, int64_t hi,
                     int64_t *out, struct err *e);
/* A name in lists of models. */
struct listed {
    struct served *model;  /* borrowed */
    const char *name;      /* borrowed */
    int adapter;           /* number of the adapter; 0: the model without an adapter */
    const struct api *api; /* api with a reference; NULL: not loaded, or a name without data */
};
/* Set *out to name i of the models and adapters. peek: its api is set, and the caller ends that by
 * served_unpeek. Return false if there are at most i names. */
bool server_listed(const struct server *s, int i, bool peek, struct listed *out);
/* Return the listed name of a model. The caller ends the api by served_unpeek. */
struct listed server_list_name(struct served *m, const char *name);
/* Return the model's own name. */
const char *listed_own_name(const struct listed *l);
/* Figures of all loaded models together. */
struct server_load {
    int64_t n_running, n_waiting, n_refused, n_seq;
    double kv_usage; /* maximum share of the KV pages of a model in use */
};
struct server_load server_load(const struct server *s);
/* Open s->orca and take its first sample. Call before the first request. ERR_MEMORY. */
int orca_open(struct server *s, struct err *e);
void orca_close(struct server *s); /* free the samples; a half-open server is allowed */
/* Add the current load to the answer's head if the client requests it. Call before the answer
 * begins. */
void orca_put(struct exchange *x, const struct server *s);
/* Answer GET /v1/models and /v1/models/{id} in the form of an API. */
#define MODELS(id)                                                                                 \
    void id##_get_models(struct exchange *x, const struct server *s);                              \
    void id##_get_model(struct exchange *x, const struct server *s, const struct listed *l);
#include "errors.def"

/* ---- wait.c: requests that wait for a model ---- */

/* Set *out to the api of a model with a reference. *out is NULL without an error if the model is
 * not loaded; the handler must return now. It runs again after the load, or the body was answered
 * (dialect.unloads). body: parsed body of the request, borrowed for the call; NULL: the answer is
 * not a stream. Errors: those of server_model and served_take, ERR_MEMORY. */
int wait_take(const struct server *s, struct exchange *x, const char *name, const struct json *body,
              const struct api **out, struct err *e);
/* Return the span of a stream that began during its wait. The caller owns it; NULL if none. */
struct span *wait_detach_span(struct exchange *x);

/* ---- early.c: streams that begin before their first piece ---- */

/* Return the interval of pings that a body requests, in seconds, as api_call.ping_s. An invalid
 * interval may give any valid result. */
int early_ping_s(const struct json *body);
/* Let the server wake the exchange of a stream at the time at which it begins early, or set the
 * interval of pings if it has begun. */
void early_wait(const struct server *s, struct exchange *x, int ping_s);
/* Return true if a stream without output must begin now. */
bool early_is_due(const struct server *s, const struct exchange *x, int ping_s);
/* Begin the stream, and send the first ping if `ping` is true. */
void early_begin(const struct server *s, struct exchange *x, const struct dialect *d, int ping_s,
                 bool ping);
/* End a stream that has begun without a call by an error (server_fail). */
void early_fail(struct exchange *x, int rc, const struct err *e);

/* Return the form of failures of the request, static. */
const struct error_form *server_form(const struct exchange *x);
/* Send the answer of a failure, which ends the exchange. The failure is in the stream if the answer
 * has begun (early.c). */
void server_fail(struct exchange *x, int rc, const struct err *e);
/* Send a JSON answer and free the buf. This ends the exchange. */
void server_reply(struct exchange *x, struct buf *json);

#endif
