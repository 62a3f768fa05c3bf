/* parse.c - parse the command line and config files by one table; see option.h.
 *
 *    --name=value  --name value  --no-name      long_option
 *    -n5  -n 5  -ngl 5                          short_option
 *    name: value                                config_line
 *         |
 *         +--> find_option --> set_value --> the option's target
 *         +--> alias_find  --> alias_value --> set_value        (flags of other engines)
 *
 * Values are not copied. Targets point into the arguments, into texts of config files, or into kept
 * copies. All of these are valid until the program ends. */
#include "option_impl.h"

#include "base/json.h"
#include "base/os.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* '_' in the typed name matches '-', because vLLM's options are Python's names with underscores in
 * config files. */
bool same_name(const char *typed, size_t n, const char *name)
{
    if (strlen(name) != n) return false;
    for (size_t i = 0; i < n; i++)
        if ((typed[i] == '_' ? '-' : typed[i]) != name[i]) return false;
    return true;
}

/* Return the option with the name in the table and its groups; NULL if none. */
const struct option *find_option(const struct option *o, const char *name, size_t n)
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

/* Compare the names of a table and its groups. */
static void nearest_compare_options(struct nearest *s, const struct option *o)
{
    for (; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_GROUP)
            nearest_compare_options(s, o->include);
        else
            nearest_compare(s, o->name);
    }
}

/* Return the name of option *n_skip of a table and its groups. Return NULL for a table with fewer
 * options, and subtract their number from *n_skip. */
static const char *skip_names(const struct option *o, int *n_skip)
{
    for (; o->kind != OPTION_END; o++) {
        const char *found = o->kind == OPTION_GROUP ? skip_names(o->include, n_skip) : NULL;
        if (found) return found;
        if (o->kind != OPTION_GROUP && (*n_skip)-- == 0) return o->name;
    }
    return NULL;
}

/* Return the i-th name of a table with its groups; NULL after the last. For completion. */
const char *option_name(const struct option *table, int i)
{
    return i < 0 ? NULL : skip_names(table, &i);
}

/* Return the name nearest to n bytes of a mistyped one; NULL if no name is near. The result is a
 * name of the table, or with `foreign` also a name of another engine. */
static const char *near_flag(const struct option *table, const char *flag, size_t n, bool foreign)
{
    char typed[64];
    snprintf(typed, sizeof typed, "%.*s", (int)n, flag);
    struct nearest s = nearest_begin(typed);
    nearest_compare_options(&s, table);
    return s.best || !foreign ? s.best : alias_nearest(typed);
}

/* Report an unknown flag. `typed` has its dashes; its last n bytes are the name. */
static int unknown_flag(const struct command *c, const char *typed, const char *name, size_t n,
                        struct err *e)
{
    const char *near = near_flag(c->options, name, n, true);
    if (strchr(typed, ' '))
        return err_set(
            e, ERR_ARG,
            "unknown flag %s; put a text that begins with - after --: quoth %s -- \"%.20s...\"",
            typed, c->name, typed);
    if (near) return err_set(e, ERR_ARG, "unknown flag %s; did you mean --%s?", typed, near);
    return err_set(e, ERR_ARG, "unknown flag %s; quoth %s --help lists them", typed, c->name);
}

/* ---- values ---- */

/* Return true if the number is in the option's range. */
static bool is_legal(const struct option *o, double v)
{
    return o->range ? range_has(o->range, v) : v >= o->lo && v <= o->hi;
}

/* In the following functions, `dashes` precedes a flag's name in sentences. `dashes` is "--", or ""
 * if options are set by name alone. */

/* Report the legal range of a number. */
static int number_wrong(const struct option *o, const char *dashes, const char *value,
                        struct err *e)
{
    const char *kind = o->kind == OPTION_INT ? "an integer" : "a number";
    if (o->range)
        return err_set(e, ERR_ARG, "%s%s: must be %s %s, got %s", dashes, o->name, kind,
                       o->range->text, value);
    return err_set(e, ERR_ARG, "%s%s: must be %s in [%.15g, %.15g], got %s", dashes, o->name, kind,
                   o->lo, o->hi, value);
}

/* Parse an integer. errno detects a number beyond 64 bits. */
static int set_int(const struct option *o, const char *dashes, const char *value, struct err *e)
{
    char *end;
    errno = 0;
    long long v = strtoll(value, &end, 10);
    if (end == value || *end || errno || !is_legal(o, (double)v))
        return number_wrong(o, dashes, value, e);
    *(int64_t *)o->target = v;
    return 0;
}

