/* rng.c - see rng.h.
 *
 * rng_words has no state: a draw does not depend on earlier draws. The constants are those of the
 * paper. rng_next is SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), for numbers without a key. */
#include "rng.h"

void rng_words(uint32_t out[4], const struct rng_key *key, uint64_t draw)
{
    uint32_t c[4] = {key->position, key->stream, (uint32_t)draw, (uint32_t)(draw >> 32)};
    uint32_t k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1,
                            (uint32_t)(p0 >> 32) ^ c[3] ^ k1, (uint32_t)p0};
        for (int i = 0; i < 4; i++) c[i] = next[i];
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) out[i] = c[i];
}

/* Use 53 bits, so that each double k / 2^53 in [0, 1) is equally likely. */
double rng_unit(const struct rng_key *key, uint64_t draw)
{
    uint32_t w[4];
    rng_words(w, key, draw);
    uint64_t bits = (uint64_t)w[0] << 32 | w[1];
    return (double)(bits >> 11) * 0x1p-53;
}

uint64_t rng_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
