/* schema_plan.c - states of arrays and objects, the moves between them, and a test for states that
 * lead to a value; see schema.h.
 *
 * A state is offered only if some text completes it. "has a value" is a least fixed point if the
 * schema is recursive. The search assumes that a set or state has no value if it visits the set or
 * state again. n_assumed is the number of these assumptions. A negative result that depends on an
 * assumption is not cached. */
#include "schema.h"

#include <stdlib.h>
#include <string.h>

/* CLASSES_MAX: maximum number of languages that divide the other names of a form into classes.
 * STATES_MAX: maximum number of states of a schema, which limits its memory. NESTED_MAX: maximum
 * depth of recursion of state_sat and set_sat. */
enum { CLASSES_MAX = 6, STATES_MAX = 200000, NESTED_MAX = 1000 };

/* LISTED_MAX: maximum number of names of classes that become separate names of a form.
 * LISTED_BYTES: maximum length of these names. */
enum { LISTED_MAX = 256, LISTED_BYTES = 128 };

/* ---- plans ---- */

/* Return the index of a name in the plan; p->name.n if the name is absent. */
static uint32_t index_of_name(const struct form_plan *p, uint32_t name)
{
    uint32_t i = 0;
    while (i < p->name.n && p->name.v[i] != name) i++;
    return i;
}

/* Add a name to the plan if it is absent. The name is required if `required` is true in at least
 * one call. */
static bool plan_name(struct schema *s, struct form_plan *p, uint32_t name, bool required)
{
    uint32_t i = index_of_name(p, name);
    if (i == p->name.n) {
        if (i >= NAMES_MAX)
            return schema_fail(s, ERR_UNSUPPORTED, s->at, NULL, "more than %d names of members",
                               NAMES_MAX);
        if (!vec_push(&p->name, name) || !vec_push(&p->name_set, SET_ANY) ||
            !vec_push(&p->name_required, false))
            return schema_no_memory(s);
    }
    p->name_required.v[i] |= required;
    return true;
}

/* Return true if the atom applies to this name. */
bool name_atom_holds(struct schema *s, const struct name_atom *a, uint32_t name)
{
    if (a->name != NONE) return a->name == name;
    const char *text = s->name.v[name];
    uint32_t n = s->name_n.v[name];
    if (a->except && json_field_n(a->except, text, n)) return false;
    return a->lang == lang_universe(s, JT_TEXT) || expr_matches(&s->m.x, a->lang, text, n);
}

/* Set the condition on the member of each name to the literals of all atoms that apply to the
 * name. */
static void plan_sets(struct schema *s, const struct schema_form *f, struct form_plan *p)
{
    for (uint32_t i = 0; i < p->name.n; i++)
        for (size_t k = 0; k < f->member.n; k++) {
            const struct name_atom *a = &f->member.v[k];
            if (name_atom_holds(s, a, p->name.v[i]))
                p->name_set.v[i] = set_add(s, p->name_set.v[i], a->lit);
        }
}

/* Fill lang with the *n languages that divide the other names. The language of all names is not
 * included. Return false if there are more than CLASSES_MAX languages. */
static bool distinct_langs(struct schema *s, const struct schema_form *f,
                           uint32_t lang[CLASSES_MAX], int *n)
{
    *n = 0;
    for (size_t k = 0; k < f->member.n + f->witness.n; k++) {
        const struct name_atom *a =
            k < f->member.n ? &f->member.v[k] : &f->witness.v[k - f->member.n];
        int i = 0;
        if (a->name != NONE || a->lang == lang_universe(s, JT_TEXT)) continue;
        while (i < *n && lang[i] != a->lang) i++;
        if (i < *n) continue;
        if (*n == CLASSES_MAX)
            return schema_fail(s, ERR_UNSUPPORTED, s->at, NULL,
                               "more than %d patterns of names that meet", CLASSES_MAX);
        lang[(*n)++] = a->lang;
    }
    return true;
}

