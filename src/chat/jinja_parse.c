/* jinja_parse.c - expressions of the template language, by recursive descent.
 *
 * The grammar begins with the lowest precedence. Each rule is one function. The four rules from sum
 * to power are the levels of parse_binary. { } encloses repeated parts, [ ] encloses optional
 * parts. Operators associate to the left.
 *
 *   tuple      = expr { "," [ expr ] } .                            a comma makes the tuple
 *   expr       = or { "if" or [ "else" expr ] } .                   without else: undefined
 *   or         = and { "or" and } .
 *   and        = not { "and" not } .
 *   not        = "not" not | comparison .
 *   comparison = sum { ( "==" | "!=" | "<" | ">" | "<=" | ">=" | "in" | "not" "in" ) sum } .
 *   sum        = concat { ( "+" | "-" ) concat } .
 *   concat     = product { "~" product } .
 *   product    = power { ( "*" | "/" | "//" | "%" ) power } .
 *   power      = filtered { "**" filtered } .
 *   filtered   = unary { "|" filter | "is" [ "not" ] test | call } .
 *   unary      = ( ( "-" | "+" ) unary | primary ) { postfix } .
 *   postfix    = "." ( NAME | INT ) | "[" subscript "]" | call .
 *   subscript  = [ ( expr | slice ) { "," [ expr ] } ] .
 *   slice      = [ expr ] ":" [ expr ] [ ":" [ expr ] ] .
 *   primary    = NAME | TEXT { TEXT } | INT | REAL | "(" items ")" | "[" items "]"
 *                | "{" pairs "}" .
 *   items      = [ expr { "," expr } [ "," ] ] .                    (x) is x, (x,) a tuple
 *   pairs      = [ expr ":" expr { "," expr ":" expr } [ "," ] ] .
 *   call       = "(" [ arg { "," arg } [ "," ] ] ")" .
 *   arg        = [ NAME "=" | "*" | "**" ] expr .
 *   filter     = NAME [ call ] .
 *   test       = NAME [ call | primary { postfix } ] .              x is divisibleby 3
 *
 * Operators have jinja2's precedence, so the filter in -5|abs applies to -5. NEST_MAX limits
 * recursion. Every function returns a harmless node after a failure, and the caller checks
 * p->rc. */
#include "chat/jinja_impl.h"

#include "base/check.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

enum { NEST_MAX = 200 };

/* Record the first failure at the current token. Move to T_END, so that every loop over tokens
 * ends. */
void parser_fail(struct jinja_parser *p, const char *fmt, ...)
{
    if (p->rc != 0) return;
    struct err sentence = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence.text, sizeof sentence.text, fmt, ap);
    va_end(ap);
    p->rc = jinja_err(p->err, ERR_FORMAT, p->source, p->t->at, "%s", sentence.text);
    while (p->t->kind != T_END) p->t++;
}

void parser_expected(struct jinja_parser *p, const char *what)
{
    char found[24];
    const char *at = p->source + p->t->at;
    parser_fail(p, "expected %s, got %s", what, utf8_first_text(at, strnlen(at, 4), found));
}

void parser_unknown(struct jinja_parser *p, const char *what)
{
    if (p->unknown) return;
    p->unknown = p->t;
    p->unknown_what = what;
}

/* Return the parser's own node `broken` if memory runs out. Therefore no caller checks for NULL,
 * and writes to the node have no effect. */
struct node *parser_node(struct jinja_parser *p, enum node_kind kind, uint32_t at)
{
    struct node *n = arena_push0(p->arena, 1, sizeof *n);
    if (!n) {
        if (p->rc == 0) p->rc = err_memory(p->err, "a template", sizeof *n);
        while (p->t->kind != T_END) p->t++;
        p->broken = (struct node){.kind = N_CONST};
        return &p->broken;
    }
    n->kind = kind;
    n->at = at;
    return n;
}

bool parser_is_op(const struct jinja_parser *p, int op)
{
    return p->t->kind == T_OP && p->t->op == op;
}

