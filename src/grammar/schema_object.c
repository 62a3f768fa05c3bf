/* schema_object.c - the keywords of objects, as forms; see schema_form.c.
 *
 * A condition on all members of some names is a name_atom in form.member. A condition that some
 * member must satisfy is a name_atom in form.witness. */
#include "regex.h"
#include "schema_work.h"

#include <stdlib.h>
#include <string.h>

/* Append a form: the member `name` satisfies lit if it is present. required: the member must be
 * present. */
static bool add_member(struct schema *s, struct forms *out, bool required, uint32_t name,
                       uint32_t lit)
{
    struct schema_form f = form_any(JT_OBJECT);
    bool ok = !required || vec_push(&f.required, name);
    if (lit != LIT_TRUE)
        ok = ok && vec_push(&f.member, ((struct name_atom){name, NONE, lit, NULL}));
    return forms_add(s, out, f, ok);
}

/* Take the condition that all members with a name in lang satisfy lit, except the keys of `except`
 * (NULL if none). Take the condition that at least one of these members satisfies lit if `witness`
 * is true. */
static bool take_members(struct schema_work *w, bool witness, uint32_t lang,
                         const struct json *except, uint32_t lit)
{
    struct schema_form f = form_any(JT_OBJECT);
    struct name_atom a = {NONE, lang, lit, except};
    if (!witness) f.evaluated = lang; /* other keywords evaluate the keys of `except` */
    return work_take_form(w, f, witness ? vec_push(&f.witness, a) : vec_push(&f.member, a));
}

/* Take the condition that no member has a name in lang, except the keys of `except`. The negation
 * is that some member has a name in lang. */
static bool take_no_members(struct schema_work *w, uint32_t lang, const struct json *except)
{
    return take_members(w, w->negated, lang, except, w->negated ? LIT_TRUE : LIT_FALSE);
}

/* Return the names that contain a match of a pattern of patternProperties. */
static uint32_t lang_pattern_names(struct schema *s, uint32_t sub, const char *pattern, size_t n)
{
    struct regex_langs l;
    struct err e = {0};
    int rc = regex_parse(&s->m.x, pattern, n, REGEX_ECMA, &l, &e);
    if (rc) return schema_fail(s, rc, sub, "patternProperties", "%.200s", e.text), EXPR_EMPTY;
    return l.found;
}

/* Return the names that match no pattern of patternProperties. */
static uint32_t without_pattern(struct schema *s, uint32_t sub)
{
    struct exprs *x = &s->m.x;
    const struct json *q = sub_field(s, sub, "patternProperties");
    VEC(uint32_t) v = {0};
    bool ok = true;
    size_t n;
    for (void *it = json_first(q); ok && it; it = json_next(q, it)) {
        const char *key = json_it_key(it, &n);
        ok = vec_push(&v, lang_pattern_names(s, sub, key, n));
    }
    uint32_t e = ok ? expr_or_list(x, v.v, v.n) : (schema_no_memory(s), EXPR_EMPTY);
    vec_deinit(&v);
    uint32_t all = lang_universe(s, JT_TEXT);
    return e == EXPR_EMPTY ? all : expr_and(x, all, expr_not(x, e));
}

/* Return true if a name is required and has a schema in `properties` that is not `true`. The
 * negations of the two conditions are then one form, because an absent member is also invalid. */
static bool is_due(const struct schema *s, uint32_t sub, const char *name, size_t n)
{
    const struct json *list = sub_field(s, sub, "required"),
                      *j = json_field_n(sub_field(s, sub, "properties"), name, n);
    bool found = false;
    for (size_t i = 0; i < json_count(list) && i < NAMES_MAX && !found; i++) {
        size_t n_one;
        const char *one = json_text(json_item(list, i), &n_one);
        found = one && n_one == n && memcmp(one, name, n) == 0;
    }
    return found && j && !json_bool(j, false);
}

/* Take required. The keyword was a boolean of members in older drafts, so any other type has no
 * effect in draft 4. */