/* Return true if the atom applies to a class of other names. `bits` are the languages that contain
 * the names of the class. */
static bool in_class(const struct name_atom *a, uint32_t all, const uint32_t *lang, int n,
                     uint32_t bits)
{
    int i = 0;
    while (i < n && a->lang != lang[i]) i++;
    return a->name == NONE && (a->lang == all || (i < n && (bits >> i & 1)));
}

/* Divide the other names into classes. Names of a class are in the same languages. Omit empty
 * classes. */
static bool plan_others(struct schema *s, const struct schema_form *f, struct form_plan *p)
{
    struct exprs *x = &s->m.x;
    uint32_t lang[CLASSES_MAX], known = EXPR_EMPTY;
    int n;
    if (!distinct_langs(s, f, lang, &n)) return false;
    for (uint32_t i = 0; i < p->name.n; i++)
        known =
            expr_or(x, known, expr_bytes(x, s->name.v[p->name.v[i]], s->name_n.v[p->name.v[i]]));
    known = expr_not(x, known);
    uint32_t all = lang_universe(s, JT_TEXT), writable = notation_class(s, all, p->top);
    for (uint32_t bits = 0; bits < 1u << n; bits++) {
        struct name_class c = {.lang = all, .set = SET_ANY};
        for (int i = 0; i < n; i++)
            c.lang = expr_and(x, c.lang, bits >> i & 1 ? lang[i] : expr_not(x, lang[i]));
        /* the language has infinitely many names, so some are not in p->name */
        bool some = c.lang == all;
        if (!some && !expr_alive(x, c.lang)) continue; /* this test is cheaper than the next one */
        c.lang = expr_and(x, c.lang, known);
        if (writable != all) c.lang = expr_and(x, c.lang, writable);
        if (!some && !expr_alive(x, c.lang)) continue;
        for (size_t k = 0; k < f->member.n; k++)
            if (in_class(&f->member.v[k], all, lang, n, bits))
                c.set = set_add(s, c.set, f->member.v[k].lit);
        for (size_t k = 0; k < f->witness.n; k++)
            if (in_class(&f->witness.v[k], all, lang, n, bits)) c.witness |= 1u << k;
        if (!vec_push(&p->other, c)) return schema_no_memory(s);
    }
    return schema_ok(s);
}

/* Add the keys of `except` to the plan. in_class can then ignore `except`, which contains no other
 * name. */
static bool plan_except(struct schema *s, struct form_plan *p, const struct json *except)
{
    bool ok = true;
    size_t n;
    for (void *it = json_first(except); ok && it; it = json_next(except, it)) {
        const char *key = json_it_key(it, &n);
        ok = plan_name(s, p, name_number(s, key, n), false);
    }
    return ok;
}

/* ---- distinct names ----
 *
 * A state has a bit for each name of the plan, so each of these names occurs at most once. Names of
 * a class have no bit and may be repeated. A repeated name is not another member, so it must not
 * count for minProperties. */

struct listing {
    struct schema *s;    /* borrowed */
    struct form_plan *p; /* borrowed */
    int n;
    char text[LISTED_BYTES];
};

/* Add the names of e after the first n bytes of text to the plan. Return false after a failure, or
 * if there are too many or too long names. */
static bool list_names(struct listing *l, uint32_t e, size_t n)
{
    struct exprs *x = &l->s->m.x;
    if (expr_nullable(x, e)) {
        uint32_t name = name_number(l->s, l->text, n);
        if (++l->n > LISTED_MAX || !plan_name(l->s, l->p, name, false)) return false;
    }
    const uint32_t *row = expr_row(x, e);
    for (int b = 0; row && b < 256; b++) {
        if (row[b] == EXPR_EMPTY || !expr_alive(x, row[b])) continue;
        if (n == LISTED_BYTES) return false;
        l->text[n] = (char)b;
        if (!list_names(l, row[b], n + 1)) return false;
    }
    return schema_ok(l->s);
}

