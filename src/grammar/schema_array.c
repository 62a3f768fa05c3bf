/* schema_array.c - the keywords of arrays, as forms; see schema_form.c.
 *
 * A condition on items by their index is an items_atom. A condition on the number of items with a
 * property is a count_atom. */
#include "schema_work.h"

/* REFS_MAX: maximum number of $refs that few_values follows. */
enum { REFS_MAX = 16 };

/* Append a form: there are at least `min` items, and items [from, to) satisfy lit. */
static bool add_item(struct schema *s, struct forms *out, uint32_t min, uint32_t from, uint32_t to,
                     uint32_t lit)
{
    struct schema_form f = form_bounded(JT_LIST, min, NONE);
    return forms_add(s, out, f, vec_push(&f.item, ((struct items_atom){from, to, lit})));
}

/* Append a form: the number of items [from, end) that satisfy lit is in [min, max]. */
static bool add_count(struct schema *s, struct forms *out, uint32_t from, uint32_t lit,
                      uint32_t min, uint32_t max)
{
    struct schema_form f = form_any(JT_LIST);
    return forms_add(s, out, f, vec_push(&f.count, ((struct count_atom){from, lit, min, max})));
}

/* Take the condition that items [from, to) are valid by a subschema. `to` is from + 1 or NONE. The
 * negation is that at least one of these items is invalid. */
static bool some_items(struct schema_work *w, uint32_t from, uint32_t to, uint32_t sub)
{
    struct forms f = {0};
    bool ok;
    if (!w->negated) {
        ok = add_item(w->s, &f, 0, from, to, lit_of(sub, false));
        if (ok) f.v[0].n_evaluated = to;
    } else if (to == NONE) {
        ok = add_count(w->s, &f, from, lit_of(sub, true), 1, NONE);
    } else {
        ok = add_item(w->s, &f, from + 1, from, to, lit_of(sub, true));
    }
    return work_take(w, &f, ok);
}

/* Take items, prefixItems and additionalItems with the draft's meaning. */
static bool items(struct schema_work *w)
{
    struct schema *s = w->s;
    const struct json *all = sub_field(s, w->sub, "items"),
                      *rest = sub_field(s, w->sub, "additionalItems");
    const struct json *first = s->draft >= DRAFT_2020 ? sub_field(s, w->sub, "prefixItems") : NULL;
    const char *rest_key = "additionalItems", *first_key = "items";
    /* since 2020-12 a list is not a schema, but a document without $schema is read as an older
     * draft */
    bool older = !first && !s->draft_named && json_kind(all) == JK_LIST;
    if (s->draft >= DRAFT_2020 && !older)
        rest = all, rest_key = "items", first_key = "prefixItems";
    else if (json_kind(all) == JK_LIST)
        first = all;
    else
        rest = all, rest_key = "items";
    bool ok = true;
    uint32_t n = (uint32_t)json_count(first);
    for (uint32_t i = 0; ok && i < n; i++)
        ok = some_items(w, i, i + 1, sub_of(s, json_item(first, i), w->sub, first_key));
    return ok && (!rest || some_items(w, n, NONE, sub_of(s, rest, w->sub, rest_key)));
}

/* Take contains, minContains and maxContains, as a count. The negation is that the number of these
 * items is too small or too large. */
static bool contains(struct schema_work *w)
{
    struct schema *s = w->s;
    const struct json *j = s->draft >= DRAFT_6 ? sub_field(s, w->sub, "contains") : NULL;
    struct forms f = {0};
    uint32_t min = 1, max = NONE;
    if (!j) return true;
    if (s->draft >= DRAFT_2019)
        work_count(s, w->sub, "minContains", &min), work_count(s, w->sub, "maxContains", &max);
    if (s->exact > 0 && s->draft >= DRAFT_2020)
        return schema_fail(s, ERR_UNSUPPORTED, w->sub, "contains",
                           "not supported yet below unevaluatedItems");
    uint32_t lit = lit_of(sub_of(s, j, w->sub, "contains"), false);
    bool ok = true;
    if (!w->negated) {
        ok = min > max || add_count(s, &f, 0, lit, min, max);
    } else {
        if (min > 0) ok = add_count(s, &f, 0, lit, 0, min - 1);
        if (ok && max != NONE) ok = add_count(s, &f, 0, lit, max + 1, NONE);
    }
    return work_take(w, &f, ok);
}

/* Return the list of permitted values of an item: an enum in `items`, or in a target of its $refs.
 * NULL if there is no list, or if it has more than COUNTS_MAX values. */
static const struct json *few_values(struct schema *s, uint32_t sub)
{
    const struct json *items = sub_field(s, sub, "items");
    if (json_kind(items) != JK_OBJECT || sub_field(s, sub, "prefixItems")) return NULL;
    uint32_t of = sub_of(s, items, sub, "items");
    for (int i = 0; of != NONE && i < REFS_MAX; i++) {
        const struct json *list = sub_field(s, of, "enum");
        if (list) return json_count(list) <= COUNTS_MAX ? list : NULL;
        of = sub_target(s, of);
    }
    return NULL;
}

/* Take uniqueItems. Use a count of at most one per value if items have at most COUNTS_MAX permitted
 * values. Otherwise set form.unique. plan_array then rejects a form that allows two items. */
static bool unique_items(struct schema_work *w)
{
    struct schema *s = w->s;
    if (!json_bool(sub_field(s, w->sub, "uniqueItems"), false)) return true;
    if (w->negated)
        return schema_fail(s, ERR_UNSUPPORTED, w->sub, "uniqueItems",
                           "negation: not supported yet");
    struct schema_form f = form_any(JT_LIST);
    const struct json *values = few_values(s, w->sub);
    bool ok = schema_ok(s);
    if (!values) f.unique = w->sub;
    for (size_t i = 0; ok && i < json_count(values); i++) {
        uint32_t lit = lit_of(sub_const(s, json_item(values, i), w->sub), false);
        ok = vec_push(&f.count, ((struct count_atom){0, lit, 0, 1})) || schema_no_memory(s);
    }
    return work_take_form(w, f, ok);
}

bool array_keywords(struct schema_work *w)
{
    return work_bounds(w, "minItems", "maxItems") && items(w) && contains(w) && unique_items(w);
}

/* ---- a value ---- */

/* Take the condition that an array equals v in its length and each item. */
bool array_const(struct schema_work *w, const struct json *v)
{
    uint32_t n = (uint32_t)json_count(v);
    bool ok = true;
    if (!w->negated)
        ok = work_take_form(w, form_bounded(JT_LIST, n, n), true);
    else
        ok = work_take_form(w, form_bounded(JT_LIST, n + 1, NONE), true) &&
             (n == 0 || work_take_form(w, form_bounded(JT_LIST, 0, n - 1), true));
    for (uint32_t i = 0; ok && i < n; i++)
        ok = some_items(w, i, i + 1, sub_const(w->s, json_item(v, i), w->sub));
    return ok;
}
