/* jinja_value.c - the values of a rendering: Python's None, bool, int, float, str, list, tuple,
 * dict.
 *
 * All memory is in the rendering's arena. Lists and dicts are shared by reference, as in Python.
 * Equal numbers are equal keys (1, 1.0 and True). A dict keeps its keys in the order and spelling
 * of their first insertion.
 *
 *   dict of up to 8 entries    v [n]: pairs in insertion order, searched in order
 *   larger dict                also slot [n_slot]: index + 1 of a pair, 0 if empty;
 *                              open addressing by the pair's hash, at most half of the slots used
 *
 * Functions that return NULL or VAL_UNDEFINED after a failure have set r->rc. Callers may continue,
 * because each later function then returns immediately. */
#include "chat/jinja_impl.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

/* Record the first failure. n is the number of bytes that were requested. */
void render_no_memory(struct render *r, size_t n)
{
    if (r->rc == 0) r->rc = err_memory(r->err, "a rendered prompt", n);
}

/* Fail with ERR_LIMIT at the caller's limit of the arena, and with ERR_MEMORY if memory is
 * exhausted. The limit is checked first, so that a hostile template gets the same error on every
 * machine. */
void *render_push(struct render *r, size_t count, size_t size)
{
    CHECK(r->arena.n_byte <= r->arena.bytes_max, "%zu bytes of %zu", r->arena.n_byte,
          r->arena.bytes_max);
    size_t n, left = r->arena.bytes_max - r->arena.n_byte;
    bool fits = !__builtin_mul_overflow(count, size, &n) && n <= left;
    void *p = fits && r->rc == 0 ? arena_push0(&r->arena, count, size) : NULL;
    if (!fits)
        jinja_fail_code(r, ERR_LIMIT, "rendering needs more than %zu MiB",
                        r->arena.bytes_max >> 20);
    else if (!p)
        render_no_memory(r, n);
    return p;
}

/* The old arrays remain in the arena. The sum of their sizes is less than the size of the new
 * array. */
void *render_grow(struct render *r, void *v, uint32_t n, uint32_t *cap, size_t size)
{
    CHECK(n <= *cap, "%u items, room for %u", n, *cap);
    if (n < *cap) return v;
    uint32_t more = *cap ? *cap * 2 : 4;
    void *grown = render_push(r, more, size);
    if (!grown) return NULL;
    if (n > 0) memcpy(grown, v, n * size);
    *cap = more;
    return grown;
}

/* The copy has a NUL after its n bytes, for functions of the C library. */
struct val val_copy_text(struct render *r, const char *s, size_t n)
{
    char *copy = render_push(r, n + 1, 1);
    if (!copy || !render_charge(r, n / 256)) return VAL_UNDEFINED;
    if (n > 0) memcpy(copy, s, n);
    return val_text(copy, n);
}

struct val val_list(struct render *r, uint8_t kind, uint32_t n_reserve)
{
    struct list *l = render_push(r, 1, sizeof *l);
    if (!l) return VAL_UNDEFINED;
    l->v = n_reserve ? render_push(r, n_reserve, sizeof *l->v) : NULL;
    l->cap = l->v ? n_reserve : 0;
    return r->rc == 0 ? (struct val){.kind = kind, .list = l} : VAL_UNDEFINED;
}

void list_add(struct render *r, struct list *l, struct val v)
{
    if (r->rc != 0) return;
    struct val *room = render_grow(r, l->v, l->n, &l->cap, sizeof *room);
    if (!room) return;
    l->v = room;
    l->v[l->n++] = v;
}

struct val val_dict(struct render *r, uint8_t kind)
{
    struct dict *d = render_push(r, 1, sizeof *d);
    return d ? (struct val){.kind = kind, .dict = d} : VAL_UNDEFINED;
}

/* ---- truth, kinds, equality, order ---- */

/* Return Python's name of the type, as in Python's error messages. */
const char *val_type(struct val v)
{
    CHECK(v.kind < V_KIND_COUNT, "kind %d", v.kind);
    static const char *const names[V_KIND_COUNT] = {
        "Undefined", "NoneType",    "bool",   "int",       "float",    "str",
        "list",      "tuple",       "dict",   "Namespace", "function", "function",
        "method",    "LoopContext", "Cycler", "Joiner",
    };
    return names[v.kind];
}

