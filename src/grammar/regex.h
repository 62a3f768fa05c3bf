/* regex.h - private to grammar: regular expressions as people write them -> expressions over UTF-8 (expr.h). */
#ifndef QUOTH_GRAMMAR_REGEX_H
#define QUOTH_GRAMMAR_REGEX_H

#include "base/err.h"
#include "expr.h"

enum regex_dialect {
    REGEX_ECMA, /* ECMA 262 with the u flag, as JSON Schema asks for: \d and \w are ASCII */
    REGEX_RUST, /* the syntax of Rust's regex crate: \d, \w and \s are Unicode's */
};

struct regex_langs {
    uint32_t whole;    /* texts that match from end to end */
    uint32_t found;    /* texts in which a match is found, as JSON Schema's pattern means it */
    bool lazy, greedy; /* it has a repetition of either kind */
    bool asserts;      /* it has an assertion: its texts depend on what is around them */
};

/* Parse n bytes. ERR_FORMAT: not a regular expression; ERR_UNSUPPORTED: look-around, back references, scripts, many
 * assertions within repetitions; ERR_LIMIT, ERR_MEMORY. The error names the byte offset. */
int regex_parse(struct exprs *x, const char *pattern, size_t n, enum regex_dialect dialect,
                struct regex_langs *out, struct err *e);

#endif
