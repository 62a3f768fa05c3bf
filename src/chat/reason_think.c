/* reason_think.c - reasoning between <think> and </think>, ahead of everything else.
 *
 *   BEFORE --<think>--> INSIDE --</think>--> BEHIND (blanks dropped) --> AFTER: passed on
 *      \--anything else--------------------------------------------------^
 *      (</think> at once: a prompt that skips reasoning; goes to BEHIND)
 *
 * Blanks around the reasoning and behind </think> are dropped. A block that is never closed is
 * reasoning. */
#include "chat/parser_impl.h"

#include <string.h>

enum { BEFORE, INSIDE, BEHIND, AFTER };

static const char tag_open[] = "<think>", tag_close[] = "</think>";

static size_t step_before(struct stage *s, const char *text, size_t n, bool end)
{
    size_t blank = space_front(text, n), n_rest = n - blank;
    const char *rest = text + blank;
    if (!end && (text_may_begin(rest, n_rest, tag_open) || text_may_begin(rest, n_rest, tag_close)))
        return 0;
    if (text_begins(rest, n_rest, tag_open)) {
        s->state = INSIDE;
        return blank + strlen(tag_open);
    }
    if (text_begins(rest, n_rest, tag_close)) {
        s->state = BEHIND;
        return blank + strlen(tag_close);
    }
    s->state = AFTER;
    parser_pass(s, text, n);
    return n;
}

/* The block's leading blanks are dropped. */
static void tell(struct stage *s, const char *text, size_t n)
{
    size_t blank = s->n_told == 0 ? space_front(text, n) : 0;
    parser_emit(s, CHAT_REASONING, text + blank, n - blank);
    s->n_told += n - blank;
}

static size_t step_inside(struct stage *s, const char *text, size_t n, bool end)
{
    const char *p = memmem(text, n, tag_close, strlen(tag_close));
    size_t told = p ? (size_t)(p - text) : n - (end ? 0 : text_partial(text, n, tag_close));
    told -= space_back(text, told);
    if (told > 0) tell(s, text, told);
    if (!p) return end ? n : told;
    s->state = BEHIND;
    return (size_t)(p - text) + strlen(tag_close);
}

static size_t step_behind(struct stage *s, const char *text, size_t n)
{
    size_t blank = space_front(text, n);
    if (blank < n) s->state = AFTER;
    if (blank == 0) parser_pass(s, text, n);
    return blank ? blank : n;
}

static size_t step(struct stage *s, const char *text, size_t n, bool end)
{
    switch (s->state) {
    case BEFORE:
        return step_before(s, text, n, end);
    case INSIDE:
        return step_inside(s, text, n, end);
    case BEHIND:
        return step_behind(s, text, n);
    default:
        parser_pass(s, text, n);
        return n;
    }
}

static bool fits(const struct template *t)
{
    const char *opens, *closes;
    template_thinking(t, &opens, &closes);
    return opens && strstr(opens, tag_open) != NULL;
}

const struct stage_kind reason_think = {.name = "think", .step = step, .fits = fits};
