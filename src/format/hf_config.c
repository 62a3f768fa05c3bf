/* hf_config.c - the JSON files of a Hugging Face directory -> metadata under GGUF keys.
 *
 *   config.json              "ARCH.key", or "config.FIELD" if GGUF has no name for the field;
 *                            fields of text_config override fields at the top level; the
 *                            parameters of rope are in hf_rope.c
 *   config.json of a model of several parts (parts.def), whose text_config describes the text part:
 *                            "ARCH.key" or "config.FIELD" for the fields of text_config;
 *                            "config.outer.FIELD" for others; "config.inner.FIELD" for fields of
 *                            text_config that count at the top level
 *   generation_config.json   general.sampling.*, generation.*, tokenizer.ggml.*_token_id(s), by
 *                            generation.def
 *   chat_template.jinja, additional_chat_templates/NAME.jinja, chat_template.json and
 *   tokenizer_config.json    tokenizer.chat_template(.NAME); the first file that has it is used
 *
 *   tokenizer_config.json, special_tokens_map.json   tokenizer.special.NAME (hf_special.c)
 *
 * The table of fields is hf_keys.def. Only config.json is required. Every field of config.json
 * becomes a key. A null becomes a key, too, because null and absent differ (mistral's
 * sliding_window). A field of an impossible kind is rejected. In all other files a null does not
 * become a key. changes.c merges --hf-overrides into config.json before this file reads it. */
#include "hf_impl.h"

#include "base/os.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 64 << 20, KEY_BYTES_MAX = HF_KEY_BYTES_MAX };

bool hf_is_outer(const char *name)
{
    static const char *const outer[] = {
#define HF_OUTER(field) field,
#include "hf_keys.def"
    };
    for (size_t i = 0; i < sizeof outer / sizeof outer[0]; i++)
        if (strcmp(outer[i], name) == 0) return true;
    return false;
}

const struct json *hf_field(const struct config_reader *h, const char *name)
{
    if (h->parts) return json_field(hf_is_outer(name) ? h->root : h->text, name);
    const struct json *v = json_field(h->text, name);
    return v ? v : json_field(h->root, name);
}

/* ---- JSON values as metadata ---- */

/* Return true for an object that is an infinite number or NaN, and set *x to it. transformers 5
 * writes {"__float__": "Infinity"}, and json_read_python returns this object for Python's word. */
static bool float_object(const struct json *v, double *x)
{
    const char *text = json_count(v) == 1 ? json_text(json_field(v, "__float__"), NULL) : NULL;
    if (!text) return false;
    if (strcmp(text, "NaN") == 0) return *x = NAN, true;
    *x = *text == '-' ? -INFINITY : INFINITY;
    return strcmp(text, "Infinity") == 0 || strcmp(text, "-Infinity") == 0;
}

/* Return the type of a list's item; VT_COUNT for null, lists and objects. */
static enum value_type type_of(const struct json *item)
{
    double x;
    if (float_object(item, &x)) return VT_F64;
    switch (json_kind(item)) {
    case JK_TEXT:
        return VT_TEXT;
    case JK_INT:
        return VT_I64;
    case JK_REAL:
        return VT_F64;
    case JK_BOOL:
        return VT_BOOL;
    default:
        return VT_COUNT;
    }
}

/* Return the type that can represent every item of the list; VT_COUNT if none. */
static enum value_type common_type(const struct json *list)
{
    enum value_type type = json_count(list) ? type_of(json_item(list, 0)) : VT_I64;
    for (size_t i = 1; i < json_count(list); i++) {
        enum value_type own = type_of(json_item(list, i));
        if ((own == VT_F64 && type == VT_I64) || (own == VT_I64 && type == VT_F64))
            type = VT_F64;
        else if (own != type)
            return VT_COUNT;
    }
    return type;
}

/* Store item i in data. Return false if memory is exhausted. */
static bool fill_item(struct checkpoint *c, enum value_type type, void *data, size_t i,
                      const struct json *v)
{
    if (type == VT_I64) ((int64_t *)data)[i] = json_int(v, 0);
    if (type == VT_F64 && !float_object(v, (double *)data + i))
        ((double *)data)[i] = json_real(v, 0);
    if (type == VT_BOOL) ((uint8_t *)data)[i] = json_bool(v, false);
    if (type != VT_TEXT) return true;
    struct text_slice *s = (struct text_slice *)data + i;
    const char *text = json_text(v, &s->n);
    s->text = arena_text(&c->arena, text, s->n);
    return s->text != NULL;
}

/* Add a list of one type. A list of integers and reals, such as [1, 0.5], becomes a list of
 * reals. */
static int add_list(struct config_reader *h, const char *key, const char *name,
                    const struct json *list)
{
    enum value_type type = common_type(list);
    if (type == VT_COUNT)
        return err_set(
            h->e, ERR_FORMAT,
            "%s/%s: \"%s\": expected a list of numbers, strings or booleans, got a mixed list",
            h->dir, h->file, name);
    struct meta m = {.type = VT_LIST, .item = type, .n = json_count(list)};
    void *data = arena_push0(&h->c->arena, m.n, type == VT_TEXT ? sizeof(struct text_slice) : 8);
    bool ok = data != NULL;
    for (size_t i = 0; i < m.n && ok; i++) ok = fill_item(h->c, type, data, i, json_item(list, i));
    m.data = data;
    return ok ? checkpoint_add_meta(h->c, key, &m, h->e) : err_memory(h->e, key, m.n);
}

static int add_bool(struct config_reader *h, const char *key, bool x)
{
    static const uint8_t byte[2] = {0, 1};
    return checkpoint_add_meta(h->c, key, &(struct meta){.type = VT_BOOL, .data = &byte[x], .n = 1},
                               h->e);
}

