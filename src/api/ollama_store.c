/* ollama_store.c - Ollama's endpoints that change the store of models: /api/pull, /api/delete,
 * /api/copy, /api/push and blobs. The changes are jobs (hub_jobs.h).
 *
 *   {"status":"pulling manifest"}
 *   {"status":"pulling 6a0746a1ec1a","digest":"sha256:...","total":46,"completed":12} ...
 *   {"status":"success"}
 *
 * A server without models of the hub refuses them, except a pull of a served model. */
#include "hub_jobs.h"
#include "ollama.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_US = 100000 }; /* time between two lines of progress */

void ollama_refuse(struct exchange *x, const char *what)
{
    exchange_error(x, &(struct net_error){.status = 501},
                   "%s: not supported by this server: it has no store of models; --models-hub "
                   "serves one",
                   what);
}

/* Refuse a change of a server without a store. An unknown model gets 404, as in Ollama. */
static void refuse_named(struct exchange *x, const struct server *s, const char *name,
                         const char *what)
{
    struct err e = {0};
    int rc = server_model(s, name, NULL, &e);
    if (rc != 0)
        server_fail(x, rc, &e);
    else
        ollama_refuse(x, what);
}

int ollama_read_name(struct hub_name *out, const char *name, const char *field, struct err *e)
{
    struct err why = {0};
    int rc = hub_name_typed(out, name, &why);
    return rc ? err_field(e, rc, field, "%s", why.text + strcspn(why.text, ":")) : 0;
}

/* Read the name of a model that the server may have: its first name, which is that of the stores,
 * if the client sent another of its names. */
static int read_served(struct hub_name *out, const struct server *s, const char *name,
                       const char *field, struct err *e)
{
    struct served *m;
    const bool served = server_model(s, name, &m, NULL) == 0 && served_spec(m)->stored;
    return ollama_read_name(out, served ? served_spec(m)->name[0] : name, field, e);
}

struct hub_job *ollama_job(int (*run)(struct hub_job *j, struct err *e), struct err *e)
{
    struct hub_job *j = calloc(1, sizeof *j);
    if (j)
        j->run = run;
    else
        err_memory(e, "a request", sizeof *j);
    return j;
}

int ollama_find(struct hub_model *out, const struct hub_name *n, struct err *e)
{
    char name[HUB_NAME_BYTES];
    int rc = hub_find(out, n, e);
    hub_served_name(name, n);
    return rc == ERR_MISSING ? err_field(e, rc, "model", ": \"%.200s\" not found", name) : rc;
}

void ollama_status(struct hub_job *j, const char *text)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_word(&o, "status", text);
    out_end(&o);
    hub_job_line(j, &b, false);
}

/* ---- pull ---- */

/* State of a pull's lines. */
struct pull_lines {
    struct hub_job *job;
    int64_t at_us; /* time of the last line */
    char hash[HUB_HASH_BYTES];
    bool begun;
};

/* Append the first line of a pull, once. */
static void begin(struct pull_lines *s)
{
    if (!s->begun) ollama_status(s->job, "pulling manifest");
    s->begun = true;
}

/* Append a line for the current file: its first and last ones, and others if some time has passed
 * (hub_pull_options.progress). Only SHA-256 is a digest of Ollama. */
static void show_progress(void *ctx, const struct hub_progress *p)
{
    struct pull_lines *s = ctx;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    char text[40], digest[HUB_HASH_BYTES + 8];
    const bool other = strcmp(s->hash, p->hash) != 0, last = p->file_done >= p->file_bytes;
    begin(s);
    if (!other && !last && time_us() - s->at_us < LINE_US) return;
    s->at_us = time_us();
    snprintf(s->hash, sizeof s->hash, "%s", p->hash);
    snprintf(text, sizeof text, "pulling %.12s", p->hash);
    snprintf(digest, sizeof digest, "sha256:%s", p->hash);
    out_object(&o, NULL);
    out_word(&o, "status", text);
    if (strlen(p->hash) == HUB_HASH_BYTES - 1) out_word(&o, "digest", digest);
    out_int(&o, "total", (int64_t)p->file_bytes);
    if (p->file_done) out_int(&o, "completed", (int64_t)p->file_done);
    out_end(&o);
    hub_job_line(s->job, &b, !last);
}

