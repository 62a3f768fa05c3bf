/* hf_rope.c - parameters of rope -> metadata. The parameters come from a config.json or from the
 * caller (--rope-scaling, --rope-theta, --hf-overrides). The caller's parameters replace the
 * parameters of any file.
 *
 *   older files      rope_theta and partial_rotary_factor at the top level, rope_scaling {type ...}
 *   transformers 5   rope_parameters {rope_theta, rope_type, factor ...}, or one per layer type
 *   the caller       an object of one of these forms
 *
 * A scaling is replaced completely, because its parameters have no meaning for another type of
 * scaling. The file's parameters outside of the scaling remain (kept_fields). The caller's object
 * always gets the keys of a config.json, also for a GGUF, so its meaning does not depend on the
 * file. */
#include "hf_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct own_name own_rope[] = {
#define HF_ROPE_OF(arch, field, parameter) {arch, field, parameter},
#include "hf_keys.def"
};
enum { N_OWN_ROPE = sizeof own_rope / sizeof own_rope[0] };

static const char context_key[] = "rope.scaling.original_context_length";

bool hf_is_rope_field(const struct config_reader *h, const char *name)
{
    for (size_t i = 0; i < N_OWN_ROPE; i++)
        if (strcmp(own_rope[i].arch, h->arch) == 0 && strcmp(own_rope[i].raw, name) == 0)
            return true;
    return false;
}

/* The rules of HF_ROPE_RULE. */
enum rope_rule { ROPE_nested, ROPE_each, ROPE_outside };

/* Return true if the class has the rule for the field; "" for a rule without a field. */
static bool has_rule(const struct config_reader *h, enum rope_rule rule, const char *field)
{
    static const struct {
        const char *arch, *field; /* static */
        enum rope_rule rule;
    } rules[] = {
#define HF_ROPE_RULE(arch, rule, field) {arch, field, ROPE_##rule},
#include "hf_keys.def"
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].rule == rule && strcmp(rules[i].arch, h->arch) == 0 &&
            strcmp(rules[i].field, field) == 0)
            return true;
    return false;
}

/* ---- objects of parameters ---- */

/* Return the rope parameters of config.json. A non-empty rope_scaling overrides rope_parameters. */
static const struct json *rope_object(const struct config_reader *h)
{
    const struct json *scaling = hf_field(h, "rope_scaling"), *p = hf_field(h, "rope_parameters");
    if (json_kind(scaling) == JK_OBJECT && json_count(scaling) > 0) return scaling;
    return json_kind(p) == JK_OBJECT ? p : NULL;
}

/* Return the parameters of layers that attend to all positions. */
static const struct json *main_object(const struct json *p)
{
    const struct json *full = json_field(p, "full_attention");
    return json_kind(full) == JK_OBJECT ? full : p;
}

/* Return the field with the type of the scaling. Older files name this field "type". */
static const struct json *type_field(const struct json *p)
{
    const struct json *type = json_field(p, "rope_type");
    return type ? type : json_field(p, "type");
}

/* Return the first field of p that belongs to a scaling; NULL if none. */
static const char *scaling_field(const struct json *p)
{
    static const char *const scaling[] = {"factor", "low_freq_factor", "short_factor",
                                          "long_factor"};
    for (size_t i = 0; i < sizeof scaling / sizeof scaling[0]; i++) {
        const struct json *v = json_field(p, scaling[i]);
        if (v && json_kind(v) != JK_NULL) return scaling[i];
    }
    return NULL;
}

/* Set an error at a field of the parameters. h->file is a file, or the flag that gave them. */
static int refuse_rope(struct config_reader *h, const char *field, const char *why,
                       const char *what)
{
    const char *flag = h->c->giving;
    return err_set(h->e, ERR_FORMAT, "%s%s%s: %s: %s%s", flag ? "" : h->dir, flag ? "" : "/",
                   flag ? flag : h->file, field, why, what);
}

/* Add the type of the rope scaling. The type "default" means no scaling, so no key is added. A
 * scaling without a type is an error: transformers ignores its parameters. */
static int read_rope_type(struct config_reader *h, const struct json *p)
{
    const struct json *type = type_field(p);
    const char *scaling = scaling_field(p);
    if ((!type || json_kind(type) == JK_NULL) && scaling)
        return refuse_rope(h, "rope_type", "is missing next to ", scaling);
    const char *name = json_text(type, NULL);
    bool plain = name && strcmp(name, "default") == 0;
    return plain ? 0 : hf_add_arch(h, "rope.scaling.type", "rope_type", type);
}

