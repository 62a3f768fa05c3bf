/* chat.c - a session's template for conversations, and the template's variables except the
 * messages.
 *
 *    --chat-template, or the model's tokenizer.chat_template --template_open--> chat.t
 *    --tool-call-parser, --reasoning-parser, or those that fit the template ----> names of parsers
 *
 * A chat without a template has t NULL. A chat without a template has only the parsers of the
 * options. */
#include "session.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>

enum { TEMPLATE_BYTES_MAX = 1 << 20 };

static const char key_default[] = "tokenizer.chat_template";

/* Check a value of the option `now`, which must be a date. */
int session_date_form(const char *text, struct err *e)
{
    int64_t now;
    return template_clock(text, &now, e);
}

int chat_now(int64_t *now, const struct session_options *o, struct err *e)
{
    *now = 0;
    return o->now ? template_clock(o->now, now, e) : 0;
}

int chat_kwargs(struct json **kwargs, const struct session_options *o, struct err *e)
{
    const char *text = o->default_chat_template_kwargs;
    *kwargs = NULL;
    return text ? json_parse(kwargs, text, strlen(text), NULL, e) : 0;
}

/* ---- the template ---- */

int chat_template_file(struct template **t, const char *path, struct err *e)
{
    struct buf source = {0};
    *t = NULL;
    int rc = file_read(&source, path, TEMPLATE_BYTES_MAX, e);
    if (rc == 0) {
        rc = template_open(t, source.data ? source.data : "", source.n, e);
        if (rc != 0) err_prefix(e, rc, "%s", path);
    }
    buf_deinit(&source);
    return rc;
}

/* Append the names of the model's templates other than the default. Their keys are
 * tokenizer.chat_template.NAME. */
static void put_names(struct buf *names, const struct checkpoint *c)
{
    const char *key;
    for (int i = 0; c && i < checkpoint_n_meta(c); i++) {
        checkpoint_meta_at(c, i, &key);
        if (strncmp(key, key_default, sizeof key_default - 1) == 0 &&
            key[sizeof key_default - 1] == '.')
            buf_addf(names, "%s%s", names->n ? ", " : "", key + sizeof key_default);
    }
}

/* Report an unknown --chat-template with the names of the model's templates. */
static int unknown_template(const struct checkpoint *c, const char *name, struct err *e)
{
    struct buf names = {0};
    put_names(&names, c);
    int rc = err_set(
        e, ERR_ARG,
        "--chat-template: file \"%s\" not found; %s%s; give a Jinja file (llama.cpp's "
        "names are not supported)",
        name, names.n ? "available in the model: " : "the model has no template of that name",
        names.n ? names.data : "");
    buf_deinit(&names);
    return rc;
}

/* Templates that a file may name, because llama.cpp has them built in: earlier converters wrote the
 * name for RWKV. All pointers are static. */
static const struct {
    const char *name, *source;
} named[] = {{"rwkv-world",
              "{% for m in messages %}{{ m.role|capitalize }}: {{ m.content|trim }}\n\n"
              "{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"}};

/* Return the source of the model's template and its key, borrowed; NULL if none. name: as in
 * chat_template. */
static const char *source_of(const struct checkpoint *c, const char *name, char key[256], size_t *n)
{
    const bool other = name && strcmp(name, "default") != 0;
    snprintf(key, 256, "%s%s%s", key_default, other ? "." : "", other ? name : "");
    const char *source = c ? meta_text(checkpoint_meta(c, key), n) : NULL;
    for (size_t i = 0; source && i < sizeof named / sizeof named[0]; i++) {
        if (*n != strlen(named[i].name) || memcmp(source, named[i].name, *n) != 0) continue;
        *n = strlen(named[i].source);
        return named[i].source;
    }
    return source;
}

/* Return true if a source has white space only. */
static bool is_blank(const char *source, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", source[i])) return false;
    return true;
}

