/* json.h - JSON (RFC 8259), the one place where its corner cases are settled:
 *
 *   - text must be valid UTF-8; a lone surrogate escape becomes U+FFFD; \u0000 is kept (strings and
 *     keys carry a length)
 *   - a duplicate key: the last one wins; keys keep their order of first appearance
 *   - a number without fraction or exponent that fits int64 is an integer, every other number a
 *     double; beyond double's range is an error
 *   - depth and node count are limited before anything recurses, so that no document can exhaust
 *     the stack or memory
 *   - written doubles have the fewest digits that read back to the same double, and stay doubles
 *     (1.0 and 1e+20, not 1); NaN and infinities are written as null
 *
 * Values are immutable once parsed. A child is borrowed from its root and lives as long as it.
 * Every getter accepts NULL and a value of another kind, and then answers "not there". */
#ifndef QUOTH_BASE_JSON_H
#define QUOTH_BASE_JSON_H

#include "buf.h"
#include "err.h"

struct json; /* opaque */

/* jansson, on which this stands, exports a json_real of its own. */
#define json_real json_real_or

enum json_kind { JK_NONE, JK_NULL, JK_BOOL, JK_INT, JK_REAL, JK_TEXT, JK_LIST, JK_OBJECT };

/* depth_max counts arrays and objects inside each other (jansson itself stops at 2,048), node_max
 * values and object keys. */
struct json_limits {
    size_t depth_max; /* 0: 512 */
    size_t node_max;  /* 0: 20 million */
};

/* Parse n bytes as one JSON document. The error names line and column. `limits` may be NULL. */
int json_parse(struct json **out, const char *text, size_t n, const struct json_limits *limits,
               struct err *e);
/* The same of a file of at most n_byte_max bytes; the error names it. */
int json_read_file(struct json **out, const char *path, size_t n_byte_max, struct err *e);
void json_drop(struct json *root); /* frees a root; NULL is fine */

enum json_kind json_kind(const struct json *j);  /* JK_NONE for NULL */
const char *json_kind_name(enum json_kind kind); /* "a string", "an object": for error sentences */

const struct json *json_field(const struct json *object, const char *key); /* NULL: not there */
const struct json *json_field_n(const struct json *object, const char *key, size_t n_key);
size_t json_count(const struct json *list_or_object);
const struct json *json_item(const struct json *list, size_t i);

/* Walk an object's members in order: for (void *it = json_first(o); it; it = json_next(o, it)). */
void *json_first(const struct json *object);
void *json_next(const struct json *object, void *it);
const char *json_it_key(void *it, size_t *n);
const struct json *json_it_value(void *it);

const char *json_text(const struct json *j, size_t *n); /* NULL if not a string; n may be NULL */
bool json_bool(const struct json *j, bool otherwise);
int64_t json_int(const struct json *j, int64_t otherwise); /* integers, and reals that are whole */
double json_real(const struct json *j, double otherwise);  /* integers and reals                 */

/* Writing: compact pieces appended to a buf. Text is quoted and escaped; what is not UTF-8 in it
 * becomes U+FFFD. */
void json_put_text(struct buf *b, const char *text, size_t n);
void json_put_real(struct buf *b, double x);
void json_put_float(struct buf *b,
                    float x); /* the fewest digits that read back to the same float */
void json_put(struct buf *b, const struct json *j); /* a whole value, compact */
/* ,"KEY":VALUE with a comma before it, as every member but an object's first has; key: plain ASCII. */
void json_member_real(struct buf *b, const char *key, double x);
void json_member_int(struct buf *b, const char *key, int64_t x);
void json_member_text(struct buf *b, const char *key, const char *text); /* NULL: null */

#endif
