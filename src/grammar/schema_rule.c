/* schema_rule.c - rules of the machine, made at a text's first visit, and opening and closing of a
 * schema; see schema.h.
 *
 *   text    --> white space, value, white space
 *   value   --> scalar | [ items | { members
 *   items   --> ] | , value items
 *   members --> } | , "name" member
 *   member  --> : value members
 *
 * The first item or member has no comma. The rules above omit white space. Each rule of items or
 * members belongs to a state (schema_plan.c). */
#include "regex.h"
#include "schema.h"

#include <stdlib.h>
#include <string.h>

enum rule_kind {
    RULE_VALUE,
    RULE_ITEMS,
    RULE_MEMBERS,
    RULE_MEMBER,
    RULE_TEXT,
    RULE_ARGUMENTS,
    RULE_ARGUMENT
};
/* Rule of the machine. RULE_VALUE: a is a set. RULE_ITEMS, RULE_MEMBERS: a is a state; b is 1
 * before the first item or member, and 0 afterwards. RULE_MEMBER, after a name: a is the state
 * after the member, and b is the set of the member's value. RULE_TEXT: a and b are 0.
 * RULE_ARGUMENTS and RULE_ARGUMENT are RULE_MEMBERS and RULE_MEMBER of an outermost object without
 * braces. */
struct rule {
    uint32_t kind, a,
        /* a: a set or state, by `kind`. b: 1 before the first item or member, or the set of a
         * value. */
        b;
};

/* Return the number of a rule. Add the rule if it is new. The number must not be used after a
 * failure. */
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
    memset(&t, 0, sizeof t); /* the padding is part of the key of state_of */
    t.form = form;
    return state_number(s, &t);
}

/* Add the alternatives of a value: one for the scalars of its set, and one for each form with a
 * value. */
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

/* Add the alternatives of the remaining array: its end, and one alternative for each move by an
 * item. */
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
    const struct tag_rule *a = p, *b = q;
    return (a->tag > b->tag) - (a->tag < b->tag);
}

/* Store the rule that follows each name of a state, sorted by tag, for schema_choose. kind: kind of
 * these rules. */
static bool keep_choices(struct schema *s, uint32_t rule, enum rule_kind kind,
                         const struct moves *m)
{
    struct choices c = {(uint32_t)s->choice.n, (uint32_t)m->n};
    bool ok = true;
    for (size_t i = 0; ok && i < m->n; i++)
        ok = vec_push(&s->choice, ((struct tag_rule){
                                      m->v[i].tag, rule_number(s, kind, m->v[i].to, m->v[i].set)}));
    while (ok && s->choices.n <= rule) ok = vec_push(&s->choices, ((struct choices){0}));
    if (!ok) return schema_no_memory(s);
    s->choices.v[rule] = c;
    if (c.n > 1) qsort(s->choice.v + c.first, c.n, sizeof *s->choice.v, by_tag);
    return schema_ok(s);
}

/* Return the rule after a name with this tag; NO_RULE if the state of `rule` does not allow the
 * tag. */
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

/* Return true if every move is a member with a name of the form. */
static bool known_only(const struct moves *m)
{
    bool known = true;
    for (size_t i = 0; i < m->n; i++) known = known && m->v[i].tag < member_tag(NAMES_MAX, 0);
    return known;
}

/* Add the alternatives of the remaining object: its end, and all names of the form as one choice.
 * All states of a form share the expression of the names and its automaton. */
static bool expand_members(struct schema *s, uint32_t rule, uint32_t state, bool first,
                           struct alts *out)
{
    struct exprs *x = &s->m.x;
    struct moves m = {0};
    bool ok = state_moves(s, state, &m) && keep_choices(s, rule, RULE_MEMBER, &m);
    if (ok && state_complete(s, state))
        ok = alts_begin(out) && alts_add(out, SYM_EXPR, expr_bytes(x, "}", 1));
    if (ok && m.n > 0 && notation_names_arguments(s)) {
        uint32_t names = form_names_noted(s, s->state.v[state].form, false),
                 head = first ? EXPR_EPSILON : punct(s, ",");
        ok = alts_begin(out) && alts_add_choice(out, expr_cat(x, head, names), rule);
    } else if (ok && m.n > 0) {
        uint32_t quote = expr_bytes(x, "\"", 1),
                 head = first ? quote : expr_cat(x, punct(s, ","), quote);
        uint32_t names = form_names(s, s->state.v[state].form, known_only(&m));
        ok = alts_begin(out) && alts_add_choice(out, expr_cat(x, head, names), rule);
    }
    vec_deinit(&m);
    return ok && schema_ok(s);
}

