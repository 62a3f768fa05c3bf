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

/* Resumable search for the end of a JSON value. */
struct scan {
    size_t at;
    int depth;
    bool quoted;
};

/* ---- description of a family: data for the parser (parser.def lists the families) ---- */

/* Form of a call between its begin and end marks. */
enum call_form {
    CALL_FORM_END,
    CALL_OBJECT, /* {"name": NAME, "arguments": {...}}, members in any order      */
    CALL_LIST,   /* [...] of such objects                                        */
    CALL_NAMED,  /* NAME [id_mark ID] arguments_mark {...}: only the arguments are JSON */
};

struct call_body {
    enum call_form form;
    /* OBJECT, LIST: member names. arguments_key: the first one present is used; id_key NULL: ids
     * are ignored */
    const char *name_key, *arguments_key[2], *id_key;
    /* NAMED: marks before an id (NULL: no ids) and before the arguments */
    const char *id_mark, *arguments_mark;
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
    const char *has[4]; /* texts that must all be in the source of a template of this family */
    const char *begin;  /* mark before each call; NULL: a message consists only of calls          */
    struct call_body
        body[3];     /* accepted forms of the body, up to CALL_FORM_END                        */
    const char *end; /* optional mark after the body; NULL: none                               */
    const char
        *separator; /* without `begin`: mark between two calls                                */
    struct call_text
        text[4]; /* the first that fits the template is written; none: calls cannot be forced */
};

struct reason_family {
    const char *name;
    const char *open, *close; /* marks around the reasoning, which comes first */
};

#define TOOL_PARSER(id)      extern const struct tool_family tool_##id;
#define REASONING_PARSER(id) extern const struct reason_family reason_##id;
#include "chat/parser.def"
#undef TOOL_PARSER
#undef REASONING_PARSER

/* ---- the stages ---- */

enum verdict { CALL_NO, CALL_MAYBE, CALL_YES }; /* MAYBE: more text is needed; never at the end */

/* Consume the front of text[0, n). Returns the bytes consumed, 0 if more text is needed. `end`: no
 * more text follows; everything must then be consumed. state, n_told and scan belong to the stage
 * and start at zero. */
typedef size_t step_fn(struct stage *s, const char *text, size_t n, bool end);

struct stage {
    step_fn *step;                   /* NULL: pass everything on */
    const struct tool_family *tools; /* NULL: do not parse calls */
    const struct reason_family *reason;
    struct chat_parser *parser;
    struct buf held;
    int state;
    size_t n_told; /* bytes of the current part emitted so far */
    struct scan scan;
};

step_fn tool_step, reason_step;

/* Return whether text[0, n), which begins with s->tools->begin, is a call. Used by the reasoning
 * stage, because a call may come without the mark that ends the reasoning. s->scan is zero for a
 * new text and resumes after more bytes of one text. On YES, s->scan.at is the call's length. */
enum verdict tool_is_call(struct stage *s, const char *text, size_t n, bool end);

/* tool_body.c: parse a call of the stage's family from text[0, n), which begins after its mark and
 * blanks. YES: *n_used bytes were the call; NO: at least *n_used bytes are no call. tell: also emit
 * it. s->scan as in tool_is_call. */
enum verdict tool_body(struct stage *s, const char *text, size_t n, bool tell, size_t *n_used);

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
