/* chat.h - chat templates, and parsing of model output.
 *
 *   messages + tools --template_render--> prompt text          (to the tokenizer)
 *   generated text --chat_parser_push--> reasoning, content, tool calls
 *
 * A template is Jinja, as published with the model. A compiled template is immutable, so any thread
 * may render it. One thread at a time uses a parser, a track or a message. Template and
 * conversation are hostile input. Steps, nesting, memory and output are limited. */
#ifndef QUOTH_CHAT_CHAT_H
#define QUOTH_CHAT_CHAT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdint.h>

/* ---- templates ---- */

struct template;

/* Compile n bytes of UTF-8 template source, at most 1 MiB. The source is copied. The caller owns
 * *t, which is NULL after an error. ERR_FORMAT with line and column, ERR_LIMIT with the size,
 * ERR_MEMORY. template_open detects the features of the template by rendering small conversations,
 * in up to milliseconds. */
int template_open(struct template **t, const char *source, size_t n, struct err *e);
void template_close(struct template *t); /* free t; NULL is allowed */

/* Return the compiled source, NUL-terminated, with \n as newline. The text is valid as long as the
 * template. */
const char *template_source(const struct template *t);

/* Features of the template, detected by probing. Callers need not use these features, because
 * template_render adapts messages to the template. */
struct template_caps {
    bool text_content;     /* true: content may be a string, "content": "..." */
    bool typed_content;    /* true: content may be a list, [{"type": "text", "text": "..."}] */
    bool system_role;      /* false: system messages are merged into the next message */
    bool tools;            /* true: the template prints the list of tools */
    bool tool_calls;       /* true: the template prints the tool calls of an assistant message */
    bool object_arguments; /* true: arguments of calls are an object, not a JSON string */
    bool reasoning;        /* true: the template has a thinking block (template_thinking) */
};
/* Return the features of a template, borrowed from t. */
const struct template_caps *template_caps(const struct template *t);

/* Return true if the template uses the variable reasoning_effort. */
bool template_knows_effort(const struct template *t);
/* Return true if the template has a variable that turns reasoning off: reasoning_effort,
 * enable_thinking, or DeepSeek's `thinking`. */
bool template_can_skip_reasoning(const struct template *t);
/* Get the marks around reasoning, e.g. "<think>\n" and "\n</think>\n\n". *open and *close are NULL
 * if the template has no reasoning. The texts are valid as long as t. */
void template_thinking(const struct template *t, const char **open, const char **close);

/* Limits of one rendering; 0: default. The rendering fails with ERR_LIMIT if it exceeds a limit. */
struct template_limits {
    uint64_t step_max;    /* evaluation steps (default 20 million, at most about 2 s) */
    size_t bytes_max;     /* bytes of memory while rendering (default 256 MiB) */
    size_t out_bytes_max; /* bytes of rendered text (default 64 MiB) */
    int depth_max;        /* depth of evaluation and of macro calls (default 600) */
};

/* Beginning of generation: a new answer, or a continuation of the assistant's last message. */
enum chat_continue {
    CHAT_CONTINUE_NO,
    CHAT_CONTINUE_AUTO, /* continue the message's content, or its reasoning if it has no content */
    CHAT_CONTINUE_REASONING, /* end the prompt inside the thinking block */
    CHAT_CONTINUE_CONTENT,
};

/* A template variable with a text of n bytes. */
struct chat_variable {
    const char *name, *text;
    size_t n;
};

/* A conversation to render. All pointers are borrowed for template_render. */
struct conversation {
    /* parsed from a request in OpenAI's form. messages: list of objects with a role. tools,
     * documents: lists; NULL if none. kwargs: object of template variables, such as
     * enable_thinking; NULL if none */
    const struct json *messages, *tools, *documents, *kwargs;
    const char *system; /* system message if no message has that role; NULL if none */
    /* texts of special tokens, [n_token]; bos_token and eos_token are "" if they are absent */
    const struct chat_variable *token;
    int n_token;
    /* Template variable; NULL if not set. "none" also sets enable_thinking and `thinking` to false.
     * Other words set both to true if the template does not use reasoning_effort. */
    const char *reasoning_effort;
    bool add_generation_prompt;
    /* beginning of generation; add_generation_prompt is ignored unless it is NO */
    enum chat_continue continue_final;
    /* true: template_render sets n_answer of struct chat_turn, and may leave n_turn 0 */
    bool answer_only;
    /* true: template_render rejects a conversation with a part without effect on the prompt. For
     * templates of requests: the check renders the conversation at least twice per message */
    bool checks_parts;
    int64_t now; /* time of strftime_now, seconds since 1970; 0: time of the call */
    struct template_limits limits;
    /* evaluation steps that several renderings share in place of limits.step_max; each rendering
     * subtracts its steps. NULL if none */
    uint64_t *steps_left;
};

/* Sizes of parts at the end of a prompt, in bytes. */
struct chat_turn {
    size_t n_turn; /* bytes of the open assistant turn: generation prompt, or continued message */
    /* Bytes at the end of the turn that belong to the answer, such as "<think>\n" or a continued
     * text. The caller first pushes these bytes into a chat_parser. */
    size_t n_answer;
};

