/* Goal: every policy has the order that its file describes, and allocates no memory after its
 * opening. No entity starves under any policy. Method: entities by hand and by a seeded generator,
 * without an engine. */
#include "policy_impl.h"

#include "base/rng.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static struct policy *open_policy(const char *name)
{
    struct policy *p;
    struct err e;
    struct policy_options o = {.name = name, .n_seq = 4, .starvation_us = 1000000};
    if (policy_open(&p, &o, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.text);
        exit(1); /* no later test could continue */
    }
    return p;
}

static struct sched_entity make_entity(uint64_t arrival, int n_prompt)
{
    return (struct sched_entity){
        .arrival = arrival, .n_prompt = n_prompt, .n_left = n_prompt, .holder_weight = 1};
}

/* Return the waiting entity that ranks first, in the order of rank.c. */
static int first(const struct policy *p, struct sched_entity *const *se, int n, int64_t now_us)
{
    int best = -1;
    int64_t best_rank = 0;
    for (int i = 0; i < n; i++) {
        int64_t rank = policy_rank(p, se[i], now_us);
        if (se[i]->running ||
            (best >= 0 &&
             (rank > best_rank || (rank == best_rank && se[i]->arrival > se[best]->arrival))))
            continue;
        best = i;
        best_rank = rank;
    }
    return best;
}

TEST(policies_are_found_by_name)
{
    struct policy *p;
    struct err e;
    int n = 0;
    for (; policy_name(n); n++) {
        NEED_OK(policy_open(&p, &(struct policy_options){.name = policy_name(n), .n_seq = 1}, &e),
                &e);
        policy_close(p);
    }
    EXPECT_INT(n, 9);
    EXPECT_INT(policy_open(&p, &(struct policy_options){.name = "lifo"}, &e), ERR_ARG);
    for (int i = 0; i < n; i++) EXPECT(strstr(e.text, policy_name(i)));
    EXPECT(strstr(e.text, "lifo"));
    EXPECT(!p);
    policy_close(NULL);
}

TEST(each_policy_orders_as_documented)
{
    /* four entities of two holders; the first holder had two seconds of service before the other
     * entities arrive */
    static const struct {
        int n_prompt, n_cached, priority;
        uint64_t holder;
    } what[4] = {{900, 0, 5, 7}, {3000, 2900, 0, 7}, {120, 0, 5, 8}, {500, 64, -1, 8}};
    static const struct {
        const char *name, *order;
    } want[] = {{"fcfs", "0123"},        {"priority", "3102"}, {"mlfq", "2301"},
                {"sjf", "1230"},         {"lpm", "1302"},      {"fair", "2301"},
                {"round_robin", "0123"}, {"static", "0123"},   {"window", "0123"}};
    for (size_t w = 0; w < sizeof want / sizeof want[0]; w++) {
        struct policy *p = open_policy(want[w].name);
        struct sched_entity se[4], *at[4], before = make_entity(0, 10), other = make_entity(1, 10);
        before.holder = 7, other.holder = 8;
        policy_arrive(p, &before, 0);
        policy_arrive(p, &other, 0);
        policy_admitted(p, &before, 0);
        policy_served(p, &before, 10, 10, 2000000, 0);
        char order[5] = "";
        for (int i = 0; i < 4; i++) {
            se[i] = make_entity((uint64_t)i + 2, what[i].n_prompt);
            se[i].holder = what[i].holder;
            se[i].priority = what[i].priority;
            if (strcmp(want[w].name, "mlfq") != 0) se[i].n_cached = what[i].n_cached;
            at[i] = &se[i];
            policy_arrive(p, &se[i], 0);
        }
        for (int i = 0; i < 4; i++) {
            int k = first(p, at, 4, 0);
            order[i] = (char)('0' + k);
            /* the ranks of the other entities stay: no holder is charged for this */
            se[k].running = true;
        }
        EXPECT_TEXT(order, want[w].order);
        policy_close(p);
    }
}

/* ---- starvation ---- */

