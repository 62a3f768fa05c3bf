/* Goal: every constraint is compiled, or rejected with a reason, within its limits. A compiled
 * constraint offers only bytes from which a text can be completed, and accepts the texts that it
 * generates. Method: mutate constraints of each kind, and walk randomly along the offered bytes.
 * Abort if a walk has a dead end in the middle of a text, or if its text is not accepted from the
 * start. */
#include "grammar.h"
#include "base/hash.h"
#include "base/rng.h"
#include "../../tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static const struct grammar_limits LIMITS = {
    .bytes_max = 24 << 20, .state_max = 20000, .us_max = 50000};
enum { WALK_MAX = 120, N_WALK = 2, INPUT_BYTES_MAX = 4000 };

/* Append a random byte that may follow. Return false if no byte may follow. */
static bool step(struct grammar *g, uint32_t *state, uint64_t *rng, char *byte)
{
    uint64_t first = rng_next(rng);
    for (uint64_t i = 0; i < 256; i++) {
        char b = (char)((first + i) & 0xff);
        uint32_t next = grammar_accept(g, *state, &b, 1, NULL);
        if (next == GRAMMAR_DEAD) continue;
        *state = next, *byte = b;
        return true;
    }
    return false;
}

/* Walk randomly from the start until the text ends. Abort at a dead end. */
static void walk(struct grammar *g, uint64_t seed)
{
    char text[WALK_MAX];
    struct err e;
    size_t n = 0;
    uint32_t state = grammar_begin(g);
    bool on = state != GRAMMAR_DEAD;
    while (on && n < WALK_MAX && !(grammar_ends(g, state) && rng_below(&seed, 8) == 0)) {
        on = step(g, &state, &seed, &text[n]);
        n += on;
    }
    if (grammar_failure(g, &e)) return;
    /* the walk has reached a dead end */
    if (state == GRAMMAR_DEAD || (!on && !grammar_ends(g, state))) abort();
    if (grammar_accept(g, grammar_begin(g), text, n, NULL) != state && !grammar_failure(g, &e))
        abort();
}

static void fuzz_kind(enum grammar_kind kind, const uint8_t *data, size_t n)
{
    struct grammar *g = NULL;
    struct err e = {0};
    if (n > INPUT_BYTES_MAX) return;
    int rc = grammar_open(&g, kind, (const char *)data, n,
                          &(struct grammar_options){.limits = LIMITS}, &e);
    if (rc != 0 && !e.text[0]) abort(); /* the constraint was rejected without a reason */
    if (rc != 0) return;
    fuzz_accepted();
    for (uint64_t i = 0; i < N_WALK; i++) walk(g, hash_bytes(data, n, i));
    grammar_close(g);
}

FUZZ(grammar_schema)
{
    fuzz_kind(GRAMMAR_SCHEMA, data, n);
}

FUZZ(grammar_regex)
{
    fuzz_kind(GRAMMAR_REGEX, data, n);
}

FUZZ(grammar_gbnf)
{
    fuzz_kind(GRAMMAR_GBNF, data, n);
}

FUZZ(grammar_lark)
{
    fuzz_kind(GRAMMAR_LARK, data, n);
}

FUZZ(grammar_tag)
{
    fuzz_kind(GRAMMAR_TAG, data, n);
}
