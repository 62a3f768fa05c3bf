/* fields.c - unsupported fields of a body. Readers look for the fields that they support; this
 * checks the fields that are present, so that none is ignored silently (fields.def). */
#include "api_impl.h"

#include "base/log.h"

#include <string.h>

enum {
    C = ENDPOINT_CHAT,
    T = ENDPOINT_TEXT,
    E = ENDPOINT_EMBED,
    R = ENDPOINT_RENDER,
    L = ENDPOINT_LIBRARY
};

static const struct field {
    const char *name;
    unsigned where;
    bool later;
} fields[] = {
#define REAL(name, ...)     {#name, C | T | L, false},
#define INT(name, ...)      {#name, C | T | L, false},
#define ONE_INT(name, ...)  {#name, C | T | L, false},
#define ONE_FLAG(name, ...) {#name, C | T | L, false},
#define OTHER(name, ...)    {#name, C | T | L, false},
#include "sample/params.def"
#define READ(name, where)      {#name, where, false},
#define IDLE(name, where, why) {#name, where, false},
#define LATER(name, where)     {#name, where, true},
#include "fields.def"
#undef READ
#undef IDLE
#undef LATER
};

static const struct field *find(const char *name, unsigned where)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if ((fields[i].where & where) && strcmp(fields[i].name, name) == 0) return &fields[i];
    return NULL;
}

bool body_is_set(const struct json *j)
{
    size_t n = 0;
    switch (json_kind(j)) {
    case JK_BOOL:
        return json_bool(j, false);
    case JK_INT:
    case JK_REAL:
        return json_real(j, 0) != 0;
    case JK_TEXT:
        return json_text(j, &n) && n > 0;
    case JK_LIST:
    case JK_OBJECT:
        return json_count(j) > 0;
    default:
        return false;
    }
}

int fields_check(const struct json *body, unsigned where, struct err *e)
{
    for (void *it = json_first(body); it; it = json_next(body, it)) {
        const char *name = json_it_key(it, NULL);
        const struct field *f = find(name, where);
        const struct json *value = json_it_value(it);
        if (f && f->later && body_is_set(value))
            return err_field(e, ERR_UNSUPPORTED, name, ": not supported yet");
        if (!f) log_debug("ignored the unknown field \"%.60s\" of a request", name);
    }
    return 0;
}

/* ---- the library's fields: a misspelled name would change an answer silently ---- */

static int refuse_unknown(const struct json *body, unsigned where, struct err *e)
{
    for (void *it = json_first(body); it; it = json_next(body, it)) {
        const char *name = json_it_key(it, NULL);
        if (json_kind(json_it_value(it)) == JK_NULL || find(name, where)) continue;
        if (!find(name, ~0u)) return err_field(e, ERR_ARG, name, ": unknown field");
        if (body_is_set(json_it_value(it)))
            return err_field(e, ERR_UNSUPPORTED, name, ": not supported in the library");
    }
    return fields_check(body, where, e);
}

int api_check_params(const struct json *params, struct err *e)
{
    return refuse_unknown(params, L, e);
}

int api_check_conversation(const struct json *body, struct err *e)
{
    return refuse_unknown(body, R, e);
}
