/* parser_impl.h - stages of the model output parser. A stage consumes the front of a text.
 *
 *   push --> [reasoning stage] --parser_pass--> [tool stage] --> deltas
 *                  |parser_emit                     |parser_emit
 *
 * step() of a stage gets all unconsumed text. step() consumes the part that no further text can
 * change, so that the division into pieces has no effect. Any thread. A parser with its stages
 * belongs to one thread at a time. */
#ifndef QUOTH_CHAT_PARSER_IMPL_H
#define QUOTH_CHAT_PARSER_IMPL_H

#include "chat/chat.h"

struct parser_stage;

/* Consume the front of text[0, n). Return the number of bytes consumed; 0 if more text is needed.
 * end: no more text follows, so step must consume all n bytes. The state of a stage is 0 at
 * first. */
typedef size_t step_fn(struct parser_stage *s, const char *text, size_t n, bool end);

/* ---- description of a family: data for the parser (listed in parser.def) ----
 *
 *   [section_begin] begin BODY end {separator begin BODY end} [section_end]
 *
 * A blank in a mark matches any blanks. The parser also accepts blanks around marks, and between
 * ">" and "<" in a mark. */

/* Form of a call between its begin and end marks. */
enum call_form {
    CALL_FORM_END,
    CALL_OBJECT, /* {"name": NAME, "arguments": {...}}, members in any order            */
    CALL_LIST,   /* list of objects: [{"name": NAME, "arguments": {...}}, ...] */
    CALL_KEYED,  /* [{NAME: {...}}, ...]                                                */
    CALL_NAMED,  /* NAME [index_mark N] [id_mark ID] name_end {...}; the arguments are JSON */
    CALL_MARKED, /* NAME name_end {key_begin KEY key_end VALUE value_end}               */
};

/* Form of a value of CALL_MARKED. */
enum call_value {
    VALUE_TYPED,  /* raw text up to value_end; the tool's schema gives the value's type */
    VALUE_PYTHON, /* a Python literal: 1, 'a', True, None, [1, 2], {"a": 1}      */
    VALUE_BARE,   /* JSON with bare keys; strings are between string_mark, without escapes */
};

/* Form of a call's text after `begin`. All texts are static. */
struct call_body {
    enum call_form form;
    /* CALL_OBJECT, CALL_LIST: names of members. The first member of the text with a name of
     * arguments_key is used. id_key: NULL if ids are ignored. */
    const char *name_key, *arguments_key[2], *id_key;
    /* CALL_NAMED: id_mark precedes an id; NULL if there are no ids. index_mark is between the name
     * and the call's number; NULL if none. The id is id_prefix and the text from the name to the
     * number if id_prefix is set. */
    const char *id_mark, *index_mark, *id_prefix;
    const char *name_end; /* CALL_NAMED, CALL_MARKED: mark after the name */
    /* CALL_MARKED: marks of an argument. key_end[1] replaces key_end[0] if the value is JSON and
     * not a string; NULL: key_end[0] is used for both. argument_separator is between two arguments;
     * NULL if none. */
    const char *key_begin, *key_end[2], *value_end, *argument_separator;
    enum call_value value;
    const char *string_mark; /* VALUE_BARE: quote of strings                              */
    const char *verbatim[2]; /* VALUE_TYPED: optional marks around a value; NULL if none */
    /* VALUE_TYPED: true if KEY and ">" follow the "</" at the end of value_end. Lists and objects
     * are nested arguments. The key of a list's items is "item". */
    bool nested;
};

/* Text of calls in the form of the family's models, for the grammar of forced calls (tool_tag.c):
 *
 *   begin  open NAME middle ARGUMENTS close  [between open NAME middle ARGUMENTS close]...  end
 *
 * A NULL field means "". In `open`, `middle` and `close`, %d is the call's number and %s an id of
 * nine letters and digits. The family's parser must be able to parse every text of this form. All
 * texts are static. */
struct call_text {
    const char *has; /* text in the source of templates with this form; NULL: any template */
    const char *begin, *open, *middle, *close, *between, *end;
    /* style of ARGUMENTS: "python" or "bare" (grammar/schema_notation.c), or a style of
     * grammar/tag_xml.c, such as "qwen_xml"; NULL: JSON */
    const char *style;
    /* true: NAME is in a JSON string; false: it has only letters, digits, _ - . */
    bool quoted;
    bool single; /* true: a message has at most one call */
};