/* Add a rope parameter, by the key of hf_keys.def. A parameter without a row keeps its name, so
 * that model/keys.def must list it. */
static int add_rope(struct config_reader *h, const char *name, const struct json *v)
{
    static const struct name_pair key[] = {
#define HF_ROPE(field, key) {field, key},
#include "hf_keys.def"
    };
    bool named = false;
    if (has_rule(h, ROPE_outside, name) && !h->c->giving)
        return hf_add_other(h, "rope_parameters", name, v);
    int rc = hf_add_named(h, key, sizeof key / sizeof key[0], name, v, &named);
    return named || rc != 0 ? rc : hf_add_other(h, "rope_parameters", name, v);
}

/* Add all fields of one object of rope parameters. */
static int read_rope_fields(struct config_reader *h, const struct json *p)
{
    int rc = read_rope_type(h, p);
    for (void *it = json_first(p); it && rc == 0; it = json_next(p, it)) {
        const char *name = json_it_key(it, NULL);
        if (strcmp(name, "rope_type") != 0 && strcmp(name, "type") != 0)
            rc = add_rope(h, name, json_it_value(it));
    }
    return rc;
}

/* Add the parameters of windowed layers, with their layer type as a prefix. */
static int read_local(struct config_reader *h, const struct json *local)
{
    int rc = 0;
    for (void *it = json_first(local); it && rc == 0; it = json_next(local, it))
        rc = hf_add_other(h, "rope_parameters.sliding_attention", json_it_key(it, NULL),
                          json_it_value(it));
    return rc;
}

/* Return true if p has objects per layer type and also other parameters. */
static bool is_mixed(const struct json *p)
{
    bool mixed = false;
    for (void *it = json_first(p); it; it = json_next(p, it))
        mixed |= json_kind(json_it_value(it)) != JK_OBJECT;
    return mixed && main_object(p) != p;
}

/* Check parameters that the class gives to types of layers. The class ignores a type with the name
 * of older files, and objects per layer type. */
static int check_scaling(struct config_reader *h, const struct json *p)
{
    if (json_field(p, "type") && !json_field(p, "rope_type"))
        return refuse_rope(h, "rope_type", "is missing next to ", "type");
    for (void *it = json_first(p); it; it = json_next(p, it))
        if (json_kind(json_it_value(it)) == JK_OBJECT)
            return refuse_rope(h, "rope_scaling", "must not have the object ",
                               json_it_key(it, NULL));
    return 0;
}

/* Add the parameters of rope_scaling in a class that gives them to every type of layer. scales: the
 * model has the scaling of p, not only its base. */
static int read_each(struct config_reader *h, const struct json *p, bool scales)
{
    const struct json *base = json_field(p, "rope_theta");
    int rc = check_scaling(h, p);
    if (rc == 0 && scales) rc = hf_add_bare(h, "config.rope_parameters.each", VT_OBJECT);
    return rc == 0 && base
               ? hf_add_other(h, "rope_parameters.sliding_attention", "rope_theta", base)
               : rc;
}

/* Check the parameters of a file of a class with an object per layer type. The class adds
 * rope_scaling to objects of rope_parameters, and ignores other fields of rope_parameters. scales:
 * the file has a rope_scaling. */
static int check_nested(struct config_reader *h, bool scales)
{
    const struct json *p = hf_field(h, "rope_parameters");
    if (scales && json_kind(p) == JK_OBJECT)
        return refuse_rope(h, "rope_scaling", "must not come with ", "rope_parameters");
    for (void *it = json_first(p); it; it = json_next(p, it))
        if (json_kind(json_it_value(it)) != JK_OBJECT)
            return refuse_rope(h, "rope_parameters",
                               "must have the objects full_attention and sliding_attention, got ",
                               json_it_key(it, NULL));
    return scales ? check_scaling(h, hf_field(h, "rope_scaling")) : 0;
}

/* Add all parameters of an object. With one object per layer type, the fields of full_attention are
 * the main parameters. */
