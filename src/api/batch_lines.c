/* batch_lines.c - lines of a batch: read from chunks, checked, and answered (batches.h).
 *
 * A line becomes an answer of one of four parts (enum batch_part), each with the line's number.
 * OpenAI reads two files, of successes and of errors; Anthropic reads one list of results. Both are
 * made from the same chunks without conversion, so an answer is written in the batch's form. */
#include "batches.h"

#include "anthropic.h"
#include "openai.h"

#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

/* Read the next chunk. Return 1, 0 after the last chunk, or an error, after which a further call
 * reads the same chunk. A chunk ends with a line, so no line is in two chunks. */
static int read_chunk(struct batch_cursor *c, struct err *e)
{
    int64_t n = c->next;
    buf_clear(&c->chunk);
    c->at = 0;
    int rc = store_read_chunk(c->store, c->owner, c->id, c->part, &n, &c->chunk, e);
    if (rc != 0) buf_clear(&c->chunk);
    if (rc == 0) c->next = n + 1;
    return rc ? rc : n >= 0;
}

/* Return true for a line without a request, such as the one after the last '\n'. */
static bool is_blank(const char *line, size_t n)
{
    while (n > 0 && batch_is_space(line[n - 1])) n--;
    return n == 0;
}

int batch_cursor_next(struct batch_cursor *c, struct err *e)
{
    for (;;) {
        if (c->at == c->chunk.n) {
            int rc = read_chunk(c, e);
            if (rc != 1) return rc;
            continue;
        }
        c->line = c->chunk.data + c->at;
        const size_t n_left = c->chunk.n - c->at;
        const char *end = memchr(c->line, '\n', n_left);
        c->n_line = end ? (size_t)(end - c->line) : n_left;
        c->at += c->n_line + (end != NULL);
        c->number++;
        if (!is_blank(c->line, c->n_line)) return 1;
    }
}

void batch_cursor_repeat(struct batch_cursor *c)
{
    c->at = (size_t)(c->line - c->chunk.data);
    c->number--;
}

void batch_cursor_deinit(struct batch_cursor *c)
{
    buf_deinit(&c->chunk);
}

/* ---- checks ---- */

/* Check one line. code: set to OpenAI's code of an error. */
static int check_line(const struct batch_state *b, const struct batch_cursor *c,
                      struct batch_keys *ids, const char **code, struct err *e)
{
    struct batch_line l;
    *code = "invalid_json_line";
    int rc = batch_line_read(&l, c->line, c->n_line, e);
    if (rc != 0 && *e->field) *code = "invalid_request";
    if (rc == 0 && *b->endpoint && strcmp(l.url, b->endpoint) != 0) {
        *code = "invalid_url";
        rc = err_field(e, ERR_ARG, "url", ": must be the batch's endpoint %s, got \"%.80s\"",
                       b->endpoint, l.url);
    }
    if (rc == 0) {
        const struct batch_key key = batch_key_id(l.custom_id, l.n_custom_id);
        *code = "duplicate_custom_id";
        if (batch_keys_has(ids, key))
            rc = err_field(e, ERR_ARG, "custom_id", ": must be unique, got \"%.60s\" again",
                           l.custom_id);
        else if (!batch_keys_add(ids, key))
            rc = err_memory(e, "custom_ids", ids->n_slot * sizeof key);
    }
    batch_line_close(&l);
    return rc;
}

bool batch_validate(struct batch_state *b, struct store *s, int *rc, struct err *e)
{
    /* a file of the wrong format would otherwise make a state of megabytes */
    enum { ERRORS_MAX = 20 };
    struct batch_cursor c = {.store = s, .owner = b->owner, .id = b->input};
    struct batch_keys ids = {0};
    int n_error = 0, more;
    b->n_line = 0;
    *rc = 0;
    while (*rc == 0 && n_error < ERRORS_MAX && (more = batch_cursor_next(&c, e)) != 0) {
        const char *code = NULL;
        struct err why = {0};
        if (more < 0) {
            *rc = more;
            break;
        }
        int wrong = check_line(b, &c, &ids, &code, &why);
        if (wrong == 0 && ++b->n_line > BATCH_LINES_MAX) {
            code = "too_many_requests";
            wrong = err_set(&why, ERR_LIMIT, "the file has more than %d requests", BATCH_LINES_MAX);
            n_error = ERRORS_MAX;
        }
        if (wrong == ERR_MEMORY)
            *rc = err_set(e, ERR_MEMORY, "%s", why.text);
        else if (wrong != 0)
            batch_add_error(b, code, &why, c.number), n_error++;
    }
    if (*rc == 0 && n_error == 0 && b->n_line == 0) {
        struct err why;
        (void)err_set(&why, ERR_ARG, "the file has no request");
        batch_add_error(b, "empty_file", &why, 0);
        n_error++;
    }
    batch_keys_deinit(&ids);
    batch_cursor_deinit(&c);
    return *rc == 0 && n_error == 0;
}

