/* parse.c - the command line and config files, read by one table; see option.h. */
#include "option.h"

#include "base/os.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static bool same_name(const char *typed, size_t n, const char *name)
{
    if (strlen(name) != n) return false;
    for (size_t i = 0; i < n; i++)
        if ((typed[i] == '_' ? '-' : typed[i]) != name[i]) return false;
    return true;
}

static const struct option *find_option(const struct option *o, const char *name, size_t n)
{
    for (; o->kind != OPTION_END; o++) {
        const struct option *found =
            o->kind == OPTION_GROUP ? find_option(o->include, name, n) : NULL;
        if (found) return found;
        if (o->kind != OPTION_GROUP && same_name(name, n, o->name)) return o;
    }
    return NULL;
}

static const struct option *find_letter(const struct option *o, char letter)
{
    for (; o->kind != OPTION_END; o++) {
        const struct option *found =
            o->kind == OPTION_GROUP ? find_letter(o->include, letter) : NULL;
        if (found) return found;
        if (o->kind != OPTION_GROUP && o->letter == letter) return o;
    }
    return NULL;
}

/* Edits (insert, delete, replace) between two short names. */
static int edit_distance(const char *a, const char *b)
{
    enum { MOST = 48 };
    int row[MOST + 1], n = (int)strlen(b);
    if (strlen(a) > MOST || n > MOST) return MOST;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            char ca = a[i - 1] == '_' ? '-' : a[i - 1];
            int best = diagonal + (ca != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

const char *nearest_name(const char *typed, const char *const *names, size_t n)
{
    const char *best = NULL;
    int least = 1 + (int)strlen(typed) / 3;
    for (size_t i = 0; i < n; i++) {
        int d = edit_distance(typed, names[i]);
        if (strncmp(names[i], typed, strlen(typed)) == 0 && d > 1) d = 1; /* an abbreviation */
        if (d <= least && (!best || d < least)) best = names[i], least = d;
    }
    return best;
}

static size_t collect_names(const struct option *o, const char **names, size_t n, size_t cap)
{
    for (; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_GROUP)
            n = collect_names(o->include, names, n, cap);
        else if (n < cap)
            names[n++] = o->name;
    }
    return n;
}

/* `command` NULL: while the program runs. */
static int unknown_option(const struct option *table, const char *command, const char *flag,
                          size_t n, struct err *e)
{
    const char *names[256];
    char typed[64];
    size_t n_name = collect_names(table, names, 0, 256);
    if (n >= sizeof typed) n = sizeof typed - 1;
    memcpy(typed, flag, n);
    typed[n] = 0;
    const char *near = nearest_name(typed, names, n_name);
    if (near) return err_set(e, ERR_ARG, "unknown flag --%s; did you mean --%s?", typed, near);
    if (!command) return err_set(e, ERR_ARG, "unknown flag --%s; /set lists them", typed);
    return err_set(e, ERR_ARG, "unknown flag --%s; quoth %s --help lists them", typed, command);
}

/* ---- values ---- */

static int set_int(const struct option *o, const char *value, struct err *e)
{
    char *end;
    errno = 0;
    long long v = strtoll(value, &end, 10);
    if (end == value || *end || errno)
        return err_set(e, ERR_ARG, "--%s: \"%s\" is not an integer", o->name, value);
    if ((double)v < o->lo || (double)v > o->hi)
        return err_set(e, ERR_ARG, "--%s: %lld is not between %.0f and %.0f", o->name, v, o->lo,
                       o->hi);
    *(int64_t *)o->target = v;
    return 0;
}

static int set_real(const struct option *o, const char *value, struct err *e)
{
    char *end;
    double v = strtod(value, &end);
    if (end == value || *end || v != v)
        return err_set(e, ERR_ARG, "--%s: \"%s\" is not a number", o->name, value);
    if (v < o->lo || v > o->hi)
        return err_set(e, ERR_ARG, "--%s: %g is not between %g and %g", o->name, v, o->lo, o->hi);
    *(double *)o->target = v;
    return 0;
}

static int set_flag(const struct option *o, const char *value, struct err *e)
{
    bool on =
        strcasecmp(value, "true") == 0 || strcmp(value, "1") == 0 || strcasecmp(value, "yes") == 0;
    bool off =
        strcasecmp(value, "false") == 0 || strcmp(value, "0") == 0 || strcasecmp(value, "no") == 0;
    if (!on && !off)
        return err_set(e, ERR_ARG, "--%s: \"%s\" is neither true nor false", o->name, value);
    *(bool *)o->target = on;
    return 0;
}

static int set_value(const struct option *o, const char *value, struct err *e)
{
    struct text_list *list = o->target;
    switch (o->kind) {
    case OPTION_FLAG:
        return set_flag(o, value, e);
    case OPTION_INT:
        return set_int(o, value, e);
    case OPTION_REAL:
        return set_real(o, value, e);
    case OPTION_TEXT:
        *(const char **)o->target = value;
        return 0;
    case OPTION_LIST:
    case OPTION_WORDS:
        return vec_push(list, value) ? 0 : err_memory(e, o->name, sizeof value);
    default:
        return 0;
    }
}

static bool is_list(const struct option *o)
{
    return o->kind == OPTION_LIST || o->kind == OPTION_WORDS;
}

/* NAME, or no-NAME: a flag becomes false, a list empty. NULL: not found. */
static const struct option *find_negated(const struct option *table, const char *name, size_t n)
{
    if (n <= 3 || !same_name(name, 3, "no-")) return NULL;
    const struct option *o = find_option(table, name + 3, n - 3);
    return o && (o->kind == OPTION_FLAG || is_list(o)) ? o : NULL;
}

static int set_negated(const struct option *o)
{
    if (o->kind == OPTION_FLAG)
        *(bool *)o->target = false;
    else
        ((struct text_list *)o->target)->n = 0;
    return 0;
}

int options_set(const struct option *table, const char *name, const char *value, struct err *e)
{
    size_t n = strlen(name);
    const struct option *o = find_option(table, name, n),
                        *negated = o ? NULL : find_negated(table, name, n);
    if (negated) return set_negated(negated);
    if (!o) return unknown_option(table, NULL, name, n, e);
    if (!value && o->kind != OPTION_FLAG)
        return err_set(e, ERR_ARG, "%s needs a value: /set %s %s", o->name, o->name, o->arg);
    return set_value(o, value ? value : "true", e);
}

static void show_value(const struct option *o, FILE *out)
{
    const struct text_list *list = o->target;
    bool is_real = o->kind == OPTION_REAL, is_int = o->kind == OPTION_INT;
    double v = is_real  ? *(const double *)o->target
               : is_int ? (double)*(const int64_t *)o->target
                        : 0;
    if ((is_real || is_int) && (v < o->lo || v > o->hi))
        fprintf(out, "(not set)");
    else if (is_real || is_int)
        fprintf(out, "%.15g", v);
    else if (o->kind == OPTION_FLAG)
        fprintf(out, "%s", *(const bool *)o->target ? "true" : "false");
    else if (is_list(o))
        for (size_t i = 0; i < list->n; i++) fprintf(out, "%s\"%s\"", i ? " " : "", list->v[i]);
}

void options_show(const struct option *table, FILE *out)
{
    for (const struct option *o = table; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_GROUP) {
            options_show(o->include, out);
            continue;
        }
        fprintf(out, "  %-28s ", o->name);
        show_value(o, out);
        fprintf(out, "\n");
    }
}

