/* jinja_method.c - methods of lists, dicts, loops and cyclers, and the table of all methods
 * (method.def).
 *
 * append, pop and similar methods are allowed, because published templates call them. jinja2's
 * immutable sandbox rejects them. */
#include "chat/jinja_impl.h"

#include <string.h>

#define METHOD(kind, name, id, params) builtin_fn method_##id;
#include "chat/method.def"
#undef METHOD

/* Return positional argument i. Fail the rendering if it is absent. */
static struct val argument(struct render *r, const struct args *a, uint32_t i)
{
    return i < a->n ? a->v[i]
                    : jinja_fail(r, "this method needs %u argument%s", i + 1, i ? "s" : "");
}

/* ---- list ---- */

struct val method_list_append(struct render *r, struct val self, const struct args *a)
{
    list_add(r, self.list, argument(r, a, 0));
    return VAL_NONE;
}

/* Read n before the loop, because a list may extend itself. */
struct val method_list_extend(struct render *r, struct val self, const struct args *a)
{
    const struct list *items = val_iterate(r, argument(r, a, 0));
    uint32_t n = items ? items->n : 0;
    for (uint32_t i = 0; i < n && render_charge(r, 1); i++) list_add(r, self.list, items->v[i]);
    return VAL_NONE;
}

/* Append the item first, so that the list has room, then move the item to its place. */
struct val method_list_insert(struct render *r, struct val self, const struct args *a)
{
    struct list *l = self.list;
    int64_t i = arg_int(r, a, 0, NULL, 0), n = l->n;
    list_add(r, l, argument(r, a, 1));
    if (!render_charge(r, l->n / 8)) return VAL_NONE;
    i = i < -n ? 0 : i < 0 ? i + n : i > n ? n : i;
    struct val v = l->v[n];
    memmove(&l->v[i + 1], &l->v[i], (size_t)(n - i) * sizeof *l->v);
    l->v[i] = v;
    return VAL_NONE;
}

/* Remove and return item i. */
static struct val list_take(struct list *l, uint32_t i)
{
    struct val v = l->v[i];
    memmove(&l->v[i], &l->v[i + 1], (l->n - i - 1) * sizeof *l->v);
    l->n--;
    return v;
}

/* Charge the cost of moving the later items, because a loop of pop(0) takes quadratic time. */
struct val method_list_pop(struct render *r, struct val self, const struct args *a)
{
    int64_t i = arg_int(r, a, 0, NULL, -1), n = self.list->n;
    if (i < 0) i += n;
    if (i < 0 || i >= n) return jinja_fail(r, "pop from outside of the list");
    return render_charge(r, n / 8) ? list_take(self.list, (uint32_t)i) : VAL_UNDEFINED;
}

/* Return the index of the first item in [i, end) that is equal to v; `end` if none. */
static uint32_t list_seek(struct render *r, const struct list *l, struct val v, uint32_t i,
                          uint32_t end)
{
    while (i < end && r->rc == 0 && !val_equal(r, l->v[i], v)) i++;
    return i;
}

struct val method_list_remove(struct render *r, struct val self, const struct args *a)
{
    uint32_t i = list_seek(r, self.list, argument(r, a, 0), 0, self.list->n);
    if (r->rc != 0) return VAL_NONE;
    if (i >= self.list->n) return jinja_fail(r, "the list has no such item");
    list_take(self.list, i);
    return VAL_NONE;
}

/* Return argument i as a position in [0, n], of which a negative one counts from the end. */
static uint32_t position_of(struct render *r, const struct args *a, uint32_t i, uint32_t n,
                            uint32_t fallback)
{
    int64_t at = arg_int(r, a, i, NULL, fallback);
    if (at < 0) at += n;
    return at < 0 ? 0 : at > n ? n : (uint32_t)at;
}

struct val method_list_index(struct render *r, struct val self, const struct args *a)
{
    const uint32_t n = self.list->n, start = position_of(r, a, 1, n, 0),
                   end = position_of(r, a, 2, n, n);
    const uint32_t i = list_seek(r, self.list, argument(r, a, 0), start, end);
    return i < end ? val_int(i) : jinja_fail(r, "the list has no such item");
}

struct val method_list_count(struct render *r, struct val self, const struct args *a)
{
    struct val v = argument(r, a, 0);
    int64_t count = 0;
    for (uint32_t i = 0; i < self.list->n && r->rc == 0; i++)
        count += val_equal(r, self.list->v[i], v);
    return val_int(count);
}

struct val method_list_clear(struct render *r, struct val self, const struct args *a)
{
    (void)r, (void)a;
    self.list->n = 0;
    return VAL_NONE;
}

struct val method_list_copy(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return filter_find("list", 4)->fn(r, self, a);
}

struct val method_list_reverse(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    struct list *l = self.list;
    render_charge(r, l->n / 8);
    for (uint32_t i = 0; i < l->n / 2; i++) {
        struct val v = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = v;
    }
    return VAL_NONE;
}

/* ---- dict ---- */

