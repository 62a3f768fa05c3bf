/* rank.c - find the end of the most likely part of a distribution without sorting.
 *
 * Top-k, top-p and typical-p need the shortest prefix, best first, whose weights reach a target.
 * The weight of all keys above a floor (row_mass: one pass in vectors) never grows with the floor.
 * Therefore bisection finds the floor. A low floor reaches the target, and a higher floor does not.
 * Bisection ends as soon as the keys between these two floors are few enough to sort:
 *
 *      top ....... hi ....... lo ....... lowest
 *      |- above -->|  few    |
 *         falls short         |  keys >= lo reach the target
 *
 * Cuts usually start from hundreds of candidates, leave fewer than 100, and make 3 or 4 passes. */
#include "sample_impl.h"

/* FEW: number of candidates to sort, which saves passes over the row (docs/measurements.md,
 * "Constants"). BY_VALUE_STEPS: number of halvings by value before halvings by representable
 * floats. 24 halvings suffice for the bits of a significand. */
enum { FEW = 32, BY_VALUE_STEPS = 48 };

/* State of rank_cut. key and weight are borrowed for the call. */
struct rank_search {
    const float *key, *weight; /* f32 [n]; weight NULL: each weight is 1 */
    int n;
    double target;
    float top;      /* highest key */
    float lo, hi;   /* bounds of the floor: keys >= lo reach the target, keys >= hi do not */
    int n_lo, n_hi; /* numbers of keys >= lo and of keys >= hi */
    double above;   /* weight of the keys >= hi */
    int step;
};

/* Return a rank whose unsigned order is the order of the values. */
static uint32_t rank_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u >> 31 ? ~u : u | 0x80000000u;
}

static float value_of_rank(uint32_t rank)
{
    float x;
    uint32_t u = rank >> 31 ? rank & 0x7FFFFFFFu : ~rank;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Return the next floor to try; lo if no float is between lo and hi. The first floors are below the
 * top, at doubling distance, until one reaches the target. The next floors are the middle between
 * lo and hi by value. The middle of the representable floats ends a longer search within 32
 * steps. */
static float search_floor(const struct rank_search *s)
{
    float floor = s->lo;
    if (s->lo == -FLT_MAX && s->step < 100)
        floor = s->top - ldexpf(1, s->step);
    else if (s->step < BY_VALUE_STEPS)
        floor = 0.5f * s->lo + 0.5f * s->hi;
    if (floor > s->lo && floor < s->hi) return floor;
    uint32_t lo = rank_of(s->lo), hi = rank_of(s->hi);
    return value_of_rank(lo + (hi - lo) / 2);
}

static void search_try(struct rank_search *s, const struct kern *k, float floor)
{
    int n;
    double mass = k->row_mass(s->weight, s->key, s->n, floor, &n);
    if (mass >= s->target) {
        s->lo = floor;
        s->n_lo = n;
    } else {
        s->hi = floor;
        s->n_hi = n;
        s->above = mass;
    }
}

static void search_narrow(struct rank_search *s, const struct kern *k)
{
    for (; s->n_lo - s->n_hi > FEW; s->step++) {
        float floor = search_floor(s);
        if (!(floor > s->lo && floor < s->hi)) return; /* all keys between lo and hi are equal */
        search_try(s, k, floor);
    }
}

/* Sort by insertion, highest key first. Equal keys keep their order. */
static void sort_few(int32_t *index, const float *key, int n)
{
    for (int i = 1; i < n; i++) {
        int32_t one = index[i];
        int at = i;
        for (; at > 0 && key[index[at - 1]] < key[one]; at--) index[at] = index[at - 1];
        index[at] = one;
    }
}

/* Add the keys between hi and lo until they reach the target. Return the cut. */
static struct cut search_end(const struct rank_search *s, const int32_t *index, int n)
{
    struct cut cut = {.floor = s->hi};
    double sum = s->above;
    for (int i = 0; i < n && (i == 0 || sum < s->target); i++) {
        float key = s->key[index[i]];
        cut.n_tie = key == cut.floor ? cut.n_tie + 1 : 1;
        cut.floor = key;
        sum += s->weight ? (double)s->weight[index[i]] : 1;
    }
    return cut;
}

struct cut rank_cut(struct sample_work *w, const float *key, const float *weight, int n,
                    double target)
{
    struct rank_search s = {.key = key, .weight = weight, .n = n, .lo = -FLT_MAX};
    s.top = w->kern.row_max(w->block_sum, key, n);
    s.hi = nextafterf(s.top, INFINITY);
    double all = w->kern.row_mass(weight, key, n, s.lo, &s.n_lo);
    s.target = target < all ? target : all;
    search_narrow(&s, &w->kern);
    int n_between = w->kern.row_find(w->index, w->found, key, w->block_sum, n, s.lo, s.hi);
    if (n_between <= FEW) sort_few(w->index, key, n_between);
    return search_end(&s, w->index, n_between);
}