bool parser_is_name(const struct jinja_parser *p, const char *name)
{
    return p->t->kind == T_NAME && p->t->n == strlen(name) &&
           memcmp(p->t->text, name, p->t->n) == 0;
}

bool parser_take_op(struct jinja_parser *p, int op)
{
    if (!parser_is_op(p, op)) return false;
    p->t++;
    return true;
}

bool parser_take_name(struct jinja_parser *p, const char *name)
{
    if (!parser_is_name(p, name)) return false;
    p->t++;
    return true;
}

void parser_need_op(struct jinja_parser *p, int op)
{
    if (!parser_take_op(p, op)) {
        char what[] = {'"', (char)op, '"', 0};
        parser_expected(p, what);
    }
}

bool parser_enter(struct jinja_parser *p)
{
    if (++p->depth > NEST_MAX) parser_fail(p, "nested deeper than %d", NEST_MAX);
    return p->rc == 0;
}

void parser_leave(struct jinja_parser *p)
{
    CHECK(p->depth > 0, "depth %d", p->depth);
    p->depth--;
}

/* Return the number of a name. A name gets its number at its first use. A scope is an array of
 * (number, value), so no names are compared at run time. */
static uint32_t symbol(struct jinja_parser *p, const char *text, size_t n)
{
    const uint32_t *known = strmap_get(&p->syms, text, n);
    if (known) return *known;
    uint32_t id = (uint32_t)p->syms.n;
    if (!strmap_put(&p->syms, text, n, id) && p->rc == 0)
        p->rc = err_memory(p->err, "template names", n);
    return id;
}

/* Return a new node with the text of the token t. The text is borrowed from the source. */
static struct node *node_named(struct jinja_parser *p, enum node_kind kind, const struct token *t)
{
    struct node *n = parser_node(p, kind, t->at);
    n->text = t->text;
    n->n = t->n;
    return n;
}

struct node *parser_name(struct jinja_parser *p)
{
    const struct token *t = p->t;
    if (t->kind != T_NAME) {
        parser_expected(p, "a name");
        return parser_node(p, N_NAME, t->at);
    }
    p->t++;
    struct node *n = node_named(p, N_NAME, t);
    n->sym = symbol(p, t->text, t->n);
    if (n->sym < SYM_FIRST_FREE) p->uses |= 1 << n->sym;
    return n;
}

static struct node *node_const(struct jinja_parser *p, uint32_t at, struct val v)
{
    struct node *n = parser_node(p, N_CONST, at);
    n->val = v;
    return n;
}

/* ---- calls ---- */

/* Parse one argument. "name =" needs two tokens of lookahead, because a name alone is an
 * expression. The tokens end with T_END, so p->t[1] exists if p->t is a name. */
static struct node *parse_arg(struct jinja_parser *p)
{
    struct node *n = parser_node(p, N_ARG, p->t->at);
    if (parser_is_op(p, '*') || parser_is_op(p, OP('*', '*'))) {
        n->op = p->t->op;
        p->t++;
    } else if (p->t->kind == T_NAME && p->t[1].kind == T_OP && p->t[1].op == '=') {
        n->op = '=';
        n->text = p->t->text;
        n->n = p->t->n;
        p->t += 2;
    }
    n->a = parse_expr(p);
    return n;
}

/* Parse arguments and ")". The caller has consumed the "(". */
static struct node *parse_args(struct jinja_parser *p)
{
    struct node *first = NULL, **tail = &first;
    while (p->rc == 0 && !parser_take_op(p, ')')) {
        if (first) parser_need_op(p, ',');
        if (first && parser_take_op(p, ')')) break;
        *tail = parse_arg(p);
        tail = &(*tail)->next;
    }
    return first;
}

struct node *parse_params(struct jinja_parser *p)
{
    struct node *first = NULL, **tail = &first;
    parser_need_op(p, '(');
    while (p->rc == 0 && !parser_take_op(p, ')')) {
        if (first) parser_need_op(p, ',');
        if (first && parser_take_op(p, ')')) break;
        struct node *name = parser_name(p);
        if (parser_take_op(p, '=')) name->a = parse_expr(p);
        *tail = name;
        tail = &name->next;
    }
    return first;
}

