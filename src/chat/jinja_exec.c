/* jinja_exec.c - statements: output, loops, definitions.
 *
 * For loops, macros, call blocks, with blocks and generation blocks have a scope. An if statement
 * has no scope. The scope of a macro is inside the scope of its definition. All iterations of a
 * loop share one scope. The interpreter empties that scope between iterations. */
#include "chat/jinja_impl.h"

#include <string.h>

static void assign(struct render *r, const struct node *target, struct val v);

/* Assign the items of v to the targets of a tuple. The numbers of items and targets must be equal,
 * as in Python. */
static void assign_tuple(struct render *r, const struct node *target, struct val v)
{
    const struct list *items = val_iterate(r, v);
    uint32_t i = 0;
    for (const struct node *n = target->a; n && items && r->rc == 0; n = n->next, i++) {
        if (i < items->n)
            assign(r, n, items->v[i]);
        else
            jinja_fail(r, "not enough values to unpack: %u", items->n);
    }
    if (items && i < items->n) jinja_fail(r, "too many values to unpack: %u, not %u", items->n, i);
}

/* Assign to ns.name. Only namespaces have assignable attributes. A variable set in a loop is lost
 * at the loop's end, but an attribute of a namespace is kept. */
static void assign_attr(struct render *r, const struct node *target, struct val v)
{
    struct val object = eval(r, target->a);
    r->at = target->at;
    if (object.kind == V_NAMESPACE)
        dict_put(r, object.dict, val_text(target->text, target->n), v);
    else if (r->rc == 0)
        jinja_fail(r, "only attributes of a namespace can be set, not of %s", val_type(object));
}

static void assign(struct render *r, const struct node *target, struct val v)
{
    if (r->rc != 0) return;
    if (target->kind == N_NAME)
        scope_set(r, r->scope, target->sym, v);
    else if (target->kind == N_TUPLE)
        assign_tuple(r, target, v);
    else
        assign_attr(r, target, v);
}

struct val exec_capture(struct render *r, const struct node *body)
{
    size_t mark = r->out.n;
    exec_body(r, body);
    return out_take(r, mark);
}

/* Return the output of a body, executed in a new scope inside the current scope. */
static struct val exec_capture_inside(struct render *r, const struct node *body)
{
    struct scope *outer = r->scope;
    struct val v = scope_push(r, outer) ? exec_capture(r, body) : VAL_UNDEFINED;
    r->scope = outer;
    return v;
}

/* Execute a body in a new scope inside the current scope. break and continue also end the enclosing
 * statements. */
static enum flow exec_inside(struct render *r, const struct node *body)
{
    struct scope *outer = r->scope;
    enum flow flow = scope_push(r, outer) ? exec_body(r, body) : FLOW_NEXT;
    r->scope = outer;
    return flow;
}

/* ---- loops ---- */

/* Return the items for which the loop's condition is true. */
static struct list *loop_filter(struct render *r, const struct node *n, struct list *items)
{
    struct scope *outer = r->scope;
    struct val kept = val_list(r, V_LIST, 0);
    struct scope *s = scope_push(r, outer);
    for (uint32_t i = 0; s && i < items->n && r->rc == 0; i++) {
        s->n = 0;
        assign(r, n->a, items->v[i]);
        if (val_truth(eval(r, n->c))) list_add(r, kept.list, items->v[i]);
    }
    r->scope = outer;
    return r->rc == 0 ? kept.list : NULL;
}

/* Run the body once per item. `items` may grow during the loop if the body appends to the list; n
 * is the number at the start. */
static void loop_rounds(struct render *r, struct loop *loop)
{
    struct scope *s = scope_push(r, loop->scope);
    enum flow flow = FLOW_NEXT;
    for (loop->i = 0; s && loop->i < loop->n && flow != FLOW_BREAK && r->rc == 0; loop->i++) {
        r->scope = s;
        /* a variable set in one round is not visible in the next round */
        s->n = 0;
        scope_set(r, s, SYM_LOOP, (struct val){.kind = V_LOOP, .loop = loop});
        assign(r, loop->node->a, loop->item[loop->i]);
        flow = exec_body(r, loop->node->d);
    }
}

/* Run a for loop over the items of `over`, inside the scope `around`. The condition filters the
 * items first, so that loop.length and loop.last count only the items that pass. `else` runs if no
 * item passes. */
