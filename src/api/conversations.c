/* conversations.c - OpenAI's conversations: lists of items to which responses are added.
 *
 *   POST /v1/conversations                      make a conversation, with items
 *   GET, POST, DELETE /v1/conversations/{id}    read it, change its metadata, delete it
 *   GET, POST /v1/conversations/{id}/items      list its items, add items
 *   GET, DELETE /v1/conversations/{id}/items/ID
 *
 * A conversation is a record of the store of responses: its object and its items. A change that
 * depends on the old value is repeated if another request has changed the record.
 *
 * Items of all clients have one form in the store, that of responses_keep_item. A body of items is
 * therefore read like the `input` of a response, and an item that no response accepts is rejected
 * here. Only the owner of a conversation finds it; others get the error for an unknown id. */
#include "item_list.h"
#include "openai.h"
#include "responses.h"
#include "stored.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* TRIES: attempts of a change, which fails only if another request changes the record meanwhile */
enum { TRIES = 8, ID_BYTES = 64 };

/* A request about a conversation. Pointers are borrowed from the exchange and the server. */
struct visit {
    struct store *store;
    uint64_t owner;
    char id[ID_BYTES];        /* id of the conversation */
    const char *item;         /* id of an item; NULL: the conversation itself */
    struct buf object, items; /* texts of the record, owned */
    int64_t version;
};

/* Free the texts. A visit that has loaded nothing is allowed. */
static void visit_deinit(struct visit *v)
{
    buf_deinit(&v->object);
    buf_deinit(&v->items);
}

/* Set the error of a conversation that does not exist. */
static int no_conversation(const char *id, struct err *e)
{
    return err_field(e, ERR_MISSING, "conversation_id", ": conversation \"%.80s\" not found", id);
}

/* Read the path: ID or ID/items/ITEM. ERR_MISSING without a store. */
static int visit_begin(struct visit *v, const struct exchange *x, const struct server *s,
                       struct err *e)
{
    const char *text = exchange_param(x) ? exchange_param(x) : "", *rest = strchr(text, '/');
    const size_t n = rest ? (size_t)(rest - text) : strlen(text);
    *v = (struct visit){.store = s->o.store, .owner = server_owner(x)};
    snprintf(v->id, sizeof v->id, "%.*s", n < ID_BYTES ? (int)n : 0, text);
    if (rest && strncmp(rest, "/items/", 7) == 0 && rest[7])
        v->item = rest + 7;
    else if (rest)
        v->id[0] = 0;
    if (v->store && strncmp(v->id, "conv_", 5) == 0) return 0;
    return no_conversation(text, e);
}

/* Add the conversation's id to an error of the store. */
static int name_error(const struct visit *v, int rc, struct err *e)
{
    return rc == ERR_MISSING ? no_conversation(v->id, e) : rc;
}

/* Delete the conversation with its items. Stored responses of it remain. */
static int remove_whole(const struct visit *v, struct err *e)
{
    return name_error(v, store_delete(v->store, v->owner, v->id, e), e);
}

/* Set object, items and version. The texts of an earlier attempt are dropped. */
static int visit_load(struct visit *v, struct err *e)
{
    const struct store_texts t = {.head = &v->object, .body = &v->items, .version = &v->version};
    buf_clear(&v->object);
    buf_clear(&v->items);
    return name_error(v, store_get(v->store, v->owner, v->id, &t, e), e);
}

/* Set the version. ERR_MISSING if the conversation does not exist. Its texts, which may have many
 * megabytes, are not read. */
static int visit_find(struct visit *v, struct err *e)
{
    const struct store_texts t = {.version = &v->version};
    return name_error(v, store_get(v->store, v->owner, v->id, &t, e), e);
}

/* Append the object of a conversation. */
static void put_object(struct buf *b, const char *id, int64_t created, const struct json *metadata)
{
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    out_word(&o, "id", id);
    out_word(&o, "object", "conversation");
    out_int(&o, "created_at", created);
    if (metadata) {
        openai_put_json(&o, "metadata", metadata);
    } else {
        out_object(&o, "metadata");
        out_end(&o);
    }
    out_end(&o);
}

