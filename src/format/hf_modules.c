/* hf_modules.c - the files of sentence-transformers in a Hugging Face directory: the modules after
 * the model (hf_sentence.c: their settings).
 *
 *   modules.json                        the list of modules: Transformer, Pooling, Dense,
 *                                       Normalize, and Dropout, which has no effect
 *   1_Pooling/config.json               "ARCH.pooling_type", GGUF's number; for other modes,
 *                                       "sentence_transformers.pooling", their names
 *   2_Dense/config.json, *.safetensors  "sentence_transformers.dense.N.*", modules.N.linear.*
 *
 * N counts the Dense modules from 0. A module of another class (modules.def), or at another
 * place, has the key "sentence_transformers.unsupported". A model is rejected if a module or a
 * mechanism of a module is not supported, because its vectors would be wrong. */
#include "format_impl.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { MODULES_MAX = 8 };

/* Read the configuration of a module, which must exist. */
static int read_module_file(const struct modules *m, const char *folder, struct json **out)
{
    char file[300];
    snprintf(file, sizeof file, "%s/config.json", folder);
    int rc = hf_modules_read(m, file, JK_OBJECT, out);
    if (rc != 0 || *out) return rc;
    return err_set(m->e, ERR_MISSING, "%s/%s not found", m->dir, file);
}

static int refuse(const struct modules *m, const char *folder, const char *field, const char *why)
{
    return err_set(m->e, ERR_UNSUPPORTED, "%s/%s/config.json: %s: %s", m->dir, folder, field, why);
}

/* Return true for a field that is true or absent, and false for null, as in Python. */
static bool is_true(const struct json *config, const char *field)
{
    const struct json *v = json_field(config, field);
    return json_kind(v) == JK_NONE || json_bool(v, false);
}

/* ---- modules ---- */

enum { NAMES_BYTES = 160 };

static const struct {
    const char *flag, *name; /* static; flag: field of older files */
    int type;                /* GGUF's number; 0: none */
} modes[] = {
#define POOLING(name, field, number, method) {field, name, number},
#include "poolings.def"
};
enum { N_MODE = sizeof modes / sizeof modes[0] };

/* The modes of a pooling, whose results are concatenated. */
struct pooling_list {
    char names[NAMES_BYTES]; /* names, separated by '+' */
    int n, type;             /* type: GGUF's number of the last mode */
};

/* Append the mode with the name. */
static int put_mode(const struct modules *m, const char *folder, struct pooling_list *to,
                    const char *name)
{
    char why[200];
    size_t i = 0;
    while (i < N_MODE && !(name && strcmp(name, modes[i].name) == 0)) i++;
    if (i == N_MODE || to->n == POOLINGS_MAX) {
        snprintf(why, sizeof why,
                 "must be 1 to %d of cls, max, mean, mean_sqrt_len_tokens, weightedmean and "
                 "lasttoken, got \"%.60s\"",
                 POOLINGS_MAX, name ? name : "");
        return refuse(m, folder, "pooling_mode", why);
    }
    const size_t at = strlen(to->names);
    snprintf(to->names + at, sizeof to->names - at, "%s%s", to->n ? "+" : "", name);
    to->n++, to->type = modes[i].type;
    return 0;
}

/* Read the modes. Older files have a flag per mode. Newer files have the name of the mode, or a
 * list of names. The default is the mean. */
static int read_poolings(const struct modules *m, const char *folder, const struct json *config,
                         struct pooling_list *to)
{
    char file[300];
    const struct json *mode = json_field(config, "pooling_mode");
    const bool many = json_kind(mode) == JK_LIST;
    snprintf(file, sizeof file, "%s/config.json", folder);
    int rc = many ? 0 : hf_modules_value(m, file, config, "pooling_mode", JK_TEXT);
    for (size_t i = 0; i < N_MODE && rc == 0; i++)
        rc = hf_modules_kind(m, file, config, modes[i].flag, JK_BOOL);
    if (rc == 0) rc = hf_modules_kind(m, file, config, "include_prompt", JK_BOOL);
    const char *name = json_text(mode, NULL);
    for (size_t i = 0; many && i < json_count(mode) && rc == 0; i++)
        rc = put_mode(m, folder, to, json_text(json_item(mode, i), NULL));
    for (size_t i = 0; !many && !name && i < N_MODE && rc == 0; i++)
        if (json_bool(json_field(config, modes[i].flag), false))
            rc = put_mode(m, folder, to, modes[i].name);
    if (rc == 0 && to->n == 0) rc = put_mode(m, folder, to, many ? NULL : name ? name : "mean");
    return rc;
}

