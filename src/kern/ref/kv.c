/* kv.c - the scalar reference of writing and reading K and V in pages. The comments of struct kern
 * describe these functions. struct kv_layer (backend) has the layout of a page.
 *
 * Each put_* converts n values to the page's type and returns their scale (1 if the type has none).
 * Each get_* converts n rows of d values to f32 rows of attn_stride(d), with zeros past d. */
#include "ref.h"
#include "kv_value.h"

#define GET(type, convert)                                                                         \
    static void get_##type(float *y, const void *x, int n, int d, const void *ahead)               \
    {                                                                                              \
        (void)ahead;                                                                               \
        for (int i = 0; i < n; i++, y += attn_stride(d)) {                                         \
            for (int j = 0; j < d; j++) y[j] = kv_value(convert, x, (int64_t)i * d + j);           \
            for (int j = d; j < attn_stride(d); j++) y[j] = 0;                                     \
        }                                                                                          \
    }
GET(f32, KV_F32)
GET(f16, KV_F16)
GET(bf16, KV_BF16)
GET(q8, KV_Q8)
GET(e4m3, KV_FP8_E4M3)
GET(e5m2, KV_FP8_E5M2)

static void turn(float *y, const float *x, int d)
{
    const int stride = attn_stride(d);
    for (int i = 0; i < ATTN_TILE; i++)
        for (int j = 0; j < stride; j++) y[i * stride + j] = j < d ? x[j * ATTN_TILE + i] : 0;
}

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
        finite &= a <= 0x1.fffffep127f; /* the comparison is also false for a NaN */
        amax = a > amax ? a : amax;
    }
    bool zero = !finite || amax < 0x1p-120f;
    float scale = amax / 127.0f, inv = zero ? 0 : 1.0f / scale;
    for (int i = 0; i < n; i++) ((int8_t *)y)[i] = zero ? 0 : (int8_t)rintf(x[i] * inv);
    return !finite ? NAN : zero ? 0 : scale;
}

/* Convert n values to E4M3. The largest number of E4M3 is 448, and the largest number of E5M2 is
 * 57344. Larger values are clamped, because E4M3 has no infinity. */
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
