/* option.h - tables of options, which the parser, help, man page and config files read; the options
 * that open a model, and opening the model by them; a progress line. The commands themselves are
 * in cli/, bench/ and load/.
 *
 * Results go to standard output, everything else to standard error. A command exits with 0, 1 (failed;
 * one sentence gives the reason) or 2 (usage). Main thread only. */
#ifndef QUOTH_OPTION_H
#define QUOTH_OPTION_H

#include "base/buf.h"
#include "base/err.h"
#include "base/names.h"
#include "base/range.h"

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
    OPTION_LIST,  /* struct text_list *: may be repeated; --no-NAME empties it */
    OPTION_WORDS, /* as LIST, and takes all words up to the next flag        */
};

struct text_list { /* owned array of borrowed texts */
    const char **v;
    size_t n, cap;
};

struct option {
    enum option_kind kind;
    const char *name; /* "max-tokens"; `_` and `-` are equal on the command line */
    char letter;      /* 'n' for -n, or 0 */
    const char *arg;  /* the value's name in the help: "N", "FILE" */
    const char *help; /* one line; ends with the default if there is one */
    void *target;
    double lo, hi;                /* INT, REAL: limits; a target outside them means "not set" */
    const struct range *range;    /* INT, REAL: replaces lo and hi; NULL: they apply */
    const struct option *include; /* GROUP */
    name_fn *names;               /* legal values of a TEXT; NULL: any */
    form_fn *form;                /* INT, TEXT, LIST, WORDS: further check of a value; NULL: none */
    bool many;                    /* a TEXT of several names, separated by commas */
    bool secret;                  /* options_print omits its value */
    bool json;                    /* LIST: a value may also be a JSON list of texts */
};

/* Rows of a table: the flag, the value's name in the help, the target (the wrong type causes a
 * compiler warning), limits, help. Further fields follow the help: .letter = 'n'. */
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
#define NAME_OPTION(flag, what, at, list, ...)                                                     \
    OPTION_ROW(OPTION_TEXT, const char *, flag, what, at, .names = list, .help = __VA_ARGS__)
#define FORM_OPTION(flag, what, at, judge, ...)                                                    \
    OPTION_ROW(OPTION_TEXT, const char *, flag, what, at, .form = judge, .help = __VA_ARGS__)
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
    const char *usage;            /* the arguments after the name: "[MODEL] [PROMPT] [OPTIONS]" */
    const char *detail;           /* one or two paragraphs for --help and the man page */
    const struct option *options; /* ended by OPTION_END */
    int n_arg_max;                /* maximum positional arguments */
    void (*prepare)(void);        /* called after parsing, before anything is logged; or NULL */
    int (*run)(int n_arg, char **arg); /* exit status */
    /* NULL-terminated, or NULL. Sub-commands, selected by the first argument ("bench tokenize");
     * such a command has no options and no run of its own. */
    const struct command *const *sub;
};

/* ---- command.c: tables of commands, NULL-terminated ---- */

/* Return the command of the list that the words name, or its sub-command. *n_word: number of words
 * used. If there is none, print a sentence with the nearest name and return NULL. */
const struct command *command_find(const struct command *const *list, int n, char **word,
                                   int *n_word);

/* Print "quoth COMMAND: sentence" to standard error; returns 1. */
int fail(const char *command, const struct err *e);
/* Write a text to standard output and free it. ERR_MEMORY if an append to it failed before; nothing
 * is written. */
int print_out(struct buf *take_b, struct err *e);

/* ---- parse.c: what was typed ---- */

/* Fill the targets of c->options from the command line (and --config FILE). Positional arguments
 * are moved to the front of arg; *n_arg is their number. Returns 0, 1 if help was printed (exit 0),
 * or ERR_ARG with the sentence (exit 2). */
int options_parse(const struct command *c, int *n_arg, char **arg, struct err *e);

/* Log one line for each accepted flag of another engine that has no effect, once. */
void options_notes(void);

