/* place.c - members of a body that a dialect converts to the neutral form. Errors contain the
 * client's field and the path below it.
 *
 * A path is at most 79 bytes. A longer one is truncated: it is only for the client's error message,
 * and the field's name is always complete. */
#include "dialect.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

int place_wrong(const struct place *at, const char *member, const char *expected,
                const struct json *found, struct err *e)
{
    return err_field(e, ERR_ARG, at->field, "%s%s: expected %s, got %s", at->path, member, expected,
                     json_kind_name(json_kind(found)));
}

struct place place_below(const struct place *at, const char *member, size_t i)
{
    struct place out = {.field = at->field};
    snprintf(out.path, sizeof out.path, "%.40s%s[%zu]", at->path, member, i);
    return out;
}

/* Return the row of a member in a list; NULL if none. */
static const char *row_of(const char *const *members, const char *name)
{
    for (; *members; members++)
        if (strcmp(**members == '!' ? *members + 1 : *members, name) == 0) return *members;
    return NULL;
}

/* Unknown members are ignored, like unknown fields of a body. */
int place_members(const struct json *object, const struct place *at, const char *const *members,
                  struct err *e)
{
    for (void *it = json_first(object); it; it = json_next(object, it)) {
        const char *name = json_it_key(it, NULL), *row = row_of(members, name);
        if (!row)
            log_info("ignored the unknown member \"%.60s\" of %s%s", name, at->field, at->path);
        else if (*row == '!' && body_is_set(json_it_value(it)))
            return err_field(e, ERR_UNSUPPORTED, at->field, "%s.%s: not supported yet", at->path,
                             row + 1);
    }
    return 0;
}

int place_only(const struct json *object, const struct place *at, const char *const *members,
               struct err *e)
{
    char list[160] = "";
    for (void *it = json_first(object); it; it = json_next(object, it)) {
        const char *name = json_it_key(it, NULL);
        if (json_kind(json_it_value(it)) == JK_NULL || row_of(members, name)) continue;
        for (size_t i = 0, n = 0; members[i] && n < sizeof list; i++)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", members[i]);
        return err_field(e, ERR_UNSUPPORTED, at->field, "%s.%.40s: unknown member; available: %s",
                         at->path, name, list);
    }
    return 0;
}

int place_callers(const struct json *tool, const struct place *at, struct err *e)
{
    const struct json *callers = body_field(tool, "allowed_callers");
    char value[80];
    for (size_t i = 0; i < json_count(callers); i++) {
        const char *word = json_text(json_item(callers, i), NULL);
        if (!word || strcmp(word, "direct") != 0)
            return err_field(e, ERR_UNSUPPORTED, at->field,
                             "%s.allowed_callers[%zu]: must be \"direct\", got %s", at->path, i,
                             json_value_text(json_item(callers, i), value));
    }
    return 0;
}

int place_text(const struct json *object, const char *member, const struct place *at,
               const char **text, size_t *n, struct err *e)
{
    char place[32];
    const struct json *value = json_field(object, member);
    *text = json_text(value, n);
    snprintf(place, sizeof place, ".%s", member);
    return *text ? 0 : place_wrong(at, place, "a string", value, e);
}

int place_word(const struct json *object, const char *member, const struct place *at,
               const char **text, struct err *e)
{
    size_t n;
    int rc = place_text(object, member, at, text, &n, e);
    if (rc == 0 && strlen(*text) != n)
        rc = err_field(e, ERR_ARG, at->field, "%s.%s: must not contain NUL, got one at offset %zu",
                       at->path, member, strlen(*text));
    return rc;
}
