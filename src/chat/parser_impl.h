/* parser_impl.h - stages of the model output parser. A stage consumes text from its front.
 *
 *   push --> [reasoning stage] --parser_pass--> [tool stage] --> deltas
 *                  |parser_emit                     |parser_emit
 *
 * step() of a stage gets all text not consumed yet and consumes the part that it can decide. A
 * decision must hold for every continuation of the text, so the borders of pieces have no
 * effect. */
#ifndef QUOTH_CHAT_PARSER_IMPL_H
#define QUOTH_CHAT_PARSER_IMPL_H

#include "chat/chat.h"

struct stage;

/* Consume the front of text[0, n). Returns the bytes consumed, 0 if more text is needed. `end`: no
 * more text follows; everything must then be consumed. The state of a stage starts at zero. */
typedef size_t step_fn(struct stage *s, const char *text, size_t n, bool end);

/* ---- description of a family: data for the parser (parser.def lists the families) ----
 *
 *   [section_begin] begin BODY end {separator begin BODY end} [section_end]
 *
 * Blanks in a mark stand for any blanks; blanks around marks, and between ">" and "<" in one, are
 * accepted as well. */

/* Form of a call between its begin and end marks. */
enum call_form {
    CALL_FORM_END,
    CALL_OBJECT, /* {"name": NAME, "arguments": {...}}, members in any order            */
    CALL_LIST,   /* [...] of such objects                                               */
    CALL_KEYED,  /* [{NAME: {...}}, ...]                                                */
    CALL_NAMED,  /* NAME [index_mark N] [id_mark ID] name_end {...}: arguments are JSON */
    CALL_MARKED, /* NAME name_end {key_begin KEY key_end VALUE value_end}               */
};

/* Form of a value of CALL_MARKED. */
enum call_value {
    VALUE_TYPED,  /* raw text up to value_end; the tool's schema has its type    */
    VALUE_PYTHON, /* a Python literal: 1, 'a', True, None, [1, 2], {"a": 1}      */
    VALUE_BARE,   /* JSON with bare keys; string_mark is the quote, no escapes   */
};

struct call_body {
    enum call_form form;
    /* OBJECT, LIST: member names. arguments_key: the first one in the text is used; id_key NULL: ids are ignored */
    const char *name_key, *arguments_key[2], *id_key;
    /* NAMED: mark before an id (NULL: no ids); mark between name and the call's number (NULL:
     * none), the id is then everything from id_prefix to the number */
    const char *id_mark, *index_mark, *id_prefix;
    const char *name_end; /* NAMED, MARKED: mark after the name */
    /* MARKED: marks of an argument. key_end[1]: instead of [0] for a value that is JSON, not a
     * string (NULL: the same). Between two arguments: argument_separator (NULL: none). */
    const char *key_begin, *key_end[2], *value_end, *argument_separator;
    enum call_value value;
    const char *string_mark; /* VALUE_BARE: quote of strings                              */
    const char *verbatim[2]; /* VALUE_TYPED: optional marks around a value (NULL: none)   */
    /* VALUE_TYPED: value_end ends with "</", and KEY ">" follows; lists and objects are nested
     * arguments, with "item" as the key of a list's items */
    bool nested;
};

/* Text of calls as the family's models write it, for the grammar of forced calls (tool_tag.c):
 *
 *   begin  open NAME middle ARGUMENTS close  [between open NAME middle ARGUMENTS close]...  end
 *
 * NULL is "". In `middle` and `close`, %d is the call's number and %s an id of nine letters and
 * digits. The parser must read every such text as these calls, and nothing else. */
struct call_text {
    const char *has; /* text in the source of templates that write this form; NULL: all others */
    const char *begin, *open, *middle, *close, *between, *end;
    const char *style; /* ARGUMENTS: NULL: JSON; else a style of grammar/tag_xml.c: "qwen_xml" */
    bool quoted;       /* NAME is in a JSON string; otherwise it has only letters, digits, _ - . */
    bool single;       /* a message has at most one call */
};

