/* anthropic_batches.c - Anthropic's message batches: requests in one body, which are answered while
 * no other request waits (batches.h).
 *
 *   POST /v1/messages/batches                 begin one
 *   GET /v1/messages/batches                  list them
 *   GET, DELETE /v1/messages/batches/{id}     read the state; delete it with its results
 *   POST /v1/messages/batches/{id}/cancel     end it; answers so far remain
 *   GET /v1/messages/batches/{id}/results     a line of JSON for each request
 *
 * The requests are stored as lines of OpenAI's form, in a separate record (INPUT_PREFIX). */
#include "anthropic.h"
#include "batches.h"
#include "files.h"

#include "base/date.h"
#include "base/os.h"

#include <stdio.h>
#include <string.h>

#define INPUT_PREFIX "msgin_"
#define WINDOW       "24h"

enum { CUSTOM_ID_MAX = 64 };

/* ---- the object ---- */

/* Append a time; null if it is 0. */
static void put_time(struct json_out *o, const char *key, int64_t seconds)
{
    struct buf b = {0};
    if (seconds) date_put_iso(&b, seconds * 1000000);
    if (b.n)
        out_text(o, key, b.data, b.n);
    else
        out_null(o, key);
    o->b->failed |= b.failed;
    buf_deinit(&b);
}

/* Append the object of a batch. Requests without an answer count as errored if the batch failed. */
static void put_object(struct json_out *o, const struct batch_state *b)
{
    const bool ended = batch_ended(b);
    const int64_t n_open = b->n_line - b->n[BATCH_OK] - b->n[BATCH_ERROR] - b->n[BATCH_CANCELLED] -
                           b->n[BATCH_EXPIRED];
    const char *status = ended                           ? "ended"
                         : b->status == BATCH_cancelling ? "canceling"
                                                         : "in_progress";
    char url[STORE_ID_BYTES + 40];
    snprintf(url, sizeof url, "/v1/messages/batches/%s/results", b->id);
    out_object(o, NULL);
    out_word(o, "id", b->id);
    out_word(o, "type", "message_batch");
    out_word(o, "processing_status", status);
    out_object(o, "request_counts");
    out_int(o, "processing", ended ? 0 : n_open);
    out_int(o, "succeeded", b->n[BATCH_OK]);
    out_int(o, "errored", b->n[BATCH_ERROR] + (ended ? n_open : 0));
    out_int(o, "canceled", b->n[BATCH_CANCELLED]);
    out_int(o, "expired", b->n[BATCH_EXPIRED]);
    out_end(o);
    put_time(o, "created_at", b->created_at);
    put_time(o, "expires_at", b->expires_at);
    put_time(o, "cancel_initiated_at", b->cancelling_at);
    /* a batch ends in one way, so three of the four times are 0 */
    put_time(o, "ended_at", b->completed_at + b->failed_at + b->expired_at + b->cancelled_at);
    out_null(o, "archived_at");
    out_word(o, "results_url", ended ? url : NULL);
    out_end(o);
}

/* ---- POST /v1/messages/batches ---- */

/* Return true for an id that Anthropic's API permits: [a-zA-Z0-9_-]{1,64}. */
static bool is_custom_id(const char *text, size_t n)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return n > 0 && n <= CUSTOM_ID_MAX && strspn(text, letters) == n;
}

/* Append request i as a line of OpenAI's form, which the runner of batches reads. Two requests must
 * not have one custom_id, because the id selects the result. */
static int put_line(struct buf *out, const struct json *request, size_t i, struct batch_keys *ids,
                    struct err *e)
{
    struct json_out o = {.b = out};
    size_t n = 0;
    const char *id = json_text(json_field(request, "custom_id"), &n);
    const struct json *params = json_field(request, "params");
    if (!id || !is_custom_id(id, n))
        return err_field(e, ERR_ARG, "requests",
                         ".%zu.custom_id: must have 1 to %d letters, digits, _ or -", i,
                         CUSTOM_ID_MAX);
    if (json_kind(params) != JK_OBJECT)
        return err_field(e, ERR_ARG, "requests", ".%zu.params: expected an object, got %s", i,
                         json_kind_name(json_kind(params)));
    const struct batch_key key = batch_key_id(id, n);
    if (batch_keys_has(ids, key))
        return err_field(e, ERR_ARG, "requests", ".%zu.custom_id: must be unique, got \"%s\" again",
                         i, id);
    if (!batch_keys_add(ids, key)) return err_memory(e, "custom_ids", ids->n_slot * sizeof key);
    out_object(&o, NULL);
    out_text(&o, "custom_id", id, n);
    out_word(&o, "method", "POST");
    out_word(&o, "url", "/v1/messages");
    out_key(&o, "body", 4);
    json_put(out, params);
    out_end(&o);
    buf_add_char(out, '\n');
    return 0;
}

/* Append all requests of the body as lines. Set *n_line. */
static int read_requests(struct buf *out, const struct json *body, int64_t *n_line, struct err *e)
{
    const struct json *list = body_field(body, "requests");
    struct batch_keys ids = {0};
    int rc = 0;
    if (json_kind(list) != JK_LIST) return body_wrong("requests", "a list", list, e);
    const size_t n = json_count(list);
    if (n == 0) rc = err_field(e, ERR_ARG, "requests", ": must have at least 1 item, got 0");
    if (n > BATCH_LINES_MAX)
        rc = err_field(e, ERR_LIMIT, "requests", ": must have at most %d items, got %zu",
                       BATCH_LINES_MAX, n);
    for (size_t i = 0; rc == 0 && i < n; i++) rc = put_line(out, json_item(list, i), i, &ids, e);
    batch_keys_deinit(&ids);
    *n_line = (int64_t)n;
    return rc == 0 && out->failed ? err_memory(e, "requests", out->n) : rc;
}

