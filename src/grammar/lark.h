/* lark.h - private to grammar: Lark's grammars, as llguidance and OpenAI's custom tools accept them -> rules.
 *
 * The texts are those that Lark's Earley parser takes with lexer="dynamic_complete": every way to divide a text into terminals counts.
 * So priorities, which choose among several trees of one text, change no text; they are read and left, as are aliases and the marks
 * ? ! _. What %ignore names may stand before and after each terminal. A terminal with a lazy repetition means its shortest
 * texts: those of which no beginning is one; lazy and greedy in one terminal are refused, as are look-around, assertions, %declare
 * where it is used, %override and %extend. */
#ifndef QUOTH_GRAMMAR_LARK_H
#define QUOTH_GRAMMAR_LARK_H

#include "cfg.h"
#include "gbnf.h"

/* Read a module that a grammar imports (%import .a.b.NAME: path "a/b.lark") into *text, allocated; *text stays NULL: it is not there. */
typedef int lark_import_fn(const void *arg, const char *path, char **text, size_t *n,
                           struct err *e);

struct lark_options {
    const char *
        start; /* a rule or terminal; NULL: `start`, or the first rule or terminal if there is none */
    token_id_fn *token;
    const void *token_arg;
    lark_import_fn *import; /* NULL: only `common` and `unicode` can be imported */
    const void *import_arg;
};

/* Parse a Lark grammar into an opened cfg. ERR_FORMAT, ERR_UNSUPPORTED and ERR_LIMIT name the line and column. */
int lark_parse(struct cfg *g, const char *text, size_t n, const struct lark_options *o,
               struct err *e);

#endif
