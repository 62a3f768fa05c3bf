/* answer.h - private to cli: one answer, from ids to the displayed text.
 *
 *   dialog (messages -> ids) --answer_generate--> text --chat parser--> view (terminal or pipe)
 *
 * All functions run on the main thread. */
#ifndef QUOTH_CLI_ANSWER_H
#define QUOTH_CLI_ANSWER_H

#include "cli.h"
#include "paint.h"

#include "api/api.h"
#include "chat/chat.h"

/* ---- sampling.c: sampling flags ---- */

/* --temperature, --top-k, ... --seed, --stop */
extern const struct option sample_options[];

/* ---- defaults.c: default sampling parameters of requests ---- */

/* The sampling parameters, --generation-config and --override-generation-config. */
extern const struct option request_default_options[];
/* Set a->defaults and a->max_tokens to the model's defaults (generation_config) or quoth's,
 * overridden by the flags. ERR_ARG contains the invalid flag. */
int request_defaults(struct api *a, const struct checkpoint *c, struct err *e);

/* Set *p to the model's defaults (generation_config), overridden by the flags. max_tokens: limit of
 * the model's default of min_tokens, because a default is no error of the user. The lists in *p are
 * in the arena a or borrowed from the flags. ERR_LIMIT if a bad word is too long, ERR_MEMORY. */
int sample_params_read(struct sample_params *p, const struct session *s, int max_tokens,
                       struct arena *a, struct err *e);
/* Return the reply options of the flags. Stop strings are in the arena a. There are no stop strings
 * if memory is exhausted. */
struct reply_options reply_options_read(const struct session *s, struct arena *a);

/* ---- constraint.c: constraint of the answer ---- */

extern const struct option constraint_options[]; /* --json-schema, --regex, ... */
bool constraint_is_set(void);
/* return ERR_ARG for several constraints or an empty constraint */
int constraint_check(struct err *e);
/* structured.c: options for the JSON that constraints produce; the second table is for servers */
extern const struct option structured_options[], structured_server_options[];
void structured_read(struct api *a); /* set the fields of structured_options */
/* Compile the flags' constraint, like api_constrain_message. chat NULL: the answer is a completion.
 * The caller owns *out, also after an error; NULL if no flag is given. The error contains the flag:
 * ERR_ARG for several constraints or an empty constraint, ERR_IO or ERR_LIMIT for its file, and the
 * errors of api_constrain_message. */
int flags_constrain(struct constraint **out, const struct session *s, const struct chat *chat,
                    const char *begun, size_t n_begun, struct chat_parser_options *parser,
                    struct err *e);
/* Limit the reasoning of a message by --thinking-token-budget. *c: constraint of the message; NULL
 * if none. The new *c contains the old constraint. The caller owns *c, also after an error. chat
 * NULL: the answer is not a message. ERR_UNSUPPORTED with the flag, ERR_MEMORY. */
int flags_limit_reasoning(struct constraint **c, const struct session *s, const struct chat *chat,
                          const char *begun, size_t n_begun, struct err *e);
void flags_close_constraint(struct constraint *c); /* free a constraint; NULL is allowed */

/* ---- template.c: the prompt template ---- */

/* Open the template of a file FILE.jinja, or of a model, whose header is also opened. The caller
 * owns *t and *c, and also closes *c after a failure. ERR_MISSING if the model has no template, and
 * the errors of chat_template and checkpoint_open. */
int chat_template_of(struct template **t, struct checkpoint **c, const char *path, struct err *e);

/* ---- answer.c: generate ---- */

extern const struct option answer_options[]; /* --max-tokens and the sampling flags */
/* Print the values of the options. The values are from the flags, the model, or the defaults. */
int sample_show(const struct session *s, FILE *out);

struct answer {
    struct buf text; /* the model's output, including special tokens if requested */
    /* JSON objects separated by commas; see answer_print_json */
    struct buf logprob, prompt_logprob;
    struct ids ids; /* tokens of the answer, without the token that stopped it */
    struct reply reply;
    struct constraint *constraint; /* owned until its request is made; NULL if none */
};

/* Callback that receives new text of the answer. */
typedef void answer_fn(void *ctx, const char *text, size_t n);

/* Continue `prompt` (borrowed) until the model, a limit or Ctrl-C ends it. *a must be zeroed, and
 * may be closed after a failure. raw_text: the text keeps special tokens, regardless of
 * --show-special. The request takes a->constraint. ERR_FORMAT if the constraint or the model allows
 * no token, ERR_ARG for --ignore-eos with a constraint. Also the errors of sample_params_read,
 * reply_open and engine_submit. */
int answer_generate(struct answer *a, struct session *s, const struct ids *prompt, bool raw_text,
                    answer_fn *fn, void *ctx, struct err *e);
void answer_deinit(struct answer *a);

/* Make Ctrl-C stop the current answer instead of the program. */
void answer_catch_interrupt(void);
bool answer_take_interrupt(void); /* return true after a Ctrl-C since the last call */

/* Print one line about speed to standard error. Also print a suggestion if the answer ended because
 * the context is full. in_chat: the context contains earlier messages. */
void answer_report(const struct answer *a, const struct session *s, bool in_chat);

/* Print {"text": ...} with ids, finish_reason, timings and `message` (NULL if none) as one line on
 * standard output. ERR_MEMORY. */
int answer_print_json(const struct answer *a, const struct chat_message *message, struct err *e);

/* ---- view.c: print deltas as they arrive ---- */

