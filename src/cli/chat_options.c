/* chat_options.c - the flags of everything that renders conversations, and the template they
 * choose. */
#include "session.h"

#include "base/os.h"

#include <string.h>

enum { TEMPLATE_BYTE_MAX = 1 << 20 };

static const char *template_name, *system_text, *now_text, *kwargs_text;

const struct option chat_options[] = {
    {.kind = OPTION_TEXT,
     .name = "chat-template",
     .arg = "FILE",
     .target = &template_name,
     .help = "a Jinja file, or the name of one of the model's templates (default: the model's)"},
    {.kind = OPTION_TEXT,
     .name = "system",
     .arg = "TEXT",
     .target = &system_text,
     .help = "the system prompt"},
    {.kind = OPTION_TEXT,
     .name = "default-chat-template-kwargs",
     .arg = "JSON",
     .target = &kwargs_text,
     .help = "variables for the template, e.g. {\"enable_thinking\": false}"},
    {.kind = OPTION_TEXT,
     .name = "now",
     .arg = "DATE",
     .target = &now_text,
     .help = "the template's clock, e.g. 2026-11-20 or 2026-11-20T14:30 (default: the real one)"},
    {.kind = OPTION_END},
};

const char *chat_system(void)
{
    return system_text;
}

int chat_now(int64_t *now, struct err *e)
{
    *now = 0;
    int rc = now_text ? template_clock(now_text, now, e) : 0;
    return rc ? err_prefix(e, rc, "--now") : 0;
}

int chat_kwargs(struct json **kwargs, struct err *e)
{
    *kwargs = NULL;
    if (!kwargs_text) return 0;
    int rc = json_parse(kwargs, kwargs_text, strlen(kwargs_text), NULL, e);
    if (rc == 0 && json_kind(*kwargs) != JK_OBJECT)
        rc =
            err_set(e, ERR_ARG, "expected an object, found %s", json_kind_name(json_kind(*kwargs)));
    if (rc == 0) return 0;
    json_drop(*kwargs);
    *kwargs = NULL;
    return err_prefix(e, rc, "--default-chat-template-kwargs");
}

int chat_template_file(struct template **t, const char *path, struct err *e)
{
    struct buf source = {0};
    *t = NULL;
    int rc = file_read(&source, path, TEMPLATE_BYTE_MAX, e);
    if (rc == 0) {
        rc = template_open(t, source.data ? source.data : "", source.n, e);
        if (rc != 0) err_prefix(e, rc, "%s", path);
    }
    buf_deinit(&source);
    return rc;
}

static const char key_default[] = "tokenizer.chat_template";

static int unknown_template(const struct checkpoint *c, struct err *e)
{
    struct buf names = {0};
    const char *key;
    for (int i = 0; c && i < checkpoint_n_meta(c); i++) {
        checkpoint_meta_at(c, i, &key);
        if (strncmp(key, key_default, sizeof key_default - 1) == 0 &&
            key[sizeof key_default - 1] == '.')
            buf_addf(&names, "%s%s", names.n ? ", " : "", key + sizeof key_default);
    }
    int rc =
        err_set(e, ERR_ARG,
                "--chat-template: there is no file \"%s\", and the model's named templates are: %s",
                template_name, names.n ? names.data : "none");
    buf_deinit(&names);
    return rc;
}

int chat_template(struct template **t, const struct checkpoint *c, struct err *e)
{
    char key[256];
    size_t n = 0;
    *t = NULL;
    if (template_name && file_exists(template_name)) return chat_template_file(t, template_name, e);
    if (template_name && strcmp(template_name, "default") != 0)
        snprintf(key, sizeof key, "%s.%s", key_default, template_name);
    else
        snprintf(key, sizeof key, "%s", key_default);
    const char *source = c ? meta_text(checkpoint_meta(c, key), &n) : NULL;
    if (!source && template_name) return unknown_template(c, e);
    if (!source) return 0;
    int rc = template_open(t, source, n, e);
    return rc ? err_prefix(e, rc, "%s", key) : 0;
}

int chat_template_of(struct template **t, struct checkpoint **c, const char *path, struct err *e)
{
    size_t n = strlen(path);
    *t = NULL;
    *c = NULL;
    if (n > 6 && strcmp(path + n - 6, ".jinja") == 0) return chat_template_file(t, path, e);
    int rc = checkpoint_open_header(c, path, e);
    if (rc == 0) rc = chat_template(t, *c, e);
    if (rc == 0 && !*t)
        rc = err_set(e, ERR_MISSING, "%s has no chat template; give one with --chat-template FILE",
                     path);
    return rc;
}

static const char *special_text(char *out, size_t n_out, const struct tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *piece = id >= 0 ? tokenizer_piece(t, id, &n) : NULL;
    if (!piece) return NULL;
    snprintf(out, n_out, "%.*s", (int)n, piece);
    return out;
}

void chat_special(struct chat_special *c, const struct tokenizer *t)
{
    c->bos = t ? special_text(c->bos_text, sizeof c->bos_text, t, tokenizer_bos(t)) : NULL;
    c->eos = t ? special_text(c->eos_text, sizeof c->eos_text, t, tokenizer_eos(t)) : NULL;
}
