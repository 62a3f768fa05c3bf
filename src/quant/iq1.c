/* iq1.c - shared by IQ1_S and IQ1_M: points of a code book of 2048 in {-1, 0, 1}^8, shifted up or
 * down by 1/8.
 *
 * Times eight, a shifted value is the integer 8 g + 1 or 8 g - 1 (one of -9, -7, -1, 1, 7, 9). The
 * block's scale is divided by eight. No separate term for the shift remains, and every product is
 * exact. A kernel may instead compute 8 * (g . a) and add or subtract the sum of a, which gives the
 * same integer. */
#include "quant_impl.h"

void shift_point(int8_t q[8], int code, bool minus)
{
    grid_point(q, &grid_iq1, code);
    for (int i = 0; i < 8; i++) q[i] = (int8_t)(8 * q[i] + (minus ? -1 : 1));
}

int shift_code(const int8_t q[8])
{
    int8_t g[8];
    int shift = shift_is_minus(q) ? -1 : 1;
    for (int i = 0; i < 8; i++) g[i] = (int8_t)((q[i] - shift) / 8);
    return grid_code(&grid_iq1, g);
}

/* Find the nearest point with the given shift for each 8 of n values. Return the error. */
static float nearest_shifted(int8_t *q, const float *x, const float *w, int n, float step,
                             bool minus)
{
    struct grid_cost c = {0};
    float e = 0.0f;
    for (int at = 0; at < n; at += 8) {
        for (int i = 0; i < 8; i++)
            for (int l = 0; l < 3; l++) {
                float left = x[at + i] - step * (float)(8 * (l - 1) + (minus ? -1 : 1));
                c.cost[i][l] = w[at + i] * left * left;
            }
        e += grid_search(&grid_iq1, &c, false, q + at);
        for (int i = 0; i < 8; i++) q[at + i] = (int8_t)(8 * q[at + i] + (minus ? -1 : 1));
    }
    return e;
}

void shift_nearest(const struct coder *c, int8_t *q, const float *x, const float *w, int n,
                   float step)
{
    for (int at = 0; at < n; at += c->run) {
        int8_t other[BLOCK_MAX];
        float plus = nearest_shifted(q + at, x + at, w + at, c->run, step, false);
        float minus = nearest_shifted(other, x + at, w + at, c->run, step, true);
        if (minus < plus) memcpy(q + at, other, (size_t)c->run);
    }
}