/* Set one option of a table while the program runs, as --NAME VALUE would (`value` is borrowed for
 * ever); NULL: as --NAME alone. ERR_ARG as options_parse; ERR_MISSING if there is no option with
 * that or a similar name. */
int options_set(const struct option *table, const char *name, const char *value, struct err *e);
/* Return what options_set would return, and set nothing. */
int options_judge(const struct option *table, const char *name, const char *value, struct err *e);
/* Print the names with their values, one per line. */
void options_show(const struct option *table, FILE *out);

/* Return the name of the table's i-th option, i = 0, 1, ...; NULL after the last. */
const char *option_name(const struct option *table, int i);

/* Print the options as a config file that --config reads: "name: value", and "# name:" if not set. */
void options_print(const struct option *table, FILE *out);

/* Return the nearest of `names` to a mistyped one; NULL if none is near. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

/* ---- help.c: tables as text, to standard output ---- */

void help_command(const struct command *c);
void help_all(const struct command *const *list);
void help_man(const struct command *const *list); /* troff */

/* ---- model.c: opening what session/session.h opens, by the options ---- */

struct session;
struct session_options;
struct session_size;

/* Flags of the command line; the defaults before parsing. */
extern struct session_options session_flags;

/* --threads, --cpu, --activation-dtype, --kv-cache-dtype, --block-size, --max-model-len, ... */
extern const struct option model_options[];
/* --load-format, --shape, --quant, --pure, --dummy-seed: part of model_options */
extern const struct option load_options[];
/* --chat-template, --default-chat-template-kwargs, --now, --system */
extern const struct option chat_options[];
extern const struct option chat_parser_options[]; /* for commands that parse answers */
const char *chat_system(void);                    /* --system, or NULL */

/* Return --shape, else the path of the model packed into this program; NULL with a sentence if
 * there is none. `typed` is the argument given instead (NULL: none), which may be a mistyped
 * command. */
const char *session_bundled(const char *typed, struct err *e);

/* Open everything except the engine, with n_seq rows and n_out outputs of a step at most. `context`
 * is the upper limit of the context if --max-model-len is not given (0: none). */
int session_open(struct session *s, const char *path, int n_seq, int n_out, int context,
                 struct err *e);
/* Open it with all sizes given. */
int session_open_sized(struct session *s, const char *path, const struct session_size *size,
                       struct err *e);
int session_backend(struct session *s, struct err *e); /* open only the backend */
int session_engine(struct session *s, struct err *e);
int session_page_rows(void);        /* value of --block-size */
const char *session_act_name(void); /* value of --activation-dtype */

/* ---- sampling.c: a flag for each number of sample/params.def ---- */

/* --temperature, --top-k, ...: parameters of quoth run, and defaults of requests for serve and
 * batch. */
extern const struct option sampling_options[];
/* --min-tokens, --ignore-eos: for single requests only. */
extern const struct option sampling_one_options[];

struct sample_params;
struct json;

/* Set the fields whose flags were given. */
void sampling_read(struct sample_params *p);
/* Append the given flags as members of a JSON object, each after a comma, except members of
 * `except` (NULL: none). */
void sampling_put(struct buf *b, const struct json *except);
/* Print a table that includes these options, as if all of p had been given. */
void sampling_show(const struct sample_params *p, const struct option *table, FILE *out);

/* ---- progress.c: one line on a terminal; nothing where standard error is none ---- */

/* Draw a bar for `done` of n, at most ten times per second and at the end, which ends the line. */
void progress_bar(const char *what, uint64_t done, uint64_t n);

/* Draw a bar with the average rate since the beginning, per_s, and the time left at that rate; n 0:
 * unknown. */
void progress_rate(const char *what, uint64_t done, uint64_t n, double per_s);

/* Draw a bar followed by a text. */
void progress_text(const char *what, uint64_t done, uint64_t n, const char *text);

/* Show what is being done now, replacing the previous note; NULL: remove it. */
void progress_note(const char *what);

#endif
