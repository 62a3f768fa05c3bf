/* schema_logic.c - keywords of every type, as forms of arrays or objects; see schema_form.c.
 *
 * unevaluatedItems and unevaluatedProperties depend on the set of valid subschemas. Therefore anyOf
 * is split by the set of its valid subschemas below these keywords (s->exact > 0). The forms of one
 * set require that all other subschemas are not valid. */
#include "schema_work.h"

#include <string.h>

/* ANY_OF_EXACT_MAX: maximum number of subschemas of an anyOf below an unevaluated keyword. n
 * subschemas make 2^n - 1 sets. */
enum { ANY_OF_EXACT_MAX = 6 };

/* ---- keywords of every type ---- */

/* Append the forms of the condition that at least one literal of a list is true. */
static bool sum_of(struct schema *s, const struct json *list, uint32_t sub, const char *key,
                   bool negated, unsigned type, struct forms *out)
{
    bool ok = true;
    for (size_t i = 0; ok && i < json_count(list); i++)
        ok = forms_of_lit(s, lit_of(sub_of(s, json_item(list, i), sub, key), negated), type, out);
    return ok;
}

/* Append the forms of the condition that all literals of a list are true. */
static bool product_of(struct schema *s, const struct json *list, uint32_t sub, const char *key,
                       bool negated, unsigned type, struct forms *out)
{
    bool ok = forms_true(s, out, type);
    for (size_t i = 0; ok && i < json_count(list); i++)
        ok = forms_and_lit(s, out, lit_of(sub_of(s, json_item(list, i), sub, key), negated), type);
    return ok;
}

/* Append the forms of the condition that the valid subschemas of `list` are exactly those with a
 * set bit. The positive literals are multiplied first, because they imply most of the negative
 * literals. */
static bool add_subset(struct schema *s, const struct json *list, uint32_t sub, const char *key,
                       uint32_t bits, unsigned type, struct forms *out)
{
    struct forms f = {0};
    bool ok = forms_true(s, &f, type);
    for (uint32_t negated = 0; negated < 2; negated++)
        for (size_t i = 0; ok && i < json_count(list); i++) {
            if ((bits >> i & 1) == negated) continue;
            uint32_t one = sub_of(s, json_item(list, i), sub, key);
            ok = forms_and_lit(s, &f, lit_of(one, negated), type);
        }
    return forms_sum(s, out, &f) && ok;
}

/* Take anyOf: the sum of its subschemas, or the product of their negations. */
static bool any_of(struct schema_work *w)
{
    struct schema *s = w->s;
    const struct json *list = sub_field(s, w->sub, "anyOf");
    struct forms f = {0};
    bool ok = true;
    if (!list) return true;
    if (w->negated) {
        ok = product_of(s, list, w->sub, "anyOf", true, w->type, &f);
    } else if (s->exact == 0) {
        ok = sum_of(s, list, w->sub, "anyOf", false, w->type, &f);
    } else {
        if (json_count(list) > ANY_OF_EXACT_MAX)
            return schema_fail(s, ERR_UNSUPPORTED, w->sub, "anyOf",
                               "must have at most %d schemas below an unevaluated keyword, got %zu",
                               ANY_OF_EXACT_MAX, json_count(list));
        for (uint32_t bits = 1; ok && bits < 1u << json_count(list); bits++)
            ok = add_subset(s, list, w->sub, "anyOf", bits, w->type, &f);
    }
    return work_take(w, &f, ok);
}

/* Take oneOf: one alternative for each subschema, with the negations of all other subschemas. The
 * negation is that no subschema is valid, or that two subschemas are valid. */
static bool one_of(struct schema_work *w)
{
    struct schema *s = w->s;
    const struct json *list = sub_field(s, w->sub, "oneOf");
    struct forms f = {0};
    size_t n = json_count(list);
    bool ok = true;
    if (!list) return true;
    if (!w->negated && n > 32)
        return schema_fail(s, ERR_UNSUPPORTED, w->sub, "oneOf",
                           "must have at most 32 schemas, got %zu", n);
    if (!w->negated) {
        for (size_t i = 0; ok && i < n; i++)
            ok = add_subset(s, list, w->sub, "oneOf", 1u << i, w->type, &f);
        return work_take(w, &f, ok);
    }
    ok = product_of(s, list, w->sub, "oneOf", true, w->type, &f); /* no subschema is valid */
    for (size_t i = 0; ok && i < n; i++)
        for (size_t k = i + 1; ok && k < n; k++) {
            struct forms two = {0};
            ok = forms_of_lit(s, lit_of(sub_of(s, json_item(list, i), w->sub, "oneOf"), false),
                              w->type, &two) &&
                 forms_and_lit(s, &two,
                               lit_of(sub_of(s, json_item(list, k), w->sub, "oneOf"), false),
                               w->type);
            ok = forms_sum(s, &f, &two) && ok;
        }
    return work_take(w, &f, ok);
}

/* Return the literal of the subschema of a keyword. The subschema of an absent keyword is
 * `true`. */
static uint32_t field_lit(struct schema *s, uint32_t sub, const char *key, bool negated)
{
    const struct json *j = sub_field(s, sub, key);
    return j ? lit_of(sub_of(s, j, sub, key), negated) : lit_of(0, negated);
}

/* Take if, then and else: `if` and `then`, or not `if` and `else`. The negation negates only `then`
 * and `else`. */
