/* jinja_eval.c - expressions: names, calls, and operators in the syntax tree.
 *
 * eval() dispatches by the kind of a node. jinja_op.c implements the operators on values.
 *
 *   name --> scopes, inner to outer --> globals (the context) --> builtin functions --> undefined
 *
 * An undefined name is a value with a name, not a failure. Such a value prints as nothing and is
 * false. Attributes, calls and arithmetic of an undefined value fail with the name in the message.
 * jinja2's default Undefined has the same properties, which templates use to test optional fields.
 *
 * Before an operation that may fail, r->at is reset to the offset of the operation's node. The
 * evaluation of the operands has changed r->at, and error messages must give the place of the
 * operator. */
#include "chat/jinja_impl.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

/* The code is ERR_ARG, because failures have their cause in the request, such as messages in a
 * wrong order. jinja_fail_code reports exceeded limits of the caller as ERR_LIMIT. */
struct val jinja_fail(struct render *r, const char *fmt, ...)
{
    struct err sentence = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence.text, sizeof sentence.text, fmt, ap);
    va_end(ap);
    jinja_fail_code(r, ERR_ARG, "%s", sentence.text);
    return VAL_UNDEFINED;
}

void jinja_fail_code(struct render *r, int code, const char *fmt, ...)
{
    struct err sentence = {0};
    if (r->rc != 0) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence.text, sizeof sentence.text, fmt, ap);
    va_end(ap);
    r->rc = jinja_err(r->err, code, r->source, r->at, "%s", sentence.text);
}

/* Steps measure work instead of time, so that a request fails at the same place on every machine.
 * Functions charge a share of their bytes: n / 256 for a memcpy, n / 2 for a slow loop. */
bool render_charge(struct render *r, uint64_t n_step)
{
    if (r->rc != 0) return false;
    r->n_step += n_step;
    if (r->n_step > r->step_max)
        jinja_fail_code(r, ERR_LIMIT, "rendering takes more than %llu steps",
                        (unsigned long long)r->step_max);
    return r->rc == 0;
}

/* A recursion counts as one step, so that a template that only recurses also ends. */
bool render_enter(struct render *r)
{
    if (!render_charge(r, 1)) return false;
    if (r->depth >= r->depth_max) {
        jinja_fail_code(r, ERR_LIMIT, "nested deeper than %d", r->depth_max);
        return false;
    }
    r->depth++;
    return true;
}

void render_leave(struct render *r)
{
    CHECK(r->depth > 0, "depth %d", r->depth);
    r->depth--;
}

/* ---- names ---- */

struct scope *scope_push(struct render *r, struct scope *up)
{
    CHECK(!up || up->n <= up->cap, "%u names, room for %u", up->n, up->cap);
    struct scope *s = render_push(r, 1, sizeof *s);
    if (!s) return NULL;
    s->up = up;
    r->scope = s;
    return s;
}

/* A linear search is enough, because scopes of templates have few names. Searches of large scopes
 * are charged. */
void scope_set(struct render *r, struct scope *s, uint32_t sym, struct val v)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->v[i].sym == sym) {
            s->v[i].val = v;
            return;
        }
    if (!render_charge(r, 1 + s->n / 16)) return;
    struct variable *room = render_grow(r, s->v, s->n, &s->cap, sizeof *room);
    if (!room) return;
    s->v = room;
    s->v[s->n++] = (struct variable){.sym = sym, .val = v};
}

const struct val *scope_find(struct render *r, const struct scope *s, uint32_t sym)
{
    for (; s; s = s->up) {
        render_charge(r, s->n / 16);
        for (uint32_t i = 0; i < s->n; i++)
            if (s->v[i].sym == sym) return &s->v[i].val;
    }
    return NULL;
}

/* Return the value of a name. The context and the builtins are the outermost scopes. A variable of
 * the context hides a builtin of the same name. */
static struct val eval_name(struct render *r, const struct node *n)
{
    const struct val *v = scope_find(r, r->scope, n->sym);
    struct val name = val_text(n->text, n->n);
    if (!v) v = dict_find(r, r->globals, name);
    if (v) return *v;
    const struct builtin *fn = global_find(n->text, n->n);
    if (fn) return (struct val){.kind = V_BUILTIN, .fn = fn};
    name.kind = V_UNDEFINED;
    return name;
}

/* ---- calls ---- */

/* Append a keyword argument as two items. eval_args reads the pairs as struct kwarg. */
static void add_keyword(struct render *r, struct list *kw, struct val name, struct val value)
{
    list_add(r, kw, name);
    list_add(r, kw, value);
}

