/* share_test.c - goal: a holder within its fair share is admitted independently of other holders,
 * and the largest holder is evicted. Method: fixed floods, and random holders compared with a model
 * that checks all holders. */
#include "share.h"
#include "rng.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static struct share *open_share(int64_t limit, int64_t reserve, int holder_max)
{
    struct share *s;
    struct err e;
    struct share_options o = {.limit = limit, .reserve = reserve, .holder_max = holder_max};
    if (share_open(&s, &o, &e) == 0) return s;
    test_fail(__FILE__, __LINE__, "%s", e.text);
    exit(1); /* the test cannot continue */
}

/* Acquire one unit and make the necessary evictions. Return the number of evictions; -1 if
 * refused. */
static int take_one(struct share *s, uint64_t id, double weight)
{
    uint64_t victim;
    for (int n = 0;; n++) {
        enum share_answer a = share_acquire(s, id, weight, 1, &victim);
        if (a != SHARE_EVICT) return a == SHARE_TAKEN ? n : -1;
        EXPECT(victim != id);
        share_release(s, victim, 1);
    }
}

TEST(share_lets_a_small_holder_in_beside_a_flood)
{
    struct share *s = open_share(1024, 0, 1024);
    /* a single holder acquires all units */
    for (int i = 0; i < 1024; i++) EXPECT_INT(take_one(s, 1, 1), 0);
    for (int i = 0; i < 100; i++) EXPECT_INT(take_one(s, 1, 1), -1);
    for (int i = 0; i < 512; i++) {
        EXPECT_INT(take_one(s, 2, 1), 1);
        EXPECT_INT(take_one(s, 1, 1), -1); /* the flood continues, but acquires no further unit */
    }
    EXPECT_INT(take_one(s, 2, 1), -1);
    EXPECT_INT(share_held(s, 1), 512);
    EXPECT_INT(take_one(s, 3, 1), 1);
    EXPECT_INT(take_one(s, 4, 2), 1);
    EXPECT_INT(share_total(s), 1024);
    EXPECT_INT(share_n_holder(s), 4);
    share_close(s);
}

TEST(share_divides_by_weight)
{
    struct share *s = open_share(1000, 0, 1000);
    const double weight[3] = {1, 3, 0.5};
    for (int i = 0; i < 3000; i++)
        for (int k = 0; k < 3; k++) take_one(s, (uint64_t)k + 7, weight[k]);
    const int want[3] = {222, 666, 111};
    for (int k = 0; k < 3; k++) EXPECT(llabs(share_held(s, (uint64_t)k + 7) - want[k]) <= 1);
    share_close(s);
}

TEST(share_refuses_the_next_of_equal_holders)
{
    struct share *s = open_share(64, 0, 64);
    for (uint64_t id = 0; id < 64; id++) EXPECT_INT(take_one(s, id, 1), 0);
    EXPECT_INT(take_one(s, 64, 1), -1); /* there are as many holders as units */
    EXPECT_INT(take_one(s, 65, 2), 1);  /* this weight makes holder 65 the smallest */
    share_close(s);
}

TEST(share_takes_no_room_of_a_victim_that_is_not_enough)
{
    struct share *s = open_share(100, 0, 8);
    uint64_t victim;
    EXPECT_INT(share_acquire(s, 1, 1, 60, &victim), SHARE_TAKEN);
    EXPECT_INT(share_acquire(s, 2, 1, 40, &victim), SHARE_TAKEN);
    /* holder 2 would have 55 units, more than the 45 units of holder 1 */
    EXPECT_INT(share_acquire(s, 2, 1, 15, &victim), SHARE_REFUSED);
    EXPECT_INT(share_acquire(s, 2, 1, 10, &victim), SHARE_EVICT);
    EXPECT_INT(victim, 1);
    EXPECT_INT(share_acquire(s, 3, 1, 33, &victim), SHARE_EVICT);
    EXPECT_INT(share_acquire(s, 3, 1, 101, &victim), SHARE_REFUSED);
    share_close(s);
}

TEST(share_evicts_nothing_that_is_settled)
{
    struct share *s = open_share(100, 0, 8);
    uint64_t victim;
    EXPECT_INT(share_acquire(s, 1, 1, 80, &victim), SHARE_TAKEN);
    EXPECT_INT(share_acquire(s, 2, 1, 20, &victim), SHARE_TAKEN);
    share_settle(s, 1, 80);
    /* 20 evictable units are not enough */
    EXPECT_INT(share_acquire(s, 3, 1, 30, &victim), SHARE_REFUSED);
    EXPECT_INT(share_acquire(s, 3, 1, 10, &victim), SHARE_EVICT);
    EXPECT_INT(victim, 2);
    share_release_settled(s, 1, 50);
    EXPECT_INT(share_acquire(s, 3, 1, 30, &victim), SHARE_TAKEN);
    share_release_settled(s, 1, 30);
    EXPECT_INT(share_held(s, 1), 0);
    EXPECT_INT(share_n_holder(s), 2);
    share_close(s);
}