/* Add the only alternative of a member after its name: colon, value, remaining object. */
static bool expand_member(struct schema *s, uint32_t state, uint32_t set, struct alts *out)
{
    uint32_t colon = s->opt.notation == NOTATION_BARE ? EXPR_EPSILON /* a part of the name */
                                                      : expr_cat(&s->m.x, s->ws, punct(s, ":"));
    return alts_begin(out) && alts_add(out, SYM_EXPR, colon) &&
           alts_add(out, SYM_RULE, rule_value(s, set)) && alts_add(out, SYM_EXPR, s->ws) &&
           alts_add(out, SYM_RULE, rule_number(s, RULE_MEMBERS, state, 0)) && schema_ok(s);
}

/* ---- arguments without braces ---- */

/* Add the alternatives of the remaining arguments: none, and all names of the form as one
 * choice. */
static bool expand_arguments(struct schema *s, uint32_t rule, uint32_t state, bool first,
                             struct alts *out)
{
    struct moves m = {0};
    bool ok = state_moves(s, state, &m) && keep_choices(s, rule, RULE_ARGUMENT, &m);
    if (ok && state_complete(s, state))
        ok = alts_begin(out) && alts_add(out, SYM_EXPR, EXPR_EPSILON);
    if (ok && m.n > 0) {
        uint32_t names = form_names_noted(s, s->state.v[state].form, true),
                 head = first ? EXPR_EPSILON : punct(s, ",");
        ok = alts_begin(out) && alts_add_choice(out, expr_cat(&s->m.x, head, names), rule);
    }
    vec_deinit(&m);
    return ok && schema_ok(s);
}

/* Add the only alternative of an argument after its name: value, remaining arguments. */
static bool expand_argument(struct schema *s, uint32_t state, uint32_t set, struct alts *out)
{
    return alts_begin(out) && alts_add(out, SYM_RULE, rule_value(s, set)) &&
           alts_add(out, SYM_RULE, rule_number(s, RULE_ARGUMENTS, state, 0)) && schema_ok(s);
}

/* Add the alternatives of a text of arguments: the objects of the root set. out NULL: add nothing.
 * Return false after a failure, or if the set has no object. */
static bool expand_call(struct schema *s, struct alts *out)
{
    bool ok = set_forms(s, s->root_set), any = false;
    for (uint32_t i = 0; ok && i < s->set.v[s->root_set].n_form; i++) {
        uint32_t form = s->set.v[s->root_set].form + i, first = first_state(s, form);
        if (!s->form.v[form].is_object || !state_sat(s, first)) continue;
        any = true;
        ok = !out ||
             (alts_begin(out) && alts_add(out, SYM_RULE, rule_number(s, RULE_ARGUMENTS, first, 1)));
    }
    return ok && any && schema_ok(s);
}

bool schema_expand(void *front, struct machine *m, uint32_t rule, struct alts *out)
{
    struct schema *s = front;
    const struct rule r = s->rule.v[rule];
    uint32_t ends = s->opt.white_space ? EXPR_EPSILON : s->ws; /* before and after the text */
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
    case RULE_ARGUMENTS:
        ok = expand_arguments(s, rule, r.a, r.b, out);
        break;
    case RULE_ARGUMENT:
        ok = expand_argument(s, r.a, r.b, out);
        break;
    default: /* RULE_TEXT is a value between white space */
        ok = notation_names_arguments(s)
                 ? expand_call(s, out)
                 : alts_begin(out) && alts_add(out, SYM_EXPR, ends) &&
                       alts_add(out, SYM_RULE, rule_value(s, s->root_set)) &&
                       alts_add(out, SYM_EXPR, ends);
    }
    /* rc is 0 if only the memory for `out` is exhausted */
    bool limit = s->rc != 0 && s->rc != ERR_MEMORY;
    if (!ok && !m->x.failed) expr_fail(&m->x, limit ? EXPR_TOO_DEEP : EXPR_NO_MEMORY);
    return ok;
}

/* ---- opening and closing a schema ---- */

/* Return the white space that is allowed between tokens: up to two spaces, or one or two line ends
 * and an indentation. White space is bounded, so that a model cannot repeat blanks without end.
 * `plain` is for generated text, and has a lower bound of the indentation. */
static uint32_t white_space(struct exprs *x, bool plain)
{
    uint32_t blank = expr_or(x, expr_range(x, ' ', ' '), expr_range(x, '\t', '\t'));
    uint32_t line =
        expr_cat(x, expr_rep(x, expr_range(x, '\r', '\r'), 0, 1), expr_range(x, '\n', '\n'));
    uint32_t lines = expr_cat(x, expr_rep(x, line, 1, 2), expr_rep(x, blank, 0, plain ? 32 : 200));
    return expr_or(x, expr_rep(x, expr_range(x, ' ', ' '), 0, 2), lines);
}

