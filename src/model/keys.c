/* keys.c - accepted metadata keys of a model file, and the check that no key is ignored.
 *
 * An architecture declares its keys in a table (hf_key and gguf_key of struct arch). keys.def
 * declares the common keys of all architectures. Reading a key marks the key as read. Only declared
 * keys can be read. After reading, config_check_keys checks every key of the file. Each key must be
 * marked as read, be declared as idle, or have its only accepted value. The error for any other key
 * contains its name. A value that quoth does not support is therefore an error, not a wrong answer.
 * A value of the caller (--hf-overrides) is rejected if it has no effect. */
#include "model_impl.h"

#include "base/log.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct config_key hf_shared[] = {
#define HF_IDLE(field, group)      {"config." field, KEY_IDLE, NAN, group},
#define HF_ROPE_IDLE(field, group) {"config.rope_parameters." field, KEY_IDLE, NAN, group},
#define HF_ONLY(field, value, why) {"config." field, KEY_ONLY, value, why},
#define HF_READ(key)               KEY_UNSET(key),
#include "keys.def"
    KEYS_END,
};

static const struct config_key gguf_shared[] = {
#define GGUF_READ(key)             KEY_UNSET(key),
#define GGUF_IDLE(key, group)      {key, KEY_IDLE, NAN, group},
#define GGUF_ONLY(key, value, why) {key, KEY_ONLY, value, why},
#include "keys.def"
    KEYS_END,
};

