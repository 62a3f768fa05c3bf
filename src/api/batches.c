/* batches.c - OpenAI's batches: files of requests that are answered while no other request waits.
 *
 *   POST /v1/batches               begin a batch, with a file of lines (files.c)
 *   GET /v1/batches                list them
 *   GET /v1/batches/{id}           read the state; the answers are files
 *   POST /v1/batches/{id}/cancel   end a batch; existing answers remain
 *
 * A handler only changes the record of a batch, and wakes the runner's thread (batch_run.c). The
 * record is stored before the runner gets its id, so the runner finds each record. */
#include "batches.h"

#include "files.h"
#include "openai.h"
#include "responses.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>

enum { ID_MAX = 128 };

/* Read a required text of a body. The neutral readers treat an absent field as a default. */
static int required(const struct json *body, const char *field, size_t n_max, const char **out,
                    struct err *e)
{
    int rc = body_text(body, field, n_max, out, e);
    return rc == 0 && !*out ? body_wrong(field, "a string", NULL, e) : rc;
}

/* Read the body of a new batch. */
static int read_body(struct batch_state *b, const struct json *body, const struct server *s,
                     struct err *e)
{
    const char *input = NULL, *endpoint = NULL, *window = NULL;
    struct buf head = {0};
    int64_t seconds = 0;
    int rc = required(body, "input_file_id", ID_MAX, &input, e);
    if (rc == 0) rc = required(body, "endpoint", ID_MAX, &endpoint, e);
    if (rc == 0 && (strlen(endpoint) >= BATCH_ENDPOINT_MAX || !dialect_find(endpoint)))
        rc = err_field(e, ERR_ARG, "endpoint",
                       ": \"%.80s\" not found; available: /v1/chat/completions "
                       "and other paths of requests",
                       endpoint);
    if (rc == 0) rc = required(body, "completion_window", ID_MAX, &window, e);
    if (rc == 0) rc = batch_read_window(window, &seconds, e);
    if (rc == 0) rc = responses_check_metadata(body, e);
    if (rc == 0) rc = file_read_expiry(body, "output_expires_after", &b->output_seconds, e);
    if (rc == 0)
        rc = strncmp(input, FILE_PREFIX, sizeof FILE_PREFIX - 1) != 0
                 ? ERR_MISSING
                 : store_get(s->o.store, b->owner, input, &(struct store_texts){.head = &head}, e);
    if (rc == ERR_MISSING)
        rc = err_field(e, ERR_ARG, "input_file_id", ": file \"%.80s\" not found", input);
    buf_deinit(&head);
    if (rc != 0) return rc;
    snprintf(b->input, sizeof b->input, "%s", input);
    snprintf(b->endpoint, sizeof b->endpoint, "%s", endpoint);
    snprintf(b->window, sizeof b->window, "%s", window);
    b->created_at = time_wall_us() / 1000000;
    b->expires_at = b->created_at + seconds;
    if (body_field(body, "metadata")) json_put(&b->metadata, body_field(body, "metadata"));
    return b->metadata.failed ? err_memory(e, "metadata", b->metadata.n) : 0;
}

void post_batch(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct err e = {0};
    struct buf out = {0};
    struct batch_state b = {.owner = server_owner(x)};
    struct json *body = server_json(s, x);
    if (!body) return;
    stored_id(b.id, BATCH_PREFIX);
    int rc = stored_here(s, &e);
    if (rc == 0) rc = read_body(&b, body, s, &e);
    if (rc == 0) rc = batch_store(&b, s->o.store, true, &e);
    json_drop(body);
    if (rc == 0) {
        batch_put(&(struct json_out){.b = &out}, &b);
        batches_add(s->batches, b.owner, b.id);
    }
    batch_deinit(&b);
    stored_answer(x, rc, &e, &out);
}

/* Read the client's batch of the path. */
static int load(struct batch_state *b, const struct exchange *x, const struct server *s,
                struct err *e)
{
    const char *id = stored_path_id(x, BATCH_PREFIX);
    *b = (struct batch_state){0};
    int rc = stored_here(s, e);
    if (rc == 0) rc = batch_load(b, s->o.store, server_owner(x), id, e);
    return stored_error(rc, "batch_id", "batch", id, e);
}

void get_batch(struct exchange *x, void *server)
{
    struct err e = {0};
    struct buf out = {0};
    struct batch_state b;
    int rc = load(&b, x, server, &e);
    if (rc == 0) batch_put(&(struct json_out){.b = &out}, &b);
    batch_deinit(&b);
    stored_answer(x, rc, &e, &out);
}

void batches_put_list(struct exchange *x, const struct server *s, const char *prefix,
                      const struct stored_query *query, batch_put_fn *put)
{
    struct err e = {0};
    struct buf out = {0};
    struct stored_list l = {0};
    struct json_out o = {.b = &out};
    int rc = stored_list_query(&l, x, s, prefix, query, &e);
    out_object(&o, NULL);
    out_word(&o, "object", "list");
    out_list(&o, "data");
    for (size_t i = 0; rc == 0 && i < l.n; i++) {
        struct batch_state b;
        rc = batch_read(&b, l.v[i].holder, l.v[i].id, &l.v[i].head, &e);
        if (rc == 0) rc = batch_count(&b, s->o.store, &e);
        if (rc == 0) put(&o, &b);
        if (rc == ERR_MISSING) rc = 0; /* the file was deleted in the meantime */
        batch_deinit(&b);
    }
    out_end(&o);
    out_word(&o, "first_id", l.n ? l.v[0].id : NULL);
    out_word(&o, "last_id", l.n ? l.v[l.n - 1].id : NULL);
    out_flag(&o, "has_more", l.more);
    out_end(&o);
    stored_list_deinit(&l);
    stored_answer(x, rc, &e, &out);
}

void get_batches(struct exchange *x, void *server)
{
    static const struct stored_query query = {.after = "after", .limit = 20, .limit_max = 100};
    batches_put_list(x, server, BATCH_PREFIX, &query, batch_put);
}

void post_batch_cancel(struct exchange *x, void *server)
{
    const struct server *s = server;
    const char *id = stored_path_id(x, BATCH_PREFIX);
    struct err e = {0};
    struct buf out = {0};
    struct batch_state b = {0};
    int rc = stored_here(s, &e);
    if (rc == 0) rc = batch_cancel(&b, s->o.store, server_owner(x), id, &e);
    rc = stored_error(rc, "batch_id", "batch", id, &e);
    if (rc == 0) {
        batch_put(&(struct json_out){.b = &out}, &b);
        batches_wake(s->batches);
    }
    batch_deinit(&b);
    stored_answer(x, rc, &e, &out);
}
