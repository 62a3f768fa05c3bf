/* hf_modules.c - the files of sentence-transformers in a Hugging Face directory: the modules after
 * the model, and the prompts.
 *
 *   modules.json                        the list of modules: Transformer, Pooling, Dense, Normalize
 *   1_Pooling/config.json               "ARCH.pooling_type", GGUF's number
 *   2_Dense/config.json, *.safetensors  "sentence_transformers.dense.N.*", modules.N.linear.*
 *   sentence_bert_config.json           "sentence_transformers.max_seq_length"
 *   config_sentence_transformers.json   "sentence_transformers.prompts.NAME"
 *
 * N counts the Dense modules from 0. A module of another type, or at another place, has the key
 * "sentence_transformers.unsupported". A model is rejected if a module or a mechanism of a module
 * is not supported, because its vectors would be wrong. */
#include "format_impl.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20, MODULES_MAX = 8 };

/* Pointers are borrowed. */
struct modules {
    struct checkpoint *c;
    struct err *e;
    const char *dir;
    int n_pooling, n_dense, n_normalize;
};

/* Read an optional file as a JSON value of the type `kind`. *out is NULL if the file does not
 * exist. The caller drops *out. */
static int read_file(const struct modules *m, const char *file, enum json_kind kind,
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

/* Read the configuration of a module, which must exist. */
static int read_module_file(const struct modules *m, const char *folder, struct json **out)
{
    char file[300];
    snprintf(file, sizeof file, "%s/config.json", folder);
    int rc = read_file(m, file, JK_OBJECT, out);
    if (rc != 0 || *out) return rc;
    return err_set(m->e, ERR_MISSING, "%s/%s not found", m->dir, file);
}

static int refuse(const struct modules *m, const char *folder, const char *field, const char *why)
{
    return err_set(m->e, ERR_UNSUPPORTED, "%s/%s/config.json: %s: %s", m->dir, folder, field, why);
}

/* Reject a field of `file` that has another type than `kind`. null and an absent field have the
 * default value. */
static int check_kind(const struct modules *m, const char *file, const struct json *config,
                      const char *field, enum json_kind kind)
{
    static const char *const name[] = {[JK_BOOL] = "true or false",
                                       [JK_INT] = "an integer",
                                       [JK_TEXT] = "a string",
                                       [JK_OBJECT] = "an object"};
    char value[80];
    const struct json *v = json_field(config, field);
    if (json_kind(v) == JK_NONE || json_kind(v) == JK_NULL || json_kind(v) == kind) return 0;
    return err_set(m->e, ERR_FORMAT, "%s/%s: %s: must be %s, got %s", m->dir, file, field,
                   name[kind], json_value_text(v, value));
}

/* ---- modules ---- */

/* Set *type to the number of a pooling mode in GGUF. Older files have a flag per mode. Newer files
 * have the name of the mode. */
static int pooling_type(const struct modules *m, const char *folder, const struct json *config,
                        int *type)
{
    static const struct {
        const char *flag, *name; /* static */
        int type;                /* -1: not supported */
    } modes[] = {
        {"pooling_mode_mean_tokens", "mean", 1},
        {"pooling_mode_cls_token", "cls", 2},
        {"pooling_mode_lasttoken", "lasttoken", 3},
        {"pooling_mode_max_tokens", "max", -1},
        {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", -1},
        {"pooling_mode_weightedmean_tokens", "weightedmean", -1},
    };
    char why[160], file[300];
    const char *name = json_text(json_field(config, "pooling_mode"), NULL);
    snprintf(file, sizeof file, "%s/config.json", folder);
    int n = 0, rc = check_kind(m, file, config, "pooling_mode", JK_TEXT);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0] && rc == 0; i++)
        rc = check_kind(m, file, config, modes[i].flag, JK_BOOL);
    if (rc == 0) rc = check_kind(m, file, config, "include_prompt", JK_BOOL);
    if (rc != 0) return rc;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const bool on = name ? strcmp(name, modes[i].name) == 0
                             : json_bool(json_field(config, modes[i].flag), false);
        if (on && modes[i].type < 0)
            return refuse(m, folder, modes[i].flag, "this pooling is not supported yet");
        if (on) *type = modes[i].type, n++;
    }
    if (n == 1) return 0;
    if (name)
        snprintf(why, sizeof why, "must be mean, cls or lasttoken, got \"%.60s\"", name);
    else
        snprintf(why, sizeof why, "must be one of mean, cls and lasttoken, got %d", n);
    return refuse(m, folder, "pooling_mode", why);
}