/* Return true if minProperties needs at most one member of a class in addition to the required
 * members. */
static bool one_suffices(const struct schema_form *f, const struct form_plan *p)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < p->name.n; i++) n += p->name_required.v[i];
    return f->min <= n;
}

/* Replace the classes of other names by their names if repeated names could meet minProperties. The
 * schema fails if a class has too many names. */
static bool list_classes(struct schema *s, const struct schema_form *f, struct form_plan *p)
{
    struct listing l = {.s = s, .p = p};
    bool ok = true;
    p->n_ordered = (uint32_t)p->name.n;
    if (one_suffices(f, p)) return true;
    for (size_t k = 0; ok && k < p->other.n; k++)
        ok = set_clashes(s, p->other.v[k].set) || list_names(&l, p->other.v[k].lang, 0);
    if (!ok && schema_ok(s))
        schema_fail(s, ERR_UNSUPPORTED, s->at, "minProperties",
                    "not supported yet for more than %d names that patterns or "
                    "additionalProperties allow, because they may repeat",
                    LISTED_MAX);
    if (!ok || p->name.n == p->n_ordered) return ok;
    p->other.n = 0;
    plan_sets(s, f, p);
    return plan_others(s, f, p);
}

static bool plan_object(struct schema *s, const struct schema_form *f, struct form_plan *p)
{
    bool ok = f->witness.n <= WITNESSES_MAX ||
              schema_fail(s, ERR_UNSUPPORTED, s->at, NULL,
                          "more than %d negations of member schemas", WITNESSES_MAX);
    for (size_t k = 0; ok && k < f->member.n; k++)
        if (f->member.v[k].name != NONE) ok = plan_name(s, p, f->member.v[k].name, false);
    for (size_t k = 0; ok && k < f->required.n; k++) ok = plan_name(s, p, f->required.v[k], true);
    ok = ok && expr_spend(&s->m.x, p->name.n * f->member.n / 4);
    for (size_t k = 0; ok && k < f->member.n; k++) ok = plan_except(s, p, f->member.v[k].except);
    for (size_t k = 0; ok && k < f->witness.n; k++) ok = plan_except(s, p, f->witness.v[k].except);
    for (uint32_t i = 0; ok && i < p->name.n; i++)
        ok = notation_allows_name(s, p->name.v[i], p->top);
    if (ok) plan_sets(s, f, p);
    return ok && plan_others(s, f, p) && list_classes(s, f, p);
}

/* Set n_item. Items from this index on have equal conditions, so a state counts only up to the
 * index. */
static bool plan_array(struct schema *s, const struct schema_form *f, struct form_plan *p)
{
    if (f->count.n > COUNTS_MAX)
        return schema_fail(s, ERR_UNSUPPORTED, s->at, NULL,
                           "more than %d conditions on counts of items", COUNTS_MAX);
    if (f->unique != NONE && f->max > 1)
        return schema_fail(s, ERR_UNSUPPORTED, f->unique, "uniqueItems", "not supported yet");
    p->n_item = f->max == NONE ? f->min : f->max;
    for (size_t k = 0; f->max == NONE && k < f->item.n; k++) {
        uint32_t border = f->item.v[k].to == NONE ? f->item.v[k].from : f->item.v[k].to;
        if (border > p->n_item) p->n_item = border;
    }
    for (size_t k = 0; f->max == NONE && k < f->count.n; k++)
        if (f->count.v[k].from > p->n_item) p->n_item = f->count.v[k].from;
    return true;
}

/* Fill the plan of a form. */
bool plan_form(struct schema *s, uint32_t form, bool top)
{
    struct form_plan p = {.names = NONE, .plain_names = NONE, .top_names = NONE, .top = top};
    struct schema_form *f = &s->form.v[form];
    bool ok = f->is_object ? plan_object(s, f, &p) : plan_array(s, f, &p);
    s->plan.v[form] = p; /* s now owns the plan, even if it is incomplete */
    return ok;
}

