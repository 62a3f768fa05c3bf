/* ollama_modelfile.c - texts of /api/show: the Modelfile, from which a client can create the model
 * again, and its parts.
 *
 *   FROM /path/blobs/sha256-...     the file of a model of the stores; of others their name
 *   TEMPLATE """..."""              the layer of Ollama's store, which quoth does not use
 *   SYSTEM You are Mario.
 *   PARAMETER temperature 0.5
 *   LICENSE MIT
 *   MESSAGE user Hello
 *
 * The Modelfile has no template of the GGUF: it is Jinja, and Modelfiles have another template
 * language. The server keeps only layers that it applies, so the others are read from the disk. */
#include "ollama.h"
#include "server_impl.h"

#include "hub/hub.h"

#include <string.h>

/* Layers of a model of the stores. Initialize with zeros. */
struct layers {
    struct ollama_defaults defaults;   /* params, and layers that the server has */
    struct buf license, license_lines; /* all licenses as one text, and as lines of a Modelfile */
    struct buf template;
};

/* Append a text as the last word of a Modelfile's line. Quotes are needed for line breaks and for
 * spaces at the ends, and three of them for quotes in the text. */
static void add_quoted(struct buf *b, const char *text, size_t n)
{
    const bool plain = n > 0 && !memchr(text, '\n', n) && !memchr(text, '"', n) &&
                       !strchr(" \t\r", text[0]) && !strchr(" \t\r", text[n - 1]);
    if (!plain) buf_add_text(b, "\"\"\"");
    buf_add(b, text, n);
    if (!plain) buf_add_text(b, "\"\"\"");
}

/* Append a line of a Modelfile; nothing for an empty text. */
static void add_line(struct buf *b, const char *key, const char *text, size_t n)
{
    if (n == 0) return;
    buf_addf(b, "\n%s ", key);
    add_quoted(b, text, n);
}

/* ---- layers ---- */

static void layers_deinit(struct layers *s)
{
    ollama_defaults_deinit(&s->defaults);
    buf_deinit(&s->license);
    buf_deinit(&s->license_lines);
    buf_deinit(&s->template);
}

/* Read all licenses. */
static int read_licenses(struct layers *s, const struct hub_model *m, struct err *e)
{
    int rc = 0;
    bool more = true;
    for (size_t i = 0; rc == 0 && more; i++) {
        struct buf text = {0};
        rc = hub_layer(&text, m, "license", i, e);
        more = text.n > 0;
        if (more) {
            if (s->license.n) buf_add_char(&s->license, '\n');
            buf_add(&s->license, text.data, text.n);
            add_line(&s->license_lines, "LICENSE", text.data, text.n);
        }
        buf_deinit(&text);
    }
    return rc;
}

/* Read the layers of a model of the stores. The caller frees them, also after an error. */
static int layers_read(struct layers *s, const struct served_spec *spec, struct err *e)
{
    struct hub_name name;
    struct hub_model m = {0};
    int rc = hub_name_typed(&name, spec->name[0], e);
    if (rc == 0) rc = hub_find(&m, &name, e);
    if (rc == 0) rc = ollama_defaults_read(&s->defaults, &m, e);
    if (rc == 0) rc = hub_layer(&s->template, &m, "template", 0, e);
    if (rc == 0) rc = read_licenses(s, &m, e);
    hub_model_deinit(&m);
    return rc;
}

/* ---- parameters ---- */

/* Begin a parameter: a line of the Modelfile, or of the member `parameters`. */
static void begin_parameter(struct buf *b, bool file, const char *name)
{
    if (file)
        buf_addf(b, "\nPARAMETER %s ", name);
    else
        buf_addf(b, "%s%-30s ", b->n ? "\n" : "", name);
}

/* Append a text as the value of a parameter. */
static void add_text(struct buf *b, bool file, const char *text, size_t n)
{
    if (file)
        add_quoted(b, text, n);
    else
        json_put_text(b, text, n);
}

/* Append the value of a parameter. */
static void add_value(struct buf *b, bool file, const struct json *value)
{
    size_t n;
    const char *text = json_text(value, &n);
    if (text)
        add_text(b, file, text, n);
    else
        json_put(b, value);
}

/* Append the defaults of sampling, the other parameters of the layer, and the stop texts. Numbers
 * of the layer have all their digits. */
