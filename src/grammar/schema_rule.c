/* schema_rule.c - rules of the machine, made when a text first reaches them; opening and closing a
 * schema; see schema.h.
 *
 *   text    --> white space, value, white space
 *   value   --> scalar | [ items | { members
 *   items   --> ] | , value items
 *   members --> } | , "name" member
 *   member  --> : value members
 *
 * The first item or member has no comma. White space is omitted here. Each rule of items or members
 * belongs to a state (schema_plan.c). */
#include "schema.h"

#include <stdlib.h>
#include <string.h>

enum rule_kind { RULE_VALUE, RULE_ITEMS, RULE_MEMBERS, RULE_MEMBER, RULE_TEXT };
/* Rule of the machine. RULE_VALUE: a is a set. RULE_ITEMS, RULE_MEMBERS: a is a state, b is 1
 * before the first item or member. RULE_MEMBER, after a name: a is the state after the member, b is
 * the set of its value. RULE_TEXT: both are 0. */
struct rule {
    uint32_t kind, a,
        b; /* by kind: a set or a state; 1 before the first item or member, or a set of a value */
};

/* Return the number of a rule, a new one if it is unknown. After a failure it must not be used. */
static uint32_t rule_number(struct schema *s, enum rule_kind kind, uint32_t a, uint32_t b)
{
    struct rule key = {kind, a, b};
    const uint32_t *known = strmap_get(&s->rule_of, (const char *)&key, sizeof key);
    if (known) return *known;
    uint32_t i = (uint32_t)s->rule.n;
    const char *copy = arena_text(&s->arena, (const char *)&key, sizeof key);
    if (!copy || !vec_push(&s->rule, key) || !strmap_put(&s->rule_of, copy, sizeof key, i))
        schema_no_memory(s);
    return i;
}

uint32_t rule_value(struct schema *s, uint32_t set)
{
    return rule_number(s, RULE_VALUE, set, 0);
}

/* Return a punctuation character and the white space after it. */
static uint32_t punct(struct schema *s, const char *c)
{
    return expr_cat(&s->m.x, expr_bytes(&s->m.x, c, 1), s->ws);
}

/* Return the state before the first item or member of a form. */
static uint32_t first_state(struct schema *s, uint32_t form)
{
    struct state t;
    memset(&t, 0, sizeof t); /* its padding is in the key of state_of */
    t.form = form;
    return state_number(s, &t);
}

/* Add the alternatives of a value: the scalars of its set, and one for each form with a value. */
static bool expand_value(struct schema *s, uint32_t set, struct alts *out)
{
    bool ok = set_forms(s, set);
    if (ok && expr_alive(&s->m.x, s->set.v[set].scalar))
        ok = alts_begin(out) && alts_add(out, SYM_EXPR, s->set.v[set].scalar);
    for (uint32_t i = 0; ok && i < s->set.v[set].n_form; i++) {
        uint32_t form = s->set.v[set].form + i, first = first_state(s, form);
        bool object = s->form.v[form].is_object;
        if (!state_sat(s, first)) continue;
        uint32_t rest = rule_number(s, object ? RULE_MEMBERS : RULE_ITEMS, first, 1);
        ok = alts_begin(out) && alts_add(out, SYM_EXPR, punct(s, object ? "{" : "[")) &&
             alts_add(out, SYM_RULE, rest);
    }
    return ok && schema_ok(s);
}

/* Add the alternatives of the rest of an array: its end, and one for each move by an item. */
static bool expand_items(struct schema *s, uint32_t state, bool first, struct alts *out)
{
    struct moves m = {0};
    bool ok = state_moves(s, state, &m);
    if (ok && state_complete(s, state))
        ok = alts_begin(out) && alts_add(out, SYM_EXPR, expr_bytes(&s->m.x, "]", 1));
    for (size_t i = 0; ok && i < m.n; i++) {
        ok = alts_begin(out) && (first || alts_add(out, SYM_EXPR, punct(s, ","))) &&
             alts_add(out, SYM_RULE, rule_value(s, m.v[i].set)) && alts_add(out, SYM_EXPR, s->ws) &&
             alts_add(out, SYM_RULE, rule_number(s, RULE_ITEMS, m.v[i].to, 0));
    }
    vec_deinit(&m);
    return ok && schema_ok(s);
}

static int by_tag(const void *p, const void *q)
{
    const struct choice *a = p, *b = q;
    return (a->tag > b->tag) - (a->tag < b->tag);
}