/* Add the value of a field. An absent value and a null have no effect. */
static int add_json(struct config_reader *h, const char *key, const char *name,
                    const struct json *v)
{
    size_t n;
    double x;
    const char *text = json_text(v, &n);
    if (checkpoint_meta(h->c, key)) return 0;
    if (float_object(v, &x)) return checkpoint_add_real(h->c, key, x, h->e);
    switch (json_kind(v)) {
    case JK_NONE:
    case JK_NULL:
        return 0;
    case JK_BOOL:
        return add_bool(h, key, json_bool(v, false));
    case JK_INT:
        return checkpoint_add_int(h->c, key, json_int(v, 0), h->e);
    case JK_REAL:
        return checkpoint_add_real(h->c, key, json_real(v, 0), h->e);
    case JK_TEXT:
        return checkpoint_add_text(h->c, key, text, n, h->e);
    case JK_LIST:
        return add_list(h, key, name, v);
    case JK_OBJECT:
        break;
    }
    return err_set(h->e, ERR_FORMAT, "%s/%s: \"%s\": expected a plain value, got an object", h->dir,
                   h->file, name);
}

/* The added key only records that the field exists and is null or an object. */
int hf_add_bare(struct config_reader *h, const char *key, enum value_type type)
{
    return checkpoint_meta(h->c, key)
               ? 0
               : checkpoint_add_meta(h->c, key, &(struct meta){.type = type, .data = ""}, h->e);
}

/* Add a field's value of any kind, also null and objects. */
static int add_any(struct config_reader *h, const char *key, const char *name, const struct json *v)
{
    bool mixed = json_kind(v) == JK_LIST && common_type(v) == VT_COUNT;
    if (json_kind(v) == JK_NULL) return hf_add_bare(h, key, VT_NULL);
    double x;
    const struct meta object = {.type = VT_OBJECT, .data = "", .n = json_count(v)};
    if ((json_kind(v) == JK_OBJECT && !float_object(v, &x)) || mixed)
        return checkpoint_meta(h->c, key) ? 0 : checkpoint_add_meta(h->c, key, &object, h->e);
    return add_json(h, key, name, v);
}

int hf_add_arch(struct config_reader *h, const char *key, const char *name, const struct json *v)
{
    char full[KEY_BYTES_MAX];
    snprintf(full, sizeof full, "%s.%s", h->arch, key);
    return json_kind(v) == JK_NULL ? hf_add_bare(h, full, VT_NULL) : add_json(h, full, name, v);
}

int hf_add_other(struct config_reader *h, const char *parent, const char *name,
                 const struct json *v)
{
    char full[KEY_BYTES_MAX];
    int n = snprintf(full, sizeof full, "config.%s%s%s", parent, *parent ? "." : "", name);
    if (n < 0 || (size_t)n >= sizeof full)
        return err_set(h->e, ERR_FORMAT, "%s/%s: a field's name has more than %d bytes", h->dir,
                       h->file, KEY_BYTES_MAX - 20);
    return add_any(h, full, name, v);
}

/* ---- config.json ---- */

/* Return true if the field `architectures` has a class. */
static bool has_class(const struct config_reader *h, const char *name)
{
    const struct json *list = json_field(h->root, "architectures");
    for (size_t i = 0; json_kind(list) == JK_LIST && i < json_count(list); i++) {
        const char *item = json_text(json_item(list, i), NULL);
        if (item && strcmp(item, name) == 0) return true;
    }
    return false;
}

/* Return true if the folder has the modules of sentence-transformers. */
static bool has_modules(const struct config_reader *h)
{
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/modules.json", h->c->dir);
    return n > 0 && (size_t)n < sizeof path && file_exists(path);
}

/* Return the architecture of a model_type. The modules of sentence-transformers, a class or a field
 * that is true may select another architecture. sentence-transformers ignores the class. */
static const char *arch_of(const struct config_reader *h, const char *model_type)
{
    const struct arch_field *f;
    const bool modules = has_modules(h);
    const char *arch = modules ? arch_of_modules(model_type) : NULL;
    if (arch) return arch;
    for (size_t i = 0; !modules && (f = arch_class_at(i)); i++)
        if (strcmp(f->model_type, model_type) == 0 && has_class(h, f->field)) return f->arch;
    for (size_t i = 0; (f = arch_field_at(i)); i++)
        if (strcmp(f->model_type, model_type) == 0 && json_bool(hf_field(h, f->field), false))
            return f->arch;
    return arch_of_model_type(model_type);
}

/* Read the text of a field model_type. Return NULL after an error. */
static const char *read_type(struct config_reader *h, const struct json *v, const char *field)
{
    size_t n;
    const char *type = json_text(v, &n);
    if (type && n > 0 && n <= 64 && strlen(type) == n) return type;
    err_set(h->e, ERR_FORMAT, "%s/config.json: %s: must be a name of [1, 64] bytes, got %s", h->dir,
            field, json_kind_name(json_kind(v)));
    return NULL;
}

/* Reject the text part's model_type if the class of several parts cannot have such a text part. */
static int refuse_text(struct config_reader *h, const char *type)
{
    return err_set(h->e, ERR_UNSUPPORTED,
                   "%s/config.json: text_config.model_type: \"%.64s\" in a model of several parts "
                   "of model_type \"%s\": not supported yet",
                   h->dir, type, h->parts->model_type);
}

/* Set the architecture of the text part. In transformers, classes with one kind of text part ignore
 * the text part's model_type, so any other model_type is an error. Older files have the model_type
 * of the whole model. */
static int read_text_arch(struct config_reader *h)
{
    static const char field[] = "text_config.model_type";
    const struct parts *p = h->parts;
    const struct json *v = h->text == h->root ? NULL : json_field(h->text, "model_type");
    const char *type = v ? read_type(h, v, field) : p->text;
    if (!type) return ERR_FORMAT;
    if (strcmp(type, p->model_type) == 0 && p->which != PARTS_ANY) type = p->text;
    h->arch = arch_of_model_type(type);
    if (p->which == PARTS_ANY && !parts_has_text(type)) return refuse_text(h, type);
    if (p->which != PARTS_ANY && strcmp(h->arch, arch_of_model_type(p->text)) != 0)
        return refuse_text(h, type);
    return 0;
}

