/* option_impl.h - private to option: the parser's helpers. Main thread only: the rows point to
 * variables of the commands. */
#ifndef QUOTH_OPTION_IMPL_H
#define QUOTH_OPTION_IMPL_H

#include "option.h"

/* ---- parse.c ---- */

/* Return true if n typed bytes equal a name; `_` equals `-`. */
bool same_name(const char *typed, size_t n, const char *name);
/* Return the table's option with the name; NULL if the table has no such option. */
const struct option *find_option(const struct option *table, const char *name, size_t n);

static inline bool is_list(const struct option *o)
{
    return o->kind == OPTION_LIST || o->kind == OPTION_WORDS;
}

/* ---- alias.c: spellings of other engines' servers (aliases.def) ---- */

enum alias_takes {
    TAKES_NOTHING, /* --x, --no-x, --x=BOOL          */
    TAKES_VALUE,   /* --x VALUE                      */
    TAKES_MAYBE,   /* --x, or --x VALUE with one of `values` */
    TAKES_WORDS,   /* --x VALUE..., up to a flag     */
};

/* A row of aliases.def. All texts are static, or valid until the program ends. */
struct alias {
    const char *spellings; /* spellings with blanks between them; a final `*` matches any ending */
    enum alias_takes takes;
    /* accepted values, such as "1 auto half=f16 *=*"; values with = become values of `option` */
    const char *values;
    const char *option; /* option that receives a value with =; NULL if none */
    const char *note;   /* reason why an accepted value without = has no effect */
    const char *reason; /* reason why other values are rejected; NULL: not supported yet */
};

/* Position of an option's value: before or after the command's other arguments. */
#define ALIAS_MODEL  "MODEL"
#define ALIAS_PROMPT "PROMPT"

/* Return the i-th row; NULL after the last. */
const struct alias *alias_at(int i);
/* Return the alias with the spelling; NULL if no alias has this spelling. Set *negated if the name
 * is "no-" and a spelling that takes no value. */
const struct alias *alias_find(const char *name, size_t n, bool *negated);
/* Return true if the alias lists the word among its values. */
bool alias_lists(const struct alias *a, const char *word);
/* Set *out to the value for a->option, or NULL if the option keeps its value. `typed` is the
 * spelling with its dashes. ERR_ARG with the reason if the value is rejected. *out is borrowed
 * until the program ends. ERR_MEMORY. */
int alias_value(const struct alias *a, const char *typed, const char *value, const char **out,
                struct err *e);
/* Keep the note of an accepted value for options_notes. `value` is borrowed until then.
 * ERR_MEMORY. */
int alias_note(const struct alias *a, const char *typed, const char *value, struct err *e);
/* Reject two spellings that set one option to different values. ERR_ARG for different values,
 * ERR_MEMORY. `value` is borrowed until options_notes. */
int alias_agree(const struct alias *a, const char *typed, const char *value, struct err *e);
/* Return the spelling that is nearest to a mistyped one; NULL if no spelling is near. */
const char *alias_nearest(const char *typed);

#endif
