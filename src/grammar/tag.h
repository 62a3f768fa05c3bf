/* tag.h - private to grammar: convert structural tags in xgrammar's JSON to rules.
 *
 *   {"type": "structural_tag", "format": FORMAT}, a FORMAT alone, or the old form
 *   {"structures": [{begin, schema, end}], "triggers": []}
 *
 * The parts of free text contain no trigger, no excluded string and no end of their tag.
 * max_tokens, the exclusion of strings within JSON, and some styles are rejected with their JSON
 * pointer. In contrast to xgrammar, any_order is exact. Any thread; a grammar belongs to one thread
 * at a time. */
#ifndef QUOTH_GRAMMAR_TAG_H
#define QUOTH_GRAMMAR_TAG_H

#include "base/json.h"
#include "cfg.h"
#include "gbnf.h"
#include "schema.h"

/* Options of tag_parse. All pointers are borrowed for the call. */
struct tag_options {
    struct schema_options schema;
    struct machine_limits limits;
    token_id_fn *token;
    const void *token_arg;
};

/* Parse n bytes of JSON into an open cfg. Errors: ERR_FORMAT, ERR_UNSUPPORTED, ERR_LIMIT,
 * ERR_MEMORY. The error contains the JSON pointer. */
int tag_parse(struct cfg *g, const char *text, size_t n, const struct tag_options *o,
              struct err *e);

/* ---- private to tag*.c ---- */
/* A parse in progress. Pointers are borrowed from the arguments of tag_parse. */
struct tag_parser {
    struct cfg *g;
    const struct tag_options *o;
    /* text of the only argument of a call (tag_input.c); NULL: the arguments have a schema */
    const struct json *input;
    struct buf path; /* JSON pointer of the current place */
    int depth;
    struct err *e;
};
int tag_fail(struct tag_parser *p, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Set *out to a JSON Schema as a part. The texts of `opt` are borrowed for the call. Errors are
 * those of schema_open, with the pointer to the place in the tag. */
int tag_schema(struct tag_parser *p, const char *text, size_t n, const struct schema_options *opt,
               struct cfg_item *out);
/* Return any text without these strings. */
uint32_t tag_text_without(struct exprs *x, uint32_t strings);
/* Form of the text of a call whose only argument is a text. */
struct input_form {
    bool json, python;
    const char *without, *begin; /* borrowed */
};
/* Set *out to the text p->input: as parts of a JSON or Python string, or unchanged if python and
 * json are false. An unchanged text must not contain `without` and must not begin with `begin`
 * (NULL: any beginning). ERR_FORMAT, ERR_UNSUPPORTED for a grammar that cannot be enforced in this
 * form, and the errors of the grammar's front end. */
int tag_input(struct tag_parser *p, const struct input_form *form, struct cfg_item *out);
/* Set *out to the argument `input` of a call in a notation, with the text p->input. */
int tag_input_call(struct tag_parser *p, const struct schema_options *opt, struct cfg_item *out);
/* Set *out to the members of an object, each between marks of a style (tag_xml.c). token: text of
 * the special token that begins these marks; NULL if none. */
int tag_xml(struct tag_parser *p, const struct json *schema, const char *style, const char *token,
            struct cfg_item *out);

#endif
