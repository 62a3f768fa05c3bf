/* chat.h - chat templates, and reading what a model wrote back.
 *
 *   messages + tools --template_render--> prompt text          (to the tokenizer)
 *   generated text --chat_parser_push--> reasoning, content, tool calls
 *
 * A template is Jinja, as published with the model; it is compiled once and immutable, so any
 * thread may render it. Template and conversation are hostile input: steps, nesting, memory and
 * output are limited. */
#ifndef QUOTH_CHAT_CHAT_H
#define QUOTH_CHAT_CHAT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdint.h>

/* ---- templates ---- */

struct template;

/* Compile n bytes of UTF-8 template source (at most 1 MiB; copied). On failure *t is NULL and the
 * sentence names line and column. Finds out by rendering small conversations what the template
 * supports, so it takes some tens of microseconds to milliseconds. */
int template_open(struct template **t, const char *source, size_t n, struct err *e);
void template_close(struct template *t); /* NULL is fine */

/* The source as compiled (newlines are \n), NUL-terminated; lives as long as the template. */
const char *template_source(const struct template *t);

/* What the template can take, found by probing it. Requests are shaped to it, so this is
 * information. */
struct template_caps {
    bool text_content;     /* "content": "..."                                            */
    bool typed_content;    /* "content": [{"type": "text", "text": "..."}]                */
    bool system_role;      /* else a system message is merged into the first one behind it */
    bool tools;            /* it prints the list of tools                                 */
    bool tool_calls;       /* it prints an assistant message's tool calls                 */
    bool object_arguments; /* it wants their arguments parsed, not as a JSON string       */
    bool reasoning;        /* it knows a thinking block (see template_thinking)           */
};
const struct template_caps *template_caps(const struct template *t);

/* How the template marks reasoning: the texts before and behind it, e.g. "<think>\n" and
 * "\n</think>\n\n". Both NULL where it has none. */
void template_thinking(const struct template *t, const char **open, const char **close);

/* 0 takes the default. Passing a limit fails the rendering with ERR_LIMIT. */
struct template_limits {
    uint64_t n_step_max;   /* evaluation steps; 20 million, a second or two at worst       */
    size_t n_byte_max;     /* memory while rendering; 256 MiB                              */
    size_t n_byte_out_max; /* rendered text; 64 MiB                                        */
    int depth_max;         /* nesting of evaluation, macro calls included; 600             */
};

/* Does the last message, the assistant's, go on instead of being answered? */
enum chat_continue {
    CHAT_CONTINUE_NO,
    CHAT_CONTINUE_AUTO,      /* its content, or its reasoning if it has that alone */
    CHAT_CONTINUE_REASONING, /* the prompt ends inside the thinking block          */
    CHAT_CONTINUE_CONTENT,
};

struct conversation {
    /* Borrowed, as parsed from a request in OpenAI's form. messages: a list of objects with a role.
     * tools, documents: lists, or NULL. kwargs (chat_template_kwargs: enable_thinking, ...): an
     * object whose fields the template sees as variables, or NULL. */
    const struct json *messages, *tools, *documents, *kwargs;
    const char *bos_token, *eos_token; /* text of the special tokens; NULL: "" */
    /* A variable of templates that know it; "none" turns enable_thinking off. NULL: not said */
    const char *reasoning_effort;
    bool add_generation_prompt;
    enum chat_continue continue_final; /* not NO: add_generation_prompt is ignored */
    bool answer_only; /* of struct chat_turn n_answer alone is wanted, n_turn may be 0 */
    int64_t now; /* clock of strftime_now, seconds since 1970; 0: the time of the call */
    struct template_limits limits;
};

/* Bytes at the end of a prompt. */
struct chat_turn {
    size_t n_turn;   /* the opened assistant's turn: generation prompt, or what is continued   */
    size_t n_answer; /* at the end of that, what belongs to the answer already: "<think>\n",
                      * continued text; push them into a chat_parser first */
};

/* Append the prompt of a conversation to *out. The messages are first brought into the form that
 * the template takes: null content becomes "", lists of text parts are joined, tool-call arguments
 * are parsed or written as a string, an unsupported system message is merged into the next one.
 *   turn  where the assistant's turn begins in the prompt; NULL: not asked, which saves a second
 * rendering, as answer_only mostly does. ERR_ARG: the conversation or the template's raise_exception; ERR_LIMIT;
 * ERR_UNSUPPORTED: a content part the template cannot take. *out keeps what it had before. Any
 * thread. */
int template_render(const struct template *t, const struct conversation *c, struct buf *out,
                    struct chat_turn *turn, struct err *e);

/* Append a rendering with exactly the variables of `context` (an object; NULL: none). Nothing is
 * reshaped. */
int template_render_context(const struct template *t, const struct json *context,
                            const struct template_limits *limits, int64_t now, struct buf *out,
                            struct err *e);

/* "2026-11-20", "2026-11-20T14:30" or with seconds, local time, to seconds since 1970: --now DATE.
 */
int template_clock(const char *date, int64_t *now, struct err *e);

/* ---- reading what the model wrote ---- */

/* Reads generated text as it comes. It never fails: what is malformed is content. The pieces'
 * borders do not matter: the concatenated deltas are the same for every way of cutting the text. */
struct chat_parser;

enum chat_delta_kind { CHAT_REASONING, CHAT_CONTENT, CHAT_CALL };

struct chat_delta {
    enum chat_delta_kind kind;
    const char
        *text; /* a piece of reasoning or content, or of a call's arguments (JSON text); borrowed */
    size_t n;
    int i_call; /* CHAT_CALL: which call, from 0                                                  */
    const char
        *name; /* CHAT_CALL: the function's name in a call's first delta, else NULL; borrowed     */
    const char *id; /* ... and its id where the model wrote one, else NULL */
};
typedef void chat_delta_fn(void *ctx, const struct chat_delta *d);

/* Names of the rows of parser.def; NULL: that part is not looked for and stays content. ERR_ARG for
 * an unknown name lists the known ones. One thread at a time. */
int chat_parser_open(struct chat_parser **p, const char *tool_parser, const char *reasoning_parser,
                     struct err *e);
void chat_parser_close(struct chat_parser *p); /* NULL is fine */

/* The next piece of text. fn NULL: read, but tell nobody (for the prompt's n_answer bytes that a
 * client has). */
void chat_parser_push(struct chat_parser *p, const char *text, size_t n, chat_delta_fn *fn,
                      void *ctx);
void chat_parser_finish(struct chat_parser *p, chat_delta_fn *fn,
                        void *ctx); /* no more text: all is told */

/* The parsers that fit a template's conventions, or NULL. Static strings. */
const char *chat_tool_parser_of(const struct template *t);
const char *chat_reasoning_parser_of(const struct template *t);

/* A whole message at once: the same through one call. Zeroed is empty. */
struct chat_call {
    char *name, *id; /* owned; id may be NULL */
    struct buf arguments;
};
struct chat_message {
    struct buf content, reasoning;
    struct chat_call *call; /* [n_call], owned */
    size_t n_call, cap_call;
};
void chat_message_add(void *message,
                      const struct chat_delta *d); /* a chat_delta_fn that collects */
void chat_message_deinit(struct chat_message *m);

#endif
