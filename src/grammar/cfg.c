/* cfg.c - context-free rules: construction, checks, and the expansion of rules for a machine; see
 * cfg.h. */
#include "cfg.h"

#include <stdlib.h>
#include <string.h>

static bool expand(void *front, struct machine *m, uint32_t rule, struct alts *out);

static uint32_t choose(void *front, uint32_t arg, uint32_t tag)
{
    return cfg_graft_choose(front, arg, tag);
}

bool cfg_open(struct cfg *g, struct expr_limits x, struct machine_limits limits)
{
    *g = (struct cfg){0};
    g->arena.bytes_max = x.bytes_max;
    bool ok = machine_open(&g->m, x, limits, expand, g);
    g->m.choose = choose;
    return ok;
}

void cfg_close(struct cfg *g)
{
    machine_close(&g->m);
    for (size_t i = 0; i < g->rule.n; i++) vec_deinit(&g->rule.v[i].alt);
    vec_deinit(&g->rule);
    for (size_t i = 0; i < g->graft.n; i++) cfg_graft_close(g->graft.v[i]);
    vec_deinit(&g->graft);
    vec_deinit(&g->choice);
    vec_deinit(&g->sym);
    vec_deinit(&g->end);
    strmap_deinit(&g->name_of);
    arena_deinit(&g->arena);
    *g = (struct cfg){0};
}

static void no_memory(struct cfg *g)
{
    expr_fail(&g->m.x, EXPR_NO_MEMORY);
}

uint32_t cfg_rule_new(struct cfg *g)
{
    if (!vec_push(&g->rule, ((struct cfg_rule){.defined = true}))) return no_memory(g), 0;
    return (uint32_t)g->rule.n - 1;
}

uint32_t cfg_rule_named(struct cfg *g, const char *name, size_t n)
{
    const uint32_t *known = strmap_get(&g->name_of, name, n);
    if (known) return *known;
    const char *copy = arena_text(&g->arena, name, n);
    uint32_t i = cfg_rule_new(g);
    if (!copy || g->m.x.failed || !strmap_put(&g->name_of, copy, n, i)) return no_memory(g), 0;
    g->rule.v[i].name = copy;
    g->rule.v[i].defined = false;
    return i;
}

bool cfg_add(struct cfg *g, uint32_t rule, const struct cfg_item *part, size_t n)
{
    bool ok = !g->m.x.failed && rule < g->rule.n;
    for (size_t i = 0; ok && i < n; i++) {
        struct symbol s = {part[i].is_rule ? SYM_RULE : SYM_EXPR, part[i].id, 0};
        if (!part[i].is_rule && part[i].id == EXPR_EPSILON) continue;
        ok = vec_push(&g->sym, s);
    }
    ok = ok && vec_push(&g->end, (uint32_t)g->sym.n) &&
         vec_push(&g->rule.v[rule].alt, (uint32_t)g->end.n - 1);
    if (ok) g->rule.v[rule].defined = true;
    if (!ok) no_memory(g);
    return ok;
}

/* ---- parts ---- */

/* Return true if no part is a rule. */
static bool all_exprs(const struct cfg_item *part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (part[i].is_rule) return false;
    return true;
}

struct cfg_item cfg_sequence(struct cfg *g, const struct cfg_item *part, size_t n)
{
    if (n == 1) return part[0];
    if (all_exprs(part, n)) {
        uint32_t e = EXPR_EPSILON;
        for (size_t i = n; i > 0; i--) e = expr_cat(&g->m.x, part[i - 1].id, e);
        return (struct cfg_item){false, e};
    }
    uint32_t rule = cfg_rule_new(g);
    cfg_add(g, rule, part, n);
    return (struct cfg_item){true, rule};
}

