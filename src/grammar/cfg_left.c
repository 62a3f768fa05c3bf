/* cfg_left.c - removal of left recursion, because the machine enters a rule before it reads a byte.
 *
 * Rules that begin with themselves become rules that end with themselves and match the same texts.
 * This is the left-corner transform (Rosenkrantz and Lewis 1970, "Deterministic left corner
 * parsing").
 *
 * Rules that begin with each other form a group S. A non-empty text of A in S begins with a base:
 * symbols outside of S that begin a B in S. The text after a complete B is tail(A, B), the rest of
 * A:
 *
 *   full(A)     -> base of B  tail(A, B)
 *   tail(A, B)  -> nothing, if B is A
 *   tail(A, B)  -> rest tail(A, D), for each D -> B rest
 *
 * After a symbol with an empty text, the next symbol may also begin the production. Therefore each
 * production is split by its first symbol that is not empty, and full(A) is A without its empty
 * text. A complete B is also a complete D if the rest may be empty (`unit`). */
#include "cfg.h"

#include <stdlib.h>
#include <string.h>

/* The transform may make a rule for each pair of left-recursive rules. RULES_MAX limits the rules
 * that it reads. MADE_MAX limits the rules that it makes, and thereby its work. */
enum { RULES_MAX = 3000, MADE_MAX = 60000 };

/* A rule made by the transform: full(a), or tail(a, b) if is_tail is true. */
struct left_job {
    uint32_t rule, a, b;
    bool is_tail;
};

struct left {
    struct cfg *g; /* borrowed */
    uint32_t n;    /* number of rules before the transform */
    /* owned; [n][n_word]: sets of the rules that a rule may begin with, one bit per rule */
    uint64_t *reach;
    uint32_t n_word;          /* number of 64-bit words in a row of reach */
    uint32_t *full;           /* owned; [n]: rule of full(a); 0 if not made */
    VEC(struct left_job) job; /* rules made by the transform */
    size_t n_done;            /* number of entries of job that have alternatives */
};

/* Return true if a may begin with b. */
static bool begins(const struct left *l, uint32_t a, uint32_t b)
{
    return l->reach[(size_t)a * l->n_word + b / 64] >> b % 64 & 1;
}

/* Return true if a and b are in one group. */
static bool together(const struct left *l, uint32_t a, uint32_t b)
{
    return begins(l, a, b) && begins(l, b, a);
}

/* Return true if a symbol matches the empty text. */
static bool is_empty_ok(const struct cfg *g, struct symbol s)
{
    return s.kind == SYM_RULE ? g->rule.v[s.id].nullable : expr_nullable(&g->m.x, s.id);
}

/* Return the index of the first symbol of an alternative. */
static uint32_t first_of(const struct cfg *g, uint32_t alt)
{
    return alt == 0 ? 0 : g->end.v[alt - 1];
}

/* ---- which rule begins with which ---- */

/* Mark the rules that `from` may begin with. The search visits first symbols, and the symbols after
 * symbols with an empty text. */
static bool mark_reach(struct left *l, uint32_t from)
{
    struct cfg *g = l->g;
    uint64_t *row = l->reach + (size_t)from * l->n_word;
    VEC(uint32_t) due = {0};
    bool ok = vec_push(&due, from);
    while (ok && due.n > 0 && expr_spend(&g->m.x, 1)) {
        const struct cfg_rule *r = &g->rule.v[due.v[--due.n]];
        for (size_t i = 0; ok && i < r->alt.n; i++)
            for (uint32_t k = first_of(g, r->alt.v[i]); ok && k < g->end.v[r->alt.v[i]]; k++) {
                struct symbol s = g->sym.v[k];
                if (s.kind == SYM_RULE && !(row[s.id / 64] >> s.id % 64 & 1)) {
                    row[s.id / 64] |= 1ull << s.id % 64;
                    ok = vec_push(&due, s.id);
                }
                if (!is_empty_ok(g, s)) break;
            }
    }
    vec_deinit(&due);
    return ok;
}

/* ---- rules to be made ---- */

/* Return full(a), or tail(a, b) if is_tail is true. Make the rule at its first use. The
 * alternatives are added later. */
