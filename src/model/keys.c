/* keys.c - accepted metadata keys of a model file, and the check that none is ignored.
 *
 * An architecture declares its keys in a table (struct arch, hf_key and gguf_key), keys.def those
 * of all. Reading a key marks it; a key that is not declared cannot be read. After reading,
 * config_check_keys visits every key of the file. It rejects, by name, a key that was not read, is
 * not known to be idle and does not have its only accepted value. An unknown value therefore never
 * changes an answer silently. */
#include "model_impl.h"

#include "base/log.h"

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

static const struct config_key *row_in(const struct config_key *list, const char *key)
{
    for (; list && list->key; list++)
        if (strcmp(list->key, key) == 0) return list;
    return NULL;
}

/* Return the declaration of a key; NULL if none. */
static const struct config_key *row_of(const struct binder *b, const char *key)
{
    bool hf = checkpoint_kind(b->checkpoint) == CKPT_HF;
    const struct config_key *own = row_in(hf ? b->m->arch->hf_key : b->m->arch->gguf_key, key);
    return own ? own : row_in(hf ? hf_shared : gguf_shared, key);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* ---- names ---- */

static void full_key(const struct binder *b, const char *key, char out[160])
{
    if (begins(key, "config."))
        snprintf(out, 160, "%s", key);
    else
        snprintf(out, 160, "%s.%s", b->prefix, key);
}

/* Write a key as the file spells it: "config.json: num_hidden_layers", "metadata
 * llama.block_count". */
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
    bool hf = checkpoint_kind(b->checkpoint) == CKPT_HF;
    if (!hf) {
        snprintf(out, 160, "metadata %s.%s", b->prefix, key);
        return;
    }
    snprintf(out, 160, "config.json: %s", begins(key, "config.") ? key + 7 : key);
    for (size_t i = sizeof rope / sizeof rope[0]; i-- > 0;)
        if (strcmp(rope[i].name, key) == 0)
            snprintf(out, 160, "config.json: rope_parameters.%s", rope[i].raw);
    for (size_t i = sizeof field / sizeof field[0]; i-- > 0;)
        if (strcmp(field[i].name, key) == 0) snprintf(out, 160, "config.json: %s", field[i].raw);
}

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
}

/* Return a value as text for an error message. */
static const char *value_text(const struct meta *m, char out[80])
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
        return "a list";
    case META_OBJECT:
        return "an object";
    default:
        snprintf(out, 80, "%.9g", meta_real(m, 0));
        return out;
    }
}

/* ---- reading ---- */

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

/* Return the value of an absent key, or NAN. */
static double absent(const struct binder *b, const char *key, const struct meta *m)
{
    const struct config_key *row = row_of(b, key);
    return row && !m ? row->value : NAN;
}

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
                  value_text(m, text));
    return 0;
}

double config_real(struct binder *b, const char *key, double fallback)
{
    char text[80];
    const struct meta *m = config_meta(b, key);
    if (meta_kind(m) == META_NONE) {
        double declared = absent(b, key, m);
        return isnan(declared) ? fallback : declared;
    }
    double v = meta_real(m, NAN);
    if (isfinite(v)) return v;
    config_refuse(b, key, ERR_FORMAT, "must be a number, got %s", value_text(m, text));
    return 0;
}

bool config_bool(struct binder *b, const char *key, bool fallback)
{
    char text[80];
    const struct meta *m = config_meta(b, key);
    if (meta_kind(m) == META_BOOL) return meta_bool(m, false);
    if (meta_kind(m) != META_NONE)
        config_refuse(b, key, ERR_FORMAT, "must be true or false, got %s", value_text(m, text));
    double declared = absent(b, key, m);
    return isnan(declared) ? fallback : declared != 0;
}

/* ---- the check ---- */

static const struct meta *quant_meta(const struct binder *b, const char *field)
{
    char key[80];
    snprintf(key, sizeof key, "config.quantization_config.%s", field);
    return checkpoint_meta(b->checkpoint, key);
}

static void expect_quant(struct binder *b, const char *field, const char *value)
{
    char text[80], key[80];
    const struct meta *m = quant_meta(b, field);
    const char *found = meta_text(m, NULL);
    snprintf(key, sizeof key, "config.quantization_config.%s", field);
    if (meta_kind(m) != META_NONE && (!found || strcmp(found, value) != 0))
        config_refuse(b, key, ERR_UNSUPPORTED, "must be \"%s\", got %s", value,
                      value_text(m, text));
}

/* Read the config of 8-bit floats with a scale per block of a matrix (weight_scale_inv). The
 * reference also rounds activations; here they are as exact as for other float weights. */
static void read_fp8(struct binder *b)
{
    const struct meta *block = quant_meta(b, "weight_block_size");
    const int64_t out = meta_item_int(block, 0, 0), k = meta_item_int(block, 1, 0);
    expect_quant(b, "fmt", "e4m3");
    expect_quant(b, "activation_scheme", "dynamic");
    expect_quant(b, "scale_fmt", "float");
    if (meta_kind(block) != META_LIST || meta_count(block) != 2 || out < 1 || k < 1 ||
        out > 1 << 22 || k > 1 << 22)
        config_refuse(b, "config.quantization_config.weight_block_size", ERR_UNSUPPORTED,
                      "must be a list of two sizes: other scales are not supported yet");
    b->m->config.scale_out = (int)out;
    b->m->config.scale_k = (int)k;
}

