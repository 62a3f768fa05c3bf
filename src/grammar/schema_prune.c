/* schema_prune.c - removal of redundant forms from a product; see schema_form.c.
 *
 * `oneOf` of n objects has n alternatives, each with the negations of all other alternatives. A
 * negation has a form for every keyword, so without pruning the number of forms is exponential in
 * n. The following forms are removed, which does not change the set of values.
 *
 *   a form without a value, because a required member has no value
 *   a factor that the form implies, because the product equals the form a form that implies another
 *   form of the sum
 *
 * These tests must need little work and must terminate. Therefore they compare only the types and
 * scalars of literals, and do not search forms. */
#include "schema_work.h"

#include <string.h>

/* TYPE_DEPTH_MAX: maximum depth of subschemas that types_of visits. TYPE_DEPTH_MAX also ends
 * recursive $refs. */
enum { TYPE_DEPTH_MAX = 16 };
enum { CLASH_UNKNOWN, CLASH_NO, CLASH_YES };

/* ---- literals that contradict each other ---- */

static unsigned types_of(struct schema *s, uint32_t sub, int depth);

/* Return a superset of the types that a list of subschemas allows. A type must be allowed by every
 * subschema if `all` is true, otherwise by at least one subschema. JT_ALL if there is no list. */
static unsigned types_of_list(struct schema *s, uint32_t sub, const char *key, bool all, int depth)
{
    const struct json *list = sub_field(s, sub, key);
    unsigned types = all || !list ? JT_ALL : 0;
    for (size_t i = 0; i < json_count(list); i++) {
        unsigned one = types_of(s, sub_of(s, json_item(list, i), sub, key), depth + 1);
        types = all ? types & one : types | one;
    }
    return types;
}

/* Return a superset of the types of the values that are valid by a subschema. */
static unsigned types_of(struct schema *s, uint32_t sub, int depth)
{
    const struct json *j = s->sub.v[sub].j;
    if (s->sub.v[sub].is_const) return json_type_bit(j);
    if (sub == 0 || json_kind(j) == JK_BOOL) return sub == 0 || json_bool(j, true) ? JT_ALL : 0;
    if (depth > TYPE_DEPTH_MAX || !schema_ok(s)) return JT_ALL;
    bool integer;
    unsigned types = sub_types(s, sub, &integer);
    const struct json *one = s->draft > DRAFT_4 ? sub_field(s, sub, "const") : NULL,
                      *some = sub_field(s, sub, "enum");
    if (one) types &= json_type_bit(one);
    unsigned listed = some ? 0 : JT_ALL;
    for (size_t i = 0; i < json_count(some); i++) listed |= json_type_bit(json_item(some, i));
    uint32_t target = sub_target(s, sub);
    if (target != NONE) types &= types_of(s, target, depth + 1);
    return types & listed & types_of_list(s, sub, "allOf", true, depth) &
           types_of_list(s, sub, "anyOf", false, depth) &
           types_of_list(s, sub, "oneOf", false, depth);
}

/* Return true if the literals of a set contradict each other. There are three cases. One literal is
 * the negation of another, no type is common, or all common types are scalar and no scalar is
 * common. */
static bool find_clash(struct schema *s, uint32_t set)
{
    unsigned types = JT_ALL;
    for (uint32_t i = 0; i < s->set.v[set].n; i++) {
        uint32_t lit = s->lit.v[s->set.v[set].first + i];
        if (i > 0 && (lit & 1) && s->lit.v[s->set.v[set].first + i - 1] == lit - 1) return true;
        types &= lit & 1 ? (unsigned)(lit == LIT_FALSE ? 0 : JT_ALL) : types_of(s, lit / 2, 0);
    }
    if (types & (JT_LIST | JT_OBJECT)) return false;
    return types == 0 || !expr_alive(&s->m.x, set_scalar(s, set));
}

bool set_clashes(struct schema *s, uint32_t set)
{
    if (s->set.v[set].clash == CLASH_UNKNOWN && schema_ok(s)) {
        bool yes = find_clash(s, set);
        s->set.v[set].clash = yes ? CLASH_YES : CLASH_NO;
    }
    return schema_ok(s) && s->set.v[set].clash == CLASH_YES;
}

/* ---- members of a form ---- */

static bool is_required(const struct schema_form *f, uint32_t name)
{
    for (size_t i = 0; i < f->required.n; i++)
        if (f->required.v[i] == name) return true;
    return false;
}