/* ---- primary expressions ---- */

/* Parse string literals. Adjacent literals are joined, as in Python. */
static struct node *parse_strings(struct jinja_parser *p)
{
    const struct token *first = p->t;
    size_t n = 0;
    while (p->t->kind == T_TEXT) n += p->t++->n;
    char *joined = arena_push(p->arena, n + 1, 1);
    if (!joined) {
        if (p->rc == 0) p->rc = err_memory(p->err, "a template string", n);
        return parser_node(p, N_CONST, first->at);
    }
    n = 0;
    for (const struct token *t = first; t < p->t; n += t++->n) memcpy(joined + n, t->text, t->n);
    return node_const(p, first->at, val_text(joined, n));
}

/* Parse comma-separated items and the token `close`. A tuple in parentheses needs a comma. */
static struct node *parse_items(struct jinja_parser *p, enum node_kind kind, int close)
{
    struct node *n = parser_node(p, kind, p->t->at), **tail = &n->a;
    bool comma = false;
    p->t++;
    while (p->rc == 0 && !parser_take_op(p, close)) {
        if (n->a) {
            parser_need_op(p, ',');
            comma = true;
        }
        if (n->a && parser_take_op(p, close)) break;
        *tail = parse_expr(p);
        tail = &(*tail)->next;
    }
    return kind == N_TUPLE && n->a && !comma ? n->a : n;
}

/* Parse a dict from its "{" on. Keys are expressions, as in Python: {name: 1} has the value of
 * `name` as its key. */
static struct node *parse_dict(struct jinja_parser *p)
{
    struct node *n = parser_node(p, N_DICT, p->t->at), **tail = &n->a;
    p->t++;
    while (p->rc == 0 && !parser_take_op(p, '}')) {
        if (n->a) parser_need_op(p, ',');
        if (n->a && parser_take_op(p, '}')) break;
        struct node *pair = parser_node(p, N_PAIR, p->t->at);
        pair->a = parse_expr(p);
        parser_need_op(p, ':');
        pair->b = parse_expr(p);
        *tail = pair;
        tail = &pair->next;
    }
    return n;
}

/* Parse a name or one of the constants in both of jinja2's spellings. The constants are not
 * reserved in the lexer, so that x.none remains an attribute. */
static struct node *parse_name_or_const(struct jinja_parser *p)
{
    static const struct {
        const char *name; /* static */
        struct val val;
    } known[] = {
        {"true", {.kind = V_BOOL, .b = true}},
        {"True", {.kind = V_BOOL, .b = true}},
        {"false", {.kind = V_BOOL, .b = false}},
        {"False", {.kind = V_BOOL, .b = false}},
        {"none", {.kind = V_NONE}},
        {"None", {.kind = V_NONE}},
    };
    uint32_t at = p->t->at;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (parser_take_name(p, known[i].name)) return node_const(p, at, known[i].val);
    return parser_name(p);
}

/* Parse the smallest expression. Consume nothing if the token cannot begin an expression. */
static struct node *parse_primary(struct jinja_parser *p)
{
    const struct token *t = p->t;
    switch (t->kind) {
    case T_NAME:
        return parse_name_or_const(p);
    case T_TEXT:
        return parse_strings(p);
    case T_INT:
        p->t++;
        return node_const(p, t->at, val_int(t->i));
    case T_REAL:
        p->t++;
        return node_const(p, t->at, val_real(t->d));
    case T_OP:
        if (t->op == '(') return parse_items(p, N_TUPLE, ')');
        if (t->op == '[') return parse_items(p, N_LIST, ']');
        if (t->op == '{') return parse_dict(p);
        break;
    default:
        break;
    }
    parser_expected(p, "an expression");
    return parser_node(p, N_CONST, t->at);
}

/* ---- postfix ---- */

