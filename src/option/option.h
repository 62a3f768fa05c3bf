/* option.h - tables of options, which the parser, help, man page and config files read. This header
 * also has the options and functions that open a model, and a progress line. The commands
 * themselves are in cli/, bench/ and load/.
 *
 * Results go to standard output, other output to standard error. A command exits with 0, 1
 * (failure, with its reason in one sentence) or 2 (usage). Main thread only. */
#ifndef QUOTH_OPTION_H
#define QUOTH_OPTION_H

#include "base/buf.h"
#include "base/err.h"
#include "base/names.h"
#include "base/nearest.h"
#include "base/range.h"

#include <quoth.h>
#include <stdint.h>
#include <stdio.h>

/* ---- tables ---- */

enum option_kind {
    OPTION_END,
    OPTION_GROUP, /* rows of another table, `include`, instead of a flag */
    OPTION_FLAG,  /* bool *: present = true; --no-NAME = false               */
    OPTION_INT,   /* int64_t *, checked against [lo, hi]                     */
    OPTION_REAL,  /* double *, checked against [lo, hi]                      */
    OPTION_TEXT,  /* const char **                                           */
    OPTION_LIST,  /* struct text_list *: may be repeated; --no-NAME empties it */
    OPTION_WORDS, /* OPTION_LIST whose values are all words up to the next flag */
};

/* A row of a table. Pointers are borrowed as long as the table is used; those of the commands are
 * static. */
struct option {
    enum option_kind kind;
    /* name of the flag, such as "max-tokens"; `_` and `-` are equal on the command line */
    const char *name;
    char letter;      /* 'n' for -n, or 0 */
    const char *arg;  /* name of the value in the help, such as "N"; NULL: a flag without a value */
    const char *help; /* help in one line; ends with the default if there is a default */
    /* variable that the option sets, borrowed; a text in it is valid until the program ends */
    void *target;
    double lo, hi; /* INT, REAL: limits; a target outside of them means "not set" */
    /* INT, REAL: range in place of lo and hi; NULL: lo and hi apply */
    const struct range *range;
    const struct option *include; /* GROUP */
    name_fn *names;               /* legal values of a TEXT; NULL: any text */
    form_fn *form; /* INT, TEXT, LIST, WORDS: further check of a value; NULL if none */
    bool many;     /* true for a TEXT of several names with commas between them */
    bool secret;   /* true if options_print omits its value */
    /* true for a LIST whose value may also be a JSON list of strings */
    bool json;
};

/* Rows of a table: the flag, the value's name in the help, the target, limits, help. A target of
 * the wrong type causes a compiler warning. Other fields may follow the help, such as .letter =
 * 'n'. */
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

/* A command of the program. All pointers are static. */
struct command {
    const char *name, *summary;
    const char *usage;            /* arguments after the name: "[MODEL] [PROMPT] [OPTIONS]" */
    const char *detail;           /* one or two paragraphs for --help and the man page */
    const struct option *options; /* ended by OPTION_END */
    int arg_max;                  /* maximum positional arguments */
    /* function that is called after parsing, before any log line; NULL if none */
    void (*prepare)(void);
    int (*run)(int n_arg, char **arg); /* function that returns the exit status */
    /* Sub-commands, NULL-terminated; NULL: no sub-commands. The first argument selects one ("bench
     * tokenize"). A command with sub-commands has no options and no run. */
    const struct command *const *sub;
};

/* ---- command.c: tables of commands, NULL-terminated ---- */

/* Return the command of the list with these words, or its sub-command. *n_word: number of words
 * used. Print a sentence with the nearest name and return NULL if there is no such command. */
const struct command *command_find(const struct command *const *list, int n, char **word,
                                   int *n_word);

/* Print "quoth COMMAND: sentence" to standard error. Return 1. */
int fail(const char *command, const struct err *e);
/* Write a text to standard output and free it. ERR_MEMORY, without output, if an earlier append to
 * the text failed. */
int print_out(struct buf *take_b, struct err *e);

/* ---- parse.c: the command line and config files ---- */

/* Fill the targets of c->options from the command line and --config FILE. Positional arguments move
 * to the front of arg; *n_arg becomes their number. Texts of the command line are borrowed until
 * the program ends. Return 0, 1 if help was printed (exit 0), or an error with the sentence (exit
 * 2). ERR_ARG for a flag. ERR_FORMAT, ERR_IO or ERR_LIMIT for a config file. ERR_MEMORY. */
int options_parse(const struct command *c, int *n_arg, char **arg, struct err *e);

/* Log one line for each accepted flag of another engine without effect. Only the first call
 * logs. */
void options_notes(void);

/* Set one option of a table while the program runs, like --NAME VALUE, or like --NAME if value is
 * NULL. `value` is borrowed until the program ends. ERR_ARG for a wrong value. ERR_MISSING if no
 * option has that or a similar name. ERR_MEMORY if a list cannot grow. */
