/* jinja_impl.h - internals of the Jinja interpreter: tokens, syntax tree, values, one rendering.
 *
 *   source --jinja_lex--> tokens --jinja_parse--> struct node tree (immutable, template's arena)
 *   tree + context --jinja_exec / jinja_eval--> bytes in render.out
 *
 * Everything that a rendering creates is in its own arena and is released together, so values need
 * no reference counts and cycles are harmless. Failure is sticky: jinja_fail sets render.rc, and
 * every function returns at once. n_step_max limits all work, depth_max all recursion, the arena's
 * limit all memory and out.max all text: no template can run away. */
#ifndef QUOTH_CHAT_JINJA_IMPL_H
#define QUOTH_CHAT_JINJA_IMPL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"

struct args;
struct node;
struct builtin;

/* ---- tokens ---- */

enum token_kind {
    T_END,
    T_DATA,        /* literal text between tags, whitespace control applied */
    T_PRINT_BEGIN, /* {{ */
    T_PRINT_END,
    T_BLOCK_BEGIN, /* {% */
    T_BLOCK_END,
    T_NAME,
    T_TEXT, /* string literal, escapes resolved */
    T_INT,
    T_REAL,
    T_OP,
};

/* An operator is its one or two characters as an int: OP('=', '='), or '+' itself. */
#define OP(a, b) ((a) << 8 | (b))

struct token {
    enum token_kind kind;
    int op;
    uint32_t at; /* byte offset in the source */
    uint32_t n;
    const char *text;
    int64_t i;
    double d;
};

struct tokens {
    struct token *v; /* owned, free() */
    size_t n, cap;
};

/* Convert source (newlines normalized) to tokens. Token text points into source or arena. */
int jinja_lex(struct tokens *out, const char *source, size_t n, struct arena *arena, struct err *e);

