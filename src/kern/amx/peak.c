/* peak.c - measuring loops of AMX: products of 16 x 64 bytes and 64 bytes x 16. Four tiles of sums
 * hide the latency of 52 cycles. An instruction starts every 16 cycles. */
#include "kern/kern_impl.h"

#include <immintrin.h>

/* Operand of ldtilecfg: eight tiles of 16 rows of 64 bytes. ldtilecfg also clears the tiles. The
 * operand is constant, because gcc 12 assumes that _tile_loadconfig reads 8 bytes and drops stores
 * to the other bytes. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} config = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

static double int8(int n)
{
    _tile_loadconfig(&config);
    for (int i = 0; i < n; i++) {
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_release();
    return 4.0 * 16 * 16 * 64 * 2 * n;
}

static double bf16(int n)
{
    _tile_loadconfig(&config);
    for (int i = 0; i < n; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return 4.0 * 16 * 16 * 32 * 2 * n;
}

const struct peak peak_amx = {
    .name = "amx",
    .int8_name = "tdpbusd",
    .int8 = int8,
    .bf16_name = "tdpbf16ps",
    .bf16 = bf16,
};