TEST(a_turn_that_waited_for_its_bound_goes_first_and_stays)
{
    for (int i = 0; policy_name(i); i++) {
        struct policy *p = open_policy(policy_name(i));
        struct sched_entity old = make_entity(5, 8000), older = make_entity(6, 8000),
                            fresh = make_entity(0, 1);
        old.priority = older.priority = 100;
        fresh.n_cached = 1;
        policy_arrive(p, &older, 0);
        policy_arrive(p, &old, 10);
        policy_arrive(p, &fresh, 900000);
        int64_t now = 1000009;
        EXPECT(policy_rank(p, &older, now) < policy_rank(p, &fresh, now));
        /* the bound is in the future */
        EXPECT(policy_rank(p, &old, 1000009) == policy_rank(p, &old, 500000));
        now = 1000010;
        EXPECT(policy_rank(p, &old, now) < policy_rank(p, &fresh, now));
        EXPECT(policy_rank(p, &older, now) < policy_rank(p, &old, now));
        policy_admitted(p, &older, now);
        policy_served(p, &older, 8000, 8000, 3000000, now);
        EXPECT(policy_rank(p, &older, now) < policy_rank(p, &old, now));
        policy_preempted(p, &older, now); /* preempted, for example for lack of pages */
        EXPECT(policy_rank(p, &older, now) < policy_rank(p, &old, now));
        policy_close(p);
    }
}

/* Check that no entity passes an overdue entity that arrived earlier. The arrivals are random, at a
 * server of four places that is always too slow. */
static void no_sequence_starves(const char *name, int n_entity)
{
    enum { N_MAX = 512 };
    static struct sched_entity entity[N_MAX];
    struct sched_entity *at[N_MAX], *running[4] = {0};
    int left[4] = {0}, n = 0, n_arrived = 0, n_done = 0;
    struct policy *p = open_policy(name);
    uint64_t rng = 77, n_malloc = test_n_malloc();
    for (int64_t now = 0; n_done < n_entity; now += 10000) {
        if (n_arrived < n_entity && n < N_MAX - 4 && rng_below(&rng, 3) == 0) {
            struct sched_entity *se = NULL; /* a free place */
            for (int i = 0; i < N_MAX && !se; i++)
                if (entity[i].n_prompt == 0) se = &entity[i];
            *se = make_entity((uint64_t)n_arrived++, 1 + (int)rng_below(&rng, 4000));
            se->priority = (int)rng_below(&rng, 5);
            se->holder = rng_below(&rng, 3);
            se->n_cached = (int)rng_below(&rng, (uint64_t)se->n_prompt);
            policy_arrive(p, se, now);
            at[n++] = se;
        }
        int n_running = 0;
        for (int i = 0; i < 4; i++) n_running += running[i] != NULL;
        for (int i = 0; i < 4; i++) {
            if (!running[i]) {
                int k = first(p, at, n, now);
                int64_t oldest = 0;
                if (k < 0 || !policy_admits(p, n_running, n, oldest, now)) continue;
                for (int j = 0; j < n; j++)
                    if (now - at[j]->ready_us >= 1000000 && strcmp(name, "fair") != 0)
                        EXPECT(now - at[k]->ready_us >= 1000000 &&
                               at[k]->ready_us <= at[j]->ready_us);
                running[i] = at[k];
                at[k] = at[--n];
                left[i] = 20 + (int)rng_below(&rng, 30);
                policy_admitted(p, running[i], now);
                n_running++;
            }
            policy_served(p, running[i], 1 + (int)rng_below(&rng, 100), 200, 10000, now);
            if (--left[i] > 0) continue;
            policy_leave(p, running[i]);
            running[i]->n_prompt = 0;
            running[i] = NULL;
            n_running--;
            n_done++;
        }
    }
    EXPECT_INT(test_n_malloc() - n_malloc, 0);
    for (int i = 0; i < N_MAX; i++) entity[i].n_prompt = 0;
    policy_close(p);
}

TEST(no_entity_starves_under_any_policy)
{
    for (int i = 0; policy_name(i); i++)
        no_sequence_starves(policy_name(i), test_long() ? 20000 : 1000);
}

/* ---- mlfq ---- */

