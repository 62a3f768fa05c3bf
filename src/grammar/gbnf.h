/* gbnf.h - private to grammar: llama.cpp's GBNF -> rules. */
#ifndef QUOTH_GRAMMAR_GBNF_H
#define QUOTH_GRAMMAR_GBNF_H

#include "cfg.h"

/* Return the id of the token with this text; -1 if none. */
typedef int32_t token_id_fn(const void *arg, const char *text, size_t n);

/* A token by its id is written as the byte FF, which no text contains, and the id in four bytes,
 * the highest first. */
enum { TOKEN_MARK = 0xff };

/* Parse a GBNF text into an open cfg; the start is the rule `root`. ERR_FORMAT, ERR_UNSUPPORTED and
 * ERR_LIMIT name the line. */
int gbnf_parse(struct cfg *g, const char *text, size_t n, token_id_fn *token, const void *arg,
               struct err *e);

/* Parse a GBNF text as a part of a larger cfg, which the caller finishes: *root is its rule `root`.
 */
int gbnf_read(struct cfg *g, const char *text, size_t n, token_id_fn *token, const void *arg,
              uint32_t *root, struct err *e);

/* Return the mark of a token; if negated, of all other tokens, and any character. */
uint32_t gbnf_token_expr(struct exprs *x, uint32_t id, bool negated);
/* Return the id in <[id]>, or of the token with the text <name>; -1 if neither. */
int64_t gbnf_token_id(const char *text, size_t n, token_id_fn *token, const void *arg);

#endif