struct view {
    /* painters of content and reasoning on a terminal; .out NULL: text is written unchanged */
    struct paint paint;
    FILE *out, *reasoning; /* borrowed: streams of content and calls, and of reasoning */
    /* terminal: true if out and reasoning are terminals. dim: true if both support dim text. */
    bool terminal, dim;
    /* begun: true after printed text. calling: true inside a call's parenthesis. */
    bool begun, calling;
    enum chat_delta_kind kind; /* kind of the last printed delta */
    int i_call;
    char last; /* last byte printed */
};
/* pause after each piece on a terminal, so that people can read (default 0) */
extern int view_pace_us;
void view_begin(struct view *v);
/* Print a delta of a message; a chat_delta_fn. */
void view_delta(void *view, const struct chat_delta *d);
/* Print text without a parser; an answer_fn. */
void view_text(void *view, const char *text, size_t n);
/* Print to standard error. A terminal gets the text wrapped at words, with rows after the first
 * indented to the column `hang`, or less if the terminal is narrow. */
void view_note(int hang, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void view_end(struct view *v);  /* end open styles and calls; on a terminal, also end the line */
bool view_may_style(FILE *out); /* return true for a terminal with styles, unless NO_COLOR is set */

/* ---- dialog.c: a conversation ---- */

struct dialog {
    struct session *s;   /* model and engine, borrowed */
    struct chat chat;    /* owned; without a template the model completes each prompt separately */
    struct json *tools;  /* owned; list of tools that the model may call; NULL if none */
    char *system;        /* system prompt, owned; NULL: no system prompt */
    struct buf messages; /* JSON objects separated by commas */
    bool as_json;        /* true: print complete answers as JSON */
    /* ids of the conversation and their text: the last prompt and its raw answer */
    struct buf text;
    struct ids ids;
    size_t n_text_prompt, n_id_prompt; /* lengths of the last prompt's part in text and ids */
};

/* Open a conversation with the template of --chat-template, or the model's without that flag. raw:
 * open the conversation without a template. s is borrowed until dialog_close. The caller calls
 * dialog_close also after an error. ERR_MEMORY, and the errors of chat_open. */
int dialog_open(struct dialog *d, struct session *s, bool raw, struct err *e);
void dialog_close(struct dialog *d); /* free the memory; a zeroed dialog is allowed */
void dialog_clear(struct dialog *d); /* remove the messages, keep the system prompt */
/* Set the system prompt to a copy of text; "" removes the prompt. The prompt is unchanged after
 * ERR_MEMORY. */
int dialog_system(struct dialog *d, const char *text, struct err *e);
/* Set the tools, a JSON text; NULL: no tools. Errors: those of json_parse. After an error there are
 * no tools. */
int dialog_tools(struct dialog *d, const char *list, struct err *e);
/* Set the template variable enable_thinking. The variable is unchanged after ERR_MEMORY. */
int dialog_think(struct dialog *d, bool on, struct err *e);

/* Add n bytes of text as a message of `role` ("user", or "tool" for a call's result), then
 * generate, show and keep the answer. The text so far is kept if Ctrl-C stops an answer after its
 * first text. The conversation is unchanged after a failure. Errors: those of template_render,
 * tokenizer_encode, flags_constrain and answer_generate. */
int dialog_send(struct dialog *d, const char *role, const char *text, size_t n, struct answer *a,
                struct err *e);

/* Regenerate the answer to the last user message. The previous answer is restored after a failure,
 * and if Ctrl-C stopped the new answer before its first text. ERR_MISSING if there is no user
 * message. */
int dialog_again(struct dialog *d, struct answer *a, struct err *e);
/* Remove the last user message and all later messages. Append the user message's text to `text`
 * (NULL: do not append). keep: append the text, but remove no message. ERR_MISSING if there is no
 * user message. */
int dialog_undo(struct dialog *d, struct buf *text, bool keep, struct err *e);

/* Save the conversation as a list of OpenAI messages in a file. dialog_load replaces the
 * conversation, including the system prompt, and sets *n_message to the number of messages. The
 * conversation is unchanged after an error. ERR_IO, ERR_MEMORY. dialog_save: ERR_ARG if the path is
 * too long. dialog_load: ERR_FORMAT if the file is not a list of messages, ERR_LIMIT for more than
 * 64 MiB. */
int dialog_save(const struct dialog *d, const char *path, struct err *e);
int dialog_load(struct dialog *d, const char *path, size_t *n_message, struct err *e);

/* ---- line.c: user input ---- */

struct line; /* line editor with its history, opaque */

enum line_result {
    LINE_MESSAGE,     /* a message, of one or more lines */
    LINE_DISCARDED,   /* Ctrl-C after some input */
    LINE_INTERRUPTED, /* Ctrl-C on an empty prompt */
    LINE_END,         /* Ctrl-D, or the terminal was closed */
};

/* Open the line editor, at most one per program. Until line_close, keys are kept for line_read and
 * not echoed. The caller owns *out. ERR_IO if there is no terminal. */
int line_open(struct line **out, struct err *e);
void line_close(struct line *l); /* save the history and free l; NULL is allowed */

/* Set the candidates for Tab, which completes the text before the cursor: candidate(0),
 * candidate(1), ... The function returns NULL after the last. A result must be valid until the next
 * call. */
void line_complete(struct line *l, name_fn *candidate);
/* Begin the next line_read with a copy of this text, for editing. ERR_MEMORY. */
int line_begin_with(struct line *l, const char *text, struct err *e);

/* Read a message. A line that ends with a backslash continues on the next line. """ opens and
 * closes a block of lines. */
enum line_result line_read(struct line *l, struct buf *message);

/* ---- talk.c ---- */

/* Run a chat until the user ends it. quiet: print no hints. Return the exit status. */
int talk(struct dialog *d, bool quiet);

#endif