/* Append a note of the pull (hub_pull_options.note). text NULL: only the beginning of the pull. */
static void show_note(void *ctx, const char *text)
{
    struct pull_lines *s = ctx;
    begin(s);
    if (text) ollama_status(s->job, text);
}

/* Download the model (hub_job.run). The two last lines are for clients that expect Ollama's steps;
 * the work of these steps is part of hub_pull. */
static int run_pull(struct hub_job *j, struct err *e)
{
    struct pull_lines s = {.job = j};
    struct hub_model m = {0};
    const struct hub_pull_options o = {.progress = show_progress, .note = show_note, .ctx = &s};
    int rc = hub_pull(&m, &j->name, &o, e);
    hub_model_deinit(&m);
    if (rc != 0) return rc;
    begin(&s);
    ollama_status(j, "verifying sha256 digest");
    ollama_status(j, "writing manifest");
    return 0;
}

/* Answer a pull on a server without a store. A pull of a served model always succeeds. */
static void answer_served(struct exchange *x, const struct server *s, const char *name, bool stream)
{
    static const char done[] = "{\"status\":\"success\"}\n";
    if (server_model(s, name, NULL, NULL) != 0)
        ollama_refuse(x, "pull");
    else
        exchange_reply(x, 200, stream ? "application/x-ndjson" : "application/json", done,
                       sizeof done - 1);
}

void ollama_post_pull(struct exchange *x, void *server)
{
    const struct server *s = server;
    const char *name;
    bool stream = true, insecure = false;
    struct err e = {0};
    struct hub_job *j = NULL;
    struct json *body = ollama_read_named(s, x, &name);
    if (!body) return;
    int rc = body_flag(body, "stream", &stream, &e);
    if (rc == 0) rc = body_flag(body, "insecure", &insecure, &e);
    if (rc == 0 && insecure)
        rc = err_field(&e, ERR_UNSUPPORTED, "insecure",
                       ": not supported: connections are encrypted, except to this machine");
    if (rc == 0 && s->hub) j = ollama_job(run_pull, &e), rc = j ? 0 : ERR_MEMORY;
    if (rc == 0 && j) rc = ollama_read_name(&j->name, name, "model", &e);
    if (rc == 0 && j) {
        j->stream = stream;
        hub_jobs_start(s->hub, x, j);
    } else if (rc != 0) {
        server_fail(x, rc, &e);
        hub_job_close(j);
    } else {
        answer_served(x, s, name, stream);
    }
    json_drop(body);
}

/* ---- delete, copy, push ---- */

/* Remove a model (hub_job.run), from the registry before its files. Files that are mapped stay
 * until the last request has ended. */
static int run_delete(struct hub_job *j, struct err *e)
{
    struct hub_model m = {0};
    uint64_t n_byte;
    int rc = ollama_find(&m, &j->name, e);
    hub_model_deinit(&m);
    if (rc != 0) return rc;
    hub_jobs_forget(j->jobs, &j->name);
    return hub_remove(&j->name, &n_byte, e);
}

/* Give a model a second name (hub_job.run). */
static int run_copy(struct hub_job *j, struct err *e)
{
    struct hub_model m = {0};
    int rc = ollama_find(&m, &j->from, e);
    if (rc == 0) rc = hub_create(&j->name, &m, NULL, 0, e);
    hub_model_deinit(&m);
    return rc;
}

/* Start a job without a body, or answer with the error. The names are validated. */
static void start(const struct server *s, struct exchange *x, struct hub_job *take_job, int rc,
                  const struct err *e)
{
    if (rc == 0) {
        take_job->bare = true;
        hub_jobs_start(s->hub, x, take_job);
    } else {
        server_fail(x, rc, e);
        hub_job_close(take_job);
    }
}

