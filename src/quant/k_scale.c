/* k_scale.c - the 12 bytes of scales that Q4_K and Q5_K share: eight 6-bit scales, eight 6-bit
 * minimums.
 *
 *     byte j      (j < 4)   scale j           in bits 0..5, the upper bits of scale j + 4 in
 * bits 6..7 byte j + 4  (j < 4)   minimum j         in bits 0..5, the upper bits of minimum j + 4
 * in bits 6..7 byte j + 8  (j < 4)   scale j + 4       low nibble,   minimum j + 4 high nibble:
 * their lower four bits */
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