static uint32_t make_rule(struct left *l, uint32_t a, uint32_t b, bool is_tail)
{
    expr_spend(&l->g->m.x, l->job.n / 8);
    for (size_t i = 0; is_tail && i < l->job.n; i++)
        if (l->job.v[i].is_tail && l->job.v[i].a == a && l->job.v[i].b == b)
            return l->job.v[i].rule;
    if (!is_tail && l->full[a]) return l->full[a];
    struct left_job j = {cfg_rule_new(l->g), a, b, is_tail};
    if (l->job.n >= MADE_MAX) expr_fail(&l->g->m.x, EXPR_STATES);
    if (!vec_push(&l->job, j)) expr_fail(&l->g->m.x, EXPR_NO_MEMORY);
    if (!is_tail) l->full[a] = j.rule;
    struct cfg_rule *r = &l->g->rule.v[j.rule];
    r->productive = l->g->rule.v[a].productive;
    r->nullable = is_tail && a == b;
    return j.rule;
}

/* Return a symbol without its empty text, and without left recursion. */
static struct cfg_item full_part(struct left *l, struct symbol s)
{
    struct exprs *x = &l->g->m.x;
    if (s.kind == SYM_RULE) {
        bool same = !l->g->rule.v[s.id].nullable && !begins(l, s.id, s.id);
        return (struct cfg_item){true, same ? s.id : make_rule(l, s.id, 0, false)};
    }
    uint32_t e = s.id;
    if (expr_nullable(x, e)) e = expr_and(x, e, expr_not(x, EXPR_EPSILON));
    return (struct cfg_item){false, e};
}

/* Add an alternative: symbol k without its empty text, then symbols [k + 1, end), then `tail` if it
 * is not 0. */
static bool add_from(struct left *l, uint32_t rule, uint32_t k, uint32_t end, uint32_t tail)
{
    VEC(struct cfg_item) v = {0};
    struct cfg_item head = full_part(l, l->g->sym.v[k]);
    bool ok = vec_push(&v, head);
    for (uint32_t i = k + 1; ok && i < end; i++)
        ok = vec_push(&v, ((struct cfg_item){l->g->sym.v[i].kind == SYM_RULE, l->g->sym.v[i].id}));
    if (tail) ok = ok && vec_push(&v, ((struct cfg_item){true, tail}));
    if (!ok)
        expr_fail(&l->g->m.x, EXPR_NO_MEMORY);
    else if (head.is_rule || head.id != EXPR_EMPTY)
        cfg_add(l->g, rule, v.v, v.n);
    vec_deinit(&v);
    return ok && !l->g->m.x.failed;
}

/* Add alternatives for the non-empty texts of symbols [from, end), then `tail`. Add one alternative
 * for each symbol that may be the first non-empty symbol. Omit beginnings in the group of `skip` if
 * it is not UINT32_MAX. */
static bool add_full(struct left *l, uint32_t rule, uint32_t from, uint32_t end, uint32_t tail,
                     uint32_t skip)
{
    for (uint32_t k = from; k < end; k++) {
        struct symbol s = l->g->sym.v[k];
        bool inside = skip != UINT32_MAX && s.kind == SYM_RULE && together(l, skip, s.id);
        if (!inside && !add_from(l, rule, k, end, tail)) return false;
        if (!is_empty_ok(l->g, s)) return true;
    }
    return !l->g->m.x.failed;
}

/* Add the alternatives of full(a). */
static bool fill_full(struct left *l, struct left_job j)
{
    struct cfg *g = l->g;
    bool in_group = begins(l, j.a, j.a);
    bool ok = true;
    for (uint32_t b = 0; ok && b < l->n && expr_spend(&g->m.x, 1); b++) {
        if (in_group ? !together(l, j.a, b) : b != j.a) continue;
        uint32_t tail = in_group ? make_rule(l, j.a, b, true) : 0;
        for (size_t i = 0; ok && i < g->rule.v[b].alt.n; i++) {
            uint32_t alt = g->rule.v[b].alt.v[i];
            ok = add_full(l, j.rule, first_of(g, alt), g->end.v[alt], tail,
                          in_group ? j.a : UINT32_MAX);
        }
    }
    return ok;
}

/* Add the alternatives of tail(a, b) after a complete c. For each production "d -> c rest" of the
 * group, add the alternative "rest tail(a, d)". Set unit[d] if rest may be empty. */