/* Set a REAL. strtod accepts "inf" and "nan". A NaN is in no range, so it is rejected. */
static int set_real(const struct option *o, const char *dashes, const char *value, struct err *e)
{
    char *end;
    double v = strtod(value, &end);
    if (end == value || *end || !is_legal(o, v)) return number_wrong(o, dashes, value, e);
    *(double *)o->target = v;
    return 0;
}

/* Parse a boolean. For a flag without a value, the caller passes "true". */
static int set_flag(const struct option *o, const char *dashes, const char *value, struct err *e)
{
    bool on =
        strcasecmp(value, "true") == 0 || strcmp(value, "1") == 0 || strcasecmp(value, "yes") == 0;
    bool off =
        strcasecmp(value, "false") == 0 || strcmp(value, "0") == 0 || strcasecmp(value, "no") == 0;
    if (!on && !off)
        return err_set(e, ERR_ARG, "%s%s: must be true or false, got \"%s\"", dashes, o->name,
                       value);
    *(bool *)o->target = on;
    return 0;
}

/* Check a name, or each name of a list with commas. The target is set to the typed text. */
static int set_name(const struct option *o, const char *dashes, const char *value, struct err *e)
{
    char flag[64], item[64];
    const char *known;
    int rc = 0;
    snprintf(flag, sizeof flag, "%s%s", dashes, o->name);
    if (!o->many) return name_choose(o->target, flag, o->names, value, e);
    for (const char *at = value; rc == 0 && *at;) {
        size_t n = strcspn(at, ",");
        snprintf(item, sizeof item, "%.*s", (int)(n < sizeof item ? n : sizeof item - 1), at);
        rc = name_choose(&known, flag, o->names, item, e);
        at += n + (at[n] == ',');
    }
    if (rc == 0) *(const char **)o->target = value;
    return rc;
}

/* Parse '["a", "b"]', vLLM's form of lists. The texts are valid until the program ends. */
static int set_json_list(const struct option *o, const char *dashes, const char *value,
                         struct err *e)
{
    struct json *root = NULL;
    int rc = json_parse(&root, value, strlen(value), NULL, e);
    for (size_t i = 0; rc == 0 && i < json_count(root); i++) {
        const char *text = json_text(json_item(root, i), NULL);
        char *copy = text ? strdup(text) : NULL;
        if (!text)
            rc = err_set(e, ERR_ARG, "expected a list of strings, got %s as [%zu]",
                         json_kind_name(json_kind(json_item(root, i))), i);
        else if (o->form && (rc = o->form(text, e)) != 0)
            free(copy);
        else if (!copy || !vec_push((struct text_list *)o->target, copy))
            free(copy), rc = err_memory(e, o->name, strlen(text));
    }
    json_drop(root);
    return rc ? err_prefix(e, rc, "%s%s", dashes, o->name) : 0;
}

/* Check a value by the option's own function. The error begins with the flag. */
static int check_form(const struct option *o, const char *dashes, const char *value, struct err *e)
{
    int rc = o->form ? o->form(value, e) : 0;
    return rc ? err_prefix(e, rc, "%s%s", dashes, o->name) : 0;
}

/* Check a value and store it in the option's target. Each use of a list option appends a value. */
static int set_value(const struct option *o, const char *dashes, const char *value, struct err *e)
{
    struct text_list *list = o->target;
    bool items = o->kind == OPTION_LIST && o->json && value[0] == '[';
    int rc = items ? 0 : check_form(o, dashes, value, e);
    if (rc != 0) return rc;
    switch (o->kind) {
    case OPTION_FLAG:
        return set_flag(o, dashes, value, e);
    case OPTION_INT:
        return set_int(o, dashes, value, e);
    case OPTION_REAL:
        return set_real(o, dashes, value, e);
    case OPTION_TEXT:
        if (o->names) return set_name(o, dashes, value, e);
        *(const char **)o->target = value;
        return 0;
    case OPTION_LIST:
        if (items) return set_json_list(o, dashes, value, e);
        return vec_push(list, value) ? 0 : err_memory(e, o->name, sizeof value);
    case OPTION_WORDS:
        return vec_push(list, value) ? 0 : err_memory(e, o->name, sizeof value);
    default:
        return 0;
    }
}

/* Find the option for NAME or no-NAME; NULL if the table has no such option. no-NAME sets a flag to
 * false and empties a list. */
static const struct option *find_negated(const struct option *table, const char *name, size_t n)
{
    if (n <= 3 || !same_name(name, 3, "no-")) return NULL;
    const struct option *o = find_option(table, name + 3, n - 3);
    return o && (o->kind == OPTION_FLAG || is_list(o)) ? o : NULL;
}

