/* changes.c - values of the caller in place of those of a checkpoint's files: --hf-overrides,
 * --rope-scaling, --rope-theta.
 *
 *   fields of config.json   merged into its object, which the reader then reads (changes_merge)
 *   parameters of rope      replaced by hf_rope.c, because their place depends on the file
 *
 * Fields of an inner configuration (text_config, HF_OBJECT) are merged. All other values are
 * replaced as a whole, because an object such as quantization_config has one meaning. A field at
 * the top level also replaces the field of that name in text_config. In a config of several parts,
 * such a field belongs to text_config, unless only the top level of the file has it. Values that
 * contradict each other are errors. */
#include "hf_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

static int parse_object(struct json **out, const char *text, const char *flag, struct err *e)
{
    int rc = json_parse(out, text, strlen(text), NULL, e);
    if (rc == 0 && json_kind(*out) != JK_OBJECT)
        rc = err_set(e, ERR_FORMAT, "expected an object, got %s", json_kind_name(json_kind(*out)));
    return rc ? err_prefix(e, rc, "%s", flag) : 0;
}

/* Return true if --hf-overrides has the field at its top level or in its text_config. */
static bool overrides(const struct changes *ch, const char *name)
{
    return json_field(ch->config, name) || json_field(json_field(ch->config, "text_config"), name);
}

static int contradiction(struct err *e, const char *flag, const char *field, const char *other)
{
    return err_set(e, ERR_ARG, "%s: must not come with %s in %s", flag, field, other);
}

/* Return true if the object, or one of its layer types, has a base. */
static bool has_base(const struct json *rope)
{
    return json_field(rope, "rope_theta") ||
           json_field(json_field(rope, "full_attention"), "rope_theta");
}

/* Reject flags that give two values for one parameter. */
static int check(const struct changes *ch, struct err *e)
{
    static const char *const object[] = {"rope_scaling", "rope_parameters",
                                         "original_max_position_embeddings"},
                             *const base[] = {"rope_theta", "rotary_emb_base"};
    for (size_t i = 0; i < 3 && ch->rope; i++)
        if (overrides(ch, object[i]))
            return contradiction(e, "--rope-scaling", object[i], "--hf-overrides");
    for (size_t i = 0; i < 2 && ch->rope_theta > 0; i++)
        if (overrides(ch, base[i]))
            return contradiction(e, "--rope-theta", base[i], "--hf-overrides");
    if (ch->rope_theta > 0 && has_base(ch->rope))
        return contradiction(e, "--rope-theta", "rope_theta", "--rope-scaling");
    for (size_t i = 0; i < 2 && ch->rope_theta > 0; i++)
        if (has_base(json_field(ch->config, object[i])) ||
            has_base(json_field(json_field(ch->config, "text_config"), object[i])))
            return contradiction(e, "--rope-theta", "rope_theta", "--hf-overrides");
    if (ch->rope && json_count(ch->rope) == 0)
        return err_field(e, ERR_FORMAT, "--rope-scaling", ": rope_type is missing");
    for (size_t i = 0; i < 4; i++) {
        const struct json *at = i < 2 ? ch->config : json_field(ch->config, "text_config"),
                          *v = json_field(at, object[i % 2]);
        if (v && json_kind(v) != JK_OBJECT && json_kind(v) != JK_NULL)
            return err_set(e, ERR_FORMAT, "--hf-overrides: %s: must be an object or null, got %s",
                           object[i % 2], json_kind_name(json_kind(v)));
    }
    if (overrides(ch, object[0]) && overrides(ch, object[1]))
        return err_field(e, ERR_ARG, "--hf-overrides",
                         ": rope_scaling must not come with rope_parameters");
    return 0;
}

