/* cli.h - the command line: a table of commands, each a table of options and a function.
 *
 * Results go to standard output, everything else to standard error. A command exits 0, 1 (it
 * failed; one sentence says why) or 2 (usage). Help, the man page, config files and the parser all
 * read the same tables. */
#ifndef QUOTH_CLI_H
#define QUOTH_CLI_H

#include "base/buf.h"
#include "base/err.h"

#include <quoth.h>
#include <stdint.h>
#include <stdio.h>

enum option_kind {
    OPTION_END,
    OPTION_GROUP, /* no flag: `include` is another table                     */
    OPTION_FLAG,  /* bool *: present = true; --no-NAME = false               */
    OPTION_INT,   /* int64_t *, checked against [lo, hi]                     */
    OPTION_REAL,  /* double *, checked against [lo, hi]                      */
    OPTION_TEXT,  /* const char **                                           */
    OPTION_LIST,  /* struct text_list *: may be repeated; --no-NAME empties  */
    OPTION_WORDS, /* the same, and takes all words up to the next flag       */
};

struct text_list { /* of borrowed texts */
    const char **v;
    size_t n, cap;
};

struct option {
    enum option_kind kind;
    const char *name; /* "max-tokens"; `_` and `-` are alike on the command line */
    char letter;      /* 'n' for -n, or 0 */
    const char *arg;  /* what the help calls the value: "N", "FILE" */
    const char *help; /* one line; ends with the default where there is one */
    void *target;
    double lo, hi;                /* INT, REAL; a value outside is one that was never set */
    const struct option *include; /* GROUP */
};

struct command {
    const char *name, *summary;
    const char *usage;                 /* what follows the name: "[MODEL] [PROMPT] [OPTIONS]" */
    const char *detail;                /* a paragraph or two for --help and the man page */
    const struct option *options;      /* ended by OPTION_END */
    int n_arg_max;                     /* positional arguments at most */
    int (*run)(int n_arg, char **arg); /* exit status */
    /* NULL-terminated, or NULL. A command with such a list is one of them, which its first argument
     * names ("bench tokenize"); it has no options and no run of its own. */
    const struct command *const *sub;
};

#define COMMAND(id) extern const struct command command_##id;
#include "commands.def"
#undef COMMAND
const struct command *const *command_list(void); /* NULL-terminated, in the order of commands.def */

/* The command that the words name: `c`, or one of its sub-commands. *n_word: how many of the words
 * were used. NULL: there is none, and a sentence with the nearest name has been printed. */
const struct command *command_find(int n, char **word, int *n_word);

/* Fill the targets of c->options from the command line (and --config FILE). Positional arguments
 * are moved to the front of arg, *n_arg says how many. 0, or 1: help was printed (exit 0), or
 * ERR_ARG with the sentence (exit 2). */
int options_parse(const struct command *c, int *n_arg, char **arg, struct err *e);

/* Set one option of a table while the program runs, as --NAME VALUE would (`value` is borrowed for
 * ever); NULL: as --NAME alone. ERR_ARG as options_parse. And print the names with their values,
 * one per line. */
int options_set(const struct option *table, const char *name, const char *value, struct err *e);
void options_show(const struct option *table, FILE *out);

/* The nearest of `names` to a mistyped one; NULL if none is near. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

void help_command(const struct command *c);
void help_all(void);
void help_man(void); /* troff, to standard output */

/* Print "quoth COMMAND: sentence" to standard error; returns 1. */
int fail(const char *command, const struct err *e);

#endif