TEST(share_keeps_its_reserve_for_small_holders)
{
    struct share *s = open_share(100, 25, 8);
    uint64_t victim;
    EXPECT_INT(share_acquire(s, 1, 1, 75, &victim), SHARE_TAKEN);
    share_settle(s, 1, 75);
    EXPECT_INT(share_acquire(s, 1, 1, 1, &victim), SHARE_REFUSED);
    EXPECT_INT(share_room(s, 2, 1), 25);
    EXPECT_INT(share_acquire(s, 2, 1, 25, &victim), SHARE_TAKEN);
    EXPECT_INT(share_room(s, 1, 1), 0);
    share_close(s);
}

/* ---- a model ---- */

enum { N_ID = 40, ITEM_MAX = 400, EITHER = -1 };

struct item {
    int64_t n;
    bool settled;
};
struct model_holder {
    double weight; /* weight of the holder; 0 without units */
    struct item item[ITEM_MAX];
    int n_item;
};
struct share_model {
    struct model_holder at[N_ID];
    int64_t limit, reserve;
    int64_t n_answer[3], n_within;
};

static int64_t held_of(const struct model_holder *h, bool loose)
{
    int64_t n = 0;
    for (int i = 0; i < h->n_item; i++)
        if (!loose || !h->item[i].settled) n += h->item[i].n;
    return n;
}

static int64_t held_by_others(const struct share_model *m, int id, bool loose)
{
    int64_t n = 0;
    for (int i = 0; i < N_ID; i++)
        if (i != id) n += held_of(&m->at[i], loose);
    return n;
}

static double weight_with(const struct share_model *m, int id, double weight)
{
    double sum = weight;
    for (int i = 0; i < N_ID; i++)
        if (i != id && m->at[i].n_item) sum += m->at[i].weight;
    return sum;
}

/* Return the largest size among the other holders that can be evicted; 0 if no other holder can be
 * evicted. */
static double largest_size(const struct share_model *m, int id)
{
    double most = 0;
    for (int i = 0; i < N_ID; i++) {
        const struct model_holder *h = &m->at[i];
        if (i == id || held_of(h, true) == 0) continue;
        double size = (double)held_of(h, false) / h->weight;
        if (size > most) most = size;
    }
    return most;
}

/* Return the answer by the rules of share.h. All weights here are powers of two, so no quotient is
 * rounded. */
static int expected(struct share_model *m, int id, double weight, int64_t n)
{
    int64_t mine = held_of(&m->at[id], false) + n, total = held_by_others(m, id, false) + mine;
    double sum = weight_with(m, id, weight), limit = (double)m->limit;
    bool small = (double)mine <= limit * weight / (sum + weight);
    bool fair = (double)mine <= limit * weight / sum;
    int64_t most = small ? m->limit : m->limit - m->reserve;
    m->n_within += fair && total > most;
    if (total <= most) return SHARE_TAKEN;
    double size = (double)mine / weight, largest = largest_size(m, id);
    if (n > most || total - most > held_by_others(m, id, true) || largest <= size)
        return SHARE_REFUSED;
    if (fair) return SHARE_EVICT;
    bool all = true, any = false; /* any one of several equally large holders may be the victim */
    for (int i = 0; i < N_ID; i++) {
        const struct model_holder *h = &m->at[i];
        int64_t held = held_of(h, false);
        if (i == id || !held_of(h, true) || (double)held / h->weight < largest) continue;
        bool enough = (double)(held - (total - most)) / h->weight >= size;
        all &= enough, any |= enough;
    }
    return all ? SHARE_EVICT : any ? EITHER : SHARE_REFUSED;
}

static void drop(struct share_model *m, struct share *s, int id, int i)
{
    struct model_holder *h = &m->at[id];
    if (h->item[i].settled)
        share_release_settled(s, (uint64_t)id, h->item[i].n);
    else
        share_release(s, (uint64_t)id, h->item[i].n);
    memmove(h->item + i, h->item + i + 1, (size_t)(--h->n_item - i) * sizeof *h->item);
}

static void drop_newest_loose(struct share_model *m, struct share *s, int id)
{
    int i = m->at[id].n_item - 1;
    while (m->at[id].item[i].settled) i--;
    drop(m, s, id, i);
}