/* Append the items of a body in the form of the store. `items` may be absent unless `needed` is
 * true. */
static int read_items(struct buf *out, const struct visit *v, const struct json *body, bool needed,
                      struct err *e)
{
    const struct json *list = body_field(body, "items");
    struct buf b = {0};
    struct json *as_input = NULL, *neutral = NULL;
    char hex[RESPONSES_HEX + 1];
    if (list && json_kind(list) != JK_LIST) return body_wrong("items", "a list of items", list, e);
    if (json_count(list) == 0)
        return needed ? err_field(e, ERR_ARG, "items", ": must have at least 1 item, got 0") : 0;
    responses_random(hex);
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    openai_put_json(&o, "input", list);
    out_end(&o);
    int rc = b.failed ? err_memory(e, "items", b.n) : json_parse(&as_input, b.data, b.n, NULL, e);
    struct responses_source from = {
        .body = as_input, .store = v->store, .owner = v->owner, .hex = hex, .keep = true};
    if (rc == 0) rc = responses_neutral(&neutral, &from, e);
    if (rc == 0) rc = openai_check_calls(neutral, e);
    if (rc != 0) err_rename(e, rc, "input", "items");
    if (rc == 0) buf_add(out, from.items.data, from.items.n);
    vec_deinit(&from.places);
    buf_deinit(&from.items);
    json_drop(neutral);
    json_drop(as_input);
    buf_deinit(&b);
    return rc;
}

void post_conversation(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct json *body = server_body(s, x, NULL);
    struct visit v = {.store = s->o.store, .owner = server_owner(x)};
    struct err e = {0};
    char hex[RESPONSES_HEX + 1];
    if (!body) return;
    responses_random(hex);
    snprintf(v.id, sizeof v.id, "conv_%s", hex);
    int rc = v.store ? responses_check_metadata(body, &e)
                     : err_set(&e, ERR_UNSUPPORTED, "nothing is stored here");
    if (rc == 0) rc = read_items(&v.items, &v, body, false, &e);
    put_object(&v.object, v.id, time_wall_us() / 1000000, body_field(body, "metadata"));
    if (rc == 0 && (v.object.failed || v.items.failed)) rc = err_memory(&e, "items", v.items.n);
    if (rc == 0)
        rc = store_put(v.store, v.owner, v.id,
                       &(struct store_texts){.head = &v.object, .body = &v.items}, &e);
    json_drop(body);
    stored_answer(x, rc, &e, &v.object);
    visit_deinit(&v);
}

/* ---- one conversation, one item ---- */

/* Set *list to the items, which the caller frees, and *i to the index of the path's item. */
static int find_item(const struct visit *v, item_list *list, size_t *i, struct err *e)
{
    int rc = item_list_split(list, &v->items, e);
    const int64_t at = rc == 0 ? item_list_find(list, v->item) : -1;
    if (rc == 0 && at < 0)
        rc = err_field(e, ERR_MISSING, "item_id", ": item \"%.80s\" not found", v->item);
    *i = at < 0 ? 0 : (size_t)at;
    return rc;
}

void get_conversation(struct exchange *x, void *server)
{
    struct visit v;
    struct err e = {0};
    struct buf b = {0};
    item_list list;
    size_t i;
    int rc = visit_begin(&v, x, server, &e);
    if (rc == 0) rc = visit_load(&v, &e);
    if (rc == 0 && v.item) {
        rc = find_item(&v, &list, &i, &e);
        if (rc == 0) buf_add(&b, list.v[i].text, list.v[i].n);
        vec_deinit(&list);
    } else if (rc == 0) {
        buf_add(&b, v.object.data, v.object.n);
    }
    stored_answer(x, rc, &e, &b);
    visit_deinit(&v);
}

/* Write the object with the body's metadata. The time of the creation is kept. */
static int change_metadata(struct visit *v, const struct json *body, struct err *e)
{
    struct json *old = NULL;
    int rc = json_parse(&old, v->object.data, v->object.n, NULL, e);
    if (rc == 0) {
        buf_clear(&v->object);
        put_object(&v->object, v->id, json_int(json_field(old, "created_at"), 0),
                   body_field(body, "metadata"));
        if (v->object.failed) rc = err_memory(e, "metadata", v->object.n);
    }
    json_drop(old);
    return rc;
}

