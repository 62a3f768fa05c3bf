/* jinja_seq.c - filters of sequences: map, select, sort, group, join.
 *
 * These filters return a list. Some filters of jinja2 return a generator. The only visible
 * difference is that a list has a length. */
#include "chat/jinja_impl.h"

#include <string.h>

#define FILTER(name, id, params) builtin_fn filter_##id;
#include "chat/filter.def"
#undef FILTER

/* Return the number of code points of a text or items of other values. Undefined has the length
 * 0. */
struct val filter_length(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    switch (self.kind) {
    case V_UNDEFINED:
        return val_int(0);
    case V_TEXT:
        return val_int(text_count(r, self));
    case V_LIST:
    case V_TUPLE:
        return val_int(self.list->n);
    case V_DICT:
        return val_int(self.dict->n);
    default:
        return jinja_fail(r, "%s has no length", val_type(self));
    }
}

struct val filter_list(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    const struct list *items = val_iterate(r, self);
    struct val v = val_list(r, V_LIST, items ? items->n : 0);
    for (uint32_t i = 0; items && i < items->n && r->rc == 0; i++) list_add(r, v.list, items->v[i]);
    return v;
}

/* Return undefined if the sequence is empty, as in jinja2. */
struct val filter_first(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    if (self.kind == V_TEXT && self.n > 0) return val_text(self.s, text_step(self.s, self.n));
    const struct list *items = val_iterate(r, self);
    return items && items->n > 0 ? items->v[0] : VAL_UNDEFINED;
}

struct val filter_last(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    const struct list *items = val_iterate(r, self);
    return items && items->n > 0 ? items->v[items->n - 1] : VAL_UNDEFINED;
}

/* Return a text for a text, and a list for other values. */
struct val filter_reverse(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    struct val back[3] = {VAL_NONE, VAL_NONE, val_int(-1)};
    if (self.kind == V_TEXT) return val_slice(r, self, back);
    struct list *items = val_iterate(r, self);
    return items ? val_slice(r, (struct val){.kind = V_LIST, .list = items}, back) : VAL_UNDEFINED;
}

/* Return the tuple (a, b). */
static struct val pair_of(struct render *r, struct val a, struct val b)
{
    struct val pair = val_list(r, V_TUPLE, 2);
    if (r->rc != 0) return pair;
    list_add(r, pair.list, a);
    list_add(r, pair.list, b);
    return pair;
}

/* Undefined has no items and does not fail, as in jinja2. */
struct val filter_items(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    struct val v = val_list(r, V_LIST, 0);
    if (self.kind != V_DICT && self.kind != V_UNDEFINED)
        return jinja_fail(r, "%s has no items", val_type(self));
    for (uint32_t i = 0; self.kind == V_DICT && i < self.dict->n && r->rc == 0; i++)
        list_add(r, v.list, pair_of(r, self.dict->v[i].key, self.dict->v[i].value));
    return v;
}

/* Append the items to the output buffer and move the result from there, without intermediate
 * texts. */
struct val filter_join(struct render *r, struct val self, const struct args *a)
{
    const struct val *d = arg(a, 0, "d");
    struct val separator = d ? val_str(r, *d) : val_text("", 0);
    const struct val *attribute = arg(a, 1, "attribute");
    const struct list *items = val_iterate(r, self);
    size_t mark = r->out.n;
    for (uint32_t i = 0; items && i < items->n && r->rc == 0; i++) {
        if (i > 0) buf_add(&r->out, separator.s, separator.n);
        out_str(r, attribute ? val_path(r, items->v[i], *attribute) : items->v[i]);
        render_charge(r, 1);
    }
    return out_take(r, mark);
}

/* ---- map and select ---- */

/* Return the items of a sequence; NULL if v is false. map and select treat every false value, even
 * None, as an empty sequence. */
static const struct list *truthy_items(struct render *r, struct val v)
{
    return val_truth(v) ? val_iterate(r, v) : NULL;
}

/* Return the value at the path, or the fallback if it is undefined. */
static struct val map_attribute(struct render *r, struct val item, struct val path,
                                const struct val *fallback)
{
    struct val v = val_path(r, item, path);
    return v.kind == V_UNDEFINED && fallback ? *fallback : v;
}

