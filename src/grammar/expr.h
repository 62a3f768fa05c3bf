/* expr.h - private to grammar: regular expressions over bytes, hash-consed, with derivatives.
 *
 * An expression is a number. Equal expressions have equal numbers, so a number is also a state of a
 * lazy DFA, and expr_next is its transition function (Brzozowski 1964; Owens, Reppy, Turon 2009,
 * "Regular-expression derivatives re-examined"). The cost of intersection and complement is that of
 * the states that a text reaches.
 *
 *   regex.c, schema*.c ... -> expr_or, expr_cat ... -> number -> expr_next(byte) -> number -> machine.c
 *
 * Operators besides the usual ones: STRING(a), the JSON spellings (raw, \n, \u00e9 ...) of the texts
 * of a and a quote; MULTIPLE, digits whose value is a multiple of a number; TAG(n), the empty text
 * that reports which alternative matched.
 *
 * A failure is sticky, as in struct buf: if memory is exhausted or a limit is reached, every operator
 * returns EXPR_EMPTY and `failed` is set; the caller checks once. One thread at a time: reading
 * (expr_next) writes caches. */
#ifndef QUOTH_GRAMMAR_EXPR_H
#define QUOTH_GRAMMAR_EXPR_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum { EXPR_EMPTY = 0, EXPR_EPSILON = 1, EXPR_INF = INT32_MAX };

struct byteset {
    uint64_t w[4];
};

enum expr_op {
    EX_EMPTY,    /* no text                                                                       */
    EX_EPSILON,  /* the empty text                                                                */
    EX_SET,      /* a: index of a byte set; one byte of it                                        */
    EX_CAT,      /* a then b; a is not a CAT */
    EX_OR,       /* list [a, a + b): at least two, ascending, none of them an OR */
    EX_AND,      /* list [a, a + b): at least two, ascending, none of them an AND */
    EX_NOT,      /* a: every byte string that a does not match                                    */
    EX_REP,      /* a, at least b and at most c times (c may be EXPR_INF)                         */
    EX_TAG,      /* the empty text, reporting a                                                   */
    EX_STRING,   /* JSON spellings of the texts of a, and the closing quote                       */
    EX_ESCAPE,   /* STRING(a) after a backslash                                                   */
    EX_HEX,      /* STRING(a) within \u: b = digits read << 16 | their value, c = high surrogate  */
    EX_MULTIPLE, /* digits; a: index of a divisor, b = remainder so far, c = stage: 0 before the first digit, 1 in the
                    integer, 2 + k after the point and k digits                                    */
    EX_LEAP,     /* a time with a leap second; a, b: expr_leap.c's */
    EX_SCIENTIFIC_INTEGER, /* an integer in scientific notation; a, b, c: expr_scientific.c's */
};

struct expr {
    uint8_t op;
    bool nullable; /* true if it matches the empty text */
    /* true if no operator below it can be without a text, unless it is EXPR_EMPTY itself */
    bool simple;
    uint8_t alive; /* ALIVE_*: whether a text matches */
    uint32_t a, b, c;
    uint32_t reach; /* start of its list of tags in exprs.reach; 0: not computed yet */
    uint32_t *row;  /* expr_next by byte; NULL: not computed yet */
};
enum { ALIVE_UNKNOWN, ALIVE_NO, ALIVE_YES };

/* A divisor of decimal numbers: value x 10^scale must be a multiple of m. */
struct divisor {
    uint32_t m;     /* at least 1 */
    uint32_t scale; /* at most 18 */
};

/* Limits; 0: no limit. */
struct expr_limits {
    size_t n_byte_max;  /* memory of everything made */
    size_t n_row_max;   /* states with computed transitions */
    int64_t us_max;     /* this thread's processor time since exprs_resume */
    int64_t n_work_max; /* steps of work since exprs_resume */
};