/* ---- states ---- */

/* Return the number of a state. Add the state if it is new. The number must not be used after a
 * failure. */
uint32_t state_number(struct schema *s, const struct state *t)
{
    struct state key = *t;
    key.sat = 0; /* sat is not part of a state's identity */
    const uint32_t *known = strmap_get(&s->state_of, (const char *)&key, sizeof key);
    if (known) return *known;
    uint32_t i = (uint32_t)s->state.n;
    if (i >= STATES_MAX)
        return schema_fail(s, ERR_LIMIT, s->at, NULL, "more than %d states", STATES_MAX), 0;
    const char *copy = arena_text(&s->arena, (const char *)&key, sizeof key);
    if (!copy || !vec_push(&s->state, key) || !strmap_put(&s->state_of, copy, sizeof key, i))
        schema_no_memory(s);
    return i;
}

static bool is_seen(const struct state *t, uint32_t i)
{
    return t->seen[i / 64] >> (i % 64) & 1;
}

/* Return true if all counts of items are in range. seen[k] is the count of count_atom k. */
static bool counts_met(const struct schema_form *f, const struct state *t)
{
    for (size_t k = 0; k < f->count.n; k++)
        if (t->seen[k] < f->count.v[k].min || t->seen[k] > f->count.v[k].max) return false;
    return true;
}

bool state_complete(const struct schema *s, uint32_t state)
{
    const struct state *t = &s->state.v[state];
    const struct schema_form *f = &s->form.v[t->form];
    const struct form_plan *p = &s->plan.v[t->form];
    if (t->n < f->min) return false;
    if (!f->is_object) return counts_met(f, t);
    for (uint32_t i = 0; i < p->name.n; i++)
        if (p->name_required.v[i] && !is_seen(t, i)) return false;
    return t->met == (1u << f->witness.n) - 1;
}

/* ---- moves ---- */

/* Append a move if its set has a value and the state after it can be completed. Return false after
 * a failure. */
static bool add_move(struct schema *s, struct moves *out, struct move m)
{
    if (!schema_ok(s)) return false;
    if (!set_sat(s, m.set) || !state_sat(s, m.to)) return schema_ok(s);
    return vec_push(out, m) || schema_no_memory(s);
}

/* Return the witnesses that are not satisfied yet and apply to a name, as bits of form.witness. */
static uint32_t witnesses_of(struct schema *s, const struct schema_form *f, uint32_t name,
                             uint32_t met)
{
    uint32_t bits = 0;
    for (size_t k = 0; k < f->witness.n; k++)
        if (!(met >> k & 1) && name_atom_holds(s, &f->witness.v[k], name)) bits |= 1u << k;
    return bits;
}

/* Append the moves by a member with a name of `index` (a name or a class of names) and a value of
 * `set`. There is one move for each subset of `bits`, the witnesses that this member may
 * satisfy. */
static bool add_members(struct schema *s, struct moves *out, uint32_t index, uint32_t set,
                        struct state t, uint32_t bits)
{
    for (uint32_t some = bits;; some = (some - 1) & bits) {
        struct move one = {.tag = member_tag(index, some), .set = set};
        struct state to = t;
        to.met |= some;
        for (uint32_t k = 0; k < WITNESSES_MAX; k++)
            if (some >> k & 1) one.set = set_add(s, one.set, s->form.v[t.form].witness.v[k].lit);
        one.to = state_number(s, &to);
        if (!add_move(s, out, one)) return false;
        if (some == 0) return true;
    }
}

/* Return the number of members after another member. The number is clamped to the maximum or, if
 * there is no maximum, to the minimum, because further members do not change the conditions. */
static uint32_t step_count(const struct schema_form *f, uint32_t n)
{
    uint32_t max = f->max == NONE ? f->min : f->max;
    return n < max ? n + 1 : n;
}