/* Write the items without the path's item. */
static int remove_item(struct visit *v, struct err *e)
{
    item_list list;
    struct buf rest = {0};
    size_t at;
    int rc = find_item(v, &list, &at, e);
    for (size_t i = 0; rc == 0 && i < list.n; i++) {
        if (i == at) continue;
        if (rest.n) buf_add_char(&rest, ',');
        buf_add(&rest, list.v[i].text, list.v[i].n);
    }
    vec_deinit(&list);
    if (rc == 0 && rest.failed) rc = err_memory(e, "items", rest.n);
    buf_deinit(&v->items);
    v->items = rest;
    return rc;
}

/* Change the metadata of the record by the body, or remove the item if body is NULL. */
static int change(struct visit *v, const struct json *body, struct err *e)
{
    int rc = ERR_BUSY;
    for (int i = 0; rc == ERR_BUSY && i < TRIES; i++) {
        rc = visit_load(v, e);
        if (rc == 0) rc = body ? change_metadata(v, body, e) : remove_item(v, e);
        if (rc == 0)
            rc = store_replace(v->store, v->owner, v->id, v->version,
                               &(struct store_texts){.head = &v->object, .body = &v->items}, e);
    }
    return rc;
}

void post_conversation_change(struct exchange *x, void *server)
{
    struct visit v;
    struct err e = {0};
    struct json *body = server_body(server, x, NULL);
    if (!body) return;
    int rc = visit_begin(&v, x, server, &e);
    if (rc == 0 && v.item)
        rc = err_field(&e, ERR_MISSING, "item_id", ": an item cannot be changed");
    /* null removes the metadata */
    if (rc == 0 && !json_field(body, "metadata"))
        rc = body_wrong("metadata", "an object", NULL, &e);
    if (rc == 0) rc = responses_check_metadata(body, &e);
    if (rc == 0) rc = change(&v, body, &e);
    json_drop(body);
    stored_answer(x, rc, &e, &v.object);
    visit_deinit(&v);
}

void delete_conversation(struct exchange *x, void *server)
{
    struct visit v;
    struct err e = {0};
    struct buf b = {0};
    int rc = visit_begin(&v, x, server, &e);
    if (rc == 0 && v.item) {
        rc = change(&v, NULL, &e);
        buf_add(&b, v.object.data, v.object.n);
    } else if (rc == 0 && (rc = remove_whole(&v, &e)) == 0) {
        struct json_out o = {.b = &b};
        out_object(&o, NULL);
        out_word(&o, "id", v.id);
        out_word(&o, "object", "conversation.deleted");
        out_flag(&o, "deleted", true);
        out_end(&o);
    }
    stored_answer(x, rc, &e, &b);
    visit_deinit(&v);
}

/* ---- lists of items ---- */

void get_conversation_items(struct exchange *x, void *server)
{
    struct visit v;
    struct err e = {0};
    struct buf b = {0};
    int rc = visit_begin(&v, x, server, &e);
    if (rc == 0) rc = visit_load(&v, &e);
    if (rc == 0) rc = server_put_page(x, &v.items, &b, &e);
    stored_answer(x, rc, &e, &b);
    visit_deinit(&v);
}

/* Append items, and answer with the list of the new items. */
void post_conversation_items(struct exchange *x, void *server)
{
    struct visit v;
    struct err e = {0};
    struct buf items = {0}, b = {0};
    struct json *body = server_body(server, x, NULL);
    if (!body) return;
    int rc = visit_begin(&v, x, server, &e);
    if (rc == 0) rc = visit_find(&v, &e);
    if (rc == 0) rc = read_items(&items, &v, body, true, &e);
    if (rc == 0 && items.failed) rc = err_memory(&e, "items", items.n);
    if (rc == 0) rc = store_append(v.store, v.owner, v.id, &items, NULL, &e);
    if (rc == 0) rc = server_put_list(&items, &b, &e);
    json_drop(body);
    buf_deinit(&items);
    stored_answer(x, rc, &e, &b);
    visit_deinit(&v);
}