static bool if_then(struct schema_work *w)
{
    struct schema *s = w->s;
    struct forms f = {0}, no = {0};
    if (!sub_field(s, w->sub, "if") || s->draft < DRAFT_7) return true;
    bool ok = forms_of_lit(s, field_lit(s, w->sub, "if", false), w->type, &f) &&
              forms_and_lit(s, &f, field_lit(s, w->sub, "then", w->negated), w->type) &&
              forms_of_lit(s, field_lit(s, w->sub, "if", true), w->type, &no) &&
              forms_and_lit(s, &no, field_lit(s, w->sub, "else", w->negated), w->type);
    ok = forms_sum(s, &f, &no) && ok;
    return work_take(w, &f, ok);
}

/* Take allOf: the product of its schemas. Its negation is the sum of their negations. */
static bool all_of(struct schema_work *w)
{
    const struct json *list = sub_field(w->s, w->sub, "allOf");
    struct forms f = {0};
    if (!list) return true;
    bool ok = w->negated ? sum_of(w->s, list, w->sub, "allOf", true, w->type, &f)
                         : product_of(w->s, list, w->sub, "allOf", false, w->type, &f);
    return work_take(w, &f, ok);
}

/* Take const or enum: a sum of its values. The negation is the product of the negations of all
 * values. */
static bool values(struct schema_work *w, const char *key)
{
    const struct json *v = sub_field(w->s, w->sub, key);
    bool list = strcmp(key, "enum") == 0, ok = true;
    struct forms f = {0};
    if (!v || (!list && w->s->draft < DRAFT_6)) return true;
    if (w->negated) ok = forms_true(w->s, &f, w->type);
    for (size_t i = 0; ok && i < (list ? json_count(v) : 1); i++) {
        uint32_t lit = lit_of(sub_const(w->s, list ? json_item(v, i) : v, w->sub), w->negated);
        ok = w->negated ? forms_and_lit(w->s, &f, lit, w->type)
                        : forms_of_lit(w->s, lit, w->type, &f);
    }
    return work_take(w, &f, ok);
}

/* ---- a whole schema ---- */

/* Take all keywords of w->sub except `type` and the unevaluated keywords. */
static bool keywords(struct schema_work *w)
{
    struct schema *s = w->s;
    uint32_t target = sub_target(s, w->sub);
    bool ok = (target == NONE || work_take_lit(w, lit_of(target, w->negated))) && schema_ok(s) &&
              values(w, "const") && values(w, "enum") && all_of(w) && any_of(w) && one_of(w) &&
              if_then(w);
    if (ok && sub_field(s, w->sub, "not"))
        ok = work_take_lit(w, field_lit(s, w->sub, "not", !w->negated));
    if (ok && w->type == JT_LIST) ok = array_keywords(w);
    if (ok && w->type == JT_OBJECT) ok = object_keywords(w);
    return ok;
}

/* Take the unevaluated keyword of the type. All other keywords are first multiplied into exact
 * forms. Each exact form then gets a condition on the items or members that it does not evaluate.
 * The resulting forms replace w->all, or are added to w->all if the keyword is negated. */
static bool unevaluated(struct schema_work *w, const char *key)
{
    struct schema *s = w->s;
    struct exprs *x = &s->m.x;
    uint32_t lit = field_lit(s, w->sub, key, w->negated);
    struct schema_work base = {.s = s, .sub = w->sub, .type = w->type};
    s->exact++;
    bool ok = forms_true(s, &base.all, w->type) && keywords(&base);
    s->exact--;
    for (size_t i = 0; ok && i < base.all.n; i++) {
        struct schema_form *f = &base.all.v[i];
        uint32_t rest = expr_and(x, lang_universe(s, JT_TEXT), expr_not(x, f->evaluated));
        if (w->type == JT_OBJECT && w->negated)
            ok = vec_push(&f->witness, ((struct name_atom){NONE, rest, lit, NULL}));
        else if (w->type == JT_OBJECT)
            ok = vec_push(&f->member, ((struct name_atom){NONE, rest, lit, NULL}));
        else if (f->n_evaluated != NONE && w->negated)
            ok = vec_push(&f->count, ((struct count_atom){f->n_evaluated, lit, 1, NONE}));
        else if (f->n_evaluated != NONE)
            ok = vec_push(&f->item, ((struct items_atom){f->n_evaluated, NONE, lit}));
        else if (w->negated) /* the form has no value, because all items are evaluated */
            f->min = 1, f->max = 0;
        f->evaluated = lang_universe(s, JT_TEXT), f->n_evaluated = NONE;
        if (!ok) schema_no_memory(s);
    }
    if (w->negated) return forms_sum(s, &w->all, &base.all) && ok;
    forms_deinit(&w->all);
    w->all = base.all;
    return ok;
}

bool work_schema(struct schema_work *w)
{
    struct schema *s = w->s;
    bool integer;
    unsigned types = sub_types(s, w->sub, &integer);
    const char *key = w->type == JT_OBJECT ? "unevaluatedProperties" : "unevaluatedItems";
    if (!(types & w->type)) return w->negated ? forms_true(s, &w->all, w->type) : schema_ok(s);
    bool has = s->draft >= DRAFT_2019 && sub_field(s, w->sub, key);
    if (has && !w->negated) return unevaluated(w, key);
    if (!w->negated && !forms_true(s, &w->all, w->type)) return false;
    return keywords(w) && (!has || unevaluated(w, key));
}