/* Append the moves by a member. Names are in the order of `properties`, unless opt.any_order is
 * set. A required name cannot be skipped, and names outside of `properties` are last. */
static bool member_moves(struct schema *s, const struct state *from, struct moves *out)
{
    /* these are copies, because add_move may reallocate */
    const struct schema_form f = s->form.v[from->form];
    const struct form_plan p = s->plan.v[from->form];
    bool ok = true, all_required = true;
    struct state t = *from;
    if (f.max != NONE && from->n >= f.max) return true;
    t.n = step_count(&f, t.n);
    for (uint32_t i = from->next; ok && i < p.name.n; i++) {
        if (is_seen(from, i)) continue;
        struct state to = t;
        to.seen[i / 64] |= 1ull << (i % 64);
        to.next = s->opt.any_order ? 0 : i < p.n_ordered ? i + 1 : p.n_ordered;
        ok = add_members(s, out, i, p.name_set.v[i], to,
                         witnesses_of(s, &f, p.name.v[i], from->met));
        all_required = all_required && !p.name_required.v[i];
        if (!s->opt.any_order && p.name_required.v[i]) break;
    }
    if (!s->opt.any_order && !all_required) return ok;
    if (!s->opt.any_order) t.next = p.n_ordered;
    for (size_t k = 0; ok && k < p.other.n; k++)
        ok = add_members(s, out, (uint32_t)(NAMES_MAX + k), p.other.v[k].set, t,
                         p.other.v[k].witness & ~from->met);
    return ok;
}

/* Append the move by an item that is counted by the count_atoms in `bits`. An atom with a maximum
 * counts every item that satisfies it, so the item must not satisfy an atom without a bit. */
static bool add_item(struct schema *s, const struct state *from, const struct schema_form *f,
                     uint32_t set, uint32_t bits, struct moves *out)
{
    struct state t = *from;
    for (uint32_t k = 0; k < f->count.n; k++) {
        const struct count_atom *c = &f->count.v[k];
        bool here = from->n >= c->from;
        if (bits >> k & 1) {
            /* the item is before `from`, or exceeds the maximum */
            if (!here || t.seen[k] == c->max) return true;
            if (c->max == NONE && t.seen[k] >= c->min) return true; /* no more items are needed */
            t.seen[k]++;
            set = set_add(s, set, c->lit);
        } else if (here && c->max != NONE) {
            set = set_add(s, set, c->lit ^ 1);
        }
    }
    if (t.n < s->plan.v[t.form].n_item) t.n++;
    return add_move(s, out, (struct move){0, set, state_number(s, &t)});
}

/* Append the moves by an item: one move for each subset of the count_atoms. */
static bool item_moves(struct schema *s, const struct state *from, struct moves *out)
{
    const struct schema_form f = s->form.v[from->form];
    uint32_t set = SET_ANY;
    bool ok = true;
    if (f.max != NONE && from->n >= f.max) return true;
    for (size_t k = 0; k < f.item.n; k++)
        if (from->n >= f.item.v[k].from && from->n < f.item.v[k].to)
            set = set_add(s, set, f.item.v[k].lit);
    for (uint32_t bits = 0; ok && bits < 1u << f.count.n; bits++)
        ok = add_item(s, from, &f, set, bits, out);
    return ok;
}

bool state_moves(struct schema *s, uint32_t state, struct moves *out)
{
    const struct state from = s->state.v[state];
    const struct schema_form *f = &s->form.v[from.form];
    return f->is_object ? member_moves(s, &from, out) : item_moves(s, &from, out);
}

/* Return the tags of a name or class: an alternation over the subsets of its witnesses `bits`. */
static uint32_t all_tags(struct schema *s, uint32_t index, uint32_t bits)
{
    uint32_t e = EXPR_EMPTY;
    for (uint32_t some = bits;; some = (some - 1) & bits) {
        e = expr_or(&s->m.x, e, expr_tag(&s->m.x, member_tag(index, some)));
        if (some == 0) return e;
    }
}

