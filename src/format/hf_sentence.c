/* hf_sentence.c - the settings of sentence-transformers in a Hugging Face directory. A setting has
 * a key in the checkpoint, is listed as irrelevant, or is rejected by its name, because results
 * would differ from those of sentence-transformers.
 *
 *   sentence_bert_config.json           "sentence_transformers.max_seq_length"; for other names of
 *                                       the file see sentence.c
 *   config_sentence_transformers.json   "sentence_transformers.prompts.NAME", .default_prompt,
 *                                       .truncate_dim, .activation_fn
 *   tokenizer_config.json               "tokenizer.model_max_length"
 *
 * The first two files have an effect only in a directory with a modules.json, as in
 * sentence-transformers. The tokenizer reads do_lower_case. A setting without an effect has the key
 * "sentence_transformers.idle.NAME". */
#include "format_impl.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20, KEY_BYTES = 160 };

int hf_modules_read(const struct modules *m, const char *file, enum json_kind kind,
                    struct json **out)
{
    char path[4096];
    *out = NULL;
    int rc = hf_path(path, sizeof path, m->dir, file, m->e);
    bool found = false;
    if (rc == 0) rc = file_find(&found, path, m->e);
    if (rc != 0 || !found) return rc;
    rc = json_read_file(out, path, FILE_BYTES_MAX, m->e);
    if (rc == 0 && json_kind(*out) != kind)
        rc = err_set(m->e, ERR_FORMAT, "%s: expected %s, got %s", path,
                     kind == JK_LIST ? "a list" : "an object", json_kind_name(json_kind(*out)));
    if (rc == 0) return 0;
    json_drop(*out);
    *out = NULL;
    return rc;
}

int hf_modules_value(const struct modules *m, const char *file, const struct json *config,
                     const char *field, enum json_kind kind)
{
    static const char *const name[] = {[JK_BOOL] = "true or false",
                                       [JK_INT] = "an integer",
                                       [JK_TEXT] = "a string",
                                       [JK_OBJECT] = "an object"};
    char value[80];
    const struct json *v = json_field(config, field);
    if (json_kind(v) == JK_NONE || json_kind(v) == kind) return 0;
    return err_set(m->e, ERR_FORMAT, "%s/%s: %s: must be %s, got %s", m->dir, file, field,
                   name[kind], json_value_text(v, value));
}

int hf_modules_kind(const struct modules *m, const char *file, const struct json *config,
                    const char *field, enum json_kind kind)
{
    if (json_kind(json_field(config, field)) == JK_NULL) return 0;
    return hf_modules_value(m, file, config, field, kind);
}

/* ---- lists of settings ---- */

/* Reject a setting, with the reason. */
static int refuse(const struct modules *m, const char *file, const char *field, const char *why)
{
    return err_set(m->e, ERR_UNSUPPORTED, "%s/%s: %s: %s", m->dir, file, field, why);
}

static bool in_list(const char *const *list, const char *name)
{
    while (*list && strcmp(*list, name) != 0) list++;
    return *list != NULL;
}

/* Return true for a value that is the default of all settings: null, false, or an empty text, list
 * or object. */
static bool is_default(const struct json *v)
{
    size_t n;
    const enum json_kind kind = json_kind(v);
    if (kind == JK_TEXT) return json_text(v, &n) && n == 0;
    if (kind == JK_LIST || kind == JK_OBJECT) return json_count(v) == 0;
    return kind == JK_NONE || kind == JK_NULL || (kind == JK_BOOL && !json_bool(v, true));
}

/* Mark a setting as irrelevant if it is idle; reject it otherwise. */
static int judge(const struct modules *m, const char *file, const char *name, bool idle)
{
    char key[KEY_BYTES], shown[81];
    snprintf(shown, sizeof shown, "%.80s", name);
    if (!idle) return refuse(m, file, shown, "not supported yet");
    snprintf(key, sizeof key, "sentence_transformers.idle.%s", shown);
    return checkpoint_meta(m->c, key) ? 0 : checkpoint_add_bool(m->c, key, true, m->e);
}

