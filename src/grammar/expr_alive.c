/* expr_alive.c - the states from which a text is accepted.
 *
 * For most operators, the results of the operands determine the result. Intersections and
 * complements need a search of their states:
 *
 *   descends  follow the state with the lowest estimate of remaining bytes; usually sufficient
 *   search    visit all states, lowest estimate first, until one of them descends
 *
 * Results are cached by state. The states that a result needs, and their number, depend only on the
 * expression, never on other cached results. A grammar's work has one limit, and a text must exceed
 * it in every order of requests (docs/design.md 5). Therefore a search does not use the results of
 * other searches. `descends` uses only cached results of `descends`. They equal the results that it
 * would compute, because the estimate decreases along its path. */
#include "expr.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* DESCENT_BYTES_MAX: bytes within which the estimate must decrease, the maximum of a character.
 * ROW_STEPS: work to examine a row, whose 256 entries take about 300 ns (17 ns a step). */
enum { DESCENT_BYTES_MAX = 4, ROW_STEPS = 20 };

/* ---- estimates ---- */

static uint32_t plus(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static uint32_t times(uint32_t a, uint32_t b)
{
    uint64_t product = (uint64_t)a * b;
    return product > UINT32_MAX ? UINT32_MAX : (uint32_t)product;
}

/* Return the estimate of an alternation, the minimum of its operands. Return the sum for an
 * intersection, because each operand must approach its end. */
static uint32_t least_of_list(const struct exprs *x, const struct expr *e)
{
    uint32_t all = e->op == EX_OR ? UINT32_MAX : 0;
    if (e->nullable) return 0;
    for (uint32_t i = 0; i < e->b; i++) {
        uint32_t one = x->e[x->list.v[e->a + i]].least;
        all = e->op == EX_AND ? plus(all, one) : one < all ? one : all;
    }
    return all;
}

/* The estimate is exact for operators without intersection and complement. */
uint32_t expr_least(const struct exprs *x, const struct expr *e)
{
    switch ((enum expr_op)e->op) {
    case EX_EMPTY:
        return UINT32_MAX;
    case EX_CAT:
        return plus(x->e[e->a].least, x->e[e->b].least);
    case EX_OR:
    case EX_AND:
        return least_of_list(x, e);
    case EX_REP:
        return times(e->b, x->e[e->a].least);
    case EX_STRING:
    case EX_ESCAPE:
        return e->nullable ? 0 : plus(x->e[e->a].least, 1);
    case EX_HEX: /* up to four digits of the first character */
        return plus(x->e[e->a].least, 4);
    default:
        return !e->nullable;
    }
}

/* ---- searches ---- */

/* Return true if the operands do not determine whether e matches a text. */
static bool is_searched(const struct expr *e)
{
    return !e->nullable && (e->op == EX_AND || e->op == EX_NOT);
}

/* Examine the states after one byte. Return true if the operands of one state show that it matches
 * a text. *best is the first state with the lowest estimate among the states that need a search if
 * the result is false; EXPR_EMPTY if none. */
static bool look(struct exprs *x, uint32_t e, uint32_t *best)
{
    const uint32_t *row = expr_row(x, e);
    *best = EXPR_EMPTY;
    if (!row || !expr_spend(x, ROW_STEPS)) return false;
    for (int b = 0; b < 256; b++) {
        uint32_t d = row[b];
        if (d == EXPR_EMPTY || (b > 0 && d == row[b - 1])) continue;
        if (!is_searched(&x->e[d])) {
            if (expr_alive(x, d)) return true;
        } else if (*best == EXPR_EMPTY || x->e[d].least < x->e[*best].least) {
            *best = d;
        }
    }
    return false;
}

/* Return true if a text is found by following the lowest estimates, which must decrease within
 * DESCENT_BYTES_MAX bytes. e may still accept a text if the result is false. The result is that of
 * the first state with a lower estimate, so all states with the lowest estimate so far have the
 * same result. */
static bool descends(struct exprs *x, uint32_t e)
{
    VEC(uint32_t) path = {0};
    bool found = false;
    while (!found && e != EXPR_EMPTY && x->e[e].descends == ALIVE_UNKNOWN && !x->failed) {
        uint32_t lower = EXPR_EMPTY, at = e;
        if (!vec_push(&path, e)) expr_fail(x, EXPR_NO_MEMORY);
        for (int i = 0; i < DESCENT_BYTES_MAX && at != EXPR_EMPTY && lower == EXPR_EMPTY; i++) {
            uint32_t best;
            found = look(x, at, &best);
            at = found ? EXPR_EMPTY : best;
            if (at != EXPR_EMPTY && x->e[at].least < x->e[e].least) lower = at;
        }
        e = lower;
    }
    found |= e != EXPR_EMPTY && x->e[e].descends == ALIVE_YES;
    for (size_t i = 0; i < path.n && !x->failed; i++)
        x->e[path.v[i]].descends = found ? ALIVE_YES : ALIVE_NO;
    vec_deinit(&path);
    return found && !x->failed;
}

/* State of a search. `due` is a heap: the state with the lowest estimate is first, or the newest
 * state if estimates are equal. */
struct state_search {
    struct due {
        uint32_t least, order, e;
    } * v; /* owned: states whose successors are not examined yet, and the heap */
    size_t n, cap;
    uint32_t *slot; /* owned; open addressing: states found so far; 0: free */
    uint32_t n_slot, n_found;
};

static bool is_before(const struct due *a, const struct due *b)
{
    return a->least != b->least ? a->least < b->least : a->order > b->order;
}

/* Add a state to the heap. Return false if memory is exhausted. */
static bool push_due(struct state_search *s, struct due d)
{
    if (!vec_push(s, d)) return false;
    size_t i = s->n - 1;
    for (; i > 0 && is_before(&d, &s->v[(i - 1) / 2]); i = (i - 1) / 2) s->v[i] = s->v[(i - 1) / 2];
    s->v[i] = d;
    return true;
}

/* Remove the first state of a heap that is not empty. */
static uint32_t pop_due(struct state_search *s)
{
    const uint32_t first = s->v[0].e;
    const struct due last = s->v[--s->n];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < s->n; i = k) {
        if (k + 1 < s->n && is_before(&s->v[k + 1], &s->v[k])) k++;
        if (!is_before(&s->v[k], &last)) break;
        s->v[i] = s->v[k];
    }
    if (s->n > 0) s->v[i] = last;
    return first;
}