static bool required(struct schema_work *w)
{
    const struct json *list = sub_field(w->s, w->sub, "required");
    size_t n;
    bool ok = true;
    if (list && json_kind(list) != JK_LIST)
        return w->s->draft == DRAFT_4 ||
               schema_fail(w->s, ERR_FORMAT, w->sub, "required", "expected a list, got %s",
                           json_kind_name(json_kind(list)));
    if (json_count(list) > NAMES_MAX)
        return schema_fail(w->s, ERR_LIMIT, w->sub, "required",
                           "must have at most %d names, got %zu", NAMES_MAX, json_count(list));
    for (size_t i = 0; ok && i < json_count(list); i++) {
        const char *name = json_text(json_item(list, i), &n);
        struct forms f = {0};
        if (!name)
            return schema_fail(w->s, ERR_FORMAT, w->sub, "required",
                               "[%zu]: expected a string, got %s", i,
                               json_kind_name(json_kind(json_item(list, i))));
        uint32_t k = name_number(w->s, name, n);
        /* skip it, because properties() adds this form */
        if (w->negated && is_due(w->s, w->sub, name, n)) continue;
        ok = w->negated ? add_member(w->s, &f, false, k, LIT_FALSE)
                        : add_member(w->s, &f, true, k, LIT_TRUE);
        ok = work_take(w, &f, ok);
    }
    return ok;
}

/* Take properties: one form with all names. The negation has a form for each name. */
static bool properties(struct schema_work *w)
{
    struct schema *s = w->s;
    const struct json *p = sub_field(s, w->sub, "properties");
    bool ok = true;
    size_t n;
    struct schema_form all = form_any(JT_OBJECT);
    if (json_count(p) > NAMES_MAX)
        return schema_fail(s, ERR_LIMIT, w->sub, "properties",
                           "must have at most %d names, got %zu", NAMES_MAX, json_count(p));
    for (void *it = json_first(p); ok && it; it = json_next(p, it)) {
        const char *key = json_it_key(it, &n);
        uint32_t name = name_number(s, key, n),
                 lit = lit_of(sub_of(s, json_it_value(it), w->sub, "properties"), w->negated);
        struct forms f = {0};
        if (w->negated) {
            ok = lit == LIT_FALSE || add_member(s, &f, !is_due(s, w->sub, key, n), name, lit);
            ok = work_take(w, &f, ok);
        } else { /* keep an atom of LIT_TRUE, because the atoms define the order of names */
            ok = vec_push(&all.member, ((struct name_atom){name, NONE, lit, NULL}));
            all.evaluated = expr_or(&s->m.x, all.evaluated, expr_bytes(&s->m.x, key, n));
        }
    }
    if (!w->negated) return work_take_form(w, all, ok);
    form_deinit(&all);
    return ok;
}

/* Take patternProperties and additionalProperties. An absent additionalProperties is `false` if
 * opt.no_additional is set and `properties` is present. */
static bool more_members(struct schema_work *w)
{
    struct schema *s = w->s;
    const struct json *p = sub_field(s, w->sub, "patternProperties"),
                      *rest = sub_field(s, w->sub, "additionalProperties"),
                      *known = sub_field(s, w->sub, "properties");
    bool ok = true, none = s->opt.no_additional && !rest && known;
    size_t n;
    for (void *it = json_first(p); ok && it; it = json_next(p, it)) {
        const char *key = json_it_key(it, &n);
        uint32_t lang = lang_pattern_names(s, w->sub, key, n),
                 sub = sub_of(s, json_it_value(it), w->sub, "patternProperties");
        ok = take_members(w, w->negated, lang, NULL, lit_of(sub, w->negated));
    }
    if (!ok || (!rest && !none)) return ok;
    uint32_t others = without_pattern(s, w->sub);
    if (none) return take_no_members(w, others, known);
    uint32_t sub = sub_of(s, rest, w->sub, "additionalProperties");
    return take_members(w, w->negated, others, known, lit_of(sub, w->negated));
}