/* Evaluate one argument of a call: x, name=x, *x (its items) or **x (its entries). */
static void eval_arg(struct render *r, const struct node *n, struct list *positional,
                     struct list *kw)
{
    struct val v = eval(r, n->a);
    if (n->op == '=') {
        add_keyword(r, kw, val_text(n->text, n->n), v);
    } else if (n->op == '*') {
        const struct list *items = val_iterate(r, v);
        for (uint32_t i = 0; items && i < items->n && r->rc == 0; i++)
            list_add(r, positional, items->v[i]);
    } else if (n->op == 0) {
        list_add(r, positional, v);
    } else if (v.kind == V_DICT) {
        for (uint32_t i = 0; i < v.dict->n && r->rc == 0; i++)
            add_keyword(r, kw, v.dict->v[i].key, v.dict->v[i].value);
    } else {
        jinja_fail(r, "expected a dict after \"**\", got %s", val_type(v));
    }
}

/* Evaluate the arguments in the order of the source, as Python does. */
static struct args eval_args(struct render *r, const struct node *first)
{
    struct list positional = {0}, kw = {0};
    for (const struct node *n = first; n && r->rc == 0; n = n->next)
        eval_arg(r, n, &positional, &kw);
    /* kw contains names and values alternately, so it is an array of struct kwarg */
    return (struct args){
        .v = positional.v, .n = positional.n, .kw = (struct kwarg *)kw.v, .n_kw = kw.n / 2};
}

/* Return an empty text at the first call and the separator at later calls. */
static struct val joiner_call(struct render *r, struct cycler *joiner, const struct args *args)
{
    if (args->n + args->n_kw > 0) return jinja_fail(r, "a joiner has no arguments");
    CHECK(joiner->items.n > 0, "call %u of a joiner without separator", joiner->i);
    return joiner->i++ ? joiner->items.v[0] : val_text("", 0);
}

struct val val_call(struct render *r, struct val callee, const struct args *args)
{
    switch (callee.kind) {
    case V_BUILTIN:
        return builtin_call(r, callee.fn, VAL_UNDEFINED, args);
    case V_BOUND:
        return builtin_call(r, callee.bound->method, callee.bound->self, args);
    case V_MACRO:
        return macro_call(r, callee.macro, args);
    case V_LOOP:
        return loop_call(r, callee.loop, args);
    case V_JOINER:
        return joiner_call(r, callee.turn, args);
    case V_UNDEFINED:
        return jinja_fail(r, "\"%.*s\" is undefined", (int)callee.n, callee.n ? callee.s : "");
    default:
        return jinja_fail(r, "%s cannot be called", val_type(callee));
    }
}

/* Evaluate a call. The callee is evaluated before its arguments, as in Python. */
static struct val eval_call(struct render *r, const struct node *n)
{
    struct val callee = eval(r, n->a);
    struct args args = eval_args(r, n->b);
    r->at = n->at;
    return r->rc == 0 ? val_call(r, callee, &args) : VAL_UNDEFINED;
}

/* Apply the filter n to self. The caller evaluates self, which is a body in a filter block. */
static struct val eval_filter(struct render *r, const struct node *n, struct val self)
{
    const struct builtin *filter = filter_find(n->text, n->n);
    struct args args = eval_args(r, n->b);
    r->at = n->at;
    /* the parser accepts unknown filters in branches that may never run */
    if (!filter) jinja_fail(r, "unknown filter \"%.*s\"", (int)n->n, n->text);
    return r->rc == 0 ? builtin_call(r, filter, self, &args) : VAL_UNDEFINED;
}

/* The last filter of x|f|g is the root of the tree, so the recursion applies the first filter
 * first. */
struct val eval_filters(struct render *r, const struct node *n, struct val body)
{
    if (!n || !render_enter(r)) return body;
    struct val v = eval_filter(r, n, eval_filters(r, n->a, body));
    render_leave(r);
    return v;
}

static struct val eval_test(struct render *r, const struct node *n)
{
    struct val self = eval(r, n->a);
    struct args args = eval_args(r, n->b);
    const struct builtin *test = is_find(n->text, n->n);
    r->at = n->at;
    if (!test) jinja_fail(r, "unknown test \"%.*s\"", (int)n->n, n->text);
    return r->rc == 0 ? builtin_call(r, test, self, &args) : VAL_UNDEFINED;
}

/* ---- literals and access ---- */

/* Evaluate a list or tuple literal to a new value at each run, because a template can change
 * lists. */
static struct val eval_items(struct render *r, const struct node *n)
{
    struct val v = val_list(r, n->kind == N_LIST ? V_LIST : V_TUPLE, 0);
    for (const struct node *item = n->a; item && r->rc == 0; item = item->next)
        list_add(r, v.list, eval(r, item));
    return v;
}

/* Evaluate a dict literal. A key that occurs twice has its first place and its last value. */
static struct val eval_dict(struct render *r, const struct node *n)
{
    struct val v = val_dict(r, V_DICT);
    for (const struct node *pair = n->a; pair && r->rc == 0; pair = pair->next) {
        struct val key = eval(r, pair->a);
        dict_put(r, v.dict, key, eval(r, pair->b));
    }
    return v;
}