/* Set an error "line L, column C: sentence". */
int jinja_err(struct err *e, int code, const char *source, size_t at, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- values ---- */

enum val_kind {
    V_UNDEFINED, /* s, n: the name, for messages */
    V_NONE,
    V_BOOL,
    V_INT,
    V_REAL,
    V_TEXT,
    V_LIST,
    V_TUPLE, /* a list that prints with parentheses and can be a key */
    V_DICT,
    V_NAMESPACE, /* a dict whose attributes can be set */
    V_MACRO,
    V_BUILTIN, /* a function by name                      */
    V_BOUND,   /* a method with the value it belongs to   */
    V_LOOP,
    V_CYCLER,
    V_JOINER,
    V_KIND_COUNT
};

struct val {
    uint8_t kind;
    bool safe;  /* V_TEXT: marked by |safe or |escape */
    uint32_t n; /* bytes of s                         */
    union {
        bool b;
        int64_t i;
        double d;
        const char *s;
        struct list *list;
        struct dict *dict;
        struct macro *macro;
        struct loop *loop;
        struct bound *bound;
        struct turn *turn;
        const struct builtin *fn;
    };
};

struct list {
    struct val *v;
    uint32_t n, cap;
};

struct pair {
    struct val key, value;
    uint32_t hash;
};

/* Insertion-ordered dict. slot[] is an open-addressing index (entry + 1, 0: empty) for more than 8
 * entries. Functions of dicts and lists do not access one after the rendering has failed: it may be
 * NULL, because its own allocation failed. */
struct dict {
    struct pair *v;
    uint32_t n, cap;
    uint32_t *slot;
    uint32_t n_slot;
};

struct macro {
    const struct node *node; /* N_MACRO or N_CALL_BLOCK: parameters and body */
    struct scope *scope;     /* scope of the definition                       */
};

struct loop {
    const struct val *item;
    uint32_t n, i;
    int level; /* recursion depth, from 0 */
    const struct node *node;
    struct scope *scope;   /* around the loop */
    struct val last_value; /* loop.changed    */
};

/* cycler: list and position; joiner: separator and whether it has been used. */
struct turn {
    struct list items;
    uint32_t i;
};

/* ---- syntax tree ---- */

enum node_kind {
    /* expressions */
    N_CONST,
    N_NAME,
    N_LIST,   /* a: items */
    N_TUPLE,  /* a: items */
    N_DICT,   /* a: N_PAIRs */
    N_PAIR,   /* a key, b value */
    N_ATTR,   /* a.text */
    N_ITEM,   /* a[b]; b NULL: a[] */
    N_SLICE,  /* [a:b:c] as the b of an N_ITEM */
    N_CALL,   /* a(b...) */
    N_ARG,    /* a; op: 0, '=' (text), '*' or OP('*','*') */
    N_FILTER, /* a | text(b...); a NULL: the body of a filter block */
    N_TEST,   /* a is text(b...) */
    N_COND,   /* a if b else c (c may be NULL) */
    N_AND,
    N_OR,
    N_NOT,
    N_NEG,
    N_POS,
    N_BINARY,       /* a op b */
    N_COMPARE,      /* a, then b: N_COMPARE_WITHs */
    N_COMPARE_WITH, /* op a */
    /* statements */
    N_DATA,
    N_PRINT,
    N_IF,           /* a condition, b body, c else */
    N_FOR,          /* a target, b iterable, c condition, d body, e else; op: recursive */
    N_SET,          /* a target, b value */
    N_SET_BLOCK,    /* a target, b filters, d body */
    N_MACRO,        /* sym, text; b: parameters (N_NAME with a: default), d body */
    N_CALL_BLOCK,   /* a call, b parameters, d body */
    N_FILTER_BLOCK, /* b filters, d body */
    N_WITH,         /* a: N_SETs, d body */
    N_SCOPE,        /* d body: a generation block */
    N_DO,           /* a */
    N_BREAK,
    N_CONTINUE,
};

struct node {
    enum node_kind kind;
    int op;
    uint32_t at;
    uint32_t sym;
    const char *text;
    uint32_t n;
    struct node *a, *b, *c, *d, *e;
    struct node *next;
    struct val val; /* N_CONST */
};

/* Names used by the interpreter have fixed symbol numbers. */
enum { SYM_LOOP, SYM_CALLER, SYM_VARARGS, SYM_KWARGS, SYM_FIRST_FREE };

/* Parse tokens to a tree; *root is NULL for an empty template. */
int jinja_parse(struct node **root, const struct tokens *tokens, const char *source,
                struct arena *arena, struct err *e);

/* ---- shared by jinja_parse.c and jinja_stmt.c ---- */

struct parser {
    const struct token *t; /* the current token */
    const char *source;
    struct arena *arena;
    struct strmap syms;
    struct err *err;
    int rc;
    int depth;
    int loops; /* for loops around the current statement, in this macro */
    /* First unknown filter or test, except in expressions that may not run; NULL: none. */
    const struct token *unknown;
    const char *unknown_what; /* "filter" or "test" */
    struct node broken;       /* returned by parser_node if out of memory */
};

struct node *parser_node(struct parser *p, enum node_kind kind, uint32_t at); /* NULL: failed */
void parser_fail(struct parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Record the current token as the name of an unknown filter or test. This is an error unless a
 * caller restores p->unknown because the expression may never run. */
void parser_unknown(struct parser *p, const char *what);
bool parser_is_op(const struct parser *p, int op);
bool parser_is_name(const struct parser *p, const char *name);
bool parser_take_op(struct parser *p, int op);
bool parser_take_name(struct parser *p, const char *name);
void parser_need_op(struct parser *p, int op);
struct node *parser_name(struct parser *p); /* an identifier as N_NAME */
bool parser_enter(struct parser *p);
void parser_leave(struct parser *p);
struct node *parse_expr(struct parser *p);                          /* without a bare tuple   */
struct node *parse_expr_no_cond(struct parser *p);                  /* also no inline if      */
struct node *parse_tuple(struct parser *p);                         /* with a bare tuple      */
struct node *parse_filters(struct parser *p, struct node *operand); /* name(args) | name ... */
struct node *parse_params(struct parser *p);                        /* (a, b=1) of a macro    */
struct node *parse_postfix_expr(struct parser *p);                  /* primary with . [] ()   */

/* ---- one rendering ---- */

struct binding {
    uint32_t sym;
    struct val val;
};

struct scope {
    struct scope *up;
    struct binding *v;
    uint32_t n, cap;
};

/* Spare room after a concatenated text: s + t + u extends s + t in place instead of copying it. */
struct growing {
    char *s;
    uint32_t n, cap;
};
enum { N_GROWING = 8 };

struct render {
    struct arena arena;
    struct growing growing[N_GROWING]; /* most recently used first */
    struct buf out; /* captures (macros, block set) grow at its end and are then removed */
    struct err *err;
    int rc;
    uint64_t n_step, n_step_max;
    int depth, depth_max;
    const char *source;
    uint32_t at; /* current source offset, for messages */
    struct dict *globals;
    struct scope *scope;
    int64_t now;
};

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

/* Set render.rc once and return undefined, for `return jinja_fail(r, ...)`. */
struct val jinja_fail(struct render *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void jinja_fail_code(struct render *r, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool render_charge(struct render *r, uint64_t n_step); /* false: failed */
bool render_enter(struct render *r);                   /* recursion; false: failed */
void render_leave(struct render *r);
void *render_push(struct render *r, size_t count, size_t size); /* zeroed; NULL: failed */
void render_no_memory(struct render *r, size_t n); /* an allocation of n bytes failed */
/* Make room for one more item in an array of n items of `size` bytes (NULL: no array yet). Returns
 * the array, or a copy with twice *cap. NULL: failed. */
void *render_grow(struct render *r, void *v, uint32_t n, uint32_t *cap, size_t size);

enum flow exec_body(struct render *r, const struct node *n);
struct val exec_capture(struct render *r, const struct node *body);
struct val macro_call(struct render *r, const struct macro *macro, const struct args *args);
struct val loop_call(struct render *r, const struct loop *loop, const struct args *args);
struct val eval(struct render *r, const struct node *n);
struct val eval_filters(struct render *r, const struct node *n, struct val body);
struct scope *scope_push(struct render *r,
                         struct scope *up); /* becomes the current one; NULL: failed */
void scope_set(struct render *r, struct scope *s, uint32_t sym, struct val v);
const struct val *scope_find(struct render *r, const struct scope *s, uint32_t sym);

/* ---- jinja_value.c ---- */

#define VAL_NONE      ((struct val){.kind = V_NONE})
#define VAL_UNDEFINED ((struct val){.kind = V_UNDEFINED})
static inline struct val val_bool(bool b)
{
    return (struct val){.kind = V_BOOL, .b = b};
}
static inline struct val val_int(int64_t i)
{
    return (struct val){.kind = V_INT, .i = i};
}
static inline struct val val_real(double d)
{
    return (struct val){.kind = V_REAL, .d = d};
}
/* Make a text of borrowed bytes, which must outlive the rendering. */
static inline struct val val_text(const char *s, size_t n)
{
    return (struct val){.kind = V_TEXT, .n = (uint32_t)n, .s = s};
}
struct val val_copy_text(struct render *r, const char *s, size_t n);
struct val val_list(struct render *r, uint8_t kind, uint32_t n_reserve);
struct val val_dict(struct render *r, uint8_t kind);
struct val val_from_json(struct render *r, const struct json *j);
/* Return the value of a JSON text; the text itself if it is not JSON. */
struct val val_from_json_text(struct render *r, struct val text);

const char *val_type(struct val v); /* Python's type name: "str" */
bool val_truth(struct val v);
bool val_is_number(struct val v); /* bool, int, float */
bool val_is_seq(struct val v);    /* list or tuple    */
double val_as_real(struct val v); /* v must be a number */
bool val_equal(struct render *r, struct val a, struct val b);
/* Compare two values: -1, 0, 1. Fails the rendering for kinds without an order. */
int val_compare(struct render *r, struct val a, struct val b);
bool text_is(struct val v, const char *text);

void list_add(struct render *r, struct list *l, struct val v);
void dict_put(struct render *r, struct dict *d, struct val key, struct val value);
void dict_set(struct render *r, struct dict *d, const char *key, struct val value); /* static key */
struct val *dict_find(struct render *r, const struct dict *d, struct val key); /* NULL: absent */
struct val *dict_find_text(struct render *r, const struct dict *d, const char *key);
bool dict_remove(struct render *r, struct dict *d, struct val key);

/* Return the items of a for loop as a list: items, keys, code points. Fails for other kinds. */
struct list *val_iterate(struct render *r, struct val v);

/* ---- jinja_text.c: values to text ---- */

/* Move the text after `mark` from the end of render.out to a value. */
struct val out_take(struct render *r, size_t mark);
void out_str(struct render *r, struct val v);
void out_repr(struct render *r, struct val v);
void out_real(struct buf *b, double d);
struct val val_str(struct render *r, struct val v); /* returns v itself if it is text */
struct json_style {
    const char *item_sep, *key_sep;
    size_t n_item_sep, n_key_sep;
    const char *indent; /* NULL: one line */
    size_t n_indent;
    bool ascii, sort_keys;
};
void out_json(struct render *r, struct val v, const struct json_style *style, int level);

/* Code points. Walking a text is charged: one step per 8 bytes, or per 2 if slow. */
uint32_t text_count(struct render *r, struct val v);
size_t text_step(const char *s, size_t n); /* bytes of the first code point, at least 1 if n > 0 */
size_t text_offset(struct render *r, struct val v, uint32_t i_cp);
size_t text_space(const char *s,
                  size_t n); /* bytes of the white space at s (one code point) or 0 */
size_t text_space_back(const char *s, size_t n); /* bytes of the white space at the end of s */
struct val text_strip(struct val v, bool left, bool right);
const char *text_find(struct render *r, struct val hay, size_t from, struct val needle);

/* ---- functions: globals, filters, tests and methods share one form ---- */

struct args {
    struct val *v; /* positional */
    uint32_t n;
    struct kwarg {
        struct val name, value;
    } * kw;
    uint32_t n_kw;
};

/* A builtin. self is the filtered or tested value, or the method's object; undefined for global
 * functions. */
typedef struct val builtin_fn(struct render *r, struct val self, const struct args *args);

struct builtin {
    const char *name;
    builtin_fn *fn;
};

struct bound {
    struct val self;
    const struct builtin *method;
};

/* Return an argument by position or keyword (name NULL: position only). NULL if not given. */
const struct val *arg(const struct args *a, uint32_t i, const char *name);
bool arg_bool(const struct args *a, uint32_t i, const char *name, bool fallback);
int64_t arg_int(struct render *r, const struct args *a, uint32_t i, const char *name,
                int64_t fallback);
/* Return an argument as text; `fallback` if absent. Fails if it is not a string. */
struct val arg_text(struct render *r, const struct args *a, uint32_t i, const char *name,
                    const char *fallback);
struct args args_tail(const struct args *a, uint32_t n_skip);
struct val val_call(struct render *r, struct val callee, const struct args *args);

const struct builtin *filter_find(const char *name, size_t n);
const struct builtin *is_find(const char *name, size_t n);
const struct builtin *method_find(struct val self, const char *name, size_t n);
const struct builtin *global_find(const char *name, size_t n);
const struct builtin *builtin_find(const struct builtin *table, size_t count, const char *name,
                                   size_t n);

/* Access by attribute, subscript and "a.b.0" path. An attribute of undefined fails. */
struct val val_attr(struct render *r, struct val v, struct val name);
struct val val_item(struct render *r, struct val v, struct val index);
struct val val_path(struct render *r, struct val v, struct val path);
struct val val_slice(struct render *r, struct val v, const struct val bound[3]);
struct val val_concat(struct render *r, struct val a, struct val b); /* two texts */
struct val val_binary(struct render *r, int op, struct val a, struct val b);
bool val_contains(struct render *r, struct val hay, struct val needle);
/* "%s of %d" % values, and "{} {name:>8}".format(...). */
struct val text_format_percent(struct render *r, struct val format, const struct args *args);
struct val text_format_braces(struct render *r, struct val format, const struct args *args);
struct val text_case(struct render *r, struct val v, char mode); /* 'u' 'l' 't'itle 'c'apitalize */
struct val text_replace(struct render *r, struct val v, struct val from, struct val to,
                        int64_t count);

#endif