enum expr_failure {
    EXPR_OK,
    EXPR_NO_MEMORY,
    EXPR_TOO_DEEP, /* nested, or concurrent threads of a match: a fixed bound of this program */
    EXPR_BYTES,
    EXPR_STATES,
    EXPR_TIME,
    EXPR_WORK,
    EXPR_CANCELLED
};

struct exprs {
    struct arena arena; /* rows */
    struct expr *e;     /* owned; [n] */
    uint32_t n, cap;
    uint32_t *slot; /* owned; open addressing over e, n_slot a power of two */
    uint32_t n_slot;
    VEC(uint32_t) list;      /* operands of OR and AND */
    VEC(struct byteset) set; /* byte sets */
    uint32_t *set_slot;      /* owned; open addressing over set, n_set_slot a power of two */
    uint32_t n_set_slot;
    VEC(struct divisor) divisor;
    VEC(uint32_t) work;  /* operands under construction, a stack */
    VEC(uint32_t) reach; /* lists of tags: their number, then the tags */
    /* owned; [cap]: derivative by the byte, valid if memo_of is the present generation */
    uint32_t *memo, *memo_of;
    uint32_t memo_now;
    uint32_t *seen, seen_now; /* owned; [cap]: generation of the search that reached it */
    size_t n_row;
    uint32_t one_byte[256], any_char; /* number of expressions made before; 0: not yet */
    int factoring;                    /* expr.c: nesting of alternatives with equal beginnings */
    struct expr_limits limit;
    size_t n_step;       /* steps until the limits are checked again */
    int64_t n_work;      /* steps since exprs_open, up to the last check */
    int64_t work_end;    /* maximum of n_work; 0: no limit */
    int64_t us_end;      /* end of the work, in the thread's processor time; 0: not set yet */
    size_t n_byte_other; /* memory of the machine's data on them */
    enum expr_failure failed;
};

/* Returns false if memory is exhausted. */
bool exprs_open(struct exprs *x, struct expr_limits limit);
void exprs_close(struct exprs *x); /* Safe on a zeroed struct. */

/* ---- limits (expr_limit.c) ---- */

/* Begin a new piece of work, limited to limit.us_max and limit.n_work_max. */
void exprs_resume(struct exprs *x);
size_t exprs_bytes(const struct exprs *x); /* Return the memory of everything made. */
bool exprs_check(struct exprs *x,
                 size_t n);                /* Count n steps; return true if no limit is reached. */
int64_t exprs_work(const struct exprs *x); /* Return the steps since exprs_open. */
/* Count n steps of work, of about 15 ns each. Every long loop calls it. Returns false if a limit is
 * reached, or the client has disconnected (base/cancel.h). */
static inline bool expr_spend(struct exprs *x, size_t n)
{
    if (x->n_step <= n) return exprs_check(x, n);
    x->n_step -= n;
    return true;
}
/* Return the rest of the limits, for temporary expressions; exprs_adopt then counts them as parts
 * of x. */
struct expr_limits exprs_left(struct exprs *x);
void exprs_adopt(struct exprs *x, struct exprs *other);
/* Return 0, or the code of `failed`, and set the reason in *e, which the caller appends to the
 * place. */
int exprs_error(const struct exprs *x, struct err *why);

/* ---- constructors ---- */
uint32_t expr_set(struct exprs *x, const struct byteset *s);
uint32_t expr_range(struct exprs *x, uint8_t lo, uint8_t hi);
/* Return an expression of exactly this text. */
uint32_t expr_bytes(struct exprs *x, const void *text, size_t n);
uint32_t expr_cat(struct exprs *x, uint32_t a, uint32_t b);
uint32_t expr_or(struct exprs *x, uint32_t a, uint32_t b);
uint32_t expr_or_list(struct exprs *x, const uint32_t *v, size_t n);
uint32_t expr_and(struct exprs *x, uint32_t a, uint32_t b);
uint32_t expr_and_list(struct exprs *x, const uint32_t *v, size_t n);
uint32_t expr_not(struct exprs *x, uint32_t a);
uint32_t expr_rep(struct exprs *x, uint32_t a, uint32_t min, uint32_t max);
uint32_t expr_tag(struct exprs *x, uint32_t tag);
/* Return the JSON spellings of the texts of a, which must be valid UTF-8, and the closing quote.
 * Tags of a are reported after the quote. */
