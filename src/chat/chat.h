/* chat.h - chat templates, and parsing of model output.
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
 * error names line and column. Renders small conversations to detect what the template supports, so
 * it takes some tens of microseconds to milliseconds. */
int template_open(struct template **t, const char *source, size_t n, struct err *e);
void template_close(struct template *t); /* NULL is fine */

/* Return the source as compiled (newlines are \n), NUL-terminated; valid as long as the
 * template. */
const char *template_source(const struct template *t);

/* Features of the template, detected by probing. Requests are adapted to them, so this is
 * information. */
struct template_caps {
    bool text_content;     /* "content": "..."                                            */
    bool typed_content;    /* "content": [{"type": "text", "text": "..."}]                */
    bool system_role;      /* else a system message is merged into the first message after it */
    bool tools;            /* prints the list of tools                                    */
    bool tool_calls;       /* prints an assistant message's tool calls                    */
    bool object_arguments; /* expects their arguments parsed, not as a JSON string        */
    bool reasoning;        /* has a thinking block (see template_thinking)                */
};
const struct template_caps *template_caps(const struct template *t);

/* Get the marks around reasoning, e.g. "<think>\n" and "\n</think>\n\n". Both are NULL if the
 * template has none. */
void template_thinking(const struct template *t, const char **open, const char **close);

/* Limits of one rendering; 0: default. Exceeding a limit fails the rendering with ERR_LIMIT. */
struct template_limits {
    uint64_t n_step_max;   /* evaluation steps (default 20 million, at most a second or two) */
    size_t n_byte_max;     /* memory while rendering (default 256 MiB)                     */
    size_t n_byte_out_max; /* rendered text (default 64 MiB)                               */
    int depth_max;         /* nesting of evaluation, macro calls included (default 600)    */
};

/* Whether generation continues the last message, the assistant's, instead of answering it. */
enum chat_continue {
    CHAT_CONTINUE_NO,
    CHAT_CONTINUE_AUTO,      /* its content, or its reasoning if it has only that */
    CHAT_CONTINUE_REASONING, /* the prompt ends inside the thinking block          */
    CHAT_CONTINUE_CONTENT,
};

struct conversation {
    /* Borrowed, parsed from a request in OpenAI's form. messages: a list of objects with a role.
     * tools, documents: lists, or NULL. kwargs (chat_template_kwargs: enable_thinking, ...): an
     * object whose fields become template variables, or NULL. */
    const struct json *messages, *tools, *documents, *kwargs;
    const char *system;                /* put first if no message has that role; NULL: none */
    const char *bos_token, *eos_token; /* text of the special tokens; NULL: "" */
    /* Template variable; "none" also turns enable_thinking off. NULL: not set. */
    const char *reasoning_effort;
    bool add_generation_prompt;
    enum chat_continue continue_final; /* not NO: add_generation_prompt is ignored */
    bool answer_only; /* only n_answer of struct chat_turn is needed; n_turn may be 0 */
    int64_t now;      /* clock of strftime_now, seconds since 1970; 0: the time of the call */
    struct template_limits limits;
};

/* Sizes of parts at the end of a prompt, in bytes. */
struct chat_turn {
    size_t n_turn;   /* the open assistant turn: generation prompt, or continued message       */
    size_t n_answer; /* at the end of n_turn, the part that already belongs to the answer:
                      * "<think>\n", continued text; push it into a chat_parser first */
};

/* Append the prompt of a conversation to *out. First adapts the messages to the template: null
 * content becomes "", lists of text parts are joined, tool-call arguments are parsed or written as
 * a string, an unsupported system message is merged into the next one.
 *   turn  start of the assistant's turn in the prompt; NULL: not needed, which saves a second
 *         rendering, as answer_only usually does
 * Returns ERR_ARG for a bad conversation or the template's raise_exception; ERR_LIMIT;
 * ERR_UNSUPPORTED for a content part that the template does not support. Existing bytes of *out are
 * kept. Any thread. */
int template_render(const struct template *t, const struct conversation *c, struct buf *out,
                    struct chat_turn *turn, struct err *e);

/* Append a rendering with exactly the variables of `context` (an object; NULL: none). Messages are
 * not adapted. */
int template_render_context(const struct template *t, const struct json *context,
                            const struct template_limits *limits, int64_t now, struct buf *out,
                            struct err *e);

/* Convert local time "2026-11-20", "2026-11-20T14:30" or with seconds to seconds since 1970: --now
 * DATE. */
int template_clock(const char *date, int64_t *now, struct err *e);

/* ---- parsing model output ---- */

/* Parser of generated text, incremental. Every text is accepted: malformed parts are content. The
 * concatenated deltas are the same for every way of cutting the text. */
struct chat_parser;

enum chat_delta_kind { CHAT_REASONING, CHAT_CONTENT, CHAT_CALL };

struct chat_delta {
    enum chat_delta_kind kind;
    /* piece of reasoning, content or call arguments (JSON text); borrowed */
    const char *text;
    size_t n;
    int i_call; /* CHAT_CALL: index of the call, from 0                                           */
    /* CHAT_CALL: function name in the first delta of a call, else NULL; borrowed */
    const char *name;
    const char *id; /* CHAT_CALL: id in the first delta if the model wrote one, else NULL */
};
typedef void chat_delta_fn(void *ctx, const struct chat_delta *d);

