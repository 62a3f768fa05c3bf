/* jinja_op.c - Python's operators on values (+ - * / // % ** ~ in), and access by [] and
 * attributes.
 *
 *   a       b       operators             result
 *   number  number  + - * // % **         int; float if an operand is a float; / gives a float
 *   text    text    +                     text
 *   text    any     %                     text: "%d of %d" % (a, b)
 *   list    list    +                     list; a tuple with a tuple
 *   text    int     *                     repetition, also of lists and tuples, in both orders
 *   any     any     ~                     text of both
 *
 * Other pairs fail. An integer has 64 bits. An overflow fails, because Python's integers have no
 * limit. Division rounds down and a remainder has the sign of the divisor: -7 // 2 is -4, -7 % 2 is
 * 1. */
#include "chat/jinja_impl.h"

#include <math.h>
#include <string.h>

/* ---- arithmetic ---- */

/* Fail for kinds without the operator. The message names the operand if an operand is undefined. */
static struct val refuse(struct render *r, const char *op, struct val a, struct val b)
{
    struct val undefined = a.kind == V_UNDEFINED ? a : b;
    if (undefined.kind == V_UNDEFINED && undefined.n > 0)
        return jinja_fail(r, "\"%.*s\" is undefined", (int)undefined.n, undefined.s);
    return jinja_fail(r, "%s is not possible between %s and %s", op, val_type(a), val_type(b));
}

/* Return a / b, rounded down. C rounds to zero. */
static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

/* Return base ** exponent by squaring. A negative exponent gives a float, as in Python. */
static struct val int_power(struct render *r, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    if (exponent < 0) return val_real(pow((double)base, (double)exponent));
    while (exponent > 0) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) break;
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) break;
    }
    /* the exponent is above 0 only after an overflow */
    return exponent == 0 ? val_int(result) : jinja_fail(r, "an integer does not fit 64 bits");
}

/* Return a op b for integers. An overflow fails the rendering, because Python's integers are
 * unlimited and a wrapped result would be wrong. */
static struct val int_binary(struct render *r, int op, int64_t a, int64_t b)
{
    int64_t x = 0;
    bool overflow = false;
    if ((op == '/' || op == '%' || op == OP('/', '/')) && b == 0)
        return jinja_fail(r, "division by zero");
    switch (op) {
    case '+':
        overflow = __builtin_add_overflow(a, b, &x);
        break;
    case '-':
        overflow = __builtin_sub_overflow(a, b, &x);
        break;
    case '*':
        overflow = __builtin_mul_overflow(a, b, &x);
        break;
    case '/':
        return val_real((double)a / (double)b);
    case '%':
        /* INT64_MIN / -1 traps on x86 */
        x = b == -1 ? 0 : a - floor_div(a, b) * b;
        break;
    case OP('/', '/'):
        overflow = b == -1 && a == INT64_MIN;
        x = overflow ? 0 : floor_div(a, b);
        break;
    default:
        return int_power(r, a, b);
    }
    return overflow ? jinja_fail(r, "an integer does not fit 64 bits") : val_int(x);
}

/* Return a op b for doubles. Division by zero fails the rendering, as in Python. */
static struct val real_binary(struct render *r, int op, double a, double b)
{
    if ((op == '/' || op == '%' || op == OP('/', '/')) && b == 0)
        return jinja_fail(r, "division by zero");
    switch (op) {
    case '+':
        return val_real(a + b);
    case '-':
        return val_real(a - b);
    case '*':
        return val_real(a * b);
    case '/':
        return val_real(a / b);
    case '%':
        /* the remainder has the sign of the divisor, as in Python; the result of fmod has the sign
         * of a */
        return val_real(a - floor(a / b) * b);
    case OP('/', '/'):
        return val_real(floor(a / b));
    default:
        return val_real(pow(a, b));
    }
}

static struct val number_binary(struct render *r, int op, struct val a, struct val b)
{
    if (a.kind == V_REAL || b.kind == V_REAL)
        return real_binary(r, op, val_as_real(a), val_as_real(b));
    return int_binary(r, op, a.kind == V_BOOL ? a.b : a.i, b.kind == V_BOOL ? b.b : b.i);
}

/* ---- sequences ---- */

