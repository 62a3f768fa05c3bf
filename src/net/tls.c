/* tls.c - TLS 1.2 and 1.3 over sockets that do not block, by OpenSSL.
 *
 * A client that closes its side of the socket without saying goodbye is taken for one that did: over
 * HTTP the end of a message is known from its framing, so nothing can be cut off unnoticed. */
#include "net_impl.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

struct tls_server; /* an SSL_CTX */
struct tls;        /* an SSL     */

static int fail(struct err *e, const char *what, const char *path)
{
    char why[160];
    ERR_error_string_n(ERR_peek_last_error(), why, sizeof why);
    ERR_clear_error();
    return err_set(e, ERR_ARG, "%s: not a %s that TLS can use (%s)", path, what, why);
}

int tls_server_open(struct tls_server **t, const char *cert, const char *key, struct err *e)
{
    SSL_CTX *c = SSL_CTX_new(TLS_server_method());
    *t = (struct tls_server *)c;
    if (!c) return err_memory(e, "TLS", 0);
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
    SSL_CTX_free((SSL_CTX *)t);
}

struct tls *tls_accept(struct tls_server *t, int fd)
{
    SSL *s = SSL_new((SSL_CTX *)t);
    if (s && SSL_set_fd(s, fd) == 1) {
        SSL_set_accept_state(s);
        return (struct tls *)s;
    }
    SSL_free(s);
    return NULL;
}

void tls_close(struct tls *t)
{
    SSL_free((SSL *)t);
}

/* What a call that returned rc <= 0 means. */
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
    rc = rc == 1 ? 1 : outcome((SSL *)t, rc);
    return rc == IO_EOF ? IO_FAIL : rc;
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