/* Reject a pooling of vectors with another width than the model's. */
static int check_width(const struct modules *m, const char *folder, const struct json *config)
{
    static const char field[] = "word_embedding_dimension";
    char key[96], file[300], value[80];
    snprintf(key, sizeof key, "%s.embedding_length", checkpoint_arch(m->c));
    snprintf(file, sizeof file, "%s/config.json", folder);
    const struct json *v = json_field(config, field);
    const int64_t d = meta_int(checkpoint_meta(m->c, key), -1);
    const int rc = check_kind(m, file, config, field, JK_INT);
    if (rc != 0 || json_kind(v) != JK_INT || d < 0 || json_int(v, d) == d) return rc;
    return err_set(m->e, ERR_FORMAT, "%s/%s: %s: must be %lld, the width of the model, got %s",
                   m->dir, file, field, (long long)d, json_value_text(v, value));
}

static int add_pooling(struct modules *m, const char *folder)
{
    struct json *config;
    char key[96];
    int type = 0, rc = read_module_file(m, folder, &config);
    if (rc == 0) rc = pooling_type(m, folder, config, &type);
    if (rc == 0) rc = check_width(m, folder, config);
    snprintf(key, sizeof key, "%s.pooling_type", checkpoint_arch(m->c));
    if (rc == 0) rc = checkpoint_add_u32(m->c, key, (uint32_t)type, m->e);
    if (rc == 0 && !json_bool(json_field(config, "include_prompt"), true))
        rc = refuse(m, folder, "include_prompt", "must be true, got false");
    json_drop(config);
    m->n_pooling++;
    return rc;
}

/* Add the activation's name without the path of its class: "Tanh". */
static int add_activation(struct modules *m, const struct json *config)
{
    char key[96];
    const char *name = json_text(json_field(config, "activation_function"), NULL);
    const char *dot = name ? strrchr(name, '.') : NULL;
    if (!name) name = "Tanh"; /* the default of the class */
    if (dot) name = dot + 1;
    snprintf(key, sizeof key, "sentence_transformers.dense.%d.activation", m->n_dense);
    return checkpoint_add_text(m->c, key, name, strlen(name), m->e);
}

/* Reject a module whose input or output is not the vector of the text. */
static int check_places(const struct modules *m, const char *folder, const struct json *config)
{
    static const char *const field[] = {"module_input_name", "module_output_name"};
    int rc = 0;
    for (size_t i = 0; i < sizeof field / sizeof field[0] && rc == 0; i++) {
        const struct json *v = json_field(config, field[i]);
        const char *name = json_text(v, NULL);
        if (json_kind(v) != JK_NONE && json_kind(v) != JK_NULL &&
            !(name && strcmp(name, "sentence_embedding") == 0))
            rc = refuse(m, folder, field[i], "must be sentence_embedding");
    }
    return rc;
}

/* Add a Normalize module. Older Normalize modules have no configuration. */
static int add_normalize(struct modules *m, const char *folder)
{
    struct json *config;
    char file[300];
    snprintf(file, sizeof file, "%s/config.json", folder);
    int rc = read_file(m, file, JK_OBJECT, &config);
    if (rc == 0) rc = check_places(m, folder, config);
    json_drop(config);
    m->n_normalize++;
    return rc;
}

