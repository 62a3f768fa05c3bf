/* batch_state.c - states of batches (batches.h). The text of a state is OpenAI's object, which is
 * sent without conversion.
 *
 * The counts in a stored state are of use only after the batch's end. Before that, batch_count
 * computes the counts from the chunks of answers, so a restart in the middle of a batch cannot
 * leave wrong counts. batch_store compares the version of the record: the runner's thread and a
 * handler that cancels cannot overwrite each other's change. */
#include "batches.h"

#include "responses.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const statuses[] = {
#define X(name) #name,
    BATCH_STATUSES(X)
#undef X
};
enum { N_STATUS = sizeof statuses / sizeof *statuses };

bool batch_ended(const struct batch_state *b)
{
    return b->status >= BATCH_completed;
}

bool batch_is_anthropic(const struct batch_state *b)
{
    return strncmp(b->id, MSGBATCH_PREFIX, sizeof MSGBATCH_PREFIX - 1) == 0;
}

void batch_deinit(struct batch_state *b)
{
    buf_deinit(&b->metadata);
    buf_deinit(&b->errors);
}

/* ---- text ---- */

/* Append a time; null for an event that has not occurred. */
static void put_time(struct json_out *o, const char *key, int64_t t)
{
    if (t)
        out_int(o, key, t);
    else
        out_null(o, key);
}

/* Append a list of errors as the API's object; null if none. */
static void put_errors(struct json_out *o, const struct buf *errors)
{
    if (errors->n == 0) {
        out_null(o, "errors");
        return;
    }
    out_object(o, "errors");
    out_word(o, "object", "list");
    out_list(o, "data");
    out_raw(o, NULL, errors->data, errors->n);
    out_end(o);
    out_end(o);
}

/* Expired lines have errors, so they count as failed. */
void batch_put(struct json_out *o, const struct batch_state *b)
{
    out_object(o, NULL);
    out_word(o, "id", b->id);
    out_word(o, "object", "batch");
    out_word(o, "endpoint", b->endpoint);
    put_errors(o, &b->errors);
    out_word(o, "input_file_id", b->input);
    out_word(o, "completion_window", b->window);
    out_word(o, "status", statuses[b->status]);
    out_word(o, "output_file_id", *b->output ? b->output : NULL);
    out_word(o, "error_file_id", *b->error ? b->error : NULL);
#define X(name) put_time(o, #name, b->name);
    BATCH_TIMES(X)
#undef X
    out_object(o, "request_counts");
    out_int(o, "total", b->n_line);
    out_int(o, "completed", b->n[BATCH_OK]);
    out_int(o, "failed", b->n[BATCH_ERROR]);
    if (batch_is_anthropic(b)) {
        out_int(o, "canceled", b->n[BATCH_CANCELLED]);
        out_int(o, "expired", b->n[BATCH_EXPIRED]);
    }
    out_end(o);
    if (b->metadata.n)
        out_raw(o, "metadata", b->metadata.data, b->metadata.n);
    else
        out_null(o, "metadata");
    if (b->output_seconds) out_int(o, "output_expires_after_seconds", b->output_seconds);
    out_end(o);
}

/* Copy a text member to out [n_out]; "" if it is absent. */
static void read_word(const struct json *j, const char *key, char *out, size_t n_out)
{
    const char *text = json_text(json_field(j, key), NULL);
    snprintf(out, n_out, "%s", text ? text : "");
}

int batch_read(struct batch_state *b, uint64_t owner, const char *id, const struct buf *head,
               struct err *e)
{
    struct json *j = NULL;
    char status[20];
    int rc = json_parse(&j, head->data ? head->data : "", head->n, NULL, e);
    *b = (struct batch_state){.owner = owner};
    snprintf(b->id, sizeof b->id, "%s", id);
    read_word(j, "status", status, sizeof status);
    /* the store outlives this program, so a record of another version may have an unknown status */
    int i = 0;
    while (i < N_STATUS && strcmp(statuses[i], status) != 0) i++;
    if (rc == 0 && i == N_STATUS) rc = err_set(e, ERR_FORMAT, "a stored batch has no status");
    b->status = i < N_STATUS ? (enum batch_status)i : BATCH_failed;
    read_word(j, "endpoint", b->endpoint, sizeof b->endpoint);
    read_word(j, "input_file_id", b->input, sizeof b->input);
    read_word(j, "output_file_id", b->output, sizeof b->output);
    read_word(j, "error_file_id", b->error, sizeof b->error);
    read_word(j, "completion_window", b->window, sizeof b->window);
    b->output_seconds = json_int(json_field(j, "output_expires_after_seconds"), 0);
#define X(name) b->name = json_int(json_field(j, #name), 0);
    BATCH_TIMES(X)
#undef X
    const struct json *counts = json_field(j, "request_counts"),
                      *errors = json_field(json_field(j, "errors"), "data");
    b->n_line = json_int(json_field(counts, "total"), 0);
    b->n[BATCH_OK] = json_int(json_field(counts, "completed"), 0);
    b->n[BATCH_ERROR] = json_int(json_field(counts, "failed"), 0);
    b->n[BATCH_CANCELLED] = json_int(json_field(counts, "canceled"), 0);
    b->n[BATCH_EXPIRED] = json_int(json_field(counts, "expired"), 0);
    if (body_field(j, "metadata")) json_put(&b->metadata, body_field(j, "metadata"));
    for (size_t k = 0; k < json_count(errors); k++) {
        if (k) buf_add_char(&b->errors, ',');
        json_put(&b->errors, json_item(errors, k));
    }
    json_drop(j);
    if (rc == 0 && (b->metadata.failed || b->errors.failed)) rc = err_memory(e, "a batch", head->n);
    return rc;
}

