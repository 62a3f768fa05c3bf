/* responses_stored.c - items of stored responses. A stored input has its items in the form of the
 * API's lists: with an id, a status, and content as a list of parts.
 *
 * The id of an item is its prefix, the random part of its response's id, and a number. The id alone
 * is therefore enough to find an item: it gives the response, and then the item of the response. */
#include "openai.h"
#include "responses.h"

#include <stdio.h>
#include <string.h>

/* ---- items of the input ---- */

/* Append a part of a content in the form for the message's role. */
static void put_part(struct json_out *o, const char *type, const char *text, size_t n)
{
    out_object(o, NULL);
    out_word(o, "type", type);
    out_text(o, "text", text, n);
    if (strcmp(type, "output_text") == 0) {
        out_list(o, "annotations");
        out_end(o);
        out_list(o, "logprobs");
        out_end(o);
    }
    out_end(o);
}

/* Append the content of a message as a list of parts. */
static void put_content(struct json_out *o, const struct json *content, bool assistant)
{
    const char *type = assistant ? "output_text" : "input_text";
    size_t n;
    const char *text = json_text(content, &n);
    out_list(o, "content");
    if (text) put_part(o, type, text, n);
    for (size_t i = 0; !text && i < json_count(content); i++) {
        const struct json *part = json_item(content, i);
        const char *one = json_text(json_field(part, "text"), &n);
        if (one)
            put_part(o, type, one, n);
        else
            openai_put_json(o, NULL, part); /* a refusal */
    }
    out_end(o);
}

/* Append the item's own id, or an id that responses_find_item can take apart. */
static void put_id(struct json_out *o, const struct json *item, const char *prefix, const char *hex,
                   size_t number)
{
    const struct json *own = body_field(item, "id");
    char id[RESPONSES_ID_MAX];
    size_t n = 0;
    const char *text = json_text(own, &n);
    snprintf(id, sizeof id, "%s_%si%04zx", prefix, hex, number);
    if (text && n > 0 && n < RESPONSES_ID_MAX)
        out_text(o, "id", text, n);
    else
        out_word(o, "id", id);
}

/* Members of items other than messages, and the prefix of their ids. */
static const struct item_row {
    const char *type, *prefix, *members[5]; /* static */
} rows[] = {
    {"function_call", "fc", {"call_id", "name", "arguments", NULL}},
    {"custom_tool_call", "ctc", {"call_id", "name", "input", NULL}},
    {"function_call_output", "fco", {"call_id", "output", NULL}},
    {"custom_tool_call_output", "cto", {"call_id", "output", NULL}},
    {"reasoning", "rs", {"content", "encrypted_content", NULL}},
};

void responses_keep_item(struct buf *b, const struct json *item, const char *hex, size_t number)
{
    const char *type = json_text(body_field(item, "type"), NULL),
               *role = json_text(json_field(item, "role"), NULL);
    const struct item_row *row = NULL;
    struct json_out o = {.b = b, .more = b->n > 0};
    for (size_t i = 0; type && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(type, rows[i].type) == 0) row = &rows[i];
    out_object(&o, NULL);
    put_id(&o, item, row ? row->prefix : "msg", hex, number);
    out_word(&o, "type", row ? type : "message");
    out_word(&o, "status", "completed");
    for (int i = 0; row && row->members[i]; i++)
        openai_put_json(&o, row->members[i], body_field(item, row->members[i]));
    if (row && strcmp(type, "reasoning") == 0) {
        if (body_field(item, "summary")) {
            openai_put_json(&o, "summary", body_field(item, "summary"));
        } else {
            out_list(&o, "summary");
            out_end(&o);
        }
    }
    if (!row) {
        out_word(&o, "role", role);
        put_content(&o, body_field(item, "content"), role && strcmp(role, "assistant") == 0);
    }
    out_end(&o);
}

/* ---- earlier responses ---- */

/* limits of stored lists, which are those for bodies */
static const struct json_limits limits = {.depth_max = 200, .node_max = 1 << 20};

/* Set *out to the items of a stored response as one list. Only the text of the list is parsed. */
static int load(struct json **out, const struct responses_source *from, const char *id,
                struct err *e)
{
    struct buf text = {0}, list = {0};
    struct json *response = NULL;
    buf_add_char(&list, '[');
    int rc = strncmp(id, "resp_", 5) == 0
                 ? store_get(from->store, from->owner, id,
                             &(struct store_texts){.head = &text, .body = &list}, e)
                 : ERR_MISSING;
    if (rc == 0) rc = json_parse(&response, text.data, text.n, &limits, e);
    const struct json *output = json_field(response, "output");
    for (size_t i = 0; i < json_count(output); i++) {
        if (list.n > 1) buf_add_char(&list, ',');
        json_put(&list, json_item(output, i));
    }
    buf_add_char(&list, ']');
    if (rc == 0 && list.failed) rc = err_memory(e, "a stored response", list.n);
    if (rc == 0) rc = json_parse(out, list.data, list.n, &limits, e);
    json_drop(response);
    buf_deinit(&text);
    buf_deinit(&list);
    return rc;
}