/* Store the rule that follows each name of a state, sorted by tag, for schema_choose. */
static bool keep_choices(struct schema *s, uint32_t rule, const struct moves *m)
{
    struct choices c = {(uint32_t)s->choice.n, (uint32_t)m->n};
    bool ok = true;
    for (size_t i = 0; ok && i < m->n; i++)
        ok = vec_push(
            &s->choice,
            ((struct choice){m->v[i].tag, rule_number(s, RULE_MEMBER, m->v[i].to, m->v[i].set)}));
    while (ok && s->choices.n <= rule) ok = vec_push(&s->choices, ((struct choices){0}));
    if (!ok) return schema_no_memory(s);
    s->choices.v[rule] = c;
    if (c.n > 1) qsort(s->choice.v + c.first, c.n, sizeof *s->choice.v, by_tag);
    return schema_ok(s);
}

/* Return the rule after a name with this tag, NO_RULE if the state of `rule` does not allow it. */
uint32_t schema_choose(void *front, uint32_t rule, uint32_t tag)
{
    const struct schema *s = front;
    struct choices c = s->choices.v[rule];
    for (uint32_t lo = c.first, hi = c.first + c.n; lo < hi;) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (s->choice.v[mid].tag == tag) return s->choice.v[mid].rule;
        if (s->choice.v[mid].tag < tag)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NO_RULE;
}

/* Return true if every move is a member with a name of the form, none with another name. */
static bool known_only(const struct moves *m)
{
    bool known = true;
    for (size_t i = 0; i < m->n; i++) known = known && m->v[i].tag < member_tag(NAMES_MAX, 0);
    return known;
}

/* Add the alternatives of the rest of an object: its end, and all names of the form as one choice.
 * All states of a form share the expression of the names, and so its automaton. */
static bool expand_members(struct schema *s, uint32_t rule, uint32_t state, bool first,
                           struct alts *out)
{
    struct exprs *x = &s->m.x;
    struct moves m = {0};
    bool ok = state_moves(s, state, &m) && keep_choices(s, rule, &m);
    if (ok && state_complete(s, state))
        ok = alts_begin(out) && alts_add(out, SYM_EXPR, expr_bytes(x, "}", 1));
    if (ok && m.n > 0) {
        uint32_t quote = expr_bytes(x, "\"", 1),
                 head = first ? quote : expr_cat(x, punct(s, ","), quote);
        uint32_t names = form_names(s, s->state.v[state].form, known_only(&m));
        ok = alts_begin(out) && alts_add_choice(out, expr_cat(x, head, names), rule);
    }
    vec_deinit(&m);
    return ok && schema_ok(s);
}

/* Add the one alternative of a member after its name: colon, value, rest of the object. */
static bool expand_member(struct schema *s, uint32_t state, uint32_t set, struct alts *out)
{
    return alts_begin(out) && alts_add(out, SYM_EXPR, expr_cat(&s->m.x, s->ws, punct(s, ":"))) &&
           alts_add(out, SYM_RULE, rule_value(s, set)) && alts_add(out, SYM_EXPR, s->ws) &&
           alts_add(out, SYM_RULE, rule_number(s, RULE_MEMBERS, state, 0)) && schema_ok(s);
}

bool schema_expand(void *front, struct machine *m, uint32_t rule, struct alts *out)
{
    struct schema *s = front;
    const struct rule r = s->rule.v[rule];
    bool ok;
    switch ((enum rule_kind)r.kind) {
    case RULE_VALUE:
        ok = expand_value(s, r.a, out);
        break;
    case RULE_ITEMS:
        ok = expand_items(s, r.a, r.b, out);
        break;
    case RULE_MEMBERS:
        ok = expand_members(s, rule, r.a, r.b, out);
        break;
    case RULE_MEMBER:
        ok = expand_member(s, r.a, r.b, out);
        break;
    default: /* RULE_TEXT: a value between white space */
        ok = alts_begin(out) && alts_add(out, SYM_EXPR, s->ws) &&
             alts_add(out, SYM_RULE, rule_value(s, s->root_set)) && alts_add(out, SYM_EXPR, s->ws);
    }
    bool limit = s->rc != 0 && s->rc != ERR_MEMORY; /* rc 0: no memory for `out` */
    if (!ok && !m->x.failed) expr_fail(&m->x, limit ? EXPR_TOO_DEEP : EXPR_NO_MEMORY);
    return ok;
}

/* ---- opening and closing a schema ---- */

/* Return the white space that is allowed between tokens: up to two spaces, or one or two line ends
 * and an indentation. It is bounded, so that a model cannot repeat blanks without end. `plain` is
 * for generated text, and bounds the indentation more tightly. */
static uint32_t white_space(struct exprs *x, bool plain)
{
    uint32_t blank = expr_or(x, expr_range(x, ' ', ' '), expr_range(x, '\t', '\t'));
    uint32_t line =
        expr_cat(x, expr_rep(x, expr_range(x, '\r', '\r'), 0, 1), expr_range(x, '\n', '\n'));
    uint32_t lines = expr_cat(x, expr_rep(x, line, 1, 2), expr_rep(x, blank, 0, plain ? 32 : 200));
    return expr_or(x, expr_rep(x, expr_range(x, ' ', ' '), 0, 2), lines);
}