/* Set the architecture. The architecture is read first, because it is the prefix of most keys. In a
 * config of several parts, the text part determines the architecture. */
static int read_arch(struct config_reader *h)
{
    if (h->parts) {
        const int rc = read_text_arch(h);
        if (rc != 0) return rc;
    } else {
        /* the class of an unknown model of several parts differs from the class of its text part */
        const struct json *own = json_field(h->root, "model_type");
        const char *type = read_type(h, own ? own : hf_field(h, "model_type"), "model_type");
        if (!type) return ERR_FORMAT;
        h->arch = arch_of(h, type);
    }
    return checkpoint_add_text(h->c, "general.architecture", h->arch, strlen(h->arch), h->e);
}

static const struct own_name own_key[] = {
#define HF_KEY_OF(arch, field, key) {arch, field, key},
#include "hf_keys.def"
};
enum { N_OWN_KEY = sizeof own_key / sizeof own_key[0] };

/* Return true if the architecture's class has its own fields for a key. */
static bool has_own_names(const struct config_reader *h, const char *key)
{
    for (size_t i = 0; i < N_OWN_KEY; i++)
        if (strcmp(own_key[i].arch, h->arch) == 0 && strcmp(own_key[i].name, key) == 0) return true;
    return false;
}

int hf_add_named(struct config_reader *h, const struct name_pair *key, size_t n, const char *name,
                 const struct json *v, bool *named)
{
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (strcmp(key[i].raw, name) != 0 || has_own_names(h, key[i].name)) continue;
        *named = true;
        rc = hf_add_arch(h, key[i].name, name, v);
    }
    return rc;
}

/* Return true for fields that other functions of hf_config.c or hf_rope.c read. */
static bool placed_elsewhere(const struct config_reader *h, const char *name)
{
    static const char *const own[] = {
#define HF_OWN(field) field,
#include "hf_keys.def"
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(own[i], name) == 0) return true;
    return hf_is_rope_field(h, name);
}

/* Return true if a and b are equal integers, or both null. */
static bool same_value(const struct json *a, const struct json *b)
{
    if (json_kind(a) == JK_NULL) return json_kind(b) == JK_NULL;
    return json_kind(a) == JK_INT && json_kind(b) == JK_INT && json_int(a, 0) == json_int(b, 0);
}

/* Add a field of the architecture's class, under all its keys. Set *named if the class has the
 * field. All fields for one key must have equal values, because the class determines the field that
 * it reads. */
static int add_own(struct config_reader *h, const struct json *object, const char *name,
                   const struct json *v, bool *named)
{
    int rc = 0;
    for (size_t i = 0; i < N_OWN_KEY && rc == 0; i++) {
        const struct own_name *row = &own_key[i];
        if (strcmp(row->arch, h->arch) != 0 || strcmp(row->raw, name) != 0) continue;
        *named = true;
        for (size_t k = 0; k < N_OWN_KEY; k++) {
            const struct own_name *other = &own_key[k];
            const struct json *w = json_field(object, other->raw);
            if (strcmp(other->arch, h->arch) != 0 || strcmp(other->name, row->name) != 0) continue;
            if (w && w != v && !same_value(v, w))
                return err_set(h->e, ERR_FORMAT, "%s/config.json: %s: must equal the field %s",
                               h->dir, name, other->raw);
        }
        rc = hf_add_arch(h, row->name, name, v);
    }
    return rc;
}

/* Return true for an object if its inner fields are read. */
static bool is_read_object(const char *name, const struct json *v)
{
    static const char *const own[] = {
        "",
#define HF_OBJECT(field) field,
#include "hf_keys.def"
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0] && json_kind(v) == JK_OBJECT; i++)
        if (strcmp(own[i], name) == 0) return true;
    return false;
}

/* Add a field without a GGUF name. Also add the fields of an object that is_read_object accepts. */
static int add_unnamed(struct config_reader *h, const char *name, const struct json *v)
{
    int rc = hf_add_other(h, "", name, v);
    if (!is_read_object(name, v)) return rc;
    for (void *it = json_first(v); it && rc == 0; it = json_next(v, it))
        rc = hf_add_other(h, name, json_it_key(it, NULL), json_it_value(it));
    return rc;
}

/* Add a field of the object, unless another function reads the field. */
static int read_field(struct config_reader *h, const struct json *object, const char *name,
                      const struct json *v)
{
    static const struct name_pair key[] = {
#define HF_KEY(field, key) {field, key},
#include "hf_keys.def"
    };
    bool named = placed_elsewhere(h, name);
    int rc = named ? 0 : add_own(h, object, name, v, &named);
    if (!named && rc == 0) rc = hf_add_named(h, key, sizeof key / sizeof key[0], name, v, &named);
    if (!named && rc == 0) rc = add_unnamed(h, name, v);
    return rc;
}

/* Return true for a field at the top level that describes another part. */
static bool is_of_other_part(const char *name)
{
    static const char *const other[] = {
#define PARTS_IDLE(field, why) field,
#include "parts.def"
    };
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (strcmp(other[i], name) == 0) return true;
    return false;
}

/* Add a field of the object that describes the text part. */
static int read_text_field(struct config_reader *h, const char *name, const struct json *v)
{
    const bool flat = h->text == h->root;
    if (flat && is_of_other_part(name)) return hf_add_other(h, "outer", name, v);
    if (!flat && strcmp(name, "pad_token_id") == 0) return hf_add_other(h, "inner", name, v);
    if (flat || !hf_is_outer(name)) return read_field(h, h->text, name, v);
    if (strcmp(name, "quantization_config") == 0 && !json_field(h->root, name)) return 0;
    return hf_add_other(h, "inner", name, v);
}