static int read_object(struct config_reader *h, const struct json *p)
{
    int rc = main_object(p) != p ? read_rope_fields(h, main_object(p)) : 0;
    if (rc == 0 && is_mixed(p)) rc = hf_add_bare(h, "config.rope_parameters.mixed", VT_OBJECT);
    if (rc == 0) rc = read_local(h, json_field(p, "sliding_attention"));
    return rc ? rc : read_rope_fields(h, p);
}

static bool has_type(const struct json *p, const char *type)
{
    const char *own = json_text(type_field(main_object(p)), NULL);
    return own && strcmp(own, type) == 0;
}

/* Return true if the field belongs to the scaling of p, and the type of `given` differs from the
 * type of p. */
static bool is_replaced(const char *field, const struct json *p, const struct json *given)
{
    static const struct {
        const char *field, *type; /* static */
    } with[] = {
#define HF_ROPE_WITH(field, type) {field, type},
#include "hf_keys.def"
    };
    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++)
        if (strcmp(with[i].field, field) == 0 && has_type(p, with[i].type))
            return !has_type(given, with[i].type);
    return false;
}

/* Add the parameters that remain if `given` replaces the scaling of p. */
static int read_kept(struct config_reader *h, const struct json *p, const struct json *given)
{
    static const char *const kept_fields[] = {"rope_theta", "partial_rotary_factor",
                                              "llama_4_scaling_beta"};
    const struct json *own = main_object(p), *sliding = json_field(p, "sliding_attention"),
                      *base = json_field(sliding, "rope_theta");
    const bool local = !json_field(given, "sliding_attention");
    int rc = 0;
    for (size_t i = 0; i < sizeof kept_fields / sizeof kept_fields[0] && rc == 0; i++) {
        const struct json *v = json_field(own, kept_fields[i]);
        if (!v) v = json_field(p, kept_fields[i]);
        if (v && !is_replaced(kept_fields[i], p, given)) rc = add_rope(h, kept_fields[i], v);
    }
    if (rc == 0 && local) return read_local(h, sliding);
    return rc == 0 && base
               ? hf_add_other(h, "rope_parameters.sliding_attention", "rope_theta", base)
               : rc;
}

/* Add the base and the partial factor at the top level of an object, if their keys have no value
 * yet. A class may have its own names for these fields. */
static int read_top(struct config_reader *h, const struct json *object)
{
    static const char *const usual[] = {"rope_theta", "partial_rotary_factor"};
    bool own = false;
    int rc = 0;
    for (size_t i = 0; i < N_OWN_ROPE && rc == 0; i++) {
        const struct json *v = json_field(object, own_rope[i].raw);
        if (strcmp(own_rope[i].arch, h->arch) != 0) continue;
        own = true;
        if (v) rc = add_rope(h, own_rope[i].name, v);
    }
    for (size_t i = 0; i < 2 && !own && rc == 0; i++)
        if (json_field(object, usual[i])) rc = add_rope(h, usual[i], json_field(object, usual[i]));
    return rc;
}

/* ---- parameters of the caller ---- */

/* Return the caller's value in place of rope_scaling, an object or null; NULL if none. Set *flag to
 * the flag that gave the value. */
static const struct json *given_object(const struct changes *ch, const char **flag)
{
    static const char *const name[] = {"rope_scaling", "rope_parameters"};
    *flag = "--rope-scaling";
    if (!ch || ch->rope) return ch ? ch->rope : NULL;
    *flag = "--hf-overrides";
    const struct json *v = NULL;
    for (size_t i = 0; i < 2 && !v; i++) v = json_field(ch->config, name[i]);
    for (size_t i = 0; i < 2 && !v; i++)
        v = json_field(json_field(ch->config, "text_config"), name[i]);
    return v;
}

/* Return one common name for all names of a type of scaling. */
static const char *type_name(const char *type)
{
    if (!type || strcmp(type, "none") == 0) return "default";
    return strcmp(type, "su") == 0 ? "longrope" : type;
}

/* Return true if the caller's scaling has the type of the file's scaling. file: type of the file's
 * scaling; NULL if none. */
static bool same_type(const struct json *given, const char *file)
{
    return strcmp(type_name(json_text(type_field(main_object(given)), NULL)), type_name(file)) == 0;
}

/* Add the base of --rope-theta. */
static int read_base(struct config_reader *h, double base)
{
    char key[HF_KEY_BYTES_MAX];
    snprintf(key, sizeof key, "%s.rope.freq_base", h->arch);
    h->c->giving = "--rope-theta";
    int rc = checkpoint_add_real(h->c, key, base, h->e);
    h->c->giving = NULL;
    return rc;
}

