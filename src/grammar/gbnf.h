/* gbnf.h - private to grammar: llama.cpp's GBNF -> rules. Any thread; a grammar belongs to one
 * thread at a time. */
#ifndef QUOTH_GRAMMAR_GBNF_H
#define QUOTH_GRAMMAR_GBNF_H

#include "cfg.h"

/* Return the id of the token with this text; -1 if none. */
typedef int32_t token_id_fn(const void *arg, const char *text, size_t n);

/* Mark of a token that a rule names by its id. The mark is the byte FF, which no text contains,
 * then the id in four bytes, the highest byte first. */
enum { TOKEN_MARK = 0xff };

/* Parse a GBNF text into an open cfg. The start is the rule `root`. The text and `arg` are borrowed
 * for the call. The errors ERR_FORMAT, ERR_UNSUPPORTED and ERR_LIMIT contain the line. Other errors
 * are those of exprs_error and cfg_finish. */
int gbnf_parse(struct cfg *g, const char *text, size_t n, token_id_fn *token, const void *arg,
               struct err *e);

/* Parse a GBNF text as a part of a larger cfg, which the caller finishes. Set *root to its rule
 * `root`. Names of rules are local to the text. Errors are those of gbnf_parse. ERR_FORMAT contains
 * the name of a rule that is not defined. */
int gbnf_read(struct cfg *g, const char *text, size_t n, token_id_fn *token, const void *arg,
              uint32_t *root, struct err *e);

/* Return the mark of a token, or the marks of all other tokens and any character if `negated` is
 * true. */
uint32_t gbnf_token_expr(struct exprs *x, uint32_t id, bool negated);
/* Return the id in <[id]>, or of the token with the text <name>; -1 if the text has neither
 * form. */
int64_t gbnf_token_id(const char *text, size_t n, token_id_fn *token, const void *arg);

#endif