/* Parse one bound of a slice. Return NULL if the bound is absent, as in a[:]. */
static struct node *parse_slice_part(struct jinja_parser *p)
{
    return parser_is_op(p, ':') || parser_is_op(p, ']') || parser_is_op(p, ',') ? NULL
                                                                                : parse_expr(p);
}

/* Parse an index or a slice a:b:c. A slice contains a ":". */
static struct node *parse_subscript_one(struct jinja_parser *p)
{
    uint32_t at = p->t->at;
    struct node *start = parse_slice_part(p);
    if (!parser_take_op(p, ':')) return start;
    struct node *n = parser_node(p, N_SLICE, at);
    n->a = start;
    n->b = parse_slice_part(p);
    if (parser_take_op(p, ':')) n->c = parse_slice_part(p);
    return n;
}

/* Parse a subscript after its "[": a[], a[i], a[i:j:k], a[i, j]. */
static struct node *parse_subscript(struct jinja_parser *p, struct node *operand, uint32_t at)
{
    struct node *n = parser_node(p, N_ITEM, at);
    n->a = operand;
    if (parser_take_op(p, ']')) return n;
    n->b = parse_subscript_one(p);
    if (n->b && parser_is_op(p, ',')) {
        struct node *tuple = parser_node(p, N_TUPLE, at), **tail = &n->b->next;
        tuple->a = n->b;
        n->b = tuple;
        while (parser_take_op(p, ',') && !parser_is_op(p, ']')) {
            *tail = parse_expr(p);
            tail = &(*tail)->next;
        }
    }
    parser_need_op(p, ']');
    return n;
}

/* Parse an attribute after ".": a name, or a number (a.0). */
static struct node *parse_attr(struct jinja_parser *p, struct node *operand)
{
    const struct token *t = p->t;
    struct node *n = node_named(p, t->kind == T_INT ? N_ITEM : N_ATTR, t);
    n->a = operand;
    if (t->kind == T_INT)
        n->b = node_const(p, t->at, val_int(t->i));
    else if (t->kind != T_NAME)
        parser_expected(p, "a name after \".\"");
    if (p->rc == 0) p->t++;
    return n;
}

static struct node *parse_call(struct jinja_parser *p, struct node *operand, uint32_t at)
{
    struct node *n = parser_node(p, N_CALL, at);
    n->a = operand;
    n->b = parse_args(p);
    return n;
}

/* Parse the attributes, subscripts and calls after n. Each node contains the previous node:
 * a.b[0](c) is call(item(attr(a, b), 0), c). */
static struct node *parse_postfix(struct jinja_parser *p, struct node *n)
{
    while (p->rc == 0) {
        uint32_t at = p->t->at;
        if (parser_take_op(p, '.'))
            n = parse_attr(p, n);
        else if (parser_take_op(p, '['))
            n = parse_subscript(p, n, at);
        else if (parser_take_op(p, '('))
            n = parse_call(p, n, at);
        else
            break;
    }
    return n;
}

struct node *parse_postfix_expr(struct jinja_parser *p)
{
    return parse_postfix(p, parse_primary(p));
}

/* Parse the name of one filter with its arguments, applied to `operand`. operand: NULL in a filter
 * block. */
static struct node *parse_filter(struct jinja_parser *p, struct node *operand)
{
    const struct token *t = p->t;
    struct node *n = node_named(p, N_FILTER, t);
    n->a = operand;
    if (t->kind != T_NAME) {
        parser_expected(p, "the name of a filter");
        return n;
    }
    if (!filter_find(t->text, t->n)) parser_unknown(p, "filter");
    if (p->rc == 0) p->t++;
    if (parser_take_op(p, '(')) n->b = parse_args(p);
    return n;
}

struct node *parse_filters(struct jinja_parser *p, struct node *operand)
{
    struct node *n = parse_filter(p, operand);
    while (p->rc == 0 && parser_take_op(p, '|')) n = parse_filter(p, n);
    return n;
}