/* A call has the form map('upper', arguments) or map(attribute='a.b', default=x). */
struct val filter_map(struct render *r, struct val self, const struct args *a)
{
    const struct val *attribute = a->n == 0 ? arg(a, 0, "attribute") : NULL;
    const struct list *items = truthy_items(r, self);
    struct val out = val_list(r, V_LIST, items ? items->n : 0);
    const struct builtin *filter = NULL;
    struct args tail = args_tail(a, 1);
    if (!attribute && a->n > 0 && a->v[0].kind == V_TEXT)
        filter = filter_find(a->v[0].s, a->v[0].n);
    static const struct builtin by_attribute = {.name = "map", .params = "attribute default="};
    if (attribute && !args_check(r, &by_attribute, a)) return VAL_UNDEFINED;
    if (!attribute && !filter)
        return jinja_fail(r, "map needs the name of a filter or an attribute");
    for (uint32_t i = 0; items && i < items->n && render_charge(r, 1); i++)
        list_add(r, out.list,
                 filter ? builtin_call(r, filter, items->v[i], &tail)
                        : map_attribute(r, items->v[i], *attribute, arg(a, 1, "default")));
    return out;
}

/* Flags of select_items: the test applies to an attribute of an item; items that fail are taken. */
enum { OF_ATTRIBUTE = 1, IF_FALSE = 2 };

/* Implement select, reject, selectattr and rejectattr: return the items that pass the test. An item
 * is tested for truth if the call names no test. */
static struct val select_items(struct render *r, struct val self, const struct args *a,
                               unsigned flags)
{
    const bool by_attr = flags & OF_ATTRIBUTE, wanted = !(flags & IF_FALSE);
    const struct list *items = truthy_items(r, self);
    struct val out = val_list(r, V_LIST, 0);
    struct args rest = args_tail(a, by_attr), tail = args_tail(a, by_attr + 1u);
    const struct builtin *test = NULL;
    if (by_attr && a->n == 0) return jinja_fail(r, "selectattr and rejectattr need an attribute");
    if (rest.n > 0 && rest.v[0].kind == V_TEXT) test = is_find(rest.v[0].s, rest.v[0].n);
    if (rest.n > 0 && !test) return jinja_fail(r, "select and reject need the name of a test");
    for (uint32_t i = 0; items && i < items->n && render_charge(r, 1); i++) {
        struct val v = by_attr ? val_path(r, items->v[i], a->v[0]) : items->v[i];
        if (test && r->rc == 0) v = builtin_call(r, test, v, &tail);
        if (val_truth(v) == wanted) list_add(r, out.list, items->v[i]);
    }
    return out;
}

struct val filter_select(struct render *r, struct val self, const struct args *a)
{
    return select_items(r, self, a, 0);
}

struct val filter_reject(struct render *r, struct val self, const struct args *a)
{
    return select_items(r, self, a, IF_FALSE);
}

struct val filter_selectattr(struct render *r, struct val self, const struct args *a)
{
    return select_items(r, self, a, OF_ATTRIBUTE);
}

struct val filter_rejectattr(struct render *r, struct val self, const struct args *a)
{
    return select_items(r, self, a, OF_ATTRIBUTE | IF_FALSE);
}

/* ---- order ---- */

/* Return the value by which an item is compared: the item or one of its attributes. A text is
 * converted to lower case unless case_sensitive is true. */
static struct val sort_key(struct render *r, struct val v, const struct val *attribute,
                           bool case_sensitive)
{
    if (attribute && attribute->kind != V_NONE) v = val_path(r, v, *attribute);
    return v.kind == V_TEXT && !case_sensitive ? text_case(r, v, 'l') : v;
}

/* An item with its sort key. merge_sort sorts by key, stably, and moves item and key together. */
struct keyed {
    struct val key, item; /* key: value that is compared. item: item that is moved with its key */
};

/* Sort v [n] by key. `scratch` has room for n items. Items with equal keys keep their order, also
 * if `reverse` is true, as in Python. */
static void merge_sort(struct render *r, struct keyed *v, struct keyed *scratch, uint32_t n,
                       bool reverse)
{
    if (n < 2 || r->rc != 0) return;
    uint32_t half = n / 2, i = 0, k = half, out = 0;
    merge_sort(r, v, scratch, half, reverse);
    merge_sort(r, v + half, scratch, n - half, reverse);
    while (i < half && k < n && r->rc == 0) {
        int order = val_compare(r, v[k].key, v[i].key);
        bool right = reverse ? order > 0 : order < 0;
        scratch[out++] = right ? v[k++] : v[i++];
    }
    if (r->rc != 0) return;
    while (i < half) scratch[out++] = v[i++];
    while (k < n) scratch[out++] = v[k++];
    memcpy(v, scratch, n * sizeof *v);
}

/* Return the key for |sort: a list of the attributes in "a,b". Only the keys are compared, as in
 * jinja2. */
