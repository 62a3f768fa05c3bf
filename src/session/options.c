/* options.c - the options of a session: their defaults, and setting one by its name.
 *
 * Options are fields of struct session_options. The .def files give for each field its name, type,
 * range or list of names, default and help. The rows also make the options of the command line, the
 * defaults, and this file's table of keys for the library (quoth.h). */
#include "session.h"

#include "base/names.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- legal values ---- */

const char *session_cpu_names(int i)
{
    return kern_levels()[i];
}

/* llama.cpp's "none" and vLLM's "auto" are aliases of the first name. */
const char *session_device_names(int i)
{
    static const char *const other[] = {"auto", "none"};
    return i < 2 ? other[i] : backend_name(i - 2);
}

const char *session_device_name(const struct session_options *o)
{
    const bool named = strcmp(o->device, "auto") != 0 && strcmp(o->device, "none") != 0;
    return named ? o->device : backend_name(0);
}

const char *session_act_names(int i)
{
    static const char *const name[] = {"auto", "int8", "bf16", "f32", NULL};
    return name[i];
}

/* vLLM's "auto" and "fp8" are aliases of two types. */
const char *session_kv_names(int i)
{
    static const char *const other[] = {"auto", "fp8"};
    return i < 2 ? other[i] : i < 2 + KV_TYPE_COUNT ? kv_type_name((enum kv_type)(i - 2)) : NULL;
}

/* adapters_open checks the fields of an object. */
int session_lora_form(const char *text, struct err *e)
{
    const char *equal = strchr(text, '=');
    if (*text == '{' || (equal && equal > text && equal[1])) return 0;
    return form_wrong(e, "NAME=PATH", text);
}

const char *session_scheduler_names(int i)
{
    return i == 0 ? "auto" : policy_name(i - 1);
}

const char *session_load_names(int i)
{
    static const char *const name[] = {"auto", "gguf", "safetensors", "dummy", NULL};
    return name[i];
}

const char *session_tool_parser_names(int i)
{
    return chat_tool_parsers(i);
}

const char *session_reasoning_parser_names(int i)
{
    return chat_reasoning_parsers(i);
}

const char *session_shape_names(int i)
{
    return dummy_shapes(i);
}

const char *session_quant_names(int i)
{
    return quant_mix_name_at(i);
}

/* A text that is not a number is accepted here, because the reader of the number rejects it. */
int session_power_form(const char *text, struct err *e)
{
    char *end;
    long long n = strtoll(text, &end, 10);
    bool number = end != text && !*end;
    return number && n > 0 && (n & (n - 1)) ? form_wrong(e, "a power of two", text) : 0;
}

/* ---- options ---- */

const struct session_options session_defaults = {
#include "defaults.def"
};

enum key_kind { KEY_INT, KEY_REAL, KEY_TEXT, KEY_FLAG };
static const struct session_key {
    const char *name; /* static */
    enum key_kind kind;
    size_t at;
    double lo, hi;
    name_fn *names; /* list of the legal values of a TEXT; NULL: any value */
    form_fn *form;  /* further check of a value; NULL if none */
} keys[] = {
#define AT(field) offsetof(struct session_options, field)
#define SESSION_INT(field, name, letter, arg, lo, hi, fallback, help)                              \
    {name, KEY_INT, AT(field), lo, hi, NULL, NULL},
#define SESSION_REAL(field, name, arg, lo, hi, fallback, help)                                     \
    {name, KEY_REAL, AT(field), lo, hi, NULL, NULL},
#define SESSION_TEXT(field, name, arg, fallback, help)                                             \
    {name, KEY_TEXT, AT(field), 0, 0, NULL, NULL},
#define SESSION_FLAG(field, name, fallback, help) {name, KEY_FLAG, AT(field), 0, 0, NULL, NULL},
#define SESSION_NAME(field, name, arg, fallback, names, help)                                      \
    {name, KEY_TEXT, AT(field), 0, 0, names, NULL},
#define SESSION_FORM(field, name, arg, fallback, form, help)                                       \
    {name, KEY_TEXT, AT(field), 0, 0, NULL, form},
#define SESSION_POWER(field, name, arg, lo, hi, fallback, help)                                    \
    {name, KEY_INT, AT(field), lo, hi, NULL, session_power_form},
#define SESSION_WORDS(field, name, arg, form, help)
#include "chat.def"
#include "load.def"
#include "model.def"
#include "pack_cache.def"
#undef SESSION_INT
#undef SESSION_REAL
#undef SESSION_TEXT
#undef SESSION_FLAG
#undef SESSION_NAME
#undef SESSION_FORM
#undef SESSION_POWER
#undef SESSION_WORDS
#undef AT
};
enum { N_KEY = sizeof keys / sizeof keys[0] };

/* Return true if the names are equal. '_' in the given name matches '-', because Python's keywords
 * contain '_'. */
static bool same_name(const char *typed, const char *name)
{
    for (; *typed && *name; typed++, name++)
        if ((*typed == '_' ? '-' : *typed) != *name) return false;
    return *typed == *name;
}

/* Return the row of a key; NULL if none. A linear search is sufficient for less than 100 keys. */
static const struct session_key *find_key(const char *name)
{
    for (int i = 0; i < N_KEY; i++)
        if (same_name(name, keys[i].name)) return &keys[i];
    return NULL;
}

/* Set a number. errno detects a number that exceeds the type, and x != x detects a NaN. */
static int set_number(char *field, const struct session_key *k, const char *value, struct err *e)
{
    char *end;
    errno = 0;
    long long whole = k->kind == KEY_INT ? strtoll(value, &end, 10) : 0;
    double x = k->kind == KEY_INT ? (double)whole : strtod(value, &end);
    if (end == value || *end || errno || x != x)
        return err_field(e, ERR_ARG, k->name, ": expected %s, got \"%.60s\"",
                         k->kind == KEY_INT ? "an integer" : "a number", value);
    if (x < k->lo || x > k->hi)
        return err_field(e, ERR_ARG, k->name, ": must be in [%.0f, %.0f], got %.60s", k->lo, k->hi,
                         value);
    if (k->kind == KEY_INT)
        *(int64_t *)(void *)field = whole;
    else
        *(double *)(void *)field = x;
    return 0;
}

/* Accept true, false, 1 and 0. */
static int set_flag(bool *field, const struct session_key *k, const char *value, struct err *e)
{
    bool on = strcasecmp(value, "true") == 0 || strcmp(value, "1") == 0,
         off = strcasecmp(value, "false") == 0 || strcmp(value, "0") == 0;
    if (!on && !off)
        return err_field(e, ERR_ARG, k->name, ": must be true or false, got \"%.60s\"", value);
    *field = on;
    return 0;
}

/* A text is borrowed, so value must outlive the options. The form of an option is checked first, so
 * that the message contains the option's name. */
int session_option_set(struct session_options *o, const char *key, const char *value, struct err *e)
{
    const struct session_key *k = find_key(key);
    if (!k) return err_field(e, ERR_ARG, key, ": unknown option");
    char *field = (char *)o + k->at;
    struct err why = {0};
    int rc = k->form ? k->form(value, &why) : 0;
    if (rc != 0) return err_field(e, rc, k->name, ": %s", why.text);
    if (k->kind == KEY_FLAG) return set_flag((bool *)field, k, value, e);
    if (k->kind != KEY_TEXT) return set_number(field, k, value, e);
    const char **text = (const char **)(void *)field;
    if (k->names) return name_choose(text, k->name, k->names, value, e);
    *text = value;
    return 0;
}
