/* server.h - the endpoints of an OpenAI-compatible server, between the HTTP server (net/net.h) and
 * the engine. Part of the public header api.h, which includes this.
 *
 *   handler thread   reads a body, renders, tokenizes, submits (post_call.c)
 *   stream thread    events -> text -> JSON -> the exchange, after each event
 *   engine thread    rings a bell; it never uses an exchange or a socket */
#ifndef QUOTH_API_SERVER_H
#define QUOTH_API_SERVER_H

#include "net/net.h"

struct api;
struct server; /* opaque */

struct server_options {
    struct net_options net;  /* server_open fills in routes, n_route and ctx */
    const struct api *api;   /* borrowed; `streams` set                                        */
    const char *const *name; /* [n_name >= 1], borrowed: names of the model */
    int n_name;
    bool any_name;             /* true: every other name is accepted, too */
    const char *version;       /* borrowed */
    const struct peaks *peaks; /* borrowed: rates for utilization; NULL: not reported */
    /* true: keys do not share cached prefixes, whose times would reveal other keys' prompts */
    bool separate_caches;
};

int server_open(struct server **out, const struct server_options *o, struct err *e);
const struct net *server_net(const struct server *s);
/* Accept no new requests and wait at most wait_ms for those in flight. Afterwards no thread uses
 * the engine. */
void server_drain(struct server *s, int wait_ms);
/* Drain with 0 ms, and free everything; NULL is fine. */
void server_close(struct server *s);

#endif