/* Return the row of a key in a list that ends with KEYS_END; NULL if none. */
static const struct config_key *row_in(const struct config_key *list, const char *key)
{
    for (; list && list->key; list++)
        if (strcmp(list->key, key) == 0) return list;
    return NULL;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Return the row of a field in an inner or outer configuration; NULL unless the field is idle in
 * every class. Inner and outer configurations have one common base class. */
static const struct config_key *inner_row(const char *key)
{
    static const char *const object[] = {
        "config.outer.",
#define HF_OBJECT(field) "config." field ".",
#include "format/hf_keys.def"
    };
    char outer[160];
    for (size_t i = 0; i < sizeof object / sizeof object[0]; i++) {
        if (!begins(key, object[i])) continue;
        snprintf(outer, sizeof outer, "config.%s", key + strlen(object[i]));
        const struct config_key *row = row_in(hf_shared, outer);
        return row && row->use == KEY_IDLE ? row : NULL;
    }
    return NULL;
}

/* Return true if the key is a parameter of the rope scaling. */
static bool is_scaling(const char *key)
{
    return begins(key, "config.rope_parameters") ||
           (begins(key, "rope.scaling.") && strcmp(key, "rope.scaling.finetuned") != 0);
}

/* Return true if a key has the meaning that it has in a config.json. The caller's parameters of
 * rope have this meaning for files of every kind. */
static bool is_hf_key(const struct binder *b, const char *key)
{
    return checkpoint_kind(b->checkpoint) == CKPT_HF ||
           (checkpoint_rope_given(b->checkpoint) && is_scaling(key));
}

/* Return the declaration of a key; NULL if none. */
static const struct config_key *row_of(const struct binder *b, const char *key)
{
    bool hf = is_hf_key(b, key);
    const struct config_key *own = hf ? parts_row(b, key) : NULL;
    if (own) return own;
    own = row_in(hf ? b->m->arch->hf_key : b->m->arch->gguf_key, key);
    if (!own) own = row_in(hf ? hf_shared : gguf_shared, key);
    if (!own && hf) own = parts_added_row(b, key);
    return own || !hf ? own : inner_row(key);
}

/* ---- names ---- */

/* Write the full key of the checkpoint. "config.FIELD" is unchanged; all other keys become
 * "ARCH.key". */
static void full_key(const struct binder *b, const char *key, char out[160])
{
    if (begins(key, "config."))
        snprintf(out, 160, "%s", key);
    else
        snprintf(out, 160, "%s.%s", b->prefix, key);
}

/* Return the flag that gave or removed the value of a key; NULL if a file gave the value. */
static const char *flag_of(const struct binder *b, const char *key)
{
    const struct checkpoint *c = b->checkpoint;
    char full[160];
    full_key(b, key, full);
    const struct meta *m = checkpoint_meta(c, full);
    for (int i = 0; m && i < checkpoint_n_meta(c); i++)
        if (checkpoint_meta_at(c, i, NULL) == m) return checkpoint_given(c, i);
    return !m && is_scaling(key) ? checkpoint_rope_given(c) : NULL;
}

/* Write a key with the spelling of its source, such as "config.json: num_hidden_layers", "metadata
 * llama.block_count" or "--rope-scaling: factor". */
static void file_key(const struct binder *b, const char *key, char out[160])
{
    static const struct name_pair field[] =
        {
#define HF_KEY(field, key) {field, key},
#include "format/hf_keys.def"
        },
                                  rope[] = {
#define HF_ROPE(field, key) {field, key},
#include "format/hf_keys.def"
                                  };
    static const struct {
        const char *arch, *raw, *key; /* static */
    } own[] = {
#define HF_KEY_OF(arch, field, key) {arch, field, key},
#include "format/hf_keys.def"
    };
    const char *flag = flag_of(b, key);
    const bool scaling = flag && strcmp(flag, "--rope-scaling") == 0;
    if (!is_hf_key(b, key)) {
        snprintf(out, 160, "%s %s.%s", flag ? flag : "metadata", b->prefix, key);
        return;
    }
    const char *from = flag ? flag : "config.json";
    const bool inner = begins(key, "config.inner."), outer = begins(key, "config.outer.");
    snprintf(out, 160, "%s: %s%s", from, inner ? "text_config." : "",
             inner || outer           ? key + 13
             : begins(key, "config.") ? key + 7
                                      : key);
    for (size_t i = sizeof rope / sizeof rope[0]; i-- > 0;)
        if (strcmp(rope[i].name, key) == 0)
            snprintf(out, 160, "%s: %s%s", from, scaling ? "" : "rope_parameters.", rope[i].raw);
    for (size_t i = sizeof field / sizeof field[0]; i-- > 0;)
        if (strcmp(field[i].name, key) == 0) snprintf(out, 160, "%s: %s", from, field[i].raw);
    for (size_t i = sizeof own / sizeof own[0]; i-- > 0;)
        if (strcmp(own[i].arch, b->m->arch->name) == 0 && strcmp(own[i].key, key) == 0)
            snprintf(out, 160, "%s: %s", from, own[i].raw);
    static const char object[] = "config.rope_parameters.";
    if (scaling && begins(key, object)) snprintf(out, 160, "%s: %s", from, key + strlen(object));
    if (scaling && strcmp(key, "rope.scaling.type") == 0) snprintf(out, 160, "%s: rope_type", from);
}

/* rc is ERR_FORMAT, ERR_MISSING or ERR_UNSUPPORTED. */
void config_refuse(struct binder *b, const char *key, int rc, const char *fmt, ...)
{
    char name[160], text[400];
    va_list args;
    if (b->rc != 0) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args); /* check: the format attribute is on the prototype */
    va_end(args);
    file_key(b, key, name);
    b->rc = err_set(b->e, rc, "%s: %s: %s", checkpoint_path(b->checkpoint), name, text);
    if (b->refusal) {
        full_key(b, key, b->refusal->key);
        snprintf(b->refusal->name, sizeof b->refusal->name, "%s", name);
        snprintf(b->refusal->why, sizeof b->refusal->why, "%s", text);
    }
}

const char *config_value_text(const struct meta *m, char out[80])
{
    const char *text = meta_text(m, NULL);
    switch (meta_kind(m)) {
    case META_NONE:
        return "null";
    case META_BOOL:
        return meta_bool(m, false) ? "true" : "false";
    case META_TEXT:
        snprintf(out, 80, "\"%.60s\"", text);
        return out;
    case META_LIST:
        snprintf(out, 80, "a list of %zu", meta_count(m));
        return out;
    case META_OBJECT:
        return "an object";
    default:
        snprintf(out, 80, "%.9g", meta_real(m, 0));
        return out;
    }
}

/* ---- reading ---- */

/* Idle keys and keys with one accepted value are not read. */
bool config_has(const struct binder *b, const char *key)
{
    const struct config_key *row = row_of(b, key);
    return row && row->use == KEY_READ;
}

