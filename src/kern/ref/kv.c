/* kv.c - the scalar reference of K and V into pages and out of them; struct kern has it in words,
 * struct kv_layer (backend) the layout of a page. */
#include "kern/kern_impl.h"

static float get_f32(const void *x, int64_t i)
{
    float f;
    memcpy(&f, (const char *)x + i * 4, 4);
    return f;
}

static uint16_t get_u16(const void *x, int64_t i)
{
    uint16_t h;
    memcpy(&h, (const char *)x + i * 2, 2);
    return h;
}

static float get_f16(const void *x, int64_t i)
{
    return f32_of_f16(get_u16(x, i));
}

static float get_bf16(const void *x, int64_t i)
{
    return f32_of_bf16(get_u16(x, i));
}

static float get_q8(const void *x, int64_t i)
{
    return (float)((const int8_t *)x)[i];
}

static float get_e4m3(const void *x, int64_t i)
{
    return f32_of_e4m3(((const uint8_t *)x)[i]);
}

static float get_e5m2(const void *x, int64_t i)
{
    return f32_of_e5m2(((const uint8_t *)x)[i]);
}

static inline void get_k(float *k, const void *x, const float *scale, int d,
                         float get(const void *, int64_t))
{
    for (int i = 0; i < ATTN_TILE * d; i++) {
        float t = get(x, i);
        k[i] = scale ? t * scale[i % ATTN_TILE] : t;
    }
}

static inline void get_v(float *v, const void *x, const float *scale, int n, int d,
                         float get(const void *, int64_t))
{
    int stride = attn_stride(d);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < stride; j++) {
            float t = j < d ? get(x, (int64_t)i * d + j) : 0;
            v[i * stride + j] = scale && j < d ? t * scale[i] : t;
        }
}

#define GET(type)                                                                                  \
    static void get_k_##type(float *k, const void *x, const float *scale, int d,                   \
                             const void *ahead)                                                    \
    {                                                                                              \
        (void)ahead, (void)scale;                                                                  \
        get_k(k, x, scale, d, get_##type);                                                         \
    }                                                                                              \
    static void get_v_##type(float *v, const void *x, const float *scale, int n, int d,            \
                             const void *ahead)                                                    \
    {                                                                                              \
        (void)ahead, (void)scale;                                                                  \
        get_v(v, x, scale, n, d, get_##type);                                                      \
    }
GET(f32)
GET(f16)
GET(bf16)
GET(q8)
GET(e4m3)
GET(e5m2)

static float put_f32(void *y, const float *x, int n)
{
    memcpy(y, x, (size_t)n * sizeof *x);
    return 1;
}

static float put_f16(void *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) ((uint16_t *)y)[i] = f16_of_f32(x[i]);
    return 1;
}

static float put_bf16(void *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) ((uint16_t *)y)[i] = bf16_of_f32(x[i]);
    return 1;
}

static float put_q8(void *y, const float *x, int n)
{
    float amax = 0;
    bool finite = true;
    for (int i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        finite &= a <= 0x1.fffffep127f; /* false for NaN too */
        amax = a > amax ? a : amax;
    }
    bool zero = !finite || amax < 0x1p-120f;
    float scale = amax / 127.0f, inv = zero ? 0 : 1.0f / scale;
    for (int i = 0; i < n; i++) ((int8_t *)y)[i] = zero ? 0 : (int8_t)rintf(x[i] * inv);
    return !finite ? NAN : zero ? 0 : scale;
}

static float put_e4m3(void *y, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        ((uint8_t *)y)[i] = e4m3_of_f32(x[i] > 448 ? 448 : x[i] < -448 ? -448 : x[i]);
    return 1;
}

static float put_e5m2(void *y, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        ((uint8_t *)y)[i] = e5m2_of_f32(x[i] > 57344 ? 57344 : x[i] < -57344 ? -57344 : x[i]);
    return 1;
}

void kern_kv_ref(struct kern *k)
{
#define SLOTS(id, type)                                                                            \
    k->kv_get_k[id] = get_k_##type, k->kv_get_v[id] = get_v_##type, k->kv_put[id] = put_##type
    SLOTS(KV_F32, f32);
    SLOTS(KV_F16, f16);
    SLOTS(KV_BF16, bf16);
    SLOTS(KV_Q8, q8);
    SLOTS(KV_FP8_E4M3, e4m3);
    SLOTS(KV_FP8_E5M2, e5m2);
#undef SLOTS
}
