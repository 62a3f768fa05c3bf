/* fields.c - unsupported fields of a body. A reader of a body reads only the fields that it
 * supports. This file checks all fields, so that no field is ignored silently (fields.def). */
#include "api_impl.h"

#include "base/log.h"

#include <string.h>

/* Letters of the endpoints for the rows of fields.def. NAMED, ALIASED: endpoints with sampling
 * parameters by their names, and by the names of other servers. GENERATES: endpoints whose answers
 * the model generates. */
enum {
#define ENDPOINT(letter, NAME, named, aliased, generates) letter = ENDPOINT_##NAME,
#include "endpoints.def"
#undef ENDPOINT
#define ENDPOINT(letter, NAME, named, aliased, generates) +(named << ENDPOINT_INDEX_##NAME)
    NAMED = 0
#include "endpoints.def"
    ,
#undef ENDPOINT
#define ENDPOINT(letter, NAME, named, aliased, generates) +(aliased << ENDPOINT_INDEX_##NAME)
    ALIASED = 0
#include "endpoints.def"
    ,
#undef ENDPOINT
#define ENDPOINT(letter, NAME, named, aliased, generates) +(generates << ENDPOINT_INDEX_##NAME)
    GENERATES = 0
#include "endpoints.def"
#undef ENDPOINT
};

static const struct field_row fields[] = {
#define PARAM(id, name_, where_)                                                                   \
    {                                                                                              \
        .name = name_, .where = where_, .param = &sample_param[SAMPLE_##id]                        \
    }
#define REAL(name, fallback, range, flag, key, alias, help)                                        \
    PARAM(name, #name, NAMED), PARAM(name, alias, ALIASED),
#define INT(name, fallback, range, flag, key, alias, help)                                         \
    PARAM(name, #name, NAMED), PARAM(name, alias, ALIASED),
#define ONE_INT(name, ...)  PARAM(name, #name, NAMED),
#define ONE_FLAG(name, ...) PARAM(name, #name, NAMED),
#define OTHER(name, ...)    PARAM(name, #name, NAMED),
#include "sample/params.def"
#define READ(name, where)         {#name, where, SUPPORTED, NULL, NULL},
#define IDLE(name, where, why)    {#name, where, SUPPORTED, why, NULL},
#define OTHER_PATH(name, where)   {#name, where, IF_IDLE, NULL, NULL},
#define LATER(name, where)        {#name, where, IF_UNSET, NULL, NULL},
#define IF_TRUE(name, where)      {#name, where, IF_TRUE, NULL, NULL},
#define IF_NULL(name, where, why) {#name, where, IF_NULL, why, NULL},
#define OWN_LIST(name)            {#name, 0, SUPPORTED, NULL, NULL},
#include "fields.def"
#undef PARAM
#undef READ
#undef IDLE
#undef OTHER_PATH
#undef LATER
#undef IF_TRUE
#undef IF_NULL
#undef OWN_LIST
};

/* Return the row of a field for one of the endpoints `where`. NULL if no row has the field for any
 * of these endpoints. */
static const struct field_row *find(const char *name, unsigned where)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if ((fields[i].where & where) && fields[i].name && strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

/* Return true if the value would change an answer. Clients often send unsupported fields with a
 * value that means "off": null, false, 0, "", [] or {}. */
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

/* Return true if a field may have the value. */
static bool is_supported(const struct field_row *f, const struct json *value)
{
    const char *word = json_text(value, NULL);
    switch (f->support) {
    case SUPPORTED:
        return true;
    case IF_TRUE:
        return json_bool(value, json_kind(value) == JK_NULL);
    case IF_NULL:
        return json_kind(value) == JK_NULL;
    case IF_IDLE:
        if (word && (strcmp(word, "none") == 0 || strcmp(word, "auto") == 0)) return true;
        break;
    case IF_UNSET:
        break;
    }
    return !body_is_set(value);
}

const struct field_row *fields_at(size_t i)
{
    return i < sizeof fields / sizeof *fields ? &fields[i] : NULL;
}

bool fields_know(const char *name, unsigned where)
{
    return find(name, where) != NULL;
}

/* Return true if the row gives the field an effect at an endpoint that generates, now or later. A
 * row without an endpoint is a field of a list that this file does not have. */
static bool has_effect(const struct field_row *f)
{
    const bool generates = f->where & GENERATES || f->where == 0;
    return generates && (f->support == IF_UNSET || (f->support == SUPPORTED && !f->why));
}

/* Return true if the field has an effect at an endpoint that generates. */
static bool is_read(const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].name && strcmp(fields[i].name, name) == 0 && has_effect(&fields[i]))
            return true;
    return false;
}

/* Unknown fields are ignored, as in vLLM, because clients send fields of other servers. Known but
 * unsupported fields, and fields that a similar endpoint reads, are errors, because ignoring them
 * would change the answer. */
int fields_check(const struct json *body, unsigned where, struct err *e)
{
    for (void *it = json_first(body); it; it = json_next(body, it)) {
        const char *name = json_it_key(it, NULL);
        const struct field_row *f = find(name, where);
        const struct json *value = json_it_value(it);
        const bool misplaced = !f && where & GENERATES && body_is_set(value) && is_read(name);
        if (misplaced || (f && !is_supported(f, value)))
            return err_field(e, ERR_UNSUPPORTED, name, ": %s",
                             f && f->why                   ? f->why
                             : f && f->support == IF_UNSET ? "not supported yet"
                                                           : "not supported by this endpoint");
        if (!f) log_info("ignored the unknown field \"%.60s\" of a request", name);
    }
    return 0;
}

/* ---- the library's fields: a misspelled name would change an answer silently ---- */

/* Reject unknown fields. A field of another endpoint is an error only if it is set, so that one
 * params object serves several calls. */
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
