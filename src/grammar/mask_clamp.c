/* mask_clamp.c - counts that tokens cannot reach. For example, the states of a host name differ
 * after each character, because its labels and the name have limited lengths. The masks of states
 * far from a limit are equal, so one state represents all of them.
 *
 *   [a-z]{3,61}\\.x  with n = 16 -->  [a-z]{3,}\\.x
 *
 * A repetition of at most c > n operands becomes a repetition without a maximum if each operand
 * begins with the first byte of a character. After at most n characters of a text, at least one
 * more operand may follow in both repetitions. Therefore the repetitions accept the same beginnings
 * of n characters, and end after the same beginnings. Minimums do not change. The replacement is
 * valid for expressions of bytes, concatenations, alternations and repetitions, in which every
 * derivative except EXPR_EMPTY matches a text. */
#include "mask.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 200, UNKNOWN = 0 };

/* Grow the caches to all expressions. Return false if memory is exhausted. */
static bool clamp_room(struct machine *m)
{
    if (m->clamp.cap >= m->x.n) return true;
    uint32_t **const v[] = {&m->clamp.to[CLAMP_SHORT], &m->clamp.to[CLAMP_LONG], &m->clamp.peak};
    uint32_t cap = m->x.cap, old = m->clamp.cap;
    for (int i = 0; i < 3; i++) {
        uint32_t *more = realloc(*v[i], cap * sizeof *more);
        if (!more) return expr_fail(&m->x, EXPR_NO_MEMORY), false;
        memset(more + old, 0, (cap - old) * sizeof *more);
        *v[i] = more;
    }
    m->clamp.cap = cap;
    return true;
}

/* Return true if each text of e begins with the first byte of a character, or is empty. */
static bool begins_character(const struct exprs *x, uint32_t e, int depth)
{
    const struct expr *it = &x->e[e];
    if (depth > DEPTH_MAX) return false;
    switch ((enum expr_op)it->op) {
    case EX_EPSILON:
        return true;
    case EX_SET:
        return x->set.v[it->a].w[2] == 0; /* 80 to BF */
    case EX_CAT:
        return begins_character(x, it->a, depth + 1) &&
               (!x->e[it->a].nullable || begins_character(x, it->b, depth + 1));
    case EX_OR:
        for (uint32_t i = 0; i < it->b; i++)
            if (!begins_character(x, x->list.v[it->a + i], depth + 1)) return false;
        return true;
    case EX_REP:
        return begins_character(x, it->a, depth + 1);
    default:
        return false;
    }
}

/* Arguments that are equal at every depth of mask_clamp's recursion. */
struct clamper {
    struct machine *m; /* borrowed */
    enum clamp_range range;
    uint32_t n;
};

static uint32_t clamp(const struct clamper *c, uint32_t e, int depth);

static uint32_t clamp_or(const struct clamper *c, const struct expr *e, int depth)
{
    struct exprs *x = &c->m->x;
    uint32_t *v = malloc(e->b * sizeof *v), out = EXPR_EPSILON;
    if (!v) return expr_fail(x, EXPR_NO_MEMORY);
    for (uint32_t i = 0; i < e->b && out != EXPR_EMPTY; i++)
        out = v[i] = clamp(c, x->list.v[e->a + i], depth + 1);
    if (out != EXPR_EMPTY) out = expr_or_list(x, v, e->b);
    free(v);
    return out;
}

/* Clamp a concatenation p (q (r ...)). Its length is not part of the depth. */
static uint32_t clamp_cat(const struct clamper *c, uint32_t e, int depth)
{
    struct exprs *x = &c->m->x;
    VEC(uint32_t) head = {0};
    uint32_t out = EXPR_EPSILON;
    for (; out != EXPR_EMPTY && x->e[e].op == EX_CAT; e = x->e[e].b) {
        out = clamp(c, x->e[e].a, depth + 1);
        if (!vec_push(&head, out)) out = expr_fail(x, EXPR_NO_MEMORY);
    }
    if (out != EXPR_EMPTY) out = clamp(c, e, depth + 1);
    while (head.n > 0 && out != EXPR_EMPTY) out = expr_cat(x, head.v[--head.n], out);
    vec_deinit(&head);
    return out;
}

