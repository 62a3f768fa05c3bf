/* jinja_is.c - tests, used as `value is name(arguments)`. Each test returns a bool. An unknown name
 * of a test is an error of the rendering, not of parsing (eval_test). */
#include "chat/jinja_impl.h"

#include <string.h>

#define IS(name, id, params) static builtin_fn is_##id;
#include "chat/is.def"
#undef IS

/* Define a test that uses only self. */
#define IS_SIMPLE(id, condition)                                                                   \
    static struct val is_##id(struct render *r, struct val self, const struct args *a)             \
    {                                                                                              \
        (void)r, (void)a;                                                                          \
        return val_bool(condition);                                                                \
    }

IS_SIMPLE(boolean, self.kind == V_BOOL)
/* as in jinja2, undefined is callable, but the call fails */
IS_SIMPLE(callable, self.kind == V_UNDEFINED || self.kind == V_MACRO || self.kind == V_BUILTIN ||
                        self.kind == V_BOUND || self.kind == V_JOINER)
IS_SIMPLE(defined, self.kind != V_UNDEFINED)
IS_SIMPLE(undefined, self.kind == V_UNDEFINED)
IS_SIMPLE(escaped, self.kind == V_TEXT && self.safe)
IS_SIMPLE(false, self.kind == V_BOOL && !self.b)
IS_SIMPLE(true, self.kind == V_BOOL && self.b)
IS_SIMPLE(float, self.kind == V_REAL)
IS_SIMPLE(integer, self.kind == V_INT)
IS_SIMPLE(mapping, self.kind == V_DICT)
IS_SIMPLE(none, self.kind == V_NONE)
IS_SIMPLE(number, val_is_number(self))
IS_SIMPLE(string, self.kind == V_TEXT)
IS_SIMPLE(iterable, self.kind == V_UNDEFINED || self.kind == V_TEXT || val_is_seq(self) ||
                        self.kind == V_DICT)
IS_SIMPLE(sequence, self.kind == V_UNDEFINED || self.kind == V_TEXT || val_is_seq(self) ||
                        self.kind == V_DICT)
IS_SIMPLE(filter, self.kind == V_TEXT && filter_find(self.s, self.n) != NULL)
IS_SIMPLE(test, self.kind == V_TEXT && is_find(self.s, self.n) != NULL)

/* Return the first argument of the test. */
static struct val right_side(struct render *r, const struct args *a)
{
    return a->n > 0      ? a->v[0]
           : a->n_kw > 0 ? a->kw[0].value
                         : jinja_fail(r, "this test needs an argument");
}

/* Return an integer operand. Fail the rendering for other kinds. */
static int64_t whole(struct render *r, struct val v)
{
    if (v.kind == V_BOOL) return v.b;
    if (v.kind == V_INT) return v.i;
    jinja_fail(r, "this test needs an integer, not %s", val_type(v));
    return 0;
}

/* Return true if the argument divides self. -1 has a separate case, because INT64_MIN % -1
 * overflows. */
static struct val is_divisibleby(struct render *r, struct val self, const struct args *a)
{
    int64_t x = whole(r, self), by = whole(r, right_side(r, a));
    if (by == 0) return jinja_fail(r, "division by zero");
    return val_bool(by == -1 || x % by == 0);
}

static struct val is_odd(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return val_bool(whole(r, self) % 2 != 0);
}

static struct val is_even(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return val_bool(whole(r, self) % 2 == 0);
}

static struct val is_eq(struct render *r, struct val self, const struct args *a)
{
    return val_bool(val_equal(r, self, right_side(r, a)));
}

static struct val is_ne(struct render *r, struct val self, const struct args *a)
{
    return val_bool(!val_equal(r, self, right_side(r, a)));
}

static struct val is_ge(struct render *r, struct val self, const struct args *a)
{
    return val_bool(val_compare(r, self, right_side(r, a)) >= 0);
}

static struct val is_gt(struct render *r, struct val self, const struct args *a)
{
    return val_bool(val_compare(r, self, right_side(r, a)) > 0);
}

static struct val is_le(struct render *r, struct val self, const struct args *a)
{
    return val_bool(val_compare(r, self, right_side(r, a)) <= 0);
}

static struct val is_lt(struct render *r, struct val self, const struct args *a)
{
    return val_bool(val_compare(r, self, right_side(r, a)) < 0);
}

static struct val is_in(struct render *r, struct val self, const struct args *a)
{
    return val_bool(val_contains(r, right_side(r, a), self));
}

/* Implement Python's "is" (identity). None, bools and small values of one kind are identical if
 * they are equal. */
static struct val is_sameas(struct render *r, struct val self, const struct args *a)
{
    struct val other = right_side(r, a);
    if (self.kind == V_LIST || self.kind == V_DICT)
        return val_bool(self.kind == other.kind && self.list == other.list);
    return val_bool(self.kind == other.kind && val_equal(r, self, other));
}

/* Implement str.islower() and isupper(). Return true if at least one letter has the case `mode`,
 * and no letter has the other case. */
static struct val has_case(struct render *r, struct val self, char mode)
{
    struct val v = val_str(r, self), same = text_case(r, v, mode),
               other = text_case(r, v, mode == 'l' ? 'u' : 'l');
    return val_bool(r->rc == 0 && val_equal(r, v, same) && !val_equal(r, v, other));
}

static struct val is_lower(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return has_case(r, self, 'l');
}

static struct val is_upper(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return has_case(r, self, 'u');
}

const struct builtin *is_find(const char *name, size_t n)
{
    static const struct builtin tests[] = {
#define IS(text, id, params) {text, params, is_##id},
#include "chat/is.def"
#undef IS
    };
    return builtin_find(tests, sizeof tests / sizeof *tests, name, n);
}