/* Add all fields of the object. */
static int read_fields(struct config_reader *h, const struct json *object)
{
    int rc = 0;
    for (void *it = json_first(object); it && rc == 0; it = json_next(object, it)) {
        const char *name = json_it_key(it, NULL);
        rc = h->parts ? read_text_field(h, name, json_it_value(it))
                      : read_field(h, object, name, json_it_value(it));
    }
    return rc;
}

/* Add the fields that describe the ids of another part, from the object of that part. */
static int add_ids(struct config_reader *h, const char *object, const struct json *v)
{
    char parent[KEY_BYTES_MAX];
    const char *field;
    int rc = 0;
    snprintf(parent, sizeof parent, "outer.%.100s", object);
    for (int i = 0; rc == 0 && (field = parts_id_field(i)); i++)
        if (json_field(v, field)) rc = hf_add_other(h, parent, field, json_field(v, field));
    return rc;
}

/* Add the fields at the top level of a config of several parts. Most of these fields do not belong
 * to the text part, even if the text part has fields of these names. */
static int read_outer(struct config_reader *h)
{
    int rc = 0;
    for (void *it = json_first(h->root); it && rc == 0 && h->text != h->root;
         it = json_next(h->root, it)) {
        const char *name = json_it_key(it, NULL);
        const bool other = strcmp(name, "text_config") == 0 || strcmp(name, "model_type") == 0;
        if (hf_is_outer(name))
            rc = read_field(h, h->root, name, json_it_value(it));
        else if (!other)
            rc = hf_add_other(h, "outer", name, json_it_value(it));
        if (rc == 0 && parts_has_ids(h->parts, name)) rc = add_ids(h, name, json_it_value(it));
    }
    return rc;
}

/* Add the fields of an object under `parent`. The inner fields of the objects in `deep` are also
 * added, because these objects determine the form of weights. */
static int add_fields(struct config_reader *h, const char *parent, const struct json *object,
                      int depth)
{
    static const char *const deep[] = {"config_groups", "sparsity_config", "transform_config"};
    int rc = 0;
    for (void *it = json_first(object); it && rc == 0; it = json_next(object, it)) {
        char path[KEY_BYTES_MAX];
        const char *name = json_it_key(it, NULL);
        const struct json *v = json_it_value(it);
        bool enter = json_kind(v) == JK_OBJECT && depth > 0;
        for (size_t i = 0; i < 3 && !enter && json_kind(v) == JK_OBJECT; i++)
            enter = strcmp(name, deep[i]) == 0;
        rc = hf_add_other(h, parent, name, v);
        snprintf(path, sizeof path, "%s.%.100s", parent, name);
        if (enter && depth < 4 && rc == 0) rc = add_fields(h, path, v, depth + 1);
    }
    return rc;
}

/* Read the form of quantized weights. compression_config is the older name of the field in
 * compressed-tensors. */
static int read_quantization(struct config_reader *h)
{
    const struct json *q = hf_field(h, "quantization_config");
    if (!q) q = hf_field(h, "compression_config");
    if (!q && h->parts) q = json_field(h->text, "quantization_config");
    int rc = q ? hf_add_other(h, "", "quantization_config", q) : 0;
    return rc ? rc : add_fields(h, "quantization_config", q, 0);
}

/* Read a file of fields of quantized weights, unless config.json has them. Early versions of
 * AutoGPTQ and AutoAWQ wrote the fields only into this file, without the name of the method. */
static int read_side_file(struct config_reader *h, const struct json *root, const char *method)
{
    static const char key[] = "config.quantization_config";
    if (checkpoint_meta(h->c, key)) return 0;
    int rc = hf_add_other(h, "", "quantization_config", root);
    if (rc == 0) rc = add_fields(h, "quantization_config", root, 0);
    return rc || json_field(root, "quant_method")
               ? rc
               : checkpoint_add_text(h->c, "config.quantization_config.quant_method", method,
                                     strlen(method), h->e);
}

static int read_gptq(struct config_reader *h, const struct json *root)
{
    return read_side_file(h, root, "gptq");
}

static int read_awq(struct config_reader *h, const struct json *root)
{
    return read_side_file(h, root, "awq");
}

/* Return the layer number in a name of per_layer_config, such as "07"; -1 if none. */
static int layer_of(const char *name)
{
    enum { DIGITS_MAX = 6 };
    int n = 0, i = 0;
    for (; i < DIGITS_MAX && name[i] >= '0' && name[i] <= '9'; i++) n = 10 * n + name[i] - '0';
    return i > 0 && name[i] == 0 && n < LAYERS_MAX ? n : -1;
}

/* Return the number of layers up to the last one in per_layer_config. Return a negative ERR_* if a
 * name is not a layer number, or if two names have one number. */
static int count_layers(struct config_reader *h, const struct json *layers)
{
    bool seen[LAYERS_MAX] = {false};
    int n = 0;
    for (void *it = json_first(layers); it; it = json_next(layers, it)) {
        const char *name = json_it_key(it, NULL);
        const int il = layer_of(name);
        if (il < 0 || json_kind(json_it_value(it)) != JK_OBJECT)
            return err_set(h->e, ERR_FORMAT,
                           "%s/config.json: per_layer_config: expected an object per layer, got "
                           "\"%.20s\": %s",
                           h->dir, name, json_kind_name(json_kind(json_it_value(it))));
        if (seen[il])
            return err_set(h->e, ERR_FORMAT,
                           "%s/config.json: per_layer_config: must not have layer %d twice", h->dir,
                           il);
        seen[il] = true;
        if (il >= n) n = il + 1;
    }
    return n;
}

/* Add a field of single layers as a list with one item per layer. The item is -1 if the layer lacks
 * the field. */
