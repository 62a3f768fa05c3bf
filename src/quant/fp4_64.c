/* fp4_64.c - bitsandbytes' FP4 with an f32 scale per 64 values (scaled_impl.h). The levels are 0,
 * 0.0625, 2, 3, 4, 6, 8 and 12, divided by 12. Codes have the order of the library bitsandbytes. */
#include "scaled_impl.h"

enum { RUN = 64 };
const float level_fp4[16] = {0x0.0p+0f,       0x1.555556p-8f,  0x1.555556p-1f,  0x1.0p+0f,
                             0x1.555556p-2f,  0x1.0p-1f,       0x1.555556p-3f,  0x1.0p-2f,
                             0x0.0p+0f,       -0x1.555556p-8f, -0x1.555556p-1f, -0x1.0p+0f,
                             -0x1.555556p-2f, -0x1.0p-1f,      -0x1.555556p-3f, -0x1.0p-2f};

static void decode(float *y, const void *x, int64_t n)
{
    scaled_decode4(y, x, n, RUN, level_fp4);
}

static void encode(void *y, const float *x, int64_t n, const float *importance)
{
    (void)importance;
    scaled_encode4(y, x, n, RUN, level_fp4);
}

static void unpack(struct block *b, const uint8_t *x)
{
    scaled_unpack4(b, x, RUN);
}

const struct qtype_ops qtype_ops_fp4_64 = {decode, encode, NULL, unpack};
