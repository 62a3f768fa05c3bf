/* body.c - typed fields of a JSON body, and the error for a field of the wrong type.
 *
 * These rules apply to all fields:
 *
 *   absent or null        the caller's default is kept; returns 0
 *   another type          ERR_ARG with the field, the expected and the found type
 *   out of range          ERR_ARG with the range
 *   too many entries      ERR_LIMIT
 *
 * Many clients send null for each option that is not set. */
#include "api_impl.h"

#include <string.h>

enum { LIST_MAX = 1 << 20 };

const struct json *body_field(const struct json *body, const char *name)
{
    const struct json *j = json_field(body, name);
    return json_kind(j) == JK_NULL ? NULL : j;
}

int body_wrong(const char *name, const char *expected, const struct json *found, struct err *e)
{
    return err_field(e, ERR_ARG, name, ": expected %s, got %s", expected,
                     json_kind_name(json_kind(found)));
}

/* Read a number. Only finite values are accepted, because JSON has no other numbers. An integer is
 * also a number. */
int body_real(const struct json *body, const char *name, double *out, struct err *e)
{
    const struct json *j = body_field(body, name);
    if (!j) return 0;
    if (json_kind(j) != JK_REAL && json_kind(j) != JK_INT)
        return body_wrong(name, "a number", j, e);
    *out = json_real(j, 0);
    return 0;
}

/* Return true if the value is a number without a fraction. A real with the minimum value of int64
 * is excluded, because it may be a rounded number. */
static bool is_whole(const struct json *j)
{
    if (json_kind(j) != JK_REAL) return json_kind(j) == JK_INT;
    return json_int(j, 0) == json_int(j, 1) && json_int(j, 0) != INT64_MIN;
}

/* Accept a real such as 16.0, because some languages have only one kind of number. */
int body_int(const struct json *body, const char *name, int64_t lo, int64_t hi, int64_t *out,
             struct err *e)
{
    const struct json *j = body_field(body, name);
    if (!j) return 0;
    if (!is_whole(j)) return body_wrong(name, "an integer", j, e);
    int64_t v = json_int(j, 0);
    if (v < lo || v > hi)
        return err_field(e, ERR_ARG, name, ": must be in [%lld, %lld], got %lld", (long long)lo,
                         (long long)hi, (long long)v);
    *out = v;
    return 0;
}

int body_flag(const struct json *body, const char *name, bool *out, struct err *e)
{
    const struct json *j = body_field(body, name);
    if (!j) return 0;
    if (json_kind(j) != JK_BOOL) return body_wrong(name, "true or false", j, e);
    *out = json_bool(j, false);
    return 0;
}

static int too_long(const char *name, size_t n, size_t max, struct err *e)
{
    return err_field(e, ERR_LIMIT, name, ": must have at most %zu entries, got %zu", max, n);
}

int body_ids(const struct json *body, const char *name, struct arena *a, const int32_t **out,
             int *n, struct err *e)
{
    const struct json *list = body_field(body, name);
    if (!list) return 0;
    if (json_kind(list) != JK_LIST) return body_wrong(name, "a list of token ids", list, e);
    size_t count = json_count(list);
    if (count > LIST_MAX) return too_long(name, count, LIST_MAX, e);
    int32_t *ids = arena_push0(a, count + 1, sizeof *ids);
    if (!ids) return err_memory(e, name, count * sizeof *ids);
    for (size_t i = 0; i < count; i++) {
        const struct json *j = json_item(list, i);
        int64_t v = json_int(j, -1);
        if (!is_whole(j))
            return err_field(e, ERR_ARG, name, "[%zu]: expected a token id, got %s", i,
                             json_kind_name(json_kind(j)));
        if (v < 0 || v > INT32_MAX)
            return err_field(e, ERR_ARG, name, "[%zu]: must be in [0, %d], got %lld", i, INT32_MAX,
                             (long long)v);
        ids[i] = (int32_t)v;
    }
    *out = ids;
    *n = (int)count;
    return 0;
}

/* The text is borrowed from the body. A text with a NUL is rejected, because callers use C
 * strings. */
int body_text(const struct json *body, const char *name, size_t n_max, const char **out,
              struct err *e)
{
    const struct json *j = body_field(body, name);
    size_t n;
    const char *text = json_text(j, &n);
    if (!j) return 0;
    if (!text) return body_wrong(name, "a string", j, e);
    if (n > n_max)
        return err_field(e, ERR_ARG, name, ": must have at most %zu bytes, got %zu", n_max, n);
    if (strlen(text) != n)
        return err_field(e, ERR_ARG, name, ": must not contain NUL, got one at offset %zu",
                         strlen(text));
    *out = text;
    return 0;
}

/* Copy a text, NUL-terminated, so that it outlives the parsed body. */
static int copy_text(struct text_span *out, const struct json *j, struct arena *a)
{
    const char *text = json_text(j, &out->n);
    out->text = text ? arena_text(a, text, out->n) : NULL;
    return out->text ? 0 : ERR_MEMORY;
}

/* A single string is read as a list with one item. Texts may contain NULs, because spans have
 * lengths. */
int body_texts(const struct json *body, const char *name, int n_max, struct arena *a,
               const struct text_span **out, int *n, struct err *e)
{
    const struct json *j = body_field(body, name);
    if (!j) return 0;
    bool one = json_kind(j) == JK_TEXT;
    if (!one && json_kind(j) != JK_LIST)
        return body_wrong(name, "a string or a list of strings", j, e);
    size_t count = one ? 1 : json_count(j);
    if (count > (size_t)n_max) return too_long(name, count, (size_t)n_max, e);
    struct text_span *v = arena_push0(a, count + 1, sizeof *v);
    if (!v) return err_memory(e, name, count * sizeof *v);
    for (size_t i = 0; i < count; i++) {
        const struct json *item = one ? j : json_item(j, i);
        if (json_kind(item) != JK_TEXT) {
            return err_field(e, ERR_ARG, name, "[%zu]: expected a string, got %s", i,
                             json_kind_name(json_kind(item)));
        }
        if (copy_text(&v[i], item, a) != 0) return err_memory(e, name, count);
    }
    *out = v;
    *n = (int)count;
    return 0;
}
