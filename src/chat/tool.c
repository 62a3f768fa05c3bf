/* tool.c - content and tool calls, in the format of the family's description (parser_impl.h).
 *
 *   START, TEXT --marks and name of a call--> CALL --its end--> CLOSE --end, or none--> GAP
 *                                                                 GAP --call--> CALL
 *                                                                 GAP --other--> TEXT
 *
 * A call ends with its arguments, so an end mark may be missing, or may be inside an argument.
 * Blanks around calls are removed. Text that only resembles a call is emitted unchanged as content.
 * The state after content is PLAIN if a message consists of either calls or content (struct
 * chat_expected). */
#include "chat/parser_impl.h"

#include <string.h>

enum { START, TEXT, CALL, CLOSE, GAP, PLAIN };

/* Emit content and return n. The first content ends the search for calls if a message consists of
 * either calls or content. */
static size_t content(struct parser_stage *s, const char *text, size_t n)
{
    if (n > 0 && s->expected.either) s->state = PLAIN;
    parser_emit(s, CHAT_CONTENT, text, n);
    s->n_emitted += n;
    return n;
}

/* ---- the beginning of a call ---- */

/* The front of a text that may be a call. */
struct tool_opening {
    struct tool_head head;
    const struct call_body *body; /* form of the call, static */
    size_t n;                     /* number of bytes before the body, or before the arguments */
    bool in_section;              /* true after the mark of a section */
};

/* Return true if a tool of the request has this name, or if no tools are known. A call without any
 * mark requires the name of a tool. */
static bool is_tool(const struct parser_stage *s, const char *name)
{
    return json_count(s->schemas) == 0 || schema_has_tool(s->schemas, name);
}

/* Return true if the call's name is the family's content_name. */
static bool is_content(const struct parser_stage *s, const struct tool_head *h)
{
    return s->tools->content_name && strcmp(h->name, s->tools->content_name) == 0;
}

/* Match a section mark and a call's mark at text[0]. An absent mark is "". */
static enum call_verdict try_marks(struct parser_stage *s, const char *section, const char *mark,
                                   const char *text, size_t n, bool end, struct tool_opening *o)
{
    const char *marks[2] = {section, mark};
    size_t at = 0, used;
    for (int i = 0; i < 2; i++) {
        if (!*marks[i]) continue;
        enum call_verdict v = mark_at(marks[i], text + at, n - at, &used);
        if (v == CALL_MAYBE && end) v = CALL_NO;
        if (v != CALL_YES) return v;
        at += used + space_front(text + at + used, n - at - used);
    }
    o->n = at;
    o->in_section = *section;
    if (s->head.begin != at) s->head = (struct head_scan){.begin = at};
    enum call_verdict v = call_head(s, text + at, n - at, end, &o->head, &o->body);
    s->head.begin = at;
    bool bare = !*section && !*mark;
    if (v != CALL_YES || is_content(s, &o->head)) return v;
    return s->no_calls || (bare && !is_tool(s, o->head.name)) ? CALL_NO : v;
}

/* Check if a call begins at text[0]. bare: also accept a call without a mark. */
static enum call_verdict try_opening(struct parser_stage *s, const char *text, size_t n, bool bare,
                                     bool end, struct tool_opening *o)
{
    const struct tool_family *f = s->tools;
    const char *section = f->section_begin ? f->section_begin : "";
    bare = bare && (f->begin[0] || s->in_section);
    for (int i = 0; i < 3 && (i == 0 || f->begin[i]); i++) {
        const char *mark = f->begin[i] ? f->begin[i] : "";
        enum call_verdict v = *section ? try_marks(s, section, mark, text, n, end, o) : CALL_NO;
        if (v == CALL_NO && (*mark || bare)) v = try_marks(s, "", mark, text, n, end, o);
        if (v != CALL_NO) return v;
    }
    return CALL_NO;
}

static bool is_list(const struct call_body *b)
{
    return b->form == CALL_LIST || b->form == CALL_KEYED;
}

/* Begin a call. Return the number of consumed bytes: the marks and, for some forms, the name. */
static size_t begin_call(struct parser_stage *s, const struct tool_opening *o)
{
    bool no_call = is_content(s, &o->head);
    s->in_section |= o->in_section;
    s->state = no_call ? TEXT : CALL;
    if (is_list(o->body)) /* object_step parses the list again from its bracket */
        s->call = (struct tool_call){.body = o->body, .emitted = true};
    else if (!no_call)
        call_begin(s, o->body, &o->head);
    return o->n + o->head.n_used;
}

/* ---- content ---- */

/* Find a call at the start of the message. Blanks before the first call are not content. The blanks
 * are held until another byte arrives. */
static size_t step_start(struct parser_stage *s, const char *text, size_t n, bool end)
{
    struct tool_opening o;
    size_t blank = space_front(text, n);
    if (blank == n && !end) return 0;
    enum call_verdict v = try_opening(s, text + blank, n - blank, true, end, &o);
    if (v == CALL_YES) return blank + begin_call(s, &o);
    if (v == CALL_NO) s->state = TEXT;
    return 0;
}

/* Return the offset of the first mark that may begin a call; n if none. A mark at the end of the
 * text may be incomplete. */
size_t tool_find(const struct tool_family *f, const char *text, size_t n)
{
    const char *const marks[] = {f->section_begin, f->begin[0], f->begin[1], f->begin[2]};
    size_t at = n;
    for (int i = 0; i < 4 && !f->start_only; i++) {
        size_t k = marks[i] && *marks[i] ? mark_find(marks[i], text, n) : n;
        if (k < at) at = k;
    }
    return at;
}