/* Reject a pooling without the width of its vectors, or with another width than the model's. The
 * older name of the field has an effect only without the newer name. */
static int check_width(const struct modules *m, const char *folder, const struct json *config)
{
    char key[96], file[300], value[80];
    const char *field = "embedding_dimension";
    if (!json_field(config, field) && json_field(config, "word_embedding_dimension"))
        field = "word_embedding_dimension";
    snprintf(key, sizeof key, "%s.embedding_length", checkpoint_arch(m->c));
    snprintf(file, sizeof file, "%s/config.json", folder);
    const struct json *v = json_field(config, field);
    const int64_t d = meta_int(checkpoint_meta(m->c, key), -1);
    const int rc = hf_modules_value(m, file, config, field, JK_INT);
    if (!v) return refuse(m, folder, field, "is missing");
    if (rc != 0 || d < 0 || json_int(v, d) == d) return rc;
    return err_set(m->e, ERR_FORMAT, "%s/%s: %s: must be %lld, the width of the model, got %s",
                   m->dir, file, field, (long long)d, json_value_text(v, value));
}

/* Reject fields of a module's configuration that are not in the list. */
static int check_fields(const struct modules *m, const char *folder, const struct json *config,
                        const char *const *used)
{
    static const char *const idle[] = {NULL};
    char file[300];
    snprintf(file, sizeof file, "%s/config.json", folder);
    return hf_modules_fields(m, file, config, used, idle);
}

/* Add a pooling: GGUF's number if GGUF has the mode, otherwise the names of the modes. */
static int add_pooling(struct modules *m, const char *folder)
{
    static const char *const used[] = {"pooling_mode", "include_prompt", "embedding_dimension",
                                       "word_embedding_dimension",
#define POOLING(name, field, number, method) field,
#include "poolings.def"
                                       NULL};
    struct json *config;
    struct pooling_list list = {0};
    char key[96];
    int rc = read_module_file(m, folder, &config);
    if (rc == 0) rc = read_poolings(m, folder, config, &list);
    if (rc == 0) rc = check_width(m, folder, config);
    if (rc == 0) rc = check_fields(m, folder, config, used);
    snprintf(key, sizeof key, "%s.pooling_type", checkpoint_arch(m->c));
    if (rc == 0 && list.n == 1 && list.type > 0)
        rc = checkpoint_add_u32(m->c, key, (uint32_t)list.type, m->e);
    else if (rc == 0)
        rc = checkpoint_add_text(m->c, "sentence_transformers.pooling", list.names,
                                 strlen(list.names), m->e);
    if (rc == 0 && !is_true(config, "include_prompt"))
        rc = checkpoint_add_int(m->c, "sentence_transformers.include_prompt", 0, m->e);
    json_drop(config);
    m->n_pooling++;
    return rc;
}

/* Add the activation's name without the path of its class: "Tanh". Only an absent field is the
 * class's default. */
static int add_activation(struct modules *m, const char *folder, const struct json *config)
{
    char key[96];
    const struct json *v = json_field(config, "activation_function");
    const char *name = json_kind(v) == JK_NONE ? "Tanh" : hf_torch_class(json_text(v, NULL));
    if (json_kind(v) == JK_NULL)
        return refuse(m, folder, "activation_function", "must be a string, got null");
    if (!name)
        return refuse(m, folder, "activation_function",
                      "must be a class of torch.nn, such as torch.nn.modules.linear.Identity");
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
    int rc = hf_modules_read(m, file, JK_OBJECT, &config);
    static const char *const used[] = {"module_input_name", "module_output_name", NULL};
    if (rc == 0) rc = check_places(m, folder, config);
    if (rc == 0) rc = check_fields(m, folder, config, used);
    json_drop(config);
    m->n_normalize++;
    return rc;
}