/* ---- records ---- */

/* The stored counts of a batch that has ended are final, because its answers may be in files. */
int batch_count(struct batch_state *b, struct store *s, struct err *e)
{
    int rc = 0;
    for (int i = 0; rc == 0 && !batch_ended(b) && i < N_BATCH_PART; i++) {
        int64_t n_byte;
        rc = store_count_chunks(s, b->owner, b->id, i, &b->n[i], &n_byte, e);
    }
    return rc;
}

int batch_load(struct batch_state *b, struct store *s, uint64_t owner, const char *id,
               struct err *e)
{
    struct buf head = {0};
    int64_t version = 0;
    *b = (struct batch_state){0};
    store_begin(s);
    int rc = store_get(s, owner, id, &(struct store_texts){.head = &head, .version = &version}, e);
    if (rc == 0) rc = batch_read(b, owner, id, &head, e);
    if (rc == 0) rc = batch_count(b, s, e);
    rc = store_end(s, rc, e);
    b->version = version;
    buf_deinit(&head);
    return rc;
}

int batch_store(struct batch_state *b, struct store *s, bool is_new, struct err *e)
{
    struct buf head = {0};
    batch_put(&(struct json_out){.b = &head}, b);
    const struct store_texts t = {.head = &head, .pinned = true};
    int rc = head.failed ? err_memory(e, "a batch", head.n)
             : is_new    ? store_put(s, b->owner, b->id, &t, e)
                         : store_replace(s, b->owner, b->id, b->version, &t, e);
    buf_deinit(&head);
    return rc;
}

void batch_add_error(struct batch_state *b, const char *code, const struct err *why, int64_t line)
{
    struct json_out o = {.b = &b->errors, .more = b->errors.n > 0};
    out_object(&o, NULL);
    out_word(&o, "code", code);
    put_time(&o, "line", line);
    out_word(&o, "message", why->text);
    out_word(&o, "param", *why->field ? why->field : NULL);
    out_end(&o);
}

/* A batch that is cancelled twice is unchanged. */
int batch_cancel(struct batch_state *b, struct store *s, uint64_t owner, const char *id,
                 struct err *e)
{
    store_begin(s);
    int rc = batch_load(b, s, owner, id, e);
    if (rc == 0 && batch_ended(b))
        rc = err_field(e, ERR_ARG, "batch_id", ": must be a batch in progress, got one that is %s",
                       statuses[b->status]);
    if (rc == 0 && b->status != BATCH_cancelling) {
        b->status = BATCH_cancelling;
        b->cancelling_at = time_wall_us() / 1000000;
        rc = batch_store(b, s, false, e);
    }
    return store_end(s, rc, e);
}

/* OpenAI accepts only "24h". Any number of seconds, minutes, hours or days is useful on an own
 * server. */
int batch_read_window(const char *text, int64_t *seconds, struct err *e)
{
    static const struct {
        char letter;
        int64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    enum { DAYS_MAX = 30 };
    char *end = NULL;
    const long long n = strtoll(text, &end, 10);
    *seconds = 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (*end == units[i].letter && !end[1] && n > 0 && n <= DAYS_MAX * 86400 / units[i].seconds)
            *seconds = n * units[i].seconds;
    if (*seconds > 0 && strlen(text) < BATCH_WINDOW_MAX) return 0;
    return err_field(e, ERR_ARG, "completion_window",
                     ": must be a time such as \"24h\", at most %dd, got \"%.40s\"", DAYS_MAX,
                     text);
}
