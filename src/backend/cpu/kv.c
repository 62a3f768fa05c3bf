/* kv.c - K and V into and out of pages on the CPU; the layout is drawn at struct kv_layer. */
#include "cpu_impl.h"

#include <math.h>
#include <string.h>

static int panel_width(const struct kv_layer *kv)
{
    return kv->page_rows < ATTN_TILE ? kv->page_rows : ATTN_TILE;
}

/* Index of K element (head, offset in page, dim) within its page. */
static int64_t k_index(const struct kv_layer *kv, int head, int offset, int d)
{
    int w = panel_width(kv);
    return (((int64_t)head * (kv->page_rows / w) + offset / w) * kv->d_k + d) * w + offset % w;
}

static int64_t v_index(const struct kv_layer *kv, int head, int offset)
{
    return ((int64_t)head * kv->page_rows + offset) * kv->d_v;
}

static float *scale_of(const struct kv_layer *kv, uint8_t *page, int d, int head, int offset)
{
    int64_t n = (int64_t)kv->n_head_kv * kv->page_rows;
    return (float *)(page + n * d) + (int64_t)head * kv->page_rows + offset;
}

/* int8 with scale amax / 127, as activations are (kern.h), over one head of one token. */
static float q8_scale(const float *x, int n)
{
    float amax = 0;
    for (int i = 0; i < n; i++) amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    return amax < 0x1p-120f || !(amax <= 0x1.fffffep127f) ? 0 : amax / 127.0f;
}

static void put_value(enum kv_type t, uint8_t *at, int64_t i, float x, float inv)
{
    switch (t) {
    case KV_F32:
        memcpy(at + i * 4, &x, 4);
        break;
    case KV_F16: {
        uint16_t h = f16_of_f32(x);
        memcpy(at + i * 2, &h, 2);
        break;
    }
    case KV_BF16: {
        uint16_t h = bf16_of_f32(x);
        memcpy(at + i * 2, &h, 2);
        break;
    }
    case KV_Q8:
        at[i] = (uint8_t)(int8_t)(int)rintf(x * inv);
        break;
    case KV_FP8_E4M3:
        at[i] = e4m3_of_f32(x > 448 ? 448 : x < -448 ? -448 : x);
        break;
    case KV_FP8_E5M2:
        at[i] = e5m2_of_f32(x > 57344 ? 57344 : x < -57344 ? -57344 : x);
        break;
    default:
        break;
    }
}

static float get_value(enum kv_type t, const uint8_t *at, int64_t i)
{
    uint16_t h;
    float x;
    switch (t) {
    case KV_F32:
        memcpy(&x, at + i * 4, 4);
        return x;
    case KV_F16:
        memcpy(&h, at + i * 2, 2);
        return f32_of_f16(h);
    case KV_BF16:
        memcpy(&h, at + i * 2, 2);
        return f32_of_bf16(h);
    case KV_Q8:
        return (float)(int8_t)at[i];
    case KV_FP8_E4M3:
        return f32_of_e4m3(at[i]);
    case KV_FP8_E5M2:
        return f32_of_e5m2(at[i]);
    default:
        return 0;
    }
}

static float put_scale(const struct kv_layer *kv, uint8_t *page, int d, int head, int offset,
                       const float *x)
{
    if (kv->type != KV_Q8) return 1;
    float scale = q8_scale(x, d);
    *scale_of(kv, page, d, head, offset) = scale;
    return scale == 0 ? 0 : 1.0f / scale;
}

static void put_token(const struct kv_layer *kv, const float *k, const float *v, int32_t slot)
{
    int offset = slot % kv->page_rows;
    uint8_t *kp = kv->k + slot / kv->page_rows * kv->k_page_bytes;
    uint8_t *vp = kv->v + slot / kv->page_rows * kv->v_page_bytes;
    for (int h = 0; h < kv->n_head_kv; h++, k += kv->d_k, v += kv->d_v) {
        float inv = put_scale(kv, kp, kv->d_k, h, offset, k);
        for (int d = 0; d < kv->d_k; d++)
            put_value(kv->type, kp, k_index(kv, h, offset, d), k[d], inv);
        inv = put_scale(kv, vp, kv->d_v, h, offset, v);
        for (int d = 0; d < kv->d_v; d++)
            put_value(kv->type, vp, v_index(kv, h, offset) + d, v[d], inv);
    }
}

void cpu_kv_put(struct backend *b, const struct kv_layer *kv, const float *k, const float *v,
                const int32_t *slot, int n_row)
{
    (void)b;
    for (int i = 0; i < n_row; i++)
        put_token(kv, k + (int64_t)i * kv->n_head_kv * kv->d_k,
                  v + (int64_t)i * kv->n_head_kv * kv->d_v, slot[i]);
}

void cpu_kv_copy(struct backend *b, const struct kv_layer *kv, int32_t page_src, int32_t page_dst)
{
    (void)b;
    memcpy(kv->k + page_dst * kv->k_page_bytes, kv->k + page_src * kv->k_page_bytes,
           (size_t)kv->k_page_bytes);
    memcpy(kv->v + page_dst * kv->v_page_bytes, kv->v + page_src * kv->v_page_bytes,
           (size_t)kv->v_page_bytes);
}

static float tile_scale(const struct kv_layer *kv, uint8_t *page, int d, int head, int offset)
{
    return kv->type == KV_Q8 ? *scale_of(kv, page, d, head, offset) : 1;
}

void cpu_kv_tile(const struct kv_layer *kv, int head, const int32_t *page, int pos0, int n,
                 float *k, float *v)
{
    for (int i = 0; i < n; i++) {
        int pos = pos0 + i, offset = pos % kv->page_rows;
        uint8_t *kp = kv->k + page[pos / kv->page_rows] * kv->k_page_bytes;
        uint8_t *vp = kv->v + page[pos / kv->page_rows] * kv->v_page_bytes;
        float ks = tile_scale(kv, kp, kv->d_k, head, offset),
              vs = tile_scale(kv, vp, kv->d_v, head, offset);
        for (int d = 0; d < kv->d_k; d++)
            k[d * ATTN_TILE + i] = get_value(kv->type, kp, k_index(kv, head, offset, d)) * ks;
        for (int d = 0; d < kv->d_v; d++)
            v[i * kv->d_v + d] = get_value(kv->type, vp, v_index(kv, head, offset) + d) * vs;
    }
}