int responses_conversation(const struct json *body, const char **conversation, struct err *e)
{
    static const char field[] = "conversation";
    const struct json *given = body_field(body, field), *id = given;
    *conversation = NULL;
    if (!given) return 0;
    if (json_kind(given) == JK_OBJECT) id = body_field(given, "id");
    *conversation = json_text(id, NULL);
    if (!*conversation) return body_wrong(field, "an id, or an object with an id", given, e);
    if (!body_field(body, "previous_response_id")) return 0;
    return err_field(e, ERR_ARG, field, ": must not come with previous_response_id, got \"%.80s\"",
                     *conversation);
}

/* Set *out to the items of a conversation, and from->previous to the last response that was added
 * to it. */
static int load_conversation(struct json **out, struct responses_source *from, const char *id,
                             struct err *e)
{
    struct buf list = {0}, last = {0};
    const struct store_texts t = {.body = &list, .log = &last};
    buf_add_char(&list, '[');
    int rc =
        strncmp(id, "conv_", 5) == 0 ? store_get(from->store, from->owner, id, &t, e) : ERR_MISSING;
    buf_add_char(&list, ']');
    if (rc == 0 && list.failed) rc = err_memory(e, "a conversation", list.n);
    if (rc == 0) rc = json_parse(out, list.data, list.n, &limits, e);
    if (rc == 0 && last.n) snprintf(from->previous, sizeof from->previous, "%s", last.data);
    buf_deinit(&last);
    buf_deinit(&list);
    return rc;
}

int responses_previous(struct json **out, struct responses_source *from, struct err *e)
{
    const char *id = NULL, *conversation = NULL, *field = "previous_response_id",
               *what = "response";
    struct err why = {0};
    *out = NULL;
    int rc = body_text(from->body, field, RESPONSES_ID_MAX, &id, e);
    if (rc == 0) rc = responses_conversation(from->body, &conversation, e);
    if (rc != 0 || (!id && !conversation)) return rc;
    if (conversation) id = conversation, field = "conversation", what = field;
    if (!from->store) return err_field(e, ERR_UNSUPPORTED, field, ": nothing is stored here");
    rc = conversation ? load_conversation(out, from, id, &why) : load(out, from, id, &why);
    if (rc == 0 && !conversation) snprintf(from->previous, sizeof from->previous, "%s", id);
    if (rc == ERR_MISSING) return err_field(e, rc, field, ": %s \"%.80s\" not found", what, id);
    return rc ? err_field(e, rc, field, ": %s", why.text) : 0;
}

/* Return the item with the id; NULL if the list has none. The search begins after the item of the
 * last reference, because most clients send references in order. */
static const struct json *item_of(const struct json *list, struct responses_source *from,
                                  const char *id)
{
    const size_t n = json_count(list);
    for (size_t i = 0; i < n; i++, from->n_compared++) {
        const size_t at = (from->next_item + i) % n;
        const char *own = json_text(json_field(json_item(list, at), "id"), NULL);
        if (!own || strcmp(own, id) != 0) continue;
        from->next_item = at + 1;
        return json_item(list, at);
    }
    return NULL;
}

/* Count the bytes of a stored item that replaces a reference. A reference has few bytes, so the
 * limit for bodies does not limit the items. */
static int count_item(struct responses_source *from, const struct json *item, struct err *e)
{
    enum { BYTES_MAX = 32 << 20 };
    struct buf b = {0};
    json_put(&b, item);
    from->n_referenced += b.n;
    const bool failed = b.failed;
    buf_deinit(&b);
    if (failed) return err_memory(e, "an item", 0);
    if (from->n_referenced <= BYTES_MAX) return 0;
    return err_set(e, ERR_LIMIT, "referenced items of more than %d bytes", BYTES_MAX);
}

int responses_find_item(struct json **root, const struct json **out, struct responses_source *from,
                        const char *id, struct err *e)
{
    /* LOAD_MAX: each response may take milliseconds to read. COMPARED_MAX: about a second */
    enum { LOAD_MAX = 64, COMPARED_MAX = 4 << 20 };
    char response[RESPONSES_ID_MAX];
    const char *hex = strchr(id, '_');
    if (from->n_compared > COMPARED_MAX)
        return err_set(e, ERR_LIMIT, "more than %d comparisons of ids of stored items",
                       COMPARED_MAX);
    *out = item_of(*root, from, id);
    if (*out) return count_item(from, *out, e);
    json_drop(*root);
    *root = NULL;
    if (from->n_load++ == LOAD_MAX)
        return err_set(e, ERR_LIMIT, "items of more than %d responses", LOAD_MAX);
    if (from->store && hex && strlen(hex + 1) >= RESPONSES_HEX) {
        snprintf(response, sizeof response, "resp_%.*s", (int)RESPONSES_HEX, hex + 1);
        int rc = load(root, from, response, e);
        if (rc != 0 && rc != ERR_MISSING) return rc;
        *out = item_of(*root, from, id);
    }
    return *out ? count_item(from, *out, e)
                : err_set(e, ERR_MISSING, "item \"%.80s\" not found", id);
}
