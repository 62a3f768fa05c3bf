/* dialects.c - the dialect of each path. */
#include "dialect.h"

#include <string.h>

#define DIALECT(path, id)       extern const struct dialect dialect_##id;
#define SHARED(path, id, field) extern const struct dialect dialect_##id;
#include "dialects.def"

const struct dialect *dialect_find(const char *path)
{
    static const struct {
        const char *path;              /* static */
        const struct dialect *dialect; /* static */
    } of[] = {
#define DIALECT(path, id) {path, &dialect_##id},
#include "dialects.def"
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        if (strcmp(of[i].path, path) == 0) return of[i].dialect;
    return NULL;
}

const struct dialect *dialect_of(const char *path, const struct json *body)
{
    static const struct {
        const char *path, *field;      /* static */
        const struct dialect *dialect; /* static */
    } shared[] = {
#define SHARED(path, id, field) {path, field, &dialect_##id},
#include "dialects.def"
    };
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        if (strcmp(shared[i].path, path) == 0 &&
            (shared[i].field[0] == 0 || body_field(body, shared[i].field)))
            return shared[i].dialect;
    return dialect_find(path);
}

bool dialect_streams(const struct dialect *d, const struct json *body)
{
    if (!d->stream_type || d->counts) return false;
    return d->streams ? d->streams(body) : json_bool(body_field(body, "stream"), false);
}
