/* kv.h - read and write K and V in pages, in code with the names of vec.h. A level's attn.c
 * includes its vec.h and this file, and fills its slots by kv_slots().
 *
 * Reading widens a panel of K or some rows of V to f32, so the products of attention have one form.
 * In decode, widening is most of the work apart from memory access. In prefill, all rows of an item
 * share the widened values. Meanwhile the bytes of a later panel are prefetched in software. Pages
 * are scattered, and no hardware prefetcher follows a page table. On machine A, attention by attn.h
 * with 32/8 heads of 64 in f16 at 32 k positions used 81 to 86 % of the read bandwidth. The
 * previous version used 63 %. In an older measurement, prefetches reached 57 % of the bandwidth in
 * the order of use, and 71 to 77 % in the order of addresses. On one thread, int8 pages reach 58 %
 * of the bandwidth, and heads of 128 in f16 reach 100 % (docs/measurements.md, "Comparison with
 * other engines"). Any thread may call kernels, because they change only the memory of their
 * arguments. */
#ifndef QUOTH_KERN_TMPL_KV_H
#define QUOTH_KERN_TMPL_KV_H

#include "kern/tmpl/kv_load.h"

/* ---- out of pages ---- */

/* Widen n values (a multiple of 16). One line of `ahead` is prefetched per line of x. */
INLINE void widen(float *y, const char *x, int n, const char *ahead, const int size,
                  vf load(const void *))
{
    const int line = 64 / size;
    for (int i = 0; i < n; i += line) {
        __builtin_prefetch(ahead + i * size, 0, 2);
        for (int j = i; j < i + line && j < n; j += VL) vf_store(y + j, load(x + j * size));
    }
}

/* Widen the last n < 16 values of a row and append zeros. No byte past the row is read. */
INLINE void widen_end(float *y, const char *x, int n, const int size, vf load(const void *))
{
    _Alignas(64) char part[ATTN_TILE * 4] = {0};
    memcpy(part, x, (size_t)(n * size));
    for (int j = 0; j < ATTN_TILE; j += VL) vf_store(y + j, load(part + j * size));
}

INLINE void get(float *y, const char *x, int n, int d, const char *ahead, const int size,
                vf load(const void *))
{
    const int stride = attn_stride(d), whole = d - d % ATTN_TILE;
    if (d == whole) {
        widen(y, x, n * d, ahead, size, load);
        return;
    }
    for (int i = 0; i < n; i++, y += stride, x += d * size, ahead += d * size) {
        widen(y, x, whole, ahead, size, load);
        widen_end(y + whole, x + whole * size, d - whole, size, load);
    }
}

#define GET(type, size, load)                                                                      \
    static void get_##type(float *y, const void *x, int n, int d, const void *ahead)               \
    {                                                                                              \
        get(y, x, n, d, ahead, size, load);                                                        \
    }
GET(f32, 4, load_f32)
GET(f16, 2, vf_load_f16)
GET(bf16, 2, vf_load_bf16)
GET(q8, 1, load_q8)
GET(e4m3, 1, vf_load_e4m3)
GET(e5m2, 1, vf_load_e5m2)

/* Transpose a panel of K. A vector receives VL dims of one position. */
static void turn(float *y, const float *x, int d)
{
    const int stride = attn_stride(d), whole = d - d % VL;
    for (int d0 = 0; d0 < whole; d0 += VL)
        for (int i = 0; i < ATTN_TILE; i += 4) {
            vf a[4];
            for (int j = 0; j < 4; j++)
                a[j] = vf_quads(x + (d0 + j) * ATTN_TILE + i, 4 * ATTN_TILE);
            vf_turn_quads(a);
            for (int j = 0; j < 4; j++) vf_store(y + (i + j) * stride + d0, a[j]);
        }
    for (int i = 0; i < ATTN_TILE; i++)
        for (int j = whole; j < stride; j++) y[i * stride + j] = j < d ? x[j * ATTN_TILE + i] : 0;
}

/* ---- into pages ---- */

/* Return codes of a small float with n_exp and n_man bits, as narrow() in quant computes them. |x|
 * is clamped to `max`. The code of a NaN is `nan`. */