static int add_layer_field(struct config_reader *h, const char *name, const struct json *layers,
                           int n)
{
    char key[KEY_BYTES_MAX];
    bool any = false;
    int64_t *v = arena_push(&h->c->arena, (size_t)n * sizeof *v, 8);
    if (!v) return err_memory(h->e, name, (size_t)n * sizeof *v);
    for (int i = 0; i < n; i++) v[i] = -1;
    for (void *it = json_first(layers); it; it = json_next(layers, it)) {
        const struct json *own = json_field(json_it_value(it), name);
        if (own && (json_kind(own) != JK_INT || json_int(own, -1) < 0))
            return err_set(h->e, ERR_FORMAT,
                           "%s/config.json: per_layer_config.%s.%s: must be an integer of at least "
                           "0, got %s",
                           h->dir, json_it_key(it, NULL), name, json_kind_name(json_kind(own)));
        if (own) v[layer_of(json_it_key(it, NULL))] = json_int(own, -1), any = true;
    }
    snprintf(key, sizeof key, "config.per_layer_config.%s", name);
    const struct meta m = {.type = VT_LIST, .item = VT_I64, .data = v, .n = (size_t)n};
    return any ? checkpoint_add_meta(h->c, key, &m, h->e) : 0;
}

/* Read the fields that differ in single layers: {"1": {"head_dim": 8}} -> [-1, 8]. Fields that are
 * not in HF_LAYER get a key without a value. */
static int read_layers(struct config_reader *h)
{
    static const char *const own[] = {
#define HF_LAYER(field) field,
#include "hf_keys.def"
    };
    enum { N_OWN = sizeof own / sizeof own[0] };
    const struct json *layers = hf_field(h, "per_layer_config");
    int rc = layers ? hf_add_other(h, "", "per_layer_config", layers) : 0;
    if (rc != 0 || json_kind(layers) != JK_OBJECT) return rc;
    const int n = count_layers(h, layers);
    if (n <= 0) return n;
    for (int i = 0; i < N_OWN && rc == 0; i++) rc = add_layer_field(h, own[i], layers, n);
    for (void *it = json_first(layers); it && rc == 0; it = json_next(layers, it)) {
        const struct json *layer = json_it_value(it);
        for (void *at = json_first(layer); at && rc == 0; at = json_next(layer, at)) {
            const char *name = json_it_key(at, NULL);
            bool known = false;
            for (int i = 0; i < N_OWN; i++) known |= strcmp(own[i], name) == 0;
            if (!known) rc = hf_add_other(h, "per_layer_config", name, json_it_value(at));
        }
    }
    return rc;
}

/* Read id2label as a list of labels: {"0": "A", "1": "B"} -> ["A", "B"]. As in transformers, the
 * labels are LABEL_0, LABEL_1 ... if num_labels differs from the number of labels. */
static int read_labels(struct config_reader *h)
{
    char key[KEY_BYTES_MAX], id[24];
    const struct json *labels = hf_field(h, "id2label");
    const int64_t n_label = json_int(hf_field(h, "num_labels"), (int64_t)json_count(labels));
    if (json_kind(labels) != JK_OBJECT || json_count(labels) == 0) return 0;
    const bool named = n_label == (int64_t)json_count(labels);
    const size_t n = n_label > 0 && n_label <= LABELS_MAX ? (size_t)n_label : 0;
    struct text_slice *text = n > 0 ? arena_push0(&h->c->arena, n, sizeof *text) : NULL;
    if (n == 0)
        return err_set(h->e, ERR_LIMIT, "%s/config.json: %s: must be 1 to %d labels, got %lld",
                       h->dir, named ? "id2label" : "num_labels", LABELS_MAX, (long long)n_label);
    if (!text) return err_memory(h->e, "id2label", n * sizeof *text);
    for (size_t i = 0; i < n; i++) {
        snprintf(id, sizeof id, named ? "%zu" : "LABEL_%zu", i);
        const char *label = named ? json_text(json_field(labels, id), &text[i].n) : id;
        if (!named) text[i].n = strlen(id);
        if (!label)
            return err_set(h->e, ERR_FORMAT,
                           "%s/config.json: id2label: expected a string under \"%s\", got %s",
                           h->dir, id, json_kind_name(json_kind(json_field(labels, id))));
        text[i].text = arena_text(&h->c->arena, label, text[i].n);
        if (!text[i].text) return err_memory(h->e, "id2label", text[i].n);
    }
    snprintf(key, sizeof key, "%s.classifier.output_labels", h->arch);
    const struct meta m = {.type = VT_LIST, .item = VT_TEXT, .n = n, .data = text};
    return checkpoint_add_meta(h->c, key, &m, h->e);
}

/* Read the activation of a sentence-transformers classifier, unless newer files have one
 * (hf_sentence.c). The path before the class name is removed for a class of torch.nn. */
static int read_class_activation(struct config_reader *h)
{
    const struct json *v = json_field(hf_field(h, "sentence_transformers"), "activation_fn");
    if (!v) v = hf_field(h, "sbert_ce_default_activation_function");
    const char *path = json_text(v, NULL), *name = hf_torch_class(path);
    if (!path || checkpoint_meta(h->c, "sentence_transformers.activation_fn")) return 0;
    if (!name) name = path;
    return checkpoint_add_text(h->c, "sentence_transformers.activation_fn", name, strlen(name),
                               h->e);
}

/* ---- generation_config.json ---- */

/* Add a token id or a list of token ids. The result is always a list. */
static int add_eos(struct config_reader *h, const struct json *v)
{
    static const char key[] = "tokenizer.ggml.eos_token_ids";
    if (json_kind(v) != JK_INT) return add_json(h, key, "eos_token_id", v);
    if (checkpoint_meta(h->c, key)) return 0;
    int64_t *id = arena_push(&h->c->arena, sizeof *id, 8);
    if (!id) return err_memory(h->e, key, sizeof *id);
    *id = json_int(v, 0);
    return checkpoint_add_meta(h->c, key, &(struct meta){VT_LIST, VT_I64, id, 1}, h->e);
}