/* Copy a to a new growing text, and put that text first in the list. */
static struct growing *growing_new(struct render *r, struct val a, uint32_t n_more)
{
    /* twice the size, so that a loop of s = s + t copies each byte a constant number of times */
    size_t cap = ((size_t)a.n + n_more) * 2;
    char *s = cap < UINT32_MAX ? render_push(r, cap, 1) : NULL;
    if (!s) {
        jinja_fail_code(r, ERR_LIMIT, "a text is too large");
        return NULL;
    }
    if (a.n > 0) memcpy(s, a.s, a.n);
    memmove(r->growing + 1, r->growing, (N_GROWING - 1) * sizeof *r->growing);
    r->growing[0] = (struct growing){.s = s, .n = a.n, .cap = (uint32_t)cap};
    return r->growing;
}

/* Return the growing text that is exactly a and has room for n_more bytes. Put the text first in
 * the list. NULL if none. */
static struct growing *growing_find(struct render *r, struct val a, uint32_t n_more)
{
    for (int i = 0; i < N_GROWING; i++) {
        struct growing g = r->growing[i];
        /* only the longest text may grow, because other texts would overwrite its bytes */
        if (g.s == a.s && g.n == a.n && g.cap - g.n >= n_more) {
            memmove(r->growing + 1, r->growing, (size_t)i * sizeof g);
            r->growing[0] = g;
            return r->growing;
        }
    }
    return NULL;
}

/* Templates build a prompt by s = s + t in a loop. Copies would take quadratic time; growing texts
 * take linear time. The old value keeps its length, and the new bytes follow in the same memory. */
struct val val_concat(struct render *r, struct val a, struct val b)
{
    if (b.n == 0) return a;
    if (a.n == 0) return b;
    struct growing *g = growing_find(r, a, b.n);
    if (!g && render_charge(r, a.n / 256)) g = growing_new(r, a, b.n);
    if (!g || !render_charge(r, b.n / 256)) return VAL_UNDEFINED;
    memcpy(g->s + g->n, b.s, b.n);
    g->n += b.n;
    return val_text(g->s, g->n);
}

static struct val list_concat(struct render *r, struct val a, struct val b)
{
    struct val v = val_list(r, a.kind, a.list->n + b.list->n);
    render_charge(r, (a.list->n + b.list->n) / 8);
    for (uint32_t i = 0; i < a.list->n && r->rc == 0; i++) list_add(r, v.list, a.list->v[i]);
    for (uint32_t i = 0; i < b.list->n && r->rc == 0; i++) list_add(r, v.list, b.list->v[i]);
    return v;
}

/* Return a text n times. A negative count gives an empty text. */
static struct val text_repeat(struct render *r, struct val v, int64_t count)
{
    size_t mark = r->out.n;
    out_repeat(r, v.s, v.n, count);
    return out_take(r, mark);
}

/* Return the items of a list n times. Each round is charged by its items, so the limit of steps
 * stops a large count. */
static struct val list_repeat(struct render *r, struct val v, int64_t count)
{
    struct val out = val_list(r, v.kind, 0);
    for (int64_t i = 0; i < count && v.list->n > 0 && render_charge(r, v.list->n); i++)
        for (uint32_t k = 0; k < v.list->n; k++) list_add(r, out.list, v.list->v[k]);
    return out;
}

static struct val val_repeat(struct render *r, struct val v, struct val count)
{
    int64_t n = count.kind == V_BOOL ? count.b : count.i;
    return v.kind == V_TEXT ? text_repeat(r, v, n) : list_repeat(r, v, n);
}

struct val val_binary(struct render *r, int op, struct val a, struct val b)
{
    bool a_count = a.kind == V_INT || a.kind == V_BOOL,
         b_count = b.kind == V_INT || b.kind == V_BOOL;
    const char name[3] = {op > 255 ? (char)(op >> 8) : (char)op, op > 255 ? (char)op : 0, 0};
    if (op == '~') return val_concat(r, val_str(r, a), val_str(r, b));
    if (val_is_number(a) && val_is_number(b)) return number_binary(r, op, a, b);
    if (op == '+' && a.kind == V_TEXT && b.kind == V_TEXT) return val_concat(r, a, b);
    if (op == '+' && val_is_seq(a) && a.kind == b.kind) return list_concat(r, a, b);
    if (op == '*' && (a.kind == V_TEXT || val_is_seq(a)) && b_count) return val_repeat(r, a, b);
    if (op == '*' && (b.kind == V_TEXT || val_is_seq(b)) && a_count) return val_repeat(r, b, a);
    if (op == '%' && a.kind == V_TEXT) {
        struct args args = {.v = &b, .n = 1};
        if (b.kind == V_TUPLE) args = (struct args){.v = b.list->v, .n = b.list->n};
        /* as in Python, a list or dict may have more items than the format uses */
        return text_format_percent(r, a, &args, b.kind != V_LIST && b.kind != V_DICT);
    }
    return refuse(r, name, a, b);
}

