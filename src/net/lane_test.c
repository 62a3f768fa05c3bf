/* lane_test.c - goal: lanes and connections keep their invariants, and a violated invariant is
 * reported. Method: a server without sockets and threads. The test replaces the handlers. The test
 * takes exchanges from the queues of the lanes. Arrivals, returns and disconnects have a random
 * order. */
#include "net_impl.h"

#include "base/rng.h"
#include "../../tests/unit.h"

#include <stdlib.h>

enum { N_HOLDER = 5, N_EXCHANGE = 60, N_ROUND = 20000 };

struct lanes {
    struct net net;
    struct net_route quick, usual;
    struct holder *holder[N_HOLDER];
    struct exchange x[N_EXCHANGE];
    bool taken[N_EXCHANGE]; /* true if the exchange waits or a handler has taken it */
    struct exchange *busy[N_EXCHANGE];
    int n_busy;
};

static bool lanes_open(struct lanes *t)
{
    *t = (struct lanes){.net = {.o = {.n_handler = 3}, .event = -1}, .quick = {.how = ROUTE_QUICK}};
    if (lane_open(&t->net) != 0) return false;
    for (int i = 0; i < N_HOLDER; i++) {
        t->holder[i] = holder_get(&t->net, (uint64_t)i + 1);
        if (!t->holder[i]) return false;
        t->holder[i]->weight = 1 + i % 3;
    }
    return true;
}

static void lanes_close(struct lanes *t)
{
    lane_close(&t->net);
    for (int i = 0; i < N_HOLDER; i++) holder_drop(&t->net, t->holder[i]);
}

static void add(struct lanes *t, int i, int holder, enum lane_kind kind)
{
    struct exchange *x = &t->x[i];
    *x = (struct exchange){.net = &t->net,
                           .holder = t->holder[holder],
                           .route = kind == LANE_QUICK ? &t->quick : &t->usual};
    x->body.n = kind == LANE_LONG ? BODY_SMALL_BYTES + 1 : 0;
    atomic_store(&x->n_ref, 2);
    t->taken[i] = true;
    lane_add(&t->net, x);
}

static void take_started(struct lanes *t)
{
    for (int k = 0; k < N_LANE; k++)
        while (queue_pop(t->net.lane[k].queue, &t->busy[t->n_busy], 0)) t->n_busy++;
}

/* Return from handler i. */
static void finish(struct lanes *t, int i)
{
    struct exchange *x = t->busy[i];
    t->busy[i] = t->busy[--t->n_busy];
    t->taken[x - t->x] = false;
    lane_finished(x, x->lane, false);
    lane_reap(&t->net);
}

static void disconnect(struct lanes *t, int i)
{
    if (t->taken[i] && lane_remove(&t->net, &t->x[i])) t->taken[i] = false;
}

TEST(lanes_keep_their_invariants)
{
    static struct lanes t;
    NEED(lanes_open(&t));
    uint64_t seed = 7;
    bool good = true;
    for (int round = 0; round < N_ROUND && good; round++) {
        int what = (int)rng_below(&seed, 8), i = (int)rng_below(&seed, N_EXCHANGE);
        int holder = (int)rng_below(&seed, N_HOLDER), kind = (int)rng_below(&seed, N_LANE);
        if (what < 4 && !t.taken[i])
            add(&t, i, holder, (enum lane_kind)kind);
        else if (what < 7 && t.n_busy > 0)
            finish(&t, i % t.n_busy);
        else
            disconnect(&t, i);
        take_started(&t);
        good = !lane_check(&t.net);
        EXPECT(good);
    }
    lanes_close(&t);
}

TEST(lanes_with_violated_invariants_are_reported)
{
    static struct lanes t;
    NEED(lanes_open(&t));
    for (int i = 0; i < 30; i++) add(&t, i, i % 2, LANE_SHORT);
    struct lane *lane = &t.net.lane[LANE_SHORT];
    struct holder_queue *l = &t.holder[0]->line[LANE_SHORT];
    NEED(!lane_check(&t.net) && l->first && l->first->wait_next && l->n_busy > 0);
    l->first->waits = false;
    EXPECT(lane_check(&t.net));
    l->first->waits = true;
    l->first->wait_next->wait_prev = NULL;
    EXPECT(lane_check(&t.net));
    l->first->wait_next->wait_prev = l->first;
    l->n_busy--;
    EXPECT(lane_check(&t.net));
    l->n_busy++;
    atomic_fetch_add(&lane->n_waiting, 1);
    EXPECT(lane_check(&t.net));
    atomic_fetch_sub(&lane->n_waiting, 1);
    struct holder_queue *turn = lane->turn;
    lane->turn = NULL;
    EXPECT(lane_check(&t.net));
    lane->turn = turn;
    lane->n_thread++; /* add an idle thread */
    EXPECT(lane_check(&t.net));
    lane->n_thread--;
    EXPECT(!lane_check(&t.net));
    lanes_close(&t);
}

TEST(connections_with_violated_invariants_are_reported)
{
    struct net n = {0};
    struct exchange x = {.net = &n};
    struct conn c = {.net = &n, .state = CONN_HEAD, .deadline_us = 1};
    c.holder = holder_get(&n, 1);
    NEED(c.holder);
    n.conns = &c;
    atomic_store(&n.n_conn, 1);
    c.holder->n_conn = 1;
    holder_link(&c, false);
    EXPECT(!conn_check(&n));
    c.x = &x; /* an exchange of a connection before CONN_BODY */
    EXPECT(conn_check(&n));
    c.state = CONN_BODY; /* an exchange of another connection */
    EXPECT(conn_check(&n));
    x.conn = &c; /* the connection may be closed while a body arrives */
    EXPECT(conn_check(&n));
    holder_unlink(&c);
    EXPECT(!conn_check(&n));
    c.deadline_us = 0;
    EXPECT(conn_check(&n));
    c.state = CONN_ANSWER;
    EXPECT(!conn_check(&n));
    c.holder->n_conn = 2;
    EXPECT(conn_check(&n));
    c.holder->n_conn = 1;
    c.idle = true; /* an idle connection in no list */
    EXPECT(conn_check(&n));
    c.idle = false;
    c.dead = true;
    EXPECT(conn_check(&n));
    c.holder->n_conn = 0;
    holder_drop(&n, c.holder);
}