int hf_modules_fields(const struct modules *m, const char *file, const struct json *config,
                      const char *const *used, const char *const *idle)
{
    int rc = 0;
    for (void *it = json_first(config); it && rc == 0; it = json_next(config, it)) {
        const char *name = json_it_key(it, NULL);
        if (!in_list(used, name))
            rc = judge(m, file, name, in_list(idle, name) || is_default(json_it_value(it)));
    }
    return rc;
}

/* ---- sentence_bert_config.json ---- */

/* Reject arguments of the constructors of transformers, unless they have no effect on numbers. An
 * argument of any value replaces that of the model's files. */
static int check_arguments(const struct modules *m, const char *file, const struct json *config)
{
    static const char *const field[] = {"model_args",       "model_kwargs", "tokenizer_args",
                                        "processor_kwargs", "config_args",  "config_kwargs"};
    static const char *const idle[] = {"trust_remote_code",
                                       "dtype",
                                       "torch_dtype",
                                       "device_map",
                                       "padding_side",
                                       "attn_implementation",
                                       "low_cpu_mem_usage",
                                       "use_fast",
                                       "unpad_inputs",
                                       "use_cache",
                                       NULL};
    int rc = 0;
    for (size_t i = 0; i < sizeof field / sizeof field[0] && rc == 0; i++) {
        const struct json *list = json_field(config, field[i]);
        char place[80];
        snprintf(place, sizeof place, "%s: %s", file, field[i]);
        rc = hf_modules_value(m, file, config, field[i], JK_OBJECT);
        for (void *it = json_first(list); it && rc == 0; it = json_next(list, it))
            rc = judge(m, place, json_it_key(it, NULL), in_list(idle, json_it_key(it, NULL)));
    }
    return rc;
}

/* Return the values that are allowed with these modules. words: the value of a classifier, that of
 * an embedding, NULL. A Pooling module permits only the latter. */
static const char *const *allowed(const struct modules *m, const char *const *words)
{
    return words + (m->n_pooling > 0);
}

/* Reject a text that is not one of the list, which has 1 or 2 texts. An absent text is the
 * default. */
static int check_word(const struct modules *m, const char *file, const struct json *config,
                      const char *field, const char *const *words)
{
    char why[200];
    const char *word = json_text(json_field(config, field), NULL);
    const int rc = hf_modules_value(m, file, config, field, JK_TEXT);
    if (rc != 0 || !word || in_list(words, word)) return rc;
    snprintf(why, sizeof why, "must be %s%s%s, got \"%.80s\"", words[0], words[1] ? " or " : "",
             words[1] ? words[1] : "", word);
    return refuse(m, file, field, why);
}

/* As check_word, for a text that must exist. */
static int need_word(const struct modules *m, const char *file, const struct json *config,
                     const char *field, const char *const *words)
{
    if (!json_field(config, field)) return refuse(m, file, field, "is missing");
    return check_word(m, file, config, field, words);
}

/* Check the kinds of inputs: texts must be inputs of the forward pass. If the kind "message" is
 * present, sentence-transformers renders every text with the chat template. Without kinds,
 * module_output_name has no effect. */
static int check_modalities(const struct modules *m, const char *file, const struct json *config)
{
    static const char *const methods[] = {"forward", NULL};
    static const char *const outputs[] = {"logits", "last_hidden_state", NULL};
    static const char *const names[] = {"scores", "token_embeddings", NULL};
    const struct json *list = json_field(config, "modality_config"),
                      *text = json_field(list, "text");
    char place[80];
    snprintf(place, sizeof place, "%s: modality_config.text", file);
    int rc = hf_modules_value(m, file, config, "modality_config", JK_OBJECT);
    if (rc != 0 || !list) return rc;
    if (json_field(list, "message"))
        return refuse(m, file, "modality_config.message",
                      "not supported yet: sentence-transformers renders every text with the chat "
                      "template; without this field, texts are used unchanged");
    if (!text) return refuse(m, file, "modality_config", "text is missing");
    rc = need_word(m, place, text, "method", methods);
    if (rc == 0) rc = need_word(m, place, text, "method_output_name", allowed(m, outputs));
    return rc ? rc : need_word(m, file, config, "module_output_name", allowed(m, names));
}

