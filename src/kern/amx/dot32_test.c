/* dot32_test.c - goal: dot32_bf16 equals the instruction tdpbf16ps, bit for bit. Method: compute
 * random operands in both ways. Some operands have ordinary size, some have random bits. The sums
 * of others are near the smallest normal number and may be flushed to zero. */
#include "../../../tests/unit.h"

#include "base/cpu.h"
#include "base/rng.h"
#include "kern/kern_impl.h"
#include <immintrin.h>

enum { SIDE = 16, K = 32 };

static uint16_t operand(int kind, uint64_t r)
{
    uint16_t u = (uint16_t)r;
    switch (kind) {
    case 0:
        return u;
    case 1: /* numbers near 1: their sums round, cancel and carry */
        return (uint16_t)((u & 0x83FF) | 0x3C00);
    case 2: /* products of any size near 2^-126 */
        return (uint16_t)((u & 0x8FFF) | 0x1800);
    default: /* sums slightly above 2^-126: factors of 2^-63 or about 2^-75 */
        if (r >> 16 & 3) return (uint16_t)((u & 0x807F) | (127 - 75 - (r >> 18 & 1)) << 7);
        return (uint16_t)((u & 0x8000) | (127 - 63) << 7);
    }
}

/* Compute y = c + a b. The configuration is constant, because gcc 12 would drop stores to it. */
__attribute__((target("amx-tile,amx-bf16"))) static void
tile_dot32(float *y, const float *c, const uint16_t *a, const uint16_t *b)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t n_byte[16];
        uint8_t n_row[16];
    } config = {.palette = 1, .n_byte = {64, 64, 64}, .n_row = {SIDE, SIDE, SIDE}};
    _tile_loadconfig(&config);
    _tile_loadd(0, c, 64);
    _tile_loadd(1, a, 64);
    _tile_loadd(2, b, 64);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, y, 64);
    _tile_release();
}

TEST(dot32_bf16_is_the_instruction)
{
    if (!(cpu_flags() & CPU_AMX)) SKIP("this processor has no AMX");
    static _Alignas(64) uint16_t a[SIDE][K], b[K / 2][SIDE][2];
    static _Alignas(64) float c[SIDE][SIDE], y[SIDE][SIDE];
    uint64_t rng = 1;
    long n_bad = 0, n_trial = test_long() ? 80000 : 2000;
    for (long trial = 0; trial < n_trial; trial++) {
        const int kind = (int)(trial % 4);
        for (int i = 0; i < SIDE; i++)
            for (int k = 0; k < K; k++) {
                a[i][k] = operand(kind, rng_next(&rng));
                b[k / 2][i][k % 2] = operand(kind, rng_next(&rng));
            }
        for (int i = 0; i < SIDE * SIDE; i++) {
            uint32_t u = (uint32_t)rng_next(&rng);
            c[i / SIDE][i % SIDE] = f32_of_bits(kind == 0   ? u
                                                : kind == 1 ? (u & 0x83FFFFFF) | 0x3C000000
                                                            : u & 0x81FFFFFF);
        }
        tile_dot32(y[0], c[0], a[0], b[0][0]);
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) {
                uint16_t w[K];
                for (int k = 0; k < K; k++) w[k] = b[k / 2][j][k % 2];
                float want = dot32_bf16(c[i][j], w, a[i]);
                n_bad +=
                    bits_of_f32(want) != bits_of_f32(y[i][j]) && !(isnan(want) && isnan(y[i][j]));
            }
    }
    EXPECT_INT(n_bad, 0);
}