/* Evaluate a[b] or a[b:c:d]. An empty subscript a[] is undefined, and never fails. */
static struct val eval_item(struct render *r, const struct node *n)
{
    struct val v = eval(r, n->a);
    if (!n->b) return VAL_UNDEFINED;
    if (n->b->kind != N_SLICE) {
        struct val index = eval(r, n->b);
        r->at = n->at;
        return val_item(r, v, index);
    }
    const struct node *part[3] = {n->b->a, n->b->b, n->b->c};
    struct val bound[3];
    for (int i = 0; i < 3; i++) bound[i] = part[i] ? eval(r, part[i]) : VAL_NONE;
    r->at = n->at;
    return val_slice(r, v, bound);
}

/* ---- operators ---- */

/* Evaluate +a or -a. A bool becomes an integer, as in Python. Compute -a as 0 - a, which checks the
 * overflow of -INT64_MIN. */
static struct val eval_sign(struct render *r, const struct node *n)
{
    struct val v = eval(r, n->a);
    r->at = n->at;
    if (!val_is_number(v)) return jinja_fail(r, "%s has no sign", val_type(v));
    if (v.kind == V_BOOL) v = val_int(v.b);
    if (n->kind == N_POS) return v;
    return v.kind == V_REAL ? val_real(-v.d) : val_binary(r, '-', val_int(0), v);
}

/* Compare by one operator. Equality accepts all kinds. A comparison of kinds without an order fails
 * the rendering. 'i' and 'n' are `in` and `not in`. */
static bool compare_one(struct render *r, int op, struct val a, struct val b)
{
    switch (op) {
    case OP('=', '='):
        return val_equal(r, a, b);
    case OP('!', '='):
        return !val_equal(r, a, b);
    case 'i':
        return val_contains(r, b, a);
    case 'n':
        return !val_contains(r, b, a);
    case '<':
        return val_compare(r, a, b) < 0;
    case '>':
        return val_compare(r, a, b) > 0;
    case OP('<', '='):
        return val_compare(r, a, b) <= 0;
    default:
        return val_compare(r, a, b) >= 0;
    }
}

static struct val eval_compare(struct render *r, const struct node *n)
{
    struct val left = eval(r, n->a);
    bool holds = true;
    for (const struct node *with = n->b; with && holds && r->rc == 0; with = with->next) {
        struct val right = eval(r, with->a);
        r->at = with->at;
        holds = compare_one(r, with->op, left, right);
        left = right;
    }
    return val_bool(holds);
}

/* Evaluate both operands and apply the operator. Only "and" and "or" skip an operand. */
static struct val eval_binary(struct render *r, const struct node *n)
{
    struct val a = eval(r, n->a), b = eval(r, n->b);
    r->at = n->at;
    return r->rc == 0 ? val_binary(r, n->op, a, b) : VAL_UNDEFINED;
}

/* Evaluate only the selected branch of an inline if. The result is undefined without an else. */
static struct val eval_cond(struct render *r, const struct node *n)
{
    if (val_truth(eval(r, n->b))) return eval(r, n->a);
    return n->c ? eval(r, n->c) : VAL_UNDEFINED;
}

/* Return one of the operands, not a bool. As in Python, `a or b` is a if a is true. */
static struct val eval_logic(struct render *r, const struct node *n)
{
    struct val left = eval(r, n->a);
    return val_truth(left) == (n->kind == N_OR) ? left : eval(r, n->b);
}

/* Evaluate a node by its kind. The node is never a statement. */
static struct val eval_kind(struct render *r, const struct node *n)
{
    switch (n->kind) {
    case N_CONST:
        return n->val;
    case N_NAME:
        return eval_name(r, n);
    case N_LIST:
    case N_TUPLE:
        return eval_items(r, n);
    case N_DICT:
        return eval_dict(r, n);
    case N_ATTR: {
        struct val v = eval(r, n->a);
        r->at = n->at;
        return val_attr(r, v, val_text(n->text, n->n));
    }
    case N_ITEM:
        return eval_item(r, n);
    case N_CALL:
        return eval_call(r, n);
    case N_FILTER:
        return eval_filter(r, n, eval(r, n->a));
    case N_TEST:
        return eval_test(r, n);
    case N_COND:
        return eval_cond(r, n);
    case N_AND:
    case N_OR:
        return eval_logic(r, n);
    case N_NOT:
        return val_bool(!val_truth(eval(r, n->a)));
    case N_NEG:
    case N_POS:
        return eval_sign(r, n);
    case N_BINARY:
        return eval_binary(r, n);
    case N_COMPARE:
        return eval_compare(r, n);
    default:
        return VAL_UNDEFINED;
    }
}

struct val eval(struct render *r, const struct node *n)
{
    if (!render_enter(r)) return VAL_UNDEFINED;
    r->at = n->at;
    struct val v = eval_kind(r, n);
    render_leave(r);
    return r->rc == 0 ? v : VAL_UNDEFINED;
}
