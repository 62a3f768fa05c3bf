/* charset.h - private to grammar: sets of code points as ranges, for character classes. */
#ifndef QUOTH_GRAMMAR_CHARSET_H
#define QUOTH_GRAMMAR_CHARSET_H

#include "expr.h"

enum { CODE_POINT_MAX = 0x10ffff };

struct charset {
    struct char_range {
        uint32_t lo, hi;
    } * v; /* owned; in any order until charset_settle */
    size_t n, cap;
    bool failed; /* out of memory; sticky */
};

/* The code points of each of Unicode's general categories, found in one search when the first is asked for. Zeroed: none yet. */
struct categories {
    struct charset of[30]; /* by utf8proc_category_t */
    bool known;
};
void categories_deinit(struct categories *c);

void charset_deinit(struct charset *s);
void charset_add(struct charset *s, uint32_t lo, uint32_t hi);
void charset_add_set(struct charset *s, const struct charset *more);
void charset_settle(struct charset *s); /* sort and merge */
void charset_invert(struct charset *s); /* and settle */
/* Keep what is in both. */
void charset_intersect(struct charset *s, const struct charset *other);
/* Add the other cases of every letter (simple case mapping). */
void charset_fold(struct charset *s);
/* Add the code points of a Unicode general category ("L", "Lu", "Letter" ...); false: no such category. */
bool charset_add_category(struct charset *s, struct categories *c, const char *name, size_t n);
/* Add what \d, \w, \s (by their letter) mean; c may be NULL if not `unicode`. */
void charset_add_class(struct charset *s, struct categories *c, char letter, bool unicode);
uint32_t charset_expr(struct charset *s,
                      struct exprs *x); /* settles s; the UTF-8 of its characters */

#endif