/* Reject a Dense module whose only weights are pickled. */
static int check_pickle(const struct modules *m, const char *folder)
{
    static const char *const name[] = {"model.safetensors", "pytorch_model.bin"};
    char path[4096];
    bool found[2] = {false};
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        char file[300];
        snprintf(file, sizeof file, "%s/%s", folder, name[i]);
        rc = hf_path(path, sizeof path, m->dir, file, m->e);
        if (rc == 0) rc = file_find(&found[i], path, m->e);
    }
    if (rc != 0 || found[0] || !found[1]) return rc;
    return err_set(m->e, ERR_UNSUPPORTED,
                   "%s: not supported: the file may contain code, and quoth reads safetensors; "
                   "SentenceTransformer(\"%s\").save_pretrained() writes them",
                   path, m->dir);
}

/* Add the tensors of a Dense module as modules.N.linear.weight and .bias. Without the field `bias`,
 * the module has a bias, as in the class. */
static int add_dense_tensors(struct modules *m, const char *folder, const struct json *config)
{
    char path[4096], file[300], prefix[32], name[64];
    snprintf(file, sizeof file, "%s/model.safetensors", folder);
    int rc = check_pickle(m, folder);
    if (rc == 0) rc = hf_path(path, sizeof path, m->dir, file, m->e);
    snprintf(prefix, sizeof prefix, "modules.%d.", m->n_dense);
    m->c->prefix = prefix;
    if (rc == 0) rc = safetensors_load(m->c, path, m->e);
    m->c->prefix = NULL;
    snprintf(name, sizeof name, "%slinear.bias", prefix);
    const bool has = checkpoint_tensor(m->c, name) != NULL;
    if (rc == 0 && has != is_true(config, "bias"))
        rc = refuse(m, folder, "bias",
                    has ? "is false, but the file has the tensor linear.bias"
                        : "is true, but the file lacks the tensor linear.bias");
    return rc;
}

/* Add a Dense module. */
static int add_dense(struct modules *m, const char *folder)
{
    static const char *const used[] = {
        "in_features",       "out_features",       "bias",         "activation_function",
        "module_input_name", "module_output_name", "use_residual", NULL};
    struct json *config;
    char key[96], file[300];
    const int64_t n_max = 1 << 20;
    int rc = read_module_file(m, folder, &config);
    if (rc == 0) rc = add_activation(m, folder, config);
    if (rc == 0) rc = check_places(m, folder, config);
    snprintf(file, sizeof file, "%s/config.json", folder);
    if (rc == 0) rc = hf_modules_kind(m, file, config, "use_residual", JK_BOOL);
    if (rc == 0) rc = hf_modules_kind(m, file, config, "activation_function", JK_TEXT);
    if (rc == 0) rc = hf_modules_kind(m, file, config, "bias", JK_BOOL);
    if (rc == 0 && json_bool(json_field(config, "use_residual"), false))
        rc = refuse(m, folder, "use_residual", "must be false, got true");
    if (rc == 0) rc = check_fields(m, folder, config, used);
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
    if (rc == 0) rc = add_dense_tensors(m, folder, config);
    json_drop(config);
    m->n_dense++;
    return rc;
}

/* Reject a module without a name, and one with the name of an earlier module, which it replaces in
 * sentence-transformers. */
static int check_name(const struct modules *m, const struct json *list, size_t i)
{
    const char *name = json_text(json_field(json_item(list, i), "name"), NULL);
    if (!name)
        return err_set(m->e, ERR_FORMAT, "%s/modules.json: module %zu: name: must be a string",
                       m->dir, i);
    for (size_t k = 0; k < i; k++) {
        const char *other = json_text(json_field(json_item(list, k), "name"), NULL);
        if (other && strcmp(other, name) == 0)
            return err_set(m->e, ERR_FORMAT,
                           "%s/modules.json: module %zu: name: must be another one than that of "
                           "module %zu, got \"%.60s\"",
                           m->dir, i, k, name);
    }
    return 0;
}