/* Reject weights quantized in a form that has no reader. */
static void check_quantization(struct binder *b)
{
    static const struct {
        const char *method, *what;
    } known[] = {
        {"gptq", "integers in groups with scales and zero points (GPTQ)"},
        {"awq", "integers in groups with scales and zero points (AWQ)"},
        {"fbgemm_fp8", "8-bit floats with a scale per row"},
        {"bitsandbytes", "4- or 8-bit codes with block scales"},
        {"compressed-tensors", "integers or 8-bit floats with scales"},
        {"modelopt", "integers or small floats with scales"},
        {"mxfp4", "4-bit floats with shared exponents"},
        {"torchao", "tensors of torchao"},
        {"quanto", "integers or small floats with scales"},
        {"hqq", "integers in groups with scales and zero points (HQQ)"},
        {"aqlm", "indexes of learned codebooks"},
        {"eetq", "8-bit integers with a scale per column"},
    };
    const struct meta *m = checkpoint_meta(b->checkpoint, "config.quantization_config");
    const char *what = "tensors of its own form", *method;
    if (meta_kind(m) == META_NONE || b->rc != 0) return;
    method =
        meta_text(checkpoint_meta(b->checkpoint, "config.quantization_config.quant_method"), NULL);
    if (method && strcmp(method, "fp8") == 0) {
        read_fp8(b);
        return;
    }
    for (size_t i = 0; method && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].method, method) == 0) what = known[i].what;
    b->rc =
        err_set(b->e, ERR_UNSUPPORTED,
                "%s: config.json: quantization_config.quant_method %s%.40s%s: %s: not supported "
                "yet; the unquantized checkpoint, or a GGUF of it, loads",
                checkpoint_path(b->checkpoint), method ? "\"" : "", method ? method : "unnamed",
                method ? "\"" : "", what);
}

static bool has_only_value(const struct config_key *row, const struct meta *m)
{
    if (meta_kind(m) == META_NONE) return true;
    if (meta_kind(m) == META_BOOL) return meta_bool(m, false) == (row->value != 0);
    return meta_real(m, NAN) == row->value;
}

/* Check a key that was not read: one after "ARCH.", or "config.FIELD". Returns true to name it in
 * the warning. */
static bool check_left(struct binder *b, const char *key, const struct meta *m)
{
    char text[80];
    const struct config_key *row = row_of(b, key);
    bool top = begins(key, "config.") && !strchr(key + 7, '.');
    if (row && row->use == KEY_IDLE) return false;
    if (row && row->use == KEY_ONLY) {
        if (!has_only_value(row, m))
            config_refuse(b, key, ERR_UNSUPPORTED, "must be %g, got %s: %s", row->value,
                          value_text(m, text), row->why);
        return false;
    }
    if (strcmp(key, "config.text_config") == 0)
        config_refuse(b, key, ERR_UNSUPPORTED,
                      "a model of several parts with a %s: not supported yet", b->m->arch->name);
    else if (strcmp(key, "config.per_layer_config") == 0 && meta_kind(m) != META_NONE)
        config_refuse(b, key, ERR_UNSUPPORTED, "layers of different shapes are not supported yet");
    else if (!top && checkpoint_kind(b->checkpoint) != CKPT_HF)
        config_refuse(b, key, ERR_UNSUPPORTED, "not supported yet in architecture %s, got %s",
                      b->m->arch->name, value_text(m, text));
    else if (begins(key, "config.rope_parameters."))
        config_refuse(b, key, ERR_UNSUPPORTED, "not a supported rope parameter, got %s",
                      value_text(m, text));
    else
        return meta_kind(m) != META_NONE;
    return false;
}

static bool known_group(const char *key)
{
    static const char *const group[] = {
#define GGUF_GROUP(prefix, reader) prefix,
#include "keys.def"
    };
    for (size_t i = 0; i < sizeof group / sizeof group[0]; i++)
        if (begins(key, group[i])) return true;
    return false;
}

static void warn_of(const struct binder *b, const char *list, int n)
{
    bool hf = checkpoint_kind(b->checkpoint) == CKPT_HF;
    if (n > 0)
        log_warn("%s: ignored unknown %s: %s", checkpoint_path(b->checkpoint),
                 hf ? "fields of config.json" : "metadata keys", list);
}

void config_check_keys(struct binder *b)
{
    char list[600] = "", name[160];
    int n = 0;
    size_t n_prefix = strlen(b->prefix);
    check_quantization(b);
    for (int i = 0; i < checkpoint_n_meta(b->checkpoint) && b->rc == 0; i++) {
        const char *full;
        const struct meta *m = checkpoint_meta_at(b->checkpoint, i, &full);
        bool own = begins(full, b->prefix) && full[n_prefix] == '.', warn;
        if (b->read[i] || begins(full, "config.quantization_config")) continue;
        if (own || begins(full, "config."))
            warn = check_left(b, own ? full + n_prefix + 1 : full, m);
        else
            warn = !known_group(full);
        if (!warn) continue;
        size_t at = strlen(list);
        file_key(b, own ? full + n_prefix + 1 : full, name);
        const char *shown = !own && !begins(full, "config.") ? full
                            : begins(name, "config.json: ")  ? name + 13
                                                             : name;
        snprintf(list + at, sizeof list - at, "%s%s", n++ ? ", " : "", shown);
    }
    if (b->rc == 0) warn_of(b, list, n);
}