TEST(mlfq_joins_by_prompt_and_goes_down_by_quantum)
{
    struct policy *p = open_policy("mlfq");
    static const int prompt[] = {1, 64, 65, 128, 1000, 8192, 8193, 1 << 17, 1 << 30},
                     level[] = {0, 0, 1, 1, 4, 7, 8, 11, 11};
    for (size_t i = 0; i < sizeof prompt / sizeof prompt[0]; i++) {
        struct sched_entity se = make_entity(0, prompt[i]);
        policy_arrive(p, &se, 0);
        EXPECT_INT(policy_rank(p, &se, 0), level[i]);
    }
    struct sched_entity se = make_entity(0, 40);
    policy_arrive(p, &se, 0);
    policy_admitted(p, &se, 0);
    policy_served(p, &se, 40, 40, 1, 0);
    for (int n = 1, want = 0; n <= 1000; n++) {
        policy_served(p, &se, 1, 8, 1, 0);
        if (n == 24 || n == 24 + 128 || n == 24 + 128 + 256 || n == 24 + 128 + 256 + 512) want++;
        EXPECT_INT(policy_rank(p, &se, 0), want);
    }
    /* displaced: the 1040 recomputed rows are not charged, later rows are charged */
    se.n_left = 1041;
    policy_preempted(p, &se, 0);
    policy_admitted(p, &se, 0);
    policy_served(p, &se, 512, 512, 1, 0);
    policy_served(p, &se, 528, 528, 1, 0);
    EXPECT_INT(policy_rank(p, &se, 0), 4);
    policy_served(p, &se, 1024 - 80, 2000, 1, 0);
    EXPECT_INT(policy_rank(p, &se, 0), 5);
    policy_close(p);
}

TEST(mlfq_displaced_within_a_prompt_counts_the_rest_of_it)
{
    struct policy *p = open_policy("mlfq");
    struct sched_entity se = make_entity(0, 1000);
    policy_arrive(p, &se, 0);
    policy_admitted(p, &se, 0);
    policy_served(p, &se, 300, 300, 1, 0);
    se.n_left = 1000;
    policy_preempted(p, &se, 0);
    EXPECT_INT(se.mlfq.n_redo, 300);
    policy_admitted(p, &se, 0);
    policy_served(p, &se, 500, 500, 1, 0);
    EXPECT_INT(se.mlfq.n_done, 500);
    se.n_left = 500; /* swapped out: nothing is lost */
    policy_preempted(p, &se, 0);
    EXPECT_INT(se.mlfq.n_redo, 0);
    policy_close(p);
}

/* ---- fair ---- */

/* One entity per holder, always ready; a step of 10 ms goes to the entity that ranks first. */
TEST(fair_shares_go_by_weight)
{
    struct policy *p = open_policy("fair");
    double weight[3] = {1, 3, 0.5};
    int n_step[3] = {0};
    struct sched_entity se[3];
    for (int i = 0; i < 3; i++) {
        se[i] = make_entity((uint64_t)i, 1);
        se[i].holder = 100 + (uint64_t)i;
        se[i].holder_weight = weight[i];
        policy_arrive(p, &se[i], 0);
        policy_admitted(p, &se[i], 0);
    }
    for (int step = 0; step < 4500; step++) {
        int k = 0;
        for (int i = 1; i < 3; i++)
            if (policy_rank(p, &se[i], 0) < policy_rank(p, &se[k], 0)) k = i;
        policy_served(p, &se[k], 1, 1, 10000, 0);
        n_step[k]++;
    }
    EXPECT(abs(n_step[0] - 1000) <= 2);
    EXPECT(abs(n_step[1] - 3000) <= 6);
    EXPECT(abs(n_step[2] - 500) <= 1);
    policy_close(p);
}

