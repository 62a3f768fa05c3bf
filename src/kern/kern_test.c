/* kern_test.c - goal: every level of kernels gives the bits of the reference, and the reference
 * is right. Method: random rows of every weight type at odd sizes through every level, compared
 * bit for bit; the reference against double precision within stated bounds; exp against libm's
 * over the whole range. */
#include "../../tests/unit.h"

#include "base/cpu.h"
#include "base/rng.h"
#include "kern_impl.h"

#include <stdlib.h>

enum { K_MAX = 1280, N_OUT = 19, N_ROW = 9, GUARD = 32 };

struct rows {
    float x[N_ROW * K_MAX];
    int8_t q[N_ROW * K_MAX];
    uint16_t h[N_ROW * K_MAX];
    float scale[N_ROW * (K_MAX / ACT_GROUP + 1)];
};

static void random_floats(float *x, int n, float size, uint64_t *rng)
{
    for (int i = 0; i < n; i++) x[i] = (rng_float(rng) + rng_float(rng) - 1) * size;
}

static void random_rows(struct rows *r, const struct kern *ref, int k, uint64_t *rng)
{
    int n_group = (k + ACT_GROUP - 1) / ACT_GROUP;
    random_floats(r->x, N_ROW * k, 3, rng);
    for (int i = 0; i < N_ROW; i++) {
        ref->act_q8(r->q + i * k, r->scale + i * n_group, r->x + i * k, k);
        ref->act_bf16(r->h + i * k, r->x + i * k, k);
    }
}

static const void *act_of(const struct rows *r, int act)
{
    return act == ACT_Q8     ? (const void *)r->q
           : act == ACT_BF16 ? (const void *)r->h
                             : (const void *)r->x;
}

/* N_OUT rows of k weights: encoded from random values where the type can be encoded, else random
 * bytes that decode to finite numbers. */
static uint8_t *random_weights(enum qtype t, int k, uint64_t *rng)
{
    size_t n_byte = qtype_bytes(t, k) * N_OUT;
    uint8_t *w = malloc(n_byte);
    float *x = malloc((size_t)k * N_OUT * sizeof *x);
    random_floats(x, k * N_OUT, 1, rng);
    if (qtype_info[t].ops->encode)
        qtype_info[t].ops->encode(w, x, (int64_t)k * N_OUT, NULL);
    else
        for (size_t i = 0; i < n_byte; i++) w[i] = (uint8_t)(rng_next(rng) & 0x3F);
    free(x);
    return w;
}

static void fill_guard(float *y, int n)
{
    for (int i = 0; i < n; i++) y[i] = 12345.5f;
}

static bool guard_intact(const float *y, int n)
{
    for (int i = 0; i < GUARD; i++)
        if (y[n + i] != 12345.5f) return false;
    return true;
}

static void compare_linear(const struct kern *ref, const struct kern *isa, int act, enum qtype t,
                           int k, uint64_t *rng)
{
    static struct rows r;
    float want[N_ROW * N_OUT + GUARD], got[N_ROW * N_OUT + GUARD];
    random_rows(&r, ref, k, rng);
    uint8_t *w = random_weights(t, k, rng);
    for (int n_row = 1; n_row <= N_ROW; n_row += n_row < 2 ? 1 : 3) {
        fill_guard(want, N_ROW * N_OUT + GUARD);
        fill_guard(got, N_ROW * N_OUT + GUARD);
        ref->linear[act][t](want, N_OUT, t, w, (int64_t)qtype_bytes(t, k), N_OUT, act_of(&r, act),
                            r.scale, n_row, k);
        isa->linear[act][t](got, N_OUT, t, w, (int64_t)qtype_bytes(t, k), N_OUT, act_of(&r, act),
                            r.scale, n_row, k);
        if (memcmp(want, got, sizeof(float) * (size_t)(n_row * N_OUT)) != 0)
            test_fail(__FILE__, __LINE__, "%s: linear %s, act %d, k %d, %d rows differ from ref",
                      isa->name, qtype_info[t].name, act, k, n_row);
        if (!guard_intact(got, n_row * N_OUT))
            test_fail(__FILE__, __LINE__, "%s: linear %s wrote past its end", isa->name,
                      qtype_info[t].name);
    }
    free(w);
}

