/* grid_signed.c - values from a code book of magnitudes, each with a sign: IQ2_* and IQ3_*.
 *
 * Signs are stored per eight values. Formats with seven bits for the signs require an even number
 * of minuses. Therefore one value must have the wrong sign if the input has an odd number of
 * minuses. The value with the wrong sign and the points are chosen together. The wrong sign of
 * value i at level g has the additional cost 4 w step |x_i| g. The search finds the point with the
 * least cost, including the least additional cost. In IQ3, eight values are two points of four. The
 * point with the lower cost has the wrong sign. */
#include "quant_impl.h"

#include "base/check.h"

#include <stdlib.h>

uint8_t signs_of(const int8_t q[8])
{
    unsigned signs = 0;
    for (int i = 0; i < 8; i++) signs |= (unsigned)(q[i] < 0) << i;
    return (uint8_t)signs;
}

void signs_apply(int8_t q[8], unsigned signs)
{
    for (int i = 0; i < 8; i++)
        if (signs >> i & 1) q[i] = (int8_t)-q[i];
}

int magnitude_code(const struct grid *g, const int8_t *q)
{
    int8_t magnitude[8];
    for (int i = 0; i < g->dim; i++) magnitude[i] = (int8_t)abs(q[i]);
    return grid_code(g, magnitude);
}

void odd_scales_unpack(struct block *b, const uint8_t *x, int n)
{
    int8_t s[SUB_MAX];
    CHECK(n <= SUB_MAX && n % 2 == 0, "%d scales", n);
    fields_unpack(s, x, n, 1, 4);
    for (int j = 0; j < n; j++) b->scale[j] = (int16_t)(2 * s[j] + 1);
}

void odd_scales_pack(uint8_t *y, const struct block *b, int n)
{
    int8_t s[SUB_MAX];
    for (int j = 0; j < n; j++) s[j] = (int8_t)(b->scale[j] / 2);
    fields_pack(y, s, n, 1, 4, 0);
}

static void cost_fill(struct grid_cost *c, const struct grid *g, const float *x, const float *w,
                      float step)
{
    for (int i = 0; i < g->dim; i++)
        for (int l = 0; l < g->n_level; l++) {
            float level = step * (float)g->level[l], e = fabsf(x[i]) - level;
            c->cost[i][l] = w[i] * e * e;
            c->extra[i][l] = 4.0f * w[i] * fabsf(x[i]) * level;
        }
}

/* Return the index of the value in q [dim] whose wrong sign has the lowest cost. */
static int cheapest_flip(const int8_t *q, const float *x, const float *w, int dim)
{
    int best = 0;
    for (int i = 1; i < dim; i++)
        if (w[i] * fabsf(x[i]) * (float)q[i] < w[best] * fabsf(x[best]) * (float)q[best]) best = i;
    return best;
}

/* Find the nearest eight values. */
static void nearest_8(const struct coder *c, int8_t *q, const float *x, const float *w, float step)
{
    const struct grid *g = c->grid;
    struct grid_cost cost;
    int8_t flipped[8];
    int part = 0; /* first value of the point whose wrong sign has the lowest cost */
    float harm_least = INFINITY;
    unsigned signs = 0;
    for (int i = 0; i < 8; i++) signs |= (unsigned)(x[i] < 0.0f) << i;
    bool odd = c->even && __builtin_popcount(signs) & 1;
    for (int at = 0; at < 8; at += g->dim) {
        cost_fill(&cost, g, x + at, w + at, step);
        bool no_choice = odd && g->dim == 8;
        float e = no_choice ? 0.0f : grid_search(g, &cost, false, q + at);
        if (!odd) continue;
        float harm = grid_search(g, &cost, true, flipped + at) - e;
        if (harm >= harm_least) continue;
        harm_least = harm;
        part = at;
    }
    if (odd) {
        memcpy(q + part, flipped + part, (size_t)g->dim);
        signs ^= 1u << (part + cheapest_flip(q + part, x + part, w + part, g->dim));
    }
    signs_apply(q, signs);
}

void grid_nearest(const struct coder *c, int8_t *q, const float *x, const float *w, int n,
                  float step)
{
    for (int i = 0; i < n; i += 8) nearest_8(c, q + i, x + i, w + i, step);
}
