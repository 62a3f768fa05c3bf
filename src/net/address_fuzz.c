/* address_fuzz.c - goal: a mutated list of trusted proxies is rejected with a message or has legal
 * prefixes. A mutated X-Forwarded-For gives the same client as one header and as several
 * headers. */
#include "net_impl.h"
#include "../../tests/fuzz/fuzz.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Return the client of a request from 10.0.0.1 whose head has these headers. */
static struct address client_of(const struct client_networks *w, const struct head *h)
{
    struct sockaddr_storage from = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&from;
    struct address sender, a;
    char text[INET6_ADDRSTRLEN];
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(0x0A000001);
    address_of(&sender, &from);
    a = sender;
    bool found = client_forwarded(&a, w, h);
    assert(found == (memcmp(&a, &sender, sizeof a) != 0) && address_id(&a) != 0);
    address_put(text, sizeof text, &a);
    if (found && text[0]) fuzz_accepted();
    return a;
}

/* Divide the list at its commas into headers. Return false if there are too many items or an empty
 * item, because an empty header is not an item. */
static bool divide(struct head *h, char *list)
{
    h->n_header = 0;
    while (list && h->n_header < HEADER_MAX) {
        const char *item = strsep(&list, ",");
        if (!*item) return false;
        h->header[h->n_header++] = (struct header){"x-forwarded-for", item};
    }
    return !list;
}

/* The first line is the list of trusted proxies, the second the header's value. */
FUZZ(net_forwarded)
{
    char *text = calloc(n + 1, 1), *rest = text;
    struct client_networks w, none = {0};
    struct err e = {0};
    if (!text) return;
    memcpy(text, data, n);
    const char *networks = strsep(&rest, "\n");
    char *list = rest ? strsep(&rest, "\n") : text + n;
    int rc = client_networks_parse(&w, networks, &e);
    assert((rc == 0) == (e.text[0] == 0));
    for (size_t i = 0; i < w.n; i++) assert(w.v[i].n_bit >= 0 && w.v[i].n_bit <= 128);
    if (rc == 0) {
        struct head h = {.n_header = 1, .header = {{"x-forwarded-for", list}}};
        struct address whole = client_of(&w, &h), sender = client_of(&none, &h);
        assert(whole.known && sender.known);
        if (divide(&h, list)) {
            struct address parts = client_of(&w, &h);
            assert(memcmp(&whole, &parts, sizeof whole) == 0);
        }
    }
    client_networks_deinit(&w);
    free(text);
}
