/* alias.c - spellings of other engines' servers. Each spelling becomes an option, has no effect, or
 * is rejected with the reason. aliases.def lists them. parse.c calls this file for flags that the
 * command's own options lack.
 *
 *   typed value --alias_value--> a value of quoth's option   (parse.c sets it)
 *                            '-> no effect                   (alias_note; options_notes logs it)
 *                            '-> ERR_ARG: quoth's spelling, the reason, or "not supported yet"
 *
 * An alias is one line of aliases.def: spellings, kind of value, accepted values, option, note,
 * reason. Uses of the current command line are kept in `uses` until options_notes, because a note
 * is logged only after the log's format is known. */
#include "option_impl.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct alias aliases[] = {
#define ALIAS(...)                              {__VA_ARGS__},
#define SAME(spellings, option)                 {spellings, TAKES_VALUE, "*=*", option, NULL, NULL},
#define IDLE(spellings, takes, values, note)    {spellings, takes, values, NULL, note, NULL},
#define ONLY(spellings, takes, values, note, w) {spellings, takes, values, NULL, note, w},
#define LATER(spellings, takes)                                                                    \
    {spellings, takes, (takes) == TAKES_NOTHING ? "false" : NULL, NULL, "it is off", NULL},
#define NEVER(spellings, takes, why) {spellings, takes, NULL, NULL, NULL, why},
#include "aliases.def"
#undef ALIAS
#undef SAME
#undef IDLE
#undef ONLY
#undef LATER
#undef NEVER
};
enum { N_ALIAS = sizeof aliases / sizeof aliases[0] };

/* ---- lists of words with blanks between ---- */

/* Return the next word from *at on, with its length; NULL after the last. */
static const char *next_word(const char **at, size_t *n)
{
    while (*at && **at == ' ') (*at)++;
    if (!*at || !**at) return NULL;
    const char *word = *at;
    *n = strcspn(word, " ");
    *at += *n;
    return word;
}

/* ---- spellings ---- */

/* Compare a typed name with one spelling. A `*` at the end of the spelling matches any ending. */
static bool fits(const char *name, size_t n, const char *spelling, size_t n_spelling, bool open)
{
    char text[64];
    bool star = spelling[n_spelling - 1] == '*';
    if (star != open || n_spelling >= sizeof text) return false;
    size_t n_begin = n_spelling - star;
    memcpy(text, spelling, n_begin);
    text[n_begin] = 0;
    return n >= n_begin && (star || n == n_begin) && same_name(name, n_begin, text);
}

/* Return the alias of a typed name. open: search only spellings that end with `*`. Exact spellings
 * are searched first, because a `*` may also match them. */
static const struct alias *find(const char *name, size_t n, bool open)
{
    size_t n_word;
    for (int i = 0; i < N_ALIAS; i++) {
        const char *at = aliases[i].spellings;
        for (const char *word; (word = next_word(&at, &n_word));)
            if (fits(name, n, word, n_word, open)) return &aliases[i];
    }
    return NULL;
}

const struct alias *alias_at(int i)
{
    return i >= 0 && i < N_ALIAS ? &aliases[i] : NULL;
}

/* *negated: the name is "no-" before the spelling of a flag without a value. Exact spellings
 * precede open ones, so a `*` cannot hide an exact spelling. */
const struct alias *alias_find(const char *name, size_t n, bool *negated)
{
    *negated = false;
    const struct alias *a = find(name, n, false);
    if (!a && n > 3 && same_name(name, 3, "no-")) {
        a = find(name + 3, n - 3, false);
        *negated = a && a->takes == TAKES_NOTHING;
        if (!*negated) a = NULL;
    }
    return a ? a : find(name, n, true);
}

/* The result is static and valid until the next call. Spellings of fewer than 4 characters are not
 * suggested, because they are similar to most short words. */
const char *alias_nearest(const char *typed)
{
    static char near[64];
    const char *names[512];
    char *copies = NULL;
    size_t n_name = 0, n_word, n_byte = 0;
    for (int i = 0; i < N_ALIAS; i++) n_byte += strlen(aliases[i].spellings) + 1;
    copies = malloc(n_byte);
    if (!copies) return NULL;
    char *to = copies;
    for (int i = 0; i < N_ALIAS; i++) {
        const char *at = aliases[i].spellings, *values = aliases[i].values;
        if (!values || strcmp(values, "false") == 0) continue; /* the flag accepts no value */
        for (const char *word; (word = next_word(&at, &n_word));) {
            if (n_word < 4 || word[n_word - 1] == '*' || n_name == 512) continue;
            memcpy(to, word, n_word);
            to[n_word] = 0;
            names[n_name++] = to;
            to += n_word + 1;
        }
    }
    const char *found = nearest_name(typed, names, n_name);
    snprintf(near, sizeof near, "%s", found ? found : "");
    free(copies);
    return *near ? near : NULL;
}

/* ---- values ---- */

/* Return true if the n bytes of a word equal the text, ignoring case. */
static bool is_word(const char *word, size_t n, const char *text)
{
    return strlen(text) == n && strncasecmp(word, text, n) == 0;
}

