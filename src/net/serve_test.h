/* serve_test.h - for tests of net: a server with test routes, and a client for raw bytes. A client
 * belongs to one thread at a time. */
#ifndef QUOTH_NET_SERVE_TEST_H
#define QUOTH_NET_SERVE_TEST_H

#include "net.h"
#include "../../tests/unit.h"

#include <stdatomic.h>

/* Routes; /hello is open and quick.
 *   GET /hello
 *   POST /echo                 returns the body
 *   GET /who/{id}
 *   GET /query                 returns the value of q
 *   GET /wait                  waits until rig_release or a disconnect
 *   POST /later                waits as /wait, then returns the body
 *   GET /stream?n=N&bytes=B    N frames of B bytes, as fast as the client reads them
 *   GET /tick                  a frame at each rig_tick
 *   GET /slow                  the handler runs for 100 ms
 *   GET /block                 the handler runs until rig_release
 *   GET /late                  answers, then the handler runs until rig_release
 *   POST /chew                 like /block, with a body
 *   POST /forget               for administrators
 *   POST /change               the same, and without keys only for direct local clients */
struct rig {
    struct net *net;
    atomic_int n_slot, n_waiting, n_disconnected, n_streaming, n_ended;
    /* [n_slot] exchanges of /wait; all are set if n_waiting is n_slot */
    struct exchange *waiting[256];
    atomic_bool release, stop;
    atomic_int n_tick, n_blocked;
};
extern struct rig rig;

/* Make the certificate files for localhost (net_test.c). */
bool make_certificate(const char *cert, const char *key);
/* Open the server. Set routes and ctx of the options. */
bool rig_open(const struct net_options *o);
void rig_close(void);
void rig_release(void); /* Answer the requests to /wait. */
void rig_tick(void);    /* Send a frame to each request of /tick. */
/* Wait until n reaches value. Return false on timeout. */
bool rig_until(atomic_int *n, int value, int ms);

/* A client: a socket, plain or with TLS. */
struct client {
    int fd;
    void *tls;
    struct buf in;
};
bool client_open(struct client *c);
/* Open a client at `address`, an address of loopback such as "127.0.0.2". */
bool client_open_from(struct client *c, const char *address);
/* Open a client without TLS, also if the server has TLS. */
bool client_open_plain(struct client *c);
void client_close(struct client *c); /* Close the socket without a TLS close. */
bool client_send(struct client *c, const char *text, size_t n);
#define client_send_text(c, text) client_send(c, text, strlen(text))
/* Read until `end` was read, the connection ended, or ms have passed. Return true if `end` was
 * read. */
bool client_reads(struct client *c, const char *end, int ms);
/* Return true if the server closes the connection within ms. */
bool client_ends(struct client *c, int ms);
void client_clear(struct client *c); /* Drop the bytes read so far. */

#endif