static void add_parameters(struct buf *b, bool file, const struct api *a, const struct json *params)
{
    static const struct {
        const char *name;
        enum sample_param_id id;
    } rows[] = {{"temperature", SAMPLE_temperature},
                {"top_k", SAMPLE_top_k},
                {"top_p", SAMPLE_top_p},
                {"min_p", SAMPLE_min_p},
                {"repeat_penalty", SAMPLE_repetition_penalty}};
    enum { N_ROW = sizeof rows / sizeof *rows };
    for (size_t i = 0; i < N_ROW; i++) {
        const struct json *own = body_field(params, rows[i].name);
        begin_parameter(b, file, rows[i].name);
        if (own)
            add_value(b, file, own);
        else
            buf_addf(b, "%g", sample_param_get(&a->defaults, &sample_param[rows[i].id]));
    }
    for (void *it = json_first(params); it; it = json_next(params, it)) {
        const char *name = json_it_key(it, NULL);
        bool done = strcmp(name, "stop") == 0;
        for (size_t i = 0; i < N_ROW; i++) done |= strcmp(name, rows[i].name) == 0;
        if (done) continue;
        begin_parameter(b, file, name);
        add_value(b, file, json_it_value(it));
    }
    for (int i = 0; i < a->n_stop; i++) {
        begin_parameter(b, file, "stop");
        add_text(b, file, a->stop[i].text, a->stop[i].n);
    }
}

/* ---- the Modelfile ---- */

/* Append the lines of the first messages. */
static void add_messages(struct buf *b, const struct json *messages)
{
    for (size_t i = 0; i < json_count(messages); i++) {
        const struct json *m = json_item(messages, i);
        const char *role = json_text(json_field(m, "role"), NULL);
        size_t n;
        const char *text = json_text(json_field(m, "content"), &n);
        if (!role || !text) continue;
        buf_addf(b, "\nMESSAGE %s ", role);
        add_quoted(b, text, n);
    }
}

/* Append the Modelfile of a model. */
static void add_modelfile(struct buf *b, const struct listed *l, const struct layers *s)
{
    const struct chat *chat = l->api->chat;
    const struct served_spec *spec = served_spec(l->model);
    const char *own = listed_own_name(l);
    buf_addf(b,
             "# Modelfile generated by quoth\n"
             "# To build a new Modelfile based on this, replace FROM with:\n"
             "# FROM %s\n\nFROM %s",
             own, spec->stored ? spec->path : own);
    add_line(b, "TEMPLATE", s->template.data, s->template.n);
    if (chat->system) add_line(b, "SYSTEM", chat->system, strlen(chat->system));
    add_parameters(b, true, l->api, s->defaults.params);
    buf_add(b, s->license_lines.n ? s->license_lines.data : "", s->license_lines.n);
    add_messages(b, chat->first);
    buf_add_char(b, '\n');
    b->failed |= s->license_lines.failed;
}

/* Append a member with a text, which is freed. */
static void put_text(struct json_out *o, const char *key, struct buf *text)
{
    o->b->failed |= text->failed;
    out_text(o, key, text->failed || !text->n ? "" : text->data, text->failed ? 0 : text->n);
    buf_deinit(text);
}

/* Append the first messages of each conversation. */
static void put_messages(struct json_out *o, const struct json *messages)
{
    struct buf text = {0};
    if (json_count(messages) == 0) return;
    json_put(&text, messages);
    o->b->failed |= text.failed;
    if (!text.failed) out_raw(o, "messages", text.data, text.n);
    buf_deinit(&text);
}

int ollama_put_texts(struct json_out *o, const struct listed *l, struct err *e)
{
    const struct chat *chat = l->api->chat;
    const char *license = session_license(l->api->session);
    const struct served_spec *spec = served_spec(l->model);
    struct layers s = {0};
    struct buf modelfile = {0}, parameters = {0};
    int rc = spec->stored ? layers_read(&s, spec, e) : 0;
    if (rc == 0) {
        add_modelfile(&modelfile, l, &s);
        add_parameters(&parameters, false, l->api, s.defaults.params);
        put_text(o, "modelfile", &modelfile);
        put_text(o, "parameters", &parameters);
        if (s.license.n || s.license.failed)
            put_text(o, "license", &s.license);
        else if (license)
            out_word(o, "license", license);
        if (chat->t) out_word(o, "template", template_source(chat->t));
        if (chat->system) out_word(o, "system", chat->system);
        put_messages(o, chat->first);
    }
    layers_deinit(&s);
    return rc;
}
