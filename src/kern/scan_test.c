/* scan_test.c - goal: recurrent kernels of every level give the bits of the reference, and write
 * only their rows. Method: every number of columns up to 70 and some larger numbers, in arrays that
 * end at an inaccessible page. The reference is compared with double precision. */
#include "edge_test.h"

#include "base/rng.h"
#include "kern_impl.h"

enum { D_K_MAX = 9, D_V_MAX = 261, TAPS_MAX = 5 };

/* Arguments of one comparison. The arrays that a kernel writes have a second copy. */
struct scan_bench {
    const struct kern *ref, *isa;
    struct edge s, v, k_wide, decay_wide, beta, a, skip, y;
    float q[D_K_MAX], k[D_K_MAX], decay[D_K_MAX], b[D_K_MAX], want[D_V_MAX],
        want_s[D_K_MAX * D_V_MAX];
    uint64_t rng;
};

static float *random_at(struct scan_bench *t, struct edge *e, int n, float low, float high)
{
    float *x = edge_take(e, (size_t)n * sizeof *x);
    for (int i = 0; i < n; i++) x[i] = low + (high - low) * rng_float(&t->rng);
    return x;
}

static void expect_same(const struct scan_bench *t, const char *what, int n, bool same)
{
    if (!same) test_fail(__FILE__, __LINE__, "%s: %s of %d columns", t->isa->name, what, n);
}

/* Return random arguments of a row with n columns. */
static struct scan_row random_row(struct scan_bench *t, enum scan_kind kind, int n)
{
    const bool wkv = kind == SCAN_WKV, wide = kind == SCAN_COLUMNS || wkv;
    const int d_k = wkv ? 3 : 1 + (int)rng_below(&t->rng, D_K_MAX),
              s_row = n + (int)rng_below(&t->rng, 3), n_s = (d_k - 1) * s_row + n;
    for (int i = 0; i < d_k; i++) {
        t->q[i] = 2 * rng_float(&t->rng) - 1, t->k[i] = 2 * rng_float(&t->rng) - 1;
        t->decay[i] = rng_float(&t->rng), t->b[i] = 2 * rng_float(&t->rng) - 1;
    }
    struct scan_row r = {.s = random_at(t, &t->s, n_s, -2, 2),
                         .q = t->q,
                         .k = t->k,
                         .v = random_at(t, &t->v, n, -2, 2),
                         .decay = t->decay,
                         .decay_step = (int)rng_below(&t->rng, 2),
                         .d_k = d_k,
                         .d_v = n,
                         .s_row = s_row};
    const bool needed = wkv || kind == SCAN_WKV_HEADS;
    const int n_skip = wide ? n : kind == SCAN_WKV_HEADS ? d_k : 1;
    r.beta = random_at(t, &t->beta, wide ? n : 1, 0, 1);
    r.a =
        kind == SCAN_WKV_DELTA ? random_at(t, &t->a, d_k, -1, 1) : random_at(t, &t->a, n_s, -8, 0);
    r.b = t->b;
    r.skip = needed || rng_below(&t->rng, 2) ? random_at(t, &t->skip, n_skip, -1, 1) : NULL;
    if (!wkv) return r;
    r.k = random_at(t, &t->k_wide, n, -30, 30), r.q = NULL;
    r.decay = random_at(t, &t->decay_wide, n, -3, 0);
    /* the sum of weights is 0 before the first row, then at least 1 */
    for (int c = 0; c < n; c++)
        if (rng_below(&t->rng, 4))
            r.s[s_row + c] = 1 + r.s[s_row + c] * r.s[s_row + c];
        else
            r.s[c] = r.s[s_row + c] = r.s[2 * s_row + c] = 0;
    return r;
}

/* Compare one row of a recurrence with the reference. */
static void compare_row(struct scan_bench *t, enum scan_kind kind, int n)
{
    struct scan_row r = random_row(t, kind, n), ref = r;
    const size_t s_bytes = (size_t)((r.d_k - 1) * (int)r.s_row + n) * sizeof(float),
                 y_bytes = (size_t)n * sizeof(float);
    memcpy(t->want_s, r.s, s_bytes);
    ref.s = t->want_s, ref.y = t->want;
    r.y = edge_take(&t->y, y_bytes);
    t->ref->scan_row[kind](&ref), t->isa->scan_row[kind](&r);
    expect_same(t, "result", n, memcmp(t->want, r.y, y_bytes) == 0);
    expect_same(t, "state", n, memcmp(t->want_s, r.s, s_bytes) == 0);
    expect_same(t, "canary", n, edge_intact(&t->y, y_bytes) && edge_intact(&t->s, s_bytes));
}

static void compare_conv(struct scan_bench *t, int n)
{
    const int n_tap = 1 + (int)rng_below(&t->rng, TAPS_MAX), w_row = n + 1;
    const float *w = random_at(t, &t->a, (n_tap - 1) * w_row + n, -1, 1),
                *in = random_at(t, &t->s, n_tap * n, -2, 2),
                *bias = rng_below(&t->rng, 2) ? random_at(t, &t->v, n, -1, 1) : NULL, *x[TAPS_MAX];
    for (int i = 0; i < n_tap; i++) x[i] = in + i * n;
    float *y = edge_take(&t->y, (size_t)n * sizeof *y);
    t->ref->conv_row(t->want, x, w, w_row, bias, n_tap, n);
    t->isa->conv_row(y, x, w, w_row, bias, n_tap, n);
    expect_same(t, "convolution", n, memcmp(t->want, y, (size_t)n * sizeof *y) == 0);
    expect_same(t, "canary", n, edge_intact(&t->y, (size_t)n * sizeof *y));
}