struct val method_dict_get(struct render *r, struct val self, const struct args *a)
{
    const struct val *v = dict_find(r, self.dict, argument(r, a, 0)),
                     *fallback = arg(a, 1, "default");
    return v ? *v : fallback ? *fallback : VAL_NONE;
}

struct val method_dict_items(struct render *r, struct val self, const struct args *a)
{
    return filter_find("items", 5)->fn(r, self, a);
}

struct val method_dict_keys(struct render *r, struct val self, const struct args *a)
{
    return filter_find("list", 4)->fn(r, self, a);
}

struct val method_dict_values(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    struct val v = val_list(r, V_LIST, self.dict->n);
    for (uint32_t i = 0; i < self.dict->n && r->rc == 0; i++)
        list_add(r, v.list, self.dict->v[i].value);
    return v;
}

/* Copy the value before the removal, which moves the entries. */
struct val method_dict_pop(struct render *r, struct val self, const struct args *a)
{
    struct val key = argument(r, a, 0);
    const struct val *found = dict_find(r, self.dict, key);
    if (!found) return a->n > 1 ? a->v[1] : jinja_fail(r, "the dict has no such key");
    struct val v = *found;
    dict_remove(r, self.dict, key);
    return v;
}

struct val method_dict_setdefault(struct render *r, struct val self, const struct args *a)
{
    struct val key = argument(r, a, 0), fallback = a->n > 1 ? a->v[1] : VAL_NONE;
    const struct val *found = dict_find(r, self.dict, key);
    if (found) return *found;
    dict_put(r, self.dict, key, fallback);
    return fallback;
}

/* Add the pairs of a list such as [("a", 1)]. */
static void update_from_pairs(struct render *r, struct dict *d, struct val pairs)
{
    const struct list *items = val_iterate(r, pairs);
    for (uint32_t i = 0; items && i < items->n && render_charge(r, 1); i++) {
        const struct list *pair = val_iterate(r, items->v[i]);
        if (pair && pair->n == 2)
            dict_put(r, d, pair->v[0], pair->v[1]);
        else
            jinja_fail(r, "[%u]: expected a pair of key and value, got %s", i,
                       val_type(items->v[i]));
    }
}

/* Add the entries of another dict, or pairs. n is read before the loop, because a dict may update
 * itself. */
static void update_from(struct render *r, struct dict *d, struct val other)
{
    if (other.kind != V_DICT) {
        update_from_pairs(r, d, other);
        return;
    }
    uint32_t n = other.dict->n;
    for (uint32_t i = 0; i < n && render_charge(r, 1); i++)
        dict_put(r, d, other.dict->v[i].key, other.dict->v[i].value);
}

struct val method_dict_update(struct render *r, struct val self, const struct args *a)
{
    if (a->n > 0) update_from(r, self.dict, a->v[0]);
    for (uint32_t i = 0; i < a->n_kw && r->rc == 0; i++)
        dict_put(r, self.dict, a->kw[i].name, a->kw[i].value);
    return VAL_NONE;
}

struct val method_dict_copy(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    struct val v = val_dict(r, V_DICT);
    if (r->rc == 0) update_from(r, v.dict, self);
    return v;
}

struct val method_dict_clear(struct render *r, struct val self, const struct args *a)
{
    (void)r, (void)a;
    *self.dict = (struct dict){0};
    return VAL_NONE;
}

/* ---- loop and cycler ---- */

/* Return the argument of this iteration: 0, 1, ..., n - 1, 0, ... */
struct val method_loop_cycle(struct render *r, struct val self, const struct args *a)
{
    return a->n > 0 ? a->v[self.loop->i % a->n] : jinja_fail(r, "loop.cycle needs arguments");
}

/* Return true if the arguments differ from those of the previous call in this loop. */
struct val method_loop_changed(struct render *r, struct val self, const struct args *a)
{
    struct val now = val_list(r, V_TUPLE, a->n);
    for (uint32_t i = 0; i < a->n && r->rc == 0; i++) list_add(r, now.list, a->v[i]);
    if (self.loop->last_value.kind == V_TUPLE && val_equal(r, now, self.loop->last_value))
        return val_bool(false);
    self.loop->last_value = now;
    return val_bool(true);
}

struct val method_cycler_next(struct render *r, struct val self, const struct args *a)
{
    (void)r, (void)a;
    struct cycler *t = self.turn;
    return t->items.v[t->i++ % t->items.n];
}

struct val method_cycler_reset(struct render *r, struct val self, const struct args *a)
{
    (void)r, (void)a;
    self.turn->i = 0;
    return VAL_NONE;
}

/* ---- the table of methods ---- */

/* Find a method by the kind of self and the method's name. */
const struct builtin *method_find(struct val self, const char *name, size_t n)
{
    static const struct {
        enum val_kind kind;
        struct builtin method;
    } methods[] = {
#define METHOD(of, text, id, params) {V_##of, {text, params, method_##id}},
#include "chat/method.def"
#undef METHOD
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].kind == self.kind && builtin_find(&methods[i].method, 1, name, n))
            return &methods[i].method;
    return NULL;
}
