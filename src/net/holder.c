/* holder.c - clients with connections or exchanges, by key or address, each with its weight.
 *
 * A holder exists while a connection or an exchange refers to it. A holder has three lists: waiting
 * exchanges (lane.c), connections without a complete head (oldest first), and unfinished bodies
 * (newest first). The connections and bodies of its lists may be evicted for a smaller holder. Loop
 * thread. */
#include "net_impl.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Return the bucket of a number. Numbers are hashes, so a few of their bits are enough. */
static size_t bucket_of(uint64_t id)
{
    return (id >> 16 ^ id) % HOLDER_BUCKETS;
}

struct holder *holder_find(const struct net *n, uint64_t id)
{
    struct holder *h = n->holder_bucket[bucket_of(id)];
    while (h && h->id != id) h = h->next_in_bucket;
    return h;
}

struct holder *holder_get(struct net *n, uint64_t id)
{
    struct holder **first = &n->holder_bucket[bucket_of(id)], *h = holder_find(n, id);
    if (!h) {
        h = calloc(1, sizeof *h);
        if (!h) return NULL;
        h->id = id;
        h->weight = 1;
        h->next_in_bucket = *first;
        *first = h;
        h->next = n->holders;
        if (h->next) h->next->prev = h;
        n->holders = h;
    }
    h->n_ref++;
    return h;
}

void holder_drop(struct net *n, struct holder *h)
{
    if (!h) return;
    CHECK(h->n_ref > 0, "holder %llx has %d references", (unsigned long long)h->id, h->n_ref);
    if (--h->n_ref > 0) return;
    CHECK(h->n_conn == 0 && h->n_exchange == 0, "%d connections, %d exchanges", h->n_conn,
          h->n_exchange);
    struct holder **at = &n->holder_bucket[bucket_of(h->id)];
    while (*at != h) at = &(*at)->next_in_bucket;
    *at = h->next_in_bucket;
    if (h->prev) h->prev->next = h->next;
    if (h->next) h->next->prev = h->prev;
    if (n->holders == h) n->holders = h->next;
    free(h);
}

/* ---- connections that can be closed ---- */

/* Return the list of a connection, which depends on has_received. A connection must leave its list
 * before has_received changes. */
static struct conn_list *list_of(const struct conn *c)
{
    return c->has_received ? &c->holder->idle : &c->holder->silent;
}

void holder_link(struct conn *c, bool oldest)
{
    struct conn_list *l = list_of(c);
    if (c->idle) return;
    c->idle = true;
    c->idle_prev = oldest ? NULL : l->last;
    c->idle_next = oldest ? l->first : NULL;
    *(c->idle_prev ? &c->idle_prev->idle_next : &l->first) = c;
    *(c->idle_next ? &c->idle_next->idle_prev : &l->last) = c;
}

void holder_unlink(struct conn *c)
{
    struct conn_list *l = list_of(c);
    if (!c->idle) return;
    c->idle = false;
    *(c->idle_prev ? &c->idle_prev->idle_next : &l->first) = c->idle_next;
    *(c->idle_next ? &c->idle_next->idle_prev : &l->last) = c->idle_prev;
}

/* Move a connection that begins to send to the end of `idle`, as its youngest connection. */
void holder_received(struct conn *c)
{
    bool idle = c->idle;
    if (c->has_received) return;
    holder_unlink(c);
    c->has_received = true;
    if (idle) holder_link(c, false);
}

/* Transfer a connection to the holder of its first request with a key. */
void holder_claim(struct conn *c, struct holder *h)
{
    bool idle = c->idle;
    if (c->holder == h) return;
    CHECK(c->holder->n_conn > 0, "holder %llx", (unsigned long long)c->holder->id);
    holder_unlink(c);
    c->holder->n_conn--;
    holder_drop(c->net, c->holder);
    c->holder = h;
    h->n_ref++;
    h->n_conn++;
    if (idle) holder_link(c, false);
}

/* Return true if the client has sent bytes that the loop has not read. A connection with unread
 * bytes is silent only because the loop was late. */
static bool has_unread(const struct conn *c)
{
    char first;
    return recv(c->sock.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Return the connection of h that is closed first; NULL if none. The number of examined silent
 * connections is limited, because each examination takes a system call. */
static struct conn *closable(const struct holder *h, int64_t silent_us)
{
    enum { EXAMINED_MAX = 8 };
    struct conn *c = h->silent.first;
    for (int i = 0; i < EXAMINED_MAX && c && c->accepted_us < silent_us; i++, c = c->idle_next)
        if (!has_unread(c)) return c;
    return h->idle.first;
}

struct conn *holder_victim(const struct net *n, bool any, int64_t silent_us)
{
    const struct holder *most = NULL;
    for (const struct holder *h = n->holders; h; h = h->next)
        if ((!any || h->idle.first || h->silent.first) &&
            /* compare products instead of the quotients n_conn / weight, which need divisions */
            (!most || h->n_conn * most->weight > most->n_conn * h->weight))
            most = h;
    return most ? closable(most, silent_us) : NULL;
}
