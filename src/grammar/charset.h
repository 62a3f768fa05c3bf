/* charset.h - private to grammar: sets of code points as ranges, for character classes. Any thread;
 * a set belongs to one thread at a time. */
#ifndef QUOTH_GRAMMAR_CHARSET_H
#define QUOTH_GRAMMAR_CHARSET_H

#include "expr.h"

enum { CODE_POINT_MAX = 0x10ffff };

struct charset {
    struct char_range {
        uint32_t lo, hi;
    } * v; /* owned; ranges, unsorted until charset_settle */
    size_t n, cap;
    bool failed; /* true after memory is exhausted; never cleared */
};

/* Code points of each general category of Unicode, found in one search at the first use. The struct
 * is zeroed before the search. */
struct categories {
    struct charset of[30]; /* sets of code points by utf8proc_category_t */
    bool known;
};
/* Free the sets of the categories. */
void categories_deinit(struct categories *c);

/* Free the ranges; accepts a zeroed set. */
void charset_deinit(struct charset *s);
/* Add the code points [lo, hi]. */
void charset_add(struct charset *s, uint32_t lo, uint32_t hi);
/* Add the code points of another set. */
void charset_add_set(struct charset *s, const struct charset *more);
void charset_settle(struct charset *s); /* sort and merge the ranges */
void charset_invert(struct charset *s); /* invert the set, and settle it */
/* Remove the code points that are not in `other`. */
void charset_intersect(struct charset *s, const struct charset *other);
/* Add the other cases of every letter (simple case mapping). */
void charset_fold(struct charset *s);
/* Add the code points of a Unicode general category ("L", "Lu", "Letter" ...). Return false if the
 * category does not exist. */
bool charset_add_category(struct charset *s, struct categories *c, const char *name, size_t n);
/* Add the characters of \d, \w or \s (by the letter). c: NULL is allowed if `unicode` is false. */
void charset_add_class(struct charset *s, struct categories *c, char letter, bool unicode);
/* Settle s and return an expression of the UTF-8 of its characters. */
uint32_t charset_expr(struct charset *s, struct exprs *x);

#endif