struct cfg_item cfg_either(struct cfg *g, const struct cfg_item *part, size_t n)
{
    if (n == 1) return part[0];
    if (all_exprs(part, n)) {
        uint32_t *v = malloc((n + 1) * sizeof *v);
        if (!v) return no_memory(g), (struct cfg_item){false, EXPR_EMPTY};
        for (size_t i = 0; i < n; i++) v[i] = part[i].id;
        uint32_t e = expr_or_list(&g->m.x, v, n);
        free(v);
        return (struct cfg_item){false, e};
    }
    uint32_t rule = cfg_rule_new(g);
    for (size_t i = 0; i < n; i++) cfg_add(g, rule, &part[i], 1);
    return (struct cfg_item){true, rule};
}

/* Return an item for at most n repetitions of p, as nested rules: (p (p (p)?)?)? */
static struct cfg_item at_most(struct cfg *g, struct cfg_item p, uint32_t n)
{
    struct cfg_item rest = {false, EXPR_EPSILON};
    for (uint32_t i = 0; i < n && !g->m.x.failed; i++) {
        uint32_t rule = cfg_rule_new(g);
        cfg_add(g, rule, (struct cfg_item[]){p, rest}, 2);
        cfg_add(g, rule, NULL, 0);
        rest = (struct cfg_item){true, rule};
    }
    return rest;
}

struct cfg_item cfg_repeat(struct cfg *g, struct cfg_item p, uint32_t min, uint32_t max)
{
    if (!p.is_rule) return (struct cfg_item){false, expr_rep(&g->m.x, p.id, min, max)};
    struct cfg_item rest;
    if (max == EXPR_INF) {
        uint32_t rule = cfg_rule_new(g); /* alternatives of the rule: p rule, or nothing */
        rest = (struct cfg_item){true, rule};
        cfg_add(g, rule, (struct cfg_item[]){p, rest}, 2);
        cfg_add(g, rule, NULL, 0);
    } else {
        rest = at_most(g, p, max - min);
    }
    for (uint32_t i = 0; i < min && !g->m.x.failed; i++)
        rest = cfg_sequence(g, (struct cfg_item[]){p, rest}, 2);
    return rest;
}

/* ---- checks ---- */

/* Return the index of the first symbol of an alternative. */
static uint32_t alt_first(const struct cfg *g, uint32_t alt)
{
    return alt == 0 ? 0 : g->end.v[alt - 1];
}

/* Return true if an alternative has a text or, if `empty`, the empty text. Use the current values
 * of `productive` and `nullable`. */
static bool alt_has(const struct cfg *g, uint32_t alt, bool empty)
{
    for (uint32_t k = alt_first(g, alt); k < g->end.v[alt]; k++) {
        struct symbol s = g->sym.v[k];
        bool rule = s.kind == SYM_RULE;
        if (rule    ? !(empty ? g->rule.v[s.id].nullable : g->rule.v[s.id].productive)
            : empty ? !expr_nullable(&g->m.x, s.id)
                    : s.id == EXPR_EMPTY)
            return false;
    }
    return true;
}

/* Set `productive` and `nullable` of all rules to their least fixed points. Every second pass
 * visits the rules in reverse order, so that a long chain of rules takes two passes in either
 * order. */
static void find_texts(struct cfg *g)
{
    bool backwards = true;
    for (bool changed = true; changed && !g->m.x.failed; backwards = !backwards) {
        changed = false;
        for (size_t j = 0; j < g->rule.n; j++)
            for (size_t i = backwards ? g->rule.n - 1 - j : j, k = 0; k < g->rule.v[i].alt.n; k++) {
                struct cfg_rule *r = &g->rule.v[i];
                if (!expr_spend(&g->m.x, 1)) return;
                bool some = r->productive || alt_has(g, r->alt.v[k], false),
                     none = r->nullable || alt_has(g, r->alt.v[k], true);
                changed |= some != r->productive || none != r->nullable;
                r->productive = some, r->nullable = none;
            }
    }
}

static const char *name_of(const struct cfg *g, uint32_t rule)
{
    return g->rule.v[rule].name ? g->rule.v[rule].name : "(a group)";
}

/* The position of a search within a rule: the symbol to visit next. */
struct rule_place {
    uint32_t rule, alt, sym; /* alt: index into the rule's alternatives */
};

