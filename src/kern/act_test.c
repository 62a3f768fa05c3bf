/* act_test.c - goal: every level converts activations to the bits of the reference, and writes only
 * its row of the layout. Method: compare the whole layout for every length up to 70 and some longer
 * lengths. Rows have ordinary values, zeros, ties, values that are too small, or values that are
 * not finite. */
#include "edge_test.h"

#include "base/rng.h"
#include "kern_impl.h"

#include <time.h>

enum { K_MAX = 4099, N_ROW = 3 };

struct converted {
    _Alignas(64) uint8_t x[(K_MAX + ACT_GROUP) * N_ROW * sizeof(float)];
    float scale[(K_MAX / ACT_GROUP + 1) * N_ROW];
    int16_t sum[(K_MAX / 32 + 1) * N_ROW * 2];
};

static struct act act_into(struct converted *c, enum act_type t, int k)
{
    memset(c, 0xA5, sizeof *c);
    return (struct act){
        .type = t, .n_row = N_ROW, .k = k, .x = c->x, .scale = c->scale, .sum = c->sum};
}

/* Fill a row with pieces of 64 values, each piece of a different kind. */
static void random_row(float *x, int k, uint64_t *rng)
{
    uint64_t kind = 0;
    for (int i = 0; i < k; i++) {
        if (i % 64 == 0) kind = rng_below(rng, 8);
        float u = rng_float(rng) + rng_float(rng) - 1;
        x[i] = kind == 0   ? 0
               : kind == 1 ? u * 1e-37f
               : kind == 2 ? u * 1e-40f
               /* a scale of 1 makes ties of the values of kind 3 */
               : kind == 3 ? (float)(int)(u * 254) * 0.5f
                           : u * 3;
        if (kind == 3 && i % 64 == 0) x[i] = -127;
        if (kind == 4 && rng_below(rng, 60) == 0) x[i] = rng_below(rng, 2) ? NAN : -INFINITY;
    }
}

static void compare_act(const struct kern *ref, const struct kern *isa, enum act_type t, int k,
                        struct edge *e, uint64_t *rng)
{
    static struct converted want, got;
    struct act a = act_into(&want, t, k), b = act_into(&got, t, k);
    float *x = edge_take(e, (size_t)k * sizeof *x);
    for (int row = 0; row < N_ROW; row += 2) { /* the odd rows must not change */
        random_row(x, k, rng);
        ref->act[t](&a, row, x), isa->act[t](&b, row, x);
    }
    if (memcmp(&want, &got, sizeof want) != 0)
        test_fail(__FILE__, __LINE__, "%s: act %d of %d values differs from ref", isa->name, (int)t,
                  k);
}

TEST(act_every_level_equals_reference)
{
    struct kern ref, isa;
    struct err err;
    struct edge e;
    uint64_t rng = 1;
    NEED_OK(kern_open(&ref, "ref", &err), &err);
    edge_open(&e, K_MAX * sizeof(float));
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &err), &err);
        for (int t = 0; t < ACT_COUNT; t++)
            for (int k = 1; k <= K_MAX; k += k < 70 ? 1 : k < 520 ? 31 : 1193)
                for (int again = 0; again < (test_long() ? 200 : 10); again++)
                    compare_act(&ref, &isa, (enum act_type)t, k, &e, &rng);
    }
    edge_close(&e);
}

static double cpu_us(void) /* CPU time of this thread, independent of other load */
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static double ns_per_value(const struct kern *k, enum act_type t, const float *x, int n)
{
    static struct converted c;
    struct act a = act_into(&c, t, n);
    double best = INFINITY;
    for (int again = 0; again < 8; again++) {
        double start = cpu_us();
        for (int i = 0; i < 20; i++) k->act[t](&a, 0, x);
        best = fmin(best, 1e3 * (cpu_us() - start) / 20 / n);
    }
    return best;
}

TEST(act_speed)
{
    static float x[4096];
    struct kern k;
    struct err e;
    uint64_t rng = 2;
    for (int i = 0; i < 4096; i++) x[i] = rng_float(&rng) - 0.5f;
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&k, *level, &e), &e);
        test_note("%-7s ns per 1000 values: int8 %.0f, bf16 %.0f", *level,
                  1e3 * ns_per_value(&k, ACT_Q8, x, 4096),
                  1e3 * ns_per_value(&k, ACT_BF16, x, 4096));
    }
}
