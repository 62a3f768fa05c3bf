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
 * NULL is "". In `open`, `middle` and `close`, %d is the call's number and %s an id of nine letters and
 * digits. The parser must read every such text as these calls, and nothing else. */
struct call_text {
    const char *has; /* text in the source of templates that write this form; NULL: all others */
    const char *begin, *open, *middle, *close, *between, *end;
    const char *style; /* ARGUMENTS: NULL: JSON; else a style of grammar/tag_xml.c: "qwen_xml" */
    bool quoted;       /* NAME is in a JSON string; otherwise it has only letters, digits, _ - . */
    bool single;       /* a message has at most one call */
};

/* A call_text: a JSON list of {"name": NAME, "arguments": {...}} between two marks. */
#define CALL_TEXT_LIST(first, last)                                                                \
    {                                                                                              \
        .begin = first "[", .open = "{\"name\": \"",                                               \
        .middle = "\", \"arguments\": ", .close = "}", .between = ", ", .end = "]" last,           \
        .quoted = true                                                                             \
    }

struct tool_family {
    const char *name;
    const char *alias[6]; /* other names of it                                              */
    const char *has[4];   /* texts that must all be in the source of a template of this family */
    const char *lacks;    /* and one that must not; NULL: none                              */
    /* marks around all calls of a message, each optional if there is `begin` */
    const char *section_begin, *section_end[3];
    /* marks before each call, every one is accepted. "": none, at the start of a
     * message or after a separator. [0] NULL: none, a call follows section_begin. */
    const char *begin[3];
    struct call_body body[3]; /* accepted forms, up to CALL_FORM_END            */
    const char *end
        [3]; /* marks after the body, each optional; the first one ends arguments of CALL_MARKED */
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

enum { NAME_ROOM = 512, LITERAL_DEPTH_MAX = 64 };

/* Resumable search for the name of a call in a JSON object (tool_head.c). */
struct head_scan {
    const struct call_body *body; /* that the search is for                      */
    size_t begin;                 /* where its text begins behind the first mark */
    size_t at, key, n_key, name, n_name, id, n_id;
    int part, depth;
    bool quoted;
};

/* A value in the text, read piece by piece. Zero before it. */
struct value {
    int part, depth;
    size_t at;            /* bytes of unread text that are known to be inside of it */
    bool quoted, escaped; /* in a JSON string, behind its backslash                 */
    char quote;           /* literals: that of the string; 0: none                  */
    bool triple;          /* of three quotes                                        */
    /* literals: kind and state of the open levels, outermost first */
    struct {
        bool map, any;
        unsigned char phase;
    } level[LITERAL_DEPTH_MAX + 1];
};

/* The call that is being read. Zero before it. */
struct call {
    const struct call_body *body;
    int part;                  /* of its arguments */
    const struct json *schema; /* borrowed: of the arguments; NULL: unknown */
    const struct json *type;   /* borrowed: of the current argument         */
    struct value value;
    size_t n_argument;
    bool emitted; /* something of the arguments was emitted */
    bool wanted;  /* OBJECT: the current member has the arguments */
    bool is_json; /* MARKED: the mark before the value declares it to be JSON */
    bool done;
    char key[NAME_ROOM];
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
    bool no_calls;    /* only marks are removed from content */
    bool silent;      /* nothing is emitted: a trial */
    bool any_call;    /* one was emitted, or would have been */
    bool in_section;
    struct chat_expected expected;
    struct head_scan head;
    struct call call;
    struct stage *trial; /* reasoning stage: that of a call that may be a draft ... */
    size_t n_tried;      /* ... the bytes that it has read, behind ...              */
    size_t n_blank;      /* ... so many blanks                                      */
};

step_fn tool_step, reason_step, harmony_step;
enum chat_place reason_place(const struct stage *s); /* of a reasoning stage */

/* Return the family of a name or another name of it; NULL: there is none. */
const struct tool_family *tool_family_of(const char *name);
const struct reason_family *reason_family_of(const char *name);

/* Whether text[0, n) of a message without mark of the reasoning's end begins with a call. Used by
 * the reasoning stage, because a call may come without that mark. `trial` is a stage of the tools
 * with `silent`, zero otherwise for a new text; *at: bytes of the text that it has read.
 * CALL_MAYBE: more text is needed. CALL_YES: a call began; tool_call_ended returns whether it was
 * read to its end. */
enum verdict tool_is_call(struct stage *trial, size_t *at, const char *text, size_t n, bool end);
bool tool_call_ended(const struct stage *trial);
/* Return the offset of the first text in text[0, n) that may begin a call by its marks; n: none. */
size_t tool_find(const struct tool_family *f, const char *text, size_t n);

/* The front of a call. */
struct head {
    char name[NAME_ROOM], id[NAME_ROOM]; /* id "": none */
    size_t n_used; /* bytes before the arguments; 0 in forms whose text is read again */
    bool empty;    /* an empty list of calls */
};

/* tool_head.c: read the front of a call of s->tools from text[0, n), up to its name. On YES, *body
 * is its form. */
enum verdict call_head(struct stage *s, const char *text, size_t n, bool end, struct head *h,
                       const struct call_body **body);

/* The same of the next call in a list of form s->call.body. */
enum verdict call_item(struct stage *s, const char *text, size_t n, bool end, struct head *h);

/* tool_arguments.c: begin the call of a head: emits its name. */
void call_begin(struct stage *s, const struct call_body *body, const struct head *h);
/* Read on in the call, and emit its arguments. Sets s->call.done behind its last byte. */
size_t call_step(struct stage *s, const char *text, size_t n, bool end);

/* tool_value.c: each reads the front of text[0, n), emits the value as JSON in pieces, and returns
 * the bytes consumed; value->part is VALUE_END behind the last one. */
enum { VALUE_BEGIN, VALUE_END = -1 };
/* a JSON value; a string's text is emitted without its quotes, which models put around arguments */
size_t value_json(struct stage *s, const char *text, size_t n, bool end, bool wanted);
/* a literal of Python, or with the body's string_mark and bare keys */
size_t value_literal(struct stage *s, const char *text, size_t n, bool end);
int hex_value(const char *text, int n); /* of at most 7 digits; -1: there is another character */
/* Emit the escaped inside of a JSON string. */
void value_text(struct stage *s, const char *text, size_t n);
/* Emit a whole raw text with the type of s->call.type. */
void value_typed(struct stage *s, const char *text, size_t n);
/* Return whether a value of the current argument is a string for certain. */
bool value_is_text(const struct stage *s);

/* schema.c: the types that a schema allows. */
enum {
    TYPE_NULL = 1,
    TYPE_BOOL = 2,
    TYPE_NUMBER = 4,
    TYPE_TEXT = 8,
    TYPE_LIST = 16,
    TYPE_OBJECT = 32,
    TYPE_ANY = 63
};
unsigned schema_types(const struct json *root, const struct json *schema);
/* Return the schema of a member, or of a list's items (key NULL). NULL: unknown. */
const struct json *schema_member(const struct json *root, const struct json *schema,
                                 const char *key, size_t n_key);
/* Return the parameters of a function among a request's tools; NULL: unknown. */
const struct json *schema_of_tool(const struct json *tools, const char *name);
bool schema_has_tool(const struct json *tools, const char *name);

void parser_emit(struct stage *s, enum chat_delta_kind kind, const char *text, size_t n);
void parser_emit_call(struct stage *s, const char *name, const char *id);
/* Emit a piece of the arguments of the last call. */
void parser_emit_arguments(struct stage *s, const char *text, size_t n);
void parser_no_memory(struct stage *s); /* disables further deltas */
void parser_pass(struct stage *s, const char *text,
                 size_t n); /* from the reasoning stage to the tools */

/* Return the length of the JSON string at text[0], with its quotes. 0: more text is needed. */
size_t string_len(const char *text, size_t n);
bool in_name(char c); /* letters, digits, "_-./" */

/* Helpers on text[0, n). */
/* Match a mark at the front, with other blanks than its own: YES and the bytes in *used, or MAYBE
 * if all of the text may be its beginning. Blanks at the mark's ends do not count. */
enum verdict mark_at(const char *mark, const char *text, size_t n, size_t *used);
/* Return the offset of the first place where mark_at is not NO; n: none. */
size_t mark_find(const char *mark, const char *text, size_t n);
bool text_begins(const char *text, size_t n, const char *mark);
/* Return whether all of text[0, n) may be the beginning of mark. True for n = 0. */
bool text_may_begin(const char *text, size_t n, const char *mark);
/* Return the number of bytes at the end that may be the beginning of mark. */
size_t text_partial(const char *text, size_t n, const char *mark);
size_t space_front(const char *text, size_t n); /* blanks, tabs, newlines at the front */
size_t space_back(const char *text, size_t n);  /* blanks, tabs, newlines at the end   */
bool is_blank(char c);

#endif