uint32_t form_names(struct schema *s, uint32_t form, bool known_only)
{
    struct exprs *x = &s->m.x;
    const struct form_plan *p = &s->plan.v[form];
    const bool plain = known_only && s->opt.plain;
    uint32_t kept = plain ? p->plain_names : p->names;
    if (kept != NONE) return kept;
    uint32_t n = (uint32_t)(p->name.n + (plain ? 0 : p->other.n)), *v = malloc((n + 1) * sizeof *v);
    if (!v) return schema_no_memory(s), EXPR_EMPTY;
    for (uint32_t i = 0; i < n; i++) {
        bool known = i < p->name.n;
        const struct name_class *c = known ? NULL : &p->other.v[i - p->name.n];
        uint32_t name = known ? p->name.v[i] : 0,
                 index = known ? i : NAMES_MAX + i - (uint32_t)p->name.n;
        uint32_t bits = known ? witnesses_of(s, &s->form.v[form], name, 0) : c->witness;
        uint32_t lang = known ? expr_bytes(x, s->name.v[name], s->name_n.v[name]) : c->lang;
        if (plain) lang = expr_literal(x, lang);
        v[i] = expr_cat(x, lang, all_tags(s, index, bits));
    }
    uint32_t e = expr_or_list(x, v, n);
    free(v);
    if (plain) return s->plan.v[form].plain_names = e;
    return s->plan.v[form].names = expr_string(x, e);
}

uint32_t form_names_noted(struct schema *s, uint32_t form, bool top)
{
    struct exprs *x = &s->m.x;
    const struct form_plan *p = &s->plan.v[form];
    uint32_t kept = top ? p->top_names : p->names, n = (uint32_t)(p->name.n + p->other.n);
    if (kept != NONE) return kept;
    uint32_t *v = malloc((n + 1) * sizeof *v);
    if (!v) return schema_no_memory(s), EXPR_EMPTY;
    for (uint32_t i = 0; i < p->name.n; i++)
        v[i] = expr_cat(x, notation_name(s, p->name.v[i], top),
                        all_tags(s, i, witnesses_of(s, &s->form.v[form], p->name.v[i], 0)));
    for (uint32_t i = 0; i < p->other.n; i++) {
        const struct name_class *c = &p->other.v[i];
        v[p->name.n + i] =
            notation_class_name(s, c->lang, all_tags(s, NAMES_MAX + i, c->witness), top);
    }
    uint32_t e = expr_or_list(x, v, n);
    free(v);
    return *(top ? &s->plan.v[form].top_names : &s->plan.v[form].names) = e;
}

/* ---- which states and sets have a value ---- */

/* Return the number of members that are still possible, at most `enough`. */
static uint32_t possible_members(struct schema *s, const struct state *t, uint32_t enough)
{
    const struct form_plan p = s->plan.v[t->form];
    for (size_t k = 0; k < p.other.n; k++)
        if (set_sat(s, p.other.v[k].set)) return enough; /* members of a class are unlimited */
    uint32_t n = 0;
    for (uint32_t i = t->next; i < p.name.n && n < enough; i++)
        n += !is_seen(t, i) && set_sat(s, p.name_set.v[i]);
    return n;
}

/* Minimum number of members, in addition to required members, for each set of witnesses; NONE if no
 * members satisfy the set. */
struct cover {
    uint32_t n[1u << WITNESSES_MAX];
};

/* Lower the minimums of c by the use of a member with a value of `set`, which can satisfy any of
 * `bits`. The member is counted n times. again: true if several of these members are possible. */
