/* body.c - the memory of request bodies, shared fairly among holders (base/share.h).
 *
 * The first BODY_SMALL_BYTES of each body are not counted, because the number of connections bounds
 * them. Memory for further bytes is acquired as they arrive. The largest holder's newest unfinished
 * body is rejected if memory is exhausted, so that a holder below its share gets memory. A complete
 * body remains until its handler has read it. Loop thread. */
#include "net_impl.h"

#include "base/check.h"

/* Return the bytes of a body of n bytes that count against the shared memory. */
static int64_t beyond_small(int64_t n)
{
    return n > BODY_SMALL_BYTES ? n - BODY_SMALL_BYTES : 0;
}

static void list_add(struct exchange *x)
{
    CHECK(!x->unfinished && !x->settled, "settled: %d", x->settled);
    struct holder *h = x->holder;
    x->body_older = h->body_newest;
    x->body_newer = NULL;
    if (x->body_older) x->body_older->body_newer = x;
    h->body_newest = x;
    x->unfinished = true;
}

static void list_unlink(struct exchange *x)
{
    if (!x->unfinished) return;
    *(x->body_newer ? &x->body_newer->body_older : &x->holder->body_newest) = x->body_older;
    if (x->body_older) x->body_older->body_newer = x->body_newer;
    x->unfinished = false;
}

/* Reject the newest unfinished body of the holder `id`. Return false if the holder has no
 * unfinished body. */
static bool evict(struct net *n, uint64_t id)
{
    const struct holder *h = holder_find(n, id);
    struct exchange *x = h ? h->body_newest : NULL;
    if (!x) return false;
    conn_refuse_body(x->conn); /* conn_refuse_body also releases the body */
    return true;
}

bool body_fits(const struct exchange *x, int64_t n)
{
    return beyond_small(n) <= share_room(x->net->bodies, x->holder_id, exchange_holder_weight(x));
}

bool body_acquire(struct exchange *x)
{
    struct net *n = x->net;
    int64_t more = beyond_small((int64_t)x->body.n) - x->n_acquired;
    enum share_answer got = SHARE_TAKEN;
    uint64_t victim;
    if (more <= 0) return true;
    /* Each eviction shrinks the victim, so the loop ends. */
    do {
        got = share_acquire(n->bodies, x->holder_id, exchange_holder_weight(x), more, &victim);
    } while (got == SHARE_EVICT && evict(n, victim));
    if (got != SHARE_TAKEN) return false;
    if (x->n_acquired == 0) list_add(x);
    x->n_acquired += more;
    return true;
}

/* A settled body is in no list, so it cannot be evicted. share.c counts settled bytes separately,
 * because handlers release them without an eviction. */
void body_settle(struct exchange *x)
{
    CHECK(!x->settled, "%lld bytes", (long long)x->n_acquired);
    list_unlink(x);
    if (x->n_acquired) share_settle(x->net->bodies, x->holder_id, x->n_acquired);
    x->settled = true;
}

void body_release(struct exchange *x)
{
    list_unlink(x);
    if (x->n_acquired && x->settled)
        share_release_settled(x->net->bodies, x->holder_id, x->n_acquired);
    else if (x->n_acquired)
        share_release(x->net->bodies, x->holder_id, x->n_acquired);
    x->n_acquired = 0;
}