int options_set(const struct option *table, const char *name, const char *value, struct err *e);
/* Return the result that options_set would return, without setting the option. */
int options_judge(const struct option *table, const char *name, const char *value, struct err *e);
/* Print the names with their values, one per line. */
void options_show(const struct option *table, FILE *out);

/* Return the name of the table's i-th option, i = 0, 1, ...; NULL after the last. */
const char *option_name(const struct option *table, int i);

/* Print the options as a config file for --config: "name: value", and "# name:" if not set. */
void options_print(const struct option *table, FILE *out);

/* ---- help.c: tables as text, to standard output ---- */

/* Print the help of one command to standard output. Main thread. */
void help_command(const struct command *c);
/* Print the commands of a list that NULL ends to standard output. Main thread. */
void help_all(const struct command *const *list);
/* Print the man page as troff to standard output. */
void help_man(const struct command *const *list);

/* ---- completion.c: tables as scripts of shells, to standard output ---- */

/* Print the script that completes the commands of a list that NULL ends. Return false if the shell
 * is not bash, zsh or fish. Main thread. */
bool completion_print(const struct command *const *list, const char *shell);

/* ---- model.c: open sessions by the options ---- */

struct session;
struct session_options;
struct session_size;

/* Flags of the command line. The flags have their defaults before parsing. */
extern struct session_options session_flags;

/* flags --threads, --cpu, --activation-dtype, --kv-cache-dtype, --block-size, --max-model-len,
 * ... */
extern const struct option model_options[];
/* --load-format, --shape, --quant, --pure, --dummy-seed, --pull: part of model_options */
extern const struct option load_options[];
bool model_pulls(void); /* return the value of the flag --pull */
/* --chat-template, --default-chat-template-kwargs, --now, --system */
extern const struct option chat_options[];
extern const struct option chat_parser_options[]; /* options of commands that parse answers */
const char *chat_system(void);                    /* return the value of --system; NULL if none */

/* Return --shape, or the path of the model packed into this program. Set e and return NULL if there
 * is no packed model. `typed`: argument in place of a model (NULL if none), which may be a mistyped
 * command. The result is borrowed until the program ends. ERR_MISSING is in e. */
const char *session_bundled(const char *typed, struct err *e);

/* Open all parts except the engine, with n_seq rows and at most n_out outputs of a step. `context`
 * is the maximum context without --max-model-len (0 if none). ERR_ARG for an option. ERR_IO,
 * ERR_MISSING, ERR_FORMAT, ERR_UNSUPPORTED or ERR_LIMIT for a file or the sizes of the model.
 * ERR_MEMORY. After an error, no part is open. */
int session_open(struct session *s, const char *path, int n_seq, int n_out, int context,
                 struct err *e);
/* Open a session with the given sizes, which are borrowed for the call. Errors: those of
 * session_open. */
int session_open_sized(struct session *s, const char *path, const struct session_size *size,
                       struct err *e);
/* Open only the backend. Errors: those of backend_open. */
int session_backend(struct session *s, struct err *e);
/* Start the engine of an open session on its own thread. ERR_ARG for an option, ERR_IO for the
 * trace file, ERR_LIMIT if a sequence needs more recurrent states than exist, ERR_MEMORY. */
int session_engine(struct session *s, struct err *e);
int session_page_rows(void);        /* return the value of --block-size */
const char *session_act_name(void); /* return the value of --activation-dtype, static */

/* ---- sampling.c: a flag for each number of sample/params.def ---- */

/* --temperature, --top-k, ...: parameters of quoth run; for serve and batch, defaults of
 * requests. */
extern const struct option sampling_options[];
/* --min-tokens, --ignore-eos: only for commands with single requests. */
extern const struct option sampling_one_options[];

struct sample_params;
struct json;

/* Set the fields whose flags are on the command line. */
void sampling_read(struct sample_params *p);
struct sampling_flags; /* values of these flags, opaque */
/* Return a copy of the flags, which the caller frees with free(); NULL if memory is exhausted. */
struct sampling_flags *sampling_flags_copy(void);
/* Set the flags to the values of a copy, for callers with several sets of values. */
void sampling_flags_set(const struct sampling_flags *f);
/* Append the given flags as members of a JSON object, with a comma before each member. Members of
 * `except` are omitted (NULL if none). */
void sampling_put(struct buf *b, const struct json *except);
/* Print a table that includes these options, as if all values of p were given. */
void sampling_show(const struct sample_params *p, const struct option *table, FILE *out);

/* ---- progress.c: one line on standard error if it is a terminal ---- */

/* Draw a bar for `done` of n, at most ten times per second, and at the end. The drawing for done =
 * n ends the line. */
void progress_bar(const char *what, uint64_t done, uint64_t n);

/* Draw a bar with the average rate since the beginning, per_s, and the remaining time at this rate.
 * n 0: the total is unknown. */
void progress_rate(const char *what, uint64_t done, uint64_t n, double per_s);

/* Draw a bar followed by a text. */
void progress_text(const char *what, uint64_t done, uint64_t n, const char *text);

/* Show a note on the current work in place of the previous note. NULL: remove the note. */
void progress_note(const char *what);

#endif
