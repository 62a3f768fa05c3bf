/* jinja_impl.h - internals of the Jinja interpreter: tokens, syntax tree, values, one rendering.
 *
 *   source --jinja_lex--> tokens --jinja_parse--> struct node tree (immutable, template's arena)
 *   tree + context --jinja_exec / jinja_eval--> bytes in render.out
 *
 * All objects of a rendering are in its arena and are released together. Therefore values need no
 * reference counts, and cycles cause no leak. A failure is permanent. jinja_fail sets render.rc,
 * and every function then returns immediately. Four limits stop every template. step_max limits
 * work, depth_max limits recursion, the arena limits memory, and out.max limits text. Any thread
 * may render a compiled template. A rendering belongs to one thread. */
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

enum lexeme_kind {
    T_END,
    T_DATA,        /* literal text between tags, after whitespace control */
    T_PRINT_BEGIN, /* {{ */
    T_PRINT_END,
    T_BLOCK_BEGIN, /* {% */
    T_BLOCK_END,
    T_NAME,
    T_TEXT, /* string literal, after decoding of its escapes */
    T_INT,
    T_REAL,
    T_OP,
};

/* Number of an operator of two characters, e.g. OP('=', '='). The number of an operator of one
 * character is the character, e.g. '+'. */
#define OP(a, b) ((a) << 8 | (b))

struct token {
    enum lexeme_kind kind;
    int op;           /* T_OP: the operator, as OP() */
    uint32_t at;      /* byte offset in the source */
    uint32_t n;       /* length of text in bytes */
    const char *text; /* borrowed from the source or the arena [n]; no NUL at its end */
    int64_t i;        /* T_INT: value */
    double d;         /* T_REAL: value */
};

struct tokens {
    struct token *v; /* owned; release with free() */
    size_t n, cap;
};

/* Append the tokens of source (newlines normalized) to *out, which the caller frees also after an
 * error. Texts of tokens point into the source or the arena. ERR_FORMAT with line and column,
 * ERR_MEMORY. */
int jinja_lex(struct tokens *out, const char *source, size_t n, struct arena *arena, struct err *e);

/* Set the error to "line L, column C: sentence". */
int jinja_err(struct err *e, int code, const char *source, size_t at, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- values ---- */

enum val_kind {
    V_UNDEFINED, /* s, n: name of the undefined variable, for error messages */
    V_NONE,
    V_BOOL,
    V_INT,
    V_REAL,
    V_TEXT,
    V_LIST,
    V_TUPLE, /* tuple: a list that is printed in parentheses and may be a key */
    V_DICT,
    V_NAMESPACE, /* namespace: a dict with assignable attributes */
    V_MACRO,
    V_BUILTIN, /* a builtin function */
    V_BOUND,   /* bound method: a method with its object */
    V_LOOP,
    V_CYCLER,
    V_JOINER,
    V_KIND_COUNT
};

struct val {
    uint8_t kind;
    bool safe;  /* V_TEXT: true if marked by |safe or |escape */
    uint32_t n; /* length of s in bytes */
    /* all pointers: borrowed from the rendering's arena, the template's arena or the source */
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
        struct cycler *turn;
        const struct builtin *fn;
    };
};

struct list {
    struct val *v; /* items, in the rendering's arena [n]; NULL before the first */
    uint32_t n, cap;
};

struct val_pair {
    struct val key, value;
    uint32_t hash;
};

/* Dict in the order of insertion. slot[] is an index with open addressing (entry + 1; 0: empty),
 * for dicts of more than 8 entries. A dict or list may be NULL after a failed allocation, so
 * functions access no dict or list after a failure of the rendering. */
struct dict {
    struct val_pair *v; /* entries, in the rendering's arena [n]; NULL before the first */
    uint32_t n, cap;
    uint32_t *slot; /* in the rendering's arena [n_slot]; NULL: no index */
    uint32_t n_slot;
};