/* Check every keyword of every subschema, so that schema_open rejects what cannot be enforced.
 * Subschemas are checked until there are 5000 sets. */
static bool check_all(struct schema *s)
{
    uint32_t root = s->sub.n > 1 ? 1 : sub_of(s, s->root, 0, NULL);
    s->root_set = set_add(s, SET_ANY, lit_of(root, false));
    if (!set_sat(s, s->root_set)) {
        if (schema_ok(s)) schema_fail(s, ERR_FORMAT, root, NULL, "no value is valid");
        return false;
    }
    for (uint32_t i = 0; i < s->sub.n && schema_ok(s) && s->set.n < 5000;
         i++) /* set_sat may append subschemas */
        if (!s->sub.v[i].is_const) set_sat(s, set_add(s, SET_ANY, lit_of(i, false)));
    return schema_ok(s);
}

/* Return the error code of the schema if it has one, its text in *s->e. Otherwise set *s->e by the
 * failure of the expressions. Exhausted memory of the expressions takes precedence. */
static int failure(struct schema *s)
{
    struct err why;
    int rc = exprs_error(&s->m.x, &why);
    const char *at = s->sub.n > 0 ? s->sub.v[s->at].path : NULL;
    bool later = s->rc != 0 && rc != ERR_MEMORY;
    return later ? s->rc : err_set(s->e, rc, "schema, #%s: %s", at ? at : "", why.text);
}

/* Store the text of a number that is no int64 (json_limits.number), because decimals are exact. */
static bool note_number(void *arg, const struct json *j, const char *text, size_t n)
{
    struct schema *s = arg;
    const char *copy = arena_text(&s->arena, text, n),
               *key = arena_text(&s->arena, (const char *)&j, sizeof j);
    return copy && key && vec_push(&s->number, copy) &&
           strmap_put(&s->number_of, key, sizeof j, (uint32_t)s->number.n - 1);
}

int schema_open(struct schema *s, const char *text, size_t n, const struct schema_options *opt,
                struct expr_limits x, struct machine_limits limits, struct err *e)
{
    *s = (struct schema){.opt = *opt, .e = e};
    s->arena.n_byte_max = x.n_byte_max;
    int rc =
        json_parse(&s->root, text, n, &(struct json_limits){.number = note_number, .arg = s}, e);
    if (rc) return schema_close(s), rc;
    bool ok = machine_open(&s->m, x, limits, schema_expand, s) &&
              vec_push(&s->set, ((struct lit_set){0}));
    if (!ok) schema_no_memory(s);
    s->m.choose = schema_choose;
    if (ok) s->ws = opt->no_white_space ? EXPR_EPSILON : white_space(&s->m.x, opt->plain);
    ok = ok && schema_read(s);
    s->scientific = ok && !schema_needs_multiples(s);
    ok = ok && check_all(s);
    if (ok) rule_number(s, RULE_TEXT, 0, 0);
    rc = ok && schema_ok(s) ? 0 : failure(s);
    s->e = NULL;
    if (rc) schema_close(s);
    return rc;
}

uint32_t schema_root(const struct schema *s)
{
    const struct rule key = {RULE_TEXT, 0, 0};
    const uint32_t *known = strmap_get(&s->rule_of, (const char *)&key, sizeof key);
    return known ? *known : 0;
}

void schema_close(struct schema *s)
{
    machine_close(&s->m);
    for (size_t i = 0; i < s->form.n; i++) form_free(&s->form.v[i]);
    for (size_t i = 0; i < s->plan.n; i++) {
        vec_deinit(&s->plan.v[i].name);
        vec_deinit(&s->plan.v[i].name_set);
        vec_deinit(&s->plan.v[i].name_required);
        vec_deinit(&s->plan.v[i].other);
    }
    vec_deinit(&s->sub);
    vec_deinit(&s->resource);
    vec_deinit(&s->name);
    vec_deinit(&s->name_n);
    vec_deinit(&s->lit);
    vec_deinit(&s->set);
    vec_deinit(&s->rule);
    vec_deinit(&s->choices);
    vec_deinit(&s->choice);
    vec_deinit(&s->form);
    vec_deinit(&s->plan);
    vec_deinit(&s->state);
    vec_deinit(&s->number);
    strmap_deinit(&s->number_of);
    strmap_deinit(&s->sub_of);
    strmap_deinit(&s->anchor);
    strmap_deinit(&s->name_of);
    strmap_deinit(&s->set_of);
    strmap_deinit(&s->rule_of);
    strmap_deinit(&s->state_of);
    arena_deinit(&s->arena);
    json_drop(s->root);
    *s = (struct schema){0};
}
