/* rng.h - random numbers as a function of a key, without state or order.
 *
 * The function is Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
 * 2011. The sampler's key is (seed, choice, position). Therefore the numbers of a request do not
 *       depend on other requests (docs/design.md 5). Any thread. */
#ifndef QUOTH_BASE_RNG_H
#define QUOTH_BASE_RNG_H

#include <stdint.h>

struct rng_key {
    uint64_t seed;
    uint32_t stream;   /* e.g. index of a choice of a request */
    uint32_t position; /* e.g. position of the token */
};

/* Set `out` to four independent 32-bit words for the key and the draw number `draw`. */
void rng_words(uint32_t out[4], const struct rng_key *key, uint64_t draw);

/* Return a uniformly distributed number in [0, 1), a multiple of 2^-53. */
double rng_unit(const struct rng_key *key, uint64_t draw);

/* Return the next number of a sequential generator (splitmix64). For tests, fuzzing and dummy
 * weights. */
uint64_t rng_next(uint64_t *state);
/* Return the next number of a sequential generator, reduced to [0, n); 0 if n is 0. For tests,
 * fuzzing and dummy weights. */
static inline uint64_t rng_below(uint64_t *state, uint64_t n)
{
    return n ? rng_next(state) % n : 0;
}
/* Return a uniformly distributed number in [0, 1). */
static inline float rng_float(uint64_t *state)
{
    return (float)(rng_next(state) >> 40) * 0x1p-24f;
}

#endif