static void cover_by(struct schema *s, struct cover *c, const struct schema_form *f, uint32_t set,
                     uint32_t bits, uint32_t n, bool again)
{
    const struct cover before = *c;
    for (uint32_t some = bits; some; some = (some - 1) & bits) {
        uint32_t all = set;
        for (uint32_t k = 0; k < WITNESSES_MAX; k++)
            if (some >> k & 1) all = set_add(s, all, f->witness.v[k].lit);
        if (!set_sat(s, all)) continue;
        for (uint32_t met = 0; met < 1u << WITNESSES_MAX; met++) {
            uint32_t from = again ? c->n[met] : before.n[met];
            if (from != NONE && from + n < c->n[met | some]) c->n[met | some] = from + n;
        }
    }
}

/* Return the minimum number of members, in addition to required members, that satisfy all remaining
 * witnesses; NONE if none. */
static uint32_t more_for_witnesses(struct schema *s, const struct state *t,
                                   const struct schema_form *f)
{
    const struct form_plan p = s->plan.v[t->form];
    const uint32_t left = ((1u << f->witness.n) - 1) & ~t->met;
    struct cover c = {0};
    if (left == 0) return 0;
    for (uint32_t i = 1; i < 1u << WITNESSES_MAX; i++) c.n[i] = NONE;
    for (uint32_t i = t->next; i < p.name.n; i++)
        if (!is_seen(t, i))
            cover_by(s, &c, f, p.name_set.v[i], witnesses_of(s, f, p.name.v[i], t->met),
                     p.name_required.v[i] ? 0 : 1, false);
    for (uint32_t round = 0; round < f->witness.n && c.n[left] != 0; round++)
        for (size_t k = 0; k < p.other.n; k++)
            cover_by(s, &c, f, p.other.v[k].set, p.other.v[k].witness & left, 1, true);
    return c.n[left];
}

/* Enter a level of recursion. The caller decrements s->depth afterwards if the result is true.
 * Return false at NESTED_MAX or at a limit of the work. */
static bool go_deeper(struct schema *s)
{
    if (!expr_spend(&s->m.x, 4)) return false;
    if (++s->depth <= NESTED_MAX) return true;
    s->depth--;
    return schema_fail(s, ERR_LIMIT, s->at, NULL, "values nested more than %d deep", NESTED_MAX);
}

/* Return true if the object can be completed. Each missing required member must have a value. Each
 * witness must have a member. The number of all members must not exceed the maximum. A required
 * member may be the witness of several conditions. */
static bool object_sat(struct schema *s, const struct state *t)
{
    const struct schema_form f = s->form.v[t->form];
    const struct form_plan p = s->plan.v[t->form];
    uint32_t n_due = 0;
    for (uint32_t i = 0; i < p.name.n; i++) {
        if (!p.name_required.v[i] || is_seen(t, i)) continue;
        if (i < t->next || !set_sat(s, p.name_set.v[i])) return false;
        n_due++;
    }
    uint32_t n_more = more_for_witnesses(s, t, &f);
    if (n_more == NONE) return false;
    if (f.max != NONE && (t->n > f.max || n_due + n_more > f.max - t->n)) return false;
    return t->n >= f.min || possible_members(s, t, f.min - t->n) >= f.min - t->n;
}

/* Return true if each missing item up to the minimum has a value. This condition suffices if there
 * is no count_atom. Items between two boundaries of atoms have equal conditions, so they need one
 * test. */
static bool items_sat(struct schema *s, const struct state *t, const struct schema_form *f)
{
    for (uint32_t i = t->n, border; i < f->min; i = border) {
        uint32_t set = SET_ANY;
        border = f->min;
        for (size_t k = 0; k < f->item.n; k++) {
            const struct items_atom a = f->item.v[k];
            if (i >= a.from && i < a.to) set = set_add(s, set, a.lit);
            if (a.from > i && a.from < border) border = a.from;
            if (a.to > i && a.to < border) border = a.to;
        }
        if (!expr_spend(&s->m.x, 4 + f->item.n / 8) || !set_sat(s, set)) return false;
    }
    return t->n <= f->max;
}

/* Return true if the array can be completed. Some move must lead to a value if there are
 * count_atoms. */