/* Values of other kinds, such as functions, are true. */
bool val_truth(struct val v)
{
    switch (v.kind) {
    case V_UNDEFINED:
    case V_NONE:
        return false;
    case V_BOOL:
        return v.b;
    case V_INT:
        return v.i != 0;
    case V_REAL:
        return v.d != 0;
    case V_TEXT:
        return v.n > 0;
    case V_LIST:
    case V_TUPLE:
        return v.list->n > 0;
    case V_DICT:
        return v.dict->n > 0;
    default:
        return true;
    }
}

/* A bool is a number, as in Python. */
bool val_is_number(struct val v)
{
    return v.kind == V_BOOL || v.kind == V_INT || v.kind == V_REAL;
}

bool val_is_seq(struct val v)
{
    return v.kind == V_LIST || v.kind == V_TUPLE;
}

double val_as_real(struct val v)
{
    return v.kind == V_REAL ? v.d : v.kind == V_INT ? (double)v.i : (double)v.b;
}

bool text_is(struct val v, const char *text)
{
    return v.kind == V_TEXT && v.n == strlen(text) && memcmp(v.s, text, v.n) == 0;
}

/* Return the value of a bool or int. */
static int64_t number_int(struct val v)
{
    return v.kind == V_BOOL ? v.b : v.i;
}

static bool list_equal(struct render *r, const struct list *a, const struct list *b)
{
    bool equal = a->n == b->n;
    for (uint32_t i = 0; equal && i < a->n && i < b->n && r->rc == 0; i++)
        equal = val_equal(r, a->v[i], b->v[i]);
    return equal;
}

/* Return true if both dicts have equal entries. The order of the entries has no effect. */
static bool dict_equal(struct render *r, const struct dict *a, const struct dict *b)
{
    bool equal = a->n == b->n;
    for (uint32_t i = 0; equal && i < a->n && r->rc == 0; i++) {
        const struct val *other = dict_find(r, b, a->v[i].key);
        equal = other && val_equal(r, a->v[i].value, *other);
    }
    return equal;
}

/* Return true if two values of one kind are equal. Values of other kinds are equal only if they are
 * one object. */
static bool same_kind_equal(struct render *r, struct val a, struct val b)
{
    switch (a.kind) {
    case V_UNDEFINED:
    case V_NONE:
        return true;
    case V_TEXT:
        return a.n == b.n &&
               (a.n == 0 || (render_charge(r, a.n / 256) && memcmp(a.s, b.s, a.n) == 0));
    case V_LIST:
    case V_TUPLE:
        return a.list == b.list || list_equal(r, a.list, b.list);
    case V_DICT:
        return a.dict == b.dict || dict_equal(r, a.dict, b.dict);
    default:
        return a.list == b.list;
    }
}

/* Compare an int and a float as doubles. Python compares them exactly, so results differ only above
 * 2^53. Recursion is limited, because a list may contain itself. */
bool val_equal(struct render *r, struct val a, struct val b)
{
    bool equal = false;
    if (!render_enter(r)) return false;
    if (val_is_number(a) && val_is_number(b))
        equal = a.kind != V_REAL && b.kind != V_REAL ? number_int(a) == number_int(b)
                                                     : val_as_real(a) == val_as_real(b);
    else if (a.kind == b.kind)
        equal = same_kind_equal(r, a, b);
    render_leave(r);
    return equal;
}