/* The struct call_text of a JSON list of {"name": NAME, "arguments": {...}} between two marks. */
#define CALL_TEXT_LIST(first, last)                                                                \
    {                                                                                              \
        .begin = first "[", .open = "{\"name\": \"",                                               \
        .middle = "\", \"arguments\": ", .close = "}", .between = ", ", .end = "]" last,           \
        .quoted = true                                                                             \
    }

/* The struct call_text of calls in the syntax of Python, NAME(KEY=VALUE), between two marks. */
#define CALL_TEXT_PYTHON(first, separator, last)                                                   \
    {                                                                                              \
        .begin = first, .open = "", .middle = "(", .close = ")", .between = separator,             \
        .end = last, .style = "python"                                                             \
    }

/* Conventions of a family's calls. All texts are static. */
struct tool_family {
    const char *name;
    const char *alias[6]; /* other names of the family */
    const char *has[4];   /* texts that the source of a template of this family must contain */
    const char *lacks;    /* text that the source of a template must not contain; NULL if none */
    /* marks around all calls of a message; optional if the family has a `begin` */
    const char *section_begin, *section_end[3];
    /* Accepted marks before a call. The mark "" means that a call needs no mark at the start of a
     * message or after a separator. A call follows section_begin without a mark if begin[0] is
     * NULL. */
    const char *begin[3];
    struct call_body body[3]; /* accepted forms, up to CALL_FORM_END            */
    /* optional marks after the body; end[0] ends arguments of CALL_MARKED */
    const char *end[3];
    const char *separator;    /* mark between two calls, optional in parsed text; NULL if none */
    bool start_only;          /* true: calls begin only at the start of the message */
    bool keep_blank;          /* true: blanks between content and a call are content */
    const char *content_name; /* name of the call that contains content; NULL if none */
    const char *drop[4];      /* marks that are removed from content */
    /* parser of the whole message, with its reasoning; NULL: this struct describes the message */
    step_fn *step;
    /* Forms of written calls. The first form that matches the template is used. Calls cannot be
     * forced without a form. */
    struct call_text text[4];
};

/* Conventions of a family's reasoning. All texts are static. */
struct reason_family {
    const char *name;
    const char *alias[14];
    /* texts of a template's source that select the family; none: the marks below select the
     * family */
    const char *has[3];
    const char *open[3], *close[3]; /* marks around the reasoning at the start of the message */
    const char *drop[4];            /* marks that are removed from content */
    bool begun; /* true: a message begins inside the reasoning, so `open` is optional */
    bool again; /* true: further blocks of reasoning may follow in the content */
    /* parser of the whole message, with its calls; NULL: this struct describes the message */
    step_fn *step;
};

#define TOOL_PARSER(id)      extern const struct tool_family tool_##id;
#define REASONING_PARSER(id) extern const struct reason_family reason_##id;
#include "chat/parser.def"
#undef TOOL_PARSER
#undef REASONING_PARSER

/* ---- the stages ---- */

/* CALL_MAYBE means that more text is needed. It is never returned at the end of the text. */
enum call_verdict { CALL_NO, CALL_MAYBE, CALL_YES };

enum { NAME_ROOM = 512, LITERAL_DEPTH_MAX = 64 };

/* Resumable search for the name of a call in a JSON object (tool_head.c). */
struct head_scan {
    const struct call_body *body; /* static: form of the expected call */
    size_t begin;                 /* offset of the call's text, after the first mark */
    /* at: offset of the next unread byte. key, name, id: offsets of these strings, with lengths
     * n_. */
    size_t at, key, n_key, name, n_name, id, n_id;
    int part, depth; /* part of the object; depth of the value that is skipped */
    bool quoted;     /* true inside a string of a value */
};

/* State of parsing a value in pieces; zeroed before the value. */
struct value {
    int part, depth;
    size_t at; /* number of unread bytes that belong to the value */
    /* quoted: true inside a JSON string. escaped: true after a backslash in the string. */
    bool quoted, escaped;
    char quote;  /* literals: quote of the string; 0 if none */
    bool triple; /* true: the string has three quotes */
    /* literals: kind and state of the open levels, outermost first */
    struct {
        bool map, any;
        unsigned char phase;
    } level[LITERAL_DEPTH_MAX + 1];
};

