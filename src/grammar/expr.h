/* expr.h - private to grammar: regular expressions over bytes, hash-consed, with derivatives.
 *
 * An expression is a number. Equal expressions have equal numbers, so a number is also a state of a
 * lazy DFA. The transition function of the DFA is expr_next, by Brzozowski's derivatives. See
 * Owens, Reppy, Turon 2009, "Regular-expression derivatives re-examined". Only the states that a
 * text reaches are computed, also for intersection and complement.
 *
 *   regex.c, schema*.c ... -> expr_or, expr_cat ... -> number
 *   number -> expr_next(byte) -> number -> machine.c
 *
 * Operators in addition to the usual operators:
 *
 *   STRING(a)  the JSON spellings (raw, \n, \u00e9 ...) of the texts of a, and a quote
 *   MULTIPLE   digits whose value is a multiple of a number
 *   TAG(n)     the empty text that reports which alternative matched
 *
 * A failure is permanent, as in struct buf. `failed` is set after memory is exhausted or a limit is
 * reached. Every operator then returns EXPR_EMPTY, so the caller checks once. One thread at a time,
 * because expr_next writes caches. */
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
    EX_EMPTY,   /* no text                                                                       */
    EX_EPSILON, /* the empty text                                                                */
    EX_SET,     /* one byte of a set; a: index of the byte set */
    EX_CAT,     /* concatenation of a and b; a is not a CAT */
    /* alternation of list [a, a + b): at least two operands, ascending, none of them an OR */
    EX_OR,
    /* intersection of list [a, a + b): at least two operands, ascending, none of them an AND */
    EX_AND,
    EX_NOT, /* every byte string that a does not match */
    EX_REP, /* repetition of a, at least b and at most c times (c may be EXPR_INF) */
    EX_TAG, /* the empty text, which reports the tag a */
    /* JSON spellings of the texts of a, and the closing quote. c: flag (expr_string.c) */
    EX_STRING,
    EX_ESCAPE, /* STRING(a) after a backslash; c: flag */
    /* STRING(a) within \u. b: number of digits read << 16 | value of these digits. c: high
     * surrogate, and flag */
    EX_HEX,
    /* digits of a multiple. a: index of the divisor. b: remainder so far. c: stage. 0: before the
     * first digit. 1: in the integer. 2 + k: after the point and k digits. */
    EX_MULTIPLE,
    EX_LEAP,               /* time with a leap second; a, b: see expr_leap.c */
    EX_SCIENTIFIC_INTEGER, /* integer in scientific notation; a, b, c: see expr_scientific.c */
};

struct expr {
    uint8_t op;
    bool nullable : 1; /* true if the expression matches the empty text */
    /* true for EXPR_EMPTY, and if the operators alone prove that the expression has a text */
    bool simple : 1;
    uint8_t alive : 2;    /* ALIVE_*: result of the search for a text that matches */
    uint8_t descends : 2; /* ALIVE_*: result of `descends` (expr_alive.c) */
    uint16_t weight;      /* estimated steps of a derivative, UINT16_MAX if more (expr_next.c) */
    uint32_t a, b, c;
    uint32_t reach; /* start of the expression's list of tags in exprs.reach; 0: not computed yet */
    uint32_t least; /* estimate of the bytes of the shortest text (expr_alive.c) */
    /* arena [256]: expr_next by byte, then the maximum steps of a derivative with a cold cache;
     * NULL: not computed yet */
    uint32_t *row;
};
enum { ROW_COST = 256 }; /* index of the row's work, after the 256 bytes */
enum { ALIVE_UNKNOWN, ALIVE_NO, ALIVE_YES };

/* A divisor of decimal numbers: value x 10^scale must be a multiple of m. */
struct divisor {
    uint32_t m;     /* modulus, at least 1 */
    uint32_t scale; /* decimal exponent, at most 18 */
};

