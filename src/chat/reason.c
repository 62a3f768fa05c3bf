/* reason.c - reasoning at the start of a message, between the marks of a family (here <think> and
 * </think>).
 *
 *   BEFORE --<think>--> INSIDE --</think>--> BLANKS (blanks removed) --> AFTER: passed on
 *      \--anything else--------------------------------------------------^
 *      (</think> first: a prompt that skips reasoning; goes to BLANKS)
 *
 * Blanks around the reasoning and after </think> are removed. A block that is never closed is
 * reasoning up to its first tool call, because small models omit </think>. A call before </think>
 * is a draft, which belongs to the reasoning. Therefore a complete call and the text after it are
 * held (INSIDE -> DRAFT) until </think> or the end. A mark that does not begin a call is emitted
 * immediately. */
#include "chat/parser_impl.h"

#include <string.h>

enum { BEFORE, INSIDE, DRAFT, BLANKS, AFTER };

/* Find the opening mark. Blanks before the opening mark are consumed with the mark. The blanks
 * belong to the content if there is no opening mark. */
static size_t step_before(struct parser_stage *s, const char *text, size_t n, bool end)
{
    const struct reason_family *f = s->reason;
    size_t blank = space_front(text, n), used;
    enum call_verdict open = mark_any(f->open, 3, text + blank, n - blank, &used);
    if (open == CALL_MAYBE && !end) return 0;
    if (open == CALL_YES) return s->state = INSIDE, blank + used;
    enum call_verdict close = mark_any(f->close, 3, text + blank, n - blank, &used);
    if (close == CALL_MAYBE && !end) return 0;
    if (close == CALL_YES) return s->state = BLANKS, blank + used;
    s->state = f->begun ? INSIDE : AFTER;
    return 0;
}

/* Emit text of the reasoning block. Blanks at the start of the block are removed. */
static void emit_part(struct parser_stage *s, const char *text, size_t n)
{
    size_t blank = s->n_emitted == 0 ? space_front(text, n) : 0;
    parser_emit(s, CHAT_REASONING, text + blank, n - blank);
    s->n_emitted += n - blank;
}

/* Return the offset of the first closing mark (mark_first). */
static size_t find_close(const struct parser_stage *s, const char *text, size_t n, size_t *used)
{
    return mark_first(s->reason->close, 3, text, n, used);
}

/* End the block at `at`, and consume its closing mark of n_close bytes. */
static size_t close_block(struct parser_stage *s, const char *text, size_t at, size_t n_close)
{
    s->state = BLANKS;
    s->n_tried = 0;
    if (at > space_back(text, at)) emit_part(s, text, at - space_back(text, at));
    s->n_emitted = 0;
    return at + n_close;
}

/* Emit text[0, n) without the blanks at its end. These blanks are consumed with the following
 * text. */
static size_t emit_trimmed(struct parser_stage *s, const char *text, size_t n)
{
    n -= space_back(text, n);
    if (n > 0) emit_part(s, text, n);
    return n;
}

/* Continue the trial of the call at text[0]. */
static enum call_verdict try_call(struct parser_stage *s, const char *text, size_t n, bool end)
{
    if (s->n_tried == 0)
        *s->trial = (struct parser_stage){.tools = s->tools, .schemas = s->schemas};
    s->trial->silent = true;
    s->trial->parser = s->parser;
    return tool_is_call(s->trial, &s->n_tried, text, n, end);
}

/* Process the mark of a call at text[at]. */
static size_t step_mark(struct parser_stage *s, const char *text, size_t n, size_t at, bool end)
{
    size_t n_used = emit_trimmed(s, text, at);
    if (n_used > 0) return n_used;
    switch (try_call(s, text + at, n - at, end)) {
    case CALL_MAYBE:
        return 0;
    case CALL_NO:
        s->n_tried = 0;
        return emit_trimmed(s, text, at + 1);
    default:
        s->state = DRAFT;
        s->n_blank = at;
        return 0;
    }
}