static struct val sort_keys(struct render *r, struct val v, const struct val *attribute,
                            bool case_sensitive)
{
    struct val keys = val_list(r, V_LIST, 1);
    const char *p = attribute && attribute->kind == V_TEXT ? attribute->s : NULL;
    const char *end = p ? p + attribute->n : NULL, *comma;
    for (; p && r->rc == 0 && (comma = memchr(p, ',', (size_t)(end - p))); p = comma + 1) {
        struct val part = val_text(p, (size_t)(comma - p));
        list_add(r, keys.list, sort_key(r, v, &part, case_sensitive));
    }
    struct val rest = p ? val_text(p, (size_t)(end - p)) : attribute ? *attribute : VAL_NONE;
    if (r->rc == 0) list_add(r, keys.list, sort_key(r, v, &rest, case_sensitive));
    return keys;
}

typedef struct val key_fn(struct render *r, struct val v, const struct val *attribute,
                          bool case_sensitive);

/* Return the items with their keys, sorted by key. NULL if failed or if there are no items. */
static struct keyed *sorted(struct render *r, const struct list *items, key_fn *key,
                            const struct val *attribute, bool case_sensitive, bool reverse)
{
    if (!items || items->n == 0) return NULL;
    struct keyed *v = render_push(r, (size_t)items->n * 2, sizeof *v);
    for (uint32_t i = 0; v && i < items->n; i++)
        v[i] = (struct keyed){.key = key(r, items->v[i], attribute, case_sensitive),
                              .item = items->v[i]};
    if (v) merge_sort(r, v, v + items->n, items->n, reverse);
    return r->rc == 0 ? v : NULL;
}

static struct val sorted_list(struct render *r, const struct list *items, key_fn *key,
                              const struct val *attribute, bool case_sensitive, bool reverse)
{
    const struct keyed *v = sorted(r, items, key, attribute, case_sensitive, reverse);
    struct val out = val_list(r, V_LIST, v ? items->n : 0);
    for (uint32_t i = 0; v && i < items->n; i++) list_add(r, out.list, v[i].item);
    return out;
}

/* The arguments have jinja2's order: reverse, case_sensitive, attribute. */
struct val filter_sort(struct render *r, struct val self, const struct args *a)
{
    return sorted_list(r, val_iterate(r, self), sort_keys, arg(a, 2, "attribute"),
                       arg_bool(a, 1, "case_sensitive", false),
                       arg_int(r, a, 0, "reverse", false) != 0);
}

/* Column 0 is the key of an entry, column 1 its value. */
struct val filter_dictsort(struct render *r, struct val self, const struct args *a)
{
    struct args none = {0};
    struct val items = filter_items(r, self, &none), by = arg_text(r, a, 1, "by", "key");
    struct val column = val_int(text_is(by, "value"));
    const bool reverse = arg_int(r, a, 2, "reverse", false) != 0;
    if (!column.i && !text_is(by, "key"))
        jinja_fail(r, "dictsort: \"by\" must be \"key\" or \"value\"");
    if (r->rc != 0) return VAL_UNDEFINED;
    return sorted_list(r, items.list, sort_key, &column, arg_bool(a, 0, "case_sensitive", false),
                       reverse);
}

/* Return the smallest item if sign < 0, otherwise the largest item. */
static struct val extreme(struct render *r, struct val self, const struct args *a, int sign)
{
    const struct list *items = val_iterate(r, self);
    const struct val *attribute = arg(a, 1, "attribute");
    bool case_sensitive = arg_bool(a, 0, "case_sensitive", false);
    struct val best = VAL_UNDEFINED, best_key = VAL_UNDEFINED;
    for (uint32_t i = 0; items && i < items->n && r->rc == 0; i++) {
        struct val key = sort_key(r, items->v[i], attribute, case_sensitive);
        if (i > 0 && val_compare(r, key, best_key) != sign) continue;
        best = items->v[i];
        best_key = key;
    }
    return best;
}

struct val filter_min(struct render *r, struct val self, const struct args *a)
{
    return extreme(r, self, a, -1);
}

struct val filter_max(struct render *r, struct val self, const struct args *a)
{
    return extreme(r, self, a, 1);
}

/* Add by the operator +, which also concatenates lists. */
struct val filter_sum(struct render *r, struct val self, const struct args *a)
{
    const struct val *attribute = arg(a, 0, "attribute"), *start = arg(a, 1, "start");
    const struct list *items = val_iterate(r, self);
    struct val total = start ? *start : val_int(0);
    if (total.kind == V_TEXT) return jinja_fail(r, "sum cannot add strings; use join");
    for (uint32_t i = 0; items && i < items->n && render_charge(r, 1); i++) {
        struct val v = attribute && attribute->kind != V_NONE ? val_path(r, items->v[i], *attribute)
                                                              : items->v[i];
        total = val_binary(r, '+', total, v);
    }
    return total;
}