static bool array_sat(struct schema *s, uint32_t state)
{
    if (state_complete(s, state)) return true;
    const struct state t = s->state.v[state];
    const struct schema_form f = s->form.v[t.form];
    if (f.count.n == 0) return items_sat(s, &t, &f);
    struct moves moves = {0};
    bool ok = state_moves(s, state, &moves) && moves.n > 0;
    vec_deinit(&moves);
    return ok;
}

bool state_sat(struct schema *s, uint32_t state)
{
    if (!schema_ok(s)) return false;
    uint32_t known = s->state.v[state].sat;
    if (known == SAT_YES || known == SAT_NO) return known == SAT_YES;
    if (known == SAT_BUSY) return s->n_assumed++, false;
    uint32_t before = s->n_assumed;
    if (!go_deeper(s)) return false;
    s->state.v[state].sat = SAT_BUSY;
    const struct state t = s->state.v[state];
    bool yes = s->form.v[t.form].is_object ? object_sat(s, &t) : array_sat(s, state);
    s->state.v[state].sat = yes ? SAT_YES : s->n_assumed == before ? SAT_NO : SAT_UNKNOWN;
    s->depth--;
    return yes;
}

/* Return true if a form has a value. */
static bool form_sat(struct schema *s, uint32_t form)
{
    struct state t;
    memset(&t, 0, sizeof t); /* the padding is part of the key of state_of */
    t.form = form;
    uint32_t first = state_number(s, &t);
    return schema_ok(s) && state_sat(s, first);
}

/* Append the forms of a set for one type to s->form, with their plans. */
static bool keep_forms(struct schema *s, uint32_t set, unsigned type)
{
    struct forms f = {0};
    const struct lit_set *it = &s->set.v[set];
    s->at = it->n ? s->lit.v[it->first + it->n - 1] / 2 : 0;
    bool ok = forms_of_set(s, set, type, &f);
    for (size_t i = 0; i < f.n; i++) {
        if (!ok || !vec_reserve(&s->form, s->form.n + 1) ||
            !vec_push(&s->plan, ((struct form_plan){0}))) {
            if (ok) ok = schema_no_memory(s);
            form_deinit(&f.v[i]);
            continue;
        }
        vec_push(&s->form, f.v[i]);
        ok = plan_form(s, (uint32_t)s->form.n - 1, set == s->root_set);
    }
    vec_deinit(&f);
    return ok;
}

bool set_forms(struct schema *s, uint32_t set)
{
    if (s->set.v[set].has_forms) return schema_ok(s);
    if (!schema_ok(s)) return false;
    uint32_t first = (uint32_t)s->form.n, scalar = set_scalar(s, set);
    bool ok = schema_ok(s) && keep_forms(s, set, JT_LIST) && keep_forms(s, set, JT_OBJECT);
    struct lit_set *it = &s->set.v[set];
    it->has_forms = true;
    it->scalar = scalar;
    it->form = first, it->n_form = (uint32_t)s->form.n - first;
    return ok;
}

bool set_sat(struct schema *s, uint32_t set)
{
    if (!schema_ok(s)) return false;
    uint8_t known = s->set.v[set].sat;
    if (known == SAT_YES || known == SAT_NO) return known == SAT_YES;
    if (known == SAT_BUSY) return s->n_assumed++, false;
    uint32_t before = s->n_assumed;
    if (!go_deeper(s)) return false;
    s->set.v[set].sat = SAT_BUSY;
    bool yes = set_forms(s, set) && expr_alive(&s->m.x, s->set.v[set].scalar);
    for (uint32_t i = 0; !yes && schema_ok(s) && i < s->set.v[set].n_form; i++)
        yes = form_sat(s, s->set.v[set].form + i);
    s->set.v[set].sat = yes ? SAT_YES : s->n_assumed == before ? SAT_NO : SAT_UNKNOWN;
    s->depth--;
    return yes && schema_ok(s);
}