void chat_missing(char out[static CHAT_MISSING_BYTES], const struct checkpoint *c)
{
    struct buf names = {0};
    char key[256];
    size_t n = 0;
    const char *source = source_of(c, NULL, key, &n);
    put_names(&names, c);
    if (names.n && !names.failed && !source)
        snprintf(out, CHAT_MISSING_BYTES,
                 "chat template \"default\" not found in the model; available with "
                 "--chat-template NAME: %s",
                 names.data);
    else
        snprintf(out, CHAT_MISSING_BYTES, "%s; give one with --chat-template FILE",
                 source && is_blank(source, n) ? "the chat template of the model is empty"
                                               : "chat template not found in the model");
    buf_deinit(&names);
}

int chat_mark_turns(struct tokenizer *t, const struct checkpoint *c, const char *name,
                    struct err *e)
{
    struct buf file = {0};
    char key[256];
    size_t n = 0;
    if (!name || !file_exists(name)) {
        const char *source = source_of(c, name, key, &n);
        if (source) tokenizer_mark_turns(t, source, n);
        return 0;
    }
    const int rc = file_read(&file, name, TEMPLATE_BYTES_MAX, e);
    if (rc == 0 && file.n) tokenizer_mark_turns(t, file.data, file.n);
    buf_deinit(&file);
    return rc;
}

/* Open a file, a named template of the model, or the model's default template (name NULL or
 * "default"). *t is NULL if name is NULL and the model has no template, or an empty one. An empty
 * template renders nothing, so no conversation would reach the model. */
int chat_template(struct template **t, const struct checkpoint *c, const char *name, struct err *e)
{
    char key[256];
    size_t n = 0;
    *t = NULL;
    if (name && file_exists(name)) return chat_template_file(t, name, e);
    const char *source = source_of(c, name, key, &n);
    if (!source && name) return unknown_template(c, name, e);
    if (!source || (!name && is_blank(source, n))) return 0;
    int rc = template_open(t, source, n, e);
    return rc ? err_prefix(e, rc, "%s", key) : 0;
}

/* ---- the parsers ---- */

static bool is_none(const char *name)
{
    return name && strcmp(name, "none") == 0;
}

/* Names are checked by opening a parser. "none" disables parsing. The default is the parser that
 * fits the template. */
int chat_parsers(struct chat *c, const struct session_options *o, struct err *e)
{
    const char *tools = o->tool_call_parser, *reasoning = o->reasoning_parser;
    struct chat_parser *p = NULL;
    int rc = chat_parser_open(
        &p, &(struct chat_parser_options){.tool_parser = is_none(tools) ? NULL : tools}, e);
    if (rc != 0) return err_prefix(e, rc, "--tool-call-parser");
    chat_parser_close(p);
    rc = chat_parser_open(
        &p,
        &(struct chat_parser_options){.reasoning_parser = is_none(reasoning) ? NULL : reasoning},
        e);
    if (rc != 0) return err_prefix(e, rc, "--reasoning-parser");
    chat_parser_close(p);
    if (!tools && c->t) tools = chat_tool_parser_of(c->t);
    if (!reasoning && c->t) reasoning = chat_reasoning_parser_of(c->t);
    c->calls_as_content = is_none(tools);
    c->tool_parser = is_none(tools) ? NULL : tools;
    c->reasoning_parser = is_none(reasoning) ? NULL : reasoning;
    return 0;
}

/* ---- opening a chat ---- */

int chat_open(struct chat *c, const struct session *s, const struct session_options *o,
              struct err *e)
{
    *c = (struct chat){0};
    int rc = chat_template(&c->t, s->checkpoint, o->chat_template, e);
    if (rc == 0) rc = chat_kwargs(&c->kwargs, o, e);
    if (rc == 0) rc = chat_now(&c->now, o, e);
    if (rc == 0) rc = chat_parsers(c, o, e);
    if (rc == 0) chat_special(&c->special, s->checkpoint, s->tokenizer);
    if (o->system && *o->system) c->system = o->system;
    if (rc != 0) chat_close(c);
    return rc;
}

void chat_close(struct chat *c)
{
    template_close(c->t);
    json_drop(c->kwargs);
    *c = (struct chat){0};
}