/* Append the prompt of a conversation to *out. Existing bytes of *out are kept. The messages are
 * first adapted to the template. Null content becomes "". Lists of text parts are joined. Arguments
 * of calls become objects or strings. An unsupported system message is merged into the next
 * message.
 *   turn  start of the assistant's turn in the prompt; NULL: not needed. NULL avoids a second
 * rendering. answer_only usually also avoids a second rendering. Return ERR_ARG for an invalid
 * conversation, a message that the template ignores, or the template's raise_exception. Return
 * ERR_UNSUPPORTED for a content part that the template does not support. Return ERR_LIMIT if the
 * rendering exceeds a limit. Return ERR_MEMORY. *out is unchanged after an error. Any thread. */
int template_render(const struct template *t, const struct conversation *c, struct buf *out,
                    struct chat_turn *turn, struct err *e);

/* Convert local time to seconds since 1970, for --now DATE. Forms: "2026-11-20",
 * "2026-11-20T14:30", "2026-11-20T14:30:00". ERR_ARG for another form. */
int template_clock(const char *date, int64_t *now, struct err *e);

/* ---- parsing model output ---- */

/* Incremental parser of generated text. The parser accepts every text, because malformed parts are
 * content. The concatenated deltas do not depend on the division of the text into pieces. */
struct chat_parser;

enum chat_delta_kind { CHAT_REASONING, CHAT_CONTENT, CHAT_CALL };

struct chat_delta {
    enum chat_delta_kind kind;
    /* piece of reasoning, content or call arguments (JSON text); borrowed */
    const char *text;
    size_t n;
    int i_call; /* CHAT_CALL: index of the call in the message, from 0 */
    /* CHAT_CALL: function name in the first delta of a call, borrowed; NULL in later deltas */
    const char *name;
    /* CHAT_CALL: id in the first delta, borrowed; NULL in later deltas, or if the model wrote
     * none */
    const char *id;
};
typedef void chat_delta_fn(void *ctx, const struct chat_delta *d);

/* Properties of a message that its grammar guarantees (chat_answer_tag). The parser requires these
 * properties. */
struct chat_expected {
    bool closed;   /* true: reasoning ends only at its mark */
    bool either;   /* true: the message consists of either calls or content */
    bool verbatim; /* true: content contains no marks of reasoning and no marks to remove */
    bool complete; /* true: the arguments of each call are whole JSON, if the family writes JSON */
    /* text between reasoning and content, borrowed; all other blanks are content. NULL: any blanks
     * are removed */
    const char *gap;
};

struct chat_parser_options {
    /* names or aliases in parser.def, borrowed for chat_parser_open; NULL: calls or reasoning
     * remain content */
    const char *tool_parser, *reasoning_parser;
    /* The request's tools, borrowed until the parser is closed; NULL if unknown. Some families
     * write arguments as raw text, which has the type of the tool's schema. A value of unknown type
     * is JSON if the text is valid JSON. */
    const struct json *tools;
    /* true: calls are content. The tool parser only removes the marks of its family from
     * content. */
    bool no_calls;
    struct chat_expected expected; /* guaranteed properties of the text; zeroed if none */
};

/* Open a parser. The caller owns *p, which is NULL after an error. ERR_ARG for an unknown name,
 * with a list of the available names. ERR_MEMORY. One thread at a time. */
int chat_parser_open(struct chat_parser **p, const struct chat_parser_options *o, struct err *e);
void chat_parser_close(struct chat_parser *p); /* free p; NULL is allowed */

/* Parse the next piece of text. fn: callback for deltas; NULL: no deltas are emitted. The caller
 * passes NULL for the n_answer bytes of the prompt if the client already has these bytes. */
void chat_parser_push(struct chat_parser *p, const char *text, size_t n, chat_delta_fn *fn,
                      void *ctx);
/* End the text: emit all pending deltas. */
void chat_parser_finish(struct chat_parser *p, chat_delta_fn *fn, void *ctx);

/* Parts of a message. chat_parser_place returns the part at the end of the pushed text. */
enum chat_place {
    CHAT_BEFORE,    /* before the message's text: reasoning may begin */
    CHAT_INSIDE,    /* reasoning                    */
    CHAT_AFTER,     /* content or calls             */
    CHAT_UNDECIDED, /* the end of the text may be a part of a mark of reasoning */
};
/* Return the place at the end of the pushed text. */
enum chat_place chat_parser_place(const struct chat_parser *p);

/* Return true if memory is exhausted. The deltas emitted since chat_parser_open are then
 * incomplete. */
bool chat_parser_failed(const struct chat_parser *p);

/* State of a search for reasoning in a text that arrives byte by byte. The marks are those of a
 * parser's family. The size of the struct is fixed, so that a copy of it saves the state. A zeroed
 * struct finds no reasoning. */
