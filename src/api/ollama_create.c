/* ollama_create.c - Ollama's /api/create: a model of the store from another one, or from a GGUF
 * file that the client has sent as a blob. The new model may have texts and parameters of its own.
 *
 *   {"model":"mario","from":"llama3","system":"You are Mario.","parameters":{"temperature":0.5}}
 *   {"model":"own","files":{"own.gguf":"sha256:..."}}
 *
 * Fields that would change the weights or the template are refused by name.
 *
 * A created model shares the weights of its base: the parts are layers of a manifest, and unchanged
 * layers keep their digests. The handler thread checks the whole body, so that the client gets
 * errors of its fields without a job. The thread of the jobs reads and writes files. */
#include "hub_jobs.h"
#include "ollama.h"
#include "openai.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* N_PART_MAX: more than N_LICENSE_MAX licenses and one part of each other kind */
enum { N_PART_MAX = 24, N_LICENSE_MAX = 16 };

/* ---- the body ---- */

/* Check the parameters as those of a request. */
static int check_parameters(const struct json *body, struct err *e)
{
    const struct json *given = body_field(body, "parameters");
    struct sample_params p = sample_params_default;
    int rc = 0;
    if (given && json_kind(given) != JK_OBJECT)
        return body_wrong("parameters", "an object", given, e);
    for (void *it = json_first(given); it && rc == 0; it = json_next(given, it))
        rc = ollama_set_option(&p, json_it_key(it, NULL), json_it_value(it), e);
    if (rc != 0) err_rename(e, rc, "options", "parameters");
    return rc;
}

/* Check the messages: roles and texts. */
static int check_messages(const struct json *body, struct err *e)
{
    static const char *const role[] = {"system", "user", "assistant"};
    const struct json *list = body_field(body, "messages");
    if (list && json_kind(list) != JK_LIST)
        return body_wrong("messages", "a list of messages", list, e);
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *m = json_item(list, i);
        const char *own = json_text(json_field(m, "role"), NULL);
        bool known = false;
        for (size_t k = 0; own && k < sizeof role / sizeof *role; k++)
            known |= strcmp(own, role[k]) == 0;
        if (!known)
            return err_field(e, ERR_ARG, "messages",
                             "[%zu].role: must be system, user or assistant", i);
        if (!json_text(json_field(m, "content"), &(size_t){0}))
            return err_field(e, ERR_ARG, "messages", "[%zu].content: expected a string, got %s", i,
                             json_kind_name(json_kind(json_field(m, "content"))));
    }
    return 0;
}

/* Check `license`: a text, or a list of texts. */
static int check_license(const struct json *body, struct err *e)
{
    const struct json *given = body_field(body, "license");
    const bool list = json_kind(given) == JK_LIST;
    if (list && json_count(given) > N_LICENSE_MAX)
        return err_field(e, ERR_LIMIT, "license", ": must have at most %d texts, got %zu",
                         N_LICENSE_MAX, json_count(given));
    for (size_t i = 0; list && i < json_count(given); i++)
        if (!json_text(json_item(given, i), &(size_t){0}))
            return err_field(e, ERR_ARG, "license", "[%zu]: expected a string", i);
    return !given || list || json_kind(given) == JK_TEXT
               ? 0
               : body_wrong("license", "a string or a list of strings", given, e);
}

/* Check `files`: one GGUF file with its digest. */
static int check_files(const struct json *body, struct err *e)
{
    const struct json *files = body_field(body, "files");
    if (!files) return 0;
    if (json_kind(files) != JK_OBJECT) return body_wrong("files", "an object", files, e);
    if (json_count(files) != 1)
        return err_field(e, ERR_UNSUPPORTED, "files", ": must have 1 GGUF file, got %zu files",
                         json_count(files));
    const struct json *digest = json_it_value(json_first(files));
    return json_text(digest, NULL) ? 0 : body_wrong("files", "digests of files", digest, e);
}

/* Check all fields of the body. */
static int check_body(const struct json *body, struct err *e)
{
    static const char *const refused[] = {"template",  "quantize", "quantization", "adapters",
                                          "modelfile", "path",     "renderer",     "parser"};
    const struct json *from = body_field(body, "from");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (body_is_set(body_field(body, refused[i])))
            return err_field(e, ERR_UNSUPPORTED, refused[i], ": not supported yet");
    const struct json *system = body_field(body, "system");
    int rc = from && !json_text(from, NULL) ? body_wrong("from", "a name", from, e) : 0;
    if (rc == 0 && system && !json_text(system, &(size_t){0}))
        rc = body_wrong("system", "a string", system, e);
    if (rc == 0 && !from && !body_field(body, "files"))
        rc = err_set(e, ERR_ARG, "neither 'from' or 'files' was specified");
    if (rc == 0 && from && body_field(body, "files"))
        rc = err_field(e, ERR_ARG, "from", ": must not come with files");
    if (rc == 0) rc = check_files(body, e);
    if (rc == 0) rc = check_parameters(body, e);
    if (rc == 0) rc = check_messages(body, e);
    return rc ? rc : check_license(body, e);
}

/* ---- the parts; thread of the jobs ---- */

/* Parts of the new model, and the texts that they borrow. */
struct new_parts {
    struct hub_part v[N_PART_MAX];
    size_t n;
    struct buf params, messages, config; /* owned */
};

/* Append a part that is a text, borrowed until the model is made. */
static void add_text(struct new_parts *p, const char *kind, const char *text, size_t n)
{
    p->v[p->n++] = (struct hub_part){.kind = kind, .text = n ? text : "", .n_byte = n};
}