/* Return the offset of the first mark to be removed; n if none. */
static size_t find_drop(const char *const drop[4], const char *text, size_t n)
{
    size_t at = n;
    for (int i = 0; i < 4 && drop[i]; i++) {
        size_t k = mark_find(drop[i], text, n);
        if (k < at) at = k;
    }
    return at;
}

static enum call_verdict try_drop(const char *const drop[4], const char *text, size_t n,
                                  size_t *used)
{
    for (int i = 0; i < 4 && drop[i]; i++) {
        enum call_verdict v = mark_at(drop[i], text, n, used);
        if (v != CALL_NO) return v;
    }
    return CALL_NO;
}

/* Emit content up to the next mark. Hold the blanks at the end of the content, because a following
 * call removes these blanks. */
static size_t step_text(struct parser_stage *s, const char *text, size_t n, bool end)
{
    const struct tool_family *f = s->tools;
    struct tool_opening o;
    size_t at = s->no_calls && !f->content_name ? n : tool_find(f, text, n),
           drop = s->expected.verbatim ? n : find_drop(f->drop, text, n), used;
    bool call = at < n;
    if (drop < at) at = drop;
    size_t n_content = at - (end && at == n ? 0 : space_back(text, at));
    if (n_content > 0) return content(s, text, n_content);
    if (at == n) return 0;
    enum call_verdict v = drop == at ? try_drop(f->drop, text + at, n - at, &used) : CALL_NO;
    if (v == CALL_MAYBE && !end) return 0;
    if (v == CALL_YES) return content(s, text, at) + used;
    v = call ? try_opening(s, text + at, n - at, false, end, &o) : CALL_NO;
    if (v == CALL_MAYBE) return 0;
    if (v == CALL_NO) return content(s, text, at + 1);
    if (f->keep_blank && s->n_emitted > 0) content(s, text, at);
    return at + begin_call(s, &o);
}

/* ---- after a call ---- */

/* Consume one of the marks, with the blanks before the mark. CALL_MAYBE: more text is needed. */
static enum call_verdict pass_end(const char *const mark[3], const char *text, size_t n, bool end,
                                  size_t *used)
{
    size_t blank = space_front(text, n);
    for (int i = 0; i < 3 && mark[i]; i++) {
        enum call_verdict v = mark_at(mark[i], text + blank, n - blank, used);
        if (v == CALL_YES) *used += blank;
        if (v == CALL_MAYBE && end) *used = n; /* the output ended inside the mark */
        if (v != CALL_NO) return v == CALL_MAYBE && end ? CALL_YES : v;
    }
    return CALL_NO;
}

/* Consume end marks until none follows. */
static size_t step_close(struct parser_stage *s, const char *text, size_t n, bool end)
{
    size_t used;
    enum call_verdict v = pass_end(s->tools->end, text, n, end, &used);
    if (v == CALL_YES) return used;
    if (v == CALL_NO) s->state = GAP;
    return 0;
}

/* Find the next call or the end of the section. Only blanks, the end of the section, a separator or
 * another call may follow a call. Other text is content. */
static size_t step_gap(struct parser_stage *s, const char *text, size_t n, bool end)
{
    const struct tool_family *f = s->tools;
    struct tool_opening o;
    size_t used = 0, at = 0, blank = space_front(text, n);
    if (blank > 0) return blank;
    enum call_verdict v = pass_end(f->section_end, text, n, end, &used);
    if (v == CALL_YES) s->in_section = false;
    if (v != CALL_NO) return v == CALL_YES ? used : 0;
    v = f->separator ? mark_at(f->separator, text, n, &at) : CALL_NO;
    if (v == CALL_MAYBE && !end) return 0;
    at = v == CALL_YES ? at + space_front(text + at, n - at) : 0;
    v = try_opening(s, text + at, n - at, true, end, &o);
    if (v == CALL_YES) return at + begin_call(s, &o);
    if (v == CALL_NO) s->state = TEXT;
    return 0;
}

static size_t step_call(struct parser_stage *s, const char *text, size_t n, bool end)
{
    size_t k = call_step(s, text, n, end);
    if (s->call.done || end) s->state = CLOSE;
    return s->call.done || !end ? k : n; /* the rest of an incomplete call is removed */
}

/* Run the function of the current state once. */
static size_t step_once(struct parser_stage *s, const char *text, size_t n, bool end)
{
    switch (s->state) {
    case START:
        return step_start(s, text, n, end);
    case CALL:
        return step_call(s, text, n, end);
    case CLOSE:
        return step_close(s, text, n, end);
    case GAP:
        return step_gap(s, text, n, end);
    case PLAIN:
        return content(s, text, n);
    default:
        return step_text(s, text, n, end);
    }
}

size_t tool_step(struct parser_stage *s, const char *text, size_t n, bool end)
{
    for (;;) {
        int state = s->state;
        size_t k = step_once(s, text, n, end);
        if (k > 0 || s->state == state) return k;
    }
}

/* ---- trials ---- */

bool tool_call_ended(const struct parser_stage *s)
{
    return s->any_call && s->state != CALL && s->state != CLOSE;
}

enum call_verdict tool_is_call(struct parser_stage *s, size_t *at, const char *text, size_t n,
                               bool end)
{
    if (s->state == START) s->state = TEXT;
    while (*at < n && !tool_call_ended(s) && (s->any_call || s->state != TEXT || *at == 0)) {
        int state = s->state;
        size_t k = step_once(s, text + *at, n - *at, end);
        *at += k;
        if (k == 0 && state == s->state) break;
    }
    if (s->any_call) return CALL_YES;
    return (*at > 0 && s->state == TEXT) || end ? CALL_NO : CALL_MAYBE;
}
