/* script_test.c - goal: engine tests immediately detect a call of a constraint in a state that
 * differs from its sequence's state (script_test.h). */
#include "script_test.h"

#include <stdlib.h>

struct script {
    struct constraint base;
    struct script_shared *shared;
    uint64_t state; /* hash of the accepted tokens */
    /* states before the last tokens, state n at n % CONSTRAINT_BACK_MAX */
    uint64_t past[CONSTRAINT_BACK_MAX];
    int n, n_past, fail_at;
    /* states whose masks were made last, after n tokens at n % CONSTRAINT_BACK_MAX */
    uint64_t masked[CONSTRAINT_BACK_MAX];
};

enum { N_WORD = (FAKE_VOCAB + 31) / 32 };

static uint32_t bit(uint64_t token)
{
    return 1u << token % FAKE_VOCAB;
}

/* Return the tokens that a state allows, at least one. */
static uint32_t allowed(uint64_t state)
{
    const uint32_t all = (1u << FAKE_VOCAB) - 1;
    switch (state >> 40 & 7) {
    case 0:
    case 1:
    case 2:
        return bit(state >> 8);
    case 3:
        return bit(state >> 8) | bit(state >> 16);
    case 4:
        return ((uint32_t)(state >> 4) & all) | bit(state);
    case 5:
        return state >> 50 & 3 ? all : bit(FAKE_VOCAB - 1);
    default:
        return all;
    }
}

static struct constraint *script_fork(const struct constraint *c)
{
    struct script *s = malloc(sizeof *s);
    if (s) *s = *(const struct script *)c;
    return s ? &s->base : NULL;
}

static void script_close(struct constraint *c)
{
    free(c);
}

static void script_follow(struct constraint *c, const struct constraint *from)
{
    const int32_t *text = c->text;
    *(struct script *)c = *(const struct script *)from;
    c->text = text;
}

static bool script_mask(struct constraint *c, uint32_t *mask)
{
    struct script *s = (struct script *)c;
    struct script_shared *x = s->shared;
    if (x && atomic_fetch_add(&x->n_inside, 1) > 0)
        x->wrong = "two threads use the shared data concurrently";
    for (int i = 0; i < N_WORD; i++) mask[i] = 0;
    mask[0] = allowed(s->state);
    s->masked[s->n % CONSTRAINT_BACK_MAX] = s->state;
    if (x) atomic_fetch_add(&x->n_mask, 1);
    if (x) atomic_fetch_sub(&x->n_inside, 1);
    return s->fail_at == 0 || s->n < s->fail_at;
}

/* Fill the mask. A slow mask is made at the third to fifth call. */
static enum constraint_made script_mask_within(struct constraint *c, uint32_t *mask, int64_t n_work)
{
    struct script *s = (struct script *)c;
    struct script_shared *x = s->shared;
    int64_t need = (int64_t)CONSTRAINT_STEP_WORK << (2 * (s->state >> 20 & 3) + 2);
    if (x && x->slow && (s->state >> 24 & 3) == 0 && n_work < need)
        return atomic_fetch_add(&x->n_late, 1), CONSTRAINT_LATER;
    return script_mask(c, mask) ? CONSTRAINT_MADE : CONSTRAINT_FAILED;
}

/* Return true if the mask of the state was made. */
static bool is_masked(const struct script *s)
{
    return s->masked[s->n % CONSTRAINT_BACK_MAX] == s->state;
}

static bool is_one(uint32_t tokens)
{
    return (tokens & (tokens - 1)) == 0;
}

static bool script_take(struct script *s, int32_t token)
{
    if (!(allowed(s->state) >> token & 1)) return false;
    s->past[s->n++ % CONSTRAINT_BACK_MAX] = s->state;
    if (s->n_past < CONSTRAINT_BACK_MAX) s->n_past++;
    s->state = fake_mix(s->state, token);
    return true;
}

/* Accept a token with unlimited work. A step may call this function only if no work is left: after
 * the state's mask, or if only one token is possible. */
static bool script_accept(struct constraint *c, int32_t token)
{
    struct script *s = (struct script *)c;
    if (s->shared && !is_masked(s) && !is_one(allowed(s->state)))
        s->shared->wrong = "accept does unlimited work in a step before the mask";
    return script_take(s, token);
}

/* Accept a token of a draft. The work is too much in a quarter of the states. */
static enum constraint_made script_accept_within(struct constraint *c, int32_t token,
                                                 int64_t n_work)
{
    struct script *s = (struct script *)c;
    const bool late = s->shared && s->shared->slow && !is_masked(s) && (s->state >> 26 & 3) == 0 &&
                      n_work <= CONSTRAINT_STEP_WORK;
    if (late) return CONSTRAINT_LATER;
    return script_take(s, token) ? CONSTRAINT_MADE : CONSTRAINT_FAILED;
}

static void script_rollback(struct constraint *c, int n)
{
    struct script *s = (struct script *)c;
    if (n > s->n_past && s->shared)
        s->shared->wrong = "rollback of more tokens than a constraint keeps";
    s->n -= n;
    s->n_past -= n;
    s->state = s->past[s->n % CONSTRAINT_BACK_MAX];
}

/* Get forced tokens. The search may stop before the last forced token. */
static int script_forced(struct constraint *c, int32_t *token, int n, int64_t *n_work)
{
    (void)n_work;
    const struct script *s = (const struct script *)c;
    uint64_t state = s->state;
    int i = 0;
    if (s->fail_at != 0) return 0;
    for (uint32_t may; i < n && (may = allowed(state), is_one(may)) && (state >> 33 & 7); i++) {
        token[i] = __builtin_ctz(may);
        state = fake_mix(state, token[i]);
    }
    return i;
}

static const struct constraint_ops script_ops = {.fork = script_fork,
                                                 .close = script_close,
                                                 .follow = script_follow,
                                                 .mask = script_mask,
                                                 .mask_within = script_mask_within,
                                                 .accept = script_accept,
                                                 .accept_within = script_accept_within,
                                                 .rollback = script_rollback,
                                                 .forced = script_forced};

struct constraint *script_open(uint64_t seed, struct script_shared *shared, int fail_at)
{
    struct script *s = malloc(sizeof *s);
    if (!s) return NULL;
    *s = (struct script){.base = {.op = &script_ops, .shared = shared, .n_byte = sizeof *s},
                         .shared = shared,
                         .state = fake_mix(seed, 0),
                         .fail_at = fail_at};
    return &s->base;
}