const struct meta *config_meta(struct binder *b, const char *key)
{
    char full[160];
    if (!config_has(b, key)) return NULL;
    full_key(b, key, full);
    const struct meta *m = checkpoint_meta(b->checkpoint, full);
    for (int i = 0; m && b->read && i < checkpoint_n_meta(b->checkpoint); i++)
        if (checkpoint_meta_at(b->checkpoint, i, NULL) == m) b->read[i] = 1;
    return m;
}

/* Return the declared default of a key; NAN if none. */
static double absent(const struct binder *b, const char *key, const struct meta *m)
{
    const struct config_key *row = row_of(b, key);
    return row && !m ? row->value : NAN;
}

double config_default(const struct binder *b, const char *key)
{
    return absent(b, key, NULL);
}

/* Return the value of an integer key. Reject a boolean. The value of a null is the fallback. The
 * value of an absent key is the declared default, or the fallback if no default is declared.
 * ERR_MISSING if there is neither. */
int config_int(struct binder *b, const char *key, int64_t lo, int64_t hi, int64_t fallback)
{
    char text[80];
    if (b->rc != 0) return 0;
    const struct meta *m = config_meta(b, key);
    if (meta_kind(m) == META_NONE) {
        double declared = absent(b, key, m);
        if (!isnan(declared)) return (int)declared;
        if (fallback >= lo) return (int)fallback;
        config_refuse(b, key, ERR_MISSING, m ? "must be an integer, got null" : "is missing");
        return 0;
    }
    int64_t v = meta_kind(m) == META_BOOL ? INT64_MIN : meta_int(m, INT64_MIN);
    if (v >= lo && v <= hi) return (int)v;
    config_refuse(b, key, ERR_FORMAT, "must be %s [%lld, %lld], got %s",
                  v == INT64_MIN ? "an integer in" : "in", (long long)lo, (long long)hi,
                  config_value_text(m, text));
    return 0;
}

bool config_fits(double v)
{
    return v == 0 || (fabs(v) >= (double)FLT_MIN && fabs(v) <= (double)FLT_MAX);
}

/* Reject infinite values and NaN, and values beyond the normal numbers of float32: the model
 * computes in float32, where they or their reciprocals are infinite and give NaN. */
double config_real(struct binder *b, const char *key, double fallback)
{
    char text[80];
    const struct meta *m = config_meta(b, key);
    if (meta_kind(m) == META_NONE) {
        double declared = absent(b, key, m);
        return isnan(declared) ? fallback : declared;
    }
    double v = meta_real(m, NAN);
    if (config_fits(v)) return v;
    config_refuse(b, key, ERR_FORMAT,
                  isfinite(v) ? "must be 0 or a normal number of float32, got %s"
                              : "must be a number, got %s",
                  config_value_text(m, text));
    return 0;
}

/* Reject numbers, also 0 and 1 in a config.json. */
bool config_bool(struct binder *b, const char *key, bool fallback)
{
    char text[80];
    const struct meta *m = config_meta(b, key);
    if (meta_kind(m) == META_BOOL) return meta_bool(m, false);
    if (meta_kind(m) != META_NONE)
        config_refuse(b, key, ERR_FORMAT, "must be true or false, got %s",
                      config_value_text(m, text));
    double declared = absent(b, key, m);
    return isnan(declared) ? fallback : declared != 0;
}

void config_only_text(struct binder *b, const char *key, const char *value)
{
    char text[80];
    const struct meta *m = config_meta(b, key);
    if (meta_kind(m) != META_NONE && !config_is_text(m, value))
        config_refuse(b, key, ERR_UNSUPPORTED, "must be \"%s\", got %s", value,
                      config_value_text(m, text));
}

/* ---- the check ---- */

/* Return true if the value is the accepted value. null is always accepted, because most configs
 * have null for unused features. */
static bool has_only_value(const struct config_key *row, const struct meta *m)
{
    if (meta_kind(m) == META_NONE) return true;
    if (meta_kind(m) == META_BOOL) return meta_bool(m, false) == (row->value != 0);
    return meta_real(m, NAN) == row->value;
}

/* Return the fate of a key that was not read, "ARCH.key" or "config.FIELD". Write the reason to
 * `why`. */