/* Add the module i. The modules after an unsupported one are not read: that one is the error. */
static int add_module(struct modules *m, size_t i, const struct json *module)
{
    static const char unsupported[] = "sentence_transformers.unsupported";
    char folder[201];
    const char *type = json_text(json_field(module, "type"), NULL),
               *path = json_text(json_field(module, "path"), NULL);
    if (!type || !path || !sentence_inner(folder, sizeof folder, path))
        return err_set(m->e, ERR_FORMAT,
                       "%s/modules.json: module %zu: expected the names of a type and of a folder, "
                       "got \"%.60s\" and \"%.60s\"",
                       m->dir, i, type ? type : "", path ? path : "");
    const char *name = sentence_class(type);
    if (checkpoint_meta(m->c, unsupported)) return 0;
    if (name && i == 0 && strcmp(name, "Transformer") == 0) return 0;
    if (name && i > 0 && strcmp(name, "Dropout") == 0) return 0; /* for training only */
    if (name && i > 0 && *folder) {
        const bool first = m->n_pooling + m->n_dense + m->n_normalize == 0;
        if (strcmp(name, "Pooling") == 0 && first) return add_pooling(m, folder);
        if (strcmp(name, "Dense") == 0 && m->n_pooling == 1 && m->n_normalize == 0)
            return add_dense(m, folder);
        if (strcmp(name, "Normalize") == 0 && m->n_pooling == 1) return add_normalize(m, folder);
    }
    return checkpoint_add_text(m->c, unsupported, type, strlen(type), m->e);
}

static int add_modules(struct modules *m, const struct json *list)
{
    int rc = 0;
    if (json_count(list) == 0)
        return err_set(m->e, ERR_FORMAT, "%s/modules.json: must begin with a Transformer, is empty",
                       m->dir);
    if (json_count(list) > MODULES_MAX)
        return err_set(m->e, ERR_LIMIT, "%s/modules.json: must have at most %d modules, got %zu",
                       m->dir, MODULES_MAX, json_count(list));
    for (size_t i = 0; i < json_count(list) && rc == 0; i++) {
        rc = check_name(m, list, i);
        if (rc == 0) rc = add_module(m, i, json_item(list, i));
    }
    if (rc == 0) rc = checkpoint_add_int(m->c, "sentence_transformers.n_dense", m->n_dense, m->e);
    if (rc == 0)
        rc = checkpoint_add_int(m->c, "sentence_transformers.normalize", m->n_normalize > 0, m->e);
    return rc;
}

int hf_modules_check(struct checkpoint *c, const char *dir, struct err *e)
{
    const struct modules m = {.c = c, .e = e, .dir = dir};
    struct json *list;
    int rc = hf_modules_read(&m, "modules.json", JK_LIST, &list);
    const char *type = json_text(json_field(json_item(list, 0), "type"), NULL),
               *name = type ? sentence_class(type) : NULL;
    if (rc == 0 && type && !(name && strcmp(name, "Transformer") == 0))
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s/modules.json: module %.120s: not supported yet at its place", dir, type);
    json_drop(list);
    return rc;
}

int hf_modules_load(struct checkpoint *c, const char *dir, const char *own, struct err *e)
{
    struct modules m = {.c = c, .e = e, .dir = dir};
    struct json *list;
    int rc = hf_modules_read(&m, "modules.json", JK_LIST, &list);
    if (rc != 0 || !list) return rc;
    rc = add_modules(&m, list);
    if (rc == 0) rc = hf_sentence_type(&m);
    m.dir = own; /* the settings are next to the model */
    if (rc == 0) rc = hf_sentence_bert(&m);
    json_drop(list);
    return rc;
}