/* ---- config files: lines of "name: value" or "name = value", # begins a comment ---- */

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1])) n--;
    text[n] = 0;
    if (n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n - 1] == text[0]) {
        text[n - 1] = 0;
        text++;
    }
    return text;
}

static int config_line(const struct command *c, char *line, const char *path, int number,
                       struct err *e)
{
    char *text = trimmed(line);
    if (*text == 0 || *text == '#') return 0;
    size_t n = strcspn(text, ":=");
    if (text[n] == 0)
        return err_set(e, ERR_ARG, "%s:%d: expected \"name: value\", found \"%.40s\"", path, number,
                       text);
    char *value = trimmed(text + n + 1);
    while (n > 0 && isspace((unsigned char)text[n - 1])) n--;
    const struct option *o = find_option(c->options, text, n);
    int rc = o ? set_value(o, value, e) : unknown_option(c->options, c->name, text, n, e);
    return rc ? err_prefix(e, rc, "%s:%d", path, number) : 0;
}

static struct text_list config_texts; /* values point into them: they live until the program ends */

static int config_file(const struct command *c, const char *path, struct err *e)
{
    struct buf b = {0};
    int rc = file_read(&b, path, 1 << 20, e);
    char *text = rc == 0 ? buf_detach(&b) : NULL;
    buf_deinit(&b);
    if (text && !vec_push(&config_texts, text)) {
        free(text);
        return err_memory(e, path, sizeof text);
    }
    int number = 0;
    for (char *next = text, *line; rc == 0 && (line = strsep(&next, "\n"));)
        rc = config_line(c, line, path, ++number, e);
    return rc;
}

