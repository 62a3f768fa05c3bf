/* item_list.h - private to src/api: items of a record of the store, as texts. A list of a
 * conversation may have millions of values, so its items are separated without being parsed. */
#ifndef QUOTH_API_ITEM_LIST_H
#define QUOTH_API_ITEM_LIST_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

/* The text of an item, a JSON value. */
struct item_text {
    const char *text; /* borrowed [n] */
    size_t n;
};
typedef VEC(struct item_text) item_list;

/* Set *l to the items of a text, which separates them by commas. The items are borrowed from the
 * text. The caller frees the list by vec_deinit, also after an error. ERR_MEMORY. */
int item_list_split(item_list *l, const struct buf *items, struct err *e);
/* Return the index of the first item with the id; -1 if none. */
int64_t item_list_find(const item_list *l, const char *id);
/* Set id to the item's id; "" if it has none or if its id has n_id bytes or more. */
void item_text_id(char *id, size_t n_id, const struct item_text *item);

#endif
