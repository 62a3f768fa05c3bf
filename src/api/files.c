/* files.c - OpenAI's files, the input and output of batches.
 *
 *   POST /v1/files                 store one, from a form (multipart/form-data)
 *   GET /v1/files                  list them
 *   GET, DELETE /v1/files/{id}     read the object, delete the file
 *   GET /v1/files/{id}/content     read the content
 *
 * A file is a pinned record of the store: the head is OpenAI's object, and the chunks are the
 * content. A chunk ends with a line, so that a batch reads a line from one chunk. A line that is
 * longer than CHUNK_BYTES makes its chunk longer. */
#include "files.h"

#include "anthropic.h"
#include "multipart.h"
#include "openai.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

/* CHUNK_BYTES: size after which a chunk ends with its line */
enum { CHUNK_BYTES = 64 << 10, LIST_MAX = 10000 };

/* ---- records ---- */

int file_store(struct store *s, uint64_t owner, const struct file_object *f, struct err *e)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_word(&o, "id", f->id);
    out_word(&o, "object", "file");
    out_int(&o, "bytes", f->n_byte);
    out_int(&o, "created_at", f->created);
    if (f->ends) out_int(&o, "expires_at", f->ends);
    out_word(&o, "filename", f->filename);
    out_word(&o, "purpose", f->purpose);
    out_word(&o, "status", "processed");
    out_end(&o);
    const struct store_texts t = {.head = &b, .pinned = true, .ends_us = f->ends * 1000000};
    int rc = b.failed ? err_memory(e, "a file", b.n) : store_put(s, owner, f->id, &t, e);
    buf_deinit(&b);
    return rc;
}

int file_store_content(struct store *s, uint64_t owner, const char *id, const char *text, size_t n,
                       struct err *e)
{
    int rc = 0;
    int64_t number = 1;
    for (size_t at = 0; rc == 0 && at < n;) {
        size_t size = n - at;
        if (size > CHUNK_BYTES) {
            const char *end = memchr(text + at + CHUNK_BYTES - 1, '\n', size - CHUNK_BYTES + 1);
            if (end) size = (size_t)(end + 1 - (text + at));
        }
        const struct buf data = {.data = (char *)text + at, .n = size};
        rc = store_add_chunk(s, owner, id, 0, number++, &data, e);
        at += size;
    }
    return rc;
}

int file_read_expiry(const struct json *body, const char *field, int64_t *seconds, struct err *e)
{
    const struct json *given = body_field(body, field);
    if (!given) return 0;
    if (json_kind(given) != JK_OBJECT) return body_wrong(field, "an object", given, e);
    const char *anchor = json_text(json_field(given, "anchor"), NULL);
    if (!anchor || strcmp(anchor, "created_at") != 0)
        return err_field(e, ERR_ARG, field, ".anchor: must be \"created_at\", got \"%.40s\"",
                         anchor ? anchor : "");
    const int64_t n = json_int(json_field(given, "seconds"), -1);
    if (n < FILE_SECONDS_MIN || n > FILE_SECONDS_MAX)
        return err_field(e, ERR_ARG, field, ".seconds: must be in [%d, %d], got %lld",
                         FILE_SECONDS_MIN, FILE_SECONDS_MAX, (long long)n);
    *seconds = n;
    return 0;
}

/* ---- POST /v1/files ---- */

/* Fields of the form. */
enum field { FIELD_FILE, FIELD_PURPOSE, FIELD_ANCHOR, FIELD_SECONDS, N_FIELD };
static const char *const field_name[N_FIELD] = {"file", "purpose", "expires_after[anchor]",
                                                "expires_after[seconds]"};

/* A form with its known fields. The parts point into the exchange's body, which is not copied. */
struct upload_form {
    struct multipart_part part[N_FIELD];
    bool found[N_FIELD];
};

