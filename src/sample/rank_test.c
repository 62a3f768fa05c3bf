/* rank_test.c - goal: rank_cut finds the end of the shortest prefix that reaches a target, for all
 * kinds of keys. Method: compare with a sort. Weights are whole numbers, so that sums in any order
 * are exact. Keys have all magnitudes, many ties, and the whole range of floats. */
#include "sample_test.h"

enum { N_MAX = 3000 };

struct keyed {
    float key;
    int at;
};

static int keyed_order(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static float random_key(uint64_t kind, uint64_t *rng)
{
    switch (kind) {
    case 0:
        return 1.5f; /* equal keys */
    case 1:
        return (float)rng_below(rng, 5) - 2; /* keys with few values */
    case 2:
        return 10 * rng_float(rng) - 20; /* keys like logits */
    case 3:
        return -1e-3f * rng_float(rng); /* keys like distances */
    case 4:
        return ldexpf(rng_float(rng) - 0.5f, (int)rng_below(rng, 270) - 145);
    default:
        return rng_below(rng, 2) ? FLT_MAX : -FLT_MAX * rng_float(rng);
    }
}

/* Return the number of sorted keys in the shortest prefix that reaches the target. */
static int prefix_of(const struct keyed *sorted, const float *weight, int n, double target)
{
    double sum = 0;
    int last = 0;
    for (int i = 0; i < n; i++) {
        double w = weight ? (double)weight[sorted[i].at] : 1;
        sum += w;
        if (w > 0 || i == 0) last = i + 1;
        if (sum >= target) return last;
    }
    return last;
}

static void expect_cut(struct cut cut, const struct keyed *sorted, int n_prefix, const char *what)
{
    int n_tie = 0;
    float floor = sorted[n_prefix - 1].key;
    for (int i = 0; i < n_prefix; i++) n_tie += sorted[i].key == floor;
    if (cut.floor != floor || cut.n_tie != n_tie)
        test_fail(__FILE__, __LINE__, "%s: %g and %d ties, not %g and %d", what, (double)cut.floor,
                  cut.n_tie, (double)floor, n_tie);
}

TEST(sample_rank_cut_matches_a_sort)
{
    static float key[N_MAX], weight[N_MAX];
    static struct keyed sorted[N_MAX];
    struct sample_work *w;
    struct err e;
    uint64_t rng = 6;
    NEED_OK(sample_work_open(&w, N_MAX, NULL, &e), &e);
    for (int v = 0; v < (test_long() ? 30000 : 1500); v++) {
        int n = 1 + (int)rng_below(&rng, v % 10 ? 200 : N_MAX);
        uint64_t kind = rng_below(&rng, 6);
        double total = 0;
        for (int i = 0; i < n; i++) {
            key[i] = random_key(kind, &rng);
            weight[i] = (float)rng_below(&rng, 4);
            total += (double)weight[i];
            sorted[i] = (struct keyed){key[i], i};
        }
        qsort(sorted, (size_t)n, sizeof *sorted, keyed_order);
        double k = 1 + (double)rng_below(&rng, (uint64_t)n + 2);
        expect_cut(rank_cut(w, key, NULL, n, k), sorted, prefix_of(sorted, NULL, n, k), "count");
        double target = (double)(1 + rng_below(&rng, (uint64_t)total + 3));
        expect_cut(rank_cut(w, key, weight, n, target), sorted,
                   prefix_of(sorted, weight, n, target < total ? target : total), "weights");
    }
    sample_work_close(w);
}
