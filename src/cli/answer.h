/* answer.h - private to cli: one answer, from ids to the displayed text.
 *
 *   dialog (messages -> ids) --answer_generate--> text --chat parser--> view (terminal or pipe)
 *
 * All of it runs on the main thread. */
#ifndef QUOTH_CLI_ANSWER_H
#define QUOTH_CLI_ANSWER_H

#include "cli.h"
#include "paint.h"

#include "api/api.h"
#include "chat/chat.h"

/* ---- sampling.c: how, as the flags set it ---- */

/* --temperature, --top-k, ... --seed, --stop */
extern const struct option sample_options[];

/* ---- defaults.c: sampling parameters of requests that name none ---- */

/* The sampling parameters, --generation-config and --override-generation-config. */
extern const struct option request_default_options[];
/* Set *p to the model's defaults (generation_config) or quoth's, overridden by the flags. ERR_ARG
 * names an invalid one. */
int request_defaults(struct sample_params *p, const struct checkpoint *c, struct err *e);

/* Set *p to the model's defaults (generation_config), overridden by the flags. Pointers are
 * borrowed from the flags. */
int sample_params_read(struct sample_params *p, const struct session *s, struct arena *a,
                       struct err *e);
struct reply_options reply_options_read(const struct session *s, struct arena *a);

/* ---- constraint.c: what the answer is held to ---- */

extern const struct option constraint_options[]; /* --json-schema, --regex, ... */
bool constraint_is_set(void);
/* Compile the flags' constraint, as api_hold_message does; chat NULL: of a completion. *out NULL: no flag is given. The error names
 * the flag. */
int flags_hold(struct constraint **out, const struct session *s, const struct chat *chat,
               const char *begun, size_t n_begun, struct chat_parser_options *parser,
               struct err *e);
void flags_release(struct constraint *c); /* NULL is fine */

/* ---- template.c: what the model sees ---- */

/* Open the template of a file FILE.jinja, or of a model, whose header is then opened too (*c must
 * be closed, also after a failure). ERR_MISSING: the model has none. */
int chat_template_of(struct template **t, struct checkpoint **c, const char *path, struct err *e);

/* ---- answer.c: generate ---- */

extern const struct option answer_options[]; /* --max-tokens and the sampling flags */
/* Print the options with the values in force: flags, else the model's, else the defaults. */
int sample_show(const struct session *s, FILE *out);

struct answer {
    struct buf text; /* the model's output, including special tokens if requested */
    /* JSON objects separated by commas; see answer_print_json */
    struct buf logprob, prompt_logprob;
    struct ids ids; /* its tokens (without the one that stopped it)                            */
    struct reply reply;
    struct constraint *constraint; /* owned until its request is made, or NULL */
};

/* Receives new text. */
typedef void answer_fn(void *ctx, const char *text, size_t n);

/* Continue `prompt` (borrowed) until the model, a limit or Ctrl-C ends it. *a must be zeroed, and
 * may be closed after a failure too. raw_text: the text keeps special tokens, regardless of
 * --show-special. */
int answer_generate(struct answer *a, struct session *s, const struct ids *prompt, bool raw_text,
                    answer_fn *fn, void *ctx, struct err *e);
void answer_deinit(struct answer *a);

/* Make Ctrl-C stop the current answer instead of the program. */
void answer_catch_interrupt(void);
bool answer_take_interrupt(void); /* true if there was one since the last call */

/* Print one line about speed to standard error; if the answer ended because the context is full,
 * also a suggestion. */
void answer_report(const struct answer *a, const struct session *s);

/* Print {"text": ...} with ids, finish_reason and timings in one line on standard output, and
 * `message` (NULL: none). */
int answer_print_json(const struct answer *a, const struct chat_message *message, struct err *e);

/* ---- view.c: print deltas as they come ---- */