/* Set s->ws to the white space of JSON that opt.white_space matches. Generated text (opt.plain) has
 * at most BLANK_MAX bytes of white space at a place, so that a model cannot repeat blanks without
 * end. */
static bool given_white_space(struct schema *s, struct err *e)
{
    enum { BLANK_MAX = 64 };
    struct exprs *x = &s->m.x;
    const char *pattern = s->opt.white_space;
    struct regex_langs l;
    struct byteset blank = {{0}};
    struct err why;
    for (const char *c = " \t\r\n"; *c; c++) byteset_add(&blank, (uint8_t)*c);
    int rc = regex_parse(x, pattern, strlen(pattern), REGEX_ECMA, &l, &why);
    if (rc) return s->rc = err_set(e, rc, "white space: %s", why.text), false;
    uint32_t all = expr_rep(x, expr_set(x, &blank), 0, s->opt.plain ? BLANK_MAX : EXPR_INF);
    s->ws = expr_and(x, l.whole, all);
    if (expr_alive(x, s->ws)) return true;
    s->rc = err_set(e, ERR_FORMAT,
                    "white space: the expression must match a run of at most %d blanks, tabs or "
                    "line ends",
                    BLANK_MAX);
    return false;
}

/* Set s->ws to the white space between two tokens. */
static bool set_white_space(struct schema *s, struct err *e)
{
    const struct schema_options *o = &s->opt;
    bool json = o->notation == NOTATION_JSON, tight = o->no_white_space;
    if (o->white_space && json && !tight) return given_white_space(s, e);
    tight |= o->notation == NOTATION_BARE;
    s->ws = tight ? EXPR_EPSILON : white_space(&s->m.x, o->plain);
    return true;
}

/* Check every keyword of every subschema, so that schema_open rejects keywords that cannot be
 * enforced. The check ends after 5000 sets. */
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

/* Return the error code of the schema if it has failed; *s->e has the text. Otherwise return the
 * error code of the expressions and set *s->e. Exhausted memory of the expressions takes
 * precedence. */
static int failure(struct schema *s)
{
    struct err why;
    int rc = exprs_error(&s->m.x, &why);
    const char *at = s->sub.n > 0 ? s->sub.v[s->at].path : NULL;
    bool later = s->rc != 0 && rc != ERR_MEMORY;
    return later ? s->rc : err_set(s->e, rc, "schema, #%s: %s", at ? at : "", why.text);
}

/* Store the text of a number that is not an int64 (json_limits.number), because decimals must be
 * exact. */
static bool note_number(void *arg, const struct json *j, const char *text, size_t n)
{
    struct schema *s = arg;
    const char *copy = arena_text(&s->arena, text, n),
               *key = arena_text(&s->arena, (const char *)&j, sizeof j);
    return copy && key && vec_push(&s->number, copy) &&
           strmap_put(&s->number_of, key, sizeof j, (uint32_t)s->number.n - 1);
}

/* Replace a borrowed text of the options by a copy, because rules are made later. */
static bool keep_text(struct schema *s, const char **text)
{
    const char *copy = *text ? arena_text(&s->arena, *text, strlen(*text)) : NULL;
    bool ok = copy || !*text;
    *text = copy;
    return ok;
}

int schema_open(struct schema *s, const char *text, size_t n, const struct schema_options *opt,
                struct expr_limits x, struct machine_limits limits, struct err *e)
{
    *s = (struct schema){.opt = *opt, .e = e};
    s->arena.bytes_max = x.bytes_max;
    struct json_limits json = {.unique = true, .number = note_number, .arg = s};
    int rc = json_parse(&s->root, text, n, &json, e);
    if (rc) return schema_close(s), rc;
    bool ok = machine_open(&s->m, x, limits, schema_expand, s) &&
              vec_push(&s->set, ((struct lit_set){0})) && keep_text(s, &s->opt.quote) &&
              keep_text(s, &s->opt.without) && keep_text(s, &s->opt.white_space);
    if (!ok) schema_no_memory(s);
    s->m.choose = schema_choose;
    ok = ok && set_white_space(s, e) && schema_read(s);
    s->scientific = ok && !schema_needs_multiples(s);
    ok = ok && check_all(s);
    if (ok && notation_names_arguments(s) && !expand_call(s, NULL))
        ok = schema_ok(s) && schema_fail(s, ERR_FORMAT, 0, NULL, "no object is valid");
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
    for (size_t i = 0; i < s->form.n; i++) form_deinit(&s->form.v[i]);
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
