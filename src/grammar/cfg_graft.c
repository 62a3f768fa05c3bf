/* cfg_graft.c - use rules of the machine of another front end (a JSON Schema) as rules of a cfg.
 *
 * The other machine does not run. The cfg expands a rule of the machine at its first visit. The cfg
 * then copies the alternatives: it adds their expressions to its own, and gives rules and choices
 * new numbers. Rules that no text reaches are not copied. */
#include "cfg.h"

#include <stdlib.h>
#include <string.h>

/* GRAFTS_MAX bounds the machines that a grammar holds. DEPTH_MAX bounds the recursion into machines
 * inside of machines. */
enum { GRAFTS_MAX = 256, DEPTH_MAX = 1000 };

struct cfg_graft {
    struct machine *from; /* borrowed: a part of `owned` */
    void *owned;          /* owned, released by `close` */
    void (*close)(void *owned);
    cfg_spell_fn *spell; /* function that changes each expression; NULL if none */
    /* owned; [cap]: number of the copy of each expression of `from`, + 1; 0: no copy yet */
    uint32_t *copy;
    uint32_t cap;
    VEC(uint32_t) rule; /* rule in the cfg of each rule of `from`, + 1; 0: no rule yet */
};

void cfg_graft_close(struct cfg_graft *t)
{
    t->close(t->owned);
    free(t->copy);
    vec_deinit(&t->rule);
    free(t);
}

/* ---- expressions ---- */

/* Extend t->copy to all expressions of the other machine. */
static bool copy_room(struct cfg *g, struct cfg_graft *t)
{
    if (t->cap >= t->from->x.n) return true;
    uint32_t cap = t->from->x.cap, *copy = realloc(t->copy, cap * sizeof *copy);
    if (!copy) return expr_fail(&g->m.x, EXPR_NO_MEMORY), false;
    memset(copy + t->cap, 0, (cap - t->cap) * sizeof *copy);
    t->copy = copy, t->cap = cap;
    return true;
}

static uint32_t copy_expr(struct cfg *g, struct cfg_graft *t, uint32_t e, int depth);

static uint32_t copy_list(struct cfg *g, struct cfg_graft *t, const struct expr *e, int depth)
{
    uint32_t *v = malloc(e->b * sizeof *v), out;
    if (!v) return expr_fail(&g->m.x, EXPR_NO_MEMORY);
    for (uint32_t i = 0; i < e->b; i++)
        v[i] = copy_expr(g, t, t->from->x.list.v[e->a + i], depth + 1);
    out = e->op == EX_OR ? expr_or_list(&g->m.x, v, e->b) : expr_and_list(&g->m.x, v, e->b);
    free(v);
    return out;
}

/* Copy a concatenation p (q (r ...)). The length of the concatenation is not part of the depth. */
static uint32_t copy_cat(struct cfg *g, struct cfg_graft *t, uint32_t e, int depth)
{
    VEC(uint32_t) head = {0};
    bool ok = true;
    for (; ok && t->from->x.e[e].op == EX_CAT; e = t->from->x.e[e].b)
        ok = vec_push(&head, t->from->x.e[e].a);
    uint32_t out = ok ? copy_expr(g, t, e, depth + 1) : expr_fail(&g->m.x, EXPR_NO_MEMORY);
    while (head.n > 0 && ok)
        out = expr_cat(&g->m.x, copy_expr(g, t, head.v[--head.n], depth + 1), out);
    vec_deinit(&head);
    return out;
}

/* Copy an expression that has no copy yet. */
static uint32_t copy_new(struct cfg *g, struct cfg_graft *t, uint32_t e, int depth)
{
    const struct expr it = t->from->x.e[e];
    struct exprs *x = &g->m.x;
    switch ((enum expr_op)it.op) {
    case EX_EMPTY:
        return EXPR_EMPTY;
    case EX_EPSILON:
        return EXPR_EPSILON;
    case EX_SET:
        return expr_set(x, &t->from->x.set.v[it.a]);
    case EX_CAT:
        return copy_cat(g, t, e, depth);
    case EX_OR:
    case EX_AND:
        return copy_list(g, t, &it, depth);
    case EX_NOT:
        return expr_not(x, copy_expr(g, t, it.a, depth + 1));
    case EX_REP:
        return expr_rep(x, copy_expr(g, t, it.a, depth + 1), it.b, it.c);
    case EX_TAG:
        return expr_tag(x, it.a);
    case EX_STRING:
        return expr_string_like(x, &it, copy_expr(g, t, it.a, depth + 1));
    case EX_MULTIPLE:
        if (it.b == 0 && it.c == 0) return expr_multiple(x, t->from->x.divisor.v[it.a]);
        break;
    case EX_LEAP:
        if (it.a == 0) return expr_leap(x);
        break;
    case EX_SCIENTIFIC_INTEGER:
        if (it.a == 0) return expr_scientific_integer(x);
        break;
    case EX_ESCAPE: /* states after a first byte, which no rule contains */
    case EX_HEX:
        break;
    }
    return expr_fail(x, EXPR_TOO_DEEP);
}

