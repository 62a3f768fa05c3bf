/* lane.c - assign waiting requests to handler threads.
 *
 * A lane is a set of handler threads and the exchanges that wait for them. Short bodies, long
 * bodies and quick routes have a lane each. Therefore a body that takes seconds to parse and
 * tokenize delays only long bodies. Holders take turns in proportion to their weights. No holder
 * may use all threads of a lane. Therefore a holder that sends many requests delays only itself.
 *
 * The lane's clock is the due time of the latest turn. A holder's next turn is due 1 / weight after
 * its latest turn. A holder gets no compensation for time in which it has no waiting exchange or
 * all its allowed threads are busy.
 *
 *   hand_over -> WAITS --a thread is idle--> BUSY --handler returns--> lane_reap
 *                  \__disconnect: lane_remove, and the exchange is over
 *
 * (1) An exchange with `waits` is in the line of its holder and lane only. The lane's n_waiting is
 *     the number of these exchanges.
 * (2) The ring of turns contains each line with waiting exchanges once, in the order of due times,
 *     and no other line.
 * (3) n_busy of a lane is the sum over its lines, at most n_thread. n_busy of a line is at most
 *     n_each. Therefore a queue of 2 n_thread exchanges is never full.
 * (4) No thread is idle if an exchange waits in a line that may use one more thread.
 *
 * Loop thread, except lane_finished (handler threads). A handler wakes the loop only if exchanges
 * wait. The handler queues its message before it checks n_waiting. The loop increases n_waiting
 * before it checks the handlers' queue. Therefore no message is missed. */
#include "net_impl.h"

#include "base/check.h"

#include <stdlib.h>

