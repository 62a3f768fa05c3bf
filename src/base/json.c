/* json.c - read and write the values of json.h. The values are those of jansson. json_read.c parses
 * them. A struct json * is a json_t * under another name, so other files need not include
 * jansson.h. All getters accept NULL, which is of kind JK_NONE. Therefore a chain of json_field
 * calls needs no checks. */
/* included before json.h, because json.h renames json_real, a function of jansson */
#include <jansson.h>

#include "json.h"
#include "check.h"
#include "os.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int read_file(struct json **out, const char *path, size_t bytes_max,
                     const struct json_limits *limits, struct err *e)
{
    *out = NULL;
    struct buf b = {0};
    int rc = file_read(&b, path, bytes_max, e);
    if (rc == 0 && b.n > 0) rc = file_check_content(path, b.data, b.n, e);
    if (rc == 0) {
        rc = json_parse(out, b.data, b.n, limits, e);
        if (rc != 0) err_prefix(e, rc, "%s", path);
    }
    buf_deinit(&b);
    return rc;
}

int json_read_file(struct json **out, const char *path, size_t bytes_max, struct err *e)
{
    return read_file(out, path, bytes_max, NULL, e);
}

int json_read_python(struct json **out, const char *path, size_t bytes_max, struct err *e)
{
    return read_file(out, path, bytes_max, &(struct json_limits){.python = true}, e);
}

void json_drop(struct json *root)
{
    json_decref((json_t *)root);
}

/* ---- reading ---- */

/* Return j without const, as jansson's getters require. The getters change nothing. */
static json_t *jt(const struct json *j)
{
    return (json_t *)(uintptr_t)j;
}

/* Check for NULL first, because json_typeof reads through the pointer. The other getters of jansson
 * accept NULL. */
enum json_kind json_kind(const struct json *j)
{
    if (!j) return JK_NONE;
    switch (json_typeof(jt(j))) {
    case JSON_OBJECT:
        return JK_OBJECT;
    case JSON_ARRAY:
        return JK_LIST;
    case JSON_STRING:
        return JK_TEXT;
    case JSON_INTEGER:
        return JK_INT;
    case JSON_REAL:
        return JK_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return JK_BOOL;
    case JSON_NULL:
        return JK_NULL;
    }
    return JK_NONE;
}

unsigned json_type_bit(const struct json *j)
{
    static const unsigned type[] = {
        [JK_NONE] = 0,         [JK_NULL] = JT_NULL, [JK_BOOL] = JT_BOOL, [JK_INT] = JT_NUMBER,
        [JK_REAL] = JT_NUMBER, [JK_TEXT] = JT_TEXT, [JK_LIST] = JT_LIST, [JK_OBJECT] = JT_OBJECT};
    return type[json_kind(j)];
}

/* Use the names of JSON Schema. "integer" has no separate bit, because 1.0 is also an integer. */
unsigned json_type_named(const char *name)
{
    static const struct {
        const char *name; /* static */
        unsigned type;
    } types[] = {{"null", JT_NULL},     {"boolean", JT_BOOL}, {"integer", JT_NUMBER},
                 {"number", JT_NUMBER}, {"string", JT_TEXT},  {"array", JT_LIST},
                 {"object", JT_OBJECT}};
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0) return types[i].type;
    return 0;
}

const char *json_kind_name(enum json_kind kind)
{
    CHECK((unsigned)kind <= JK_OBJECT, "kind %d", (int)kind);
    static const char *const name[] = {
        [JK_NONE] = "nothing",   [JK_NULL] = "null",        [JK_BOOL] = "a boolean",
        [JK_INT] = "an integer", [JK_REAL] = "a number",    [JK_TEXT] = "a string",
        [JK_LIST] = "an array",  [JK_OBJECT] = "an object",
    };
    return name[kind];
}

const char *json_value_text(const struct json *j, char out[80])
{
    switch (json_kind(j)) {
    case JK_BOOL:
        return json_bool(j, false) ? "true" : "false";
    case JK_INT:
        snprintf(out, 80, "%lld", (long long)json_int(j, 0));
        return out;
    case JK_REAL:
        snprintf(out, 80, "%.9g", json_real(j, 0));
        return out;
    case JK_TEXT:
        snprintf(out, 80, "\"%.60s\"", json_text(j, &(size_t){0}));
        return out;
    case JK_LIST:
        snprintf(out, 80, "a list of %zu", json_count(j));
        return out;
    default:
        return json_kind_name(json_kind(j));
    }
}

const struct json *json_field(const struct json *object, const char *key)
{
    return json_field_n(object, key, strlen(key));
}

const struct json *json_field_n(const struct json *object, const char *key, size_t n_key)
{
    return (const struct json *)json_object_getn(jt(object), key, n_key);
}

size_t json_count(const struct json *list_or_object)
{
    json_t *j = jt(list_or_object);
    return json_is_object(j) ? json_object_size(j) : json_array_size(j);
}