int changes_open(struct changes *out, const struct checkpoint_changes *from, struct err *e)
{
    *out = (struct changes){.rope_adds = from->rope_adds, .rope_theta = from->rope_theta};
    int rc = from->config ? parse_object(&out->config, from->config, "--hf-overrides", e) : 0;
    if (rc == 0 && json_count(out->config) == 0) {
        json_drop(out->config);
        out->config = NULL;
    }
    if (rc == 0 && from->rope) rc = parse_object(&out->rope, from->rope, "--rope-scaling", e);
    return rc ? rc : check(out, e);
}

void changes_close(struct changes *ch)
{
    json_drop(ch->config);
    json_drop(ch->rope);
    *ch = (struct changes){0};
}

bool changes_any(const struct changes *ch)
{
    return ch->config || ch->rope || ch->rope_theta > 0;
}

/* ---- merging ---- */

static const char text_config[] = "text_config";

/* Return true for a field that another function merges. */
static bool is_apart(const char *name)
{
    return strcmp(name, "rope_scaling") == 0 || strcmp(name, "rope_parameters") == 0 ||
           strcmp(name, text_config) == 0;
}

static bool is_inner(const char *name)
{
    static const char *const inner[] = {
        "",
#define HF_OBJECT(field) field,
#include "hf_keys.def"
    };
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++)
        if (strcmp(inner[i], name) == 0) return true;
    return false;
}

static void put_name(struct buf *b, const char *name, size_t n)
{
    if (b->n && b->data[b->n - 1] != '{') buf_add_char(b, ',');
    json_put_text(b, name, n);
    buf_add_char(b, ':');
}

/* Append the members of `base` that neither `first` nor `second` has. */
static void put_rest(struct buf *b, const struct json *base, const struct json *first,
                     const struct json *second)
{
    for (void *it = json_first(base); it; it = json_next(base, it)) {
        size_t n;
        const char *name = json_it_key(it, &n);
        if (strcmp(name, text_config) == 0) continue;
        if (!is_apart(name) && (json_field_n(first, name, n) || json_field_n(second, name, n)))
            continue;
        put_name(b, name, n);
        json_put(b, json_it_value(it));
    }
}

/* The objects of config.json to which members of --hf-overrides may belong. */
struct config_place {
    const struct json *root, *text; /* objects of the file, borrowed; NULL if none */
    bool parts;                     /* true: text_config describes one of several parts */
};

/* Return true if a member at the top level of the overrides belongs to the top level of the file.
 * hf_rope.c reads the parameters of rope for the text model. */
static bool is_at_root(const struct config_place *at, const char *name)
{
    static const char *const of_rope[] = {"rope_theta", "partial_rotary_factor",
                                          "original_max_position_embeddings"};
    if (!at->parts || hf_is_outer(name) || strcmp(name, "model_type") == 0) return true;
    for (size_t i = 0; i < 3; i++)
        if (strcmp(of_rope[i], name) == 0) return false;
    return json_field(at->root, name) && !json_field(at->text, name);
}

/* Return true if a member at the top level of the overrides belongs to text_config. */
static bool is_in_text(const struct config_place *at, const char *name)
{
    return at->parts ? !is_at_root(at, name) : json_field(at->text, name) != NULL;
}

/* Append the members of `from` that `before` lacks. An object of HF_OBJECT also gets all other
 * members of that object in `base`. at: append only members for which belongs() is true; NULL:
 * append all members. */
static void put_given(struct buf *b, const struct json *from, const struct json *base,
                      const struct json *before, const struct config_place *at,
                      bool (*belongs)(const struct config_place *at, const char *name))
{
    for (void *it = json_first(from); it; it = json_next(from, it)) {
        size_t n;
        const char *name = json_it_key(it, &n);
        const struct json *v = json_it_value(it), *was = json_field_n(base, name, n);
        if (is_apart(name) || json_field_n(before, name, n) || (at && !belongs(at, name))) continue;
        put_name(b, name, n);
        if (is_inner(name) && json_kind(v) == JK_OBJECT && json_kind(was) == JK_OBJECT) {
            buf_add_char(b, '{');
            put_given(b, v, was, NULL, NULL, NULL);
            put_rest(b, was, v, NULL);
            buf_add_char(b, '}');
        } else
            json_put(b, v);
    }
}