static bool fill_tail_of(struct left *l, struct left_job j, uint32_t c, uint8_t *unit)
{
    struct cfg *g = l->g;
    bool ok = true;
    for (uint32_t d = 0; ok && d < l->n && expr_spend(&g->m.x, 1); d++) {
        if (!together(l, j.a, d)) continue;
        for (size_t i = 0; ok && i < g->rule.v[d].alt.n; i++) {
            uint32_t alt = g->rule.v[d].alt.v[i], end = g->end.v[alt];
            for (uint32_t k = first_of(g, alt); ok && k < end; k++) {
                struct symbol s = g->sym.v[k];
                if (s.kind == SYM_RULE && s.id == c) {
                    bool empty = true;
                    for (uint32_t m = k + 1; m < end; m++) empty &= is_empty_ok(g, g->sym.v[m]);
                    if (empty) unit[d] |= 1;
                    if (k + 1 < end)
                        ok =
                            add_full(l, j.rule, k + 1, end, make_rule(l, j.a, d, true), UINT32_MAX);
                }
                if (!is_empty_ok(g, s)) break;
            }
        }
    }
    return ok;
}

/* Add the alternatives of tail(a, b). */
static bool fill_tail(struct left *l, struct left_job j)
{
    enum { VISITED = 1, DONE = 2 };
    /* item per rule: not 0 if the rule is complete at the end of b */
    uint8_t *unit = calloc(l->n, 1);
    if (!unit) return expr_fail(&l->g->m.x, EXPR_NO_MEMORY), false;
    bool ok = true, more = true;
    for (unit[j.b] = VISITED; ok && more;) {
        more = false;
        for (uint32_t c = 0; ok && c < l->n; c++) {
            if (unit[c] != VISITED) continue;
            unit[c] |= DONE;
            more = true;
            ok = fill_tail_of(l, j, c, unit);
        }
    }
    if (ok && unit[j.a]) {
        ok = cfg_add(l->g, j.rule, NULL, 0);
        l->g->rule.v[j.rule].nullable = true;
    }
    free(unit);
    return ok;
}

/* Replace the alternatives of a rule by its full form, and the empty text if `nullable` is true. */
static bool replace(struct left *l, uint32_t rule, bool nullable)
{
    struct cfg_rule *r = &l->g->rule.v[rule];
    r->alt.n = 0;
    return cfg_add(l->g, rule, (struct cfg_item[]){{true, l->full[rule]}}, 1) &&
           (!nullable || cfg_add(l->g, rule, NULL, 0));
}

int cfg_remove_left(struct cfg *g, struct err *e)
{
    struct left l = {.g = g, .n = (uint32_t)g->rule.n, .n_word = (uint32_t)(g->rule.n + 63) / 64};
    if (l.n > RULES_MAX)
        return err_set(e, ERR_LIMIT,
                       "grammar: left recursion must be among at most %d rules, got %u", RULES_MAX,
                       l.n);
    l.reach = calloc((size_t)l.n * l.n_word + 1, sizeof *l.reach);
    l.full = calloc(l.n + 1, sizeof *l.full);
    bool ok = l.reach && l.full;
    for (uint32_t i = 0; ok && i < l.n; i++) ok = mark_reach(&l, i);
    if (!ok) expr_fail(&g->m.x, EXPR_NO_MEMORY);
    for (uint32_t i = 0; ok && i < l.n; i++)
        if (begins(&l, i, i)) make_rule(&l, i, 0, false);
    for (; ok && l.n_done < l.job.n && !g->m.x.failed; l.n_done++) {
        struct left_job j = l.job.v[l.n_done];
        ok = j.is_tail ? fill_tail(&l, j) : fill_full(&l, j);
    }
    for (uint32_t i = 0; ok && i < l.n && !g->m.x.failed; i++)
        if (begins(&l, i, i)) ok = replace(&l, i, g->rule.v[i].nullable);
    free(l.reach);
    free(l.full);
    vec_deinit(&l.job);
    struct err why;
    int rc = exprs_error(&g->m.x, &why);
    return rc ? err_set(e, rc, "grammar, without its left recursion: %s", why.text) : 0;
}