uint32_t expr_string(struct exprs *x, uint32_t a);
/* As expr_string, but only the plain spelling of each text. EXPR_EMPTY if `a` is not made of single
 * bytes, sequences and alternatives alone. */
uint32_t expr_literal(struct exprs *x, uint32_t a);
/* Return digits, or digits . digits, whose value is a multiple of m / 10^scale. */
uint32_t expr_multiple(struct exprs *x, struct divisor d);
/* A number in scientific notation is an expr_mantissa and an expr_exponent. */
uint32_t expr_scientific_integer(struct exprs *x);
enum { EXPONENT_MAX = 999 };
uint32_t expr_mantissa(struct exprs *x);                 /* a digit except 0, and a fraction */
uint32_t expr_exponent(struct exprs *x, int lo, int hi); /* e and a number in [lo, hi]        */
/* Return the times of RFC 3339 with a leap second, whose offset makes them 23:59:60 in UTC. */
uint32_t expr_leap(struct exprs *x);
/* Return the characters of code points [lo, hi] in UTF-8, without surrogates. */
uint32_t expr_chars(struct exprs *x, uint32_t lo, uint32_t hi);
uint32_t expr_any_char(struct exprs *x);

/* ---- the automaton ---- */
bool expr_nullable(const struct exprs *x, uint32_t e);
uint32_t expr_next(struct exprs *x, uint32_t e, uint8_t byte);
const uint32_t *expr_row(struct exprs *x, uint32_t e); /* [256]; NULL if it failed */
/* Return whether e matches any text; false after a failure. */
bool expr_alive(struct exprs *x, uint32_t e);
/* Return whether e matches text. */
bool expr_matches(struct exprs *x, uint32_t e, const void *text, size_t n);
/* Append the tags that e reports for the empty text, ascending, each once. Returns false if memory
 * is exhausted. */
struct tags {
    uint32_t *v; /* owned */
    size_t n, cap;
};
bool expr_tags(const struct exprs *x, uint32_t e, struct tags *out);

/* Return the tags that texts of e report: reach[0] of them, ascending, from reach[1] on. NULL if it
 * failed. The pointer is valid until the next call. A tag must be last in its alternative, and not
 * below AND, NOT or REP. */
const uint32_t *expr_reach(struct exprs *x, uint32_t e);

/* ---- private to expr*.c ---- */
uint32_t expr_fail(struct exprs *x, enum expr_failure why); /* EXPR_EMPTY */
uint32_t expr_make(struct exprs *x, struct expr e);
uint32_t expr_derive(struct exprs *x, uint32_t e, uint8_t byte); /* without rows */
/* expr_leap.c, expr_scientific.c */
uint32_t leap_derive(struct exprs *x, const struct expr *e, uint8_t byte);
uint32_t scientific_derive(struct exprs *x, const struct expr *e, uint8_t byte);
/* expr_string.c */
uint32_t string_derive(struct exprs *x, const struct expr *e, uint8_t byte);
bool string_alive(struct exprs *x, const struct expr *e);
/* Return the state of e (ESCAPE or HEX) with the operand `a`. */
uint32_t string_with(struct exprs *x, const struct expr *e, uint32_t a);

static inline bool byteset_has(const struct byteset *s, uint8_t b)
{
    return s->w[b >> 6] >> (b & 63) & 1;
}

/* Return the lowest byte of a non-empty set. */
static inline uint8_t byteset_first(const struct byteset *s)
{
    int w = 0;
    while (!s->w[w]) w++;
    return (uint8_t)(64 * w + __builtin_ctzll(s->w[w]));
}

static inline void byteset_add(struct byteset *s, uint8_t b)
{
    s->w[b >> 6] |= 1ull << (b & 63);
}

#endif
