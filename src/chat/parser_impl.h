/* parser_impl.h - what a reader of model output is: a stage that consumes text from its front.
 *
 *   push --> [reasoning stage] --parser_pass--> [tool stage] --> deltas
 *                  |parser_emit                     |parser_emit
 *
 * A stage's step() gets all text it has not consumed yet and consumes what it is certain about:
 * what it decides must hold however the text goes on, so that the pieces' borders cannot matter. */
#ifndef QUOTH_CHAT_PARSER_IMPL_H
#define QUOTH_CHAT_PARSER_IMPL_H

#include "chat/chat.h"

struct stage;

struct stage_kind {
    const char *name;
    /* Bytes consumed of text[0, n); 0: more is needed. `end`: no more comes; then everything must
     * be consumed. state, n_told and scan are the stage's own, zero at first. */
    size_t (*step)(struct stage *s, const char *text, size_t n, bool end);
    bool (*fits)(const struct template *t); /* does this template use the convention? */
};

/* A look for the end of a JSON value, to be taken up where it stopped. */
struct scan {
    size_t at;
    int depth;
    bool quoted;
};

struct stage {
    const struct stage_kind *kind; /* NULL: passes everything on */
    struct chat_parser *parser;
    struct buf held;
    int state;
    size_t n_told; /* bytes of the current part told so far */
    struct scan scan;
};

extern const struct stage_kind reason_think, tool_hermes;

void parser_emit(struct stage *s, enum chat_delta_kind kind, const char *text, size_t n);
void parser_emit_call(struct stage *s, const char *name, const char *id, const char *arguments,
                      size_t n);
void parser_pass(struct stage *s, const char *text,
                 size_t n); /* from the reasoning stage to the tools */

/* Helpers on text[0, n). */
bool text_begins(const char *text, size_t n, const char *mark);
/* Could text[0, n), all of it, be the beginning of mark? True for n = 0. */
bool text_may_begin(const char *text, size_t n, const char *mark);
/* How many bytes at the end could be the beginning of mark. */
size_t text_partial(const char *text, size_t n, const char *mark);
size_t space_front(const char *text, size_t n); /* blanks, tabs, newlines at the front */
size_t space_back(const char *text, size_t n);  /* ... at the end                      */

#endif
