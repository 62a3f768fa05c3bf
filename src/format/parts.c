/* parts.c - look-ups in the list of models of several parts (parts.def). */
#include "format_impl.h"

#include <string.h>

static const struct parts all[] = {
#define PARTS(model_type, text, which, tied, head)                                                 \
    {model_type, text, PARTS_##which, TIED_##tied, HEAD_##head},
#include "parts.def"
};
static const char *const texts[] = {
#define PARTS_TEXT(model_type) model_type,
#include "parts.def"
};
static const struct {
    const char *model_type, *object; /* static */
} ids[] = {
#define PARTS_IDS(model_type, object, begin, first, rows, width, eps) {model_type, object},
#include "parts.def"
};
static const char *const id_fields[] = {
#define PARTS_ID(field) field,
#include "parts.def"
};
static const struct {
    const char *begin; /* static */
    bool whole;
} names[] = {
#define PARTS_NAME(begin, whole) {begin, whole},
#include "parts.def"
};
static const struct {
    const char *begin, *what; /* static */
} others[] = {
#define PARTS_OTHER(begin, what) {begin, what},
#include "parts.def"
};

const struct parts *parts_of(const char *model_type)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].model_type, model_type) == 0) return &all[i];
    return NULL;
}

bool parts_has_text(const char *model_type)
{
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i], model_type) == 0) return true;
    return false;
}

bool parts_has_ids(const struct parts *p, const char *object)
{
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (strcmp(ids[i].model_type, p->model_type) == 0 && strcmp(ids[i].object, object) == 0)
            return true;
    return false;
}

const char *parts_id_field(int i)
{
    return i >= 0 && (size_t)i < sizeof id_fields / sizeof id_fields[0] ? id_fields[i] : NULL;
}

const char *parts_name(int i, bool *whole)
{
    if (i < 0 || (size_t)i >= sizeof names / sizeof names[0]) return NULL;
    *whole = names[i].whole;
    return names[i].begin;
}

const char *parts_other(const char *raw)
{
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strncmp(raw, others[i].begin, strlen(others[i].begin)) == 0) return others[i].what;
    return NULL;
}

const struct parts *checkpoint_parts(const struct checkpoint *c)
{
    return c->parts;
}
