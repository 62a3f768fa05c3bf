/* bits_test.c - goal: the reference gives the same bits on every processor and with every compiler.
 * All levels that equal the reference then agree everywhere. Method: compare hashes of each kernel
 * family's results for fixed inputs with recorded hashes. All NaNs are equal. */
#include "../../tests/unit.h"

#include "base/hash.h"
#include "base/rng.h"
#include "kern_impl.h"
#include "panel_impl.h"

#include <stdlib.h>

struct trial {
    struct kern ref;
    uint64_t rng, hash;
};

static float *randoms(struct trial *t, float *x, int n, float size)
{
    for (int i = 0; i < n; i++) x[i] = (rng_float(&t->rng) + rng_float(&t->rng) - 1) * size;
    return x;
}

static void take(struct trial *t, const void *data, size_t n_byte)
{
    t->hash = hash_bytes(data, n_byte, t->hash);
}

static void take_floats(struct trial *t, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float y = isnan(x[i]) ? 12345.5f : x[i];
        take(t, &y, sizeof y);
    }
}

/* ---- linear layers ---- */

enum { N_OUT = 21, N_ROW = 3, K_MAX = 800 };

/* Fill rows with bytes whose blocks decode to numbers of ordinary size. */
static void random_rows(struct trial *t, uint8_t *to, enum qtype type, int64_t n)
{
    const int block = qtype_info[type].block, n_byte = qtype_info[type].n_byte;
    for (int64_t i = 0; i < n; i += block, to += n_byte) {
        float y[BLOCK_MAX], size;
        do {
            for (int j = 0; j < n_byte; j++) to[j] = (uint8_t)rng_next(&t->rng);
            qtype_info[type].ops->decode(y, to, block);
            size = 0;
            for (int j = 0; j < block; j++) size += fabsf(y[j]);
        } while (!(size < 1e4f));
    }
}

static void try_type(struct trial *t, enum act_type act, enum qtype type)
{
    const int block = qtype_info[type].block, k = block < 32 ? 771 : block < 256 ? 640 : 768;
    static float x[N_ROW * K_MAX], y[N_ROW * N_OUT];
    struct panels w = {.type = type, .n_out = N_OUT, .k = k, .stride = panel_bytes(type, k)};
    uint8_t *rows = malloc(qtype_bytes(type, N_OUT * k));
    uint8_t *data = aligned_alloc(64, (size_t)(2 * w.stride));
    struct act a = {.type = act, .n_row = N_ROW, .k = k};
    a.x = aligned_alloc(64, act_x_bytes(act, N_ROW, k) + 64);
    a.scale = aligned_alloc(64, act_scale_bytes(N_ROW, k));
    a.sum = aligned_alloc(64, act_sum_bytes(N_ROW, k));
    random_rows(t, rows, type, (int64_t)N_OUT * k);
    panel_pack(data, &w, rows, (int64_t)qtype_bytes(type, k), 0, 2);
    w.data = data;
    randoms(t, x, N_ROW * k, 3);
    for (int i = 0; i < N_ROW; i++) t->ref.act[act](&a, i, x + i * k);
    struct linear_out out = {.y = y, .stride = N_OUT, .bias = x};
    t->ref.linear[act][type](&out, &w, 0, 2, &a, 0, N_ROW);
    take_floats(t, y, N_ROW * N_OUT);
    out.bias = NULL;
    t->ref.linear[act][type](&out, &w, 0, 2, &a, 0, N_ROW);
    t->ref.curve_mul[CURVE_silu](y, y, y, N_ROW * N_OUT);
    take_floats(t, y, N_ROW * N_OUT);
    free(rows), free(data), free(a.x), free(a.scale), free(a.sum);
}

static void try_linear(struct trial *t, enum act_type act)
{
    for (int type = 0; type < QT_COUNT; type++)
        if (t->ref.linear[act][type] && !qtype_is_scaled((enum qtype)type) && type != QT_u4_128 &&
            type != QT_i2_128)
            try_type(t, act, (enum qtype)type);
}

static void try_scaled(struct trial *t)
{
    for (int type = 0; type < QT_COUNT; type++)
        if (t->ref.linear[ACT_F32][type] && qtype_is_scaled((enum qtype)type))
            try_type(t, ACT_F32, (enum qtype)type);
}

static void try_scaled_bf16(struct trial *t)
{
    try_type(t, ACT_BF16, QT_e4m3_128);
}