/* State of parsing a call; zeroed before the call. */
struct tool_call {
    const struct call_body *body; /* static; NULL: no call has begun */
    int part;                     /* current part of the call's arguments */
    const struct json *schema;    /* schema of the arguments, borrowed; NULL if unknown */
    const struct json *type;      /* schema of the current argument, borrowed; NULL if unknown */
    struct value value;
    size_t n_argument;
    bool emitted; /* true after the first delta of the call's arguments */
    bool wanted;  /* CALL_OBJECT: true inside the member with the arguments */
    bool is_json; /* CALL_MARKED: true if the mark before the value declares JSON */
    bool done;
    char key[NAME_ROOM];
};

struct parser_stage {
    step_fn *step;                   /* parser of the stage; NULL: the stage passes on all text */
    const struct tool_family *tools; /* family of calls, static; NULL: calls are not parsed */
    const struct json *schemas;      /* the request's tools, borrowed; NULL if unknown */
    const struct reason_family *reason; /* static; NULL: reasoning is not parsed */
    struct chat_parser *parser;         /* borrowed: the parser that contains the stage */
    struct buf held;                    /* owned: text that the stage has not consumed */
    int state;
    size_t n_emitted; /* number of emitted bytes of the current part */
    bool no_calls;    /* true: calls are content, without their marks */
    bool silent;      /* true: the stage is a trial, which emits no deltas */
    bool any_call;    /* true after a call, also after a call of a trial */
    bool in_section;
    struct chat_expected expected;
    struct head_scan head;
    struct tool_call call;
    /* reasoning stage: trial of a possible call inside reasoning, borrowed from the parser */
    struct parser_stage *trial;
    size_t n_tried; /* bytes that the trial has read */
    size_t n_blank; /* blanks before the trial's text */
};

step_fn tool_step, reason_step, harmony_step;
enum chat_place
reason_place(const struct parser_stage *s); /* return the place of the reasoning stage s */
/* text of a pending header of harmony */
enum chat_place harmony_place(const struct parser_stage *s);

/* Return the family by its name or an alias; NULL if none. */
const struct tool_family *tool_family_of(const char *name);
const struct reason_family *reason_family_of(const char *name);

/* Check if text[0, n) begins with a call, for the reasoning stage: a call may follow without the
 * mark that ends reasoning.
 *   trial  a stage of the tools with `silent` set; all other fields are zero for a new text
 *   at     number of bytes that the trial has read; updated
 * CALL_MAYBE: more text is needed. CALL_YES: a call began. tool_call_ended returns true if the
 * trial has read the whole call. */
enum call_verdict tool_is_call(struct parser_stage *trial, size_t *at, const char *text, size_t n,
                               bool end);
bool tool_call_ended(const struct parser_stage *trial);
/* Return the offset of the first text in text[0, n) that may begin a call by its marks; n if
 * none. */
size_t tool_find(const struct tool_family *f, const char *text, size_t n);

/* The front of a call: its name, id, and length. */
struct tool_head {
    char name[NAME_ROOM], id[NAME_ROOM]; /* name and id of the call; id is "" if none */
    size_t n_used; /* number of bytes before the arguments; 0 if the call is reparsed */
    bool empty;    /* true: the text is an empty list of calls */
};

/* Find the name of a call of s->tools at the front of text[0, n) (tool_head.c). After CALL_YES, *h
 * is the front of the call, and *body is its form. */
enum call_verdict call_head(struct parser_stage *s, const char *text, size_t n, bool end,
                            struct tool_head *h, const struct call_body **body);

/* Find the name of the next call in a list of the form s->call.body. */
enum call_verdict call_item(struct parser_stage *s, const char *text, size_t n, bool end,
                            struct tool_head *h);

/* Begin the call with the front `h`, and emit its name (tool_arguments.c). */
void call_begin(struct parser_stage *s, const struct call_body *body, const struct tool_head *h);
/* Parse and emit the arguments of the call. Return the number of bytes consumed. Set s->call.done
 * after the last byte of the call. */
size_t call_step(struct parser_stage *s, const char *text, size_t n, bool end);

