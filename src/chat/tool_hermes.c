/* tool_hermes.c - calls as <tool_call>{"name": ..., "arguments": {...}}</tool_call> (Hermes,
 * Qwen 2.5 and 3).
 *
 *   TEXT --<tool_call>{ ... }--> CLOSE --</tool_call>--> GAP (blanks dropped) --> TEXT
 *
 * A call ends where its JSON object does, so "</tool_call>" inside of an argument is harmless, and
 * a missing one too. Blanks around calls are dropped. What is no object, no JSON or has no name is
 * content, to the letter. */
#include "chat/parser_impl.h"

#include <string.h>

enum { TEXT, CLOSE, GAP };

static const char tag_open[] = "<tool_call>", tag_close[] = "</tool_call>";

/* Length of the JSON object at text[0], by its braces; 0: it does not end here. Goes on where it
 * stopped when less of the same text was there (scan.at). */
static size_t object_len(struct scan *scan, const char *text, size_t n)
{
    while (scan->at < n) {
        char c = text[scan->at];
        if (scan->quoted && c == '\\') {
            if (scan->at + 1 >= n) return 0;
            scan->at++;
        } else if (c == '"') {
            scan->quoted = !scan->quoted;
        } else if (!scan->quoted && (c == '{' || c == '[')) {
            scan->depth++;
        } else if (!scan->quoted && (c == '}' || c == ']')) {
            scan->depth--;
        }
        scan->at++;
        if (scan->depth == 0) return scan->at;
    }
    return 0;
}

static void emit_call(struct stage *s, const struct json *call, const char *name)
{
    struct buf out = {0};
    const struct json *arguments = json_field(call, "arguments");
    if (!arguments) arguments = json_field(call, "parameters");
    size_t n = 0;
    const char *text = json_text(arguments, &n);
    if (text)
        buf_add(&out, text, n);
    else if (arguments)
        json_put(&out, arguments);
    else
        buf_add_text(&out, "{}");
    if (!out.failed)
        parser_emit_call(s, name, json_text(json_field(call, "id"), NULL), out.data ? out.data : "",
                         out.n);
    buf_deinit(&out);
}

/* Is text[0, n) a call? Then it was told. */
static bool read_call(struct stage *s, const char *text, size_t n)
{
    static const struct json_limits limits = {.depth_max = 200, .node_max = 1000000};
    struct json *j = NULL;
    if (json_parse(&j, text, n, &limits, NULL) != 0) return false;
    const char *name = json_text(json_field(j, "name"), NULL);
    if (name) emit_call(s, j, name);
    json_drop(j);
    return name != NULL;
}

static size_t content(struct stage *s, const char *text, size_t n)
{
    parser_emit(s, CHAT_CONTENT, text, n);
    return n;
}

/* text[at] begins with <tool_call>; the blanks before it are not told yet. */
static size_t step_call(struct stage *s, const char *text, size_t n, size_t at, bool end)
{
    size_t begin = at + strlen(tag_open);
    begin += space_front(text + begin, n - begin);
    if (begin >= n) return end ? content(s, text, n) : 0;
    if (text[begin] != '{') return content(s, text, begin);
    size_t k = object_len(&s->scan, text + begin, n - begin);
    if (k == 0) return end ? content(s, text, n) : 0;
    s->scan = (struct scan){0};
    if (!read_call(s, text + begin, k)) return content(s, text, begin + k);
    s->state = CLOSE;
    return begin + k;
}

static size_t step_text(struct stage *s, const char *text, size_t n, bool end)
{
    const char *p = memmem(text, n, tag_open, strlen(tag_open));
    size_t at = p ? (size_t)(p - text) : n - (end ? 0 : text_partial(text, n, tag_open));
    size_t told = at - (end && !p ? 0 : space_back(text, at));
    if (told > 0) return content(s, text, told);
    return p ? step_call(s, text, n, at, end) : 0;
}

static size_t step_close(struct stage *s, const char *text, size_t n, bool end)
{
    size_t blank = space_front(text, n);
    if (text_may_begin(text + blank, n - blank, tag_close) && !end) return 0;
    s->state = GAP;
    if (text_begins(text + blank, n - blank, tag_close)) return blank + strlen(tag_close);
    return blank;
}

static size_t step_gap(struct stage *s, const char *text, size_t n, bool end)
{
    size_t blank = space_front(text, n);
    if (blank < n) s->state = TEXT;
    return blank ? blank : step_text(s, text, n, end);
}

static size_t step(struct stage *s, const char *text, size_t n, bool end)
{
    size_t k = 0;
    if (s->state == CLOSE) k = step_close(s, text, n, end);
    if (k == 0 && s->state == GAP) k = step_gap(s, text, n, end);
    if (k == 0 && s->state == TEXT) k = step_text(s, text, n, end);
    return k;
}

static bool fits(const struct template *t)
{
    const char *source = template_source(t);
    return strstr(source, tag_open) && !strstr(source, "<function=") &&
           !strstr(source, "<arg_key>") && !strstr(source, "<invoke name=");
}

const struct stage_kind tool_hermes = {.name = "hermes", .step = step, .fits = fits};