static void try_levels_q8(struct trial *t)
{
    try_type(t, ACT_Q8, QT_nf4_64);
    try_type(t, ACT_Q8, QT_fp4_64);
}

static void try_i2_128(struct trial *t)
{
    try_type(t, ACT_Q8, QT_i2_128);
    try_type(t, ACT_F32, QT_i2_128);
}

static void try_u4_128(struct trial *t)
{
    try_type(t, ACT_Q8, QT_u4_128);
    try_type(t, ACT_F32, QT_u4_128);
}

static void try_linear_f32(struct trial *t)
{
    try_linear(t, ACT_F32);
}

static void try_linear_bf16(struct trial *t)
{
    try_linear(t, ACT_BF16);
}

static void try_linear_q8(struct trial *t)
{
    try_linear(t, ACT_Q8);
}

/* ---- attention ---- */

enum { D = 40, STRIDE = 48, HEADS = 5 };

static void try_attention(struct trial *t)
{
    static const int32_t from[HEADS] = {0, 3, 40, 17, 0}, to[HEADS] = {64, 20, 50, 33, 1};
    static _Alignas(64) float q[HEADS * D], k[ATTN_BLOCK * D], v[ATTN_BLOCK * STRIDE];
    static _Alignas(64) float m[16], l[HEADS * ATTN_TILE], o[HEADS * STRIDE];
    float slope[HEADS], out[D], y[D];
    for (int form = 0; form < 4; form++) {
        struct attn_rows a = {.n_row = HEADS,
                              .d_k = D,
                              .d_v = D,
                              .softcap = form & 1 ? 5 : 0,
                              .q = q,
                              .from = from,
                              .to = to,
                              .pos = to,
                              .m = m,
                              .l = l,
                              .o = o};
        if (form & 2) a.slope = randoms(t, slope, HEADS, 0.1f);
        for (int i = 0; i < HEADS; i++) m[i] = -INFINITY;
        memset(l, 0, sizeof l), memset(o, 0, sizeof o);
        randoms(t, q, HEADS * D, 2);
        struct attn_kv kv = {.type = KV_F32};
        for (int i = 0; i < ATTN_TILES; i++)
            kv.k[i] = k + i * ATTN_TILE * D, kv.v[i] = v + i * ATTN_TILE * STRIDE;
        for (int i = 0; i < ATTN_BLOCK; i += 32) /* order of the recorded hashes */
            randoms(t, k + i * D, 32 * D, 2), randoms(t, v + i * STRIDE, 32 * STRIDE, 2);
        t->ref.attn_block(&a, &kv, 0);
        take_floats(t, m, HEADS), take_floats(t, l, HEADS * ATTN_TILE);
        float top = -INFINITY, sum = 0;
        memset(out, 0, sizeof out);
        for (int i = 0; i < HEADS; i++) {
            t->ref.attn_merge(&top, &sum, out, m + i, l + i * ATTN_TILE, o + i * STRIDE, D);
            t->ref.attn_finish(y, out, sum, D);
            take_floats(t, y, D);
        }
    }
}

/* Hash the bits of reading and writing K and V, for values over 16 decades. */
static void try_kv(struct trial *t)
{
    static uint8_t code[ATTN_TILE * D * 4];
    static float x[ATTN_TILE * STRIDE], scale[ATTN_TILE];
    for (int type = 0; type < KV_TYPE_COUNT; type++)
        for (float size = 1e-8f; size < 1e8f; size *= 32) {
            memset(code, 0, sizeof code);
            float s = t->ref.kv_put[type](code, randoms(t, x, D, size), D);
            take_floats(t, &s, 1), take(t, code, sizeof code);
            for (size_t i = 0; i < sizeof code; i++) code[i] = (uint8_t)rng_next(&t->rng);
            bool scaled = type == KV_Q8;
            if (scaled) randoms(t, scale, ATTN_TILE, 1);
            t->ref.kv_get[type](x, code, D, ATTN_TILE, code);
            for (int i = 0; i < ATTN_TILE * D && scaled; i++) x[i] *= scale[i % ATTN_TILE];
            take_floats(t, x, ATTN_TILE * D);
            t->ref.kv_get[type](x, code, ATTN_TILE, D, code);
            for (int i = 0; i < ATTN_TILE * STRIDE && scaled; i++)
                if (i % STRIDE < D) x[i] *= scale[i / STRIDE];
            take_floats(t, x, ATTN_TILE * STRIDE);
        }
}

