/* server.h - the endpoints of an OpenAI-compatible server. The endpoints connect the HTTP server
 * (net/net.h) with the engine. Part of the public header api.h, which includes this file.
 *
 *   handler thread   reads a body, renders, tokenizes, submits (post_call.c)
 *   stream thread    events -> text -> JSON -> the exchange, after each event
 *   engine thread    rings a bell; it never uses an exchange or a socket */
#ifndef QUOTH_API_SERVER_H
#define QUOTH_API_SERVER_H

#include "net/net.h"

struct models;
struct store;
struct server; /* opaque */
struct telemetry;

struct server_options {
    struct net_options net; /* server_open fills in routes, n_route and ctx */
    struct models *models;  /* borrowed; `streams` of each api is true */
    /* store of responses of all models, borrowed; NULL: nothing is stored */
    struct store *store;
    bool hub;            /* true: the models include the hub's, and clients may change them */
    bool any_name;       /* true if every name selects the only model */
    bool ollama;         /* true: GET / has Ollama's answer for clients other than browsers */
    const char *version; /* version of the program, borrowed */
    struct telemetry *telemetry; /* traces of requests, borrowed; NULL if none */
    const struct peaks *peaks;   /* peak rates, for utilization, borrowed; NULL: not reported */
    /* true: keys do not share cached prefixes, because response times would reveal prompts of other
     * keys */
    bool separate_caches;
};

/* Open the server and start its threads. The caller owns *out, which is NULL after an error. All
 * pointers of *o are borrowed until server_close. ERR_ARG if a name of the model is also a name of
 * an adapter, and the errors of net_open. */
int server_open(struct server **out, const struct server_options *o, struct err *e);
/* Return the HTTP server, borrowed until server_close. */
const struct net *server_net(const struct server *s);
/* Reject new requests and wait at most wait_ms for requests in flight. No thread uses the engine
 * after this call. */
void server_drain(struct server *s, int wait_ms);
/* Close the server: drain with 0 ms, then free all its memory. NULL is allowed. */
void server_close(struct server *s);

#endif