/* Append text_config, if the file or the overrides have one. */
static void put_text_config(struct buf *b, const struct config_place *at, const struct json *over)
{
    const struct json *text = at->text, *own = json_field(over, text_config);
    if (!text && !own) return;
    put_name(b, text_config, strlen(text_config));
    if (json_kind(text) != JK_OBJECT || (own && json_kind(own) != JK_OBJECT)) {
        json_put(b, own ? own : text);
        return;
    }
    buf_add_char(b, '{');
    put_given(b, own, text, NULL, NULL, NULL);
    put_given(b, over, text, own, at, is_in_text);
    put_rest(b, text, own, over);
    buf_add_char(b, '}');
}

/* Reject a field that a newer field of the file overrides. */
static int check_older(const struct json *root, const struct json *over, struct err *e)
{
    static const struct name_pair older[] = {
        {"compression_config", "quantization_config"},
        {"sbert_ce_default_activation_function", "sentence_transformers"}};
    for (size_t i = 0; i < 2; i++)
        if (json_field(over, older[i].raw) && json_field(root, older[i].name))
            return err_field(e, ERR_ARG, "--hf-overrides",
                             ": %s has no effect; the file has the newer field %s", older[i].raw,
                             older[i].name);
    return 0;
}

/* Reject a field of text_config that has an effect only at the top level. */
static int check_outer(const struct json *text, struct err *e)
{
    for (void *it = json_first(text); it; it = json_next(text, it))
        if (hf_is_outer(json_it_key(it, NULL)))
            return err_field(e, ERR_ARG, "--hf-overrides",
                             ": text_config.%s has no effect; set the field at the top level",
                             json_it_key(it, NULL));
    return 0;
}

/* The caller's members precede the file's members, because the first field of a key has priority
 * (hf_config.c). */
int changes_merge(struct json **out, const struct json *root, const struct json *over, bool parts,
                  struct err *e)
{
    struct buf b = {0};
    const struct config_place at = {root, json_field(root, text_config), parts};
    *out = NULL;
    int rc = check_older(root, over, e);
    if (rc == 0 && parts) rc = check_outer(json_field(over, text_config), e);
    if (rc != 0) return rc;
    buf_add_char(&b, '{');
    put_given(&b, over, root, NULL, &at, is_at_root);
    put_text_config(&b, &at, over);
    put_rest(&b, root, over, NULL);
    buf_add_char(&b, '}');
    rc = b.failed ? err_memory(e, "config.json", b.n) : json_parse(out, b.data, b.n, NULL, e);
    buf_deinit(&b);
    return rc;
}

/* ---- marks ---- */

/* Mark the keys "config.PARENT.FIELD" of an object's fields; parent "": the keys "config.FIELD". A
 * key that is not in the metadata has no mark. */
static void mark_fields(struct checkpoint *c, const char *parent, const struct json *object)
{
    for (void *it = json_first(object); it; it = json_next(object, it)) {
        char key[256];
        const char *name = json_it_key(it, NULL);
        const int n = snprintf(key, sizeof key, "config.%s%s%s", parent, *parent ? "." : "", name);
        const uint32_t *i =
            n > 0 && (size_t)n < sizeof key ? strmap_get(&c->meta_by_key, key, (size_t)n) : NULL;
        if (i) c->meta.v[*i].given = "--hf-overrides";
        if (!*parent && is_inner(name)) mark_fields(c, name, json_it_value(it));
    }
}

void changes_mark(struct checkpoint *c, const struct json *object)
{
    mark_fields(c, "", json_field(object, text_config));
    mark_fields(c, "", object);
    mark_fields(c, "outer", object);
}