TEST(fair_shares_bank_no_credit_and_forget_no_debt)
{
    struct policy *p = open_policy("fair");
    struct sched_entity a = make_entity(0, 1), b = make_entity(1, 1), c = make_entity(2, 1);
    a.holder = 1, b.holder = 2, c.holder = 1;
    policy_arrive(p, &a, 0);
    policy_admitted(p, &a, 0);
    policy_served(p, &a, 1, 1, 60000000, 0); /* a runs alone for a minute */
    policy_arrive(p, &b, 0);
    int64_t lead = policy_rank(p, &a, 0) + 1000000 - policy_rank(p, &b, 0); /* less the slack */
    EXPECT_INT(lead, 0); /* b begins at a's virtual time: the idle minute earned nothing */
    policy_admitted(p, &b, 0);
    policy_served(p, &a, 1, 1, 5000000, 0);
    policy_leave(p, &a);
    policy_arrive(p, &c, 0); /* the holder returns and is still ahead by 5 s */
    EXPECT_INT(policy_rank(p, &c, 0) - (policy_rank(p, &b, 0) + 1000000), 5000000);
    policy_leave(p, &b);
    policy_leave(p, &c);
    struct sched_entity d = make_entity(3, 1);
    d.holder = 9;
    /* no holder is active: a new holder starts at the virtual time of the last one */
    policy_arrive(p, &d, 0);
    EXPECT_INT(policy_rank(p, &d, 0), 65000000);
    policy_close(p);
}

TEST(fair_promotes_an_overdue_turn_if_nothing_of_its_share_runs)
{
    struct policy *p = open_policy("fair");
    struct sched_entity flood[3], other = make_entity(9, 1);
    for (int i = 0; i < 3; i++) {
        flood[i] = make_entity((uint64_t)i, 1);
        flood[i].holder = 1;
        policy_arrive(p, &flood[i], 0);
    }
    policy_served(p, &flood[0], 1, 1, 60000000, 0); /* the holder is far ahead */
    other.holder = 2;
    policy_arrive(p, &other, 1900000);
    policy_served(p, &flood[0], 1, 1, 60000000, 0);
    int64_t now = 2000000; /* the entities of the first holder waited for 2 s, the bound is 1 s */
    EXPECT(policy_rank(p, &flood[0], now) < policy_rank(p, &other, now));
    policy_admitted(p, &flood[0], now);
    EXPECT(policy_rank(p, &flood[0], now) < policy_rank(p, &other, now));
    EXPECT(policy_rank(p, &flood[1], now) > policy_rank(p, &other, now));
    policy_preempted(p, &flood[0], now); /* the freed place is reserved for the request */
    EXPECT(policy_rank(p, &flood[0], now) < policy_rank(p, &flood[1], now + 1) ||
           policy_rank(p, &flood[0], now) == policy_rank(p, &flood[1], now));
    policy_admitted(p, &flood[0], now);
    policy_leave(p, &flood[0]);
    EXPECT(policy_rank(p, &flood[1], now) < policy_rank(p, &other, now));
    policy_close(p);
}

TEST(fair_charges_a_prompt_when_it_is_admitted)
{
    struct policy *p = open_policy("fair");
    struct sched_entity se[6], *at[6], first_one = make_entity(0, 100);
    first_one.holder = 1;
    policy_arrive(p, &first_one, 0);
    policy_admitted(p, &first_one, 0);
    policy_served(p, &first_one, 100, 100, 200000, 0); /* 2 ms a row */
    policy_leave(p, &first_one);
    char order[7] = "";
    for (int i = 0; i < 6; i++) {
        se[i] = make_entity((uint64_t)i + 1, i < 4 ? 500 : 400);
        /* four entities of one key, then two entities of another key */
        se[i].holder = i < 4 ? 1 : 2;
        at[i] = &se[i];
        policy_arrive(p, &se[i], 0);
    }
    for (int i = 0; i < 6; i++) {
        int k = first(p, at, 6, 0);
        order[i] = (char)('0' + k);
        policy_admitted(p, &se[k], 0);
    }
    EXPECT_TEXT(order, "045123");
    /* the advance charge is consumed, and its remainder is returned at the end of the prompt */
    double before = se[0].fair.prepaid_us;
    policy_served(p, &se[0], 250, 500, 1000000, 0);
    EXPECT_INT(before - se[0].fair.prepaid_us, 500000);
    policy_served(p, &se[0], 1, 1, 1000, 0);
    EXPECT_INT(se[0].fair.prepaid_us, 0);
    policy_close(p);
}