static void exec_loop(struct render *r, const struct node *n, struct val over, struct scope *around,
                      int level)
{
    struct scope *outer = r->scope;
    /* the body of a recursive call runs in the scope around the loop, not in the scope of the
     * call */
    struct list *items = r->rc == 0 ? val_iterate(r, over) : NULL;
    r->scope = around;
    if (items && n->c) items = loop_filter(r, n, items);
    struct loop *loop = items ? render_push(r, 1, sizeof *loop) : NULL;
    if (loop) {
        *loop = (struct loop){
            .item = items->v, .n = items->n, .level = level, .node = n, .scope = around};
        loop_rounds(r, loop);
        r->scope = around;
        if (items->n == 0 && n->e) exec_inside(r, n->e);
    }
    r->scope = outer;
}

/* Run the loop again over other items, one level deeper: {{ loop(item.children) }}. The output of
 * the loop is the value of the call. */
struct val loop_call(struct render *r, const struct loop *loop, const struct args *args)
{
    if (loop->node->op != 'r')
        return jinja_fail(r, "only a loop marked \"recursive\" can be called");
    if (args->n != 1) return jinja_fail(r, "loop() takes one iterable");
    size_t mark = r->out.n;
    exec_loop(r, loop->node, args->v[0], loop->scope, loop->level + 1);
    return out_take(r, mark);
}

static enum flow exec_for(struct render *r, const struct node *n)
{
    struct val over = eval(r, n->b);
    r->at = n->at;
    exec_loop(r, n, over, r->scope, 0);
    return FLOW_NEXT;
}

/* ---- macros ---- */

/* Return the keyword argument with the name of that node; NULL if none. */
static struct val *keyword(const struct args *args, const struct node *name)
{
    for (uint32_t i = 0; i < args->n_kw; i++)
        if (args->kw[i].name.n == name->n && memcmp(args->kw[i].name.s, name->text, name->n) == 0)
            return &args->kw[i].value;
    return NULL;
}

/* Set the parameters of a macro. Missing arguments have the default, or are undefined. A default
 * may use earlier parameters, because r->scope is s. The tuple varargs contains surplus
 * arguments. */
static void bind_params(struct render *r, struct scope *s, const struct node *macro,
                        const struct args *args)
{
    uint32_t i = 0;
    for (const struct node *n = macro->b; n && r->rc == 0; n = n->next, i++) {
        struct val *given = i < args->n ? &args->v[i] : keyword(args, n);
        struct val missing = {.kind = V_UNDEFINED, .s = n->text, .n = n->n};
        scope_set(r, s, n->sym, given ? *given : n->a ? eval(r, n->a) : missing);
    }
    struct val rest = val_list(r, V_TUPLE, 0);
    if (i < args->n && !(macro->op & USES_VARARGS))
        jinja_fail(r, "the macro \"%.*s\" must have at most %u arguments, got %u", (int)macro->n,
                   macro->text, i, args->n);
    for (; i < args->n && r->rc == 0; i++) list_add(r, rest.list, args->v[i]);
    scope_set(r, s, SYM_VARARGS, rest);
}

/* Return true if the keyword is a parameter after the first n. As in jinja2, the name of a
 * parameter with a positional argument is a name like any other. */
static bool is_param(const struct node *params, struct val name, uint32_t n)
{
    for (; params; params = params->next) {
        if (n > 0)
            n--;
        else if (params->n == name.n && memcmp(params->text, name.s, name.n) == 0)
            return true;
    }
    return false;
}

/* Set the variables kwargs and caller. The variable kwargs collects all names without a
 * parameter. */
static void bind_keywords(struct render *r, struct scope *s, const struct node *macro,
                          const struct args *args)
{
    static const struct node caller_name = {.text = "caller", .n = 6};
    struct val rest = val_dict(r, V_DICT), *caller = keyword(args, &caller_name);
    for (uint32_t i = 0; i < args->n_kw && r->rc == 0; i++) {
        const struct val name = args->kw[i].name;
        if (is_param(macro->b, name, args->n)) continue;
        if (macro->op & USES_CALLER && text_is(name, "caller")) continue;
        if (macro->op & USES_KWARGS)
            dict_put(r, rest.dict, name, args->kw[i].value);
        else
            jinja_fail(r, "the macro \"%.*s\" has no argument \"%.*s\"", (int)macro->n, macro->text,
                       name.kind == V_TEXT ? (int)name.n : 0, name.kind == V_TEXT ? name.s : "");
    }
    scope_set(r, s, SYM_KWARGS, rest);
    scope_set(r, s, SYM_CALLER,
              caller ? *caller : (struct val){.kind = V_UNDEFINED, .s = "caller", .n = 6});
}