bool alias_lists(const struct alias *a, const char *text)
{
    const char *at = a->values;
    size_t n;
    for (const char *word; (word = next_word(&at, &n));)
        if (is_word(word, strcspn(word, " ="), text)) return true;
    return false;
}

/* Append the accepted values as part of a sentence: "1", "f16, bf16 or q8_0". */
static void put_values(struct buf *b, const struct alias *a)
{
    const char *at = a->values;
    size_t n, n_next;
    const char *next = next_word(&at, &n_next);
    for (int i = 0; next; i++) {
        const char *word = next;
        n = n_next;
        next = next_word(&at, &n_next);
        const char *equals = memchr(word, '=', n);
        buf_add_text(b, i == 0 ? "" : next ? ", " : " or ");
        buf_add(b, word, equals ? (size_t)(equals - word) : n);
    }
}

/* Set the error for a value that an alias does not accept. Always return an error code. */
static int reject(const struct alias *a, const char *typed, const char *value, struct err *e)
{
    const char *why = a->reason ? a->reason : "not supported yet";
    struct buf list = {0};
    if (a->takes == TAKES_NOTHING || !a->values) return err_set(e, ERR_ARG, "%s: %s", typed, why);
    put_values(&list, a);
    int rc = list.failed ? err_memory(e, typed, list.n)
                         : err_set(e, ERR_ARG, "%s: must be %s, got \"%.60s\": %s", typed,
                                   list.data, value, why);
    buf_deinit(&list);
    return rc;
}

/* never freed, because options borrow the values until the program ends */
static VEC(char *) values_kept;

/* `values` is a list of words with blanks between them:
 *    f16=float16   the typed f16 sets the option to float16
 *    f16           the typed f16 has no effect
 *    *=*           any value is passed on
 *    *=hf:*        any value is passed on after "hf:"
 *    *             any value has no effect */
int alias_value(const struct alias *a, const char *typed, const char *value, const char **out,
                struct err *e)
{
    char word_of_list[64];
    const char *at = a->values;
    size_t n;
    *out = NULL;
    for (const char *word; (word = next_word(&at, &n));) {
        const char *equals = memchr(word, '=', n);
        size_t n_left = equals ? (size_t)(equals - word) : n;
        bool any = n_left == 1 && *word == '*';
        if (!any && !is_word(word, n_left, value)) continue;
        if (!equals) return alias_note(a, typed, value, e);
        snprintf(word_of_list, sizeof word_of_list, "%.*s", (int)(n - n_left - 1), equals + 1);
        if (strcmp(word_of_list, "*") == 0) return *out = value, 0;
        size_t n_begin = strcspn(word_of_list, "*");
        char *copy = NULL;
        if (asprintf(&copy, "%.*s%s", (int)n_begin, word_of_list,
                     word_of_list[n_begin] ? value : "") < 0)
            copy = NULL;
        if (copy && vec_push(&values_kept, copy)) return *out = copy, 0;
        free(copy);
        return err_memory(e, typed, n);
    }
    return reject(a, typed, value, e);
}

/* ---- one option, several spellings ---- */

/* An alias on this command line. `typed` is owned until options_notes. All other fields are
 * borrowed until the program ends. */
struct use {
    const struct alias *alias;
    const char *typed, *value, *note;
};
static VEC(struct use) uses;

/* Record the use of an alias. `typed` is copied, because it may be on the stack. */
static int record_alias(const struct alias *a, const char *typed, const char *value,
                        const char *note, struct err *e)
{
    struct use u = {a, strdup(typed), value, note};
    if (u.typed && vec_push(&uses, u)) return 0;
    free((void *)u.typed);
    return err_memory(e, typed, sizeof u);
}

/* The note omits the value "true" or "false" of a flag that takes no value. */
int alias_note(const struct alias *a, const char *typed, const char *value, struct err *e)
{
    bool alone =
        a->takes == TAKES_NOTHING || (a->takes == TAKES_MAYBE && strcmp(value, "true") == 0);
    return record_alias(a, typed, alone ? NULL : value, a->note, e);
}

/* Two spellings of one option with different values are an error. No spelling has precedence,
 * because the spellings are those of different engines. */
int alias_agree(const struct alias *a, const char *typed, const char *value, struct err *e)
{
    for (size_t i = 0; i < uses.n; i++) {
        const struct use *u = &uses.v[i];
        bool same = u->alias->option && strcmp(u->alias->option, a->option) == 0;
        if (same && !u->note && strcmp(u->value, value) != 0)
            return err_set(e, ERR_ARG, "%s: %s has set --%s to \"%.60s\" already", typed, u->typed,
                           a->option, u->value);
    }
    return record_alias(a, typed, value, NULL, e);
}

void options_notes(void)
{
    enum log_level level = log_level_max;
    /* report a flag without effect also if the log level is lower */
    log_level_max = level > LOG_INFO ? level : LOG_INFO;
    for (size_t i = 0; i < uses.n; i++) {
        const struct use *u = &uses.v[i];
        const char *space = u->value ? " " : "", *value = u->value ? u->value : "";
        if (u->note) log_info("%s%s%s: accepted; %s", u->typed, space, value, u->note);
    }
    for (size_t i = 0; i < uses.n; i++) free((void *)uses.v[i].typed);
    log_level_max = level;
    vec_deinit(&uses);
}
