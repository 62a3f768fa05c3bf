/* address.c - the identity of a client: the number by which limits are shared.
 *
 * A key identifies its holder. The holder is an IPv4 address or the /64 of an IPv6 address if there
 * are no keys. A subscriber has a /64 and may use any address of the /64. The client of a trusted
 * proxy is the last address in X-Forwarded-For that is not a trusted proxy. A client controls the
 * text to the left of its address in X-Forwarded-For, but not to the right.
 *
 * Loop thread, except client_networks_parse (before the server opens). */
#include "net_impl.h"

#include "base/hash.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* ::ffff:0:0/96 contains IPv4; a subscriber has a /64 */
enum { V4_BITS = 96, SUBSCRIBER_BYTES = 8 };

/* ---- addresses ---- */

/* Set *a to ::ffff:a.b.c.d. A dual-stack socket reports an IPv4 peer in this form, so a client has
 * one number on all sockets. */
static void set_v4(struct address *a, const struct in_addr *in)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    *a = (struct address){.known = true};
    memcpy(a->byte, mapped, sizeof mapped);
    memcpy(a->byte + sizeof mapped, in, sizeof *in);
}

static bool is_v4(const struct address *a)
{
    struct in6_addr in;
    memcpy(&in, a->byte, sizeof in);
    return a->known && IN6_IS_ADDR_V4MAPPED(&in);
}

bool address_is_loopback(const struct address *a)
{
    struct in6_addr in;
    memcpy(&in, a->byte, sizeof in);
    return a->known && (is_v4(a) ? a->byte[V4_BITS / 8] == 127 : IN6_IS_ADDR_LOOPBACK(&in));
}

/* A unix socket has no address: `known` remains false, and all clients of the socket share one
 * number. */
void address_of(struct address *a, const struct sockaddr_storage *from)
{
    *a = (struct address){0};
    if (from->ss_family == AF_INET) {
        set_v4(a, &((const struct sockaddr_in *)from)->sin_addr);
    } else if (from->ss_family == AF_INET6) {
        a->known = true;
        memcpy(a->byte, &((const struct sockaddr_in6 *)from)->sin6_addr, sizeof a->byte);
    }
}

/* Parse "1.2.3.4", "1.2.3.4:80", "2001:db8::1" or "[2001:db8::1]:80". Return false for any other
 * text. */
static bool address_parse(struct address *a, const char *text, size_t n)
{
    char s[INET6_ADDRSTRLEN];
    struct in_addr v4;
    /* A single colon precedes a port, because IPv6 without brackets has at least two colons. Ports
     * are ignored. */
    const char *colon = memchr(text, ':', n);
    bool one_colon = colon && !memchr(colon + 1, ':', n - (size_t)(colon + 1 - text));
    if (n > 0 && text[0] == '[') {
        const char *end = memchr(text, ']', n);
        if (!end) return false;
        n = (size_t)(end - ++text);
    } else if (one_colon) {
        n = (size_t)(colon - text);
    }
    if (n == 0 || n >= sizeof s) return false;
    memcpy(s, text, n);
    s[n] = 0;
    if (inet_pton(AF_INET, s, &v4) == 1) return set_v4(a, &v4), true;
    *a = (struct address){.known = true};
    return inet_pton(AF_INET6, s, a->byte) == 1;
}

/* The number is never 0, because its lowest bit is set. The seed 2 separates addresses from names
 * of keys (seed 0). */
uint64_t address_id(const struct address *a)
{
    if (!a->known) return hash_bytes("unix", 4, 2) | 1;
    return hash_bytes(a->byte, is_v4(a) ? sizeof a->byte : SUBSCRIBER_BYTES, 2) | 1;
}

/* ---- trusted proxies ---- */

/* Parse "10.0.0.0/8" or an address, which is a network of one address. Prefixes of IPv4 are stored
 * as prefixes of ::ffff:0:0/96, so 10.0.0.0/8 has n_bit 104. Return -1 if the text is malformed or
 * the prefix is longer than the address. */