/* Make one request of a holder and all necessary evictions. */
static void acquire(struct share_model *m, struct share *s, int id, double weight, int64_t n)
{
    struct model_holder *h = &m->at[id];
    uint64_t victim = 0;
    for (;;) {
        int want = expected(m, id, weight, n);
        bool may = share_can_acquire(s, (uint64_t)id, weight, n);
        enum share_answer got = share_acquire(s, (uint64_t)id, weight, n, &victim);
        EXPECT((int)got == want || (want == EITHER && got != SHARE_TAKEN));
        EXPECT(may == (got != SHARE_REFUSED));
        m->n_answer[got]++;
        if (got == SHARE_TAKEN) {
            h->item[h->n_item++] = (struct item){.n = n};
            h->weight = weight;
        }
        if (got != SHARE_EVICT || want == SHARE_TAKEN || want == SHARE_REFUSED) return;
        const struct model_holder *v = &m->at[victim];
        double size = (double)held_of(v, false) / v->weight;
        EXPECT((int)victim != id && held_of(v, true) > 0 && size == largest_size(m, id));
        drop_newest_loose(m, s, (int)victim);
    }
}

static void compare(const struct share_model *m, const struct share *s)
{
    int n_holder = 0;
    const char *wrong = share_check(s);
    if (wrong) test_fail(__FILE__, __LINE__, "%s", wrong);
    for (int i = 0; i < N_ID; i++) {
        EXPECT_INT(share_held(s, (uint64_t)i), held_of(&m->at[i], false));
        n_holder += m->at[i].n_item > 0;
    }
    EXPECT_INT(share_total(s), held_by_others(m, -1, false));
    EXPECT(share_total(s) <= m->limit);
    EXPECT_INT(share_n_holder(s), n_holder);
}

/* Check that a request of share_room units is not refused, except if the evictable holders are
 * small. */
static void compare_room(struct share_model *m, const struct share *s, int id, double weight)
{
    int64_t room = share_room(s, (uint64_t)id, weight);
    if (room > 0) EXPECT(expected(m, id, weight, room) != SHARE_REFUSED || largest_size(m, id) > 0);
}

/* Run random acquisitions and releases, and compare each answer with that of share_model. */
static void simulate(uint64_t seed, int n_step, bool settles)
{
    static struct share_model m;
    uint64_t rng = seed, n_malloc;
    int64_t limit = 1 + (int64_t)rng_below(&rng, 300);
    m = (struct share_model){.limit = limit};
    if (rng_below(&rng, 2)) m.reserve = (int64_t)rng_below(&rng, (uint64_t)limit + 1);
    int64_t item = rng_below(&rng, 2) ? 1 : 1 + (int64_t)rng_below(&rng, (uint64_t)limit);
    int n_id = 1 + (int)rng_below(&rng, N_ID);
    struct share *s = open_share(m.limit, m.reserve, N_ID);
    n_malloc = test_n_malloc();
    for (int step = 0; step < n_step; step++) {
        /* one holder floods */
        int id = (int)(rng_below(&rng, 3) ? rng_below(&rng, (uint64_t)n_id) : 0);
        struct model_holder *h = &m.at[id];
        double weight = (double)(1 << id % 4) / 2;
        if (rng_below(&rng, 5) < 3) {
            compare_room(&m, s, id, weight);
            acquire(&m, s, id, weight, 1 + (int64_t)rng_below(&rng, (uint64_t)item));
        } else if (h->n_item > 0) {
            int i = (int)rng_below(&rng, (uint64_t)h->n_item);
            if (settles && rng_below(&rng, 2) && !h->item[i].settled) {
                share_settle(s, (uint64_t)id, h->item[i].n);
                h->item[i].settled = true;
            } else {
                drop(&m, s, id, i);
            }
        }
        compare(&m, s);
    }
    EXPECT_INT(test_n_malloc() - n_malloc, 0);
    if (!settles && m.reserve == 0 && item == 1)
        EXPECT(m.n_within == 0 || m.n_answer[SHARE_EVICT] > 0);
    share_close(s);
}

TEST(share_answers_as_a_model_that_looks_at_all_holders)
{
    int n = test_long() ? 2000 : 60;
    for (int i = 0; i < n; i++) simulate((uint64_t)i + 1, 2000, i % 2);
}

/* Goal: each added address is found until its removal, and no address remains at the end. */
TEST(share_forgets_holders_that_hold_nothing)
{
    enum { N = 1000 };
    struct share *s = open_share(N, 0, N);
    static uint64_t id[N];
    uint64_t rng = 3, n_malloc = test_n_malloc();
    for (int i = 0; i < N; i++) EXPECT_INT(take_one(s, id[i] = rng_next(&rng), 1), 0);
    for (int i = 0; i < 100000; i++) {
        int k = (int)rng_below(&rng, N);
        share_release(s, id[k], 1);
        EXPECT_INT(share_held(s, id[k]), 0);
        EXPECT_INT(take_one(s, id[k] = rng_next(&rng), 1), 0);
        if (i % 500 == 0) EXPECT(!share_check(s));
    }
    for (int i = 0; i < N; i++) share_release(s, id[i], 1);
    EXPECT_INT(share_n_holder(s), 0);
    EXPECT_INT(share_total(s), 0);
    EXPECT_INT(test_n_malloc() - n_malloc, 0);
    EXPECT_INT(share_room(s, 5, 1), N);
    share_close(s);
}