/* ---- the command line ---- */

struct cursor {
    const struct command *c;
    int i, n;
    char **arg;
};

/* A negative number is a value, not a flag. */
static bool is_flag(const char *arg)
{
    return arg[0] == '-' && arg[1] && !isdigit((unsigned char)arg[1]) && arg[1] != '.';
}

static int take_value(struct cursor *at, const struct option *o, const char *inline_value,
                      struct err *e)
{
    if (inline_value) return set_value(o, inline_value, e);
    if (o->kind == OPTION_FLAG) return set_value(o, "true", e);
    if (at->i + 1 >= at->n)
        return err_set(e, ERR_ARG, "--%s needs a value: --%s %s", o->name, o->name, o->arg);
    int rc = set_value(o, at->arg[++at->i], e);
    while (rc == 0 && o->kind == OPTION_WORDS && at->i + 1 < at->n && !is_flag(at->arg[at->i + 1]))
        rc = set_value(o, at->arg[++at->i], e);
    return rc;
}

static int long_option(struct cursor *at, struct err *e)
{
    const char *flag = at->arg[at->i] + 2, *equals = strchr(flag, '=');
    size_t n = equals ? (size_t)(equals - flag) : strlen(flag);
    if (same_name(flag, n, "help")) {
        help_command(at->c);
        return 1;
    }
    if (same_name(flag, n, "config")) {
        if (!equals && at->i + 1 >= at->n) return err_set(e, ERR_ARG, "--config needs a file");
        return config_file(at->c, equals ? equals + 1 : at->arg[++at->i], e);
    }
    const struct option *o = find_option(at->c->options, flag, n),
                        *negated = o ? NULL : find_negated(at->c->options, flag, n);
    if (negated) return set_negated(negated);
    if (!o) return unknown_option(at->c->options, at->c->name, flag, n, e);
    return take_value(at, o, equals ? equals + 1 : NULL, e);
}

static int short_option(struct cursor *at, struct err *e)
{
    const char *flag = at->arg[at->i] + 1;
    if (*flag == 'h' && !flag[1]) {
        help_command(at->c);
        return 1;
    }
    const struct option *o = find_letter(at->c->options, *flag);
    if (!o)
        return err_set(e, ERR_ARG, "unknown flag -%s; quoth %s --help lists them", flag,
                       at->c->name);
    if (o->kind == OPTION_FLAG && flag[1])
        return err_set(e, ERR_ARG, "-%c takes no value, found \"%s\"", *flag, flag + 1);
    return take_value(at, o, flag[1] ? flag + 1 : NULL, e);
}

int options_parse(const struct command *c, int *n_arg, char **arg, struct err *e)
{
    struct cursor at = {.c = c, .n = *n_arg, .arg = arg};
    int n_out = 0;
    bool flags_end = false;
    for (; at.i < at.n; at.i++) {
        char *a = arg[at.i];
        int rc = 0;
        if (!flags_end && strcmp(a, "--") == 0)
            flags_end = true;
        else if (!flags_end && a[0] == '-' && a[1] == '-')
            rc = long_option(&at, e);
        else if (!flags_end && is_flag(a))
            rc = short_option(&at, e);
        else if (n_out == c->n_arg_max)
            rc = err_set(e, ERR_ARG, "unexpected argument \"%.60s\"; usage: quoth %s %s", a,
                         c->name, c->usage);
        else
            arg[n_out++] = a;
        if (rc != 0) return rc;
    }
    *n_arg = n_out;
    return 0;
}
