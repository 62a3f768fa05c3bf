/* jinja_global.c - global functions: those of jinja2, and those of transformers for chat templates.
 * Each function ignores self. Objects with a state (namespace, cycler, joiner) are values of their
 * own kinds. */
#include "chat/jinja_impl.h"

#include <string.h>
#include <time.h>

#define GLOBAL(name, id, params) static builtin_fn global_##id;
#include "chat/global.def"
#undef GLOBAL

enum { RANGE_MAX = 100000 };

/* Return a list of the numbers of a range. The maximum length is that of jinja2's sandbox
 * (MAX_RANGE). */
static struct val global_range(struct render *r, struct val self, const struct args *a)
{
    (void)self;
    int64_t start = a->n > 1 ? arg_int(r, a, 0, "start", 0) : 0;
    int64_t stop = arg_int(r, a, a->n > 1, "stop", 0), step = arg_int(r, a, 2, "step", 1);
    struct val out = val_list(r, V_LIST, 0);
    if (a->n == 0) return jinja_fail(r, "range needs an argument");
    if (step == 0) return jinja_fail(r, "range: the step must be an integer other than 0, got 0");
    for (int64_t i = start; (step > 0 ? i < stop : i > stop) && render_charge(r, 1);) {
        if (out.list->n >= RANGE_MAX)
            return jinja_fail(r, "range: more than %d numbers", RANGE_MAX);
        list_add(r, out.list, val_int(i));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return out;
}

/* Build the dict by update, which accepts pairs and keywords. */
static struct val dict_of(struct render *r, uint8_t kind, const struct args *a)
{
    struct val v = val_dict(r, V_DICT);
    if (r->rc == 0) method_find(v, "update", 6)->fn(r, v, a);
    v.kind = r->rc == 0 ? kind : V_UNDEFINED;
    return v;
}

static struct val global_dict(struct render *r, struct val self, const struct args *a)
{
    (void)self;
    return dict_of(r, V_DICT, a);
}

/* Return a namespace: a dict with attributes that a template can set, also inside a loop. */
static struct val global_namespace(struct render *r, struct val self, const struct args *a)
{
    (void)self;
    return dict_of(r, V_NAMESPACE, a);
}

/* Return a cycler or joiner without items. */
static struct val turn_new(struct render *r, uint8_t kind)
{
    struct cycler *t = render_push(r, 1, sizeof *t);
    return t ? (struct val){.kind = kind, .turn = t} : VAL_UNDEFINED;
}

static struct val global_cycler(struct render *r, struct val self, const struct args *a)
{
    (void)self;
    if (a->n == 0) return jinja_fail(r, "cycler needs arguments");
    struct val v = turn_new(r, V_CYCLER);
    for (uint32_t i = 0; i < a->n && r->rc == 0; i++) list_add(r, &v.turn->items, a->v[i]);
    return v;
}

static struct val global_joiner(struct render *r, struct val self, const struct args *a)
{
    (void)self;
    struct val separator = arg_text(r, a, 0, "sep", ", "), v = turn_new(r, V_JOINER);
    if (r->rc == 0) list_add(r, &v.turn->items, separator);
    return v;
}

/* Fail the rendering. Templates call raise_exception to reject conversations. Its argument is the
 * error's sentence. */
static struct val global_raise_exception(struct render *r, struct val self, const struct args *a)
{
    (void)self;
    struct val v = a->n > 0 ? val_str(r, a->v[0]) : val_text("raise_exception", 15);
    return jinja_fail(r, "%.*s", v.n > 300 ? 300 : (int)v.n, v.kind == V_TEXT ? v.s : "");
}

/* Format one conversion "%X" or "%-X" with the C library. Widths are ignored. */
static size_t out_time(struct render *r, const char *s, size_t n, const struct tm *tm)
{
    char format[4] = "%", text[128];
    size_t i = 1, k = 1;
    if (i < n && s[i] == '-') format[k++] = s[i++];
    if (i >= n) return n;
    format[k] = s[i];
    if (s[i] == 'f')
        buf_add_text(&r->out, "000000");
    else
        buf_add(&r->out, text, strftime(text, sizeof text, format, tm));
    return i + 1;
}

/* Return the time of the rendering by a format of strftime. r->now is fixed at the start of a
 * rendering, so that two calls in one prompt return the same time. */
static struct val global_strftime_now(struct render *r, struct val self, const struct args *a)
{
    (void)self;
    struct val format = arg_text(r, a, 0, "format", NULL);
    struct tm tm = {0};
    time_t now = (time_t)r->now;
    size_t mark = r->out.n;
    if (r->rc != 0 || !localtime_r(&now, &tm)) return VAL_UNDEFINED;
    for (size_t i = 0; i < format.n && render_charge(r, 4);) {
        if (format.s[i] == '%')
            i += out_time(r, format.s + i, format.n - i, &tm);
        else
            buf_add_char(&r->out, format.s[i++]);
    }
    return out_take(r, mark);
}

const struct builtin *global_find(const char *name, size_t n)
{
    static const struct builtin globals[] = {
#define GLOBAL(text, id, params) {text, params, global_##id},
#include "chat/global.def"
#undef GLOBAL
    };
    return builtin_find(globals, sizeof globals / sizeof *globals, name, n);
}
