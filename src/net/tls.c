/* tls.c - TLS 1.2 and 1.3 over non-blocking sockets, by OpenSSL.
 *
 * One read of the socket returns as many records as are available. By default OpenSSL reads each
 * record's head, then its body, then checks for more, which takes five reads per request instead of
 * one. SSL_MODE_RELEASE_BUFFERS frees the 33 KiB of an idle connection.
 *
 * The server handles it like a TLS close if a client closes its side of the socket without one.
 * HTTP's framing determines the end of a message, so a truncation is always detected. */
#include "net_impl.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdlib.h>

struct tls_server {
    SSL_CTX *ctx;       /* context of all connections, owned */
    BIO_METHOD *socket; /* owned; its BIOs have a borrowed struct sock as data */
};
struct tls; /* an SSL */

/* Set an error from OpenSSL's queue. Always return ERR_ARG. */
static int fail(struct err *e, const char *what, const char *path)
{
    unsigned long code = ERR_peek_error(); /* the first error in the queue is the cause */
    bool no_pem = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
    const char *why = ERR_reason_error_string(code);
    ERR_clear_error();
    return err_set(e, ERR_ARG, "%s: cannot use as %s: %s", path, what,
                   no_pem ? "it contains none in PEM form"
                   : why  ? why
                          : "unknown reason");
}

/* ---- the socket as a BIO ---- */

/* Read from the socket for OpenSSL. OpenSSL treats a result of 0 or -1 as an error unless the retry
 * flag is set. */
static int bio_read(BIO *b, char *to, int n)
{
    ssize_t got = sock_read(BIO_get_data(b), to, (size_t)n);
    BIO_clear_retry_flags(b);
    if (got == IO_AGAIN) BIO_set_retry_read(b);
    return got > 0 ? (int)got : got == IO_EOF ? 0 : -1;
}

static int bio_write(BIO *b, const char *from, int n)
{
    ssize_t put = sock_write(BIO_get_data(b), from, (size_t)n);
    BIO_clear_retry_flags(b);
    if (put == IO_AGAIN) BIO_set_retry_write(b);
    return put > 0 ? (int)put : -1;
}

static long bio_ctrl(BIO *b, int cmd, long n, void *p)
{
    (void)n, (void)p;
    if (cmd == BIO_CTRL_EOF) return ((struct sock *)BIO_get_data(b))->eof;
    return cmd == BIO_CTRL_FLUSH; /* a flush succeeds, because no byte is buffered */
}

static BIO_METHOD *socket_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (m && BIO_meth_set_read(m, bio_read) && BIO_meth_set_write(m, bio_write) &&
        BIO_meth_set_ctrl(m, bio_ctrl))
        return m;
    BIO_meth_free(m);
    return NULL;
}

/* ---- the server ---- */

int tls_server_open(struct tls_server **out, const char *cert, const char *key, struct err *e)
{
    struct tls_server *t = *out = calloc(1, sizeof *t);
    if (!t) return err_memory(e, "TLS", sizeof *t);
    SSL_CTX *c = t->ctx = SSL_CTX_new(TLS_server_method());
    t->socket = socket_method();
    if (!c || !t->socket) return err_memory(e, "TLS", 0);
    SSL_CTX_set_read_ahead(c, 1);
    SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
    SSL_CTX_set_options(c, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    if (SSL_CTX_use_certificate_chain_file(c, cert) != 1) return fail(e, "certificate", cert);
    if (SSL_CTX_use_PrivateKey_file(c, key, SSL_FILETYPE_PEM) != 1)
        return fail(e, "private key", key);
    if (SSL_CTX_check_private_key(c) != 1) return fail(e, "private key of the certificate", key);
    return 0;
}

void tls_server_close(struct tls_server *t)
{
    if (!t) return;
    SSL_CTX_free(t->ctx);
    BIO_meth_free(t->socket);
    free(t);
}

struct tls *tls_accept(struct tls_server *t, struct sock *sock)
{
    SSL *s = SSL_new(t->ctx);
    BIO *b = BIO_new(t->socket);
    if (!s || !b) {
        BIO_free(b);
        SSL_free(s);
        return NULL;
    }
    BIO_set_data(b, sock);
    BIO_set_init(b, 1);
    SSL_set_bio(s, b, b); /* SSL_set_bio takes ownership of b */
    SSL_set_accept_state(s);
    return (struct tls *)s;
}

void tls_close(struct tls *t)
{
    SSL_free((SSL *)t);
}

/* Return the result of a call that returned rc <= 0: a value of IO_*. */
static int outcome(SSL *s, int rc)
{
    int why = SSL_get_error(s, rc);
    ERR_clear_error();
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return IO_AGAIN;
    return why == SSL_ERROR_ZERO_RETURN ? IO_EOF : IO_FAIL;
}

int tls_handshake(struct tls *t)
{
    ERR_clear_error();
    int rc = SSL_do_handshake((SSL *)t);
    if (rc == 1) return 1;
    unsigned long code = ERR_peek_error();
    bool plain = ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST;
    rc = outcome((SSL *)t, rc);
    return plain ? IO_PLAIN : rc == IO_EOF ? IO_FAIL : rc;
}

ssize_t tls_read(struct tls *t, char *s, size_t n)
{
    size_t got;
    ERR_clear_error();
    int rc = SSL_read_ex((SSL *)t, s, n, &got);
    return rc == 1 ? (ssize_t)got : outcome((SSL *)t, rc);
}

ssize_t tls_write(struct tls *t, const char *s, size_t n)
{
    size_t put;
    ERR_clear_error();
    int rc = SSL_write_ex((SSL *)t, s, n, &put);
    return rc == 1 ? (ssize_t)put : outcome((SSL *)t, rc);
}

void tls_goodbye(struct tls *t)
{
    ERR_clear_error();
    SSL_shutdown((SSL *)t);
    ERR_clear_error();
}
