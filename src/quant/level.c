/* level.c - the two 16-entry code tables, as integers.
 *
 *     level_iq4    llama.cpp's non-linear 4-bit levels (IQ4_NL, IQ4_XS), denser near zero
 *     level_e2m1   twice the values of FP4 E2M1 (OCP Microscaling formats 1.0: sign, 2 exponent
 *                  bits, 1 mantissa bit), so that all values are integers; code 8 is minus zero
 *     ladder_e2m1  the levels of level_e2m1, ascending */
#include "quant_impl.h"

const int8_t level_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};
const int8_t level_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
const int8_t ladder_e2m1[16] = {-12, -8, -6, -4, -3, -2, -1, 0, 0, 1, 2, 3, 4, 6, 8, 12};

void codes_of_levels(int8_t *code, const int8_t *q, const int8_t level[16], int n)
{
    for (int i = 0; i < n; i++) {
        int8_t k = 0;
        while (k < 15 && level[k] != q[i]) k++;
        code[i] = k;
    }
}
