/* serve_test.h - for tests of net: a server with a few routes, and a client that speaks raw bytes. */
#ifndef QUOTH_NET_SERVE_TEST_H
#define QUOTH_NET_SERVE_TEST_H

#include "net.h"
#include "../../tests/unit.h"

#include <stdatomic.h>

/* Routes: GET /hello, POST /echo (the body back), GET /who/{id}, GET /query (value of q), GET /wait (until
 * rig_release, or the client goes), GET /stream?n=N&bytes=B (N frames of B bytes, as the client takes
 * them), GET /tick (a frame at each rig_tick), GET /slow (the handler takes 100 ms), GET /block (the
 * handler is there until rig_release), POST /forget (for administrators). /hello is open and quick. */
struct rig {
    struct net *net;
    atomic_int n_slot, n_waiting, n_gone, n_streaming, n_ended;
    struct exchange *waiting[256]; /* [n_slot]; all are there when n_waiting has come so far */
    atomic_bool release, stop;
    atomic_int n_tick, n_blocked;
};
extern struct rig rig;

bool rig_open(const struct net_options *o); /* routes and ctx are filled in */
void rig_close(void);
void rig_release(void);                           /* those in /wait are answered */
void rig_tick(void);                              /* those in /tick get a frame  */
bool rig_until(atomic_int *n, int value, int ms); /* n reaches value in time? */

/* A client: a socket, plain or with TLS. */
struct client {
    int fd;
    void *tls;
    struct buf in;
};
bool client_open(struct client *c);
void client_close(struct client *c); /* without a goodbye */
bool client_say(struct client *c, const char *text, size_t n);
#define client_says(c, text) client_say(c, text, strlen(text))
/* Read until `end` was read, the connection ended, or ms are over; whether `end` is there. */
bool client_hears(struct client *c, const char *end, int ms);
bool client_ends(struct client *c, int ms); /* the server closes in time */
void client_forget(struct client *c);       /* what was read so far */

#endif
