/* tag.h - private to grammar: structural tags, in xgrammar's JSON -> rules.
 *
 *   {"type": "structural_tag", "format": FORMAT}, a FORMAT alone, or the old {"structures": [{begin, schema, end}], "triggers": []}
 *
 * The parts of free text contain no trigger, no excluded string and no end of their tag. Not
 * supported, and rejected with their JSON pointer: max_tokens, the exclusion of strings within JSON,
 * some styles. Beyond xgrammar: any_order is exact. */
#ifndef QUOTH_GRAMMAR_TAG_H
#define QUOTH_GRAMMAR_TAG_H

#include "base/json.h"
#include "cfg.h"
#include "gbnf.h"
#include "schema.h"

struct tag_options {
    struct schema_options schema;
    struct machine_limits limits;
    token_id_fn *token;
    const void *token_arg;
};

/* Parse n bytes of JSON into an open cfg. ERR_FORMAT, ERR_UNSUPPORTED, ERR_LIMIT, ERR_MEMORY; the
 * error names the JSON pointer. */
int tag_parse(struct cfg *g, const char *text, size_t n, const struct tag_options *o,
              struct err *e);

/* ---- private to tag*.c ---- */
struct tag_parser {
    struct cfg *g;
    const struct tag_options *o;
    struct buf path; /* a JSON pointer */
    int depth;
    struct err *e;
};
int tag_fail(struct tag_parser *p, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Return a JSON Schema as a part. */
int tag_schema(struct tag_parser *p, const char *text, size_t n, bool any_order, struct part *out);
/* Return any text without these strings. */
uint32_t tag_text_without(struct exprs *x, uint32_t strings);
/* tag_xml.c: return the members of an object, each between a style's marks. */
int tag_xml(struct tag_parser *p, const struct json *schema, const char *style, struct part *out);

#endif