/* ---- grouping ---- */

/* Keep the first of equal items. */
struct val filter_unique(struct render *r, struct val self, const struct args *a)
{
    const struct val *attribute = arg(a, 1, "attribute");
    bool case_sensitive = arg_bool(a, 0, "case_sensitive", false);
    const struct list *items = val_iterate(r, self);
    struct val out = val_list(r, V_LIST, 0), unique = val_dict(r, V_DICT);
    for (uint32_t i = 0; items && i < items->n && r->rc == 0; i++) {
        struct val key = sort_key(r, items->v[i], attribute, case_sensitive);
        if (r->rc != 0 || dict_find(r, unique.dict, key)) continue;
        dict_put(r, unique.dict, key, VAL_NONE);
        list_add(r, out.list, items->v[i]);
    }
    return out;
}

/* Return the pairs (key, item) of the items. The fallback, which may be NULL, replaces an undefined
 * key. */
static struct val with_keys(struct render *r, const struct list *items, const struct val *attribute,
                            const struct val *fallback)
{
    struct val out = val_list(r, V_LIST, items ? items->n : 0);
    for (uint32_t i = 0; items && i < items->n && r->rc == 0; i++) {
        const struct val item = items->v[i];
        struct val key = attribute ? map_attribute(r, item, *attribute, fallback) : item;
        list_add(r, out.list, pair_of(r, key, item));
    }
    return out;
}

/* Sort the pairs (key, item) by their keys, then make (key, list) from each run of equal keys. The
 * key is the first item's key in its original case. */
struct val filter_groupby(struct render *r, struct val self, const struct args *a)
{
    const struct val *fallback = arg(a, 1, "default");
    if (fallback && fallback->kind == V_NONE) fallback = NULL;
    struct val pairs = with_keys(r, val_iterate(r, self), arg(a, 0, "attribute"), fallback);
    struct val out = val_list(r, V_LIST, 0), group = VAL_UNDEFINED, column = val_int(0);
    const bool case_sensitive = arg_bool(a, 2, "case_sensitive", false);
    if (r->rc != 0) return VAL_UNDEFINED;
    const struct keyed *v = sorted(r, pairs.list, sort_key, &column, case_sensitive, false);
    for (uint32_t i = 0; v && i < pairs.list->n && r->rc == 0; i++) {
        const struct val *pair = v[i].item.list->v;
        if (i == 0 || !val_equal(r, v[i].key, v[i - 1].key)) {
            group = val_list(r, V_LIST, 0);
            list_add(r, out.list, pair_of(r, pair[0], group));
        }
        if (r->rc == 0) list_add(r, group.list, pair[1]);
    }
    return out;
}

/* batch(3) of 7 items: rows of 3, 3 and 1. fill_with fills the last row. */
struct val filter_batch(struct render *r, struct val self, const struct args *a)
{
    const struct list *items = val_iterate(r, self);
    int64_t size = arg_int(r, a, 0, "linecount", 0);
    const struct val *fill = arg(a, 1, "fill_with");
    struct val out = val_list(r, V_LIST, 0), row = VAL_UNDEFINED;
    if (size <= 0) return jinja_fail(r, "batch needs a positive size");
    for (uint32_t i = 0; items && i < items->n && r->rc == 0; i++) {
        if (i % size == 0) {
            row = val_list(r, V_LIST, 0);
            list_add(r, out.list, row);
        }
        if (r->rc == 0) list_add(r, row.list, items->v[i]);
    }
    while (fill && row.kind == V_LIST && row.list->n < size && render_charge(r, 1))
        list_add(r, row.list, *fill);
    return out;
}

/* slice(3) of 7 items: columns of 3, 2 and 2. fill_with fills the shorter columns. */
struct val filter_slice(struct render *r, struct val self, const struct args *a)
{
    const struct list *items = val_iterate(r, self);
    int64_t count = arg_int(r, a, 0, "slices", 0);
    const struct val *fill = arg(a, 1, "fill_with");
    struct val out = val_list(r, V_LIST, 0);
    if (count <= 0) return jinja_fail(r, "slice needs a positive count");
    uint32_t n = items ? items->n : 0, at = 0;
    for (int64_t k = 0; k < count && render_charge(r, 1); k++) {
        uint32_t size = (uint32_t)(n / count + (k < n % count));
        struct val column = val_list(r, V_LIST, size);
        for (uint32_t i = 0; i < size && r->rc == 0; i++) list_add(r, column.list, items->v[at++]);
        if (fill && n % count != 0 && k >= n % count) list_add(r, column.list, *fill);
        list_add(r, out.list, column);
    }
    return out;
}
