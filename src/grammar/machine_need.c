/* machine_need.c - the depth of stack that an alternative needs to end; see machine.h.
 *
 * The need of an alternative is the minimum number of cells above its stack over all its texts. The
 * need of a rule is the minimum of its alternatives. Needs are the least fixed point over the
 * reachable rules. Needs are computed after a stack is first deeper than half of depth_max, which
 * usual texts do not reach.
 *
 * The result depends on the rules alone. Only a rule's own alternatives are considered if it
 * reaches more than RULES_MAX rules. In this case a text may reach a place at which no byte may
 * follow, and ends at this place. */
#include "machine.h"

#include <stdlib.h>

/* RULES_MAX: maximum number of reached rules; the work grows with its square. NEED_NONE: need of a
 * rule without an end, greater than all sums of needs. */
enum { RULES_MAX = 1024, NEED_NONE = 1 << 30 };

typedef VEC(uint32_t) rules;

static uint32_t more(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Return the known need of a rule; NEED_UNKNOWN, which is greater than any depth, if unknown. */
static uint32_t need_now(const struct machine *m, uint32_t rule)
{
    return rule < m->rule.n ? m->rule.v[rule].need : NEED_UNKNOWN;
}

/* Return the need of a symbol: one cell, or the minimum need of its rules. */
static uint32_t need_of_symbol(struct machine *m, const struct symbol *s)
{
    if (s->kind == SYM_EXPR) return 1;
    if (s->kind == SYM_RULE) return need_now(m, s->id);
    const uint32_t *reach = expr_reach(&m->x, s->id);
    uint32_t least = NEED_UNKNOWN;
    for (uint32_t i = 1; reach && i <= reach[0]; i++) {
        uint32_t rule = m->choose(m->front, s->arg, reach[i]);
        uint32_t need = rule == NO_RULE ? NEED_UNKNOWN : need_now(m, rule);
        if (need < least) least = need;
    }
    return more(1, least);
}

/* Return the index of the first symbol of alternative i. */
static uint32_t first_symbol(const struct machine *m, uint32_t i)
{
    return i == 0 ? 0 : m->alts.end.v[i - 1];
}

/* Return the need of alternative i from the known needs of its symbols. */
static uint32_t need_of_alt(struct machine *m, uint32_t i)
{
    uint32_t first = first_symbol(m, i), end = m->alts.end.v[i], need = end - first;
    for (uint32_t k = first; k < end && need != NEED_UNKNOWN; k++) {
        uint32_t own = need_of_symbol(m, &m->alts.sym.v[k]);
        need = own == NEED_UNKNOWN ? own : more(need, end - 1 - k + own);
    }
    return need;
}

/* Add a rule to the list if it is new to this search. Return false after a failure. */
static bool add_rule(struct machine *m, rules *list, uint32_t rule)
{
    if (!machine_expand(m, rule)) return false;
    if (m->rule.v[rule].search == m->search_now) return true;
    m->rule.v[rule].search = m->search_now;
    return vec_push(list, rule) || (expr_fail(&m->x, EXPR_NO_MEMORY), false);
}

/* Add the rules of a symbol to the list. */
static bool add_rules(struct machine *m, rules *list, const struct symbol s)
{
    if (s.kind == SYM_RULE) return add_rule(m, list, s.id);
    if (s.kind == SYM_EXPR) return true;
    const uint32_t *reach = expr_reach(&m->x, s.id);
    for (uint32_t i = 1, n = reach ? reach[0] : 0; i <= n; i++) {
        uint32_t rule = m->choose(m->front, s.arg, reach[i]);
        if (rule != NO_RULE && !add_rule(m, list, rule)) return false;
        reach = expr_reach(&m->x, s.id); /* the expansion may have moved the list */
        if (!reach) return false;
    }
    return !m->x.failed;
}

/* List the rules that `rule` reaches, including itself. Stop at more than RULES_MAX rules. Return
 * false after a failure. */
static bool reachable(struct machine *m, uint32_t rule, rules *list)
{
    m->search_now++;
    bool ok = add_rule(m, list, rule);
    for (size_t i = 0; ok && i < list->n && list->n <= RULES_MAX; i++) {
        const struct rule_span s = m->rule.v[list->v[i]];
        for (uint32_t a = s.first; ok && a < s.first + s.n; a++)
            for (uint32_t k = first_symbol(m, a); ok && k < m->alts.end.v[a]; k++)
                ok = expr_spend(&m->x, 1) && add_rules(m, list, m->alts.sym.v[k]);
    }
    return ok;
}

/* Lower the needs of the listed rules until no need changes. */
static void lower_needs(struct machine *m, const rules *list)
{
    for (bool changed = true; changed && !m->x.failed;) {
        changed = false;
        for (size_t i = list->n; i-- > 0;) {
            struct rule_span *s = &m->rule.v[list->v[i]];
            for (uint32_t a = s->first; a < s->first + s->n; a++) {
                uint32_t need = need_of_alt(m, a);
                if (!expr_spend(&m->x, 1 + m->alts.end.v[a] - first_symbol(m, a))) return;
                if (need < s->need) s->need = need, changed = true;
            }
        }
    }
}

/* Ensure that the need of a rule is known. The need is 0 if its computation is too expensive. */
static void find_need(struct machine *m, uint32_t rule)
{
    rules list = {0};
    struct expr_task t;
    exprs_begin(&m->x, &t);
    bool ok = need_now(m, rule) == NEED_UNKNOWN && reachable(m, rule, &list);
    if (ok && list.n > RULES_MAX) m->rule.v[rule].need = 0;
    if (ok && list.n <= RULES_MAX) {
        lower_needs(m, &list);
        for (size_t i = 0; i < list.n; i++)
            if (need_now(m, list.v[i]) == NEED_UNKNOWN) m->rule.v[list.v[i]].need = NEED_NONE;
    }
    exprs_end(&m->x, &t, true);
    vec_deinit(&list);
}

bool machine_fits(struct machine *m, uint32_t rule, uint32_t i, uint32_t depth)
{
    uint32_t n = m->alts.end.v[i] - first_symbol(m, i), max = m->limit.depth_max;
    if (depth + n <= max / 2) return true;
    if (depth + n > max) return false;
    find_need(m, rule);
    return need_now(m, rule) == 0 || depth + need_of_alt(m, i) <= max;
}