/* ---- answers ---- */

/* Begin {"custom_id":...,"result":{"type":..., in Anthropic's form. */
static void begin_result(struct json_out *o, const struct batch_line *l, const char *type)
{
    out_object(o, NULL);
    out_text(o, "custom_id", l->custom_id, l->n_custom_id);
    out_object(o, "result");
    out_word(o, "type", type);
}

/* End the objects of begin_result, and the line. */
static void end_result(struct json_out *o)
{
    out_end(o);
    out_end(o);
    buf_add_char(o->b, '\n');
}

/* Append an answer in the form of OpenAI's files. */
static void put_line(struct buf *out, const struct batch_result *r, int rc, const struct buf *body)
{
    char id[40];
    snprintf(id, sizeof id, "batch_req_%lld", (long long)r->number);
    batch_answer_put(out, &(struct batch_answer){.id = r->call ? api_call_id(r->call) : id,
                                                 .custom_id = r->line->custom_id,
                                                 .n_custom_id = r->line->n_custom_id,
                                                 .number = (uint64_t)r->number,
                                                 .status = api_status(rc),
                                                 .body = body});
}

/* Append an answer in the form of Anthropic's results. */
static void put_result(struct buf *out, const struct batch_result *r, int rc,
                       const struct buf *body)
{
    struct json_out o = {.b = out};
    begin_result(&o, r->line, rc ? "errored" : "succeeded");
    out_raw(&o, rc ? "error" : "message", body->data, body->n);
    end_result(&o);
}

int batch_put_answer(struct buf *out, const struct batch_state *b, const struct batch_result *r,
                     enum batch_part *part, struct err *e)
{
    const struct error_form *form = batch_is_anthropic(b) ? &anthropic_errors : &openai_errors;
    struct buf body = {0};
    struct err own = r->why ? *r->why : (struct err){0};
    const int rc = r->rc ? r->rc : api_call_put(r->call, &body, &own);
    *part = rc ? BATCH_ERROR : BATCH_OK;
    if (rc != 0) {
        buf_clear(&body);
        form->put(&body, rc, &own, NULL);
    }
    out->failed |= body.failed;
    if (!body.failed) (batch_is_anthropic(b) ? put_result : put_line)(out, r, rc, &body);
    buf_deinit(&body);
    if (out->failed) return err_memory(e, "an answer", out->n);
    /* these two errors are temporary, so the caller may try the line again (batch_run.c) */
    return rc == ERR_BUSY || rc == ERR_MEMORY ? err_set(e, rc, "%s", own.text) : 0;
}

void batch_put_unanswered(struct buf *out, const struct batch_state *b, const struct batch_line *l,
                          int64_t number, enum batch_part part)
{
    struct json_out o = {.b = out};
    if (batch_is_anthropic(b)) {
        begin_result(&o, l, part == BATCH_EXPIRED ? "expired" : "canceled");
        end_result(&o);
        return;
    }
    struct buf body = {0};
    o.b = &body;
    out_object(&o, NULL);
    out_word(&o, "code", "batch_expired");
    out_word(&o, "message", "the request was not answered before the end of completion_window");
    out_end(&o);
    out->failed |= body.failed;
    if (!body.failed)
        batch_answer_put(out, &(struct batch_answer){.custom_id = l->custom_id,
                                                     .n_custom_id = l->n_custom_id,
                                                     .number = (uint64_t)number,
                                                     .body = &body});
    buf_deinit(&body);
}
