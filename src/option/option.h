/* option.h - what commands are made of: tables of options, which help, the man page, config files and
 * the parser all read; the options that open a model, and the model opened as they say; a line that
 * says how far something is. The commands themselves are in cli/ and bench/.
 *
 * Results go to standard output, everything else to standard error. A command exits 0, 1 (it
 * failed; one sentence says why) or 2 (usage). Main thread only. */
#ifndef QUOTH_OPTION_H
#define QUOTH_OPTION_H

#include "base/buf.h"
#include "base/err.h"
#include "session/session.h"

#include <quoth.h>
#include <stdint.h>
#include <stdio.h>

/* ---- tables ---- */

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

/* Rows of a table: the flag, what the help calls its value, where that goes (of another type it does not compile without
 * a warning), bounds, help. Fields behind the help are further ones: .letter = 'n'. */
#define OPTION_ROW(kind_, type, flag, what, at, ...)                                               \
    {                                                                                              \
        .kind = kind_, .name = flag, .arg = what, .target = 1 ? (at) : (type *)0, __VA_ARGS__      \
    }
#define INT_OPTION(flag, what, at, low, high, ...)                                                 \
    OPTION_ROW(OPTION_INT, int64_t, flag, what, at, .lo = low, .hi = high, .help = __VA_ARGS__)
#define REAL_OPTION(flag, what, at, low, high, ...)                                                \
    OPTION_ROW(OPTION_REAL, double, flag, what, at, .lo = low, .hi = high, .help = __VA_ARGS__)
#define FLAG_OPTION(flag, at, ...)                                                                 \
    OPTION_ROW(OPTION_FLAG, bool, flag, NULL, at, .help = __VA_ARGS__)
#define TEXT_OPTION(flag, what, at, ...)                                                           \
    OPTION_ROW(OPTION_TEXT, const char *, flag, what, at, .help = __VA_ARGS__)
#define LIST_OPTION(flag, what, at, ...)                                                           \
    OPTION_ROW(OPTION_LIST, struct text_list, flag, what, at, .help = __VA_ARGS__)
#define WORDS_OPTION(flag, what, at, ...)                                                          \
    OPTION_ROW(OPTION_WORDS, struct text_list, flag, what, at, .help = __VA_ARGS__)
#define OPTIONS_OF(table)                                                                          \
    {                                                                                              \
        .kind = OPTION_GROUP, .include = table                                                     \
    }
#define OPTIONS_END                                                                                \
    {                                                                                              \
        .kind = OPTION_END                                                                         \
    }

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

/* ---- command.c: tables of commands, NULL-terminated ---- */

/* The command of the list that the words name: `c`, or one of its sub-commands. *n_word: how many of
 * the words were used. NULL: there is none, and a sentence with the nearest name has been printed. */
const struct command *command_find(const struct command *const *list, int n, char **word,
                                   int *n_word);

/* Print "quoth COMMAND: sentence" to standard error; returns 1. */
int fail(const char *command, const struct err *e);

/* ---- parse.c: what was typed ---- */

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

/* ---- help.c: tables as text, to standard output ---- */

void help_command(const struct command *c);
void help_all(const struct command *const *list);
void help_man(const struct command *const *list); /* troff */

/* ---- model.c: opening what session/session.h opens, as the options say ---- */

/* What was typed; the defaults before it was read. */
extern struct session_options session_flags;

/* --threads, --cpu, --activation-dtype, --kv-cache-dtype, --block-size, --max-model-len, ... */
extern const struct option model_options[];
/* --load-format, --shape, --quant, --pure, --dummy-seed: a part of model_options */
extern const struct option load_options[];
/* --chat-template, --default-chat-template-kwargs, --now, --system */
extern const struct option chat_options[];
const char *chat_system(void); /* --system, or NULL */

/* --shape, else the model packed into this program; NULL with a sentence if there is none. `typed`
 * is what stood in its place (NULL: nothing), which may have been meant as one. */
const char *session_bundled(const char *typed, struct err *e);

/* Open everything but the engine: rows and outputs of a step at most. `context` caps the context
 * where --max-model-len was not given (0: no cap). */
int session_open(struct session *s, const char *path, int n_seq, int n_out, int context,
                 struct err *e);
/* The same where more than that is to be said. */
int session_open_sized(struct session *s, const char *path, const struct session_size *size,
                       struct err *e);
int session_backend(struct session *s, struct err *e); /* the backend alone */
int session_engine(struct session *s, struct err *e);
int session_page_rows(void);        /* as --block-size says */
const char *session_act_name(void); /* as --activation-dtype says */
/* The allocation plan, to standard error. */
void session_report(const struct session *s);

/* ---- progress.c: one line on a terminal; nothing where standard error is none ---- */

/* Of n; a bar, drawn again at most ten times a second, and at the end, which also ends the line. */
void progress_bar(const char *what, uint64_t done, uint64_t n);

/* The same with so many a second since the beginning, and the time that is left at that rate; n 0:
 * not known. */
void progress_rate(const char *what, uint64_t done, uint64_t n, double per_s);

/* The same with a text behind the bar. */
void progress_text(const char *what, uint64_t done, uint64_t n, const char *text);

/* What is being done now, in the place of what stood there; NULL: nothing any more. */
void progress_note(const char *what);

#endif