bool val_contains(struct render *r, struct val hay, struct val needle)
{
    if (hay.kind == V_TEXT && needle.kind == V_TEXT) return text_find(r, hay, 0, needle) != NULL;
    if (hay.kind == V_DICT) return dict_find(r, hay.dict, needle) != NULL;
    if (val_is_seq(hay)) {
        for (uint32_t i = 0; i < hay.list->n && r->rc == 0; i++)
            if (val_equal(r, hay.list->v[i], needle)) return true;
        return false;
    }
    if (hay.kind != V_UNDEFINED) refuse(r, "in", needle, hay);
    return false;
}

/* ---- access ---- */

/* Return undefined with the name of the missing attribute, for the message of a later use. */
static struct val undefined_named(struct val name)
{
    return name.kind == V_TEXT ? (struct val){.kind = V_UNDEFINED, .s = name.s, .n = name.n}
                               : VAL_UNDEFINED;
}

/* Return an attribute of the variable `loop`; undefined if absent, such as previtem in the first
 * round. */
static struct val loop_attr(const struct loop *l, struct val name)
{
    uint32_t i = l->i, n = l->n;
    const struct {
        const char *name; /* static */
        int64_t value;
    } numbers[] = {{"index", i + 1},         {"index0", i}, {"revindex", n - i},
                   {"revindex0", n - i - 1}, {"length", n}, {"depth", l->level + 1},
                   {"depth0", l->level}};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (text_is(name, numbers[k].name)) return val_int(numbers[k].value);
    if (text_is(name, "first")) return val_bool(i == 0);
    if (text_is(name, "last")) return val_bool(i + 1 == n);
    if (text_is(name, "previtem") && i > 0) return l->item[i - 1];
    if (text_is(name, "nextitem") && i + 1 < n) return l->item[i + 1];
    return undefined_named(name);
}

/* Return a method of v as a bound value; undefined if none. */
static struct val method_of(struct render *r, struct val v, struct val name)
{
    const struct builtin *method = name.kind == V_TEXT ? method_find(v, name.s, name.n) : NULL;
    if (!method) return undefined_named(name);
    struct bound *bound = render_push(r, 1, sizeof *bound);
    if (!bound) return VAL_UNDEFINED;
    *bound = (struct bound){.self = v, .method = method};
    return (struct val){.kind = V_BOUND, .bound = bound};
}

static struct val fail_undefined(struct render *r, struct val v)
{
    return jinja_fail(r, "\"%.*s\" is undefined", (int)v.n, v.n ? v.s : "");
}

/* Return true if a value of this kind may be a key. The kinds up to V_TEXT are the scalars. */
static bool is_key(struct val v)
{
    return v.kind <= V_TEXT || v.kind == V_TUPLE;
}

/* Methods precede fields in a.b, so that the method `items` of a dict with the key "items" can be
 * called. Entries precede methods in a["items"] (val_item). An absent field is undefined. */
struct val val_attr(struct render *r, struct val v, struct val name)
{
    const struct val *field = NULL;
    if (r->rc != 0) return VAL_UNDEFINED;
    if (v.kind == V_UNDEFINED) return fail_undefined(r, v);
    struct val method = method_of(r, v, name);
    if (method.kind == V_BOUND) return method;
    if (v.kind == V_LOOP) return loop_attr(v.loop, name);
    if (v.kind == V_DICT || v.kind == V_NAMESPACE) field = dict_find(r, v.dict, name);
    return field ? *field : method;
}

/* Return a[b] as an entry, otherwise as an attribute, otherwise as a position. A position outside
 * of the sequence is undefined, in contrast to Python's error. */
struct val val_item(struct render *r, struct val v, struct val index)
{
    const struct val *field = NULL;
    if (r->rc != 0) return VAL_UNDEFINED;
    if (v.kind == V_UNDEFINED) return fail_undefined(r, v);
    if (v.kind == V_DICT && is_key(index)) field = dict_find(r, v.dict, index);
    if (field) return *field;
    if (index.kind == V_TEXT) return val_attr(r, v, index);
    if (index.kind != V_INT && index.kind != V_BOOL) return VAL_UNDEFINED;
    if (v.kind != V_TEXT && !val_is_seq(v)) return VAL_UNDEFINED;
    int64_t i = index.kind == V_BOOL ? index.b : index.i;
    int64_t n = v.kind == V_TEXT ? text_count(r, v) : v.list->n;
    if (i < 0) i += n;
    if (i < 0 || i >= n) return VAL_UNDEFINED;
    if (v.kind != V_TEXT) return v.list->v[i];
    size_t at = text_offset(r, v, (uint32_t)i);
    return val_text(v.s + at, text_step(v.s + at, v.n - at));
}