struct macro {
    const struct node *node; /* borrowed: N_MACRO or N_CALL_BLOCK, with parameters and body */
    struct scope *scope;     /* borrowed: scope of the definition */
};

struct loop {
    const struct val *item;  /* borrowed: the items [n] */
    uint32_t n, i;           /* i: index of the current item */
    int level;               /* depth of a recursive loop, from 0 */
    const struct node *node; /* borrowed: N_FOR */
    struct scope *scope;     /* borrowed: scope outside of the loop */
    struct val last_value;   /* last argument of loop.changed */
};

/* State of a cycler (its list and position) or of a joiner (its separator and number of uses). */
struct cycler {
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
    N_SLICE,  /* [a:b:c], as the b of an N_ITEM */
    N_CALL,   /* a(b...) */
    N_ARG,    /* a; op: 0, '=' (text), '*' or OP('*','*') */
    N_FILTER, /* a | text(b...); a NULL: the body of a filter block */
    N_TEST,   /* a is text(b...) */
    N_COND,   /* a if b else c; c: NULL if none */
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
    N_MACRO,        /* sym, text; b: parameters (N_NAME with a: default), d body; op: USES_ bits */
    N_CALL_BLOCK,   /* a call, b parameters, d body; op: USES_ bits */
    N_FILTER_BLOCK, /* b filters, d body */
    N_WITH,         /* a: N_SETs, d body */
    N_SCOPE,        /* d body: a generation block */
    N_DO,           /* a */
    N_BREAK,
    N_CONTINUE,
};

/* A node. All nodes are in the template's arena and immutable after jinja_parse. */
struct node {
    enum node_kind kind;
    int op;           /* operator, as OP(), or the kind's letter */
    uint32_t at;      /* byte offset in the source, for error messages */
    uint32_t sym;     /* symbol number of a name */
    const char *text; /* borrowed from the source or the arena [n] */
    uint32_t n;
    struct node *a, *b, *c, *d, *e; /* children in the arena; NULL if none */
    struct node *next;              /* next node of a list; NULL after the last */
    struct val val;                 /* N_CONST */
};

/* Symbol numbers of the names with a meaning for the interpreter. */
enum { SYM_LOOP, SYM_CALLER, SYM_VARARGS, SYM_KWARGS, SYM_FIRST_FREE };
/* The special names in the body of a macro. A macro accepts a caller, surplus arguments or unknown
 * names only if its body has the name. */
enum {
    USES_CALLER = 1 << SYM_CALLER,
    USES_VARARGS = 1 << SYM_VARARGS,
    USES_KWARGS = 1 << SYM_KWARGS
};

/* Parse tokens to a tree in the arena. The source must be valid as long as the tree. Set *root to
 * NULL if the template is empty. ERR_FORMAT with line and column, ERR_MEMORY. */
int jinja_parse(struct node **root, const struct tokens *tokens, const char *source,
                struct arena *arena, struct err *e);

/* ---- shared by jinja_parse.c and jinja_stmt.c ---- */

struct jinja_parser {
    const struct token *t; /* borrowed: current token */
    const char *source;    /* borrowed */
    struct arena *arena;   /* borrowed: the template's arena, for nodes */
    struct strmap syms;    /* owned: name -> symbol number */
    struct err *err;       /* borrowed: receives the first failure */
    int rc;                /* 0, or the code of the first failure */
    int depth;             /* number of calls of parser_enter without parser_leave */
    int loops; /* number of for loops of the current macro around the current statement */
    int uses;  /* USES_ bits of the current macro's body so far */
    /* borrowed: first unknown filter or test outside of conditional expressions; NULL if none */
    const struct token *unknown;
    const char *unknown_what; /* static: "filter" or "test" */
    struct node broken;       /* result of parser_node if memory is exhausted */
};

