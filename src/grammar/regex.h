/* regex.h - private to grammar: convert regular expressions in their usual syntax to expressions
 * over UTF-8 (expr.h). Any thread; the expressions belong to one thread at a time. */
#ifndef QUOTH_GRAMMAR_REGEX_H
#define QUOTH_GRAMMAR_REGEX_H

#include "base/err.h"
#include "expr.h"

enum regex_dialect {
    REGEX_ECMA, /* ECMA 262 with the flag u, as JSON Schema requires; \d and \w are ASCII */
    REGEX_RUST, /* syntax of Rust's regex crate: \d, \w and \s are Unicode's */
};

struct regex_langs {
    uint32_t whole; /* texts that match from end to end */
    uint32_t found; /* texts that contain a match, as in JSON Schema's `pattern` */
    /* lazy: true if the expression has a lazy repetition. greedy: true if it has a greedy
     * repetition */
    bool lazy, greedy;
    /* true if the expression has an assertion, so that its texts depend on their context */
    bool asserts;
};

/* Parse n bytes of a pattern. ERR_FORMAT for a text that is not a regular expression.
 * ERR_UNSUPPORTED for look-around, back references, scripts and many assertions within repetitions.
 * Other errors are ERR_LIMIT and ERR_MEMORY. The error contains the byte offset. */
int regex_parse(struct exprs *x, const char *pattern, size_t n, enum regex_dialect dialect,
                struct regex_langs *out, struct err *e);

#endif
