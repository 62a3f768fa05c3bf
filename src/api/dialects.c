/* dialects.c - the dialect of each path. */
#include "dialect.h"

#include <string.h>

#define DIALECT(path, id) extern const struct dialect dialect_##id;
#include "dialects.def"
#undef DIALECT

static const struct {
    const char *path;              /* static */
    const struct dialect *dialect; /* static */
} dialects[] = {
#define DIALECT(path, id) {path, &dialect_##id},
#include "dialects.def"
#undef DIALECT
};

const struct dialect *dialect_find(const char *path)
{
    for (size_t i = 0; i < sizeof dialects / sizeof dialects[0]; i++)
        if (strcmp(dialects[i].path, path) == 0) return dialects[i].dialect;
    return NULL;
}

/* Return the dialect by the fields of a body. Amazon SageMaker sends every body to /invocations. */
const struct dialect *dialect_of(const char *path, const struct json *body)
{
    if (strcmp(path, "/invocations") != 0) return dialect_find(path);
    return body_field(body, "messages") ? &dialect_openai_chat
           : body_field(body, "input")  ? &dialect_openai_embeddings
                                        : &dialect_openai_completions;
}
