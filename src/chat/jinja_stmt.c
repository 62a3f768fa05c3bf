/* jinja_stmt.c - statements of the template language: {% ... %} to tree.
 *
 *   body     = { DATA | "{{" tuple "}}" | "{%" statement "%}" } .
 *   if       = "if" tuple %} body { {% "elif" tuple %} body } [ {% "else" %} body ] {% "endif" .
 *   for      = "for" target "in" or { "," or } [ "if" expr ] [ "recursive" ] %} body
 *              [ {% "else" %} body ] {% "endfor" .
 *   set      = "set" target ( "=" tuple | [ "|" filters ] %} body {% "endset" ) .
 *   macro    = "macro" NAME params %} body {% "endmacro" .
 *   call     = "call" [ params ] postfix_expr %} body {% "endcall" .
 *   filter   = "filter" filters %} body {% "endfilter" .
 *   with     = "with" [ NAME "=" expr { "," NAME "=" expr } ] %} body {% "endwith" .
 *   others   = "generation" %} body {% "endgeneration" | "do" tuple | "break" | "continue" .
 *
 * stmt_body stops after "{%" at an end word of the body's statement. The caller consumes that word.
 * stmt_one consumes the last "%}" of every statement. include, import and extends read other files.
 * The parser rejects these statements, because a chat template is one file. */
#include "chat/jinja_impl.h"

#include <string.h>

/* Parse statements up to a tag whose first word is in the NULL-terminated list `end`. */
static struct node *stmt_body(struct jinja_parser *p, const char *const *end, uint32_t opened_at);

/* Consume "%}". Fail the parser if the current token is another token. */
static void need_block_end(struct jinja_parser *p)
{
    if (p->t->kind != T_BLOCK_END)
        parser_expected(p, "the end of the tag, \"%}\"");
    else
        p->t++;
}

/* Parse "%} body {% word %}". */
static struct node *stmt_enclosed(struct jinja_parser *p, const char *word, uint32_t at)
{
    need_block_end(p);
    struct node *body = stmt_body(p, (const char *const[]){word, NULL}, at);
    if (p->rc == 0) p->t++;
    return body;
}

/* Parse an if statement. An unknown filter in a branch is not a parse error, because p->unknown is
 * restored. The filter fails only if its branch runs. */
