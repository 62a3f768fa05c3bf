/* batch_line.c - lines of OpenAI's batch format (batch_line.h). */
#include "batch_line.h"

#include "base/check.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* ---- lines of requests ---- */

/* Read a required text. n: NULL is allowed. json_text returns NULL for a text with NUL if n is
 * NULL. */
static int text_field(const char **out, size_t *n, const struct json *root, const char *name,
                      struct err *e)
{
    const struct json *j = json_field(root, name);
    *out = json_text(j, n);
    if (*out) return 0;
    if (!j) return err_field(e, ERR_ARG, name, ": expected a value, got nothing");
    if (json_kind(j) == JK_TEXT) {
        size_t n_all;
        size_t at = strlen(json_text(j, &n_all));
        return err_field(e, ERR_ARG, name, ": must not contain NUL, got one at offset %zu", at);
    }
    return err_field(e, ERR_ARG, name, ": expected a string, got %s", json_kind_name(json_kind(j)));
}

/* Parse {"custom_id":"a","method":"POST","url":"/v1/...","body":{...}}. custom_id is set even if a
 * later field is wrong, because the error contains the custom_id. Duplicate names are rejected. */
int batch_line_read(struct batch_line *l, const char *text, size_t n, struct err *e)
{
    /* the limits of bodies (server_json), because a parsed line is much larger than its text */
    static const struct json_limits limits = {
        .depth_max = 200, .node_max = 1 << 20, .unique = true};
    const char *method = NULL;
    *l = (struct batch_line){0};
    int rc = json_parse(&l->root, text, n, &limits, e);
    if (rc == 0 && json_kind(l->root) != JK_OBJECT)
        rc = err_set(e, ERR_FORMAT, "expected an object, got %s",
                     json_kind_name(json_kind(l->root)));
    if (rc == 0) rc = text_field(&l->custom_id, &l->n_custom_id, l->root, "custom_id", e);
    if (rc == 0) rc = text_field(&method, NULL, l->root, "method", e);
    if (rc == 0 && strcmp(method, "POST") != 0)
        rc = err_field(e, ERR_ARG, "method", ": must be POST, got \"%.40s\"", method);
    if (rc == 0) rc = text_field(&l->url, NULL, l->root, "url", e);
    l->body = json_field(l->root, "body");
    if (rc == 0 && !l->body) rc = err_field(e, ERR_ARG, "body", ": expected a value, got nothing");
    return rc;
}

void batch_line_close(struct batch_line *l)
{
    json_drop(l->root);
    *l = (struct batch_line){0};
}

/* ---- keys of lines ---- */

/* A key is 128 bits of hashes instead of the text, so 16 bytes per request are enough. The lowest
 * bit of hash[0] is set, because 0 marks a free slot. Seeds separate custom_ids from line
 * numbers. */
struct batch_key batch_key_id(const char *custom_id, size_t n)
{
    return (struct batch_key){{hash_bytes(custom_id, n, 1) | 1, hash_bytes(custom_id, n, 2)}};
}

struct batch_key batch_key_line(uint64_t number)
{
    return (struct batch_key){
        {hash_bytes(&number, sizeof number, 3) | 1, hash_bytes(&number, sizeof number, 4)}};
}

/* Return the slot of k, or the free slot for it. The search ends, because half of the slots are
 * free. */
static struct batch_key *find_slot(const struct batch_keys *s, struct batch_key k)
{
    size_t at = k.hash[0] >> 1 & (s->n_slot - 1);
    while (s->key[at].hash[0] &&
           (s->key[at].hash[0] != k.hash[0] || s->key[at].hash[1] != k.hash[1]))
        at = (at + 1) & (s->n_slot - 1);
    return &s->key[at];
}

bool batch_keys_has(const struct batch_keys *s, struct batch_key k)
{
    return s->n_slot && find_slot(s, k)->hash[0];
}

/* Double the table, a power of two. Return false, without a change of the table, if memory is
 * exhausted. */
static bool grow(struct batch_keys *s)
{
    struct batch_keys bigger = {.n_key = s->n_key, .n_slot = s->n_slot ? s->n_slot * 2 : 1024};
    bigger.key = calloc(bigger.n_slot, sizeof *bigger.key);
    if (!bigger.key) return false;
    for (size_t i = 0; i < s->n_slot; i++)
        if (s->key[i].hash[0]) *find_slot(&bigger, s->key[i]) = s->key[i];
    free(s->key);
    *s = bigger;
    return true;
}

bool batch_keys_add(struct batch_keys *s, struct batch_key k)
{
    CHECK(2 * s->n_key <= s->n_slot, "%zu keys in %zu slots", s->n_key, s->n_slot);
    if (2 * (s->n_key + 1) > s->n_slot && !grow(s)) return false;
    struct batch_key *slot = find_slot(s, k);
    s->n_key += !slot->hash[0];
    *slot = k;
    return true;
}

void batch_keys_deinit(struct batch_keys *s)
{
    free(s->key);
    *s = (struct batch_keys){0};
}

/* ---- lines of answers ---- */

const char batch_line_start[] = "{\"id\":\"batch_req_";

/* Append the member "error" of a line: null if there is a response, and the error with the line's
 * number if not. */
static void put_error(struct buf *b, const struct batch_answer *a)
{
    if (a->status) {
        buf_add_text(b, "null");
        return;
    }
    buf_add(b, a->body->data, a->body->n - 1); /* the line without its closing brace */
    buf_addf(b, ",\"line\":%llu}", (unsigned long long)a->number);
}

/* A line, which is wrapped in this comment:
 *     {"id":"batch_req_7","custom_id":"a","response":{"status_code":200,"request_id":"...",
 *     "body":{...}},"error":null} */
void batch_answer_put(struct buf *b, const struct batch_answer *a)
{
    buf_addf(b, "%s%llu\",\"custom_id\":", batch_line_start, (unsigned long long)a->number);
    if (a->custom_id)
        json_put_text(b, a->custom_id, a->n_custom_id);
    else
        buf_add_text(b, "null");
    buf_add_text(b, ",\"response\":");
    if (a->status) {
        buf_addf(b, "{\"status_code\":%d,\"request_id\":\"%s\",\"body\":", a->status, a->id);
        buf_add(b, a->body->data, a->body->n);
        buf_add_char(b, '}');
    } else {
        buf_add_text(b, "null");
    }
    buf_add_text(b, ",\"error\":");
    put_error(b, a);
    buf_add_text(b, "}\n");
}
