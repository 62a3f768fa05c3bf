/* e4m3_128.c - FP8 E4M3 with an f32 scale per 128 values (scaled_impl.h). FP8 checkpoints have
 * weights of this type, with scales per matrix, per output or per block of 128 inputs. */
#include "scaled_impl.h"

enum { RUN = 128 };
static const float largest = 448; /* largest finite value of E4M3 */

static void decode(float *y, const void *from, int64_t n)
{
    const uint8_t *x = from;
    for (int64_t i = 0; i < n; i += RUN, x += 4 + RUN) {
        float scale;
        memcpy(&scale, x, sizeof scale);
        for (int j = 0; j < RUN; j++) y[i + j] = f32_of_e4m3(x[4 + j]) * scale;
    }
}

/* Encode x. Infinities become the largest value. A NaN stays a NaN. */
static void encode(void *to, const float *x, int64_t n, const float *importance)
{
    uint8_t *y = to;
    (void)importance;
    for (int64_t i = 0; i < n; i += RUN, y += 4 + RUN) {
        const float amax = scaled_amax(x + i, RUN), scale = amax > 0 ? amax / largest : 1;
        float v[RUN];
        for (int j = 0; j < RUN; j++) v[j] = x[i + j] / scale;
        memcpy(y, &scale, sizeof scale);
        qtype_ops_f8_e4m3.encode(y + 4, v, RUN, NULL);
    }
}

const struct qtype_ops qtype_ops_e4m3_128 = {decode, encode, NULL, NULL};
