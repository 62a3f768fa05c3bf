/* option_impl.h - private to option: the parser's helpers. */
#ifndef QUOTH_OPTION_IMPL_H
#define QUOTH_OPTION_IMPL_H

#include "option.h"

/* ---- parse.c ---- */

/* Compare n typed bytes with a name; `_` equals `-`. */
bool same_name(const char *typed, size_t n, const char *name);
/* Return the table's option of that name; NULL if none. */
const struct option *find_option(const struct option *table, const char *name, size_t n);

static inline bool is_list(const struct option *o)
{
    return o->kind == OPTION_LIST || o->kind == OPTION_WORDS;
}

/* ---- alias.c: spellings of other engines' servers (aliases.def) ---- */

enum alias_takes {
    TAKES_NOTHING, /* --x, --no-x, --x=BOOL          */
    TAKES_VALUE,   /* --x VALUE                      */
    TAKES_MAYBE,   /* --x, or --x one of `values`    */
    TAKES_WORDS,   /* --x VALUE..., up to a flag     */
};

struct alias {
    const char *spellings; /* separated by blanks; a final `*` matches any ending           */
    enum alias_takes takes;
    const char *values; /* "1 auto half=f16 *=*": accepted values; of = becomes option's  */
    const char *option; /* receives a value with =; NULL if none                         */
    const char *note;   /* why an accepted value without = has no effect                 */
    const char *reason; /* why other values are rejected; NULL: not supported yet        */
};

/* Places of an option's value: before or after the command's other arguments. */
#define ALIAS_MODEL  "MODEL"
#define ALIAS_PROMPT "PROMPT"

/* Return the i-th row; NULL after the last. */
const struct alias *alias_at(int i);
/* Return the alias with that spelling, NULL if none. *negated: the name is "no-" followed by a
 * spelling that takes no value. */
const struct alias *alias_find(const char *name, size_t n, bool *negated);
/* Return true if the alias lists the word as a value. */
bool alias_lists(const struct alias *a, const char *word);
/* Set *out to the value for a->option, or NULL if the option keeps its value. `typed`: the
 * spelling, with its dashes. ERR_ARG with the reason if the value is rejected. */
int alias_value(const struct alias *a, const char *typed, const char *value, const char **out,
                struct err *e);
/* Keep the note of an accepted value for options_notes. */
int alias_note(const struct alias *a, const char *typed, const char *value, struct err *e);
/* Reject two spellings that set one option to different values. */
int alias_agree(const struct alias *a, const char *typed, const char *value, struct err *e);
/* Return the spelling nearest to a mistyped one; NULL if none is near. */
const char *alias_nearest(const char *typed);

#endif
