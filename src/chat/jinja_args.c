/* jinja_args.c - arguments of builtin functions: the check of their numbers and names, and access.
 *
 * Each row of filter.def, method.def, global.def and is.def has the parameters of the function, as
 * in Python: names with blanks between them.
 *
 *   old new count=   old and new are required, count is not
 *   sub start= /     no argument before the slash may be given by its name
 *   *                any number of further positional arguments
 *   **               any other names
 *
 * A call that does not fit fails the rendering, as in jinja2: an argument without effect is a
 * mistake of the template. */
#include "chat/jinja_impl.h"

#include <string.h>

/* ---- check ---- */

/* A parameter, and what follows it. */
struct param {
    const char *name; /* borrowed [n] */
    size_t n;
    bool optional, by_name;
};

/* Set *p to the first parameter of the list, and move the list to its rest. Return false if no
 * parameter remains. */
static bool param_next(struct param *p, const char **list)
{
    const char *s = *list + strspn(*list, " ");
    while (*s == '*' || *s == '/') s += strcspn(s, " "), s += strspn(s, " ");
    p->name = s;
    p->n = strcspn(s, " =");
    p->optional = s[p->n] == '=';
    *list = s + p->n + p->optional;
    p->by_name = !strchr(*list, '/');
    return p->n > 0;
}

/* Return the keyword argument with the parameter's name; NULL if none. */
static const struct val *param_keyword(const struct param *p, const struct args *a)
{
    for (uint32_t k = 0; p->by_name && k < a->n_kw; k++)
        if (a->kw[k].name.n == p->n && memcmp(a->kw[k].name.s, p->name, p->n) == 0)
            return &a->kw[k].value;
    return NULL;
}

/* Fail the rendering because of keyword arguments that have no parameter. */
static void refuse_keyword(struct render *r, const struct builtin *fn, const struct args *a)
{
    for (uint32_t k = 0; k < a->n_kw; k++) {
        const struct val name = a->kw[k].name;
        const char *rest = fn->params;
        struct param p;
        bool known = false;
        while (!known && param_next(&p, &rest))
            known = p.by_name && p.n == name.n && memcmp(p.name, name.s, p.n) == 0;
        if (!known)
            jinja_fail(r, "%s has no argument \"%.*s\"", fn->name,
                       name.kind == V_TEXT ? (int)name.n : 0, name.kind == V_TEXT ? name.s : "");
    }
}

bool args_check(struct render *r, const struct builtin *fn, const struct args *a)
{
    const char *rest = fn->params;
    const bool any = strstr(fn->params, "* ") || strcmp(fn->params, "*") == 0,
               any_name = strstr(fn->params, "**") != NULL;
    uint32_t n = 0, n_named = 0;
    struct param p;
    for (; r->rc == 0 && param_next(&p, &rest); n++) {
        const bool named = param_keyword(&p, a) != NULL;
        n_named += named;
        if (named && n < a->n)
            jinja_fail(r, "%s has two values for the argument \"%.*s\"", fn->name, (int)p.n,
                       p.name);
        if (!named && n >= a->n && !p.optional)
            jinja_fail(r, "%s needs the argument \"%.*s\"", fn->name, (int)p.n, p.name);
    }
    if (a->n > n && !any)
        jinja_fail(r, "%s must have at most %u arguments, got %u", fn->name, n, a->n);
    if (a->n_kw > n_named && !any_name) refuse_keyword(r, fn, a);
    return r->rc == 0;
}

struct val builtin_call(struct render *r, const struct builtin *fn, struct val self,
                        const struct args *a)
{
    return args_check(r, fn, a) ? fn->fn(r, self, a) : VAL_UNDEFINED;
}

/* ---- access ---- */

/* Return argument i or the keyword argument `name`. NULL if both are absent. The index of an
 * argument is its position in Python's signature. */
const struct val *arg(const struct args *a, uint32_t i, const char *name)
{
    if (i < a->n) return &a->v[i];
    for (uint32_t k = 0; name && k < a->n_kw; k++)
        if (text_is(a->kw[k].name, name)) return &a->kw[k].value;
    return NULL;
}

bool arg_bool(const struct args *a, uint32_t i, const char *name, bool fallback)
{
    const struct val *v = arg(a, i, name);
    return v ? val_truth(*v) : fallback;
}

/* Return the fallback for None. A float is an error, as in Python. */
int64_t arg_int(struct render *r, const struct args *a, uint32_t i, const char *name,
                int64_t fallback)
{
    const struct val *v = arg(a, i, name);
    if (!v || v->kind == V_NONE) return fallback;
    if (v->kind == V_INT) return v->i;
    if (v->kind == V_BOOL) return v->b;
    jinja_fail(r, "argument \"%s\" is %s, not an integer", name ? name : "", val_type(*v));
    return fallback;
}

/* The argument is required if the fallback is NULL. */
struct val arg_text(struct render *r, const struct args *a, uint32_t i, const char *name,
                    const char *fallback)
{
    const struct val *v = arg(a, i, name);
    if (v && v->kind == V_TEXT) return *v;
    if (v && v->kind != V_NONE)
        return jinja_fail(r, "argument \"%s\" is %s, not a string", name ? name : "", val_type(*v));
    if (!fallback) return jinja_fail(r, "argument \"%s\" is missing", name ? name : "");
    return val_text(fallback, strlen(fallback));
}

struct args args_tail(const struct args *a, uint32_t n_skip)
{
    struct args tail = *a;
    if (n_skip > tail.n) n_skip = tail.n;
    if (n_skip) tail.v += n_skip;
    tail.n -= n_skip;
    return tail;
}