/* Return the slot of a state, or the free slot for a new state. */
static uint32_t *find_slot(const struct state_search *s, uint32_t e)
{
    uint32_t at = (uint32_t)hash_bytes(&e, sizeof e, 0) & (s->n_slot - 1);
    while (s->slot[at] && s->slot[at] != e) at = (at + 1) & (s->n_slot - 1);
    return &s->slot[at];
}

/* Double the slots. Return false if memory is exhausted. */
static bool grow_slots(struct state_search *s)
{
    struct state_search more = {.n_slot = s->n_slot ? 2 * s->n_slot : 64};
    more.slot = calloc(more.n_slot, sizeof *more.slot);
    if (!more.slot) return false;
    for (uint32_t i = 0; i < s->n_slot; i++)
        if (s->slot[i]) *find_slot(&more, s->slot[i]) = s->slot[i];
    free(s->slot);
    s->slot = more.slot;
    s->n_slot = more.n_slot;
    return true;
}

/* Return true if state e matches a text. Add a new state to the search otherwise. */
static bool visit(struct exprs *x, struct state_search *s, uint32_t e)
{
    if (!is_searched(&x->e[e])) return expr_alive(x, e);
    bool room = 2 * (s->n_found + 1) <= s->n_slot || grow_slots(s);
    uint32_t *slot = room ? find_slot(s, e) : NULL;
    if (slot && *slot == e) return false;
    if (descends(x, e)) return true;
    if (slot) *slot = e;
    if (!slot || !push_due(s, (struct due){x->e[e].least, s->n_found++, e}))
        expr_fail(x, EXPR_NO_MEMORY);
    return false;
}