TEST(linear_every_level_equals_reference)
{
    struct kern ref, isa;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    uint64_t rng = 3;
    int n = 0;
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &e), &e);
        for (int act = 0; act < ACT_COUNT; act++)
            for (int t = 0; t < QT_COUNT; t++) {
                if (!ref.linear[act][t]) continue;
                int step = qtype_info[t].block < 32 ? 37 : qtype_info[t].block;
                for (int k = step; k <= K_MAX; k += step * (1 + (int)rng_below(&rng, 5)), n++)
                    compare_linear(&ref, &isa, act, (enum qtype)t, k, &rng);
            }
    }
    EXPECT(n > 100);
}

/* |y - exact| <= rounding of the activations + rounding of the sums: half a step of each group's
 * scale times sum |w|, and
 * (k / 32 + 8) ulps of sum |a w|. */
static void check_bound(const struct kern *ref, int act, enum qtype t, int k, uint64_t *rng)
{
    static struct rows r;
    static float row[K_MAX];
    float y[N_ROW * N_OUT];
    random_rows(&r, ref, k, rng);
    uint8_t *w = random_weights(t, k, rng);
    ref->linear[act][t](y, N_OUT, t, w, (int64_t)qtype_bytes(t, k), N_OUT, act_of(&r, act), r.scale,
                        N_ROW, k);
    int n_group = (k + ACT_GROUP - 1) / ACT_GROUP;
    for (int o = 0; o < N_OUT; o++) {
        qtype_info[t].ops->decode(row, w + (size_t)o * qtype_bytes(t, k), k);
        for (int i = 0; i < N_ROW; i++) {
            double exact = 0, size = 0, bound = 0;
            for (int j = 0; j < k; j++) {
                double a = r.x[i * k + j], p = a * row[j];
                exact += p;
                size += fabs(p);
                if (act == ACT_Q8)
                    bound += 0.5001 * r.scale[i * n_group + j / ACT_GROUP] * fabs((double)row[j]);
                if (act == ACT_BF16) bound += fabs(p) * 0x1p-8;
            }
            bound += size * (k / 32 + 40) * 0x1p-23;
            if (!(fabs(y[i * N_OUT + o] - exact) <= bound))
                test_fail(__FILE__, __LINE__, "linear %s, act %d, k %d: %g, not %g +- %g",
                          qtype_info[t].name, act, k, (double)y[i * N_OUT + o], exact, bound);
        }
    }
    free(w);
}

TEST(linear_reference_is_within_its_bound_of_double)
{
    struct kern ref;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    uint64_t rng = 11;
    for (int act = 0; act < ACT_COUNT; act++)
        for (int t = 0; t < QT_COUNT; t++)
            if (ref.linear[act][t])
                check_bound(&ref, act, (enum qtype)t, qtype_info[t].block >= 32 ? 768 : 771, &rng);
}

TEST(activations_quantize_as_stated)
{
    struct kern ref;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    float x[300], scale[2];
    int8_t q[300];
    for (int i = 0; i < 300; i++) x[i] = (float)(i - 150);
    ref.act_q8(q, scale, x, 300);
    EXPECT(scale[0] == 150.0f / 127.0f && scale[1] == 149.0f / 127.0f);
    EXPECT_INT(q[0], -127);
    EXPECT_INT(q[150], 0);
    EXPECT_INT(q[299], 127);
    for (int i = 0; i < 256; i++) EXPECT(fabsf((float)q[i] * scale[0] - x[i]) <= 0.501f * scale[0]);
    memset(x, 0, sizeof x);
    ref.act_q8(q, scale, x, 256);
    EXPECT(scale[0] == 0 && q[17] == 0);
    x[3] = 1e-40f; /* 127 / amax would overflow */
    ref.act_q8(q, scale, x, 256);
    EXPECT(scale[0] == 0 && q[3] == 0);
    x[5] = NAN;
    ref.act_q8(q, scale, x, 256);
    EXPECT(isnan(scale[0]) && q[5] == 0);
    x[5] = -INFINITY;
    ref.act_q8(q, scale, x, 256);
    EXPECT(isnan(scale[0]));
}

static int64_t ulps_apart(float a, float b)
{
    return llabs((int64_t)bits_of_f32(a) - (int64_t)bits_of_f32(b));
}

TEST(exp_is_within_one_ulp)
{
    EXPECT(kern_exp(0.0f) == 1.0f && kern_exp(-0.0f) == 1.0f);
    EXPECT(kern_exp(-INFINITY) == 0 && kern_exp(INFINITY) == INFINITY && isnan(kern_exp(NAN)));
    int64_t worst = 0;
    uint32_t step = test_long() ? 1 : 97;
    for (uint64_t u = 0; u <= 0xFFFFFFFFu; u += step) {
        float x = f32_of_bits((uint32_t)u);
        if (!(fabsf(x) <= 110)) continue;
        int64_t d = ulps_apart(kern_exp(x), (float)exp((double)x));
        worst = d > worst ? d : worst;
    }
    test_note("exp: at most %lld ulp from the rounded exact value", (long long)worst);
    EXPECT(worst <= 1);
}