/* Return the next rule with which a rule may begin, from place p on, and move p past it. UINT32_MAX
 * if no rule is left. */
static uint32_t next_beginning(const struct cfg *g, struct rule_place *p)
{
    const struct cfg_rule *r = &g->rule.v[p->rule];
    for (; p->alt < r->alt.n; p->alt++, p->sym = 0) {
        uint32_t alt = r->alt.v[p->alt], k = alt_first(g, alt) + p->sym;
        for (bool skip = true; skip && k < g->end.v[alt]; k++) {
            struct symbol s = g->sym.v[k];
            bool is_rule = s.kind == SYM_RULE;
            skip = is_rule ? g->rule.v[s.id].nullable : expr_nullable(&g->m.x, s.id);
            if (!is_rule) continue;
            p->sym = k + 1 - alt_first(g, alt);
            if (!skip) p->alt++, p->sym = 0;
            return s.id;
        }
    }
    return UINT32_MAX;
}

/* Return true if beginnings of rules lead from `start` to a left-recursive rule. The search is
 * depth-first. A rule that is reached while it is open is left-recursive. */
static bool has_left_recursion(struct cfg *g, uint32_t start)
{
    enum { NEW, OPEN, DONE };
    VEC(struct rule_place) stack = {0};
    bool found = false;
    if (g->rule.v[start].mark != NEW) return false;
    if (!vec_push(&stack, ((struct rule_place){.rule = start}))) return no_memory(g), false;
    g->rule.v[start].mark = OPEN;
    while (!found && stack.n > 0 && expr_spend(&g->m.x, 1)) {
        struct rule_place *at = &stack.v[stack.n - 1];
        uint32_t next = next_beginning(g, at);
        if (next == UINT32_MAX) {
            g->rule.v[at->rule].mark = DONE;
            stack.n--;
            continue;
        }
        found = g->rule.v[next].mark == OPEN;
        if (g->rule.v[next].mark != NEW) continue;
        g->rule.v[next].mark = OPEN;
        if (!vec_push(&stack, ((struct rule_place){.rule = next}))) no_memory(g), found = true;
    }
    vec_deinit(&stack);
    return found;
}

int cfg_finish(struct cfg *g, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < g->rule.n && !g->m.x.failed; i++)
        if (!g->rule.v[i].defined)
            return err_set(e, ERR_FORMAT, "grammar: rule %s not found", name_of(g, i));
    /* prepare the symbols, because alt_has only compares with EXPR_EMPTY */
    for (size_t i = 0; i < g->sym.n; i++)
        if (g->sym.v[i].kind == SYM_EXPR && !expr_alive(&g->m.x, g->sym.v[i].id))
            g->sym.v[i].id = EXPR_EMPTY;
    find_texts(g);
    bool left = false;
    for (uint32_t i = 0; i < g->rule.n && !left; i++) left = has_left_recursion(g, i);
    if (left && !g->m.x.failed) rc = cfg_remove_left(g, e);
    struct err why;
    if (rc == 0 && g->m.x.failed)
        rc = exprs_error(&g->m.x, &why), rc = err_set(e, rc, "grammar: %s", why.text);
    if (rc == 0 && (g->rule.n == 0 || !g->rule.v[0].productive))
        rc = err_set(e, ERR_FORMAT, "grammar: no text matches");
    return rc;
}

/* Add the alternatives of a rule that have a text. */
static bool expand(void *front, struct machine *m, uint32_t rule, struct alts *out)
{
    struct cfg *g = front;
    bool ok = true;
    (void)m;
    if (g->rule.v[rule].graft) return cfg_graft_expand(g, rule, out);
    for (size_t a = 0; ok && a < g->rule.v[rule].alt.n; a++) {
        uint32_t alt = g->rule.v[rule].alt.v[a];
        if (!alt_has(g, alt, false)) continue; /* the alternative has no text */
        ok = alts_begin(out);
        for (uint32_t k = alt_first(g, alt); ok && k < g->end.v[alt]; k++)
            ok = alts_add(out, g->sym.v[k].kind, g->sym.v[k].id);
    }
    return ok;
}
