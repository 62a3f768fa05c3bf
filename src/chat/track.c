/* track.c - find the reasoning of a text byte by byte, with a state of fixed size. reason.c parses
 * the same marks, but holds text of any length.
 *
 *   BEFORE --open--> INSIDE --close--> AFTER            (a message: reasoning comes first)
 *      \--anything else, or close----^
 *   OUTSIDE --open--> INSIDE --close--> OUTSIDE         (anywhere; families with several blocks)
 *
 * A run of blanks is held as one blank, because one blank matches the same marks (mark.c).
 * Therefore the held text is at most twice as long as a mark. */
#include "chat/parser_impl.h"

#include <string.h>

enum { BEFORE, INSIDE, OUTSIDE, AFTER };

bool chat_track_begin(struct chat_track *t, const char *reasoning_parser, bool anywhere)
{
    const struct reason_family *f = reason_family_of(reasoning_parser);
    bool message = f && !anywhere && f->step != harmony_step; /* harmony has several messages */
    *t = (struct chat_track){.family = f, .anywhere = !message || f->again};
    t->place = !f ? AFTER : !message ? OUTSIDE : f->begun ? INSIDE : BEFORE;
    return f != NULL;
}

/* Remove the first n held bytes. */
static void drop(struct chat_track *t, size_t n)
{
    t->n_held = (unsigned char)(t->n_held - n);
    memmove(t->held, t->held + n, t->n_held);
}

/* End or skip the reasoning. The whole held text is a mark. */
static void leave(struct chat_track *t)
{
    t->place = t->anywhere ? OUTSIDE : AFTER;
    t->n_held = 0;
}

static void settle(struct chat_track *t);

/* Leave BEFORE if the first text of a message begins or excludes reasoning. */
static void settle_before(struct chat_track *t)
{
    size_t used;
    drop(t, space_front(t->held, t->n_held));
    if (t->n_held == 0) return;
    enum call_verdict open = mark_any(t->family->open, 3, t->held, t->n_held, &used);
    enum call_verdict close = mark_any(t->family->close, 3, t->held, t->n_held, &used);
    if (open == CALL_YES) {
        t->place = INSIDE, t->n_held = 0;
    } else if (open == CALL_NO && close == CALL_YES) {
        leave(t);
    } else if (open == CALL_NO && close == CALL_NO) {
        t->place = t->anywhere ? OUTSIDE : AFTER;
        if (t->anywhere) settle(t);
    }
}

/* Search for the marks that change the place. */
static void settle(struct chat_track *t)
{
    size_t used;
    if (t->place == BEFORE) return settle_before(t);
    bool inside = t->place == INSIDE;
    const char *const *marks = inside ? t->family->close : t->family->open;
    drop(t, mark_first(marks, 3, t->held, t->n_held, &used));
    if (used == 0) return;
    if (inside)
        leave(t);
    else
        t->place = INSIDE, t->n_held = 0;
}

void chat_track_push(struct chat_track *t, const char *text, size_t n)
{
    for (size_t i = 0; i < n && t->place != AFTER; i++) {
        bool again = t->n_held > 0 && is_blank(t->held[t->n_held - 1]) && is_blank(text[i]);
        if (again) continue;
        if (t->n_held == sizeof t->held) drop(t, 1); /* the held text is longer than every mark */
        t->held[t->n_held++] = text[i];
        settle(t);
    }
}

bool chat_track_inside(const struct chat_track *t)
{
    return t->place == INSIDE;
}

bool chat_track_ended(const struct chat_track *t)
{
    return t->place == AFTER;
}

const char *chat_track_end_mark(const struct chat_track *t)
{
    return t->family->close[0];
}
