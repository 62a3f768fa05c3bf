/* guard.c - prevent web pages from using a server on this machine without its user's consent.
 *
 * In DNS rebinding, the owner of a page of evil.example changes this name's address to 127.0.0.1.
 * The browser then treats the local server as the page's own origin. The name is in the header
 * Host, so a server on loopback accepts only loopback's names. A request from a page of another
 * origin has the header Origin. Only the origins of loopback, the server's origin and the listed
 * origins are accepted. Other requests are rejected before any computation. */
#include "net_impl.h"

#include "base/names.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

/* Write the name without brackets and port of "name:port" or "[name]:port" to out. */
static bool cut_port(char *out, size_t n_out, const char *host)
{
    size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (host[0] == '[' && host[n - 1] != ']') return false;
    if (host[n] == ':' && host[n + 1 + strspn(host + n + 1, "0123456789")]) return false;
    if (host[n] && host[n] != ':') return false;
    if (n == 0 || n >= n_out) return false;
    memcpy(out, host, n);
    out[n] = 0;
    return true;
}

/* Return true if a host's name is below the domain, ignoring case. */
static bool is_below(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n > m && strcasecmp(s + n - m, end) == 0;
}

/* Return true for any spelling of [::1], and for 127.0.0.1 as IPv6. */
static bool v6_is_loopback(char *name)
{
    struct in6_addr a;
    name[strlen(name) - 1] = 0;
    if (inet_pton(AF_INET6, name + 1, &a) != 1) return false;
    return IN6_IS_ADDR_LOOPBACK(&a) || (IN6_IS_ADDR_V4MAPPED(&a) && a.s6_addr[12] == 127);
}

bool name_is_loopback(const char *host)
{
    char name[256];
    struct in_addr a;
    if (!cut_port(name, sizeof name, host)) return false;
    if (strcasecmp(name, "localhost") == 0 || is_below(name, ".localhost")) return true;
    if (name[0] == '[') return v6_is_loopback(name);
    return inet_pton(AF_INET, name, &a) == 1 && ntohl(a.s_addr) >> 24 == 127;
}

/* A server on other addresses accepts any Host, because it cannot determine its names. A request
 * without Host is accepted, because it is HTTP/1.0, which no browser sends. */
bool guard_host(const struct guard *g, const char *host)
{
    char name[256];
    if (!g->loopback || !host || name_is_loopback(host)) return true;
    if (!cut_port(name, sizeof name, host)) return false;
    for (int i = 0; i < g->n_host; i++)
        if (strcasecmp(name, g->host[i]) == 0 || strcmp(g->host[i], "*") == 0) return true;
    return false;
}

/* A request without Origin is from a client that is not a browser, or is a GET of the same origin.
 * The origin "null" of sandboxed pages is rejected unless it is listed. */
bool guard_origin(const struct guard *g, const char *origin, const char *host)
{
    if (!origin) return true;
    for (int i = 0; i < g->n_origin; i++)
        if (strcasecmp(origin, g->origin[i]) == 0 || strcmp(g->origin[i], "*") == 0) return true;
    const char *name = strncasecmp(origin, "http://", 7) == 0    ? origin + 7
                       : strncasecmp(origin, "https://", 8) == 0 ? origin + 8
                                                                 : NULL;
    return name && (name_is_loopback(name) || (host && strcasecmp(name, host) == 0));
}

int net_origin_form(const char *text, struct err *e)
{
    const char *host = strstr(text, "://");
    bool origin = host && host > text && host[3] && !strpbrk(host + 3, "/ ");
    if (origin || strcmp(text, "*") == 0 || strcmp(text, "null") == 0) return 0;
    return form_wrong(e, "an origin as browsers send it, SCHEME://HOST[:PORT] without a path, or *",
                      text);
}