/* Add a field, an integer of at least 1, as sentence_transformers.FIELD. An absent field has no
 * key. */
static int add_size(const struct modules *m, const char *file, const struct json *config,
                    const char *field)
{
    char key[KEY_BYTES];
    const struct json *v = json_field(config, field);
    const int64_t n = json_int(v, 0);
    const int rc = hf_modules_kind(m, file, config, field, JK_INT);
    if (rc != 0 || json_kind(v) != JK_INT) return rc;
    if (n < 1)
        return err_set(m->e, ERR_FORMAT, "%s/%s: %s: must be at least 1, got %lld", m->dir, file,
                       field, (long long)n);
    snprintf(key, sizeof key, "sentence_transformers.%s", field);
    return checkpoint_add_int(m->c, key, n, m->e);
}

/* Read the first file with fields. *out is NULL if there is none. */
static int read_settings(const struct modules *m, const char **file, struct json **out)
{
    int rc = 0;
    *out = NULL;
    for (size_t i = 0; rc == 0 && sentence_file(i) && json_count(*out) == 0; i++) {
        json_drop(*out);
        *file = sentence_file(i);
        rc = hf_modules_read(m, *file, JK_OBJECT, out);
    }
    return rc;
}

int hf_sentence_bert(const struct modules *m)
{
    static const char *const used[] = {"max_seq_length",  "do_lower_case",  "transformer_task",
                                       "modality_config", "model_args",     "module_output_name",
                                       "model_kwargs",    "tokenizer_args", "processor_kwargs",
                                       "config_args",     "config_kwargs",  NULL};
    static const char *const idle[] = {"unpad_inputs", "backend", NULL};
    static const char *const tasks[] = {"sequence-classification", "feature-extraction", NULL};
    struct json *config;
    const char *file = sentence_file(0);
    int rc = read_settings(m, &file, &config);
    if (rc == 0) rc = add_size(m, file, config, "max_seq_length");
    if (rc == 0) rc = hf_modules_kind(m, file, config, "do_lower_case", JK_BOOL);
    if (rc == 0) rc = check_word(m, file, config, "transformer_task", allowed(m, tasks));
    if (rc == 0) rc = check_modalities(m, file, config);
    if (rc == 0) rc = check_arguments(m, file, config);
    if (rc == 0) rc = hf_modules_fields(m, file, config, used, idle);
    json_drop(config);
    return rc;
}

/* ---- config_sentence_transformers.json ---- */

static const char prompts_file[] = "config_sentence_transformers.json";

/* Add a prompt, a string. null is the empty prompt. */
static int add_prompt(const struct modules *m, const char *name, const struct json *value)
{
    char key[KEY_BYTES];
    size_t n = 0;
    const char *text = json_kind(value) == JK_NULL ? "" : json_text(value, &n);
    if (!text || strlen(name) > 64)
        return err_set(m->e, ERR_FORMAT,
                       "%s/%s: prompts: expected a string with a name of at most 64 bytes, got %s "
                       "with \"%.80s\"",
                       m->dir, prompts_file, json_kind_name(json_kind(value)), name);
    snprintf(key, sizeof key, "sentence_transformers.prompts.%.64s", name);
    return checkpoint_add_text(m->c, key, text, n, m->e);
}

/* Add the name of the default prompt. The names "query" and "document" have an empty prompt if the
 * file has none. */
static int add_default_prompt(const struct modules *m, const struct json *config)
{
    static const char *const usual[] = {"query", "document", NULL};
    char key[KEY_BYTES];
    size_t n;
    const char *name = json_text(json_field(config, "default_prompt_name"), &n);
    const bool found = name && json_field(json_field(config, "prompts"), name);
    int rc = hf_modules_kind(m, prompts_file, config, "default_prompt_name", JK_TEXT);
    if (rc != 0 || !name) return rc;
    if (!found && !in_list(usual, name))
        return err_set(m->e, ERR_FORMAT,
                       "%s/%s: default_prompt_name: must be a name in prompts, got \"%.80s\"",
                       m->dir, prompts_file, name);
    snprintf(key, sizeof key, "sentence_transformers.prompts.%.64s", name);
    if (!found) rc = checkpoint_add_text(m->c, key, "", 0, m->e);
    return rc ? rc
              : checkpoint_add_text(m->c, "sentence_transformers.default_prompt", name, n, m->e);
}

