/* reason.c - reasoning between the marks of a family (<think> and </think> here), ahead of everything else.
 *
 *   BEFORE --<think>--> INSIDE --</think>--> BLANKS (blanks dropped) --> AFTER: passed on
 *      \--anything else--------------------------------------------------^
 *      (</think> first: a prompt that skips reasoning; goes to BLANKS)
 *
 * Blanks around the reasoning and after </think> are dropped. A block that is never closed is
 * reasoning up to its first tool call: small models omit </think>. A call followed by </think> is a
 * draft and belongs to the reasoning. Text from a complete call on is therefore held (INSIDE ->
 * DRAFT) until </think> or the end decides; a mark without a call after it is released at once. */
#include "chat/parser_impl.h"

#include <string.h>

enum { BEFORE, INSIDE, DRAFT, BLANKS, AFTER };

static size_t step_before(struct stage *s, const char *text, size_t n, bool end)
{
    size_t blank = space_front(text, n), n_rest = n - blank;
    const char *rest = text + blank;
    if (!end && (text_may_begin(rest, n_rest, s->reason->open[0]) ||
                 text_may_begin(rest, n_rest, s->reason->close[0])))
        return 0;
    if (text_begins(rest, n_rest, s->reason->open[0])) {
        s->state = INSIDE;
        return blank + strlen(s->reason->open[0]);
    }
    if (text_begins(rest, n_rest, s->reason->close[0])) {
        s->state = BLANKS;
        return blank + strlen(s->reason->close[0]);
    }
    s->state = AFTER;
    parser_pass(s, text, n);
    return n;
}

/* Emit text of the block, without the block's leading blanks. */
static void emit_part(struct stage *s, const char *text, size_t n)
{
    size_t blank = s->n_emitted == 0 ? space_front(text, n) : 0;
    parser_emit(s, CHAT_REASONING, text + blank, n - blank);
    s->n_emitted += n - blank;
}

static size_t close_block(struct stage *s, const char *text, size_t at)
{
    s->state = BLANKS;
    s->scan = (struct scan){0};
    if (at > space_back(text, at)) emit_part(s, text, at - space_back(text, at));
    return at + strlen(s->reason->close[0]);
}

/* Emit text[0, n) without the blanks at its end, which are consumed with the following text. */
static size_t emit_trimmed(struct stage *s, const char *text, size_t n)
{
    n -= space_back(text, n);
    if (n > 0) emit_part(s, text, n);
    return n;
}

/* Handle the mark of a call at text[at]. */
static size_t step_mark(struct stage *s, const struct tool_family *tools, const char *text,
                        size_t n, size_t at, bool end)
{
    size_t n_used = emit_trimmed(s, text, at);
    if (n_used > 0) return n_used;
    switch (tool_is_call(s, text + at, n - at, end)) {
    case CALL_MAYBE:
        return 0;
    case CALL_NO:
        s->scan = (struct scan){0};
        return emit_trimmed(s, text, at + strlen(tools->begin[0]));
    default:
        s->state = DRAFT;
        s->scan.at += at;
        return 0;
    }
}

static size_t step_inside(struct stage *s, const char *text, size_t n, bool end)
{
    const struct tool_family *tools = s->tools;
    const char *mark = tools && !s->expected.closed ? tools->begin[0] : NULL;
    const char *call = mark ? memmem(text, n, mark, strlen(mark)) : NULL;
    size_t before = call ? (size_t)(call - text) : n;
    const char *p = memmem(text, before, s->reason->close[0], strlen(s->reason->close[0]));
    if (p) return close_block(s, text, (size_t)(p - text));
    if (call) return step_mark(s, tools, text, n, before, end);
    if (end) return emit_trimmed(s, text, n), n;
    size_t kept = text_partial(text, n, s->reason->close[0]);
    size_t kept_call = mark ? text_partial(text, n, mark) : 0;
    return emit_trimmed(s, text, n - (kept > kept_call ? kept : kept_call));
}

/* Handle a held text that begins with a call, or with blanks and a call. No </think> begins before
 * scan.at, except in the call itself. */
static size_t step_draft(struct stage *s, const char *text, size_t n, bool end)
{
    const char *p =
        memmem(text + s->scan.at, n - s->scan.at, s->reason->close[0], strlen(s->reason->close[0]));
    if (p) return close_block(s, text, (size_t)(p - text));
    s->scan.at = n - text_partial(text + s->scan.at, n - s->scan.at, s->reason->close[0]);
    if (!end) return 0;
    s->state = AFTER;
    size_t blank = space_front(text, n);
    parser_pass(s, text + blank, n - blank);
    return n;
}

/* Consume the expected gap if the text begins with it. */
static size_t step_gap(struct stage *s, const char *text, size_t n, bool end)
{
    const char *gap = s->expected.gap;
    if (text_may_begin(text, n, gap) && !end) return 0;
    s->state = AFTER;
    size_t k = text_begins(text, n, gap) ? strlen(gap) : 0;
    parser_pass(s, text + k, n - k);
    return n;
}

static size_t step_blanks(struct stage *s, const char *text, size_t n, bool end)
{
    if (s->expected.gap) return step_gap(s, text, n, end);
    size_t blank = space_front(text, n);
    if (blank < n) s->state = AFTER;
    if (blank == 0) parser_pass(s, text, n);
    return blank ? blank : n;
}

enum chat_place reason_place(const struct stage *s)
{
    const char *text = s->held.n ? s->held.data : "";
    size_t n = s->held.n;
    if (s->state == BEFORE) return space_front(text, n) < n ? CHAT_UNDECIDED : CHAT_BEFORE;
    if (s->state != INSIDE && s->state != DRAFT) return CHAT_AFTER;
    return text_partial(text, n, s->reason->close[0]) ? CHAT_UNDECIDED : CHAT_INSIDE;
}

size_t reason_step(struct stage *s, const char *text, size_t n, bool end)
{
    size_t k = 0;
    switch (s->state) {
    case BEFORE:
        return step_before(s, text, n, end);
    case INSIDE:
        k = step_inside(s, text, n, end);
        return k == 0 && s->state == DRAFT ? step_draft(s, text, n, end) : k;
    case DRAFT:
        return step_draft(s, text, n, end);
    case BLANKS:
        return step_blanks(s, text, n, end);
    default:
        parser_pass(s, text, n);
        return n;
    }
}
