/* tool.c - content and tool calls, in the format of the family's description (parser_impl.h).
 *
 *   TEXT --begin, body--> CLOSE --end, or none--> GAP (blanks dropped) --> TEXT
 *
 * A call ends with its body, so an end mark inside an argument, or a missing one, is harmless.
 * Blanks around calls are dropped. Text that only resembles a call is content, unchanged.
 *
 * If a message is calls or content, but not both (struct chat_expected), content makes the rest PLAIN.
 *
 * Without `begin` a message consists only of calls: TEXT --body--> GAP --separator, body--> GAP;
 * any other text makes the rest PLAIN. */
#include "chat/parser_impl.h"

#include <string.h>

enum { TEXT, CLOSE, GAP, PLAIN };

static size_t content(struct stage *s, const char *text, size_t n)
{
    if (s->expected.either) s->state = PLAIN;
    parser_emit(s, CHAT_CONTENT, text, n);
    return n;
}

enum verdict tool_is_call(struct stage *s, const char *text, size_t n, bool end)
{
    size_t begin = strlen(s->tools->begin[0]), k;
    begin += space_front(text + begin, n - begin);
    if (begin >= n) return end ? CALL_NO : CALL_MAYBE;
    enum verdict v = tool_body(s, text + begin, n - begin, false, &k);
    if (v == CALL_YES) s->scan.at = begin + k;
    return v == CALL_MAYBE && end ? CALL_NO : v;
}

/* Handle the mark of a call at text[at]; the blanks before it are not emitted yet. */
static size_t step_call(struct stage *s, const char *text, size_t n, size_t at, bool end)
{
    size_t begin = at + strlen(s->tools->begin[0]), k;
    begin += space_front(text + begin, n - begin);
    if (begin >= n) return end ? content(s, text, n) : 0;
    enum verdict v = tool_body(s, text + begin, n - begin, true, &k);
    if (v == CALL_MAYBE) return end ? content(s, text, n) : 0;
    s->scan = (struct scan){0};
    if (v == CALL_NO) return content(s, text, begin + k);
    s->state = s->tools->end ? CLOSE : GAP;
    return begin + k;
}

static size_t step_text(struct stage *s, const char *text, size_t n, bool end)
{
    const char *mark = s->tools->begin[0], *p = memmem(text, n, mark, strlen(mark));
    size_t at = p ? (size_t)(p - text) : n - (end ? 0 : text_partial(text, n, mark));
    size_t n_content = at - (end && !p ? 0 : space_back(text, at));
    if (n_content > 0) return content(s, text, n_content);
    return p ? step_call(s, text, n, at, end) : 0;
}

static size_t step_close(struct stage *s, const char *text, size_t n, bool end)
{
    const char *mark = s->tools->end;
    size_t blank = space_front(text, n);
    if (text_may_begin(text + blank, n - blank, mark) && !end) return 0;
    s->state = GAP;
    if (text_begins(text + blank, n - blank, mark)) return blank + strlen(mark);
    return blank;
}

static size_t step_gap(struct stage *s, const char *text, size_t n, bool end)
{
    size_t blank = space_front(text, n);
    if (blank < n) s->state = TEXT;
    return blank ? blank : step_text(s, text, n, end);
}

static size_t plain(struct stage *s, const char *text, size_t n)
{
    s->state = PLAIN;
    s->scan = (struct scan){0};
    return content(s, text, n);
}

/* Set *at to the start of the next call, after a separator. Returns false if the text has no
 * separator. */
static bool after_separator(const struct tool_family *f, const char *text, size_t n, size_t *at)
{
    *at = space_front(text, n);
    if (!f->separator || !text_begins(text + *at, n - *at, f->separator)) return false;
    *at += strlen(f->separator);
    *at += space_front(text + *at, n - *at);
    return true;
}

static size_t step_unmarked(struct stage *s, const char *text, size_t n, bool end)
{
    const struct tool_family *f = s->tools;
    size_t at = space_front(text, n), k;
    if (s->state == PLAIN) return content(s, text, n);
    if (s->state == GAP && at == n) return end ? n : 0;
    if (s->state == GAP && !after_separator(f, text, n, &at)) {
        if (!end && f->separator && text_may_begin(text + at, n - at, f->separator)) return 0;
        plain(s, text + at, n - at);
        return n;
    }
    enum verdict v = at < n ? tool_body(s, text + at, n - at, true, &k) : CALL_MAYBE;
    if (v == CALL_MAYBE && !end) return 0;
    if (v != CALL_YES) return plain(s, text, n);
    s->state = GAP;
    s->scan = (struct scan){0};
    return at + k;
}

size_t tool_step(struct stage *s, const char *text, size_t n, bool end)
{
    size_t k = 0;
    if (!s->tools->begin[0]) return step_unmarked(s, text, n, end);
    if (s->state == PLAIN) return content(s, text, n);
    if (s->state == CLOSE) k = step_close(s, text, n, end);
    if (k == 0 && s->state == GAP) k = step_gap(s, text, n, end);
    if (k == 0 && s->state == TEXT) k = step_text(s, text, n, end);
    return k;
}