/* Return one part of a path "a.0.b": an int if the part is a number of at most 9 digits, otherwise
 * a text. */
static struct val path_part(const char *s, size_t n)
{
    int64_t i = 0;
    if (n == 0 || n > 9) return val_text(s, n);
    for (size_t k = 0; k < n; k++) {
        if (s[k] < '0' || s[k] > '9') return val_text(s, n);
        i = i * 10 + (s[k] - '0');
    }
    return val_int(i);
}

struct val val_path(struct render *r, struct val v, struct val path)
{
    if (path.kind != V_TEXT) return val_item(r, v, path);
    render_charge(r, path.n / 64);
    for (size_t i = 0; i <= path.n && render_charge(r, 1);) {
        const char *dot = i < path.n ? memchr(path.s + i, '.', path.n - i) : NULL;
        size_t end = dot ? (size_t)(dot - path.s) : path.n;
        v = val_item(r, v, path_part(path.s + i, end - i));
        i = end + 1;
    }
    return v;
}

/* ---- slices ---- */

/* Return a bound of a slice in [0, n], or in [-1, n - 1] if the step is negative. Negative bounds
 * count from the end, and bounds outside are clamped, as in Python. */
static int64_t slice_bound(struct render *r, struct val v, int64_t n, int64_t step,
                           int64_t fallback)
{
    if (v.kind == V_NONE) return fallback;
    if (v.kind != V_INT && v.kind != V_BOOL) {
        jinja_fail(r, "a slice needs integers, not %s", val_type(v));
        return 0;
    }
    int64_t i = v.kind == V_BOOL ? v.b : v.i, low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    if (i < 0) i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

/* Return a slice of a text with step 1. The slice borrows the bytes, so s[1:] copies nothing. */
static struct val slice_contiguous(struct render *r, struct val v, int64_t start, int64_t stop)
{
    size_t from = text_offset(r, v, (uint32_t)start);
    struct val rest = val_text(v.s + from, v.n - from);
    return val_text(rest.s, text_offset(r, rest, (uint32_t)(stop > start ? stop - start : 0)));
}

struct val val_slice(struct render *r, struct val v, const struct val bound[3])
{
    if (r->rc != 0) return VAL_UNDEFINED;
    if (v.kind == V_UNDEFINED) return fail_undefined(r, v);
    if (v.kind != V_TEXT && !val_is_seq(v))
        return jinja_fail(r, "%s cannot be sliced", val_type(v));
    if (v.kind != V_TEXT && !render_charge(r, v.list->n / 8)) return VAL_UNDEFINED;
    int64_t n = v.kind == V_TEXT ? text_count(r, v) : v.list->n;
    int64_t step = bound[2].kind == V_NONE ? 1 : bound[2].kind == V_INT ? bound[2].i : 0;
    if (step == 0 || step == INT64_MIN)
        return jinja_fail(r, "a slice's step must be an integer other than 0, got %s",
                          bound[2].kind == V_INT ? "0 or the lowest integer" : val_type(bound[2]));
    int64_t start = slice_bound(r, bound[0], n, step, step < 0 ? n - 1 : 0);
    int64_t stop = slice_bound(r, bound[1], n, step, step < 0 ? -1 : n);
    if (r->rc != 0) return VAL_UNDEFINED;
    if (v.kind == V_TEXT && step == 1) return slice_contiguous(r, v, start, stop);
    const struct list *items = val_iterate(r, v);
    struct val out = val_list(r, v.kind == V_TUPLE ? V_TUPLE : V_LIST, 0);
    for (int64_t i = start; r->rc == 0 && (step > 0 ? i < stop : i > stop); i += step) {
        list_add(r, out.list, items->v[i]);
        if (step > n || step < -n) break;
    }
    if (v.kind != V_TEXT || r->rc != 0) return out;
    size_t mark = r->out.n;
    for (uint32_t i = 0; i < out.list->n; i++) buf_add(&r->out, out.list->v[i].s, out.list->v[i].n);
    return out_take(r, mark);
}