struct chat_track {
    const struct reason_family *family; /* static; NULL: no reasoning */
    unsigned char place;                /* enum in track.c */
    bool anywhere;                      /* true: reasoning may begin after any text */
    unsigned char n_held;
    char
        held[62]; /* [n_held] end of the text that may be a part of a mark, without double blanks */
};
/* Begin the search before the first byte. reasoning_parser: a name in parser.def. anywhere:
 * reasoning may begin after any text, not only at the beginning of a message. Return false if the
 * family is unknown or NULL. */
bool chat_track_begin(struct chat_track *t, const char *reasoning_parser, bool anywhere);
/* Process the next n bytes of the text. The text is not kept. */
void chat_track_push(struct chat_track *t, const char *text, size_t n);
/* Return true if the text ends inside the reasoning. */
bool chat_track_inside(const struct chat_track *t);
/* Return true if the message has no reasoning after this text. */
bool chat_track_ended(const struct chat_track *t);
/* Return the mark that ends reasoning. The text is static. */
const char *chat_track_end_mark(const struct chat_track *t);

/* Return value i of the flag --tool-call-parser, from 0: the parsers, then "none". NULL after the
 * last value. The text is static. */
const char *chat_tool_parsers(int i);
/* Return value i of the flag --reasoning-parser, from 0: the parsers, then "none". NULL after the
 * last value. The text is static. */
const char *chat_reasoning_parsers(int i);

/* Return the name of the tool parser for the conventions of a template; NULL if none. The text is
 * static. */
const char *chat_tool_parser_of(const struct template *t);
/* Return the name of the reasoning parser for the conventions of a template; NULL if none. The text
 * is static. */
const char *chat_reasoning_parser_of(const struct template *t);

/* ---- the grammar of an answer ---- */

/* A function that the model may call. */
struct chat_tool {
    const char *name; /* function name, borrowed [n_name] */
    size_t n_name;
    const char *schema; /* JSON Schema of its arguments, borrowed [n_schema]; NULL: any object */
    size_t n_schema;
    /* text of the only argument, `input`, as a member of a structural tag, borrowed [n_input];
     * NULL: the schema defines the arguments */
    const char *input;
    size_t n_input;
    size_t i; /* index of the function in the request's tools, for errors */
};

/* The permitted forms of an answer: reasoning if `place` permits it, then calls, content, or free
 * text that contains calls. */
struct chat_answer {
    const struct template *t;                   /* template, borrowed; NULL if none */
    const char *tool_parser, *reasoning_parser; /* borrowed; NULL if none */
    /* place at the end of the prompt's part of the answer; not CHAT_UNDECIDED */
    enum chat_place place;
    const struct chat_tool *tool; /* permitted functions, borrowed [n_tool] */
    size_t n_tool;                /* 0: no calls */
    bool one_call;
    bool no_text;      /* true: the answer consists of calls or `content`, without other text */
    bool begun;        /* true: the prompt has begun the content */
    bool no_reasoning; /* true: no reasoning may begin */
    /* format of the content in a structural tag, borrowed [n_content]; NULL if none */
    const char *content;
    size_t n_content;
    const char *gap; /* borrowed; text between reasoning and content (struct chat_expected) */
    /* Return the length in bytes of the special token at the front of text[0, n); 0 if none. A
     * special token has only one spelling. */
    size_t (*special)(const void *arg, const char *text, size_t n);
    const void *special_arg; /* borrowed; argument of `special` */
};

/* Append the structural tag of an answer (grammar.h, GRAMMAR_TAG). Calls are written in the form
 * of the parser's family. *a is borrowed for the call. ERR_UNSUPPORTED or ERR_ARG if the family
 * cannot write the calls required by "tools" or "tool_choice". ERR_LIMIT if there are too many
 * tools. ERR_MEMORY. */
int chat_answer_tag(struct buf *out, const struct chat_answer *a, struct err *e);

/* Return the properties that the grammar of answer `a` guarantees to the parser. */
struct chat_expected chat_answer_expected(const struct chat_answer *a);

/* Return true if calls of the parser's family begin with a mark. A whole message may be a call or
 * other JSON if the result is false. */
bool chat_calls_are_marked(const char *tool_parser);

/* Return the blanks that the template writes between reasoning and content. The text is static, or
 * valid as long as t. */
const char *chat_reasoning_gap(const struct template *t, const char *reasoning_parser);

/* A tool call of a struct chat_message. */
struct chat_call {
    char *name, *id; /* owned; id: NULL if none */
    struct buf arguments;
    bool custom; /* true: `arguments` is the text of a custom tool's call */
};
/* A whole message, collected by chat_message_add. A zeroed message is empty. */
struct chat_message {
    struct buf content, reasoning; /* owned */
    struct chat_call *call;        /* tool calls, owned [n_call] */
    size_t n_call, cap_call;
    bool failed; /* true if memory is exhausted, which leaves the message incomplete */
};
/* Append a delta to `message`, a struct chat_message. The function is a chat_delta_fn. */
void chat_message_add(void *message, const struct chat_delta *d);
/* Free the texts and the calls of the message. A zeroed message is allowed. */
void chat_message_deinit(struct chat_message *m);

#endif