/* Add the tensors of a Dense module as modules.N.linear.weight and .bias. */
static int add_dense(struct modules *m, const char *folder)
{
    struct json *config;
    char key[96], path[4096], prefix[32], file[300];
    const int64_t n_max = 1 << 20;
    int rc = read_module_file(m, folder, &config);
    if (rc == 0) rc = add_activation(m, config);
    if (rc == 0) rc = check_places(m, folder, config);
    snprintf(file, sizeof file, "%s/config.json", folder);
    if (rc == 0) rc = check_kind(m, file, config, "use_residual", JK_BOOL);
    if (rc == 0) rc = check_kind(m, file, config, "activation_function", JK_TEXT);
    if (rc == 0 && json_bool(json_field(config, "use_residual"), false))
        rc = refuse(m, folder, "use_residual", "must be false, got true");
    const int64_t n_out = json_int(json_field(config, "out_features"), 0),
                  n_in = json_int(json_field(config, "in_features"), 0);
    if (rc == 0 && (n_out < 1 || n_out > n_max || n_in < 1 || n_in > n_max))
        rc = err_set(m->e, ERR_UNSUPPORTED,
                     "%s/%s/config.json: out_features and in_features: must be in [1, %lld], got "
                     "%lld and %lld",
                     m->dir, folder, (long long)n_max, (long long)n_out, (long long)n_in);
    snprintf(key, sizeof key, "sentence_transformers.dense.%d.out", m->n_dense);
    if (rc == 0) rc = checkpoint_add_int(m->c, key, n_out, m->e);
    snprintf(key, sizeof key, "sentence_transformers.dense.%d.in", m->n_dense);
    if (rc == 0) rc = checkpoint_add_int(m->c, key, n_in, m->e);
    snprintf(file, sizeof file, "%s/model.safetensors", folder);
    if (rc == 0) rc = hf_path(path, sizeof path, m->dir, file, m->e);
    snprintf(prefix, sizeof prefix, "modules.%d.", m->n_dense);
    m->c->prefix = prefix;
    if (rc == 0) rc = safetensors_load(m->c, path, m->e);
    m->c->prefix = NULL;
    json_drop(config);
    m->n_dense++;
    return rc;
}

/* Add the module i. The class name is the last part of the type's path. Folders must not lead out
 * of the directory, because the list is untrusted. */
static int add_module(struct modules *m, size_t i, const struct json *module)
{
    const char *type = json_text(json_field(module, "type"), NULL),
               *folder = json_text(json_field(module, "path"), NULL);
    const char *dot = type ? strrchr(type, '.') : NULL, *name = dot ? dot + 1 : type;
    if (!name || !folder || strlen(folder) > 200 || strchr(folder, '/'))
        return err_set(m->e, ERR_FORMAT,
                       "%s/modules.json: module %zu: expected the names of a type and of a folder, "
                       "got \"%.60s\" and \"%.60s\"",
                       m->dir, i, name ? name : "", folder ? folder : "");
    if (i == 0 && strcmp(name, "Transformer") == 0 && (!*folder || strcmp(folder, ".") == 0))
        return 0;
    if (i > 0 && folder[0] != '.') {
        const bool first = m->n_pooling + m->n_dense + m->n_normalize == 0;
        if (strcmp(name, "Pooling") == 0 && first) return add_pooling(m, folder);
        if (strcmp(name, "Dense") == 0 && m->n_pooling == 1 && m->n_normalize == 0)
            return add_dense(m, folder);
        if (strcmp(name, "Normalize") == 0 && m->n_pooling == 1) return add_normalize(m, folder);
    }
    if (checkpoint_meta(m->c, "sentence_transformers.unsupported")) return 0;
    return checkpoint_add_text(m->c, "sentence_transformers.unsupported", name, strlen(name), m->e);
}

