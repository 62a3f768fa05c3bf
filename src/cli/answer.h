/* answer.h - private to cli: one answer, from ids to what a person sees.
 *
 *   dialog (messages -> ids) --answer_generate--> text --chat parser--> view (terminal or pipe)
 *
 * All of it runs on the main thread. */
#ifndef QUOTH_CLI_ANSWER_H
#define QUOTH_CLI_ANSWER_H

#include "cli.h"

#include "api/api.h"
#include "chat/chat.h"

/* ---- sampling.c: how, as the flags say ---- */

/* --temperature, --top-k, ... --seed, --stop */
extern const struct option sample_options[];

/* The model's defaults (generation_config) overridden by the flags given. Pointers are borrowed
 * from the flags. */
int sample_params_read(struct sample_params *p, const struct session *s, struct arena *a,
                       struct err *e);
struct reply_options reply_options_read(const struct session *s, struct arena *a);

/* ---- template.c: what the model sees ---- */

/* The template of a file FILE.jinja, or of a model, which is then opened too (header alone; close
 * it, also after a failure). ERR_MISSING: the model has none. */
int chat_template_of(struct template **t, struct checkpoint **c, const char *path, struct err *e);

/* ---- answer.c: generate ---- */

extern const struct option answer_options[]; /* --max-tokens and the sampling flags */

struct answer {
    struct buf text; /* what the model wrote, special tokens included where they were asked for */
    /* JSON objects with commas between; see answer_print_json */
    struct buf logprob, prompt_logprob;
    struct ids ids; /* the tokens of it (without the one that stopped it)                      */
    struct reply reply;
};

/* Take new text. */
typedef void answer_fn(void *ctx, const char *text, size_t n);

/* Continue `prompt` (borrowed) until the model, a limit or Ctrl-C ends it. A zeroed answer is ready
 * for use; after a failure it may be closed too. raw_text: the text keeps special tokens, whatever
 * --show-special says. */
int answer_generate(struct answer *a, struct session *s, const struct ids *prompt, bool raw_text,
                    answer_fn *fn, void *ctx, struct err *e);
void answer_deinit(struct answer *a);

/* Ctrl-C stops the answer that is under way instead of the program. */
void answer_catch_interrupt(void);
bool answer_take_interrupt(void); /* was there one since the last question? */

/* One line about speed to standard error, and where the answer ended for want of room, what to do.
 */
void answer_report(const struct answer *a, const struct session *s);

/* {"text": ...} with ids, finish_reason and timings in one line on standard output; `message`
 * (NULL: none) is added. */
void answer_print_json(const struct answer *a, const struct chat_message *message);

/* ---- view.c: print deltas as they come ---- */

struct view {
    FILE *out, *aside;         /* of content and calls; of reasoning                     */
    bool terminal, dim;        /* out is a terminal, so is aside; it knows dim letters   */
    bool begun, calling;       /* something was printed; a call's parenthesis is open    */
    enum chat_delta_kind kind; /* of what was printed last                               */
    int i_call;
    char last; /* the last byte printed                                  */
};
extern int view_pace_us; /* a pause behind every piece on a terminal, for reading; 0 */
void view_begin(struct view *v);
void view_delta(void *view, const struct chat_delta *d); /* a chat_delta_fn */
void view_text(void *view, const char *text, size_t n);  /* an answer_fn: text without any parser */
void view_end(struct view *v); /* closes what is open; on a terminal the line too */

/* ---- dialog.c: a conversation that goes on ---- */

struct dialog {
    struct session *s;   /* borrowed */
    struct chat chat;    /* owned; without a template each prompt is completed by itself */
    struct json *tools;  /* owned; a list of tools the model may call, or NULL */
    char *system;        /* owned; NULL: none */
    struct buf messages; /* JSON objects with commas between them */
    bool as_json;        /* print answers as JSON, when they are complete */
    struct buf text;     /* what ids stand for: the last prompt and its raw answer */
    struct ids ids;
    size_t n_text_prompt, n_id_prompt; /* the last prompt's part of them */
};

/* The template is the one of --chat-template or the model's; raw: none. */
int dialog_open(struct dialog *d, struct session *s, bool raw, struct err *e);
void dialog_close(struct dialog *d); /* safe on a zeroed one */
void dialog_clear(struct dialog *d); /* forgets the messages, keeps the system prompt */
int dialog_system(struct dialog *d, const char *text, struct err *e); /* "": none */
int dialog_tools(struct dialog *d, const char *list, struct err *e);  /* JSON text; NULL: none */
int dialog_think(struct dialog *d, bool on, struct err *e);           /* enable_thinking */

/* `role` ("user", or "tool" for a call's result) says n bytes of text; the answer is generated,
 * shown and remembered, also where Ctrl-C cut it (nothing is, if it had not begun). After a
 * failure the conversation is what it was. */
int dialog_say(struct dialog *d, const char *role, const char *text, size_t n, struct answer *a,
               struct err *e);

/* The conversation as a list of OpenAI messages in a file; loading replaces it, the system prompt
 * included. */
int dialog_save(const struct dialog *d, const char *path, struct err *e);
int dialog_load(struct dialog *d, const char *path, size_t *n_message, struct err *e);

/* ---- line.c: what a person types ---- */

struct line; /* opaque: the line editor with its history */

enum line_result {
    LINE_MESSAGE,     /* a message, of one or more lines  */
    LINE_DISCARDED,   /* Ctrl-C, something had been typed */
    LINE_INTERRUPTED, /* Ctrl-C on an empty prompt        */
    LINE_END,         /* Ctrl-D, or the terminal is gone  */
};

/* One per program. Until line_close keys are kept for line_read, unseen. ERR_IO where there is no
 * terminal to edit on. */
int line_open(struct line **out, struct err *e);
void line_close(struct line *l); /* saves the history; NULL is fine */

/* Read a message. A line that ends in a backslash goes on; """ opens and closes a block of lines.
 */
enum line_result line_read(struct line *l, struct buf *message);

/* ---- talk.c ---- */

int talk(struct dialog *d, bool quiet); /* until the user leaves; exit status */

#endif