static int add_prompts(const struct modules *m, const struct json *config)
{
    const struct json *prompts = json_field(config, "prompts");
    int rc = hf_modules_value(m, prompts_file, config, "prompts", JK_OBJECT);
    for (void *it = json_first(prompts); it && rc == 0; it = json_next(prompts, it))
        rc = add_prompt(m, json_it_key(it, NULL), json_it_value(it));
    return rc ? rc : add_default_prompt(m, config);
}

const char *hf_torch_class(const char *path)
{
    static const char *const in[] = {"torch.nn.", "torch.nn.modules.",
                                     "torch.nn.modules.activation.", "torch.nn.modules.linear."};
    const char *dot = path ? strrchr(path, '.') : NULL;
    if (!dot) return NULL;
    const size_t n = (size_t)(dot + 1 - path);
    size_t i = 0;
    while (i < 4 && !(strlen(in[i]) == n && memcmp(in[i], path, n) == 0)) i++;
    const bool identity = strcmp(dot + 1, "Identity") == 0; /* not in activation */
    return i < 2 || i == (identity ? 3 : 2) ? dot + 1 : NULL;
}

/* Add the activation of a classifier's scores, which replaces that of config.json. The whole path
 * of a class outside torch.nn, which sentence-transformers does not load, is kept for the error. */
static int add_activation(const struct modules *m, const struct json *config)
{
    const char *path = json_text(json_field(config, "activation_fn"), NULL),
               *name = hf_torch_class(path);
    const int rc = hf_modules_kind(m, prompts_file, config, "activation_fn", JK_TEXT);
    if (rc != 0 || !path) return rc;
    if (!name) name = path;
    return checkpoint_add_text(m->c, "sentence_transformers.activation_fn", name, strlen(name),
                               m->e);
}

/* sentence-transformers converts a model of another type than its class. */
static int check_type(const struct modules *m, const struct json *config)
{
    static const char *const types[] = {"CrossEncoder", "SentenceTransformer", NULL};
    return check_word(m, prompts_file, config, "model_type", allowed(m, types));
}

int hf_sentence_type(const struct modules *m)
{
    struct json *config;
    int rc = hf_modules_read(m, prompts_file, JK_OBJECT, &config);
    if (rc == 0) rc = check_type(m, config);
    json_drop(config);
    return rc;
}

int hf_sentence_load(struct checkpoint *c, const char *dir, struct err *e)
{
    static const char *const used[] = {"prompts",       "default_prompt_name", "truncate_dim",
                                       "activation_fn", "model_type",          NULL};
    static const char *const idle[] = {"__version__", "requirements", "similarity_fn_name",
                                       "keep_in_fp32_modules", NULL};
    const struct modules m = {.c = c, .e = e, .dir = dir};
    struct json *config;
    char path[4096];
    bool found = false;
    int rc = hf_path(path, sizeof path, dir, "modules.json", e);
    if (rc == 0) rc = file_find(&found, path, e);
    if (rc != 0 || !found) return rc;
    rc = hf_modules_read(&m, prompts_file, JK_OBJECT, &config);
    if (rc == 0) rc = check_type(&m, config);
    if (rc == 0) rc = add_prompts(&m, config);
    if (rc == 0) rc = add_size(&m, prompts_file, config, "truncate_dim");
    if (rc == 0) rc = add_activation(&m, config);
    if (rc == 0) rc = hf_modules_fields(&m, prompts_file, config, used, idle);
    json_drop(config);
    return rc;
}

/* ---- tokenizer_config.json ---- */

int hf_sentence_length(struct checkpoint *c, const struct json *config, struct err *e)
{
    enum { LENGTH_MAX = 1 << 30 }; /* transformers writes 1e30 for no limit */
    const double n = json_real(json_field(config, "model_max_length"), 0);
    if (!(n >= 1 && n <= LENGTH_MAX)) return 0;
    return checkpoint_add_int(c, "tokenizer.model_max_length", (int64_t)n, e);
}