/* Add a text of the body, or each text of a list. */
static void add_texts(struct new_parts *p, const char *kind, const struct json *given)
{
    size_t n = 0;
    const char *text = json_text(given, &n);
    if (text && n) add_text(p, kind, text, n);
    for (size_t i = 0; json_kind(given) == JK_LIST && i < json_count(given); i++) {
        text = json_text(json_item(given, i), &n);
        add_text(p, kind, text, n);
    }
}

/* Append the members of the base's parameters that the new ones lack, and the new ones. */
static int merge(struct buf *out, const struct json *base, const struct json *given, struct err *e)
{
    struct json_out o = {.b = out};
    out_object(&o, NULL);
    for (void *it = json_first(base); it; it = json_next(base, it)) {
        size_t n;
        const char *name = json_it_key(it, &n);
        if (strlen(name) == n && !json_field(given, name))
            openai_put_json(&o, name, json_it_value(it));
    }
    for (void *it = json_first(given); it; it = json_next(given, it))
        openai_put_json(&o, json_it_key(it, NULL), json_it_value(it));
    out_end(&o);
    return out->failed ? err_memory(e, "parameters", out->n) : 0;
}

/* Append the parameters: those of the base, with the given ones in their place. */
static int add_params(struct new_parts *p, const struct hub_model *from, const struct json *given,
                      struct err *e)
{
    struct buf old = {0};
    struct json *base = NULL;
    if (!given) return 0;
    int rc = from ? hub_layer(&old, from, "params", 0, e) : 0;
    if (rc == 0 && old.n) rc = json_parse(&base, old.data, old.n, NULL, e);
    if (rc == 0) rc = merge(&p->params, base, given, e);
    if (rc == 0) add_text(p, "params", p->params.data, p->params.n);
    json_drop(base);
    buf_deinit(&old);
    return rc;
}

/* Add the GGUF of `files`, and the config that Ollama requires. */
static int add_file(struct new_parts *p, const struct json *files, struct err *e)
{
    const char *digest = json_text(json_it_value(json_first(files)), NULL);
    char path[HUB_PATH_BYTES], arch[64];
    struct json_out o = {.b = &p->config};
    int rc = hub_blob(path, digest, e);
    if (rc == 0 && session_file_arch(arch, path, e) != 0)
        rc = err_prefix(e, ERR_ARG, "files"); /* the client's file is no GGUF */
    if (rc != 0) return rc;
    p->v[p->n++] = (struct hub_part){.kind = "model", .digest = digest};
    out_object(&o, NULL);
    out_word(&o, "model_format", "gguf");
    out_word(&o, "model_family", arch);
    out_list(&o, "model_families");
    out_word(&o, NULL, arch);
    out_end(&o);
    out_word(&o, "architecture", "amd64");
    out_word(&o, "os", "linux");
    out_object(&o, "rootfs");
    out_word(&o, "type", "layers");
    out_list(&o, "diff_ids");
    out_word(&o, NULL, digest);
    out_end(&o);
    out_end(&o);
    out_end(&o);
    if (p->config.failed) return err_memory(e, "a config", p->config.n);
    add_text(p, "config", p->config.data, p->config.n);
    return 0;
}

/* Append all parts of the new model. from NULL: the weights are a file of the client. */
static int add_parts(struct new_parts *p, const struct hub_job *j, const struct hub_model *from,
                     struct err *e)
{
    const struct json *messages = body_field(j->body, "messages");
    int rc = from ? 0 : add_file(p, body_field(j->body, "files"), e);
    if (rc == 0) rc = add_params(p, from, body_field(j->body, "parameters"), e);
    if (rc != 0) return rc;
    add_texts(p, "system", body_field(j->body, "system"));
    add_texts(p, "license", body_field(j->body, "license"));
    if (json_count(messages)) {
        json_put(&p->messages, messages);
        if (p->messages.failed) return err_memory(e, "messages", p->messages.n);
        add_text(p, "messages", p->messages.data, p->messages.n);
    }
    return 0;
}

/* Make the model (hub_job.run). */
static int run_create(struct hub_job *j, struct err *e)
{
    struct hub_model from = {0};
    struct new_parts p = {0};
    int rc = j->has_from ? ollama_find(&from, &j->from, e) : 0;
    if (rc == 0) ollama_status(j, "reading model metadata");
    if (rc == 0) rc = add_parts(&p, j, j->has_from ? &from : NULL, e);
    if (rc == 0) ollama_status(j, "writing manifest");
    if (rc == 0) rc = hub_create(&j->name, j->has_from ? &from : NULL, p.v, p.n, e);
    buf_deinit(&p.params);
    buf_deinit(&p.messages);
    buf_deinit(&p.config);
    hub_model_deinit(&from);
    return rc;
}

void ollama_post_create(struct exchange *x, void *server)
{
    const struct server *s = server;
    const char *name, *from;
    struct err e = {0};
    struct json *body = ollama_read_named(s, x, &name);
    if (!body) return;
    if (!s->hub) {
        ollama_refuse(x, "create");
        json_drop(body);
        return;
    }
    struct hub_job *j = ollama_job(run_create, &e);
    int rc = j ? check_body(body, &e) : ERR_MEMORY;
    if (rc == 0) rc = ollama_read_name(&j->name, name, "model", &e);
    from = json_text(body_field(body, "from"), NULL);
    if (rc == 0 && from) rc = ollama_read_name(&j->from, from, "from", &e);
    if (rc == 0) {
        j->stream = true;
        rc = body_flag(body, "stream", &j->stream, &e);
    }
    if (rc == 0) {
        j->has_from = from != NULL;
        j->body = body;
        hub_jobs_start(s->hub, x, j);
        return;
    }
    server_fail(x, rc, &e);
    hub_job_close(j);
    json_drop(body);
}