struct tool_family {
    const char *name;
    const char *alias[6]; /* other names of it                                              */
    const char *has[4];   /* texts that must all be in the source of a template of this family */
    const char *lacks;    /* and one that must not; NULL: none                              */
    /* marks around all calls of a message, optional in reading if there is `begin`; NULL: none */
    const char *section_begin, *section_end;
    /* marks before each call, every one is accepted. "": none, at the start of a
     * message or after a separator. [0] NULL: none, a call follows section_begin. */
    const char *begin[3];
    struct call_body body[3]; /* accepted forms, up to CALL_FORM_END            */
    const char *end;          /* mark after the body, optional in reading; NULL: none       */
    const char *separator;    /* mark between two calls, optional in reading; NULL: none     */
    bool start_only;          /* calls begin at the start of the message only               */
    bool keep_blank;          /* blanks between content and a call belong to the content    */
    const char *content_name; /* a call of this name is content; NULL: none                 */
    const char *drop[4];      /* marks to be removed from content                           */
    step_fn *step;            /* reads the whole message, reasoning too; NULL: by this data */
    struct call_text
        text[4]; /* the first that fits the template is written; none: calls cannot be forced */
};

struct reason_family {
    const char *name;
    const char *alias[14];
    const char *has[3];             /* texts in the source; none: the template's own marks decide */
    const char *open[3], *close[3]; /* marks around the reasoning, which comes first */
    const char *drop[4];            /* marks to be removed from content */
    bool begun;                     /* a message begins inside: `open` is optional */
    bool again;                     /* further blocks may follow in the content    */
    step_fn *step;                  /* reads the whole message, calls too; NULL: by this data */
};

#define TOOL_PARSER(id)      extern const struct tool_family tool_##id;
#define REASONING_PARSER(id) extern const struct reason_family reason_##id;
#include "chat/parser.def"
#undef TOOL_PARSER
#undef REASONING_PARSER

/* ---- the stages ---- */

enum verdict { CALL_NO, CALL_MAYBE, CALL_YES }; /* MAYBE: more text is needed; never at the end */

/* Resumable search for the end of a JSON value. */
struct scan {
    size_t at;
    int depth;
    bool quoted;
};

struct stage {
    step_fn *step;                   /* NULL: pass everything on */
    const struct tool_family *tools; /* NULL: do not parse calls */
    const struct json *schemas;      /* borrowed: the request's tools; NULL: unknown */
    const struct reason_family *reason;
    struct chat_parser *parser;
    struct buf held;
    int state;
    size_t n_emitted; /* bytes of the current part emitted so far */
    struct scan scan;
    struct chat_expected expected;
};

step_fn tool_step, reason_step;
enum chat_place reason_place(const struct stage *s); /* of a reasoning stage */

/* The family of a name of parser.def; NULL: there is none. */
const struct tool_family *tool_family_of(const char *name);
const struct reason_family *reason_family_of(const char *name);

/* Return whether text[0, n), which begins with s->tools->begin, is a call. Used by the reasoning
 * stage, because a call may come without the mark that ends the reasoning. s->scan is zero for a
 * new text and resumes after more bytes of one text. On YES, s->scan.at is the call's length. */
enum verdict tool_is_call(struct stage *s, const char *text, size_t n, bool end);

/* tool_body.c: parse a call of the stage's family from text[0, n), which begins after its mark and
 * blanks. YES: *n_used bytes were the call; NO: at least *n_used bytes are no call. report: also emit
 * it. s->scan as in tool_is_call. */
enum verdict tool_body(struct stage *s, const char *text, size_t n, bool report, size_t *n_used);

void parser_emit(struct stage *s, enum chat_delta_kind kind, const char *text, size_t n);
void parser_emit_call(struct stage *s, const char *name, const char *id, const char *arguments,
                      size_t n);
void parser_no_memory(struct stage *s); /* disables further deltas */
void parser_pass(struct stage *s, const char *text,
                 size_t n); /* from the reasoning stage to the tools */

/* Append the value of member `key` of the JSON object call[0, n), which json_parse accepts, if it
 * contains an integer beyond int64. Otherwise returns false and appends nothing. */
bool digits_kept(struct buf *out, const char *call, size_t n, const char *key);

/* Helpers on text[0, n). */
bool text_begins(const char *text, size_t n, const char *mark);
/* Return whether all of text[0, n) may be the beginning of mark. True for n = 0. */
bool text_may_begin(const char *text, size_t n, const char *mark);
/* Return the number of bytes at the end that may be the beginning of mark. */
size_t text_partial(const char *text, size_t n, const char *mark);
size_t space_front(const char *text, size_t n); /* blanks, tabs, newlines at the front */
size_t space_back(const char *text, size_t n);  /* blanks, tabs, newlines at the end   */

#endif