/* Return the condition of a form on the member `name`. */
static uint32_t member_set(struct schema *s, const struct schema_form *f, uint32_t name)
{
    uint32_t set = SET_ANY;
    for (size_t i = 0; i < f->member.n; i++)
        if (name_atom_holds(s, &f->member.v[i], name)) set = set_add(s, set, f->member.v[i].lit);
    return set;
}

bool form_fails(struct schema *s, const struct schema_form *f)
{
    for (size_t i = 0; i < f->required.n; i++)
        if (set_clashes(s, member_set(s, f, f->required.v[i]))) return true;
    return false;
}

/* Return true if every value of f has a member that satisfies the witness w. False if unknown. */
static bool has_witness(struct schema *s, const struct schema_form *f, const struct name_atom *w)
{
    for (size_t i = 0; i < f->required.n; i++) {
        uint32_t name = f->required.v[i];
        if (!name_atom_holds(s, w, name)) continue;
        if (w->lit == LIT_TRUE || set_clashes(s, set_add(s, member_set(s, f, name), w->lit ^ 1)))
            return true;
    }
    return false;
}

/* Return true if every value of f satisfies the atom a, which must have one name. False if
 * unknown. */
static bool implies_member(struct schema *s, const struct schema_form *f, const struct name_atom *a)
{
    uint32_t set = a->name == NONE ? SET_ANY : member_set(s, f, a->name);
    return a->name != NONE && (set_clashes(s, set) || set_clashes(s, set_add(s, set, a->lit ^ 1)));
}

bool form_implies(struct schema *s, const struct schema_form *f, const struct schema_form *g)
{
    if (g->item.n || g->count.n || g->unique != NONE || g->n_evaluated || g->required.n > 1 ||
        g->member.n > 1 || g->witness.n > 1 || g->evaluated != EXPR_EMPTY)
        return false; /* g is not the form of one negated keyword */
    if (!expr_spend(&s->m.x, 4 + (f->required.n + f->member.n) / 16)) return false;
    if (f->min < g->min || f->max > g->max) return false;
    if (g->required.n && !is_required(f, g->required.v[0])) return false;
    if (g->member.n && !implies_member(s, f, &g->member.v[0])) return false;
    return g->witness.n == 0 || has_witness(s, f, &g->witness.v[0]);
}

/* ---- forms that imply another form ---- */

static bool same_atom(const struct name_atom *a, const struct name_atom *b)
{
    return a->name == b->name && a->lang == b->lang && a->lit == b->lit && a->except == b->except;
}

/* Return true if each of the n atoms of v is one of the m atoms of w. */
static bool has_atoms(const struct name_atom *v, size_t n, const struct name_atom *w, size_t m)
{
    for (size_t i = 0, k; i < n; i++) {
        for (k = 0; k < m && !same_atom(&v[i], &w[k]);) k++;
        if (k == m) return false;
    }
    return true;
}

/* Return true if every condition of g is also an atom of f. False if unknown. */
static bool implies(const struct schema_form *f, const struct schema_form *g)
{
    if (g->min > f->min || g->max < f->max) return false;
    if (g->unique != NONE && f->unique == NONE) return false;
    for (size_t i = 0, k; i < g->item.n; i++) {
        const struct items_atom *a = &g->item.v[i], *b = f->item.v;
        for (k = 0; k < f->item.n && memcmp(a, &b[k], sizeof *a) != 0;) k++;
        if (k == f->item.n) return false;
    }
    for (size_t i = 0, k; i < g->count.n; i++) {
        const struct count_atom *a = &g->count.v[i], *b = f->count.v;
        for (k = 0; k < f->count.n && memcmp(a, &b[k], sizeof *a) != 0;) k++;
        if (k == f->count.n) return false;
    }
    for (size_t i = 0; i < g->required.n; i++)
        if (!is_required(f, g->required.v[i])) return false;
    return has_atoms(g->member.v, g->member.n, f->member.v, f->member.n) &&
           has_atoms(g->witness.v, g->witness.n, f->witness.v, f->witness.n);
}

bool forms_absorb(struct forms *all, const struct schema_form *f)
{
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (implies(f, &all->v[i])) return true; /* `all` already has the values of f */
    for (size_t i = 0; i < all->n; i++)
        if (implies(&all->v[i], f))
            form_deinit(&all->v[i]);
        else
            all->v[n++] = all->v[i];
    all->n = n;
    return false;
}