INLINE vi narrow(vf x, const int n_exp, const int n_man, float max, vi nan)
{
    const int bias = (1 << (n_exp - 1)) - 1, n_cut = 23 - n_man;
    vf a = vf_min(vf_set1(max), vf_abs(x)); /* a NaN stays */
    vi anchor = vi_set1((128 - bias + n_cut) << 23), u = vi_cast(a);
    vi small = vi_sub(vi_cast(vf_add(a, vf_cast(anchor))), anchor);
    vi up = vi_add(vi_and(vi_srl(u, n_cut), vi_set1(1)), vi_set1((1 << (n_cut - 1)) - 1));
    vi normal = vi_sub(vi_srl(vi_add(u, up), n_cut), vi_set1((127 - bias) << n_man));
    vmask is_small = vf_gt(vf_cast(vi_set1((128 - bias) << 23)), a);
    vf code = vf_select(is_small, vf_cast(small), vf_cast(normal));
    code = vf_select(vf_le(a, vf_set1(max)), code, vf_cast(nan));
    return vi_or(vi_srl(vi_and(vi_cast(x), vi_set1(INT32_MIN)), 31 - n_exp - n_man), vi_cast(code));
}

static inline void store_f32(void *p, vf x)
{
    vf_store(p, x);
}

static inline void store_bf16(void *p, vf x)
{
    vi u = vi_cast(x);
    vi up = vi_add(vi_and(vi_srl(u, 16), vi_set1(1)), vi_set1(0x7FFF));
    vf nan = vf_cast(vi_or(u, vi_set1(0x00400000)));
    vf y = vf_select(vf_le(vf_abs(x), vf_set1(INFINITY)), vf_cast(vi_add(u, up)), nan);
    vi_store_u16(p, vi_srl(vi_cast(y), 16));
}

static inline void store_e4m3(void *p, vf x)
{
    vi_store_u8(p, narrow(x, 4, 3, 448, vi_set1(0x7F)));
}

static inline void store_e5m2(void *p, vf x)
{
    vi payload = vi_and(vi_srl(vi_cast(x), 21), vi_set1(1));
    vi_store_u8(p, narrow(x, 5, 2, 57344, vi_or(payload, vi_set1(0x7E))));
}

INLINE float put(char *y, const float *x, int n, const int size, void store(void *, vf))
{
    int i = 0;
    for (; i + VL <= n; i += VL) store(y + i * size, vf_load(x + i));
    if (i < n) {
        char part[4 * VL];
        store(part, vf_load_n(x + i, n - i));
        memcpy(y + i * size, part, (size_t)((n - i) * size));
    }
    return 1;
}

#define PUT(type, size, store)                                                                     \
    static float put_##type(void *y, const float *x, int n)                                        \
    {                                                                                              \
        return put(y, x, n, size, store);                                                          \
    }
PUT(f32, 4, store_f32)
PUT(f16, 2, vf_store_f16)
PUT(bf16, 2, store_bf16)
PUT(e4m3, 1, store_e4m3)
PUT(e5m2, 1, store_e5m2)

/* Return the largest |x|; NaN if an x is infinite or NaN. */
static float amax_finite(const float *x, int n)
{
    vf top = vf_zero(), wrong = vf_zero();
    for (int i = 0; i < n; i += VL) {
        vf a = vf_abs(vf_load_n(x + i, n - i < VL ? n - i : VL));
        top = vf_max(a, top);
        wrong = vf_add(wrong, vf_sub(a, a));
    }
    float t[VL], w[VL], amax = 0;
    vf_store(t, top), vf_store(w, wrong);
    for (int i = 0; i < VL; i++) amax = w[i] != 0 ? NAN : t[i] > amax ? t[i] : amax;
    return amax;
}

static float put_q8(void *y, const float *x, int n)
{
    float amax = amax_finite(x, n), scale = amax / 127.0f;
    if (!(amax >= 0x1p-120f)) {
        memset(y, 0, (size_t)n);
        return amax != amax ? NAN : 0;
    }
    float inv = 1.0f / scale;
    for (int i = 0; i < n; i += VL) {
        int m = n - i < VL ? n - i : VL;
        char part[VL];
        vi_store_u8(part, vi_round(vf_mul(vf_load_n(x + i, m), vf_set1(inv))));
        memcpy((char *)y + i, part, (size_t)m);
    }
    return scale;
}

/* Set the slots that read and write K and V. */
static void kv_slots(struct kern *k)
{
#define SLOTS(id, type) k->kv_get[id] = get_##type, k->kv_put[id] = put_##type
    SLOTS(KV_F32, f32);
    SLOTS(KV_F16, f16);
    SLOTS(KV_BF16, bf16);
    SLOTS(KV_Q8, q8);
    SLOTS(KV_FP8_E4M3, e4m3);
    SLOTS(KV_FP8_E5M2, e5m2);
#undef SLOTS
    k->kv_turn = turn;
}

#endif