/* Compare by bytes, which is the order of code points in UTF-8. */
static int text_compare(struct render *r, struct val a, struct val b)
{
    uint32_t n = a.n < b.n ? a.n : b.n;
    render_charge(r, n / 256);
    int order = n ? memcmp(a.s, b.s, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

static int list_compare(struct render *r, const struct list *a, const struct list *b)
{
    int order = 0;
    for (uint32_t i = 0; order == 0 && i < a->n && i < b->n && r->rc == 0; i++)
        /* as in Python, equal items need no order */
        if (!val_equal(r, a->v[i], b->v[i])) order = val_compare(r, a->v[i], b->v[i]);
    return order ? order : (a->n > b->n) - (a->n < b->n);
}

/* NaN counts as equal to every number. A list that contains itself fails at the limit of the
 * depth. */
int val_compare(struct render *r, struct val a, struct val b)
{
    int order = 0;
    if (!render_enter(r)) return 0;
    if (val_is_number(a) && val_is_number(b)) {
        if (a.kind != V_REAL && b.kind != V_REAL)
            order = (number_int(a) > number_int(b)) - (number_int(a) < number_int(b));
        else
            order = (val_as_real(a) > val_as_real(b)) - (val_as_real(a) < val_as_real(b));
    } else if (a.kind == V_TEXT && b.kind == V_TEXT) {
        order = text_compare(r, a, b);
    } else if (val_is_seq(a) && a.kind == b.kind) {
        order = list_compare(r, a.list, b.list);
    } else {
        jinja_fail(r, "%s and %s have no order", val_type(a), val_type(b));
    }
    render_leave(r);
    return order < 0 ? -1 : order > 0;
}

/* ---- dicts ---- */

/* Return the hash of a number. 1, 1.0 and True are one key in Python, so their hashes are equal. */
static uint32_t number_hash(struct val v)
{
    double d = val_as_real(v);
    int64_t i = v.kind == V_REAL ? 0 : number_int(v);
    if (v.kind == V_REAL && d == floor(d) && fabs(d) < 9e18)
        i = (int64_t)d;
    else if (v.kind == V_REAL)
        return (uint32_t)hash_bytes(&d, sizeof d, 1);
    return (uint32_t)hash_bytes(&i, sizeof i, 1);
}

/* Return the hash of a key. Fail the rendering if the value cannot be a key. */
static uint32_t val_hash(struct render *r, struct val v)
{
    uint32_t h = v.kind;
    switch (v.kind) {
    case V_UNDEFINED:
    case V_NONE:
        return h;
    case V_BOOL:
    case V_INT:
    case V_REAL:
        return number_hash(v);
    case V_TEXT:
        render_charge(r, v.n / 256);
        return (uint32_t)hash_bytes(v.n ? v.s : "", v.n, 0);
    case V_TUPLE:
        if (!render_enter(r)) return 0;
        for (uint32_t i = 0; i < v.list->n && r->rc == 0; i++)
            h = h * 31 + val_hash(r, v.list->v[i]);
        render_leave(r);
        return h;
    default:
        jinja_fail(r, "%s cannot be the key of a dict", val_type(v));
        return 0;
    }
}

/* Add pair i to the index. A free slot exists, because at most half of the slots are used. */
static void dict_index_add(struct dict *d, uint32_t i)
{
    uint32_t k = d->v[i].hash & (d->n_slot - 1);
    while (d->slot[k]) k = (k + 1) & (d->n_slot - 1);
    d->slot[k] = i + 1;
}

/* Return the index of the entry with that key; d->n if none. */
static uint32_t dict_seek(struct render *r, const struct dict *d, struct val key, uint32_t hash)
{
    if (d->n_slot == 0) {
        for (uint32_t i = 0; i < d->n; i++)
            if (d->v[i].hash == hash && val_equal(r, d->v[i].key, key)) return i;
        return d->n;
    }
    uint32_t k = hash & (d->n_slot - 1);
    for (; d->slot[k]; k = (k + 1) & (d->n_slot - 1)) {
        uint32_t i = d->slot[k] - 1;
        if (d->v[i].hash == hash && val_equal(r, d->v[i].key, key)) return i;
        /* a template may choose keys that collide, so each probe is charged */
        if (!render_charge(r, 1)) break;
    }
    return d->n;
}

/* Make room for one more entry in the array and in the index. Return false if memory runs out. */
static bool dict_room(struct render *r, struct dict *d)
{
    struct val_pair *room = render_grow(r, d->v, d->n, &d->cap, sizeof *room);
    if (!room) return false;
    d->v = room;
    /* at most half of the slots are used, so that a search is short; small dicts need no index */
    if (d->n >= 8 && d->n_slot < d->n * 2) {
        uint32_t *slot = render_push(r, (size_t)d->cap * 4, sizeof *slot);
        if (!slot) return false;
        d->slot = slot;
        d->n_slot = d->cap * 4;
        for (uint32_t i = 0; i < d->n; i++) dict_index_add(d, i);
    }
    return true;
}

/* An existing key keeps its place and its spelling (1 and 1.0). */
void dict_put(struct render *r, struct dict *d, struct val key, struct val value)
{
    uint32_t hash = r->rc == 0 ? val_hash(r, key) : 0;
    if (r->rc != 0) return;
    uint32_t i = dict_seek(r, d, key, hash);
    if (r->rc != 0) return;
    if (i < d->n) {
        d->v[i].value = value;
        return;
    }
    if (!dict_room(r, d)) return;
    d->v[d->n] = (struct val_pair){.key = key, .value = value, .hash = hash};
    d->n++;
    if (d->n_slot) dict_index_add(d, d->n - 1);
}

void dict_set(struct render *r, struct dict *d, const char *key, struct val value)
{
    dict_put(r, d, val_text(key, strlen(key)), value);
}

struct val *dict_find(struct render *r, const struct dict *d, struct val key)
{
    uint32_t hash = r->rc == 0 ? val_hash(r, key) : 0;
    if (r->rc != 0) return NULL;
    uint32_t i = dict_seek(r, d, key, hash);
    return i < d->n ? &d->v[i].value : NULL;
}

struct val *dict_find_text(struct render *r, const struct dict *d, const char *key)
{
    return dict_find(r, d, val_text(key, strlen(key)));
}

/* Rebuild the index, because later pairs move. The cost is charged before the work. */
bool dict_remove(struct render *r, struct dict *d, struct val key)
{
    uint32_t hash = r->rc == 0 ? val_hash(r, key) : 0;
    if (r->rc != 0) return false;
    uint32_t i = dict_seek(r, d, key, hash);
    if (i >= d->n || !render_charge(r, d->n + d->n_slot / 8)) return false;
    memmove(&d->v[i], &d->v[i + 1], (d->n - i - 1) * sizeof *d->v);
    d->n--;
    if (d->n_slot) memset(d->slot, 0, d->n_slot * sizeof *d->slot);
    for (uint32_t k = 0; d->n_slot && k < d->n; k++) dict_index_add(d, k);
    return true;
}

/* ---- from JSON, and iteration ---- */

/* Copy the items of a JSON list. */
static struct val list_from_json(struct render *r, const struct json *j)
{
    size_t n = json_count(j);
    struct val v = val_list(r, V_LIST, (uint32_t)n);
    for (size_t i = 0; i < n && r->rc == 0; i++)
        list_add(r, v.list, val_from_json(r, json_item(j, i)));
    return v;
}

/* Copy the entries of a JSON object. Keys and texts are borrowed from j. own_texts copies them if j
 * does not outlive the rendering. */
static struct val dict_from_json(struct render *r, const struct json *j)
{
    struct val v = val_dict(r, V_DICT);
    for (void *it = json_first(j); it && r->rc == 0; it = json_next(j, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        dict_put(r, v.dict, val_text(key, n), val_from_json(r, json_it_value(it)));
    }
    return v;
}

struct val val_from_json(struct render *r, const struct json *j)
{
    struct val v = VAL_NONE;
    size_t n;
    if (!render_enter(r)) return v;
    switch (json_kind(j)) {
    case JK_BOOL:
        v = val_bool(json_bool(j, false));
        break;
    case JK_INT:
        v = val_int(json_int(j, 0));
        break;
    case JK_REAL:
        v = val_real(json_real(j, 0));
        break;
    case JK_TEXT:
        v = val_text(json_text(j, &n), 0);
        v.n = (uint32_t)n;
        break;
    case JK_LIST:
        v = list_from_json(r, j);
        break;
    case JK_OBJECT:
        v = dict_from_json(r, j);
        break;
    default:
        break;
    }
    render_leave(r);
    return v;
}

/* Return the code points of a text as a list of texts. */
static struct list *code_points(struct render *r, struct val v)
{
    struct val out = val_list(r, V_LIST, text_count(r, v));
    for (size_t i = 0; i < v.n && r->rc == 0;) {
        size_t k = text_step(v.s + i, v.n - i);
        list_add(r, out.list, val_text(v.s + i, k));
        i += k;
    }
    return r->rc == 0 ? out.list : NULL;
}

/* Return a list itself, without a copy. */
struct list *val_iterate(struct render *r, struct val v)
{
    if (val_is_seq(v)) return v.list;
    if (v.kind == V_TEXT) return code_points(r, v);
    struct val out = val_list(r, V_LIST, v.kind == V_DICT ? v.dict->n : 0);
    if (v.kind == V_DICT)
        for (uint32_t i = 0; i < v.dict->n && r->rc == 0; i++)
            list_add(r, out.list, v.dict->v[i].key);
    else if (v.kind != V_UNDEFINED)
        jinja_fail(r, "%s cannot be iterated over", val_type(v));
    return r->rc == 0 ? out.list : NULL;
}