static int parse_network(struct network *w, const char *text, size_t n)
{
    const char *slash = memchr(text, '/', n);
    size_t n_address = slash ? (size_t)(slash - text) : n;
    if (!address_parse(&w->address, text, n_address)) return -1;
    int offset = is_v4(&w->address) ? V4_BITS : 0, max = 128 - offset;
    w->n_bit = 128;
    if (!slash) return 0;
    size_t n_digit = strspn(slash + 1, "0123456789");
    long bits = strtol(slash + 1, NULL, 10);
    if (n_digit == 0 || n_digit > 3 || n_digit != n - n_address - 1 || bits > max) return -1;
    w->n_bit = offset + (int)bits;
    return 0;
}

int client_networks_parse(struct client_networks *w, const char *text, struct err *e)
{
    *w = (struct client_networks){0};
    if (!text) return 0;
    /* an item and its separator have at least two bytes, so the array is large enough for any
     * text */
    w->v = calloc(strlen(text) / 2 + 1, sizeof *w->v);
    if (!w->v) return err_memory(e, "the trusted proxies", strlen(text));
    for (const char *s = text; *s;) {
        s += strspn(s, ", ");
        size_t n = strcspn(s, ", ");
        if (n == 1 && *s == '*')
            w->all = true;
        else if (n == 4 && strncasecmp(s, "unix", 4) == 0)
            w->local = true;
        else if (n > 0 && parse_network(&w->v[w->n++], s, n) != 0)
            return err_set(e, ERR_ARG, "must be addresses, networks, unix or *, got \"%.*s\"",
                           (int)(n < 60 ? n : 60), s);
        s += n;
    }
    return 0;
}

int net_proxies_form(const char *text, struct err *e)
{
    struct client_networks w;
    int rc = client_networks_parse(&w, text, e);
    client_networks_deinit(&w);
    return rc;
}

void client_networks_deinit(struct client_networks *w)
{
    free(w->v);
    *w = (struct client_networks){0};
}

/* Return true if the first n bits of a and b are equal. n is in [0, 128]. */
static bool same_bits(const uint8_t *a, const uint8_t *b, int n)
{
    int whole = n / 8, rest = n % 8;
    if (memcmp(a, b, (size_t)whole) != 0) return false;
    return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

/* Return true if *a is in the list of trusted proxies. The list has few items, so a linear search
 * is enough. */
static bool trusted(const struct client_networks *w, const struct address *a)
{
    if (w->all || (w->local && !a->known)) return true;
    for (size_t i = 0; a->known && i < w->n; i++)
        if (same_bits(w->v[i].address.byte, a->byte, w->v[i].n_bit)) return true;
    return false;
}

/* ---- X-Forwarded-For ---- */

/* Read the addresses of one header from right to left until a sender is not trusted. Return false
 * if the client is found. */
static bool walk_left(struct address *a, const struct client_networks *w, const char *text)
{
    size_t n = strlen(text);
    while (n > 0 && trusted(w, a)) {
        size_t begin = n;
        while (begin > 0 && text[begin - 1] != ',') begin--;
        const char *s = text + begin;
        size_t m = n - begin;
        while (m > 0 && (*s == ' ' || *s == '\t')) s++, m--;
        while (m > 0 && (s[m - 1] == ' ' || s[m - 1] == '\t')) m--;
        struct address named;
        if (!address_parse(&named, s, m)) return false;
        *a = named;
        n = begin > 0 ? begin - 1 : 0;
    }
    return trusted(w, a);
}

/* Several X-Forwarded-For headers form one list in the order of arrival. The last proxy appends to
 * the end, so the search begins with the last header. */
bool client_forwarded(struct address *a, const struct client_networks *w, const struct head *h)
{
    struct address before = *a;
    bool more = true;
    for (int i = h->n_header - 1; more && i >= 0; i--)
        if (strcmp(h->header[i].name, "x-forwarded-for") == 0)
            more = walk_left(a, w, h->header[i].value);
    return memcmp(&before, a, sizeof before) != 0;
}

void address_put(char *out, size_t n, const struct address *a)
{
    struct in6_addr in;
    memcpy(&in, a->byte, sizeof in);
    out[0] = 0;
    if (is_v4(a))
        inet_ntop(AF_INET, a->byte + 12, out, (socklen_t)n);
    else
        inet_ntop(AF_INET6, &in, out, (socklen_t)n);
}