/* Add the rope fields of --hf-overrides that are outside of the object of parameters. */
static int read_given_top(struct config_reader *h, const struct json *over)
{
    const struct json *text = json_field(over, "text_config"),
                      *context = json_field(text, "original_max_position_embeddings");
    if (!context) context = json_field(over, "original_max_position_embeddings");
    h->c->giving = "--hf-overrides";
    int rc = read_top(h, text);
    if (rc == 0) rc = read_top(h, over);
    if (rc == 0 && context)
        rc = hf_add_arch(h, context_key, "original_max_position_embeddings", context);
    h->c->giving = NULL;
    return rc;
}

/* Add the caller's object of parameters. */
static int read_given(struct config_reader *h, const struct json *given, const char *flag)
{
    const char *file = h->file;
    const bool each = has_rule(h, ROPE_each, "") && !json_field(given, "full_attention") &&
                      !json_field(given, "sliding_attention");
    h->file = h->c->giving = h->c->rope_given = flag;
    int rc = each ? read_each(h, given, true) : 0;
    if (rc == 0) rc = read_object(h, given);
    h->c->giving = NULL;
    h->file = file;
    return rc;
}

/* Check that the value of a field is an object, or null. */
static int check_object(struct config_reader *h, const char *field, const struct json *v)
{
    if (!v || json_kind(v) == JK_OBJECT || json_kind(v) == JK_NULL) return 0;
    return refuse_rope(h, field, "must be an object or null, got ", json_kind_name(json_kind(v)));
}

/* Check that the parameters of the file, and those of its types of layers, are objects, or null. */
static int check_objects(struct config_reader *h)
{
    static const char *const name[] = {"rope_scaling", "rope_parameters"}, *const layer[] = {
                                                                               "full_attention",
                                                                               "sliding_attention"};
    int rc = 0;
    for (size_t i = 0; i < 2 && rc == 0; i++) {
        const struct json *v = hf_field(h, name[i]);
        rc = check_object(h, name[i], v);
        for (size_t k = 0; k < 2 && rc == 0; k++) {
            char field[60];
            snprintf(field, sizeof field, "%s.%s", name[i], layer[k]);
            rc = check_object(h, field, json_field(v, layer[k]));
        }
    }
    return rc;
}

/* A context at the top level overrides the context in the object. In transformers, the context at
 * the top level has no effect on objects per layer type. */
int hf_read_rope(struct config_reader *h)
{
    const bool nested = has_rule(h, ROPE_nested, ""),
               scales = nested && rope_object(h) && rope_object(h) == hf_field(h, "rope_scaling");
    int wrong = check_objects(h);
    if (wrong == 0 && nested) wrong = check_nested(h, scales);
    if (wrong != 0) return wrong;
    const struct changes *ch = h->c->changes;
    const char *flag, *type;
    const struct json *p = rope_object(h),
                      *context = hf_field(h, "original_max_position_embeddings"),
                      *given = given_object(ch, &flag);
    int rc = ch && ch->rope_theta > 0 ? read_base(h, ch->rope_theta) : 0;
    type = json_text(type_field(main_object(p)), NULL);
    const bool same = given && ch->rope_adds && same_type(given, type);
    /* the file's scaling has the given type, and the caller gives no parameter */
    if (same && json_count(given) == 1) given = NULL;
    if (rc == 0 && ch) rc = read_given_top(h, ch->config);
    if (rc == 0 && given) rc = read_given(h, given, flag);
    if (rc == 0 && (p || given)) rc = hf_add_bare(h, "config.rope_parameters", VT_OBJECT);
    if (rc == 0 && context && main_object(p) == p && !nested)
        rc = hf_add_arch(h, context_key, "original_max_position_embeddings", context);
    else if (rc == 0 && context)
        rc = hf_add_bare(h, "config.original_max_position_embeddings", VT_OBJECT);
    if (rc == 0 && scales && has_rule(h, ROPE_each, "")) rc = read_each(h, p, !given || same);
    if (rc == 0 && given && !same)
        rc = read_kept(h, p, given);
    else if (rc == 0)
        rc = read_object(h, p);
    if (rc == 0) rc = read_top(h, h->text);
    return rc || h->parts ? rc : read_top(h, h->root);
}

