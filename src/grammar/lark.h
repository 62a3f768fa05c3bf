/* lark.h - private to grammar: Lark's grammars, as llguidance and OpenAI's custom tools accept them
 * -> rules.
 *
 * The texts are those of Lark's Earley parser with lexer="dynamic_complete": every division of a
 * text into terminals counts. Priorities choose among several trees of one text and so change no
 * text. They are ignored, as are aliases and the marks ? ! _. Texts of %ignore may precede and
 * follow each terminal. A terminal with a lazy repetition means its shortest texts: those without a
 * beginning that is one, too. Not supported: lazy and greedy repetitions in one terminal,
 * look-around, assertions, %declare of used terminals, %override and %extend. */
#ifndef QUOTH_GRAMMAR_LARK_H
#define QUOTH_GRAMMAR_LARK_H

#include "cfg.h"
#include "gbnf.h"

/* Read a module that a grammar imports (%import .a.b.NAME: path "a/b.lark") into *text, allocated.
 * *text stays NULL if it does not exist. */
typedef int lark_import_fn(const void *arg, const char *path, char **text, size_t *n,
                           struct err *e);

struct lark_options {
    const char
        *start; /* a rule or terminal; NULL: `start`, or the first rule or terminal if none */
    token_id_fn *token;
    const void *token_arg;
    lark_import_fn *import; /* NULL: only `common` and `unicode` can be imported */
    const void *import_arg;
};

/* Parse a Lark grammar into an open cfg. ERR_FORMAT, ERR_UNSUPPORTED and ERR_LIMIT name the line
 * and column. */
int lark_parse(struct cfg *g, const char *text, size_t n, const struct lark_options *o,
               struct err *e);

#endif
