/* count.c - counters of answers by route, for monitoring. The loop thread counts an answer together
 * with its line of the access log. An answer is counted after its last byte, or after its client
 * disconnected. Any thread may read the counters. Counters are read one by one, so a reader may
 * find an answer counted in some counters only. */
#include "net_impl.h"

#include "base/os.h"

#include <stdlib.h>

#define MS 1000
#define S  1000000
const int64_t net_time_bound[NET_TIMES] = {
    10 * MS,  25 * MS,   50 * MS,   75 * MS,   100 * MS,  250 * MS, 500 * MS,
    750 * MS, 1 * S,     1500 * MS, 2 * S,     2500 * MS, 3 * S,    3500 * MS,
    4 * S,    4500 * MS, 5 * S,     7500 * MS, 10 * S,    30 * S,   60 * S};

struct answer_count {
    _Atomic int64_t n_status[6], n_byte_in, n_byte_out, time_us, n_time[NET_TIMES + 1];
};

bool count_open(struct net *n)
{
    n->count = calloc((size_t)n->o.n_route + 1, sizeof *n->count);
    return n->count;
}

/* Add x to a counter. Relaxed order is enough, because counters do not order other data. */
static void add(_Atomic int64_t *to, int64_t x)
{
    atomic_fetch_add_explicit(to, x, memory_order_relaxed);
}

void count_answer(struct net *n, const struct exchange *x, int status)
{
    struct answer_count *c = &n->count[x->route ? x->route - n->o.route : n->o.n_route];
    int64_t us = time_us() - x->start_us;
    int k = 0;
    while (k < NET_TIMES && us > net_time_bound[k]) k++;
    add(&n->n_request, 1);
    add(&n->n_status[status / 100 % 6], 1);
    add(&c->n_status[status / 100 % 6], 1);
    add(&c->n_byte_in, (int64_t)x->n_body);
    add(&c->n_byte_out, (int64_t)x->n_sent);
    add(&c->time_us, us);
    add(&c->n_time[k], 1);
}

/* A refusal without an exchange has no route, so the last item counts it. */
void count_refused(struct net *n)
{
    add(&n->n_request, 1);
    add(&n->n_status[5], 1);
    add(&n->count[n->o.n_route].n_status[5], 1);
}

/* Read one counter. Counters of one answer may be read partly before and partly after its count. */
static int64_t read_one(const _Atomic int64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

void net_answers(const struct net *n, int i, struct net_answers *out)
{
    const struct answer_count *c = &n->count[i];
    *out = (struct net_answers){.n_byte_in = read_one(&c->n_byte_in),
                                .n_byte_out = read_one(&c->n_byte_out),
                                .time_us = read_one(&c->time_us)};
    for (int k = 0; k < 6; k++) out->n_status[k] = read_one(&c->n_status[k]);
    for (int k = 0; k <= NET_TIMES; k++) out->n_time[k] = read_one(&c->n_time[k]);
}