struct view {
    /* painters of content and reasoning on a terminal; .out NULL: text is written unchanged */
    struct paint paint;
    FILE *out, *reasoning;     /* for content and calls; for reasoning                   */
    bool terminal, dim;        /* out is a terminal, and so is reasoning; it supports dim text */
    bool begun, calling;       /* something was printed; a call's parenthesis is open    */
    enum chat_delta_kind kind; /* of the last printed delta                              */
    int i_call;
    char last; /* the last byte printed                                  */
};
extern int view_pace_us; /* pause after every piece on a terminal, for reading (default 0) */
void view_begin(struct view *v);
void view_delta(void *view, const struct chat_delta *d); /* a chat_delta_fn */
void view_text(void *view, const char *text, size_t n);  /* an answer_fn: text without any parser */
void view_end(struct view *v);  /* closes what is open, on a terminal also the line */
bool view_may_style(FILE *out); /* true for a terminal with styles, unless NO_COLOR is set */

/* ---- dialog.c: a conversation that goes on ---- */

struct dialog {
    struct session *s;   /* borrowed */
    struct chat chat;    /* owned; without a template each prompt is completed on its own */
    struct json *tools;  /* owned; list of tools that the model may call, or NULL */
    char *system;        /* owned; NULL: none */
    struct buf messages; /* JSON objects separated by commas */
    bool as_json;        /* print answers as JSON when they are complete */
    struct buf text;     /* text of ids: the last prompt and its raw answer */
    struct ids ids;
    size_t n_text_prompt, n_id_prompt; /* the last prompt's part of text and ids */
};

/* Open a conversation with the template of --chat-template, else the model's; raw: without a
 * template. */
int dialog_open(struct dialog *d, struct session *s, bool raw, struct err *e);
void dialog_close(struct dialog *d); /* safe on a zeroed one */
void dialog_clear(struct dialog *d); /* removes the messages, keeps the system prompt */
int dialog_system(struct dialog *d, const char *text, struct err *e); /* "" removes it */
int dialog_tools(struct dialog *d, const char *list, struct err *e);  /* JSON text; NULL: none */
int dialog_think(struct dialog *d, bool on, struct err *e);           /* enable_thinking */

/* Add n bytes of text as a message of `role` ("user", or "tool" for a call's result), then
 * generate, show and keep the answer. An answer stopped by Ctrl-C is kept too, unless it had not
 * begun. After a failure the conversation is unchanged. */
int dialog_send(struct dialog *d, const char *role, const char *text, size_t n, struct answer *a,
                struct err *e);

/* Regenerate the answer to the last user message. The former answer is restored after a failure,
 * and if Ctrl-C stopped the new one before it began. ERR_MISSING: there is no user message. */
int dialog_again(struct dialog *d, struct answer *a, struct err *e);
/* Remove the last user message and all after it. Its text is appended to `text` (NULL: not wanted).
 * keep: append the text only, remove nothing. ERR_MISSING: there is no user message. */
int dialog_undo(struct dialog *d, struct buf *text, bool keep, struct err *e);

/* Save the conversation as a list of OpenAI messages in a file; dialog_load replaces the
 * conversation, including the system prompt. */
int dialog_save(const struct dialog *d, const char *path, struct err *e);
int dialog_load(struct dialog *d, const char *path, size_t *n_message, struct err *e);

/* ---- line.c: what a person types ---- */

struct line; /* opaque: the line editor with its history */

enum line_result {
    LINE_MESSAGE,     /* a message, of one or more lines  */
    LINE_DISCARDED,   /* Ctrl-C after something had been typed */
    LINE_INTERRUPTED, /* Ctrl-C on an empty prompt        */
    LINE_END,         /* Ctrl-D, or the terminal was closed */
};

/* Open the line editor, at most one per program. Until line_close, keys are kept for line_read and
 * not echoed. ERR_IO if there is no terminal. */
int line_open(struct line **out, struct err *e);
void line_close(struct line *l); /* saves the history; l may be NULL */

/* Complete the text before the cursor on Tab, to one of candidate(0), candidate(1), ... (NULL after
 * the last; a result is used before the next call). */
void line_complete(struct line *l, name_fn *candidate);
/* Begin the next line_read with this text, for editing. */
int line_begin_with(struct line *l, const char *text, struct err *e);

/* Read a message. A line that ends in a backslash continues; """ opens and closes a block of
 * lines. */
enum line_result line_read(struct line *l, struct buf *message);

/* ---- talk.c ---- */

int talk(struct dialog *d,
         bool quiet); /* Run a chat until the user leaves; return the exit status. */

#endif