/* Return true if e accepts any text. */
static bool search(struct exprs *x, uint32_t e)
{
    struct state_search s = {0};
    bool found = visit(x, &s, e);
    while (!found && s.n > 0 && !x->failed) {
        const uint32_t *row = expr_row(x, pop_due(&s));
        if (!row || !expr_spend(x, ROW_STEPS)) break;
        for (int b = 0; b < 256 && !found && !x->failed; b++)
            if (row[b] != EXPR_EMPTY && (b == 0 || row[b] != row[b - 1]))
                found = visit(x, &s, row[b]);
    }
    free(s.v);
    free(s.slot);
    return found && !x->failed;
}

/* ---- operators ---- */

/* Return true if all operands of a concatenation match a text. Also store the results of its tails.
 * The function has a loop instead of recursion, because a chain may be long. */
static bool alive_cat(struct exprs *x, uint32_t e)
{
    VEC(uint32_t) tail = {0};
    bool alive = true;
    for (; alive && x->e[e].op == EX_CAT && x->e[e].alive == ALIVE_UNKNOWN; e = x->e[e].b) {
        if (!vec_push(&tail, e)) expr_fail(x, EXPR_NO_MEMORY);
        alive = !x->failed && expr_alive(x, x->e[e].a);
    }
    alive = alive && expr_alive(x, e);
    for (size_t i = 0; i < tail.n && !x->failed; i++)
        x->e[tail.v[i]].alive = alive ? ALIVE_YES : ALIVE_NO;
    vec_deinit(&tail);
    return alive;
}

/* Return the order in which the operands of an alternation are examined. The order must not depend
 * on the operands' numbers, which depend on the order of requests. */
static uint64_t order_of(const struct expr *e)
{
    return (uint64_t)e->least << 16 | e->weight;
}

/* Return true if an operand of an alternation matches a text. Examine all operands of equal order,
 * until one of them matches. */
static bool alive_or(struct exprs *x, const struct expr *e)
{
    for (uint32_t i = 0; i < e->b; i++)
        if (x->e[x->list.v[e->a + i]].simple) return true;
    bool some = false, more = true;
    for (uint64_t from = 0; more && !some && expr_spend(x, 1 + e->b / 16);) {
        uint64_t now = UINT64_MAX;
        for (uint32_t i = 0; i < e->b; i++) {
            uint64_t order = order_of(&x->e[x->list.v[e->a + i]]);
            if (order >= from && order < now) now = order;
        }
        more = now != UINT64_MAX;
        for (uint32_t i = 0; i < e->b && more; i++) {
            uint32_t one = x->list.v[e->a + i];
            if (order_of(&x->e[one]) == now) some |= expr_alive(x, one);
        }
        from = now + 1;
    }
    return some;
}

/* Return true if e matches a text. */
static bool matches_some(struct exprs *x, uint32_t e)
{
    const struct expr it = x->e[e];
    if (it.nullable) return true;
    switch ((enum expr_op)it.op) {
    case EX_CAT:
        return alive_cat(x, e);
    case EX_OR:
        return alive_or(x, &it);
    case EX_REP: /* the expression is not nullable, so at least one operand is needed */
    case EX_STRING:
        return expr_alive(x, it.a);
    case EX_ESCAPE:
    case EX_HEX:
        return string_alive(x, &it);
    case EX_MULTIPLE:
        return multiple_alive(x, &it);
    case EX_AND:
    case EX_NOT:
        return search(x, e);
    default:
        return it.simple && it.op != EX_EMPTY;
    }
}

bool expr_alive(struct exprs *x, uint32_t e)
{
    if (!expr_spend(x, 1)) return false;
    if (x->e[e].alive == ALIVE_UNKNOWN) {
        struct expr_task t;
        exprs_begin(x, &t);
        bool alive = matches_some(x, e);
        if (!x->failed) x->e[e].alive = alive ? ALIVE_YES : ALIVE_NO;
        exprs_end(x, &t, true);
    }
    return !x->failed && x->e[e].alive == ALIVE_YES;
}