/* Reject an id of a token that is neither an integer nor null. -1 means no token in the files of
 * older classes. */
static int check_id(const struct config_reader *h, const char *field, const struct json *v)
{
    const int64_t id = json_int(v, INT64_MIN);
    const bool absent = json_kind(v) == JK_NONE || json_kind(v) == JK_NULL;
    if (absent || (json_kind(v) == JK_INT && id >= -1 && id <= INT32_MAX)) return 0;
    char got[40];
    const double real = json_real(v, NAN);
    if (isnan(real))
        snprintf(got, sizeof got, "%s", json_kind_name(json_kind(v)));
    else
        snprintf(got, sizeof got, "%.17g", real);
    return err_set(h->e, ERR_FORMAT, "%s/%s: %s: must be an integer in [-1, %d], got %s", h->dir,
                   h->file, field, INT32_MAX, got);
}

static int check_ids(const struct config_reader *h, const struct json *root)
{
    const struct json *eos = json_field(root, "eos_token_id");
    const bool is_list = json_kind(eos) == JK_LIST;
    int rc = is_list ? 0 : check_id(h, "eos_token_id", eos);
    for (size_t i = 0; is_list && i < json_count(eos) && rc == 0; i++)
        rc = check_id(h, "eos_token_id", json_item(eos, i));
    if (rc == 0) rc = check_id(h, "bos_token_id", json_field(root, "bos_token_id"));
    return rc ? rc : check_id(h, "pad_token_id", json_field(root, "pad_token_id"));
}

/* Read the token of padding of a classifier, which is that of the text part in config.json. The
 * class may have a default. */
static int read_class_pad(const struct config_reader *h)
{
    static const struct {
        const char *arch; /* static */
        int32_t id;
    } class[] = {
#define HF_PAD(arch, id) {arch, id},
#include "hf_keys.def"
    };
    const struct json *v = hf_field(h, "pad_token_id");
    int64_t id = json_int(v, -1);
    for (size_t i = 0; !v && i < sizeof class / sizeof class[0]; i++)
        if (strcmp(class[i].arch, h->arch) == 0) id = class[i].id;
    return id < 0 ? 0 : checkpoint_add_int(h->c, "tokenizer.class_pad_id", id, h->e);
}

/* Read the ids of special tokens. Both generation_config.json and config.json may have these
 * ids. */
static int read_token_ids(struct config_reader *h, const struct json *root)
{
    int rc = check_ids(h, root);
    if (rc == 0) rc = add_eos(h, json_field(root, "eos_token_id"));
    if (rc == 0)
        rc = add_json(h, "tokenizer.ggml.bos_token_id", "bos_token_id",
                      json_field(root, "bos_token_id"));
    if (rc == 0)
        rc = add_json(h, "tokenizer.ggml.padding_token_id", "pad_token_id",
                      json_field(root, "pad_token_id"));
    return rc;
}

/* ---- generation_config.json ---- */

/* A row of generation.def. All texts are static. */
struct generation_row {
    const char *field, *key; /* key: metadata key of a default; NULL if none */
    const char *group; /* prefix of the key of a field without an effect; NULL if it has one */
    bool sampling;     /* true: no effect if do_sample is false */
    double value;      /* value without an effect; NAN if none */
};

static const struct generation_row generation_rows[] = {
#define GENERATION(field, key, kind)             {field, key, NULL, false, NAN},
#define GENERATION_SAMPLING(field, key, kind)    {field, key, NULL, true, NAN},
#define GENERATION_OWN(field)                    {field, NULL, NULL, false, NAN},
#define GENERATION_IDLE(field, reason)           {field, NULL, "idle", false, NAN},
#define GENERATION_UNUSED(field, value)          {field, NULL, "unused", false, value},
#define GENERATION_UNUSED_SAMPLING(field, value) {field, NULL, "unused", true, value},
#include "generation.def"
};

static const struct generation_row *generation_row(const char *field)
{
    for (size_t i = 0; i < sizeof generation_rows / sizeof generation_rows[0]; i++)
        if (strcmp(generation_rows[i].field, field) == 0) return &generation_rows[i];
    return NULL;
}

/* Return true if a setting has no effect: null, an empty list or object, or the row's value. */
static bool is_without_effect(const struct json *v, double value)
{
    const enum json_kind kind = json_kind(v);
    if (kind == JK_NULL) return true;
    if (kind == JK_LIST || kind == JK_OBJECT) return json_count(v) == 0 && !json_first(v);
    return (kind == JK_BOOL ? (double)json_bool(v, false) : json_real(v, NAN)) == value;
}

/* Add a field without an effect on requests as "generation.GROUP.FIELD". Long names are
 * shortened. */
static int add_setting(struct config_reader *h, const char *group, const char *field,
                       const struct json *v)
{
    char key[KEY_BYTES_MAX];
    snprintf(key, sizeof key, "generation.%s.%.200s", group, field);
    if (json_kind(v) == JK_NULL) return hf_add_bare(h, key, VT_NULL);
    if (json_kind(v) == JK_LIST || json_kind(v) == JK_OBJECT) return hf_add_bare(h, key, VT_OBJECT);
    return add_json(h, key, field, v);
}

/* Add a field of generation_config.json. greedy: do_sample is false. */
static int add_generation(struct config_reader *h, const char *field, const struct json *v,
                          bool greedy)
{
    const struct generation_row *row = generation_row(field);
    if (!row) return add_setting(h, "unknown", field, v);
    if (row->sampling && greedy) return add_setting(h, "greedy", field, v);
    if (row->key) return add_json(h, row->key, field, v);
    if (!row->group) return 0;
    return add_setting(h, is_without_effect(v, row->value) ? "idle" : row->group, field, v);
}

