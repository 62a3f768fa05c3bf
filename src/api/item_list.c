/* item_list.c - see item_list.h. */
#include "item_list.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

/* Return the length of the first value of a text [n]: the bytes before a comma outside of all
 * strings, lists and objects. */
static size_t value_bytes(const char *text, size_t n)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        if (quoted)
            i += c == '\\', quoted = c != '"';
        else if (c == '"')
            quoted = true;
        else if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
        else if (c == ',' && depth == 0)
            return i;
    }
    return n;
}

int item_list_split(item_list *l, const struct buf *items, struct err *e)
{
    *l = (item_list){0};
    for (size_t at = 0, n; at < items->n; at += n + 1) {
        n = value_bytes(items->data + at, items->n - at);
        if (!vec_push(l, ((struct item_text){items->data + at, n})))
            return err_memory(e, "items", l->n * sizeof *l->v);
    }
    return 0;
}

void item_text_id(char *id, size_t n_id, const struct item_text *item)
{
    struct json *j = NULL;
    size_t n = 0;
    id[0] = 0;
    if (json_parse(&j, item->text, item->n, NULL, NULL) != 0) return;
    const char *own = json_text(json_field(j, "id"), &n);
    if (own && n < n_id) snprintf(id, n_id, "%s", own);
    json_drop(j);
}

int64_t item_list_find(const item_list *l, const char *id)
{
    for (size_t i = 0; i < l->n; i++) {
        char own[256];
        item_text_id(own, sizeof own, &l->v[i]);
        if (own[0] && strcmp(own, id) == 0) return (int64_t)i;
    }
    return -1;
}