static enum fate judge_left(const struct binder *b, const char *key, const struct meta *m,
                            char why[WHY_BYTES])
{
    char text[80];
    const char *name = b->m->arch->name, *value = config_value_text(m, text);
    const struct config_key *row = row_of(b, key);
    bool top = begins(key, "config.") && !strchr(key + 7, '.');
    if (row && row->use == KEY_IDLE) {
        snprintf(why, WHY_BYTES, "%s", row->why);
        return FATE_IDLE;
    }
    if (row && (row->use == KEY_ONLY || row->use == KEY_MUST)) {
        const bool good = has_only_value(row, m);
        if (good)
            snprintf(why, WHY_BYTES, "must be %g: %s", row->value, row->why);
        else
            snprintf(why, WHY_BYTES, "must be %g, got %s: %s", row->value, value, row->why);
        return good ? FATE_CHECKED : FATE_REFUSED;
    }
    if (strcmp(key, "config.text_config") == 0)
        snprintf(why, WHY_BYTES, "a model of several parts with a %s: not supported yet", name);
    else if (strcmp(key, "config.per_layer_config") == 0 && meta_kind(m) != META_NONE)
        snprintf(why, WHY_BYTES, "layers of different shapes are not supported yet");
    else if (begins(key, "config.per_layer_config."))
        snprintf(why, WHY_BYTES, "not supported yet for single layers");
    else if (!top && checkpoint_kind(b->checkpoint) != CKPT_HF)
        snprintf(why, WHY_BYTES, "not supported yet in architecture %s, got %s", name, value);
    else if (begins(key, "config.rope_parameters.") && !b->m->arch->no_rope)
        snprintf(why, WHY_BYTES, "rope parameter not supported yet, got %s", value);
    else if (flag_of(b, key))
        snprintf(why, WHY_BYTES, "architecture %s has no such field, got %s", name, value);
    else {
        snprintf(why, WHY_BYTES, "architecture %s has no such field", name);
        return meta_kind(m) == META_NONE ? FATE_IDLE : FATE_UNKNOWN;
    }
    return FATE_REFUSED;
}

/* Return the fate of a key that belongs to no architecture, such as tokenizer.*. */
static enum fate judge_other(const char *key, char why[WHY_BYTES])
{
    static const struct {
        const char *prefix, *reader; /* static */
        enum fate fate;
    } group[] = {
#define GGUF_GROUP(prefix, reader)         {prefix, reader, FATE_USED},
#define GGUF_IDLE_GROUP(prefix, reason)    {prefix, reason, FATE_IDLE},
#define GGUF_UNKNOWN_GROUP(prefix, reason) {prefix, reason, FATE_UNKNOWN},
#include "keys.def"
    };
    for (size_t i = 0; i < sizeof group / sizeof group[0]; i++)
        if (begins(key, group[i].prefix)) {
            snprintf(why, WHY_BYTES, "%s", group[i].reader);
            return group[i].fate;
        }
    snprintf(why, WHY_BYTES, "quoth has no reader for this key");
    return FATE_UNKNOWN;
}

/* Write the part of the model that uses a key. */
static void put_use(const struct binder *b, const char *key, char why[WHY_BYTES])
{
    static const struct {
        const char *begin, *part; /* static */
    } use[] = {
#define USE(begin, part) {begin, part},
#include "uses.def"
    };
    if (begins(key, "config.")) key += 7;
    for (size_t i = 0; i < sizeof use / sizeof use[0]; i++)
        if (begins(key, use[i].begin)) {
            snprintf(why, WHY_BYTES, "%s", use[i].part);
            return;
        }
    snprintf(why, WHY_BYTES, "configuration of architecture %s", b->m->arch->name);
}

/* Return the part of a key after "ARCH."; the whole key if the key has another prefix. */
static const char *own_part(const struct binder *b, const char *full)
{
    const size_t n = strlen(b->prefix);
    return begins(full, b->prefix) && full[n] == '.' ? full + n + 1 : full;
}

/* After a failure of the config, all keys that the architecture reads count as used, because some
 * may not be read yet. */
enum fate config_judge(const struct binder *b, int i, char why[WHY_BYTES])
{
    const char *full;
    const struct meta *m = checkpoint_meta_at(b->checkpoint, i, &full);
    const char *key = own_part(b, full);
    if (key == full && !begins(full, "config.")) return judge_other(full, why);
    if (!b->read[i] && !begins(full, "config.quantization_config") &&
        !(b->rc != 0 && config_has(b, key)))
        return judge_left(b, key, m, why);
    put_use(b, key, why);
    return FATE_USED;
}

