/* json.h - JSON (RFC 8259), the only place that decides its corner cases:
 *
 *   - text must be valid UTF-8; a lone surrogate escape becomes U+FFFD; \u0000 is kept (strings and
 *     keys carry a length)
 *   - a duplicate key: the last one wins; keys keep their order of first appearance
 *   - a number without fraction or exponent that fits int64 is an integer, every other number a
 *     double; above double's range is an error
 *   - depth and node count are limited before anything recurses or allocates, so no document
 *     exhausts the stack or memory
 *   - a failed allocation is ERR_MEMORY, never another document
 *   - written doubles have the fewest digits that read back to the same double, and stay doubles
 *     (1.0 and 1e+20, not 1); NaN and infinities are written as null
 *
 * Values are immutable. A child is borrowed from its root and valid as long as the root.
 * Every getter accepts NULL or a value of another kind, and then returns its value for "absent".
 */
#ifndef QUOTH_BASE_JSON_H
#define QUOTH_BASE_JSON_H

#include "buf.h"
#include "err.h"

struct json; /* opaque */

/* jansson exports a json_real of its own */
#define json_real json_real_or

enum json_kind { JK_NONE, JK_NULL, JK_BOOL, JK_INT, JK_REAL, JK_TEXT, JK_LIST, JK_OBJECT };

/* limits of a document: depth_max counts nested arrays and objects, node_max values and object
 * keys */
struct json_limits {
    size_t depth_max; /* at most 2048; 0: 512 */
    size_t node_max;  /* 0: 20 million */
    /* Called for each number that is no int64, with its text, which may be more precise than a
     * double. Returns false if memory ran out. NULL: none. */
    bool (*number)(void *arg, const struct json *j, const char *text, size_t n);
    void *arg;
};

/* Parse n bytes as one JSON document. The error gives line and column. `limits` may be NULL. */
int json_parse(struct json **out, const char *text, size_t n, const struct json_limits *limits,
               struct err *e);
/* Parse a file of at most n_byte_max bytes. The error names the file. */
int json_read_file(struct json **out, const char *path, size_t n_byte_max, struct err *e);
/* Check that the text is a JSON object: a form_fn (base/names.h). */
int json_object_form(const char *text, struct err *e);
void json_drop(struct json *root); /* free a root; NULL is allowed */

enum json_kind json_kind(const struct json *j);  /* JK_NONE for NULL */
const char *json_kind_name(enum json_kind kind); /* "a string", "an object": for errors */

const struct json *json_field(const struct json *object, const char *key); /* NULL: not there */
const struct json *json_field_n(const struct json *object, const char *key, size_t n_key);
size_t json_count(const struct json *list_or_object);
const struct json *json_item(const struct json *list, size_t i);

/* Iterate over an object's members in order:
 * for (void *it = json_first(o); it; it = json_next(o, it)). */
void *json_first(const struct json *object);
void *json_next(const struct json *object, void *it);
const char *json_it_key(void *it, size_t *n);
const struct json *json_it_value(void *it);

/* Return the text, NULL if not a string. If n is NULL, a string that contains a NUL also gives
 * NULL, because the caller would take the part before it for the whole. */
const char *json_text(const struct json *j, size_t *n);
bool json_bool(const struct json *j, bool fallback);
/* of integers, and of reals that are whole */
int64_t json_int(const struct json *j, int64_t fallback);
double json_real(const struct json *j, double fallback); /* of integers and reals */

/* Append compact JSON to a buf. Text is quoted and escaped; each invalid UTF-8 sequence becomes
 * U+FFFD. */
void json_put_text(struct buf *b, const char *text, size_t n);
size_t json_text_bytes(const char *text, size_t n); /* bytes that json_put_text appends */
void json_put_real(struct buf *b, double x);
void json_put_float(struct buf *b, float x);        /* fewest digits that read back as x */
void json_put(struct buf *b, const struct json *j); /* a complete value */
/* Append ,"KEY":VALUE with its comma: for any member but an object's first. key: plain ASCII. */
void json_member_real(struct buf *b, const char *key, double x);
void json_member_int(struct buf *b, const char *key, int64_t x);
void json_member_text(struct buf *b, const char *key, const char *text); /* NULL: null */

#endif