static struct node *stmt_if(struct jinja_parser *p, uint32_t at)
{
    static const char *const words[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    const struct token *unknown = p->unknown;
    struct node *n = parser_node(p, N_IF, at), *tip = n;
    n->a = parse_tuple(p);
    need_block_end(p);
    n->b = stmt_body(p, words, at);
    while (p->rc == 0 && parser_is_name(p, "elif")) {
        struct node *elif = parser_node(p, N_IF, p->t++->at);
        elif->op = 'e';
        elif->a = parse_tuple(p);
        need_block_end(p);
        elif->b = stmt_body(p, words, at);
        tip->c = elif;
        tip = elif;
    }
    if (parser_take_name(p, "else")) {
        need_block_end(p);
        tip->c = stmt_body(p, last, at);
    }
    if (p->rc == 0) p->t++;
    p->unknown = unknown;
    return n;
}

/* Parse a target: "a", "a, b", "(a, b), c", or "ns.attribute" (in set). */
static struct node *parse_target(struct jinja_parser *p, bool may_be_attr)
{
    struct node *n;
    uint32_t at = p->t->at;
    if (!parser_enter(p)) {
        parser_leave(p);
        return parser_node(p, N_NAME, at);
    }
    if (parser_take_op(p, '(')) {
        n = parse_target(p, may_be_attr);
        parser_need_op(p, ')');
    } else {
        n = parser_name(p);
        if (may_be_attr && parser_take_op(p, '.')) {
            struct node *attr = parser_node(p, N_ATTR, at);
            attr->a = n;
            struct node *name = parser_name(p);
            attr->text = name->text;
            attr->n = name->n;
            n = attr;
        }
    }
    if (parser_is_op(p, ',')) {
        struct node *tuple = parser_node(p, N_TUPLE, at), **tail = &n->next;
        tuple->a = n;
        while (parser_take_op(p, ',') && (p->t->kind == T_NAME || parser_is_op(p, '('))) {
            if (parser_is_name(p, "in")) break;
            bool nested = parser_is_op(p, '(');
            *tail = nested ? parse_target(p, may_be_attr) : parser_name(p);
            tail = &(*tail)->next;
        }
        n = tuple;
    }
    parser_leave(p);
    return n;
}

/* Parse a for loop. The iterable has no inline if, because an "if" after it is the loop's
 * condition. The condition selects items before the first round. */
static struct node *stmt_for(struct jinja_parser *p, uint32_t at)
{
    static const char *const words[] = {"else", "endfor", NULL};
    static const char *const last[] = {"endfor", NULL};
    struct node *n = parser_node(p, N_FOR, at);
    n->a = parse_target(p, false);
    if (!parser_take_name(p, "in")) parser_expected(p, "\"in\"");
    n->b = parse_expr_no_cond(p);
    if (parser_is_op(p, ',')) {
        struct node *tuple = parser_node(p, N_TUPLE, at), **tail = &n->b->next;
        tuple->a = n->b;
        n->b = tuple;
        while (p->rc == 0 && parser_take_op(p, ',')) {
            *tail = parse_expr_no_cond(p);
            tail = &(*tail)->next;
        }
    }
    if (parser_take_name(p, "if")) n->c = parse_expr(p);
    if (parser_take_name(p, "recursive")) n->op = 'r';
    need_block_end(p);
    p->loops++;
    n->d = stmt_body(p, words, at);
    p->loops--;
    if (parser_take_name(p, "else")) {
        need_block_end(p);
        n->e = stmt_body(p, last, at);
    }
    if (p->rc == 0) p->t++;
    return n;
}

/* Parse {% set a = 1 %} or the block {% set a %} text {% endset %}. The first form contains "=". */
static struct node *stmt_set(struct jinja_parser *p, uint32_t at)
{
    struct node *n = parser_node(p, N_SET, at);
    n->a = parse_target(p, true);
    if (parser_take_op(p, '=')) {
        n->b = parse_tuple(p);
        return n;
    }
    n->kind = N_SET_BLOCK;
    if (parser_take_op(p, '|')) n->b = parse_filters(p, NULL);
    n->d = stmt_enclosed(p, "endset", at);
    return n;
}

/* Parse the body of macro n. break and continue in the body must not apply to a loop around the
 * definition. A special name in the body is also a name in the body of an outer macro. */
static void stmt_function(struct jinja_parser *p, struct node *n, const char *word, uint32_t at)
{
    int loops = p->loops, uses = p->uses;
    p->loops = p->uses = 0;
    n->d = stmt_enclosed(p, word, at);
    n->op = p->uses;
    p->loops = loops;
    p->uses |= uses;
}

/* Parse a macro. The macro's name is a variable, and the definition is an assignment at run
 * time. */
static struct node *stmt_macro(struct jinja_parser *p, uint32_t at)
{
    struct node *n = parser_node(p, N_MACRO, at), *name = parser_name(p);
    n->sym = name->sym;
    n->text = name->text;
    n->n = name->n;
    n->b = parse_params(p);
    stmt_function(p, n, "endmacro", at);
    return n;
}

/* Parse a call block. The block's body becomes the macro `caller` of the call, with these
 * parameters. */
static struct node *stmt_call(struct jinja_parser *p, uint32_t at)
{
    struct node *n = parser_node(p, N_CALL_BLOCK, at);
    n->text = "caller";
    n->n = 6;
    if (parser_is_op(p, '(')) n->b = parse_params(p);
    n->a = parse_postfix_expr(p);
    if (p->rc == 0 && n->a->kind != N_CALL)
        parser_fail(p, "expected a call after \"call\", got another expression");
    stmt_function(p, n, "endcall", at);
    return n;
}

static struct node *stmt_filter(struct jinja_parser *p, uint32_t at)
{
    struct node *n = parser_node(p, N_FILTER_BLOCK, at);
    n->b = parse_filters(p, NULL);
    n->d = stmt_enclosed(p, "endfilter", at);
    return n;
}

/* Parse a with block: a list of N_SETs and a body with its own scope. */
static struct node *stmt_with(struct jinja_parser *p, uint32_t at)
{
    struct node *n = parser_node(p, N_WITH, at), **tail = &n->a;
    while (p->rc == 0 && p->t->kind != T_BLOCK_END) {
        if (n->a) parser_need_op(p, ',');
        struct node *set = parser_node(p, N_SET, p->t->at);
        set->a = parser_name(p);
        parser_need_op(p, '=');
        set->b = parse_expr(p);
        *tail = set;
        tail = &set->next;
    }
    n->d = stmt_enclosed(p, "endwith", at);
    return n;
}

/* Parse {% generation %}, which transformers uses to mark the assistant's tokens for training. In
 * quoth the body is only a scope. */
static struct node *stmt_generation(struct jinja_parser *p, uint32_t at)
{
    struct node *n = parser_node(p, N_SCOPE, at);
    n->d = stmt_enclosed(p, "endgeneration", at);
    return n;
}

static struct node *stmt_do(struct jinja_parser *p, uint32_t at)
{
    struct node *n = parser_node(p, N_DO, at);
    n->a = parse_tuple(p);
    return n;
}

/* Parse break or continue. p->loops is 0 outside of loops and at the start of a macro. */
static struct node *stmt_jump(struct jinja_parser *p, enum node_kind kind, uint32_t at)
{
    if (p->loops == 0) parser_fail(p, "break or continue outside of a loop");
    return parser_node(p, kind, at);
}

static struct node *stmt_break(struct jinja_parser *p, uint32_t at)
{
    return stmt_jump(p, N_BREAK, at);
}

static struct node *stmt_continue(struct jinja_parser *p, uint32_t at)
{
    return stmt_jump(p, N_CONTINUE, at);
}

/* Reject a statement that reads another template, with a better message than "unknown". */
static struct node *stmt_refused(struct jinja_parser *p, uint32_t at)
{
    parser_fail(p, "a chat template cannot read other templates (include, import, extends, block)");
    return parser_node(p, N_DO, at);
}

static const struct {
    const char *name; /* static */
    struct node *(*parse)(struct jinja_parser *p, uint32_t at);
} statements[] = {
    {"if", stmt_if},
    {"for", stmt_for},
    {"set", stmt_set},
    {"macro", stmt_macro},
    {"call", stmt_call},
    {"filter", stmt_filter},
    {"with", stmt_with},
    {"generation", stmt_generation},
    {"do", stmt_do},
    {"break", stmt_break},
    {"continue", stmt_continue},
    {"include", stmt_refused},
    {"import", stmt_refused},
    {"from", stmt_refused},
    {"extends", stmt_refused},
    {"block", stmt_refused},
};

/* Parse one statement and its "%}". The caller has consumed the "{%". */
static struct node *stmt_one(struct jinja_parser *p)
{
    const struct token *t = p->t;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (parser_take_name(p, statements[i].name)) {
            struct node *n = statements[i].parse(p, t->at);
            need_block_end(p);
            return n;
        }
    parser_fail(p, "unknown statement \"%.*s\"", t->kind == T_NAME ? (int)t->n : 0, t->text);
    return parser_node(p, N_DO, t->at);
}

static bool is_one_of(const struct jinja_parser *p, const char *const *words)
{
    for (; words && *words; words++)
        if (parser_is_name(p, *words)) return true;
    return false;
}

/* Parse data, a print or a statement. Set *ended if the next tag is a closing word instead. */
static struct node *stmt_next(struct jinja_parser *p, const char *const *end, bool *ended)
{
    const struct token *t = p->t++;
    struct node *n = NULL;
    if (t->kind == T_DATA) {
        n = parser_node(p, N_DATA, t->at);
        n->text = t->text;
        n->n = t->n;
    } else if (t->kind == T_PRINT_BEGIN) {
        n = parser_node(p, N_PRINT, t->at);
        n->a = parse_tuple(p);
        if (p->t->kind != T_PRINT_END)
            parser_expected(p, "the end of the expression, \"}}\"");
        else
            p->t++;
    } else if (is_one_of(p, end)) {
        *ended = true;
    } else {
        n = stmt_one(p);
    }
    return n;
}

static struct node *stmt_body(struct jinja_parser *p, const char *const *end, uint32_t opened_at)
{
    struct node *first = NULL, **tail = &first;
    bool ended = false;
    if (!parser_enter(p)) {
        parser_leave(p);
        return NULL;
    }
    while (p->rc == 0 && !ended && p->t->kind != T_END) {
        struct node *n = stmt_next(p, end, &ended);
        if (!n) break;
        *tail = n;
        tail = &n->next;
    }
    if (p->rc == 0 && !ended && end) {
        p->rc = jinja_err(p->err, ERR_FORMAT, p->source, opened_at, "this block has no \"%s\"",
                          end[1] ? (end[2] ? end[2] : end[1]) : end[0]);
    }
    parser_leave(p);
    return first;
}

int jinja_parse(struct node **root, const struct tokens *tokens, const char *source,
                struct arena *arena, struct err *e)
{
    struct jinja_parser p = {.t = tokens->v, .source = source, .arena = arena, .err = e};
    static const char *const known[] = {"loop", "caller", "varargs", "kwargs"};
    for (uint32_t i = 0; i < SYM_FIRST_FREE; i++)
        if (!strmap_put(&p.syms, known[i], strlen(known[i]), i))
            p.rc = err_memory(e, "template names", 0);
    *root = stmt_body(&p, NULL, 0);
    if (p.unknown && p.rc == 0) {
        p.t = p.unknown;
        parser_fail(&p, "unknown %s \"%.*s\"", p.unknown_what, (int)p.t->n, p.t->text);
    }
    strmap_deinit(&p.syms);
    return p.rc;
}
