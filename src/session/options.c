/* options.c - the options of a session: their defaults, and setting one by its name. */
#include "session.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct session_options session_defaults = {
#include "defaults.def"
};

enum key_kind { KEY_INT, KEY_REAL, KEY_TEXT, KEY_FLAG };
static const struct key {
    const char *name;
    enum key_kind kind;
    size_t at;
    double lo, hi;
} keys[] = {
#define AT(field) offsetof(struct session_options, field)
#define SESSION_INT(field, name, letter, arg, lo, hi, otherwise, help)                             \
    {name, KEY_INT, AT(field), lo, hi},
#define SESSION_REAL(field, name, arg, lo, hi, otherwise, help) {name, KEY_REAL, AT(field), lo, hi},
#define SESSION_TEXT(field, name, arg, otherwise, help)         {name, KEY_TEXT, AT(field), 0, 0},
#define SESSION_FLAG(field, name, otherwise, help)              {name, KEY_FLAG, AT(field), 0, 0},
#include "chat.def"
#include "load.def"
#include "model.def"
#include "pack_cache.def"
#undef SESSION_INT
#undef SESSION_REAL
#undef SESSION_TEXT
#undef SESSION_FLAG
#undef AT
};
enum { N_KEY = sizeof keys / sizeof keys[0] };

static bool same_name(const char *typed, const char *name)
{
    for (; *typed && *name; typed++, name++)
        if ((*typed == '_' ? '-' : *typed) != *name) return false;
    return *typed == *name;
}

static const struct key *find_key(const char *name)
{
    for (int i = 0; i < N_KEY; i++)
        if (same_name(name, keys[i].name)) return &keys[i];
    return NULL;
}

static int set_number(char *field, const struct key *k, const char *value, struct err *e)
{
    char *end;
    errno = 0;
    long long whole = k->kind == KEY_INT ? strtoll(value, &end, 10) : 0;
    double x = k->kind == KEY_INT ? (double)whole : strtod(value, &end);
    if (end == value || *end || errno || x != x)
        return err_set(e, ERR_ARG, "%s: \"%.60s\" is not %s", k->name, value,
                       k->kind == KEY_INT ? "an integer" : "a number");
    if (x < k->lo || x > k->hi)
        return err_set(e, ERR_ARG, "%s: %.60s is not between %.0f and %.0f", k->name, value, k->lo,
                       k->hi);
    if (k->kind == KEY_INT)
        *(int64_t *)(void *)field = whole;
    else
        *(double *)(void *)field = x;
    return 0;
}

static int set_flag(bool *field, const struct key *k, const char *value, struct err *e)
{
    bool on = strcasecmp(value, "true") == 0 || strcmp(value, "1") == 0,
         off = strcasecmp(value, "false") == 0 || strcmp(value, "0") == 0;
    if (!on && !off)
        return err_set(e, ERR_ARG, "%s: \"%.60s\" is neither true nor false", k->name, value);
    *field = on;
    return 0;
}

int session_option_set(struct session_options *o, const char *key, const char *value, struct err *e)
{
    const struct key *k = find_key(key);
    if (!k) return err_set(e, ERR_ARG, "%.60s: there is no such option", key);
    char *field = (char *)o + k->at;
    if (k->kind == KEY_FLAG) return set_flag((bool *)field, k, value, e);
    if (k->kind != KEY_TEXT) return set_number(field, k, value, e);
    *(const char **)(void *)field = value;
    return 0;
}