/* Set a flag to false, or empty a list that a config file has filled. */
static int set_negated(const struct option *o)
{
    if (o->kind == OPTION_FLAG)
        *(bool *)o->target = false;
    else
        ((struct text_list *)o->target)->n = 0;
    return 0;
}

/* Check a value like set_value, but do not change the target. */
static int judge_value(const struct option *o, const char *dashes, const char *value, struct err *e)
{
    union { /* target of any kind; the text is borrowed, the list's array is owned */
        bool flag;
        int64_t whole;
        double real;
        const char *text;
        struct text_list list;
    } unused = {.list = {0}};
    struct option copy = *o;
    copy.target = &unused;
    int rc = set_value(&copy, dashes, value, e);
    if (!is_list(o)) return rc;
    /* set_json_list allocated the texts */
    const bool owned = o->kind == OPTION_LIST && o->json && value[0] == '[';
    for (size_t i = 0; owned && i < unused.list.n; i++) free((void *)unused.list.v[i]);
    free(unused.list.v);
    return rc;
}

/* Set or only check an option by its name. The only aliases allowed are those that accept any
 * value, because notes need a command line. */
static int set_named(const struct option *table, const char *name, const char *value,
                     bool only_judge, struct err *e)
{
    size_t n = strlen(name);
    const struct option *o = find_option(table, name, n),
                        *negated = o ? NULL : find_negated(table, name, n);
    if (negated) return only_judge ? 0 : set_negated(negated);
    bool ignored;
    const struct alias *a = o ? NULL : alias_find(name, n, &ignored);
    if (a && a->option && a->takes == TAKES_VALUE && strcmp(a->values, "*=*") == 0)
        o = find_option(table, a->option, strlen(a->option));
    if (!o) {
        const char *near = near_flag(table, name, n, false);
        return near ? err_set(e, ERR_ARG, "unknown option %s; did you mean %s?", name, near)
                    : err_set(e, ERR_MISSING, "unknown option %s", name);
    }
    if (!value && o->kind != OPTION_FLAG)
        return err_set(e, ERR_ARG, "%s: needs a value, %s", o->name, o->arg);
    return (only_judge ? judge_value : set_value)(o, "", value ? value : "true", e);
}

int options_set(const struct option *table, const char *name, const char *value, struct err *e)
{
    return set_named(table, name, value, false, e);
}

int options_judge(const struct option *table, const char *name, const char *value, struct err *e)
{
    return set_named(table, name, value, true, e);
}

/* ---- flags of other engines ---- */

/* State of options_parse. Pointers are borrowed from its caller. */
struct cursor {
    const struct command *c;
    int i, n, n_out; /* arg[0, n_out) are positional arguments */
    char **arg;
    bool flags_end;
};

/* Return true for a flag. Negative numbers and "- an item" are values. */
static bool is_flag(const char *arg)
{
    return arg[0] == '-' && arg[1] && !isdigit((unsigned char)arg[1]) && !strchr(". \t\n", arg[1]);
}

/* Insert a positional argument of the command. MODEL precedes other arguments, PROMPT follows
 * them. */
static int place_argument(struct cursor *at, const char *place, const char *value, struct err *e)
{
    if (!strstr(at->c->usage, place))
        return err_set(e, ERR_ARG, "quoth %s takes no %s; usage: quoth %s %s", at->c->name, place,
                       at->c->name, at->c->usage);
    if (at->n_out == at->c->arg_max || at->n_out > at->i)
        return err_set(e, ERR_ARG, "unexpected argument \"%.60s\"; usage: quoth %s %s", value,
                       at->c->name, at->c->usage);
    bool first = strcmp(place, ALIAS_MODEL) == 0;
    if (first) memmove(at->arg + 1, at->arg, (size_t)at->n_out * sizeof *at->arg);
    at->arg[first ? 0 : at->n_out] = (char *)value;
    at->n_out++;
    return 0;
}

/* Return true if an alias stands for a positional argument. */
static bool is_place(const char *option)
{
    return option && (strcmp(option, ALIAS_MODEL) == 0 || strcmp(option, ALIAS_PROMPT) == 0);
}