/* Read the parts of the form. Other parts are ignored, like fields of other bodies. */
static int read_form(struct upload_form *f, struct exchange *x, struct err *e)
{
    struct multipart m;
    struct multipart_part p;
    size_t n;
    const char *body = exchange_body(x, &n);
    int rc = multipart_open(&m, exchange_header(x, "Content-Type"), body, n, e), more = 1;
    while (rc == 0 && (more = multipart_next(&m, &p, e)) == 1)
        for (int i = 0; rc == 0 && i < N_FIELD; i++) {
            if (strcmp(p.name, field_name[i]) != 0) continue;
            if (f->found[i])
                rc = err_field(e, ERR_ARG, field_name[i], ": must be unique, got it again");
            f->found[i] = true;
            f->part[i] = p;
        }
    if (rc == 0 && more < 0) rc = more;
    for (int i = 0; rc == 0 && i <= FIELD_PURPOSE; i++)
        if (!f->found[i])
            rc = err_field(e, ERR_ARG, field_name[i], ": expected a value, got nothing");
    return rc;
}

/* Return true if the part's data equal the text. Data of a part have no terminating NUL. */
static bool has_text(const struct multipart_part *p, const char *text)
{
    return p->n == strlen(text) && memcmp(p->data, text, p->n) == 0;
}

/* Check the fields of the form. Set *seconds to the time until the file's end; 0 if none. */
static int check_form(const struct upload_form *f, int64_t *seconds, struct err *e)
{
    const struct multipart_part *p = &f->part[FIELD_PURPOSE];
    char digits[20] = "", *end = digits;
    if (!has_text(p, BATCH_PURPOSE))
        return err_field(e, ERR_ARG, "purpose", ": must be \"%s\", got \"%.*s\"", BATCH_PURPOSE,
                         p->n < 40 ? (int)p->n : 40, p->data);
    *seconds = 0;
    if (!f->found[FIELD_ANCHOR] && !f->found[FIELD_SECONDS]) return 0;
    if (!has_text(&f->part[FIELD_ANCHOR], "created_at"))
        return err_field(e, ERR_ARG, "expires_after", ".anchor: must be \"created_at\"");
    p = &f->part[FIELD_SECONDS];
    if (p->n > 0 && p->n < sizeof digits) memcpy(digits, p->data, p->n);
    *seconds = strtoll(digits, &end, 10);
    if (!*digits || *end || *seconds < FILE_SECONDS_MIN || *seconds > FILE_SECONDS_MAX)
        return err_field(e, ERR_ARG, "expires_after", ".seconds: must be in [%d, %d], got \"%s\"",
                         FILE_SECONDS_MIN, FILE_SECONDS_MAX, digits);
    return 0;
}

/* Return ERR_UNSUPPORTED for Anthropic's clients, whose files have other objects, or if the server
 * stores nothing. */
static int check_client(const struct exchange *x, const struct server *s, struct err *e)
{
    const char *beta = exchange_header(x, "anthropic-beta");
    if (server_form(x) == &anthropic_errors || (beta && strstr(beta, "files-api")))
        return err_set(e, ERR_UNSUPPORTED,
                       "Anthropic's files are not supported; files of this server are OpenAI's");
    return stored_here(s, e);
}

/* Read the object of the client's file. */
static int load(const struct exchange *x, const struct server *s, const char *id, struct buf *b,
                struct err *e)
{
    int rc = check_client(x, s, e);
    if (rc == 0)
        rc = store_get(s->o.store, server_owner(x), id, &(struct store_texts){.head = b}, e);
    return stored_error(rc, "file_id", "file", id, e);
}

