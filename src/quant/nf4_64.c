/* nf4_64.c - NF4 with an f32 scale per 64 values (scaled_impl.h). The levels are the quantiles of a
 * normal distribution, as f32 numbers of bitsandbytes' files ("QLoRA", arXiv 2305.14314). */
#include "scaled_impl.h"

enum { RUN = 64 };
const float level_nf4[16] = {-0x1.000000p+0f, -0x1.647362p-1f, -0x1.0cd660p-1f, -0x1.946540p-2f,
                             -0x1.23449ap-2f, -0x1.7a6a7ep-3f, -0x1.74f0e2p-4f, 0x0.0p+0f,
                             0x1.45f5fep-4f,  0x1.4995c6p-3f,  0x1.f809bap-3f,  0x1.5a0674p-2f,
                             0x1.c34970p-2f,  0x1.200f56p-1f,  0x1.722766p-1f,  0x1.000000p+0f};

static void decode(float *y, const void *x, int64_t n)
{
    scaled_decode4(y, x, n, RUN, level_nf4);
}

static void encode(void *y, const float *x, int64_t n, const float *importance)
{
    (void)importance;
    scaled_encode4(y, x, n, RUN, level_nf4);
}

static void unpack(struct block *b, const uint8_t *x)
{
    scaled_unpack4(b, x, RUN);
}

const struct qtype_ops qtype_ops_nf4_64 = {decode, encode, NULL, unpack};
