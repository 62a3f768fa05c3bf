/* k_scale.c - the 12 bytes of scales in Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minimums.
 * For j in [0, 3]:
 *
 *     byte j      bits 0..5 scale j,    bits 6..7 the upper two bits of scale j + 4
 *     byte j + 4  bits 0..5 minimum j,  bits 6..7 the upper two bits of minimum j + 4
 *     byte j + 8  low nibble: the other four bits of scale j + 4, high: of minimum j + 4 */
#include "quant_impl.h"

void k_scales_unpack(struct block *b, const uint8_t *x)
{
    for (int j = 0; j < 4; j++) {
        b->scale[j] = x[j] & 63;
        b->min[j] = x[j + 4] & 63;
        b->scale[j + 4] = (int16_t)((x[j + 8] & 15) | x[j] >> 6 << 4);
        b->min[j + 4] = (int16_t)(x[j + 8] >> 4 | x[j + 4] >> 6 << 4);
    }
}

void k_scales_pack(uint8_t *y, const struct block *b)
{
    for (int j = 0; j < 4; j++) {
        y[j] = (uint8_t)(b->scale[j] | b->scale[j + 4] >> 4 << 6);
        y[j + 4] = (uint8_t)(b->min[j] | b->min[j + 4] >> 4 << 6);
        y[j + 8] = (uint8_t)((b->scale[j + 4] & 15) | (b->min[j + 4] & 15) << 4);
    }
}