/* Read token ids and defaults of requests. If do_sample is false, transformers takes the most
 * likely tokens and ignores values of sampling; penalties remain. The default of the temperature is
 * then 0. */
static int read_generation(struct config_reader *h, const struct json *root)
{
    const struct json *samples = json_field(root, "do_sample");
    const bool greedy = !json_bool(samples, true);
    int rc = read_token_ids(h, root);
    if (rc == 0) rc = add_bool(h, "generation.present", true);
    if (rc == 0 && json_kind(samples) == JK_BOOL) rc = add_bool(h, "generation.do_sample", !greedy);
    if (rc == 0 && greedy) rc = checkpoint_add_real(h->c, "general.sampling.temp", 0, h->e);
    for (void *it = json_first(root); it && rc == 0; it = json_next(root, it)) {
        size_t n;
        const char *field = json_it_key(it, &n);
        rc = add_generation(h, field, json_it_value(it), greedy);
    }
    return rc;
}

/* ---- chat templates ---- */

/* Add a chat template. name: NULL or "default" for the template of requests that do not name a
 * template. */
static int add_template(struct config_reader *h, const char *name, const char *text, size_t n)
{
    char key[KEY_BYTES_MAX];
    bool is_default = !name || strcmp(name, "default") == 0;
    snprintf(key, sizeof key, "tokenizer.chat_template%s%s", is_default ? "" : ".",
             is_default ? "" : name);
    return checkpoint_meta(h->c, key) ? 0 : checkpoint_add_text(h->c, key, text, n, h->e);
}

static int add_template_file(struct config_reader *h, const char *dir, const char *file,
                             const char *name)
{
    char path[4096];
    struct buf text = {0};
    bool found = false;
    int rc = hf_path(path, sizeof path, dir, file, h->e);
    if (rc == 0) rc = file_find(&found, path, h->e);
    if (rc != 0 || !found) return rc;
    rc = file_read(&text, path, FILE_BYTES_MAX, h->e);
    if (rc == 0) rc = add_template(h, name, text.data, text.n);
    buf_deinit(&text);
    return rc;
}

/* Read additional_chat_templates/NAME.jinja. */
static int add_template_folder(struct config_reader *h)
{
    char dir[4096];
    struct buf list = {0};
    bool found = false;
    int rc = hf_path(dir, sizeof dir, h->dir, "additional_chat_templates", h->e);
    if (rc == 0) rc = dir_find(&found, dir, h->e);
    if (rc != 0 || !found) return rc;
    rc = dir_list(&list, dir, h->e);
    for (char *rest = list.data, *file; rc == 0 && (file = strsep(&rest, "\n")) && *file;) {
        char name[KEY_BYTES_MAX];
        size_t n = strlen(file);
        if (n <= 6 || !text_ends_with(file, ".jinja") || n - 6 >= sizeof name) continue;
        snprintf(name, sizeof name, "%.*s", (int)(n - 6), file);
        rc = add_template_file(h, dir, file, name);
    }
    buf_deinit(&list);
    return rc;
}

/* Read the field chat_template, which is a string or a list of {name, template}. */
static int read_templates(struct config_reader *h, const struct json *root)
{
    size_t n;
    const struct json *v = json_field(root, "chat_template");
    const char *text = json_text(v, &n);
    int rc = text ? add_template(h, NULL, text, n) : 0;
    for (size_t i = 0; i < json_count(v) && rc == 0; i++) {
        const char *name = json_text(json_field(json_item(v, i), "name"), NULL);
        text = json_text(json_field(json_item(v, i), "template"), &n);
        if (!name || !text)
            return err_set(h->e, ERR_FORMAT,
                           "%s/%s: chat_template[%zu]: expected a name and a template, got %s",
                           h->dir, h->file, i, !name ? "no name" : "no template");
        rc = add_template(h, name, text, n);
    }
    return rc;
}

/* ---- files ---- */

/* Return true for a name of a model file: GGUF, or llama2.c's .bin. The suffix .bin also belongs to
 * tokenizers of llama2.c, and to weights of older Hugging Face folders. */
static bool is_model_name(const char *name)
{
    return text_ends_with(name, ".gguf") ||
           (text_ends_with(name, ".bin") && strncmp(name, "tok", 3) != 0 &&
            strncmp(name, "pytorch_model", 13) != 0);
}

/* Reject a folder without a required file. The error lists the model files in the folder, because
 * opening the folder of a GGUF file is a common mistake. */
static int missing_file(struct config_reader *h, const char *file)
{
    struct buf all = {0}, models = {0};
    struct err ignored;
    char *next = NULL;
    if (dir_list(&all, h->dir, &ignored) == 0 && all.n) next = all.data;
    for (char *name; next && (name = strsep(&next, "\n"));) {
        if (is_model_name(name)) buf_addf(&models, "%s%s", models.n ? ", " : "", name);
    }
    int rc = models.n && !models.failed
                 ? err_set(h->e, ERR_MISSING, "%s: %s not found; available: %.300s", h->dir, file,
                           models.data)
                 : err_set(h->e, ERR_MISSING, "%s: %s not found", h->dir, file);
    buf_deinit(&all);
    buf_deinit(&models);
    return rc;
}

/* Parse a file of the folder, pass the object to `read`, and release the object. */
static int with_file(struct config_reader *h, const char *file, bool optional,
                     int (*read)(struct config_reader *h, const struct json *root))
{
    char path[4096];
    struct json *root;
    int rc = hf_path(path, sizeof path, h->dir, file, h->e);
    bool found = false;
    if (rc == 0) rc = file_find(&found, path, h->e);
    if (rc != 0) return rc;
    if (!found) return optional ? 0 : missing_file(h, file);
    rc = json_read_python(&root, path, FILE_BYTES_MAX, h->e);
    if (rc != 0) return rc;
    h->file = file;
    if (json_kind(root) != JK_OBJECT)
        rc = err_set(h->e, ERR_FORMAT, "%s: expected an object, got %s", path,
                     json_kind_name(json_kind(root)));
    if (rc == 0) rc = read(h, root);
    json_drop(root);
    return rc;
}