/* Return true if the current token may be a test's argument without parentheses, as in "is
 * divisibleby 3". */
static bool test_arg_begins(const struct jinja_parser *p)
{
    static const char *const words[] = {"else", "or", "and", "if", "is", "in", "not", "recursive"};
    if (p->t->kind == T_OP) return p->t->op == '(' || p->t->op == '[' || p->t->op == '{';
    if (p->t->kind == T_TEXT || p->t->kind == T_INT || p->t->kind == T_REAL) return true;
    if (p->t->kind != T_NAME) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (parser_is_name(p, words[i])) return false;
    return true;
}

/* Parse a test after "is". */
static struct node *parse_test(struct jinja_parser *p, struct node *operand, uint32_t at)
{
    bool negated = parser_take_name(p, "not");
    const struct token *t = p->t;
    struct node *n = node_named(p, N_TEST, t);
    n->a = operand;
    if (t->kind != T_NAME)
        parser_expected(p, "the name of a test");
    else if (!is_find(t->text, t->n))
        parser_unknown(p, "test");
    if (p->rc == 0) p->t++;
    if (parser_take_op(p, '(')) {
        n->b = parse_args(p);
    } else if (test_arg_begins(p)) {
        n->b = parser_node(p, N_ARG, p->t->at);
        n->b->a = parse_postfix_expr(p);
    }
    if (!negated) return n;
    struct node *negation = parser_node(p, N_NOT, at);
    negation->a = n;
    return negation;
}

/* Parse filters and tests after n. A call may also follow them: (x|f)(y) needs no parentheses in
 * jinja2. */
static struct node *parse_filters_and_tests(struct jinja_parser *p, struct node *n)
{
    while (p->rc == 0) {
        uint32_t at = p->t->at;
        if (parser_take_op(p, '|'))
            n = parse_filter(p, n);
        else if (parser_take_name(p, "is"))
            n = parse_test(p, n, at);
        else if (parser_take_op(p, '('))
            n = parse_call(p, n, at);
        else
            break;
    }
    return n;
}

/* ---- operators ---- */

/* Parse a signed operand. with_filters: false under a sign, so that the filter in -x|f applies to
 * -x instead of x. */
static struct node *parse_unary(struct jinja_parser *p, bool with_filters)
{
    struct node *n;
    uint32_t at = p->t->at;
    if (!parser_enter(p)) {
        parser_leave(p);
        return parser_node(p, N_CONST, at);
    }
    if (parser_is_op(p, '-') || parser_is_op(p, '+')) {
        n = parser_node(p, p->t->op == '-' ? N_NEG : N_POS, at);
        p->t++;
        n->a = parse_unary(p, false);
    } else {
        n = parse_primary(p);
    }
    n = parse_postfix(p, n);
    parser_leave(p);
    return with_filters ? parse_filters_and_tests(p, n) : n;
}

/* Binary operators by level, lowest precedence first. */
static const int level_op[][4] = {{'+', '-'}, {'~'}, {'*', '/', OP('/', '/'), '%'}, {OP('*', '*')}};
enum { N_LEVEL = sizeof level_op / sizeof *level_op };

/* Parse one level of level_op by recursion into the next level. The operators of a level associate
 * to the left, also "**": 2**3**2 is 64 in jinja2 and 512 in Python. */
static struct node *parse_binary(struct jinja_parser *p, int level)
{
    if (level == N_LEVEL) return parse_unary(p, true);
    struct node *left = parse_binary(p, level + 1);
    while (p->rc == 0 && p->t->kind == T_OP) {
        int op = 0;
        for (int k = 0; k < 4; k++)
            if (p->t->op == level_op[level][k]) op = p->t->op;
        if (op == 0) break;
        struct node *n = parser_node(p, N_BINARY, p->t++->at);
        n->op = op;
        n->a = left;
        n->b = parse_binary(p, level + 1);
        left = n;
    }
    return left;
}

/* Consume the comparison operator at the current token and return it; 0 if none. 'i' means `in`,
 * 'n' means `not in`. */