/* Return the index of the running entity that ranks first. */
static int first_running(const struct policy *p, const struct sched_entity *se, int n)
{
    int k = 0;
    for (int i = 1; i < n; i++)
        if (policy_rank(p, &se[i], 0) < policy_rank(p, &se[k], 0)) k = i;
    return k;
}

/* Open a policy at which a row costs 2 ms. */
static struct policy *open_fair(void)
{
    struct policy *p = open_policy("fair");
    struct sched_entity se = make_entity(0, 100);
    se.holder = 1;
    policy_arrive(p, &se, 0);
    policy_admitted(p, &se, 0);
    policy_served(p, &se, 100, 100, 200000, 0);
    policy_leave(p, &se);
    return p;
}

TEST(fair_gives_rows_by_what_was_had_not_by_what_was_paid)
{
    /* four prompts of ten seconds of one key were admitted before the prompts of another key
     * arrived */
    struct policy *p = open_fair();
    struct sched_entity se[5];
    int n_step[5] = {0};
    for (int i = 0; i < 5; i++) {
        se[i] = make_entity((uint64_t)i + 1, 5000);
        se[i].holder = i < 4 ? 1 : 2;
        policy_arrive(p, &se[i], 0);
        policy_admitted(p, &se[i], 0);
    }
    for (int step = 0; step < 1900; step++) {
        int k = first_running(p, se, 5);
        se[k].n_left -= 5;
        policy_served(p, &se[k], 5, 5, 10000, 0);
        n_step[k]++;
    }
    EXPECT(abs(n_step[4] - 950) <= 1);
    for (int i = 0; i < 5; i++) policy_leave(p, &se[i]);
    policy_close(p);
}

TEST(fair_owes_nothing_for_payments_that_were_given_back)
{
    struct policy *p = open_fair();
    struct sched_entity stays = make_entity(1, 1), se[4], other = make_entity(6, 5000),
                        next = make_entity(7, 5000);
    stays.holder = next.holder = 1, other.holder = 2;
    policy_arrive(p, &stays, 0);
    for (int i = 0; i < 4; i++) {
        se[i] = make_entity((uint64_t)i + 2, 5000);
        se[i].holder = 1;
        policy_arrive(p, &se[i], 0);
        policy_admitted(p, &se[i], 0);
    }
    policy_arrive(p, &other, 0);
    for (int i = 0; i < 4; i++) policy_leave(p, &se[i]); /* cancelled: no entity had a row */
    policy_arrive(p, &next, 0);
    EXPECT_INT(policy_rank(p, &next, 0) - policy_rank(p, &other, 0), 0);
    policy_leave(p, &stays), policy_leave(p, &other), policy_leave(p, &next);
    policy_close(p);
}

TEST(fair_gives_back_what_others_have_computed)
{
    struct policy *p = open_fair();
    struct sched_entity se = make_entity(1, 5000), waits = make_entity(2, 1);
    se.holder = waits.holder = 1;
    policy_arrive(p, &se, 0);
    policy_arrive(p, &waits, 0);
    policy_admitted(p, &se, 0);
    int64_t before = policy_rank(p, &waits, 0);
    se.n_left = 1000; /* 3,900 tokens were found in the cache, 100 were computed */
    policy_served(p, &se, 100, 100, 200000, 0);
    EXPECT_INT(se.fair.prepaid_us, 1000 * 2000);
    EXPECT_INT(before - policy_rank(p, &waits, 0), 3900 * 2000);
    policy_leave(p, &se), policy_leave(p, &waits);
    policy_close(p);
}

