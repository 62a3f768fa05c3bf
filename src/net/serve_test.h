/* serve_test.h - for tests of net: a server with a few routes, and a client that sends raw
 * bytes. */
#ifndef QUOTH_NET_SERVE_TEST_H
#define QUOTH_NET_SERVE_TEST_H

#include "net.h"
#include "../../tests/unit.h"

#include <stdatomic.h>

/* Routes: GET /hello, POST /echo (returns the body), GET /who/{id}, GET /query (value of q), GET
 * /wait (until rig_release or a disconnect), GET /stream?n=N&bytes=B (N frames of B bytes, as the
 * client reads them), GET /tick (a frame at each rig_tick), GET /slow (the handler takes 100 ms),
 * GET /block (the handler runs until rig_release), POST /chew (as /block, with a body), POST
 * /forget (administrators). /hello is open and quick. */
struct rig {
    struct net *net;
    atomic_int n_slot, n_waiting, n_disconnected, n_streaming, n_ended;
    struct exchange *waiting[256]; /* [n_slot]; all are set when n_waiting has reached n_slot */
    atomic_bool release, stop;
    atomic_int n_tick, n_blocked;
};
extern struct rig rig;

bool make_certificate(const char *cert, const char *key); /* for localhost; net_test.c */
bool rig_open(const struct net_options *o);               /* sets routes and ctx */
void rig_close(void);
void rig_release(void);                           /* answer the requests in /wait */
void rig_tick(void);                              /* send a frame to the requests in /tick */
bool rig_until(atomic_int *n, int value, int ms); /* wait until n reaches value; false: timeout */

/* A client: a socket, plain or with TLS. */
struct client {
    int fd;
    void *tls;
    struct buf in;
};
bool client_open(struct client *c);
bool client_open_from(struct client *c, const char *address); /* of loopback: "127.0.0.2" */
void client_close(struct client *c);                          /* without a TLS close */
bool client_send(struct client *c, const char *text, size_t n);
#define client_send_text(c, text) client_send(c, text, strlen(text))
/* Read until `end` was read, the connection ended, or ms have passed. Returns true if `end` was
 * read. */
bool client_reads(struct client *c, const char *end, int ms);
bool client_ends(struct client *c, int ms); /* true if the server closes within ms */
void client_clear(struct client *c);        /* drop what was read so far */

#endif
