/* rename.c - names of a dialect's fields in errors about the neutral form. The sentence of an error
 * begins with its field, or contains it at field_at. */
#include "dialect.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return the part of the sentence after the field's name. */
static const char *rest_of(const struct err *e)
{
    size_t n = strlen(e->text), end = e->field_at + strlen(e->field);
    return e->text + (end < n ? end : n);
}

void rename_field(struct err *e, size_t n_old, const char *to, const char *path)
{
    char old[sizeof e->text];
    size_t n = strlen(e->text), at = e->field_at < n ? e->field_at : n,
           end = at + strlen(e->field) + n_old;
    memcpy(old, e->text, sizeof old);
    snprintf(e->text + at, sizeof e->text - at, "%s%s%s", to, path, old + (end < n ? end : n));
    snprintf(e->field, sizeof e->field, "%s", to);
    utf8_show(e->text, strlen(e->text));
}

size_t rename_index(const struct err *e, size_t *i)
{
    const char *text = rest_of(e);
    char *end;
    if (text[0] != '[' || text[1] < '0' || text[1] > '9') return 0;
    *i = strtoul(text + 1, &end, 10);
    return *end == ']' ? (size_t)(end - text) + 1 : 0;
}

bool rename_by(struct err *e, const struct rename *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t n_path = strlen(row[i].path);
        if (strcmp(e->field, row[i].field) != 0 || strncmp(rest_of(e), row[i].path, n_path) != 0)
            continue;
        rename_field(e, n_path, row[i].to, row[i].to_path);
        return true;
    }
    return false;
}

void rename_tool(struct err *e, const struct rename *row, size_t n)
{
    char path[96];
    size_t i = 0, n_index = rename_index(e, &i);
    for (size_t k = 0; n_index > 0 && k < n; k++) {
        const size_t n_path = strlen(row[k].path);
        if (strncmp(rest_of(e) + n_index, row[k].path, n_path) != 0) continue;
        snprintf(path, sizeof path, "[%zu]%s", i, row[k].to_path);
        rename_field(e, n_index + n_path, row[k].to, path);
        return;
    }
}