/* What the text of a message is held to (chat_answer_tag), so that it need not be guessed. */
struct chat_expected {
    bool closed;   /* reasoning ends at its mark alone */
    bool either;   /* the message is calls, or content: not both */
    bool verbatim; /* content has no further marks: no reasoning again, nothing to drop */
    /* borrowed: the text between reasoning and content, other blanks are content; NULL: any */
    const char *gap;
};

struct chat_parser_options {
    /* rows of parser.def or their other names; NULL: that part is not parsed and stays content */
    const char *tool_parser, *reasoning_parser;
    /* The request's tools, borrowed until the parser is closed: some families write arguments as
     * raw text, whose type is in the tool's schema. NULL: unknown, a value is JSON if it can be. */
    const struct json *tools;
    /* Calls are content; of the tool parser only the marks that its family puts around content
     * are read. */
    bool no_calls;
    struct chat_expected expected; /* zeroed: nothing is known of the text */
};

/* Open a parser. Returns ERR_ARG, with the list of names, for an unknown one. One thread at a
 * time. */
int chat_parser_open(struct chat_parser **p, const struct chat_parser_options *o, struct err *e);
void chat_parser_close(struct chat_parser *p); /* NULL is fine */

/* Parse the next piece of text. fn NULL: emit no deltas (for the prompt's n_answer bytes, which the
 * client already has). */
void chat_parser_push(struct chat_parser *p, const char *text, size_t n, chat_delta_fn *fn,
                      void *ctx);
/* End the text: emits everything pending. */
void chat_parser_finish(struct chat_parser *p, chat_delta_fn *fn, void *ctx);

/* Return the part of a message that the text pushed so far ends in. */
enum chat_place {
    CHAT_BEFORE,    /* reasoning may begin          */
    CHAT_INSIDE,    /* reasoning                    */
    CHAT_AFTER,     /* content or calls             */
    CHAT_UNDECIDED, /* what may be part of a mark of reasoning */
};
enum chat_place chat_parser_place(const struct chat_parser *p);

/* Return true if memory ran out: the deltas emitted since chat_parser_open are incomplete. */
bool chat_parser_failed(const struct chat_parser *p);

/* Return the values of the flags: the parsers, then "none". i = 0, 1, ...; NULL after the last. */
const char *chat_tool_parsers(int i);
const char *chat_reasoning_parsers(int i);

/* Return the parser that fits a template's conventions, or NULL. Static strings. */
const char *chat_tool_parser_of(const struct template *t);
const char *chat_reasoning_parser_of(const struct template *t);

/* ---- the grammar of an answer ---- */

/* A function that may be called. */
struct chat_tool {
    const char *name; /* borrowed [n_name] */
    size_t n_name;
    const char *schema; /* borrowed [n_schema]: JSON Schema of its arguments; NULL: any object */
    size_t n_schema;
    size_t i; /* its place in the request's tools, for errors */
};

/* What an answer may be: reasoning as `place` allows, then calls, content or free text with calls in it. */
struct chat_answer {
    const struct template *t;                   /* borrowed; NULL: none */
    const char *tool_parser, *reasoning_parser; /* NULL: none */
    enum chat_place place;        /* of the prompt's part of the answer; not CHAT_UNDECIDED */
    const struct chat_tool *tool; /* borrowed [n_tool] */
    size_t n_tool;                /* 0: no calls */
    bool one_call;
    bool
        no_text; /* calls, or content if there is one; otherwise free text, with calls wherever a mark of one is */
    const char
        *content; /* borrowed [n_content]: a structural tag's format of the content; NULL: none */
    size_t n_content;
    const char *gap; /* as in struct chat_expected */
    /* Return the length of the special token at the front of text[0, n), 0 if it begins with none: such a token has no other spelling. */
    size_t (*special)(const void *arg, const char *text, size_t n);
    const void *special_arg;
};

/* Append the structural tag (grammar.h, GRAMMAR_TAG) of an answer. The texts of calls are those of the parser's family.
 * ERR_ARG, ERR_UNSUPPORTED: the family cannot write what "tools" or "tool_choice" requires. */
int chat_answer_tag(struct buf *out, const struct chat_answer *a, struct err *e);

/* Return what the parser of such an answer may rely on. */
struct chat_expected chat_answer_expected(const struct chat_answer *a);

/* Return whether a mark begins the calls of a parser's family; otherwise a message that is one may also be JSON. */
bool chat_calls_are_marked(const char *tool_parser);

/* Return the blanks that the template writes between reasoning and content. Static, or valid as long as t. */
const char *chat_reasoning_gap(const struct template *t, const char *reasoning_parser);

/* A whole message, collected by chat_message_add. Zeroed is empty. */
struct chat_call {
    char *name, *id; /* owned; id may be NULL */
    struct buf arguments;
};
struct chat_message {
    struct buf content, reasoning;
    struct chat_call *call; /* [n_call], owned */
    size_t n_call, cap_call;
    bool failed; /* memory ran out: the message is incomplete */
};
/* Add a delta to a struct chat_message; a chat_delta_fn. */
void chat_message_add(void *message, const struct chat_delta *d);
void chat_message_deinit(struct chat_message *m);

#endif