TEST(fair_has_room_for_any_number_of_holders)
{
    struct policy *p = open_policy("fair");
    uint64_t rng = 5, n_malloc = test_n_malloc();
    enum { N = 3000 };
    static struct sched_entity se[N];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) { /* more active holders than places in the table */
            se[i] = make_entity((uint64_t)i, 10);
            se[i].holder = rng_next(&rng);
            policy_arrive(p, &se[i], 0);
            policy_admitted(p, &se[i], 0);
        }
        for (int i = 0; i < N; i++) policy_served(p, &se[i], 10, 10 * N, 1000000, 0);
        for (int i = 0; i < N; i++) policy_leave(p, &se[i]);
    }
    /* two holders at a time: idle holders make room, and each has a separate virtual time */
    for (int i = 0; i < 100000; i++) {
        for (int k = 0; k < 2; k++) {
            se[k] = make_entity(0, 10);
            se[k].holder = rng_next(&rng);
            policy_arrive(p, &se[k], 0);
        }
        EXPECT(se[0].fair.holder != se[1].fair.holder);
        for (int k = 0; k < 2; k++) policy_leave(p, &se[k]);
    }
    EXPECT_INT(test_n_malloc() - n_malloc, 0);
    policy_close(p);
}

/* ---- batches that no entity joins ---- */

TEST(static_admits_a_batch_at_a_time)
{
    struct policy *p = open_policy("static");
    EXPECT(policy_admits(p, 0, 3, 0, 100));
    EXPECT(policy_admits(p, 1, 2, 0, 100));
    EXPECT(!policy_admits(p, 2, 1, 0, 101));
    EXPECT(policy_admits(p, 0, 1, 0, 200));
    policy_close(p);
}

TEST(window_waits_for_a_full_batch_or_its_time)
{
    struct policy *p;
    struct err e;
    struct policy_options o = {
        .name = "window", .n_seq = 8, .window_us = 500, .window_min = 4, .window_max = 5};
    NEED_OK(policy_open(&p, &o, &e), &e);
    EXPECT(!policy_admits(p, 0, 3, 0, 499));
    EXPECT(policy_admits(p, 0, 3, 0, 500)); /* the oldest entity waited long enough */
    EXPECT(policy_admits(p, 1, 2, 300, 500));
    EXPECT(!policy_admits(p, 2, 9, 0, 600)); /* a batch runs */
    EXPECT(!policy_admits(p, 0, 3, 900, 1000));
    EXPECT(policy_admits(p, 0, 9, 900, 1000)); /* enough entities wait */
    for (int n = 1; n < 5; n++) EXPECT(policy_admits(p, n, 9 - n, 900, 1000));
    EXPECT(!policy_admits(p, 5, 4, 900, 1000)); /* the batch has its maximum size */
    policy_close(p);
}

TEST(window_waits_for_as_many_as_fit_if_no_number_is_given)
{
    struct policy *p;
    struct err e;
    NEED_OK(policy_open(
                &p, &(struct policy_options){.name = "window", .n_seq = 8, .window_us = 500}, &e),
            &e);
    EXPECT(!policy_admits(p, 0, 7, 0, 499));
    EXPECT(policy_admits(p, 0, 8, 0, 499));
    EXPECT(policy_admits(p, 7, 1, 0, 499));
    policy_close(p);
    NEED_OK(policy_open(&p,
                        &(struct policy_options){
                            .name = "window", .n_seq = 8, .window_us = 500, .window_max = 3},
                        &e),
            &e);
    EXPECT(!policy_admits(p, 0, 2, 0, 499));
    EXPECT(policy_admits(p, 0, 3, 0, 499));
    EXPECT(!policy_admits(p, 3, 5, 0, 499));
    policy_close(p);
}

/* ---- round robin ---- */