static int take_comparison(struct jinja_parser *p)
{
    static const int ops[] = {OP('=', '='), OP('!', '='), OP('<', '='), OP('>', '='), '<', '>'};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (parser_take_op(p, ops[i])) return ops[i];
    if (parser_take_name(p, "in")) return 'i';
    const struct token *t = p->t;
    if (parser_is_name(p, "not") && t[1].kind == T_NAME && t[1].n == 2 &&
        memcmp(t[1].text, "in", 2) == 0) {
        p->t += 2;
        return 'n';
    }
    return 0;
}

/* Parse a chain a < b <= c as one node. As in Python, each operand is evaluated once, and the
 * evaluation stops at the first false comparison. */
static struct node *parse_comparison(struct jinja_parser *p)
{
    struct node *left = parse_binary(p, 0), *n = NULL, **tail = NULL;
    while (p->rc == 0) {
        uint32_t at = p->t->at;
        int op = take_comparison(p);
        if (op == 0) break;
        if (!n) {
            n = parser_node(p, N_COMPARE, at);
            n->a = left;
            tail = &n->b;
        }
        struct node *with = parser_node(p, N_COMPARE_WITH, at);
        with->op = op;
        with->a = parse_binary(p, 0);
        *tail = with;
        tail = &with->next;
    }
    return n ? n : left;
}

/* Parse "not", which has a lower precedence than comparisons: "not a == b" means "not (a == b)". */
static struct node *parse_not(struct jinja_parser *p)
{
    uint32_t at = p->t->at;
    struct node *n;
    if (!parser_enter(p)) {
        n = parser_node(p, N_CONST, at);
    } else if (parser_take_name(p, "not")) {
        n = parser_node(p, N_NOT, at);
        n->a = parse_not(p);
    } else {
        n = parse_comparison(p);
    }
    parser_leave(p);
    return n;
}

/* Parse a chain of "or" (is_or) or of "and", which has a higher precedence. */
static struct node *parse_logic(struct jinja_parser *p, bool is_or)
{
    struct node *left = is_or ? parse_logic(p, false) : parse_not(p);
    while (p->rc == 0) {
        uint32_t at = p->t->at;
        if (!parser_take_name(p, is_or ? "or" : "and")) break;
        struct node *n = parser_node(p, is_or ? N_OR : N_AND, at);
        n->a = left;
        n->b = is_or ? parse_logic(p, false) : parse_not(p);
        left = n;
    }
    return left;
}

struct node *parse_expr_no_cond(struct jinja_parser *p)
{
    return parse_logic(p, true);
}

struct node *parse_expr(struct jinja_parser *p)
{
    if (!parser_enter(p)) {
        parser_leave(p);
        return parser_node(p, N_CONST, p->t->at);
    }
    /* an unknown filter in a branch is an error only if the branch runs */
    const struct token *unknown = p->unknown;
    struct node *value = parse_logic(p, true);
    while (p->rc == 0) {
        uint32_t at = p->t->at;
        if (!parser_take_name(p, "if")) break;
        struct node *n = parser_node(p, N_COND, at);
        n->a = value;
        n->b = parse_logic(p, true);
        if (parser_take_name(p, "else")) n->c = parse_expr(p);
        p->unknown = unknown;
        value = n;
    }
    parser_leave(p);
    return value;
}

struct node *parse_tuple(struct jinja_parser *p)
{
    struct node *first = parse_expr(p);
    if (!parser_is_op(p, ',')) return first;
    struct node *n = parser_node(p, N_TUPLE, first->at), **tail = &first->next;
    n->a = first;
    while (p->rc == 0 && parser_take_op(p, ',')) {
        if (p->t->kind != T_NAME && p->t->kind != T_TEXT && p->t->kind != T_INT &&
            p->t->kind != T_REAL && p->t->kind != T_OP)
            break;
        if (parser_is_op(p, '=')) break;
        *tail = parse_expr(p);
        tail = &(*tail)->next;
    }
    return n;
}