/* The functions value_* (tool_value.c) parse the front of text[0, n), and emit the value as JSON in
 * pieces. They return the number of bytes consumed. value->part is VALUE_END after the last byte of
 * the value. */
enum { VALUE_BEGIN, VALUE_END = -1 };
/* Parse a JSON value. wanted: true if the value is the arguments of the call. Models also write
 * arguments as a JSON string. The text of an argument string is emitted without its quotes. */
size_t value_json(struct parser_stage *s, const char *text, size_t n, bool end, bool wanted);
/* Parse a literal of Python, or a literal with the body's string_mark and bare keys. */
size_t value_literal(struct parser_stage *s, const char *text, size_t n, bool end);
/* Return the value of n hexadecimal digits, n at most 7; -1 if a character is not a digit. */
int hex_value(const char *text, int n);
/* Emit text[0, n) as the inside of a JSON string, with escapes. */
void value_text(struct parser_stage *s, const char *text, size_t n);
/* Emit a complete raw text as a value of type s->call.type. */
void value_typed(struct parser_stage *s, const char *text, size_t n);
/* Return true if the value of the current argument must be a string. */
bool value_is_text(const struct parser_stage *s);

/* Return the types (JT_) that a schema of the document root permits (schema.c). */
unsigned schema_types(const struct json *root, const struct json *schema);
/* Return the schema of an object's member. Return the schema of a list's items if key is NULL. NULL
 * if unknown. */
const struct json *schema_member(const struct json *root, const struct json *schema,
                                 const char *key, size_t n_key);
/* Return the parameters of a function of the request's tools; NULL if unknown. */
const struct json *schema_of_tool(const struct json *tools, const char *name);
bool schema_has_tool(const struct json *tools, const char *name);

/* Emit a piece of text of this kind. Do nothing if the stage is silent. */
void parser_emit(struct parser_stage *s, enum chat_delta_kind kind, const char *text, size_t n);
void parser_emit_call(struct parser_stage *s, const char *name, const char *id);
/* Emit a piece of the arguments of the message's last call. */
void parser_emit_arguments(struct parser_stage *s, const char *text, size_t n);
/* Record that memory is exhausted. No more deltas are emitted. */
void parser_no_memory(struct parser_stage *s);
/* Pass text from the reasoning stage to the tool stage. */
void parser_pass(struct parser_stage *s, const char *text, size_t n);

/* Return the length of the JSON string at text[0], including its quotes; 0 if more text is
 * needed. */
size_t string_len(const char *text, size_t n);
bool in_name(char c); /* return true for letters, digits, "_-./" */

/* Helpers for text[0, n). */
/* Match a mark at the front. A blank of the mark matches any number of blanks. Blanks at the mark's
 * ends are ignored. Return CALL_YES with *used the length of the match in bytes. Return CALL_MAYBE
 * if the whole text may be the beginning of the mark. */
enum call_verdict mark_at(const char *mark, const char *text, size_t n, size_t *used);
/* Return the first offset at which mark_at does not return CALL_NO. n if none. */
size_t mark_find(const char *mark, const char *text, size_t n);
/* Match one of up to n_mark marks at the front, by the rules of mark_at. NULL ends the list. */
enum call_verdict mark_any(const char *const *mark, int n_mark, const char *text, size_t n,
                           size_t *used);
/* Return the offset of the first of up to n_mark marks, and set *used to its length. Set *used to 0
 * and return the number of bytes that certainly precede a mark if no mark is complete. */
size_t mark_first(const char *const *mark, int n_mark, const char *text, size_t n, size_t *used);
/* Return true if text[0, n) begins with `mark`. */
bool text_begins(const char *text, size_t n, const char *mark);
/* Return true if all of text[0, n) may be the beginning of `mark`. The result is true for an empty
 * text. */
bool text_may_begin(const char *text, size_t n, const char *mark);
/* Return the number of bytes at the end of text[0, n) that may be the beginning of `mark`. */
size_t text_partial(const char *text, size_t n, const char *mark);
/* Return the number of blanks, tabs and newlines at the front. */
size_t space_front(const char *text, size_t n);
/* Return the number of blanks, tabs and newlines at the end. */
size_t space_back(const char *text, size_t n);
bool is_blank(char c);

#endif