/* ---- functions of one value, and rows ---- */

/* Compute the functions of every 65,521st f32, including infinities, NaNs and subnormals. */
static void try_curves(struct trial *t)
{
    for (uint64_t u = 0; u <= 0xFFFFFFFFu; u += 65521) {
        float x = f32_of_bits((uint32_t)u), y[CURVE_relu];
        for (int i = 0; i < CURVE_relu; i++) t->ref.curve[i](y + i, &x, 1);
        take_floats(t, y, CURVE_relu);
    }
}

static void try_layer_norm(struct trial *t)
{
    enum { N = 203 };
    float x[2 * N], g[N], bias[N], y[2 * N];
    for (float size = 1e-8f; size < 1e8f; size *= 8) {
        randoms(t, x, 2 * N, size), randoms(t, g, N, 2), randoms(t, bias, N, 2);
        t->ref.layer_norm(y, x, g, bias, 2, N, 1e-5f), take_floats(t, y, 2 * N);
        t->ref.layer_norm(y, x, g, NULL, 2, N, 1e-5f), take_floats(t, y, 2 * N);
        t->ref.curve[CURVE_relu](y, x, N), t->ref.curve[CURVE_relu2](y + N, x, N);
        take_floats(t, y, 2 * N);
    }
}

/* Hash the bits of a curve, for arguments of all magnitudes. */
static void try_curve(struct trial *t, enum curve curve)
{
    for (uint64_t u = 0; u <= 0xFFFFFFFFu; u += 65521) {
        float x = f32_of_bits((uint32_t)u), y;
        t->ref.curve[curve](&y, &x, 1);
        take_floats(t, &y, 1);
    }
}

static void try_sigmoid(struct trial *t)
{
    try_curve(t, CURVE_sigmoid);
}

static void try_softplus(struct trial *t)
{
    try_curve(t, CURVE_softplus);
}

/* Hash the bits of rows of recurrences, and of a convolution. */
static void try_scan(struct trial *t)
{
    enum { N = 37, D_K = 11 };
    float s[D_K * N], a[D_K * N], v[N], beta[N], skip[N], q[D_K], k[D_K], y[N];
    for (int i = 0; i < 60; i++) {
        randoms(t, s, D_K * N, 2), randoms(t, a, D_K * N, 4), randoms(t, v, N, 2);
        randoms(t, beta, N, 1), randoms(t, skip, N, 1), randoms(t, q, D_K, 1);
        randoms(t, k, D_K, 1);
        const struct scan_row r = {.y = y,
                                   .s = s,
                                   .q = q,
                                   .k = k,
                                   .v = v,
                                   .decay = a,
                                   .beta = beta,
                                   .a = a,
                                   .skip = i % 2 ? skip : NULL,
                                   .decay_step = i / 2 % 2,
                                   .d_k = D_K,
                                   .d_v = N,
                                   .s_row = N};
        t->ref.scan_row[i % SCAN_WKV](&r); /* the kinds before SCAN_WKV */
        take_floats(t, y, N), take_floats(t, s, D_K * N);
        const float *const x[3] = {s, s + N, v};
        t->ref.conv_row(y, x, a, N, i % 2 ? skip : NULL, 3, N), take_floats(t, y, N);
    }
}

/* Hash the bits of rows of RWKV's recurrences. */
static void try_wkv(struct trial *t)
{
    enum { N = 37, D_K = 11 };
    float s[D_K * N], k[N], v[N], decay[N], skip[N], q[D_K], a[D_K], b[D_K], y[N];
    for (int i = 0; i < 60; i++) {
        const enum scan_kind kind = SCAN_WKV + i % (SCAN_COUNT - SCAN_WKV);
        randoms(t, s, D_K * N, 2), randoms(t, k, N, 2), randoms(t, v, N, 2);
        randoms(t, decay, N, 1), randoms(t, skip, N, 1), randoms(t, q, D_K, 1);
        randoms(t, a, D_K, 1), randoms(t, b, D_K, 1);
        const struct scan_row r = {.y = y,
                                   .s = s,
                                   .q = q,
                                   .k = k,
                                   .v = v,
                                   .decay = decay,
                                   .a = a,
                                   .b = b,
                                   .skip = skip,
                                   .decay_step = i / 3 % 2,
                                   .d_k = kind == SCAN_WKV ? 3 : D_K,
                                   .d_v = N,
                                   .s_row = N};
        t->ref.scan_row[kind](&r);
        take_floats(t, y, N), take_floats(t, s, D_K * N);
    }
}