static int add_modules(struct modules *m, const struct json *list)
{
    int rc = 0;
    if (json_count(list) > MODULES_MAX)
        return err_set(m->e, ERR_LIMIT, "%s/modules.json: must have at most %d modules, got %zu",
                       m->dir, MODULES_MAX, json_count(list));
    for (size_t i = 0; i < json_count(list) && rc == 0; i++)
        rc = add_module(m, i, json_item(list, i));
    if (rc == 0) rc = checkpoint_add_int(m->c, "sentence_transformers.n_dense", m->n_dense, m->e);
    if (rc == 0)
        rc = checkpoint_add_int(m->c, "sentence_transformers.normalize", m->n_normalize > 0, m->e);
    return rc;
}

/* ---- length and prompts ---- */

static int add_length(struct modules *m)
{
    static const char file[] = "sentence_bert_config.json";
    struct json *config;
    int rc = read_file(m, file, JK_OBJECT, &config);
    const struct json *length = json_field(config, "max_seq_length");
    const int64_t n = json_int(length, 0);
    if (rc == 0) rc = check_kind(m, file, config, "max_seq_length", JK_INT);
    if (rc == 0 && json_kind(length) == JK_INT && n < 1)
        rc = err_set(m->e, ERR_FORMAT, "%s/%s: max_seq_length: must be at least 1, got %lld",
                     m->dir, file, (long long)n);
    if (rc == 0) rc = check_kind(m, file, config, "do_lower_case", JK_BOOL);
    if (rc == 0 && json_bool(json_field(config, "do_lower_case"), false))
        rc =
            err_set(m->e, ERR_UNSUPPORTED,
                    "%s/sentence_bert_config.json: do_lower_case: must be false, got true", m->dir);
    if (rc == 0 && n > 0)
        rc = checkpoint_add_int(m->c, "sentence_transformers.max_seq_length", n, m->e);
    json_drop(config);
    return rc;
}

static int add_prompts(struct modules *m)
{
    static const char file[] = "config_sentence_transformers.json";
    struct json *config;
    int rc = read_file(m, file, JK_OBJECT, &config);
    if (rc == 0) rc = check_kind(m, file, config, "prompts", JK_OBJECT);
    if (rc == 0) rc = check_kind(m, file, config, "default_prompt_name", JK_TEXT);
    const struct json *prompts = json_field(config, "prompts");
    for (void *it = json_first(prompts); it && rc == 0; it = json_next(prompts, it)) {
        char key[160];
        size_t n;
        const char *text = json_text(json_it_value(it), &n), *name = json_it_key(it, NULL);
        if (!text || strlen(name) > 64)
            rc = err_set(m->e, ERR_FORMAT,
                         "%s/config_sentence_transformers.json: prompts: expected a string with a "
                         "name of at most 64 bytes, got %s with \"%.80s\"",
                         m->dir, json_kind_name(json_kind(json_it_value(it))), name);
        snprintf(key, sizeof key, "sentence_transformers.prompts.%.64s", name);
        if (rc == 0) rc = checkpoint_add_text(m->c, key, text, n, m->e);
    }
    size_t n;
    const char *name = json_text(json_field(config, "default_prompt_name"), &n);
    if (rc == 0 && name && !json_field(prompts, name))
        rc = err_set(m->e, ERR_FORMAT,
                     "%s/%s: default_prompt_name: must be a name in prompts, got \"%.80s\"", m->dir,
                     file, name);
    if (rc == 0 && name)
        rc = checkpoint_add_text(m->c, "sentence_transformers.default_prompt", name, n, m->e);
    json_drop(config);
    return rc;
}

int hf_modules_load(struct checkpoint *c, const char *dir, struct err *e)
{
    struct modules m = {.c = c, .e = e, .dir = dir};
    struct json *list;
    int rc = read_file(&m, "modules.json", JK_LIST, &list);
    if (rc != 0 || !list) return rc;
    rc = add_modules(&m, list);
    if (rc == 0) rc = add_length(&m);
    if (rc == 0) rc = add_prompts(&m);
    json_drop(list);
    return rc;
}