/* Return the field of generation_config.json of a key "generation.GROUP.FIELD"; NULL for another
 * key. */
static const char *setting_of(const char *full)
{
    static const char *const groups[] = {"generation.greedy.", "generation.idle.",
                                         "generation.unused.", "generation.unknown."};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (begins(full, groups[i])) return full + strlen(groups[i]);
    return strcmp(full, "generation.do_sample") == 0 ? "do_sample" : NULL;
}

void config_key_name(const struct binder *b, const char *full, char name[160])
{
    static const struct name_pair other[] = {
        {"model_type", "general.architecture"},
        {"eos_token_id", "tokenizer.ggml.eos_token_ids"},
        {"bos_token_id", "tokenizer.ggml.bos_token_id"},
        {"pad_token_id", "tokenizer.ggml.padding_token_id"},
#define GENERATION(field, key, kind)          {"generation_config.json: " field, key},
#define GENERATION_SAMPLING(field, key, kind) {"generation_config.json: " field, key},
#include "format/generation.def"
    };
    const char *key = own_part(b, full), *setting = setting_of(full);
    snprintf(name, 160, "%s", full);
    if (setting && config_is_hf(b)) {
        snprintf(name, 160, "generation_config.json: %s", setting);
        return;
    }
    if (config_is_hf(b) && strcmp(key, "rope.scaling.type") == 0)
        snprintf(name, 160, "rope_parameters.rope_type");
    else if (key != full || begins(full, "config.")) {
        file_key(b, key, name);
        static const char *const from[] = {"config.json: ", "metadata "};
        for (size_t i = 0; i < 2; i++)
            if (begins(name, from[i]))
                memmove(name, name + strlen(from[i]), strlen(name + strlen(from[i])) + 1);
    } else
        for (size_t i = 0; i < sizeof other / sizeof other[0] && config_is_hf(b); i++)
            if (strcmp(other[i].name, full) == 0) snprintf(name, 160, "%s", other[i].raw);
}

/* Names of keys for one line of the log. */
struct key_list {
    char text[600];
    int n;
};

static void list_key(struct key_list *l, const char *name)
{
    const size_t at = strlen(l->text);
    snprintf(l->text + at, sizeof l->text - at, "%s%s", l->n++ ? ", " : "", name);
}

/* Log the unknown keys, in one line for all keys of a file, so that the log is short. */
static void warn_of(const struct binder *b, const struct key_list *keys,
                    const struct key_list *settings)
{
    const char *path = checkpoint_path(b->checkpoint);
    if (keys->n > 0)
        log_warn("%s: ignored unknown %s: %s", path,
                 config_is_hf(b) ? "fields of config.json" : "metadata keys", keys->text);
    if (settings->n > 0)
        log_warn("%s: not used in generation_config.json: %s", path, settings->text);
}

/* Reject a GGUF without a key that the architecture requires (KEY_MUST). */
static void check_absent(struct binder *b)
{
    const struct config_key *row = b->m->arch->gguf_key;
    char full[160];
    for (; row && row->key && !config_is_hf(b); row++) {
        full_key(b, row->key, full);
        if (row->use == KEY_MUST && !checkpoint_meta(b->checkpoint, full))
            config_refuse(b, row->key, ERR_MISSING, "is missing");
    }
}

/* Reject unread keys of the architecture in a GGUF. Log one warning with all unknown fields of a
 * config.json and all unknown groups of keys. Binding that lists random weights logs nothing,
 * because the model is bound again. */
void config_check_keys(struct binder *b)
{
    char name[160], why[WHY_BYTES];
    struct key_list keys = {0}, settings = {0};
    form_read(b);
    check_absent(b);
    for (int i = 0; i < checkpoint_n_meta(b->checkpoint) && b->rc == 0; i++) {
        const char *full;
        checkpoint_meta_at(b->checkpoint, i, &full);
        const enum fate fate = config_judge(b, i, why);
        if (fate == FATE_REFUSED) config_refuse(b, own_part(b, full), ERR_UNSUPPORTED, "%s", why);
        if (fate != FATE_UNKNOWN) continue;
        config_key_name(b, full, name);
        if (config_is_hf(b) && setting_of(full))
            list_key(&settings, setting_of(full));
        else
            list_key(&keys, name);
    }
    if (b->rc == 0 && !b->maker) warn_of(b, &keys, &settings);
}
