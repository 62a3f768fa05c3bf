/* server.h - the endpoints of an OpenAI-compatible server, between the HTTP server (net/net.h) and the engine. Part of
 * api's public face (api.h includes this).
 *
 *   handler thread   reads a body, renders, tokenizes, submits (post_call.c)
 *   stream thread    events -> text -> JSON -> the exchange, whenever an event came
 *   engine thread    rings a bell; it never sees an exchange or a socket */
#ifndef QUOTH_API_SERVER_H
#define QUOTH_API_SERVER_H

#include "net/net.h"

struct api;
struct server; /* opaque */

struct server_options {
    struct net_options net;  /* routes, n_route and ctx are filled in                          */
    const struct api *api;   /* borrowed; `streams` set                                        */
    const char *const *name; /* [n_name >= 1], borrowed: names that the model answers to       */
    int n_name;
    bool any_name;             /* and to every other one */
    const char *version;       /* borrowed */
    const struct peaks *peaks; /* borrowed: what utilization is of; NULL: not told */
    /* keys do not share cached prefixes: times would tell what others asked */
    bool separate_caches;
};

int server_open(struct server **out, const struct server_options *o, struct err *e);
const struct net *server_net(const struct server *s);
/* Accept no new requests and wait at most wait_ms for those in flight. Afterwards no thread uses the engine. */
void server_drain(struct server *s, int wait_ms);
/* as server_drain of 0 ms, and everything freed; NULL is fine */
void server_close(struct server *s);

#endif