TEST(round_robin_gives_slices_in_turns)
{
    enum { N = 5, SLICE = 10, PLACES = 2, TOKENS = 40 };
    struct policy *p;
    struct err e;
    struct policy_options o = {.name = "round_robin", .n_seq = PLACES, .slice_tokens = SLICE};
    NEED_OK(policy_open(&p, &o, &e), &e);
    struct sched_entity se[N];
    int n_token[N] = {0}, n_wait[N] = {0}, most = 0, least = 0;
    for (int i = 0; i < N; i++) {
        se[i] = make_entity((uint64_t)i, 300);
        policy_arrive(p, &se[i], 0);
    }
    EXPECT(policy_preempts(p));
    for (int step = 0; step < N * TOKENS / PLACES * 3; step++) {
        for (int place = 0; place < PLACES;
             place++) { /* the entities that rank first run, as admit.c displaces */
            int k = -1, last = -1, n_running = 0;
            for (int i = 0; i < N; i++) {
                n_running += se[i].running;
                if (!se[i].running &&
                    (k < 0 || policy_rank(p, &se[i], 0) < policy_rank(p, &se[k], 0)))
                    k = i;
                if (se[i].running &&
                    (last < 0 || policy_rank(p, &se[i], 0) > policy_rank(p, &se[last], 0)))
                    last = i;
            }
            if (n_running == PLACES && policy_rank(p, &se[last], 0) < policy_rank(p, &se[k], 0))
                continue;
            if (n_running == PLACES) policy_preempted(p, &se[last], 0);
            policy_admitted(p, &se[k], 0);
        }
        for (int i = 0; i < N; i++) {
            n_wait[i] = se[i].running ? 0 : n_wait[i] + 1;
            most = n_wait[i] > most ? n_wait[i] : most;
            if (!se[i].running) continue;
            bool prompt = se[i].n_left > 100;
            se[i].n_left = prompt ? se[i].n_left - 100 : 1;
            policy_served(p, &se[i], prompt ? 100 : 1, 100, 1000, 0);
            n_token[i] += !prompt;
        }
        least = n_token[0];
        for (int i = 0; i < N; i++) least = n_token[i] < least ? n_token[i] : least;
        for (int i = 0; i < N && step > 60; i++) EXPECT(n_token[i] <= least + 2 * SLICE);
    }
    EXPECT(least >= TOKENS);
    /* one slice and one prompt of each other entity */
    EXPECT(most <= (N - PLACES) * (SLICE + 3));
    policy_close(p);
}

/* A prompt of any number of steps does not consume the slice. */
/* The round has three entities for each place. The next entity enters after an entity leaves. */
TEST(round_robin_limits_its_round)
{
    enum { PLACES = 2, N = 8 };
    struct policy *p;
    struct err e;
    struct policy_options o = {.name = "round_robin", .n_seq = PLACES, .slice_tokens = 1};
    NEED_OK(policy_open(&p, &o, &e), &e);
    struct sched_entity se[N];
    for (int i = 0; i < N; i++) {
        se[i] = make_entity((uint64_t)i, 1);
        se[i].n_left = 1;
        policy_arrive(p, &se[i], 0);
    }
    for (int i = 0; i < 3 * PLACES; i++) { /* each has a slice, and goes to the end */
        policy_admitted(p, &se[i], 0);
        policy_served(p, &se[i], 1, 1, 1000, 0);
        policy_preempted(p, &se[i], 0);
    }
    EXPECT(policy_rank(p, &se[5], 0) < policy_rank(p, &se[6], 0));
    EXPECT(policy_rank(p, &se[6], 0) < policy_rank(p, &se[7], 0));
    policy_leave(p, &se[2]);
    EXPECT(policy_rank(p, &se[6], 0) < policy_rank(p, &se[0], 0));
    policy_admitted(p, &se[6], 0);
    EXPECT(policy_rank(p, &se[0], 0) < policy_rank(p, &se[7], 0));
    policy_close(p);
}

TEST(round_robin_does_not_cut_a_prompt)
{
    struct policy *p = open_policy("round_robin");
    struct sched_entity se = make_entity(0, 10000), other = make_entity(1, 10);
    policy_arrive(p, &se, 0);
    policy_admitted(p, &se, 0);
    policy_arrive(p, &other, 0);
    for (int i = 0; i < 200; i++) {
        se.n_left -= 49;
        policy_served(p, &se, 49, 100, 1000, 0);
        EXPECT(policy_rank(p, &se, 0) < policy_rank(p, &other, 0));
    }
    se.n_left = 1;
    for (int i = 0; i < 128; i++) policy_served(p, &se, 1, 10, 1000, 0);
    EXPECT(policy_rank(p, &se, 0) > policy_rank(p, &other, 0));
    policy_close(p);
}