void post_file(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct store *store = s->o.store;
    struct upload_form f = {0};
    struct err e = {0};
    struct buf b = {0};
    char id[STORE_ID_BYTES];
    int64_t seconds = 0;
    const uint64_t owner = server_owner(x);
    int rc = check_client(x, s, &e);
    if (rc == 0) rc = read_form(&f, x, &e);
    if (rc == 0) rc = check_form(&f, &seconds, &e);
    if (rc == 0) {
        const struct multipart_part *p = &f.part[FIELD_FILE];
        const int64_t now = time_wall_us() / 1000000;
        stored_id(id, FILE_PREFIX);
        /* one transaction, so that no client can read a file without its content */
        store_begin(store);
        rc = file_store(store, owner,
                        &(struct file_object){.id = id,
                                              .filename = *p->filename ? p->filename : "file",
                                              .purpose = BATCH_PURPOSE,
                                              .n_byte = (int64_t)p->n,
                                              .created = now,
                                              .ends = seconds ? now + seconds : 0},
                        &e);
        if (rc == 0) rc = file_store_content(store, owner, id, p->data, p->n, &e);
        rc = store_end(store, rc, &e);
    }
    if (rc == 0) rc = load(x, s, id, &b, &e);
    stored_answer(x, rc, &e, &b);
}

/* ---- GET and DELETE ---- */

void get_files(struct exchange *x, void *server)
{
    static const struct stored_query query = {
        .after = "after", .order = "order", .limit = LIST_MAX, .limit_max = LIST_MAX};
    struct err e = {0};
    struct buf b = {0}, purpose = {0}, part = {0};
    struct stored_list l = {0};
    struct json_out o = {.b = &b};
    int rc = check_client(x, server, &e);
    /* filter by the text of the member in the stored object, without parsing each object */
    if (exchange_query(x, "purpose", &purpose) != 0) {
        buf_add_text(&part, "\"purpose\":");
        json_put_text(&part, purpose.data ? purpose.data : "", purpose.n);
        l.part = part.data;
    }
    if (rc == 0 && (purpose.failed || part.failed)) rc = err_memory(&e, "purpose", purpose.n);
    if (rc == 0) rc = stored_list_query(&l, x, server, FILE_PREFIX, &query, &e);
    out_object(&o, NULL);
    out_word(&o, "object", "list");
    out_list(&o, "data");
    for (size_t i = 0; i < l.n; i++) out_raw(&o, NULL, l.v[i].head.data, l.v[i].head.n);
    out_end(&o);
    out_word(&o, "first_id", l.n ? l.v[0].id : NULL);
    out_word(&o, "last_id", l.n ? l.v[l.n - 1].id : NULL);
    out_flag(&o, "has_more", l.more);
    out_end(&o);
    stored_list_deinit(&l);
    buf_deinit(&purpose);
    buf_deinit(&part);
    stored_answer(x, rc, &e, &b);
}

void get_file(struct exchange *x, void *server)
{
    struct err e = {0};
    struct buf b = {0};
    int rc = load(x, server, stored_path_id(x, FILE_PREFIX), &b, &e);
    stored_answer(x, rc, &e, &b);
}

void get_file_content(struct exchange *x, void *server)
{
    const char *id = stored_path_id(x, FILE_PREFIX);
    struct err e = {0};
    struct buf b = {0};
    int rc = load(x, server, id, &b, &e);
    if (rc == 0)
        stored_content(x, server, id, 0, "application/octet-stream");
    else
        server_fail(x, rc, &e);
    buf_deinit(&b);
}

void delete_file(struct exchange *x, void *server)
{
    const struct server *s = server;
    const char *id = stored_path_id(x, FILE_PREFIX);
    struct err e = {0};
    struct buf b = {0};
    struct json_out o = {.b = &b};
    int rc = check_client(x, s, &e);
    if (rc == 0) rc = store_delete(s->o.store, server_owner(x), id, &e);
    rc = stored_error(rc, "file_id", "file", id, &e);
    out_object(&o, NULL);
    out_word(&o, "id", id);
    out_word(&o, "object", "file");
    out_flag(&o, "deleted", true);
    out_end(&o);
    stored_answer(x, rc, &e, &b);
}