/* Limits of the work on expressions; 0: no limit. */
struct expr_limits {
    size_t bytes_max; /* maximum bytes of all expressions and their data */
    size_t row_max;   /* maximum number of states with computed transitions */
    /* maximum processor time of this thread since exprs_resume, microseconds */
    int64_t us_max;
    int64_t work_max; /* maximum number of steps of a piece of work (exprs_resume) */
    bool (*grow)(void *arg, size_t n_byte); /* callback for the growth (grammar_limits.grow) */
    void *grow_arg;                         /* borrowed until exprs_close: argument of grow */
};

enum expr_failure {
    EXPR_OK,
    EXPR_NO_MEMORY,
    /* a fixed bound of this program: nesting, or concurrent threads of a match */
    EXPR_TOO_DEEP,
    EXPR_BYTES,
    EXPR_CROWDED, /* `grow` has returned false */
    EXPR_STATES,
    EXPR_TIME,
    EXPR_WORK,
    EXPR_CANCELLED
};

struct exprs {
    struct arena arena; /* memory of the rows */
    struct expr *e;     /* owned; [n] expressions by number */
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
    /* owned; [cap]: derivatives by the current byte, valid if memo_of is the current generation */
    uint32_t *memo, *memo_of;
    uint32_t memo_now;
    /* owned; [cap]: generation of the search of mask.c that reached the expression */
    uint32_t *seen, seen_now;
    size_t n_row;
    uint32_t one_byte[256], any_char; /* numbers of frequent expressions; 0: not made yet */
    /* current depth of nested alternatives with equal beginnings (expr.c) */
    int factoring;
    struct expr_limits limit;
    size_t n_step;              /* number of steps until the limits are checked again */
    int64_t n_work;             /* number of steps from exprs_open to the last check */
    struct {                    /* accounts of the work (expr_limit.c) */
        struct expr_task *task; /* borrowed: task in progress; NULL if none */
        int64_t at;             /* value of exprs_work up to which steps are charged */
        int64_t call;           /* steps of this piece of work outside of tasks */
        int64_t kept;           /* steps of finished tasks */
        int64_t saved;          /* steps that cached rows have saved within tasks */
        int64_t kept_before;    /* value of `kept` at the beginning of this piece of work */
        int64_t forgotten;      /* sum of `kept` and `saved` at the last call of exprs_forget */
    } spent;
    uint32_t served;      /* expression whose row is computed before its user's row; 0 if none */
    int64_t served_steps; /* steps that rows of `served` have saved since exprs_open */
    /* deadline in the thread's processor time, microseconds; 0: not set yet */
    int64_t us_end;
    size_t n_byte_other; /* bytes of the machine's data on the expressions */
    enum expr_failure failed;
};

/* Open an empty set of expressions. Return false if memory is exhausted. Call exprs_close in any
 * case. One thread at a time uses a set. */
bool exprs_open(struct exprs *x, struct expr_limits limit);
void exprs_close(struct exprs *x); /* free the memory; a zeroed struct is allowed */

/* ---- limits (expr_limit.c) ---- */

/* The order in which states are computed changes their cost by much less than 1/WORK_SLACK. A piece
 * of work fails if it exceeds work_max by 1/WORK_SLACK. */
enum { WORK_SLACK = 16 };

/* Begin a new piece of work, limited to limit.us_max and limit.work_max. A failed set remains
 * failed. */
void exprs_resume(struct exprs *x);
/* Begin the last interrupted piece of work again. Finished tasks still count. */
void exprs_repeat(struct exprs *x);

/* A part of the work whose result is cached, so that it counts once: a row, a search. The struct is
 * on its owner's stack between exprs_begin and exprs_end. */
struct expr_task {
    struct expr_task *up; /* borrowed: task that contains this task; NULL if none */
    int64_t n;            /* steps of the task itself, without the tasks that it contains */
};
void exprs_begin(struct exprs *x, struct expr_task *t); /* charge further steps to t */
/* End t. kept: true if its result is cached; false: its steps do not count. */
void exprs_end(struct exprs *x, struct expr_task *t, bool kept);
/* Return the number of steps of this piece of work, including the tasks that it has finished. */
int64_t exprs_spent(struct exprs *x);
/* Return at least the number of steps that this piece of work would need without cached results of
 * earlier pieces since exprs_forget. The number includes the steps of all tasks since
 * exprs_forget. */
