/* body.c - the memory of request bodies, shared fairly among holders (base/share.h).
 *
 * The first BODY_SMALL_BYTES of each body are free: the number of connections bounds them. The
 * bytes beyond are acquired as they arrive. If none are left, the largest holder's newest
 * unfinished body is rejected, so that a holder below its share is admitted. A complete body stays
 * until its handler has read it. Loop thread. */
#include "net_impl.h"

static int64_t beyond_small(int64_t n)
{
    return n > BODY_SMALL_BYTES ? n - BODY_SMALL_BYTES : 0;
}

static void list_add(struct exchange *x)
{
    struct holder *h = x->holder;
    x->body_older = h->body_newest;
    x->body_newer = NULL;
    if (x->body_older) x->body_older->body_newer = x;
    h->body_newest = x;
    x->unfinished = true;
}

static void list_drop(struct exchange *x)
{
    if (!x->unfinished) return;
    *(x->body_newer ? &x->body_newer->body_older : &x->holder->body_newest) = x->body_older;
    if (x->body_older) x->body_older->body_newer = x->body_newer;
    x->unfinished = false;
}

/* Reject the newest unfinished body of that holder. Returns false if it has none. */
static bool evict(struct net *n, uint64_t id)
{
    const struct holder *h = holder_find(n, id);
    struct exchange *x = h ? h->body_newest : NULL;
    if (!x) return false;
    conn_refuse_body(x->conn); /* releases it too */
    return true;
}

bool body_fits(const struct exchange *x, int64_t n)
{
    return beyond_small(n) <= share_room(x->net->bodies, x->share_id, exchange_share_weight(x));
}

bool body_acquire(struct exchange *x)
{
    struct net *n = x->net;
    int64_t more = beyond_small((int64_t)x->body.n) - x->n_acquired;
    enum share_answer got = SHARE_TAKEN;
    uint64_t victim;
    if (more <= 0) return true;
    do {
        got = share_acquire(n->bodies, x->share_id, exchange_share_weight(x), more, &victim);
    } while (got == SHARE_EVICT && evict(n, victim));
    if (got != SHARE_TAKEN) return false;
    if (x->n_acquired == 0) list_add(x);
    x->n_acquired += more;
    return true;
}

void body_settle(struct exchange *x)
{
    list_drop(x);
    if (x->n_acquired) share_settle(x->net->bodies, x->share_id, x->n_acquired);
    x->settled = true;
}

void body_release(struct exchange *x)
{
    list_drop(x);
    if (x->n_acquired && x->settled)
        share_release_settled(x->net->bodies, x->share_id, x->n_acquired);
    else if (x->n_acquired)
        share_release(x->net->bodies, x->share_id, x->n_acquired);
    x->n_acquired = 0;
}
