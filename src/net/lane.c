/* lane.c - which request a handler thread gets next.
 *
 * A lane is a set of handler threads and the exchanges that wait for them. Short bodies, long
 * bodies and quick routes have a lane each, so that seconds of parsing and tokenizing delay long
 * bodies only. Within a lane holders take turns in proportion to their weights, and none gets all
 * threads: a flood delays its own holder only.
 *
 * Turns are due in the lane's clock, which is the due time of the latest turn. A holder's next turn
 * is 1 / weight later. A holder that had nothing waiting, or all threads allowed, is not
 * compensated for that time.
 *
 *   hand_over -> WAITS --a thread is idle--> BUSY --handler returns--> lane_reap
 *                  \__disconnect: lane_remove, and the exchange is over
 *
 * Loop thread, except lane_finished (handler threads). A handler rings the loop only if exchanges
 * wait. It checks that after queueing its message; the loop counts a waiting exchange before it
 * checks that queue. */
#include "net_impl.h"

#include <stdlib.h>

int lane_open(struct net *n)
{
    int most = n->o.n_handler;
    struct lane *v = n->lane;
    v[LANE_QUICK].n_thread = v[LANE_QUICK].n_each = 1;
    v[LANE_SHORT].n_thread = most + 1, v[LANE_SHORT].n_each = most;
    v[LANE_LONG].n_thread = most > 2 ? most : 2, v[LANE_LONG].n_each = v[LANE_LONG].n_thread - 1;
    n->n_handler = 0;
    for (int i = 0; i < N_LANE; i++) {
        n->n_handler += v[i].n_thread;
        v[i].queue = queue_open((size_t)v[i].n_thread * 2, sizeof(struct exchange *));
        if (!v[i].queue) return ERR_MEMORY;
    }
    n->finished = queue_open((size_t)n->n_handler * 2, sizeof(struct finished));
    return n->finished ? 0 : ERR_MEMORY;
}

void lane_close(struct net *n)
{
    for (int i = 0; i < N_LANE; i++) queue_close(n->lane[i].queue);
    queue_close(n->finished);
}

/* ---- turns ---- */

/* Insert l into the ring of holders with waiting exchanges, by due time: turn is the first,
 * turn->prev the last. With equal weights it goes to the end, so the walk is short. */
static void turn_add(struct lane *lane, struct line *l, double weight)
{
    struct line *first = lane->turn, *before = first ? first->prev : NULL;
    l->due = lane->now + 1 / weight;
    while (before && before->due > l->due) before = before == first ? NULL : before->prev;
    l->next = before ? before->next : first ? first : l;
    l->prev = l->next == l ? l : l->next->prev;
    l->prev->next = l->next->prev = l;
    if (!before) lane->turn = l;
}

static void turn_drop(struct lane *lane, struct line *l)
{
    if (lane->turn == l) lane->turn = l->next == l ? NULL : l->next;
    l->prev->next = l->next;
    l->next->prev = l->prev;
}

static void unlink_waiting(struct net *n, struct exchange *x)
{
    struct lane *lane = &n->lane[x->lane];
    struct line *l = &x->holder->line[x->lane];
    *(x->wait_prev ? &x->wait_prev->wait_next : &l->first) = x->wait_next;
    *(x->wait_next ? &x->wait_next->wait_prev : &l->last) = x->wait_prev;
    if (!l->first) turn_drop(lane, l);
    x->waits = false;
    atomic_fetch_sub(&lane->n_waiting, 1);
}

/* Return the next line that may have one more thread; NULL if none. */
static struct line *next_line(const struct lane *lane)
{
    struct line *l = lane->turn;
    while (l && l->n_busy >= lane->n_each) l = l->next == lane->turn ? NULL : l->next;
    return l;
}

static void start_exchanges(struct net *n, struct lane *lane)
{
    struct line *l;
    while (lane->n_busy < lane->n_thread && (l = next_line(lane))) {
        struct exchange *x = l->first;
        if (l->due > lane->now) lane->now = l->due;
        unlink_waiting(n, x);
        if (l->first) turn_drop(lane, l), turn_add(lane, l, x->holder->weight);
        l->n_busy++;
        lane->n_busy++;
        queue_push(lane->queue, &x); /* has room for all threads */
    }
}

/* ---- from and to handlers ---- */

static enum lane_kind lane_of(const struct exchange *x)
{
    if (x->moved) return LANE_LONG;
    if (x->route->how & ROUTE_QUICK) return LANE_QUICK;
    return x->body.n > BODY_SMALL_BYTES ? LANE_LONG : LANE_SHORT;
}

void lane_add(struct net *n, struct exchange *x)
{
    x->lane = lane_of(x);
    struct lane *lane = &n->lane[x->lane];
    struct line *l = &x->holder->line[x->lane];
    if (!l->first) turn_add(lane, l, x->holder->weight);
    x->wait_prev = l->last;
    x->wait_next = NULL;
    *(l->last ? &l->last->wait_next : &l->first) = x;
    l->last = x;
    x->waits = true;
    atomic_fetch_add(&lane->n_waiting, 1);
    lane_reap(n);
    start_exchanges(n, lane);
}

bool lane_remove(struct net *n, struct exchange *x)
{
    if (!x->waits || x->moved) return false;
    unlink_waiting(n, x);
    return true;
}

void lane_finished(struct exchange *x, enum lane_kind lane)
{
    struct net *n = x->net;
    queue_push(n->finished, &(struct finished){x, lane}); /* has room for all threads */
    if (atomic_load(&n->lane[lane].n_waiting) > 0) net_ring(n);
}

void lane_reap(struct net *n)
{
    struct finished f;
    while (queue_pop(n->finished, &f, 0)) {
        struct lane *lane = &n->lane[f.lane];
        f.x->holder->line[f.lane].n_busy--;
        lane->n_busy--;
        body_release(f.x); /* the handler has read and freed it */
        exchange_drop(f.x);
        start_exchanges(n, lane);
    }
}