/* Take propertyNames, the condition that all members have valid names. */
static bool property_names(struct schema_work *w)
{
    struct schema *s = w->s;
    const struct json *j = s->draft >= DRAFT_6 ? sub_field(s, w->sub, "propertyNames") : NULL;
    if (!j) return true;
    uint32_t bad = lang_names(s, sub_of(s, j, w->sub, "propertyNames"), true);
    struct schema_form f = form_any(JT_OBJECT);
    struct name_atom a = {NONE, bad, w->negated ? LIT_TRUE : LIT_FALSE, NULL};
    return work_take_form(w, f, w->negated ? vec_push(&f.witness, a) : vec_push(&f.member, a));
}

/* Take a dependency: the condition `on` is true if the member `name` is present. `on` is a list of
 * required names, or a schema of the object. key: name of the keyword. */
static bool depends(struct schema_work *w, const char *key, const char *name, size_t n,
                    const struct json *on)
{
    struct schema *s = w->s;
    struct forms f = {0};
    uint32_t k = name_number(s, name, n);
    bool ok = true;
    size_t m;
    if (json_kind(on) == JK_LIST) {
        if (!w->negated) {
            struct schema_form all = form_any(JT_OBJECT);
            ok = vec_push(&all.required, k);
            for (size_t i = 0; ok && i < json_count(on); i++) {
                const char *t = json_text(json_item(on, i), &m);
                ok = t && vec_push(&all.required, name_number(s, t, m));
            }
            ok = forms_add(s, &f, all, ok) && add_member(s, &f, false, k, LIT_FALSE);
        }
        for (size_t i = 0; w->negated && ok && i < json_count(on); i++) {
            const char *t = json_text(json_item(on, i), &m);
            struct schema_form one = form_any(JT_OBJECT);
            ok = t && vec_push(&one.required, k) &&
                 vec_push(&one.member,
                          ((struct name_atom){name_number(s, t, m), NONE, LIT_FALSE, NULL}));
            ok = forms_add(s, &f, one, ok);
        }
        return work_take(w, &f, ok);
    }
    ok = add_member(s, &f, true, k, LIT_TRUE) &&
         forms_and_lit(s, &f, lit_of(sub_of(s, on, w->sub, key), w->negated), JT_OBJECT);
    if (ok && !w->negated) ok = add_member(s, &f, false, k, LIT_FALSE);
    return work_take(w, &f, ok);
}

static bool dependencies(struct schema_work *w)
{
    static const char *const key[] = {"dependencies", "dependentRequired", "dependentSchemas"};
    bool ok = true;
    size_t n;
    for (int i = 0; i < 3; i++) {
        const struct json *d = sub_field(w->s, w->sub, key[i]);
        if (i > 0 && w->s->draft < DRAFT_2019) break;
        for (void *it = json_first(d); ok && it; it = json_next(d, it)) {
            const char *name = json_it_key(it, &n);
            const struct json *on = json_it_value(it);
            /* draft 3 has a single name instead of a list */
            if (json_kind(on) == JK_TEXT)
                return schema_fail(w->s, ERR_UNSUPPORTED, w->sub, key[i],
                                   "expected lists or schemas, got a string");
            ok = depends(w, key[i], name, n, on);
        }
    }
    return ok;
}

bool object_keywords(struct schema_work *w)
{
    return work_bounds(w, "minProperties", "maxProperties") && properties(w) && required(w) &&
           more_members(w) && property_names(w) && dependencies(w);
}

/* ---- a value ---- */

/* Take the condition that an object has exactly the members of v. */
bool object_const(struct schema_work *w, const struct json *v)
{
    struct schema *s = w->s;
    bool ok = true;
    size_t n;
    for (void *it = json_first(v); ok && it; it = json_next(v, it)) {
        const char *key = json_it_key(it, &n);
        uint32_t name = name_number(s, key, n), sub = sub_const(s, json_it_value(it), w->sub);
        struct forms f = {0};
        ok = add_member(s, &f, true, name, lit_of(sub, w->negated)) &&
             (!w->negated || add_member(s, &f, false, name, LIT_FALSE));
        ok = work_take(w, &f, ok);
    }
    return ok && take_no_members(w, lang_universe(s, JT_TEXT), v);
}