int64_t exprs_spent_by_all(struct exprs *x);
void exprs_forget(struct exprs *x); /* do not count the tasks so far in exprs_spent_by_all */

/* Return the number of bytes of all expressions and their data. */
size_t exprs_bytes(const struct exprs *x);
/* Count n steps and check all limits. Set x->failed and return false if a limit is reached or the
 * client has disconnected. */
bool exprs_check(struct exprs *x, size_t n);
int64_t exprs_work(const struct exprs *x); /* return the number of steps since exprs_open */
/* Count n steps of work, of about 15 ns each. Every long loop calls expr_spend. Return false if a
 * limit is reached, or the client has disconnected (base/cancel.h). */
static inline bool expr_spend(struct exprs *x, size_t n)
{
    if (x->n_step <= n) return exprs_check(x, n);
    x->n_step -= n;
    return true;
}
/* Return the remaining limits of x, for temporary expressions in `other`. The limits have no
 * `grow`. exprs_adopt later adds the bytes of `other` to those of x, and restores the time limit.
 * The caller still owns `other`. */
struct expr_limits exprs_left(struct exprs *x);
/* Add the bytes of `other` to those of x, and restore the time limit of `other`. */
void exprs_adopt(struct exprs *x, struct exprs *other);
/* Return 0, or the code of `failed` with the reason in *why. The caller adds the place. ERR_MEMORY,
 * ERR_BUSY if `grow` returned false or the client has disconnected, ERR_LIMIT for every other
 * limit. */
int exprs_error(const struct exprs *x, struct err *why);

/* ---- constructors. Return the number of an expression, valid until exprs_close. Equal expressions
 * have equal numbers. Arguments are numbers, or borrowed for the call. x->failed is set and the
 * result is EXPR_EMPTY if a limit is reached or memory is exhausted. ---- */

/* Return an expression of one byte of the set. */
uint32_t expr_set(struct exprs *x, const struct byteset *s);
/* Return an expression of one byte in [lo, hi]. */
uint32_t expr_range(struct exprs *x, uint8_t lo, uint8_t hi);
/* Return an expression of exactly this text. */
uint32_t expr_bytes(struct exprs *x, const void *text, size_t n);
/* Return the concatenation of a and b. */
uint32_t expr_cat(struct exprs *x, uint32_t a, uint32_t b);
/* Return the texts of a or b. */
uint32_t expr_or(struct exprs *x, uint32_t a, uint32_t b);
/* Return the texts of any of the n expressions. */
uint32_t expr_or_list(struct exprs *x, const uint32_t *v, size_t n);
/* Return the texts that both a and b match. */
uint32_t expr_and(struct exprs *x, uint32_t a, uint32_t b);
/* Return the texts that all n expressions match. */
uint32_t expr_and_list(struct exprs *x, const uint32_t *v, size_t n);
/* Return the byte strings that a does not match. */
uint32_t expr_not(struct exprs *x, uint32_t a);
/* Return the repetition of a, at least min and at most max times. EXPR_INF: no maximum. */
uint32_t expr_rep(struct exprs *x, uint32_t a, uint32_t min, uint32_t max);
/* Return the empty text that reports a tag. */
uint32_t expr_tag(struct exprs *x, uint32_t tag);
/* Return the JSON spellings of the texts of a, which must be valid UTF-8, and the closing quote.
 * The tags of `a` are reported after the quote. */
uint32_t expr_string(struct exprs *x, uint32_t a);
/* Return expr_string(a) without the escape \/, which is two characters in Python. */
uint32_t expr_string_python(struct exprs *x, uint32_t a);
/* Return the spellings of the texts of a, without a closing quote: a part of a string. Texts of a
 * have no tags. */
