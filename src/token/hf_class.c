/* hf_class.c - the configuration files of a tokenizer's folder, and the class of transformers that
 * they select.
 *
 *   class         the first of: tokenizer_config.json: tokenizer_class, config.json:
 *                 tokenizer_class, config.json: model_type (classes.def)
 *   named tokens  tokenizer_config.json; before it special_tokens_map.json if tokenizer_config.json
 *                 has no added_tokens_decoder, as in transformers. added_tokens.json likewise */
#include "token_impl.h"

#include <string.h>

enum { CONFIG_BYTES_MAX = 64 << 20 };

int hf_file_read(struct json **out, const char *dir, const char *name, struct err *e)
{
    char path[4096];
    bool found = false;
    *out = NULL;
    int rc = token_file(path, &found, dir, name, e);
    if (rc != 0 || !found) return rc;
    return json_read_python(out, path, CONFIG_BYTES_MAX, e);
}

/* Return true if `name` is `class`, or `class` with "Fast" at its end. */
static bool is_class(const char *name, const char *class)
{
    const size_t n = strlen(class);
    return strncmp(name, class, n) == 0 && (!name[n] || strcmp(name + n, "Fast") == 0);
}

bool hf_is_class(const char *name, const char *const *classes, size_t n)
{
    for (size_t i = 0; name && i < n; i++)
        if (is_class(name, classes[i])) return true;
    return false;
}

/* Return the form of a class. FORM_NONE if classes.def does not have the class. */
static enum hf_form form_of_class(const char *name)
{
    static const struct {
        enum hf_form form;
        const char *name; /* static */
    } row[] = {
#define CLASS(form, name) {FORM_##form, name},
#define MODEL(form, name)
#include "classes.def"
#undef CLASS
#undef MODEL
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (is_class(name, row[i].name)) return row[i].form;
    return FORM_NONE;
}

/* Return the form of the model's type. FORM_NONE if classes.def does not have the type. */
static enum hf_form form_of_model(const char *type)
{
    static const struct {
        enum hf_form form;
        const char *type; /* static */
    } row[] = {
#define CLASS(form, name)
#define MODEL(form, type) {FORM_##form, type},
#include "classes.def"
#undef CLASS
#undef MODEL
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (strcmp(type, row[i].type) == 0) return row[i].form;
    return FORM_NONE;
}

/* Select the class. An unknown class has no form, whatever the model is. */
static enum hf_form find_form(const struct json *config, const struct json *model)
{
    const char *class = json_text(json_field(config, "tokenizer_class"), NULL);
    const char *type = json_text(json_field(model, "model_type"), NULL);
    if (!class) class = json_text(json_field(model, "tokenizer_class"), NULL);
    const enum hf_form form = class ? form_of_class(class) : FORM_NONE;
    /* many models of other types name Llama's class, which transformers then replaces */
    if (form == FORM_LLAMA && type && strcmp(type, "llama") != 0) return FORM_NONE;
    if (class) return form;
    return type ? form_of_model(type) : FORM_NONE;
}

int hf_files_open(struct hf_files *f, const char *dir, struct err *e)
{
    struct json *model = NULL;
    *f = (struct hf_files){0};
    int rc = hf_file_read(&f->config, dir, "tokenizer_config.json", e);
    const bool decoder = json_field(f->config, "added_tokens_decoder");
    if (rc == 0 && !decoder) rc = hf_file_read(&f->named, dir, "special_tokens_map.json", e);
    if (rc == 0 && !decoder) rc = hf_file_read(&f->added, dir, "added_tokens.json", e);
    if (rc == 0) rc = hf_file_read(&model, dir, "config.json", e);
    if (rc == 0) f->form = find_form(f->config, model);
    json_drop(model);
    if (rc != 0) hf_files_close(f);
    return rc;
}

int hf_files_open_of(struct hf_files *f, const char *path, struct err *e)
{
    char dir[4096];
    token_folder(dir, path);
    return hf_files_open(f, dir, e);
}

void hf_files_close(struct hf_files *f)
{
    json_drop(f->config);
    json_drop(f->named);
    json_drop(f->added);
    *f = (struct hf_files){0};
}

const struct json *hf_files_field(const struct hf_files *f, const char *key)
{
    const struct json *v = json_field(f->named, key);
    return v ? v : json_field(f->config, key);
}

const char *hf_token_text(const struct json *v)
{
    return json_text(json_kind(v) == JK_OBJECT ? json_field(v, "content") : v, NULL);
}

const char *hf_files_token(const struct hf_files *f, const char *key, const char *fallback)
{
    const struct json *v = hf_files_field(f, key);
    return v ? hf_token_text(v) : fallback;
}

int32_t hf_special_mark(struct tokenizer *t, const char *text)
{
    const int32_t id = text ? tokenizer_scan(t, text) : -1;
    if (id < 0) return id;
    t->piece[id].kind = PIECE_CONTROL;
    t->piece[id].match = MATCH_RAW;
    t->piece[id].special = true;
    return id;
}

int32_t hf_named_mark(struct tokenizer *t, const struct hf_files *f, const char *key,
                      const char *fallback)
{
    const char *text = hf_files_token(f, key, fallback);
    if (hf_files_field(f, key)) return text ? tokenizer_scan(t, text) : -1;
    return hf_special_mark(t, text);
}

unsigned hf_bert_flags(const struct hf_files *f)
{
    const bool lower = json_bool(json_field(f->config, "do_lower_case"), true);
    const bool cjk = json_bool(json_field(f->config, "tokenize_chinese_chars"), true);
    const bool strip = json_bool(json_field(f->config, "strip_accents"), lower);
    return (lower ? BERT_LOWER : 0) | (cjk ? BERT_CJK : 0) | (strip ? BERT_STRIP : 0);
}