/* ---- files with GGUF's keys ---- */

/* Return true if the key after "ARCH." belongs to the scaling. */
static bool is_scaling_key(const char *key)
{
    if (strcmp(key, "rope.scale_linear") == 0) return true;
    return strncmp(key, "rope.scaling.", 13) == 0 && strcmp(key, "rope.scaling.finetuned") != 0;
}

/* Return true for a key with one meaning in config.json and GGUF. */
static bool is_common_key(const char *key)
{
    static const char *const common[] = {"type", "factor", "original_context_length",
                                         "yarn_beta_fast", "yarn_beta_slow"};
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++)
        if (strncmp(key, "rope.scaling.", 13) == 0 && strcmp(key + 13, common[i]) == 0) return true;
    return false;
}

/* Rebuild the list of metadata without the keys after "ARCH." for which drop() is true. Set *old to
 * the removed entries, which the caller frees. */
static int remove_keys(struct checkpoint *c, const char *arch, bool (*drop)(const char *key),
                       struct meta_list *old, struct err *e)
{
    struct meta_list all = c->meta;
    const size_t n_arch = strlen(arch);
    c->meta = (struct meta_list){0};
    strmap_deinit(&c->meta_by_key);
    c->meta_by_key = (struct strmap){0};
    int rc = 0;
    for (size_t i = 0; i < all.n && rc == 0; i++) {
        const struct meta_entry *m = &all.v[i];
        const bool own = strncmp(m->key, arch, n_arch) == 0 && m->key[n_arch] == '.';
        if (own && drop(m->key + n_arch + 1)) {
            if (!vec_push(old, *m)) rc = err_memory(e, "the metadata", sizeof *m);
            continue;
        }
        rc = checkpoint_add_meta(c, m->key, &m->value, e);
        if (rc == 0) c->meta.v[c->meta.n - 1].given = m->given;
    }
    vec_deinit(&all);
    return rc;
}

/* Add the removed keys that the caller's object lacks again. A key is rejected if a config.json
 * cannot express its meaning. */
static int add_rest(struct config_reader *h, const struct meta_list *old, const char *flag)
{
    const size_t n = strlen(h->arch) + 1;
    int rc = 0;
    for (size_t i = 0; i < old->n && rc == 0; i++) {
        const struct meta_entry *m = &old->v[i];
        if (!is_common_key(m->key + n))
            return err_set(h->e, ERR_UNSUPPORTED,
                           "%s: must not come with the key %s of %s: not supported yet", flag,
                           m->key, h->c->path);
        if (!checkpoint_meta(h->c, m->key)) rc = checkpoint_add_meta(h->c, m->key, &m->value, h->e);
    }
    return rc;
}

static bool is_base_key(const char *key)
{
    return strcmp(key, "rope.freq_base") == 0;
}

int hf_replace_rope(struct checkpoint *c, struct err *e)
{
    char key[HF_KEY_BYTES_MAX];
    const char *flag, *arch = checkpoint_arch(c);
    const struct changes *ch = c->changes;
    const struct json *given = given_object(ch, &flag);
    struct meta_list scaling = {0}, base = {0};
    struct config_reader h = {.c = c, .e = e, .dir = c->path, .file = flag, .arch = arch};
    if (!arch)
        return err_set(e, ERR_UNSUPPORTED, "%s: requires a model with metadata, got %s",
                       given ? flag : "--rope-theta", c->path);
    snprintf(key, sizeof key, "%.100s.rope.scaling.type", arch);
    const struct meta *type = checkpoint_meta(c, key);
    /* a file without a type can have divisors, which any scaling of the caller replaces */
    const bool same = given && ch->rope_adds && type && same_type(given, meta_text(type, NULL));
    /* the file's scaling has the given type, and the caller gives no parameter */
    if (same && json_count(given) == 1) given = NULL;
    int rc = given ? remove_keys(c, arch, is_scaling_key, &scaling, e) : 0;
    if (rc == 0 && given) rc = read_given(&h, given, flag);
    if (rc == 0 && same) rc = add_rest(&h, &scaling, flag);
    if (rc == 0 && ch->rope_theta > 0) rc = remove_keys(c, arch, is_base_key, &base, e);
    if (rc == 0 && ch->rope_theta > 0) rc = read_base(&h, ch->rope_theta);
    vec_deinit(&scaling);
    vec_deinit(&base);
    return rc;
}