static uint32_t copy_expr(struct cfg *g, struct cfg_graft *t, uint32_t e, int depth)
{
    if (g->m.x.failed || t->from->x.failed || depth > DEPTH_MAX || !copy_room(g, t))
        return expr_fail(&g->m.x, t->from->x.failed ? t->from->x.failed : EXPR_TOO_DEEP);
    if (t->copy[e] == 0) {
        uint32_t made = copy_new(g, t, e, depth);
        t->copy[e] = made + 1;
    }
    return t->copy[e] - 1;
}

/* ---- rules ---- */

/* Return the cfg's rule for a rule of a graft. Make the rule if it is new. */
static uint32_t rule_of(struct cfg *g, uint32_t graft, uint32_t rule)
{
    struct cfg_graft *t = g->graft.v[graft];
    while (t->rule.n <= rule)
        if (!vec_push(&t->rule, 0)) return expr_fail(&g->m.x, EXPR_NO_MEMORY);
    if (t->rule.v[rule] == 0) {
        uint32_t made = cfg_rule_new(g);
        if (g->m.x.failed) return 0;
        t->rule.v[rule] = made + 1;
        g->rule.v[made].productive = true; /* front ends make only rules with a text */
        g->rule.v[made].graft = graft + 1;
        g->rule.v[made].graft_rule = rule;
    }
    return t->rule.v[rule] - 1;
}

struct cfg_item cfg_graft(struct cfg *g, struct machine *from, uint32_t root, void *owned,
                          void (*close)(void *owned), cfg_spell_fn *spell)
{
    struct cfg_graft *t = calloc(1, sizeof *t);
    bool room = g->graft.n < GRAFTS_MAX;
    if (!t || !room || !vec_push(&g->graft, t)) {
        expr_fail(&g->m.x, room ? EXPR_NO_MEMORY : EXPR_TOO_DEEP);
        free(t);
        close(owned);
        return (struct cfg_item){false, EXPR_EMPTY};
    }
    t->from = from, t->owned = owned, t->close = close, t->spell = spell;
    exprs_adopt(&g->m.x, &from->x);
    return (struct cfg_item){true, rule_of(g, (uint32_t)g->graft.n - 1, root)};
}

/* Add the copy of a symbol to the last alternative. */
static bool add_symbol(struct cfg *g, uint32_t graft, struct symbol s, struct alts *out)
{
    struct cfg_graft *t = g->graft.v[graft];
    if (s.kind == SYM_RULE) return alts_add(out, SYM_RULE, rule_of(g, graft, s.id));
    uint32_t e = copy_expr(g, t, s.id, 0);
    if (t->spell) e = t->spell(&g->m.x, e);
    if (s.kind == SYM_EXPR) return alts_add(out, SYM_EXPR, e);
    struct cfg_choice c = {graft, s.arg};
    return vec_push(&g->choice, c) && alts_add_choice(out, e, (uint32_t)g->choice.n - 1);
}

bool cfg_graft_expand(struct cfg *g, uint32_t rule, struct alts *out)
{
    uint32_t graft = g->rule.v[rule].graft - 1, first = 0;
    struct machine *from = g->graft.v[graft]->from;
    struct alts alts = {0};
    from->x.limit.us_max = g->m.x.limit.us_max;
    from->x.limit.work_max = g->m.x.limit.work_max;
    exprs_resume(&from->x);
    int64_t before = exprs_work(&from->x);
    bool ok = from->expand(from->front, from, g->rule.v[rule].graft_rule, &alts);
    ok &= expr_spend(&g->m.x, (size_t)(exprs_work(&from->x) - before));
    if (!ok) expr_fail(&g->m.x, from->x.failed ? from->x.failed : EXPR_NO_MEMORY);
    for (size_t i = 0; ok && i < alts.end.n; i++) {
        ok = alts_begin(out);
        for (uint32_t k = first; ok && k < alts.end.v[i]; k++)
            ok = add_symbol(g, graft, alts.sym.v[k], out);
        first = alts.end.v[i];
    }
    vec_deinit(&alts.sym);
    vec_deinit(&alts.end);
    return ok && !g->m.x.failed;
}

uint32_t cfg_graft_choose(struct cfg *g, uint32_t arg, uint32_t tag)
{
    const struct cfg_choice c = g->choice.v[arg];
    struct machine *from = g->graft.v[c.graft]->from;
    uint32_t rule = from->choose(from->front, c.arg, tag);
    return rule == NO_RULE ? NO_RULE : rule_of(g, c.graft, rule);
}