/* Read tokenizer_config.json, and special_tokens_map.json between its two groups of tokens. */
static int read_tokenizer(struct config_reader *h, const struct json *root)
{
    const char *file = h->file;
    int rc = read_templates(h, root);
    if (rc == 0) rc = hf_sentence_length(h->c, root, h->e);
    if (rc == 0) rc = hf_special_own(h, root);
    h->map_read = true;
    if (rc == 0 && !json_field(root, "added_tokens_decoder"))
        rc = with_file(h, "special_tokens_map.json", true, hf_special_map);
    h->file = file;
    return rc ? rc : hf_special_standard(h, root);
}

/* Return the class of a model of several parts; NULL if the model has one part. over: fields that
 * replace fields of the file; NULL if none. */
static const struct parts *kind_of_parts(const struct json *root, const struct json *over)
{
    const struct json *own = json_field(over, "model_type");
    const char *type = json_text(own ? own : json_field(root, "model_type"), NULL);
    return type ? parts_of(type) : NULL;
}

/* Set the object that describes the text part. */
static int find_text(struct config_reader *h)
{
    h->text = json_field(h->root, "text_config");
    if (!h->parts || json_kind(h->text) == JK_OBJECT) return 0;
    if (h->parts->which == PARTS_FLAT && !h->text) {
        h->text = h->root;
        return 0;
    }
    if (!h->text)
        return err_set(h->e, ERR_MISSING, "%s/config.json: text_config is missing", h->dir);
    return err_set(h->e, ERR_FORMAT, "%s/config.json: text_config: expected an object, got %s",
                   h->dir, json_kind_name(json_kind(h->text)));
}

/* Reject a head that is neither a language model's nor a classifier of whole texts, by the class of
 * `architectures`. */
static int check_head(const struct config_reader *h)
{
    static const char *const heads[] = {"ForTokenClassification", "ForQuestionAnswering",
                                        "ForMultipleChoice", "ForNextSentencePrediction",
                                        "NomicBertForSequenceClassification"};
    const struct json *list = json_field(h->root, "architectures");
    const char *name = json_text(json_item(list, 0), NULL);
    for (size_t i = 0; name && i < sizeof heads / sizeof heads[0]; i++)
        if (text_ends_with(name, heads[i]))
            return err_set(h->e, ERR_UNSUPPORTED,
                           "%s/config.json: architectures: the head of %.60s is not supported yet",
                           h->dir, name);
    return 0;
}

/* Read the object of config.json, into which --hf-overrides is already merged. Fields of
 * text_config have priority. */
static int read_merged(struct config_reader *h, const struct json *root)
{
    h->root = root;
    h->c->parts = h->parts;
    int rc = find_text(h);
    if (rc == 0) rc = read_arch(h);
    if (rc == 0) rc = check_head(h);
    if (rc == 0) rc = read_fields(h, h->text);
    if (rc == 0) rc = h->parts ? read_outer(h) : read_fields(h, root);
    if (rc == 0) rc = hf_read_rope(h);
    if (rc == 0) rc = read_quantization(h);
    if (rc == 0) rc = read_layers(h);
    if (rc == 0) rc = read_labels(h);
    if (rc == 0) rc = read_class_activation(h);
    if (rc == 0) rc = read_token_ids(h, h->text);
    if (rc == 0) rc = read_token_ids(h, root);
    return rc ? rc : read_class_pad(h);
}

static int read_config(struct config_reader *h, const struct json *root)
{
    struct json *merged;
    const struct json *over = h->c->changes ? h->c->changes->config : NULL;
    h->parts = kind_of_parts(root, over);
    if (!over) return read_merged(h, root);
    const bool apart = h->parts && json_field(root, "text_config");
    int rc = changes_merge(&merged, root, over, apart, h->e);
    if (rc == 0) rc = read_merged(h, merged);
    if (rc == 0) changes_mark(h->c, over);
    json_drop(merged);
    return rc;
}

/* Read the token ids of --hf-overrides, which have priority over the ids of the files. */
static int read_given_ids(struct config_reader *h)
{
    const struct json *over = h->c->changes ? h->c->changes->config : NULL;
    const int rc = read_token_ids(h, json_field(over, "text_config"));
    return rc ? rc : read_token_ids(h, over);
}

/* generation_config.json is read first, because its ids of end tokens have priority over the ids in
 * config.json. */
int hf_config_load(struct checkpoint *c, const char *dir, struct err *e)
{
    struct config_reader h = {.c = c, .e = e, .dir = dir, .file = "config.json"};
    int rc = read_given_ids(&h);
    if (rc == 0) rc = with_file(&h, "generation_config.json", true, read_generation);
    if (rc == 0) rc = with_file(&h, "quanto_qmap.json", true, hf_read_qmap);
    if (rc == 0) rc = with_file(&h, "config.json", false, read_config);
    if (rc == 0) rc = with_file(&h, "quantize_config.json", true, read_gptq);
    if (rc == 0) rc = with_file(&h, "quant_config.json", true, read_awq);
    if (rc == 0) rc = add_template_file(&h, dir, "chat_template.jinja", NULL);
    if (rc == 0) rc = add_template_folder(&h);
    if (rc == 0) rc = with_file(&h, "chat_template.json", true, read_templates);
    if (rc == 0) rc = with_file(&h, "tokenizer_config.json", true, read_tokenizer);
    if (rc == 0 && !h.map_read) rc = with_file(&h, "special_tokens_map.json", true, hf_special_map);
    return rc;
}