const struct json *json_item(const struct json *list, size_t i)
{
    return (const struct json *)json_array_get(jt(list), i);
}

void *json_first(const struct json *object)
{
    return json_object_iter(jt(object));
}

void *json_next(const struct json *object, void *it)
{
    return json_object_iter_next(jt(object), it);
}

const char *json_it_key(void *it, size_t *n)
{
    if (n) *n = it ? json_object_iter_key_len(it) : 0;
    return json_object_iter_key(it);
}

const struct json *json_it_value(void *it)
{
    return (const struct json *)json_object_iter_value(it);
}

/* Return NULL for a text that contains a NUL if n is NULL, because the text is not a C string. */
const char *json_text(const struct json *j, size_t *n)
{
    const char *text = json_string_value(jt(j));
    size_t length = json_string_length(jt(j));
    if (n) *n = length;
    return n || !text || strlen(text) == length ? text : NULL;
}

bool json_bool(const struct json *j, bool fallback)
{
    return json_is_boolean(jt(j)) ? json_is_true(jt(j)) : fallback;
}

/* Convert integers, and reals without a fraction, such as 1e3. The bounds are exact doubles. Values
 * of other kinds become 0.5, which fails the last comparison. */
int64_t json_int(const struct json *j, int64_t fallback)
{
    if (json_is_integer(jt(j))) return json_integer_value(jt(j));
    double x = json_is_real(jt(j)) ? json_real_value(jt(j)) : 0.5;
    return x >= -0x1p63 && x < 0x1p63 && x == floor(x) ? (int64_t)x : fallback;
}

double json_real(const struct json *j, double fallback)
{
    return json_is_number(jt(j)) ? json_number_value(jt(j)) : fallback;
}

/* ---- writing ---- */

static void put_list(struct buf *b, const struct json *list)
{
    buf_add_char(b, '[');
    for (size_t i = 0; i < json_count(list); i++) {
        if (i) buf_add_char(b, ',');
        json_put(b, json_item(list, i));
    }
    buf_add_char(b, ']');
}

/* Append "key":value without a comma. */
static void put_member(struct buf *b, void *it)
{
    size_t n;
    const char *key = json_it_key(it, &n);
    json_put_text(b, key, n);
    buf_add_char(b, ':');
    json_put(b, json_it_value(it));
}

static void put_object(struct buf *b, const struct json *object)
{
    buf_add_char(b, '{');
    for (void *it = json_first(object), *first = it; it; it = json_next(object, it)) {
        if (it != first) buf_add_char(b, ',');
        put_member(b, it);
    }
    buf_add_char(b, '}');
}

/* Write a comma before every member, because the caller has already written at least one member. */
void json_put_members(struct buf *b, const struct json *object, const char *left_out)
{
    const size_t n_left_out = left_out ? strlen(left_out) : 0;
    for (void *it = json_first(object); it; it = json_next(object, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        if (left_out && n == n_left_out && memcmp(key, left_out, n) == 0) continue;
        buf_add_char(b, ',');
        put_member(b, it);
    }
}

void json_put(struct buf *b, const struct json *j)
{
    size_t n;
    switch (json_kind(j)) {
    case JK_NONE:
    case JK_NULL:
        buf_add_text(b, "null");
        break;
    case JK_BOOL:
        buf_add_text(b, json_bool(j, false) ? "true" : "false");
        break;
    case JK_INT:
        buf_addf(b, "%lld", (long long)json_int(j, 0));
        break;
    case JK_REAL:
        json_put_real(b, json_real(j, 0));
        break;
    case JK_TEXT: {
        const char *text = json_text(j, &n);
        json_put_text(b, text, n);
        break;
    }
    case JK_LIST:
        put_list(b, j);
        break;
    case JK_OBJECT:
        put_object(b, j);
        break;
    }
}

void json_member_real(struct buf *b, const char *key, double x)
{
    buf_addf(b, ",\"%s\":", key);
    json_put_real(b, x);
}

void json_member_int(struct buf *b, const char *key, int64_t x)
{
    buf_addf(b, ",\"%s\":%lld", key, (long long)x);
}

void json_member_text(struct buf *b, const char *key, const char *text)
{
    buf_addf(b, ",\"%s\":", key);
    if (text)
        json_put_text(b, text, strlen(text));
    else
        buf_add_text(b, "null");
}

/* Validate the text and discard the value. The user of the text parses the text again. ERR_MEMORY
 * is the only error that does not mean an invalid text. */
int json_object_form(const char *text, struct err *e)
{
    struct json *root = NULL;
    struct err why = {.text = "of another type"};
    int rc = json_parse(&root, text, strlen(text), NULL, &why);
    bool object = json_kind(root) == JK_OBJECT;
    json_drop(root);
    if (rc == ERR_MEMORY) return err_set(e, rc, "%s", why.text);
    return object ? 0
                  : err_set(e, ERR_ARG, "must be a JSON object, got \"%.60s\": %s", text, why.text);
}