uint32_t expr_string_part(struct exprs *x, uint32_t a, bool python);
bool expr_is_string_part(const struct expr *e); /* return true for a state of expr_string_part */
/* Return the spellings of the texts of a, with the escapes of the STRING e. */
uint32_t expr_string_like(struct exprs *x, const struct expr *e, uint32_t a);
/* Return the plain JSON spelling of each text of a, and the closing quote. EXPR_EMPTY if `a` has
 * operators other than single bytes, sequences and alternatives. */
uint32_t expr_literal(struct exprs *x, uint32_t a);
/* Return digits, or digits . digits, whose value is a multiple of m / 10^scale. */
uint32_t expr_multiple(struct exprs *x, struct divisor d);
/* Return the integers in scientific notation. A number in scientific notation is an expr_mantissa
 * and an expr_exponent. */
uint32_t expr_scientific_integer(struct exprs *x);
enum { EXPONENT_MAX = 999 };
/* Return the mantissas: a digit except 0, and a fraction. */
uint32_t expr_mantissa(struct exprs *x);
/* Return the exponents: e and a number in [lo, hi]. */
uint32_t expr_exponent(struct exprs *x, int lo, int hi);
/* Return the times of RFC 3339 with a leap second, which are 23:59:60 in UTC. */
uint32_t expr_leap(struct exprs *x);
/* Return the characters of code points [lo, hi] in UTF-8, without surrogates. */
uint32_t expr_chars(struct exprs *x, uint32_t lo, uint32_t hi);
/* Return the characters of all code points in UTF-8, without surrogates. */
uint32_t expr_any_char(struct exprs *x);

/* ---- the automaton ---- */
/* Return true if e matches the empty text. */
bool expr_nullable(const struct exprs *x, uint32_t e);
/* Return the derivative of e by a byte: the rest of each text that begins with this byte.
 * EXPR_EMPTY if no text begins with the byte, or after a failure. */
uint32_t expr_next(struct exprs *x, uint32_t e, uint8_t byte);
/* Return the row [256] of e; NULL after a failure. */
const uint32_t *expr_row(struct exprs *x, uint32_t e);
/* Return true if e matches any text; false after a failure. */
bool expr_alive(struct exprs *x, uint32_t e);
/* Return true if e matches text. */
bool expr_matches(struct exprs *x, uint32_t e, const void *text, size_t n);
/* Tags of a text. */
struct tags {
    uint32_t *v; /* owned; tags */
    size_t n, cap;
};
/* Append the tags that e reports for the empty text, in ascending order without repetition. Return
 * false if memory is exhausted. */
bool expr_tags(const struct exprs *x, uint32_t e, struct tags *out);

/* Return the ascending tags that texts of e report. reach[0] is the number of tags, and reach[1] is
 * the first tag. NULL after a failure. The pointer is valid until the next call of expr_reach. A
 * tag must be last in its alternative, and not below AND, NOT or REP. */
const uint32_t *expr_reach(struct exprs *x, uint32_t e);

/* ---- private to expr*.c ---- */
/* Record a failure. Return EXPR_EMPTY. */
uint32_t expr_fail(struct exprs *x, enum expr_failure why);
/* Return the number of e. Make a new number if e is new. The list of an OR or AND must be the last
 * list of x->list. */
uint32_t expr_make(struct exprs *x, struct expr e);
uint32_t expr_least(const struct exprs *x, const struct expr *e);  /* return e->least */
uint16_t expr_weight(const struct exprs *x, const struct expr *e); /* return e->weight */
/* Return true if further digits can complete the multiple in state e (expr_next.c). */
bool multiple_alive(const struct exprs *x, const struct expr *e);
/* Return the derivative of e by a byte, without rows. */
uint32_t expr_derive(struct exprs *x, uint32_t e, uint8_t byte);
/* expr_leap.c, expr_scientific.c */
/* Return the derivative of a LEAP by a byte. */
uint32_t leap_derive(struct exprs *x, const struct expr *e, uint8_t byte);
/* Return the derivative of a SCIENTIFIC_INTEGER by a byte. */
uint32_t scientific_derive(struct exprs *x, const struct expr *e, uint8_t byte);
/* expr_string.c */
/* Return the derivative of a STRING, ESCAPE or HEX by a byte. */
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