/* Store a batch and its lines in one transaction, so that no batch exists without its lines. */
static int store_batch(struct store *s, struct batch_state *b, const struct buf *lines,
                       struct err *e)
{
    int64_t seconds;
    int rc = batch_read_window(WINDOW, &seconds, e);
    stored_id(b->id, MSGBATCH_PREFIX);
    stored_id(b->input, INPUT_PREFIX);
    snprintf(b->endpoint, sizeof b->endpoint, "/v1/messages");
    snprintf(b->window, sizeof b->window, "%s", WINDOW);
    b->created_at = time_wall_us() / 1000000;
    b->expires_at = b->created_at + seconds;
    store_begin(s);
    if (rc == 0) rc = store_put(s, b->owner, b->input, &(struct store_texts){.pinned = true}, e);
    if (rc == 0) rc = file_store_content(s, b->owner, b->input, lines->data, lines->n, e);
    if (rc == 0) rc = batch_store(b, s, true, e);
    return store_end(s, rc, e);
}

void anthropic_post_batch(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct err e = {0};
    struct buf lines = {0}, out = {0};
    struct batch_state b = {.owner = server_owner(x)};
    struct json *body = server_json(s, x);
    if (!body) return;
    int rc = stored_here(s, &e);
    if (rc == 0) rc = read_requests(&lines, body, &b.n_line, &e);
    json_drop(body);
    if (rc == 0) rc = store_batch(s->o.store, &b, &lines, &e);
    buf_deinit(&lines);
    if (rc == 0) {
        put_object(&(struct json_out){.b = &out}, &b);
        batches_add(s->batches, b.owner, b.id);
    }
    batch_deinit(&b);
    stored_answer(x, rc, &e, &out);
}

/* ---- one batch ---- */

/* Read the client's batch of the path. */
static int load(struct batch_state *b, const struct exchange *x, const struct server *s,
                struct err *e)
{
    const char *id = stored_path_id(x, MSGBATCH_PREFIX);
    *b = (struct batch_state){0};
    int rc = stored_here(s, e);
    if (rc == 0) rc = batch_load(b, s->o.store, server_owner(x), id, e);
    return stored_error(rc, "message_batch_id", "message batch", id, e);
}

/* Require that a batch has ended. */
static int check_ended(const struct batch_state *b, struct err *e)
{
    if (batch_ended(b)) return 0;
    return err_field(e, ERR_ARG, "message_batch_id",
                     ": must be a batch that has ended, got one in progress");
}

void anthropic_get_batch(struct exchange *x, void *server)
{
    struct err e = {0};
    struct buf out = {0};
    struct batch_state b;
    int rc = load(&b, x, server, &e);
    if (rc == 0) put_object(&(struct json_out){.b = &out}, &b);
    batch_deinit(&b);
    stored_answer(x, rc, &e, &out);
}

void anthropic_post_batch_cancel(struct exchange *x, void *server)
{
    const struct server *s = server;
    const char *id = stored_path_id(x, MSGBATCH_PREFIX);
    struct err e = {0};
    struct buf out = {0};
    struct batch_state b = {0};
    int rc = stored_here(s, &e);
    if (rc == 0) rc = batch_cancel(&b, s->o.store, server_owner(x), id, &e);
    if (rc == ERR_ARG) err_rename(&e, rc, "batch_id", "message_batch_id");
    rc = stored_error(rc, "message_batch_id", "message batch", id, &e);
    if (rc == 0) {
        put_object(&(struct json_out){.b = &out}, &b);
        batches_wake(s->batches);
    }
    batch_deinit(&b);
    stored_answer(x, rc, &e, &out);
}

/* Only a batch that has ended is deleted, so no thread computes its requests. */
void anthropic_delete_batch(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct err e = {0};
    struct buf out = {0};
    struct batch_state b;
    struct json_out o = {.b = &out};
    int rc = load(&b, x, s, &e);
    if (rc == 0) rc = check_ended(&b, &e);
    if (rc == 0) {
        rc = store_delete(s->o.store, b.owner, b.input, &e);
        if (rc == 0 || rc == ERR_MISSING) rc = store_delete(s->o.store, b.owner, b.id, &e);
        rc = stored_error(rc, "message_batch_id", "message batch", b.id, &e);
    }
    out_object(&o, NULL);
    out_word(&o, "id", b.id);
    out_word(&o, "type", "message_batch_deleted");
    out_end(&o);
    batch_deinit(&b);
    stored_answer(x, rc, &e, &out);
}

/* Results are in the order of the requests. */
void anthropic_get_batch_results(struct exchange *x, void *server)
{
    struct err e = {0};
    struct batch_state b;
    int rc = load(&b, x, server, &e);
    if (rc == 0) rc = check_ended(&b, &e);
    if (rc == 0)
        stored_content(x, server, b.id, -1, "application/x-jsonl");
    else
        server_fail(x, rc, &e);
    batch_deinit(&b);
}

void anthropic_get_batches(struct exchange *x, void *server)
{
    static const struct stored_query query = {
        .after = "after_id", .before = "before_id", .limit = 20, .limit_max = 1000};
    batches_put_list(x, server, MSGBATCH_PREFIX, &query, put_object);
}