int lane_open(struct net *n)
{
    int max = n->o.n_handler;
    struct lane *v = n->lane;
    /* One thread is enough for quick routes, whose handlers are short. Other lanes have one thread
     * more than a holder may use, so one thread remains for other holders. */
    v[LANE_QUICK].n_thread = v[LANE_QUICK].n_each = 1;
    v[LANE_SHORT].n_thread = max + 1, v[LANE_SHORT].n_each = max;
    v[LANE_LONG].n_thread = max > 2 ? max : 2, v[LANE_LONG].n_each = v[LANE_LONG].n_thread - 1;
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

/* Insert l into the ring of holders with waiting exchanges, in the order of due times. The first
 * line is turn, and the last line is turn->prev. The search begins at the end, because the place of
 * l is usually near the end. */
static void turn_add(struct lane *lane, struct holder_queue *l, double weight)
{
    struct holder_queue *first = lane->turn, *before = first ? first->prev : NULL;
    l->due = lane->now + 1 / weight;
    while (before && before->due > l->due) before = before == first ? NULL : before->prev;
    l->next = before ? before->next : first ? first : l;
    l->prev = l->next == l ? l : l->next->prev;
    l->prev->next = l->next->prev = l;
    if (!before) lane->turn = l;
}

/* Remove l from the ring of turns. The neighbours of l are then invalid. */
static void turn_drop(struct lane *lane, struct holder_queue *l)
{
    if (lane->turn == l) lane->turn = l->next == l ? NULL : l->next;
    l->prev->next = l->next;
    l->next->prev = l->prev;
}

/* Remove x from its line. A line without exchanges leaves the ring of turns (invariant 2). */
static void unlink_waiting(struct net *n, struct exchange *x)
{
    struct lane *lane = &n->lane[x->lane];
    struct holder_queue *l = &x->holder->line[x->lane];
    *(x->wait_prev ? &x->wait_prev->wait_next : &l->first) = x->wait_next;
    *(x->wait_next ? &x->wait_next->wait_prev : &l->last) = x->wait_prev;
    if (!l->first) turn_drop(lane, l);
    CHECK(x->waits && atomic_load(&lane->n_waiting) > 0, "waits: %d", x->waits);
    x->waits = false;
    atomic_fetch_sub(&lane->n_waiting, 1);
}

/* Return the next line that may use one more thread; NULL if none. */
static struct holder_queue *next_line(const struct lane *lane)
{
    struct holder_queue *l = lane->turn;
    while (l && l->n_busy >= lane->n_each) l = l->next == lane->turn ? NULL : l->next;
    return l;
}

/* Give exchanges to idle threads until invariant (4) holds. The clock advances to the due time of
 * the selected line and never decreases. */
static void start_exchanges(struct net *n, struct lane *lane)
{
    struct holder_queue *l;
    while (lane->n_busy < lane->n_thread && (l = next_line(lane))) {
        struct exchange *x = l->first;
        if (l->due > lane->now) lane->now = l->due;
        unlink_waiting(n, x);
        if (l->first) turn_drop(lane, l), turn_add(lane, l, x->holder->weight);
        l->n_busy++;
        lane->n_busy++;
        bool fits = queue_push(lane->queue, &x);
        CHECK(fits, "no room for %d threads", lane->n_thread);
    }
}

/* ---- from and to handlers ---- */

/* Return the lane of an exchange. A moved exchange uses the lane of long bodies, because the rest
 * of its work is long. */
static enum lane_kind lane_of(const struct exchange *x)
{
    if (x->moved) return LANE_LONG;
    if (x->route->how & ROUTE_QUICK) return LANE_QUICK;
    return x->body.n > BODY_SMALL_BYTES ? LANE_LONG : LANE_SHORT;
}

/* Call lane_reap before start_exchanges, because the message of a finished thread may be unread. */
void lane_add(struct net *n, struct exchange *x)
{
    CHECK(!x->waits && x->holder, "lane %d", (int)x->lane);
    x->lane = lane_of(x);
    struct lane *lane = &n->lane[x->lane];
    struct holder_queue *l = &x->holder->line[x->lane];
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
    if (!x->waits || x->moved || x->deferred) return false; /* its callback must run */
    unlink_waiting(n, x);
    return true;
}

void lane_finished(struct exchange *x, enum lane_kind lane, bool keeps_body)
{
    struct net *n = x->net;
    bool fits = queue_push(n->finished, &(struct finished){x, lane, keeps_body});
    CHECK(fits, "no room for all threads of lane %d", (int)lane);
    if (atomic_load(&n->lane[lane].n_waiting) > 0) net_ring(n);
}

void lane_reap(struct net *n)
{
    struct finished f;
    while (queue_pop(n->finished, &f, 0)) {
        struct lane *lane = &n->lane[f.lane];
        CHECK(lane->n_busy > 0 && f.x->holder->line[f.lane].n_busy > 0, "%d busy threads",
              lane->n_busy);
        f.x->holder->line[f.lane].n_busy--;
        lane->n_busy--;
        /* memory is released here, because the handler has read and freed the body */
        if (!f.keeps_body) body_release(f.x);
        exchange_drop(f.x);
        start_exchanges(n, lane);
    }
}

/* ---- invariants ---- */

/* Return the number of exchanges that wait in l, the line of h; -1 if they are not linked. */
static int n_in_line(const struct holder_queue *l, const struct holder *h, enum lane_kind kind)
{
    const struct exchange *before = NULL;
    int n = 0;
    for (const struct exchange *x = l->first; x; before = x, x = x->wait_next, n++)
        if (!x->waits || x->lane != kind || x->holder != h || x->wait_prev != before) return -1;
    return l->last == before ? n : -1;
}

/* Return the number of lines in the ring of turns; -1 if it is broken or not in order. */
static int n_in_ring(const struct lane *lane)
{
    const struct holder_queue *l = lane->turn;
    int n = 0;
    if (!l) return 0;
    do {
        if (!l->first || l->next->prev != l) return -1;
        if (l->next != lane->turn && l->next->due < l->due) return -1;
        n++;
        l = l->next;
    } while (l != lane->turn);
    return n;
}

/* Return the violated invariant of a lane; NULL if none. Loop thread. */
static const char *check_lane(const struct net *n, enum lane_kind kind)
{
    const struct lane *lane = &n->lane[kind];
    int n_waiting = 0, n_busy = 0, n_line = 0;
    for (const struct holder *h = n->holders; h; h = h->next) {
        const struct holder_queue *l = &h->line[kind];
        int n_here = n_in_line(l, h, kind);
        if (n_here < 0) return "an exchange waits in another line than its own";
        if (l->n_busy < 0 || l->n_busy > lane->n_each) return "a holder has too many threads";
        n_waiting += n_here;
        n_line += n_here > 0;
        n_busy += l->n_busy;
    }
    if (n_waiting != atomic_load(&lane->n_waiting)) return "a lane's exchanges are miscounted";
    if (n_busy != lane->n_busy || n_busy > lane->n_thread) return "a lane's threads are miscounted";
    if (n_in_ring(lane) != n_line) return "the turns of a lane are not those of its lines";
    if (n_busy < lane->n_thread && next_line(lane)) return "a thread is idle, and a line waits";
    return NULL;
}

const char *lane_check(const struct net *n)
{
    const char *wrong = NULL;
    for (int i = 0; i < N_LANE && !wrong; i++) wrong = check_lane(n, (enum lane_kind)i);
    return wrong;
}
