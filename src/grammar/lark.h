/* lark.h - private to grammar: convert Lark's grammars, in the form of llguidance and OpenAI's
 * custom tools, to rules.
 *
 * A grammar matches the texts that Lark's Earley parser accepts with lexer="dynamic_complete",
 * which considers every division of a text into terminals. Priorities, aliases and the marks ? ! _
 * are ignored, because they change only the tree of a text. Texts of %ignore may precede and follow
 * each terminal. A terminal with a lazy repetition matches only its shortest texts, none of which
 * is a prefix of another. Lazy and greedy repetitions in one terminal, look-around, assertions,
 * %declare of used terminals, %override and %extend are not supported. Any thread. A grammar
 * belongs to one thread at a time. */
#ifndef QUOTH_GRAMMAR_LARK_H
#define QUOTH_GRAMMAR_LARK_H

#include "cfg.h"
#include "gbnf.h"

/* Read a module that a grammar imports (%import .a.b.NAME: path "a/b.lark") into *text, which
 * lark_parse frees. *text remains NULL if the module does not exist. An ERR_* code fails
 * lark_parse. */
typedef int lark_import_fn(const void *arg, const char *path, char **text, size_t *n,
                           struct err *e);

/* Options of lark_parse. All pointers are borrowed for the call. */
struct lark_options {
    /* name of the start rule or terminal; NULL: `start`, or the first rule or terminal if there is
     * none */
    const char *start;
    token_id_fn *token;
    const void *token_arg;
    /* function that reads imports; NULL: only imports of `common` and `unicode` */
    lark_import_fn *import;
    const void *import_arg;
};

/* Parse a Lark grammar into an open cfg. The text is borrowed for the call. The errors ERR_FORMAT,
 * ERR_UNSUPPORTED and ERR_LIMIT contain the line and column. Other errors are those of o->import
 * and cfg_finish. */
int lark_parse(struct cfg *g, const char *text, size_t n, const struct lark_options *o,
               struct err *e);

#endif