/* Elementwise kernels and norms of every level, at every length to 70 and some longer, against
 * the reference. */
static void compare_vectors(const struct kern *ref, const struct kern *isa, int n, uint64_t *rng)
{
    float x[600], g[600], up[600], a[600], b[600];
    random_floats(x, n, 8, rng);
    random_floats(g, n, 2, rng);
    random_floats(up, n, 2, rng);
    memcpy(a, x, sizeof a), memcpy(b, x, sizeof b);
    ref->rms_norm(a, x, g, n, 1e-5f), isa->rms_norm(b, x, g, n, 1e-5f);
    EXPECT_BITS(a, b, (size_t)n * 4);
    ref->silu_mul(a, x, up, n), isa->silu_mul(b, x, up, n);
    EXPECT_BITS(a, b, (size_t)n * 4);
    ref->add(a, up, n), isa->add(b, up, n);
    EXPECT_BITS(a, b, (size_t)n * 4);
    int d_rot = n / 2 * 2;
    for (int neox = 0; neox < 2; neox++) {
        ref->rope(a, g, up, d_rot, neox), isa->rope(b, g, up, d_rot, neox);
        EXPECT_BITS(a, b, (size_t)n * 4);
    }
    int8_t qa[600], qb[600];
    float sa[3], sb[3];
    ref->act_q8(qa, sa, x, n), isa->act_q8(qb, sb, x, n);
    EXPECT_BITS(qa, qb, (size_t)n);
    EXPECT_BITS(sa, sb, (size_t)((n + 255) / 256) * 4);
    uint16_t ha[600], hb[600];
    ref->act_bf16(ha, x, n), isa->act_bf16(hb, x, n);
    EXPECT_BITS(ha, hb, (size_t)n * 2);
}

static void compare_attn(const struct kern *ref, const struct kern *isa, int d, int lo, int hi,
                         uint64_t *rng)
{
    static float q[256], k[256 * ATTN_TILE], v[256 * ATTN_TILE], oa[256], ob[256], ta[256], tb[256];
    struct attn_state sa = {.m = -INFINITY}, sb = sa;
    float ma = -INFINITY, mb = ma, la = 0, lb = 0;
    memset(oa, 0, sizeof oa), memset(ob, 0, sizeof ob), memset(ta, 0, sizeof ta),
        memset(tb, 0, sizeof tb);
    for (int tile = 0; tile < 3; tile++) {
        random_floats(q, d, 2, rng);
        random_floats(k, d * ATTN_TILE, 2, rng);
        random_floats(v, d * ATTN_TILE, 2, rng);
        ref->attn_tile(&sa, oa, q, k, v, d, d, lo, hi, 0.1f),
            isa->attn_tile(&sb, ob, q, k, v, d, d, lo, hi, 0.1f);
        EXPECT_BITS(&sa, &sb, sizeof sa);
        ref->attn_merge(&ma, &la, ta, &sa, oa, d), isa->attn_merge(&mb, &lb, tb, &sb, ob, d);
    }
    ref->attn_finish(ta, la, d), isa->attn_finish(tb, lb, d);
    EXPECT_BITS(ta, tb, (size_t)d * 4);
}

TEST(vectors_every_level_equals_reference)
{
    struct kern ref, isa;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    uint64_t rng = 5;
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &e), &e);
        for (int n = 1; n <= 600; n += n < 70 ? 1 : 53) compare_vectors(&ref, &isa, n, &rng);
        for (int d = 1; d <= 256; d += d < 20 ? 1 : 27)
            for (int lo = 0; lo < ATTN_TILE; lo += 5)
                for (int hi = lo + 1; hi <= ATTN_TILE; hi += 3)
                    compare_attn(&ref, &isa, d, lo, hi, &rng);
    }
}

TEST(an_unknown_level_is_refused_by_name)
{
    struct kern k;
    struct err e;
    EXPECT_INT(kern_open(&k, "mmx", &e), ERR_ARG);
    EXPECT(strstr(e.text, "mmx") && strstr(e.text, "ref"));
}

TEST(float_mode_is_canonical_again_after_a_host_changed_it)
{
    unsigned former = cpu_float_canonical();
    volatile float tiny = 1e-39f;
    EXPECT(tiny * 0.5f != 0);
    cpu_float_restore(former);
}