static size_t step_inside(struct parser_stage *s, const char *text, size_t n, bool end)
{
    size_t n_close, close = find_close(s, text, n, &n_close);
    bool calls = s->tools && !s->no_calls && !s->expected.closed;
    size_t call = calls ? tool_find(s->tools, text, n) : n;
    if (n_close > 0 && close <= call) return close_block(s, text, close, n_close);
    if (call < close) return step_mark(s, text, n, call, end);
    if (end) return emit_trimmed(s, text, n), n;
    return emit_trimmed(s, text, close);
}

/* Process a held text that begins with a call, or with blanks and a call. A closing mark can begin
 * after n_tried bytes, or inside the call. */
static size_t step_draft(struct parser_stage *s, const char *text, size_t n, bool end)
{
    size_t blank = s->n_blank, n_close, at = blank + s->n_tried;
    if (!tool_call_ended(s->trial)) {
        try_call(s, text + blank, n - blank, end);
        at = blank + s->n_tried;
        if (!tool_call_ended(s->trial) && !end) return 0;
        if (!tool_call_ended(s->trial)) at = blank; /* the output ended inside the call */
    }
    size_t close = at + find_close(s, text + at, n - at, &n_close);
    if (n_close > 0) return close_block(s, text, close, n_close);
    s->n_tried = close - blank;
    if (!end) return 0;
    s->state = AFTER;
    parser_pass(s, text + blank, n - blank);
    return n;
}

/* Consume the expected gap if it is at the beginning of the text. */
static size_t step_gap(struct parser_stage *s, const char *text, size_t n, bool end)
{
    const char *gap = s->expected.gap;
    if (text_may_begin(text, n, gap) && !end) return 0;
    s->state = AFTER;
    return text_begins(text, n, gap) ? strlen(gap) : 0;
}

static size_t step_blanks(struct parser_stage *s, const char *text, size_t n, bool end)
{
    if (s->expected.gap) return step_gap(s, text, n, end);
    size_t blank = space_front(text, n);
    if (blank < n) s->state = AFTER;
    return blank;
}

enum chat_place reason_place(const struct parser_stage *s)
{
    const char *text = s->held.n ? s->held.data : "";
    size_t n = s->held.n, used;
    if (s->state == BEFORE && space_front(text, n) < n) return CHAT_UNDECIDED;
    if (s->state == BEFORE) return s->reason->begun ? CHAT_INSIDE : CHAT_BEFORE;
    if (s->state != INSIDE && s->state != DRAFT) return CHAT_AFTER;
    return find_close(s, text, n, &used) < n ? CHAT_UNDECIDED : CHAT_INSIDE;
}

/* Pass content to the tools stage without the marks that are removed. */
static size_t step_after(struct parser_stage *s, const char *text, size_t n, bool end)
{
    const struct reason_family *f = s->reason;
    const char *const marks[] = {f->again ? f->open[0] : NULL, f->drop[0], f->drop[1], f->drop[2],
                                 f->drop[3]};
    size_t at = n, used = 0;
    enum call_verdict v = CALL_NO;
    for (int i = 0; i < 5 && !s->expected.verbatim; i++) {
        size_t k, found = marks[i] ? mark_find(marks[i], text, n) : n;
        if (found >= at) continue;
        at = found;
        v = mark_at(marks[i], text + at, n - at, &k);
        used = v == CALL_YES ? k : 0;
        s->state = v == CALL_YES && i == 0 ? INSIDE : AFTER;
    }
    if (at == n || (v == CALL_MAYBE && end)) {
        parser_pass(s, text, n);
        return n;
    }
    parser_pass(s, text, at);
    return at + used;
}

static size_t step_once(struct parser_stage *s, const char *text, size_t n, bool end)
{
    switch (s->state) {
    case BEFORE:
        return step_before(s, text, n, end);
    case INSIDE:
        return step_inside(s, text, n, end);
    case DRAFT:
        return step_draft(s, text, n, end);
    case BLANKS:
        return step_blanks(s, text, n, end);
    default:
        return step_after(s, text, n, end);
    }
}

size_t reason_step(struct parser_stage *s, const char *text, size_t n, bool end)
{
    for (;;) {
        int state = s->state;
        size_t k = step_once(s, text, n, end);
        if (k > 0 || s->state == state) return k;
    }
}
