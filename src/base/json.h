/* json.h - JSON (RFC 8259). The special cases are decided here only:
 *
 *   - text must be valid UTF-8; a lone surrogate escape becomes U+FFFD; \u0000 is kept (strings and
 *     keys have a length)
 *   - the last value of a duplicate key is used; keys keep their order of first appearance. A
 *     duplicate is an error if the limits require unique keys
 *   - a number without fraction or exponent that fits int64 is an integer. Every other number is a
 *     double. A number above double's range is an error
 *   - depth and node count are limited before any recursion or allocation, so no document exhausts
 *     the stack or memory
 *   - a failed allocation is ERR_MEMORY, never another document
 *   - written doubles have the fewest digits that read back to the same double. They stay doubles
 *     (1.0 and 1e+20, not 1). NaN and infinities are written as null
 *
 * Values are immutable. A child is borrowed from its root and valid as long as the root. Every
 * getter accepts NULL and values of other kinds, and then returns its value for an absent member.
 * Any thread. Getters change nothing, so several threads may read a document. */
#ifndef QUOTH_BASE_JSON_H
#define QUOTH_BASE_JSON_H

#include "buf.h"
#include "err.h"

struct json; /* opaque */

/* Rename json_real, because jansson exports a function of that name. */
#define json_real json_real_or

enum json_kind { JK_NONE, JK_NULL, JK_BOOL, JK_INT, JK_REAL, JK_TEXT, JK_LIST, JK_OBJECT };

/* limits of a document */
struct json_limits {
    size_t depth_max; /* maximum of nested arrays and objects, at most 2048; 0: 512 */
    size_t node_max;  /* maximum number of values and object keys; 0: 20 million */
    /* true: a duplicate key is ERR_ARG with the key as field. Set it for input from clients,
     * because a gateway may have checked only the first value */
    bool unique;
    /* true: also read Infinity, -Infinity and NaN, which Python's json writes, as the object
     * {"__float__": "Infinity"} that transformers 5 writes for such a number */
    bool python;
    /* function called for each number that is not an int64, with its text; NULL if none. The text
     * may be more precise than a double. `number` returns false if memory is exhausted. */
    bool (*number)(void *arg, const struct json *j, const char *text, size_t n);
    void *arg; /* argument of `number`, borrowed for the call */
};

/* Parse n bytes as one JSON document. The caller owns *out and frees it by json_drop; NULL after an
 * error. `limits` is borrowed for the call and may be NULL. ERR_FORMAT, ERR_LIMIT (values, depth)
 * or ERR_ARG (a repeated key) with line and column, or ERR_MEMORY. */
int json_parse(struct json **out, const char *text, size_t n, const struct json_limits *limits,
               struct err *e);
/* Parse a file of at most bytes_max bytes. The caller owns *out and frees it by json_drop; NULL
 * after an error. An error contains the path. ERR_IO if the file cannot be read, ERR_LIMIT for a
 * larger file. Other errors are those of json_parse. */
int json_read_file(struct json **out, const char *path, size_t bytes_max, struct err *e);
/* Like json_read_file, with limits.python. */
int json_read_python(struct json **out, const char *path, size_t bytes_max, struct err *e);
/* Validate a text as a JSON object. The function is a form_fn (base/names.h). ERR_ARG for any other
 * text, ERR_MEMORY. */
int json_object_form(const char *text, struct err *e);
void json_drop(struct json *root); /* free a root; NULL is allowed */

enum json_kind json_kind(const struct json *j); /* return the kind of j; JK_NONE for NULL */
/* Types of JSON as bits, for sets of types. An integer is a number. */
enum {
    JT_NULL = 1,
    JT_BOOL = 2,
    JT_NUMBER = 4,
    JT_TEXT = 8,
    JT_LIST = 16,
    JT_OBJECT = 32,
    JT_ALL = 63
};
unsigned json_type_bit(const struct json *j); /* return the bit of j's type; 0 for NULL */
/* Return the bit of a type's name in JSON Schema; 0 if the name is NULL or unknown. */
unsigned json_type_named(const char *name);
/* Return a static text for errors, such as "a string" or "an object". */
const char *json_kind_name(enum json_kind kind);
/* Return a value as text for errors, such as 12, true, "a list of 3" or "an object". A text is
 * quoted and truncated to 60 bytes. The result is static, or `out`. */
const char *json_value_text(const struct json *j, char out[80]);

/* Return the member `key`; NULL if absent. */
const struct json *json_field(const struct json *object, const char *key);
/* Return the member of an object by a name of n bytes; NULL if none. */
const struct json *json_field_n(const struct json *object, const char *key, size_t n_key);
/* Return the number of items or members; 0 for other kinds. */
size_t json_count(const struct json *list_or_object);
/* Return item i of a list; NULL if none. */
const struct json *json_item(const struct json *list, size_t i);

/* Iterate over an object's members in order: for (void *it = json_first(o); it; it = json_next(o,
 * it)). Iterators are borrowed until the object is freed. NULL if the object has no member. */
void *json_first(const struct json *object);
/* Return the iterator after `it`; NULL after the last member. */
void *json_next(const struct json *object, void *it);
/* Return the name of the member at `it`, borrowed, and its length. */
const char *json_it_key(void *it, size_t *n);
/* Return the value of the member at `it`, borrowed. */
const struct json *json_it_value(void *it);

/* Return the text; NULL if j is not a string. Also return NULL if n is NULL and the text contains a
 * NUL, because the caller would see only the part before the NUL. */
const char *json_text(const struct json *j, size_t *n);
/* Return the value of a boolean; `fallback` for other kinds. */
bool json_bool(const struct json *j, bool fallback);
/* Return the value of an integer or of a whole real; otherwise fallback. */
int64_t json_int(const struct json *j, int64_t fallback);
/* Return the value of an integer or a real; otherwise fallback. */
double json_real(const struct json *j, double fallback);

/* Append a text, quoted and escaped. Each invalid UTF-8 sequence becomes U+FFFD. */
void json_put_text(struct buf *b, const char *text, size_t n);
/* Return the number of bytes that json_put_text appends. */
size_t json_text_bytes(const char *text, size_t n);
/* Append the fewest digits that read back as x. */
void json_put_real(struct buf *b, double x);
void json_put_float(struct buf *b, float x); /* append the fewest digits that read back as x */
void json_put(struct buf *b, const struct json *j); /* append a complete value, compact */
/* Append ,"KEY":VALUE for each member of the object except `left_out` (NULL if none). Use it for
 * all members of an object except the first. */
void json_put_members(struct buf *b, const struct json *object, const char *left_out);
/* Append ,"KEY":VALUE with its comma, for all members of an object except the first. key: plain
 * ASCII. */
void json_member_real(struct buf *b, const char *key, double x);
/* Append ,"KEY":X with its comma, for all members of an object except the first. key: plain
 * ASCII. */
void json_member_int(struct buf *b, const char *key, int64_t x);
/* Append ,"KEY":"TEXT"; text NULL: append null. */
void json_member_text(struct buf *b, const char *key, const char *text);

#endif