TEST(scan_every_level_equals_reference)
{
    static struct scan_bench t;
    static const int more[] = {127, 128, 129, 192, D_V_MAX - 2};
    struct kern ref, isa;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    t.ref = &ref, t.isa = &isa, t.rng = 1;
    struct edge *const edges[] = {&t.s,    &t.v, &t.k_wide, &t.decay_wide,
                                  &t.beta, &t.a, &t.skip,   &t.y};
    for (int i = 0; i < 8; i++) edge_open(edges[i], sizeof t.want_s);
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &e), &e);
        for (int i = 0; i < 75 * (test_long() ? 100 : 5); i++) {
            const int n = i % 75 < 70 ? i % 75 + 1 : more[i % 75 - 70];
            for (int kind = 0; kind < SCAN_COUNT; kind++) compare_row(&t, kind, n);
            compare_conv(&t, n);
        }
    }
    for (int i = 0; i < 8; i++) edge_close(edges[i]);
}

/* Return exact of DELTA, HEADS and COLUMNS. */
static double exact_own(const struct scan_row *r, enum scan_kind kind, int c, double s[D_K_MAX])
{
    double y = 0, m = 0, beta = r->beta[kind == SCAN_COLUMNS ? c : 0], u = r->v[c] * beta;
    for (int i = 0; i < r->d_k; i++) {
        const double decay = kind == SCAN_COLUMNS ? exp(beta * (double)r->a[i * r->s_row + c])
                                                  : (double)r->decay[i * r->decay_step];
        s[i] = (double)r->s[i * r->s_row + c] * decay;
        m += s[i] * (double)r->k[i];
    }
    if (kind == SCAN_DELTA) u -= m * beta;
    for (int i = 0; i < r->d_k; i++) {
        s[i] += (double)r->k[i] * u;
        y += s[i] * (double)r->q[i];
    }
    if (r->skip && kind != SCAN_DELTA)
        y += (double)r->skip[kind == SCAN_COLUMNS ? c : 0] * (double)r->v[c];
    return y;
}

/* Return exact of WKV. */
static double exact_wkv(const struct scan_row *r, int c, double s[D_K_MAX])
{
    const double v = r->v[c], k = r->k[c], sum = r->s[c], weight = r->s[r->s_row + c],
                 top = weight > 0 ? (double)r->s[2 * r->s_row + c] : 0,
                 own = exp(k + (double)r->skip[c]), kept = exp(top),
                 y = (kept * sum + own * v) / (kept * weight + own),
                 old = top + (double)r->decay[c];
    s[2] = weight > 0 && old > k ? old : k;
    s[0] = exp(old - s[2]) * sum + exp(k - s[2]) * v;
    s[1] = exp(old - s[2]) * weight + exp(k - s[2]);
    return y;
}

/* Return exact of WKV_HEADS and WKV_DELTA. */
static double exact_wkv_heads(const struct scan_row *r, bool delta, int c, double s[D_K_MAX])
{
    double y = 0, m = 0;
    for (int i = 0; i < r->d_k && delta; i++) m += (double)r->s[i * r->s_row + c] * (double)r->a[i];
    for (int i = 0; i < r->d_k; i++) {
        const double was = r->s[i * r->s_row + c], u = (double)r->k[i] * (double)r->v[c];
        s[i] = was * (double)r->decay[i * r->decay_step] + u + m * (double)r->b[i];
        y += (double)r->q[i] * (delta ? s[i] : was + (double)r->skip[i] * u);
    }
    return y;
}

/* Return column c of the result of a row in double, and the column's state in s. */
static double exact(const struct scan_row *r, enum scan_kind kind, int c, double s[D_K_MAX])
{
    if (kind == SCAN_WKV) return exact_wkv(r, c, s);
    if (kind == SCAN_WKV_HEADS || kind == SCAN_WKV_DELTA)
        return exact_wkv_heads(r, kind == SCAN_WKV_DELTA, c, s);
    return exact_own(r, kind, c, s);
}

TEST(scan_reference_is_within_its_bound_of_double)
{
    static struct scan_bench t;
    struct kern ref;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    t.rng = 2;
    struct edge *const edges[] = {&t.s,    &t.v, &t.k_wide, &t.decay_wide,
                                  &t.beta, &t.a, &t.skip,   &t.y};
    for (int i = 0; i < 8; i++) edge_open(edges[i], sizeof t.want_s);
    for (int i = 0; i < 120; i++) {
        const enum scan_kind kind = i % SCAN_COUNT;
        struct scan_row r = random_row(&t, kind, 20);
        double want[20], s[20][D_K_MAX];
        for (int c = 0; c < 20; c++) want[c] = exact(&r, kind, c, s[c]);
        r.y = t.want;
        ref.scan_row[kind](&r);
        for (int c = 0; c < 20; c++) {
            EXPECT(fabs((double)r.y[c] - want[c]) <= 1e-5);
            for (int k = 0; k < r.d_k; k++)
                EXPECT(fabs((double)r.s[k * r.s_row + c] - s[c][k]) <= 4e-6);
        }
    }
    for (int i = 0; i < 8; i++) edge_close(edges[i]);
}