/* Return a new node. NULL if failed. */
struct node *parser_node(struct jinja_parser *p, enum node_kind kind, uint32_t at);
/* Fail the parser with the line and column of the current token. The first failure is kept. */
void parser_fail(struct jinja_parser *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Fail the parser with "expected WHAT, got FOUND" for the current token. */
void parser_expected(struct jinja_parser *p, const char *what);
/* Record the current token as the name of an unknown filter or test. The name is an error unless a
 * caller restores p->unknown, as for an expression that may never run. */
void parser_unknown(struct jinja_parser *p, const char *what);
/* Return true if the current token is this operator. */
bool parser_is_op(const struct jinja_parser *p, int op);
/* Return true if the current token is this name. */
bool parser_is_name(const struct jinja_parser *p, const char *name);
/* Consume the current token and return true if it is this operator. */
bool parser_take_op(struct jinja_parser *p, int op);
/* Consume the current token and return true if it is this name. */
bool parser_take_name(struct jinja_parser *p, const char *name);
/* Consume this operator. Fail the parser if the current token is another token. */
void parser_need_op(struct jinja_parser *p, int op);
struct node *parser_name(struct jinja_parser *p); /* parse an identifier to N_NAME */
/* Begin a nested construct. Return false if the parser has failed or the nesting is too deep.
 * Call parser_leave to end the construct, also if the result is false. */
bool parser_enter(struct jinja_parser *p);
/* End the construct of parser_enter. */
void parser_leave(struct jinja_parser *p);
struct node *parse_expr(struct jinja_parser *p); /* parse an expression, but not a bare tuple */
/* Parse an expression without an inline if, but not a bare tuple. */
struct node *parse_expr_no_cond(struct jinja_parser *p);
struct node *parse_tuple(struct jinja_parser *p); /* parse an expression or a bare tuple */
/* Parse the filters name(args) | name ..., applied to `operand`. */
struct node *parse_filters(struct jinja_parser *p, struct node *operand);
/* Parse the parameters (a, b=1) of a macro. */
struct node *parse_params(struct jinja_parser *p);
/* Parse a primary expression with its attributes, subscripts and calls. */
struct node *parse_postfix_expr(struct jinja_parser *p);

/* ---- one rendering ---- */

struct variable {
    uint32_t sym;
    struct val val;
};

struct scope {
    struct scope *up;   /* borrowed: enclosing scope; NULL if none */
    struct variable *v; /* in the rendering's arena [n]; NULL before the first */
    uint32_t n, cap;
};

/* Unused memory after a concatenated text, so that s + t + u extends s + t in place. */
struct growing {
    char *s; /* in the rendering's arena [cap] */
    uint32_t n, cap;
};
enum { N_GROWING = 8 };

struct render {
    struct arena arena;                /* owned: every value of the rendering */
    struct growing growing[N_GROWING]; /* texts under construction, most recently used first */
    /* Output. Macros and {% set %} blocks also append their text to `out`, then move the text to a
     * value. */
    struct buf out;            /* owned */
    struct err *err;           /* borrowed: receives the first failure */
    int rc;                    /* 0, or the code of the first failure */
    uint64_t n_step, step_max; /* evaluation steps so far, and limit */
    int depth, depth_max;      /* current recursion depth, and limit */
    const char *source;        /* borrowed from the template */
    uint32_t at;               /* current offset in the source, for error messages */
    struct dict *globals;      /* in the arena: the context of the rendering */
    struct scope *scope;       /* in the arena: current scope */
    int64_t now;               /* time of strftime_now, seconds since 1970 UTC */
};

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

/* Fail the rendering: set render.rc unless it is set. Return undefined, for `return jinja_fail(r,
 * ...)`. */
struct val jinja_fail(struct render *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Fail the rendering with a given ERR_*, unless it has failed before. */
void jinja_fail_code(struct render *r, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* count steps; return false after a failure */
bool render_charge(struct render *r, uint64_t n_step);
bool render_enter(struct render *r); /* begin a recursion; return false after a failure */
/* End the recursion of render_enter. */
void render_leave(struct render *r);
/* Return zeroed memory in the rendering's arena. NULL if failed. */
void *render_push(struct render *r, size_t count, size_t size);
void render_no_memory(struct render *r, size_t n); /* fail: n bytes cannot be allocated */
/* Make room for one more item in an array v of n items of `size` bytes; v is NULL if not allocated
 * yet. Return v, or a copy of v with twice the capacity. NULL if failed. */
void *render_grow(struct render *r, void *v, uint32_t n, uint32_t *cap, size_t size);

/* Run a list of statements, borrowed for the call, and append their text to r->out. All functions
 * of jinja_exec.c and jinja_eval.c return values of the rendering's arena. After a failure they
 * immediately return VAL_UNDEFINED, FLOW_NEXT or `body`. */
enum flow exec_body(struct render *r, const struct node *n);
/* Run a list of statements and return its text as a value. */
struct val exec_capture(struct render *r, const struct node *body);
/* Run a macro with these arguments and return its text. */
struct val macro_call(struct render *r, const struct macro *macro, const struct args *args);
/* Run the body of a recursive loop for the first argument, and return its text. */
struct val loop_call(struct render *r, const struct loop *loop, const struct args *args);
/* Return the value of an expression. */
struct val eval(struct render *r, const struct node *n);
/* Return the value of a chain of filters that is applied to `body`. */
struct val eval_filters(struct render *r, const struct node *n, struct val body);
/* Push a scope inside `up` and make it the current scope. Return the new scope; NULL if failed. */
struct scope *scope_push(struct render *r, struct scope *up);
/* Bind a name in s itself, not in an enclosing scope. */
void scope_set(struct render *r, struct scope *s, uint32_t sym, struct val v);
/* Return the value of a name in s or an enclosing scope, borrowed until the next scope_set; NULL if
 * unbound. */
const struct val *scope_find(struct render *r, const struct scope *s, uint32_t sym);

/* ---- jinja_value.c ---- */

#define VAL_NONE      ((struct val){.kind = V_NONE})
#define VAL_UNDEFINED ((struct val){.kind = V_UNDEFINED})
/* Return a boolean as a value. */
static inline struct val val_bool(bool b)
{
    return (struct val){.kind = V_BOOL, .b = b};
}
/* Return an integer as a value. */
static inline struct val val_int(int64_t i)
{
    return (struct val){.kind = V_INT, .i = i};
}
/* Return a double as a value. */
static inline struct val val_real(double d)
{
    return (struct val){.kind = V_REAL, .d = d};
}
/* Return a text of n borrowed bytes, which must outlive the rendering. */
static inline struct val val_text(const char *s, size_t n)
{
    return (struct val){.kind = V_TEXT, .n = (uint32_t)n, .s = s};
}
/* Return a copy of the text in the rendering's arena. VAL_UNDEFINED if failed. */
struct val val_copy_text(struct render *r, const char *s, size_t n);
/* Return a new V_LIST or V_TUPLE with room for n_reserve items. VAL_UNDEFINED if failed. */
struct val val_list(struct render *r, uint8_t kind, uint32_t n_reserve);
/* Return a new V_DICT or V_NAMESPACE without members. VAL_UNDEFINED if failed. */
struct val val_dict(struct render *r, uint8_t kind);
/* Return a copy of j, with the order of its members. VAL_UNDEFINED if failed. */
struct val val_from_json(struct render *r, const struct json *j);
/* Return the value of a JSON text; the text itself if it is not valid JSON. */
struct val val_from_json_text(struct render *r, struct val text);

const char *val_type(struct val v); /* return Python's name of the type: "str" */
/* Return the truth of v, as in Python: false for 0, "", empty lists and none. */
bool val_truth(struct val v);
bool val_is_number(struct val v); /* return true for bool, int, float */
bool val_is_seq(struct val v);    /* return true for list or tuple */
double val_as_real(struct val v); /* return a number v as a double */
/* Return true if a == b in Python: 1 equals 1.0 and true. */
bool val_equal(struct render *r, struct val a, struct val b);
/* Return -1 if a < b, 0 if a == b, and 1 if a > b. Fail the rendering if values of these kinds have
 * no order. */
int val_compare(struct render *r, struct val a, struct val b);
bool text_is(struct val v, const char *text); /* return true if v is this text */

/* Append v to the list. The rendering fails if memory or steps are exhausted, or if a value cannot
 * be a key (dict_put). */
void list_add(struct render *r, struct list *l, struct val v);
/* Set or replace the value of a key. */
void dict_put(struct render *r, struct dict *d, struct val key, struct val value);
/* Set the value of a static key. */
void dict_set(struct render *r, struct dict *d, const char *key, struct val value);
/* Return the value of a key; NULL if none. */
struct val *dict_find(struct render *r, const struct dict *d, struct val key);
/* Return the value of a text key, NUL-terminated; NULL if none. */
struct val *dict_find_text(struct render *r, const struct dict *d, const char *key);
/* Remove a key. Return false if the dict does not contain the key. */
bool dict_remove(struct render *r, struct dict *d, struct val key);

/* Return the items, keys or code points for a for loop as a list. Fail the rendering for values of
 * other kinds. */
struct list *val_iterate(struct render *r, struct val v);

/* ---- jinja_text.c: values to text ---- */

/* Move the text from `mark` to the end of render.out to a value. */
struct val out_take(struct render *r, size_t mark);
/* Append the text of a value, as Python's str spells it. */
void out_str(struct render *r, struct val v);
/* Append a text [n] `count` times; nothing if the count is not positive. The rendering is charged
 * for the bytes, and fails if they do not fit, before they are written. */
void out_repeat(struct render *r, const char *s, size_t n, int64_t count);
/* Append Python's repr of a value, with quotes for text. */
void out_repr(struct render *r, struct val v);
/* Append Python's repr of a float: the shortest digits that read back to d. */
void out_real(struct buf *b, double d);
struct val val_str(struct render *r, struct val v); /* return the text of v; v if it is text */
/* Style of tojson. All texts are borrowed. */
struct json_style {
    const char *item_sep, *key_sep; /* [n_item_sep], [n_key_sep] */
    size_t n_item_sep, n_key_sep;
    const char *indent; /* indentation per level; NULL: the JSON is on one line */
    size_t n_indent;
    bool ascii, sort_keys;
};
/* Append the JSON text of v, at `level` of indentation. Fail the rendering for values without JSON
 * text. */
void out_json(struct render *r, struct val v, const struct json_style *style, int level);

/* Return the number of code points of a text. Count one evaluation step per 8 bytes. */
uint32_t text_count(struct render *r, struct val v);
/* Return the length in bytes of the first code point, at least 1 if n > 0. */
size_t text_step(const char *s, size_t n);
/* Return the offset in bytes of code point i_cp, or v.n if the text is shorter. */
size_t text_offset(struct render *r, struct val v, uint32_t i_cp);
/* Return the length in bytes of the white space character at s; 0 if none. */
size_t text_space(const char *s, size_t n);
/* Return the length in bytes of the white space character at the end of s; 0 if none. */
size_t text_space_back(const char *s, size_t n);
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2, STRIP_BOTH = 3 };
/* Return v without white space at the selected ends. The result borrows the bytes of v. */
struct val text_strip(struct val v, unsigned sides);
/* Return the first place of needle in hay[from, n), borrowed from hay; NULL if none. */
const char *text_find(struct render *r, struct val hay, size_t from, struct val needle);

/* ---- functions: globals, filters, tests and methods share one form ---- */

struct args {
    struct val *v; /* positional arguments, in the rendering's arena [n] */
    uint32_t n;
    struct kwarg {
        struct val name, value;
    } * kw; /* keyword arguments, in the rendering's arena [n_kw] */
    uint32_t n_kw;
};

/* A builtin function. self: the filtered or tested value, or the object of the method; undefined
 * for global functions. */
typedef struct val builtin_fn(struct render *r, struct val self, const struct args *args);

struct builtin {
    const char *name;   /* static text */
    const char *params; /* static: its parameters (jinja_args.c) */
    builtin_fn *fn;
};

struct bound {
    struct val self;
    const struct builtin *method; /* static */
};

/* Return true if the function has these arguments. Otherwise fail the rendering. */
bool args_check(struct render *r, const struct builtin *fn, const struct args *a);
/* Check the arguments, and call the function. */
struct val builtin_call(struct render *r, const struct builtin *fn, struct val self,
                        const struct args *a);
/* Return an argument by position or keyword; NULL if not given. name: NULL if the argument has only
 * a position. */
const struct val *arg(const struct args *a, uint32_t i, const char *name);
/* Return an argument as a truth value; `fallback` if the argument is absent. */
bool arg_bool(const struct args *a, uint32_t i, const char *name, bool fallback);
/* Return an argument as a whole number; `fallback` if it is absent or none. Fail the rendering for
 * kinds other than integer and bool. */
int64_t arg_int(struct render *r, const struct args *a, uint32_t i, const char *name,
                int64_t fallback);
/* Return an argument as text; `fallback` if the argument is absent. Fail the rendering if the
 * argument is not a string. */
struct val arg_text(struct render *r, const struct args *a, uint32_t i, const char *name,
                    const char *fallback);
/* Return the arguments of a without the first n_skip positional arguments; borrowed from a. */
struct args args_tail(const struct args *a, uint32_t n_skip);
/* Call a function, method, macro or recursive loop. Fail the rendering for other values. */
struct val val_call(struct render *r, struct val callee, const struct args *args);

/* Return the filter of that name, static; NULL if none. */
const struct builtin *filter_find(const char *name, size_t n);
/* Return the test of that name; NULL if none. */
const struct builtin *is_find(const char *name, size_t n);
/* Return the method of that name for self's type; NULL if none. */
const struct builtin *method_find(struct val self, const char *name, size_t n);
/* Return the global function of that name; NULL if none. */
const struct builtin *global_find(const char *name, size_t n);
/* Return the row of that name in a table of `count` rows; NULL if none. */
const struct builtin *builtin_find(const struct builtin *table, size_t count, const char *name,
                                   size_t n);

/* Return an attribute of v. The rendering fails for an attribute of undefined. */
struct val val_attr(struct render *r, struct val v, struct val name);
/* Return the item of a list, text or dict; undefined if none. An index below 0 counts from the
 * end. */
struct val val_item(struct render *r, struct val v, struct val index);
/* Return the value at a path "a.b.0", by val_item for each step. */
struct val val_path(struct render *r, struct val v, struct val path);
/* Return v[a:b:c]. A bound that is none counts as absent. */
struct val val_slice(struct render *r, struct val v, const struct val bound[3]);
struct val val_concat(struct render *r, struct val a, struct val b); /* join two texts */
/* Return a op b, as in Python for numbers, texts and lists. op is '~' or an arithmetic operator.
 * Fail the rendering for kinds without that operator. */
struct val val_binary(struct render *r, int op, struct val a, struct val b);
/* Return true if hay contains needle: an item, a key, or a part of a text. */
bool val_contains(struct render *r, struct val hay, struct val needle);
/* Format with Python's "%s of %d" % values. all: a surplus value fails the rendering. */
struct val text_format_percent(struct render *r, struct val format, const struct args *args,
                               bool all);
/* Format with Python's "{} {name:>8}".format(...). */
struct val text_format_braces(struct render *r, struct val format, const struct args *args);
/* Convert the case of a text. mode: 'u' (upper), 'l' (lower), 't' (title) or 'c' (capitalize). */
struct val text_case(struct render *r, struct val v, char mode);
/* Replace at most `count` occurrences of `from`; count < 0: all occurrences. */
struct val text_replace(struct render *r, struct val v, struct val from, struct val to,
                        int64_t count);

#endif