/* Hash the bits of norms, rope, softmax and conversions. An odd length leaves a tail in every
 * vector size. */
static void try_ops(struct trial *t)
{
    enum { N = 203 };
    static float x[2 * N], g[2 * N], y[2 * N];
    static uint16_t h[2 * N];
    for (float size = 1e-8f; size < 1e8f; size *= 8) {
        randoms(t, x, 2 * N, size), randoms(t, g, 2 * N, 2);
        t->ref.rms_norm(y, x, g, 2, N, 1e-5f);
        take_floats(t, y, 2 * N);
        for (int neox = 0; neox < 2; neox++) t->ref.rope(x, 2, N, g, g + N, N / 2 * 2, neox);
        take_floats(t, x, 2 * N);
        t->ref.softmax(y, x, 2 * N), t->ref.add(y, x, 2 * N);
        take_floats(t, y, 2 * N);
        t->ref.to_f16(h, x, 2 * N), take(t, h, sizeof h), t->ref.of_f16(y, h, 2 * N);
        take_floats(t, y, 2 * N);
        t->ref.to_bf16(h, x, 2 * N), take(t, h, sizeof h), t->ref.of_bf16(y, h, 2 * N);
        take_floats(t, y, 2 * N);
    }
}

/* Hash the bits of the passes over a row of logits. */
static void try_rows(struct trial *t)
{
    enum { N = 1003 };
    static float x[N], w[N], b[N], value[N + 16];
    static int32_t index[N + 16];
    for (float size = 0.5f; size < 100; size *= 2) {
        randoms(t, x, N, size), randoms(t, b, N, size);
        float max = t->ref.row_max(w, x, N);
        int n_found = t->ref.row_find(index, value, x, w, N, 0.1f, INFINITY), n_above;
        take(t, index, (size_t)n_found * sizeof *index), take_floats(t, value, n_found);
        double sums[3] = {t->ref.row_exp(w, value, x, N, max, 0.7f)};
        take_floats(t, w, N);
        sums[1] = t->ref.row_mass(w, x, N, 0.2f, &n_above);
        sums[2] = t->ref.row_product(x, 0.1f, b, -0.3f, N);
        take(t, sums, sizeof sums), take(t, &n_above, sizeof n_above);
    }
}

TEST(reference_gives_the_recorded_bits)
{
    static const struct {
        const char *name;
        void (*run)(struct trial *t);
        uint64_t hash;
    } family[] = {
        {"linear, f32", try_linear_f32, 0x956d6c2680b32697u},
        {"linear, bf16", try_linear_bf16, 0xe8048e5d412188bfu},
        {"linear, int8", try_linear_q8, 0x3c7b9f40ff90c11au},
        {"attention", try_attention, 0x22ad42c6cb2778c2u},
        {"kv", try_kv, 0xa93f19e7ce3b1a95u},
        {"curves", try_curves, 0xff254f51f0e90e4fu},
        {"ops", try_ops, 0xb0a17eb1662f5b0fu},
        {"layer norm, relu", try_layer_norm, 0xe8e86f340ab8f0fcu},
        {"linear, scaled", try_scaled, 0x8282212b841b406cu},
        {"linear, E4M3_128 x bf16", try_scaled_bf16, 0x70424d51d74ea670u},
        {"linear, levels x int8", try_levels_q8, 0xa15f394d317f09a1u},
        {"linear, U4_128", try_u4_128, 0xe5ab4456248fee0au},
        {"linear, I2_128", try_i2_128, 0xfa986413c121a8f6u},
        {"sigmoid", try_sigmoid, 0xcd4934e1081041c4u},
        {"softplus", try_softplus, 0xc84b038927c3a6c5u},
        {"recurrences", try_scan, 0x882df5f1124a5a55u},
        {"recurrences of RWKV", try_wkv, 0x197e5fda0a9fdcabu},
        {"rows", try_rows, 0xaaaa77950e42ce80u},
    };
    struct err e;
    for (size_t i = 0; i < sizeof family / sizeof *family; i++) {
        struct trial t = {.rng = 1};
        NEED_OK(kern_open(&t.ref, "ref", &e), &e);
        family[i].run(&t);
        if (t.hash != family[i].hash)
            test_fail(__FILE__, __LINE__, "%s: 0x%016llx", family[i].name,
                      (unsigned long long)t.hash);
    }
}