static uint32_t clamp_rep(const struct clamper *c, const struct expr *e, int depth)
{
    struct exprs *x = &c->m->x;
    const uint32_t a = clamp(c, e->a, depth + 1);
    bool far = e->c > c->n && e->b <= c->n && begins_character(x, e->a, 0);
    return a == EXPR_EMPTY ? a : expr_rep(x, a, e->b, far ? EXPR_INF : e->c);
}

/* Return the clamped expression; EXPR_EMPTY for other operators, or after a failure. */
static uint32_t clamp_new(const struct clamper *c, uint32_t e, int depth)
{
    const struct expr it = c->m->x.e[e];
    if (it.op == EX_EPSILON || it.op == EX_SET) return e;
    if (depth > DEPTH_MAX || !expr_spend(&c->m->x, 1)) return EXPR_EMPTY;
    if (it.op == EX_CAT) return clamp_cat(c, e, depth);
    if (it.op == EX_OR) return clamp_or(c, &it, depth);
    return it.op == EX_REP ? clamp_rep(c, &it, depth) : EXPR_EMPTY;
}

static uint32_t clamp(const struct clamper *c, uint32_t e, int depth)
{
    struct machine *m = c->m;
    if (!clamp_room(m)) return EXPR_EMPTY;
    if (m->clamp.to[c->range][e] == UNKNOWN) {
        uint32_t to = clamp_new(c, e, depth);
        if (m->x.failed || !clamp_room(m)) return EXPR_EMPTY;
        m->clamp.to[c->range][e] = to + 1;
    }
    return m->clamp.to[c->range][e] - 1;
}

uint32_t mask_clamp(struct machine *m, uint32_t e, enum clamp_range range, uint32_t n_char)
{
    const struct clamper c = {m, range, n_char};
    struct expr_task t;
    exprs_begin(&m->x, &t);
    uint32_t to = clamp(&c, e, 0);
    exprs_end(&m->x, &t, true);
    return to;
}

/* ---- the shortest rests ---- */

static uint32_t plus(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static uint32_t more(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Return the maximum of all rests of p (q (r ...)). */
static uint32_t peak_cat(struct machine *m, uint32_t e)
{
    const struct exprs *x = &m->x;
    uint32_t peak = 0;
    for (; x->e[e].op == EX_CAT; e = x->e[e].b)
        peak = more(peak, plus(mask_peak(m, x->e[e].a), x->e[x->e[e].b].least));
    return more(peak, mask_peak(m, e));
}

static uint32_t peak_new(struct machine *m, uint32_t e)
{
    const struct exprs *x = &m->x;
    const struct expr it = x->e[e];
    uint32_t peak = 0;
    if (it.op == EX_CAT) return peak_cat(m, e);
    for (uint32_t i = 0; it.op == EX_OR && i < it.b; i++)
        peak = more(peak, mask_peak(m, x->list.v[it.a + i]));
    if (it.op != EX_REP) return more(peak, it.least);
    uint64_t others = (uint64_t)(it.b > 1 ? it.b - 1 : 0) * x->e[it.a].least;
    return plus(mask_peak(m, it.a), others < UINT32_MAX ? (uint32_t)others : UINT32_MAX);
}

/* The recursion is limited, because the clamp that made e had the same depth. */
uint32_t mask_peak(struct machine *m, uint32_t e)
{
    if (!clamp_room(m)) return UINT32_MAX;
    if (m->clamp.peak[e] == UNKNOWN) {
        uint32_t peak = peak_new(m, e);
        m->clamp.peak[e] = plus(peak, 1);
    }
    return m->clamp.peak[e] == UINT32_MAX ? UINT32_MAX : m->clamp.peak[e] - 1;
}