/* Apply one value of an alias. A command without the option reports the alias's note or reason. */
static int use_alias(struct cursor *at, const struct alias *a, const char *typed, const char *value,
                     struct err *e)
{
    const char *own = NULL;
    int rc = alias_value(a, typed, value, &own, e);
    if (rc != 0 || !own) return rc;
    if (is_place(a->option)) return place_argument(at, a->option, own, e);
    const struct option *o = find_option(at->c->options, a->option, strlen(a->option));
    if (!o && a->note) return alias_note(a, typed, value, e);
    if (!o && a->reason) return err_set(e, ERR_ARG, "%s: %s", typed, a->reason);
    if (!o)
        return err_set(e, ERR_ARG,
                       "%s: flag not found: quoth %s has no --%s; quoth %s --help lists its flags",
                       typed, at->c->name, a->option, at->c->name);
    rc = alias_agree(a, typed, own, e);
    return rc ? rc : set_value(o, "--", own, e);
}

/* Return true if the command recognizes the alias. Commands that open a model recognize the flags
 * of all commands that open a model. Other commands recognize only flags of their own options. */
static bool has_alias(const struct command *c, const struct alias *a)
{
    static const char computes[] = "max-model-len";
    if (find_option(c->options, computes, sizeof computes - 1)) return true;
    if (is_place(a->option)) return strstr(c->usage, a->option) != NULL;
    return a->option && find_option(c->options, a->option, strlen(a->option));
}

/* Return the value of a flag with an optional value. The value is the next word if the alias lists
 * the word. */
static const char *maybe_value(struct cursor *at, const struct alias *a)
{
    bool next = at->i + 1 < at->n && alias_lists(a, at->arg[at->i + 1]);
    return next ? at->arg[++at->i] : "true";
}

/* Return "true" or "false" for a spelling of a boolean, and other values unchanged. word[i / 3 * 3]
 * is the first spelling of its group. */
static const char *truth_of(const char *value)
{
    static const char *const word[] = {"true", "1", "yes", "false", "0", "no"};
    for (int i = 0; i < 6; i++)
        if (strcasecmp(value, word[i]) == 0) return word[i / 3 * 3];
    return value;
}

/* Handle a flag that the table lacks. `typed` begins with the dashes. The name is the n bytes at
 * `name`. The value is the next argument if `value` is NULL. */
static int foreign_flag(struct cursor *at, const char *typed, const char *name, size_t n,
                        const char *value, struct err *e)
{
    bool negated, follows = !value;
    const struct alias *a = alias_find(name, n, &negated);
    if (!a || !has_alias(at->c, a)) return unknown_flag(at->c, typed, name, n, e);
    if (a->takes == TAKES_NOTHING) {
        value = truth_of(value ? value : "true");
        if (negated) value = strcmp(value, "true") == 0 ? "false" : "true";
    } else if (!value && a->takes == TAKES_MAYBE) {
        value = maybe_value(at, a);
    } else if (!value) {
        if (at->i + 1 >= at->n) return err_set(e, ERR_ARG, "%s needs a value", typed);
        value = at->arg[++at->i];
    }
    int rc = use_alias(at, a, typed, value, e);
    follows &= a->takes == TAKES_WORDS;
    while (rc == 0 && follows && at->i + 1 < at->n && !is_flag(at->arg[at->i + 1]))
        rc = use_alias(at, a, typed, at->arg[++at->i], e);
    return rc;
}

/* Handle a name of a config file that the table lacks. */
static int foreign_option(struct cursor *at, const char *name, size_t n, const char *value,
                          struct err *e)
{
    char typed[80];
    snprintf(typed, sizeof typed, "--%s", name);
    return foreign_flag(at, typed, name, n, value, e);
}

/* ---- config files: lines of "name: value" or "name = value", # begins a comment ---- */

/* Remove blanks and one pair of quotes from both ends, in place. */
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

/* Parse "name: value". An error names file and line. */
static int config_line(struct cursor *at, char *line, const char *path, int number, struct err *e)
{
    char *text = trimmed(line);
    if (*text == 0 || *text == '#') return 0;
    size_t n = strcspn(text, ":=");
    if (text[n] == 0)
        return err_set(e, ERR_ARG, "%s:%d: expected \"name: value\", got \"%.40s\"", path, number,
                       text);
    char *value = trimmed(text + n + 1);
    while (n > 0 && isspace((unsigned char)text[n - 1])) n--;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    const struct option *o = find_option(at->c->options, text, n);
    int rc = o ? set_value(o, "--", value, e) : foreign_option(at, name, n, value, e);
    return rc ? err_prefix(e, rc, "%s:%d", path, number) : 0;
}

/* texts of config files, never freed, because values borrow them */
static struct text_list config_texts;

/* Apply all lines in their order. A flag after --config, or a later line, overrides a line, because
 * the last value has precedence. */