/* Reject a model that the server has from other files than the hub's. */
static int check_stored(const struct server *s, const char *name, struct err *e)
{
    struct served *m;
    if (server_model(s, name, &m, NULL) != 0 || served_spec(m)->stored) return 0;
    return err_field(e, ERR_UNSUPPORTED, "model",
                     ": \"%.100s\" is a model of the command line, not of the stores", name);
}

void ollama_delete(struct exchange *x, void *server)
{
    const struct server *s = server;
    const char *name;
    struct err e = {0};
    struct json *body = ollama_read_named(s, x, &name);
    if (body && !s->hub) {
        refuse_named(x, s, name, "delete");
    } else if (body) {
        struct hub_job *j = ollama_job(run_delete, &e);
        int rc = j ? read_served(&j->name, s, name, "model", &e) : ERR_MEMORY;
        if (rc == 0) rc = check_stored(s, name, &e);
        start(s, x, j, rc, &e);
    }
    json_drop(body);
}

void ollama_post_push(struct exchange *x, void *server)
{
    const struct server *s = server;
    const char *name;
    struct err e = {0};
    struct json *body = ollama_read_named(s, x, &name);
    if (body && !s->hub)
        refuse_named(x, s, name, "push");
    else if (body)
        server_fail(x, err_field(&e, ERR_UNSUPPORTED, "push", ": not supported yet"), &e);
    json_drop(body);
}

void ollama_post_copy(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct json *body = server_json(s, x);
    struct err e = {0};
    const char *from = json_text(body_field(body, "source"), NULL),
               *to = json_text(body_field(body, "destination"), NULL);
    if (!body) return;
    if (!from || !*from) {
        server_fail(x, err_field(&e, ERR_ARG, "source", ": expected a name"), &e);
    } else if (!s->hub) {
        refuse_named(x, s, from, "copy");
    } else {
        struct hub_job *j = ollama_job(run_copy, &e);
        int rc = j ? read_served(&j->from, s, from, "source", &e) : ERR_MEMORY;
        if (rc == 0 && !to) rc = err_field(&e, ERR_ARG, "destination", ": expected a name");
        if (rc == 0) rc = ollama_read_name(&j->name, to, "destination", &e);
        if (rc == 0) rc = check_stored(s, from, &e);
        start(s, x, j, rc, &e);
    }
    json_drop(body);
}

/* ---- blobs ---- */

/* Return the digest in the path. hub_blob validates its form. */
static const char *digest_of(const struct exchange *x)
{
    return exchange_param(x) ? exchange_param(x) : "";
}

void ollama_post_blob(struct exchange *x, void *server)
{
    const struct server *s = server;
    char path[HUB_PATH_BYTES];
    struct err e = {0};
    size_t n;
    const char *data = exchange_body(x, &n);
    if (!s->hub) {
        ollama_refuse(x, "blobs");
        return;
    }
    const bool old = hub_blob(path, digest_of(x), NULL) == 0;
    int rc = old ? 0 : hub_blob_add(digest_of(x), data, n, &e);
    if (rc == 0)
        exchange_reply(x, old ? 200 : 201, NULL, "", 0);
    else
        server_fail(x, rc, &e);
}

/* Answer HEAD, by which clients check if a blob must be sent. */
void ollama_get_blob(struct exchange *x, void *server)
{
    const struct server *s = server;
    char path[HUB_PATH_BYTES];
    struct err e = {0};
    int rc = s->hub ? hub_blob(path, digest_of(x), &e)
                    : err_set(&e, ERR_MISSING, "blob \"%.100s\" not found", digest_of(x));
    if (rc == 0)
        exchange_reply(x, 200, NULL, "", 0);
    else
        server_fail(x, rc, &e);
}