struct val macro_call(struct render *r, const struct macro *macro, const struct args *args)
{
    struct scope *outer = r->scope;
    struct val v = VAL_UNDEFINED;
    if (!render_enter(r)) return v;
    /* as in Jinja, the names of a macro are in the scope of its definition, not of its caller */
    struct scope *s = scope_push(r, macro->scope);
    if (s) bind_params(r, s, macro->node, args);
    if (s && r->rc == 0) bind_keywords(r, s, macro->node, args);
    if (r->rc == 0) v = exec_capture(r, macro->node->d);
    r->scope = outer;
    render_leave(r);
    return v;
}

/* Return a macro value. The macro refers to the current scope, which is in the rendering's arena,
 * so a closure needs no copy. */
static struct val macro_new(struct render *r, const struct node *n)
{
    struct macro *macro = render_push(r, 1, sizeof *macro);
    if (!macro) return VAL_UNDEFINED;
    *macro = (struct macro){.node = n, .scope = r->scope};
    return (struct val){.kind = V_MACRO, .macro = macro};
}

/* Execute {% call(x) f(y) %} body {% endcall %} as f(y, caller=body). */
static void exec_call_block(struct render *r, const struct node *n)
{
    struct val caller = macro_new(r, n);
    struct node literal = {.kind = N_CONST, .at = n->at, .val = caller};
    struct node extra = {
        .kind = N_ARG, .op = '=', .at = n->at, .text = "caller", .n = 6, .a = &literal};
    struct node call = *n->a;
    extra.next = call.b;
    call.b = &extra;
    out_str(r, eval(r, &call));
}

/* ---- if, with, and dispatch by kind ---- */

/* Execute the first branch whose condition is true. An elif is the only node of its parent's c,
 * with op 'e', so that a chain of any length needs no recursion. */
static enum flow exec_if(struct render *r, const struct node *n)
{
    while (n && r->rc == 0) {
        if (val_truth(eval(r, n->a))) return exec_body(r, n->b);
        if (!n->c || n->c->kind != N_IF || n->c->next || n->c->op != 'e') break;
        n = n->c;
    }
    return n && n->c && r->rc == 0 ? exec_body(r, n->c) : FLOW_NEXT;
}

/* Execute a with block. All values are evaluated in the outer scope, as in jinja2: in {% with a=1,
 * b=a %}, b is the outer a. */
static enum flow exec_with(struct render *r, const struct node *n)
{
    struct scope *outer = r->scope;
    struct scope *s = scope_push(r, outer);
    for (const struct node *set = n->a; s && set && r->rc == 0; set = set->next) {
        r->scope = outer;
        struct val v = eval(r, set->b);
        r->scope = s;
        assign(r, set->a, v);
    }
    r->scope = s;
    enum flow flow = r->rc == 0 ? exec_body(r, n->d) : FLOW_NEXT;
    r->scope = outer;
    return flow;
}

/* Execute one statement. The result determines if a loop breaks or continues. */
static enum flow exec_one(struct render *r, const struct node *n)
{
    r->at = n->at;
    switch (n->kind) {
    case N_DATA:
        buf_add(&r->out, n->text, n->n);
        break;
    case N_PRINT:
        out_str(r, eval(r, n->a));
        break;
    case N_IF:
        return exec_if(r, n);
    case N_FOR:
        return exec_for(r, n);
    case N_SET:
        assign(r, n->a, eval(r, n->b));
        break;
    case N_SET_BLOCK:
        assign(r, n->a, eval_filters(r, n->b, exec_capture_inside(r, n->d)));
        break;
    case N_MACRO:
        scope_set(r, r->scope, n->sym, macro_new(r, n));
        break;
    case N_CALL_BLOCK:
        exec_call_block(r, n);
        break;
    case N_FILTER_BLOCK:
        out_str(r, eval_filters(r, n->b, exec_capture_inside(r, n->d)));
        break;
    case N_WITH:
        return exec_with(r, n);
    case N_SCOPE:
        return exec_inside(r, n->d);
    case N_DO:
        eval(r, n->a);
        break;
    case N_BREAK:
        return FLOW_BREAK;
    case N_CONTINUE:
        return FLOW_CONTINUE;
    default:
        break;
    }
    return FLOW_NEXT;
}

enum flow exec_body(struct render *r, const struct node *n)
{
    enum flow flow = FLOW_NEXT;
    if (!render_enter(r)) return flow;
    for (; n && flow == FLOW_NEXT && r->rc == 0; n = n->next) {
        flow = exec_one(r, n);
        if (r->out.failed) out_take(r, r->out.n);
        render_charge(r, 1);
    }
    render_leave(r);
    return flow;
}