static int config_file(struct cursor *at, const char *path, struct err *e)
{
    struct buf b = {0};
    int rc = file_read(&b, path, 1 << 20, e);
    /* a NUL would hide the remaining part of its line */
    if (rc == 0 && b.n && memchr(b.data, 0, b.n))
        rc = err_set(e, ERR_FORMAT, "%s: cannot read: the file contains NUL", path);
    char *text = rc == 0 ? buf_detach(&b) : NULL;
    buf_deinit(&b);
    if (text && !vec_push(&config_texts, text)) {
        free(text);
        return err_memory(e, path, sizeof text);
    }
    int number = 0;
    for (char *next = text, *line; rc == 0 && (line = strsep(&next, "\n"));)
        rc = config_line(at, line, path, ++number, e);
    return rc;
}

/* ---- the command line ---- */

/* Set an option to its inline value or to the next argument. For a list of words, set it to all
 * arguments up to the next flag. */
static int take_value(struct cursor *at, const struct option *o, const char *inline_value,
                      struct err *e)
{
    if (inline_value) return set_value(o, "--", inline_value, e);
    if (o->kind == OPTION_FLAG) return set_value(o, "--", "true", e);
    if (at->i + 1 >= at->n)
        return err_set(e, ERR_ARG, "--%s needs a value: --%s %s", o->name, o->name, o->arg);
    int rc = set_value(o, "--", at->arg[++at->i], e);
    while (rc == 0 && o->kind == OPTION_WORDS && at->i + 1 < at->n && !is_flag(at->arg[at->i + 1]))
        rc = set_value(o, "--", at->arg[++at->i], e);
    return rc;
}

/* Return the first n bytes of the current flag, for error messages. */
static const char *typed_flag(const struct cursor *at, size_t n)
{
    static char typed[80];
    snprintf(typed, sizeof typed, "%.*s", (int)n, at->arg[at->i]);
    return typed;
}

/* Handle --name. Return 1 after --help, which ends the command. */
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
        return config_file(at, equals ? equals + 1 : at->arg[++at->i], e);
    }
    const struct option *o = find_option(at->c->options, flag, n),
                        *negated = o ? NULL : find_negated(at->c->options, flag, n);
    if (negated) return set_negated(negated);
    if (!o) return foreign_flag(at, typed_flag(at, n + 2), flag, n, equals ? equals + 1 : NULL, e);
    return take_value(at, o, equals ? equals + 1 : NULL, e);
}

/* Return true for -n5 and -oFILE, a letter followed by its value. The value must begin like a
 * number if the option is a number. */
static bool is_glued(const struct option *o, const char *value)
{
    bool number = o->kind == OPTION_INT || o->kind == OPTION_REAL;
    return o->kind != OPTION_FLAG &&
           (!number || isdigit((unsigned char)*value) || *value == '-' || *value == '.');
}

/* Handle -n, -n VALUE and -nVALUE. Letters are not grouped: -ngl is a flag of another engine, and
 * names of other engines are searched first. */
static int short_option(struct cursor *at, struct err *e)
{
    const char *flag = at->arg[at->i] + 1;
    if (*flag == 'h' && !flag[1]) {
        help_command(at->c);
        return 1;
    }
    size_t n = strchr(flag, ' ') ? strlen(flag) : strcspn(flag, "=");
    const char *value = flag[n] ? flag + n + 1 : NULL;
    const struct option *o = find_letter(at->c->options, *flag);
    bool negated;
    if (n > 1 && alias_find(flag, n, &negated)) o = NULL;
    if (o && n == 1) return take_value(at, o, value, e);
    if (o && is_glued(o, flag + 1)) return take_value(at, o, flag + 1, e);
    return foreign_flag(at, typed_flag(at, n + 1), flag, n, value, e);
}

/* Positional arguments move to the beginning of arg, which is safe because n_out never exceeds i.
 * After "--" every argument is positional. */
int options_parse(const struct command *c, int *n_arg, char **arg, struct err *e)
{
    struct cursor at = {.c = c, .n = *n_arg, .arg = arg};
    for (; at.i < at.n; at.i++) {
        char *a = arg[at.i];
        int rc = 0;
        if (!at.flags_end && strcmp(a, "--") == 0)
            at.flags_end = true;
        else if (!at.flags_end && a[0] == '-' && a[1] == '-')
            rc = long_option(&at, e);
        else if (!at.flags_end && is_flag(a))
            rc = short_option(&at, e);
        else if (at.n_out == c->arg_max)
            rc = err_set(e, ERR_ARG, "unexpected argument \"%.60s\"; usage: quoth %s %s", a,
                         c->name, c->usage);
        else
            arg[at.n_out++] = a;
        if (rc != 0) return rc;
    }
    *n_arg = at.n_out;
    return 0;
}
