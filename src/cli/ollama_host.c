/* ollama_host.c - the address of Ollama's servers, for --ollama. The form of the address is that of
 * Ollama's variable OLLAMA_HOST, which users set for clients and servers.
 *
 * Ollama's clients use the variable as the address of a server, and Ollama's server as the address
 * to listen on. quoth accepts all forms of both: HOST, HOST:PORT, :PORT, [IPv6]:PORT, with a scheme
 * or a path. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* Return the text after its scheme, and set *port to the scheme's default port. */
static const char *after_scheme(const char *text, int *port)
{
    static const struct {
        const char *text; /* static */
        int port;
    } scheme[] = {{"http://", 80}, {"https://", 443}};
    for (size_t i = 0; i < sizeof scheme / sizeof *scheme; i++) {
        const size_t n = strlen(scheme[i].text);
        if (strncmp(text, scheme[i].text, n) != 0) continue;
        *port = scheme[i].port;
        return text + n;
    }
    return text;
}

/* Read a port of n digits. */
static bool read_port(const char *text, size_t n, int *port)
{
    if (n == 0 || n > 5 || strspn(text, "0123456789") < n) return false;
    const long value = strtol(text, NULL, 10);
    *port = (int)value;
    return value <= 65535;
}

int ollama_address(char host[static OLLAMA_HOST_BYTES], int *port, const char *text, struct err *e)
{
    *port = 11434;
    const char *given = text ? text : "", *at = after_scheme(given, port);
    const size_t n = strcspn(at, "/"); /* a path has no effect */
    const bool in_brackets = *at == '[';
    const char *end = in_brackets ? memchr(at, ']', n) : memchr(at, ':', n);
    if (in_brackets && end) end++;
    if (!end) end = at + n;
    const size_t n_host = (size_t)(end - at), n_edge = in_brackets ? 1 : 0;
    bool ok = n_host < OLLAMA_HOST_BYTES && (!in_brackets || (n_host > 2 && end[-1] == ']'));
    if (ok && end < at + n) ok = *end == ':' && read_port(end + 1, n - n_host - 1, port);
    if (!ok) return err_set(e, ERR_ARG, "OLLAMA_HOST: expected HOST[:PORT], got \"%.100s\"", given);
    const char *from = n_host ? at + n_edge : "127.0.0.1";
    const size_t n_from = n_host ? n_host - 2 * n_edge : strlen(from);
    memcpy(host, from, n_from);
    host[n_from] = 0;
    return 0;
}
