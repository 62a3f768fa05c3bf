/* harmony.c - messages of gpt-oss, each with a header:
 *
 *   <|start|>assistant [to=functions.NAME] <|channel|>analysis|commentary|final [<|constrain|>json]
 *   <|message|> text <|end|> or <|call|> or <|return|>
 *
 * The prompt ends with <|start|>assistant. A message to functions.NAME is a call, on any channel.
 * The channel "analysis" is reasoning, and all other channels are content. The parser removes
 * messages to other recipients, because they call tools that no request declares. Text without a
 * header is content. */
#include "chat/parser_impl.h"

#include <string.h>

enum { HEADER, BODY };
enum { TO_CONTENT, TO_REASONING, TO_RAW, TO_CALL, TO_NONE }; /* kinds of bodies (s->call.part) */
enum { HEADER_BYTES_MAX = 2048 };

static const char function_mark[] = "to=functions.";

static bool contains_word(const char *text, size_t n, const char *word)
{
    return memmem(text, n, word, strlen(word)) != NULL;
}

/* Emit text of the body as the kind of the body requires. Return n. */
static size_t emit(struct parser_stage *s, const char *text, size_t n)
{
    switch (s->call.part) {
    case TO_REASONING:
        parser_emit(s, CHAT_REASONING, text, n);
        break;
    case TO_CALL:
        parser_emit_arguments(s, text, n);
        break;
    case TO_NONE:
        break;
    default:
        parser_emit(s, CHAT_CONTENT, text, n);
    }
    return n;
}

/* Copy the name that follows "to=functions." in a header. Return false if the header has no name of
 * a function. */
static bool read_recipient(const char *text, size_t n, char name[NAME_ROOM])
{
    const char *p = memmem(text, n, function_mark, sizeof function_mark - 1);
    size_t k = 0;
    if (!p) return false;
    for (p += sizeof function_mark - 1; p < text + n && k < NAME_ROOM - 1 && in_name(*p); p++)
        name[k++] = *p;
    name[k] = 0;
    return k > 0;
}

/* Return true if `channel` follows the last <|channel|> of a header. */
static bool is_channel(const char *text, size_t n, const char *channel)
{
    static const char mark[] = "<|channel|>";
    const char *last = NULL, *p = text;
    while ((p = memmem(p, n - (size_t)(p - text), mark, sizeof mark - 1)))
        last = p += sizeof mark - 1;
    return last && text_begins(last, n - (size_t)(last - text), channel);
}

/* Begin the body after the header text[0, n). The header does not include <|message|>. */
static void body_begin(struct parser_stage *s, const char *text, size_t n)
{
    char name[NAME_ROOM];
    bool calls = s->tools && !s->no_calls && read_recipient(text, n, name);
    bool other = contains_word(text, n, " to=") && !contains_word(text, n, " to=assistant") &&
                 !contains_word(text, n, function_mark);
    s->state = BODY;
    s->call.value.quoted = s->call.value.escaped = false;
    s->n_emitted = 0;
    s->call.part = calls ? TO_CALL : other ? TO_NONE : TO_CONTENT;
    if (calls) parser_emit_call(s, name, NULL);
    if (calls || other || !is_channel(text, n, "analysis")) return;
    s->call.part = s->reason ? TO_REASONING : TO_RAW;
    if (!s->reason) parser_emit(s, CHAT_CONTENT, text, n);
    if (!s->reason) parser_emit(s, CHAT_CONTENT, "<|message|>", 11);
}

/* Return CALL_YES if a header begins at text[0]. */
static enum call_verdict is_header(const char *text, size_t n)
{
    static const char *const begins[] = {"<|channel|>", "<|start|>", "<|constrain|>", "<|message|>",
                                         " to="};
    enum call_verdict v = CALL_NO;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        if (text_begins(text, n, begins[i])) return CALL_YES;
        if (text_may_begin(text, n, begins[i])) v = CALL_MAYBE;
    }
    return v;
}

/* Consume a header up to <|message|>. Text without a header is content. A header has at most
 * HEADER_BYTES_MAX bytes, which limits the memory for a header without an end. */
static size_t step_header(struct parser_stage *s, const char *text, size_t n, bool end)
{
    static const char message[] = "<|message|>", start[] = "<|start|>";
    enum call_verdict v = is_header(text, n);
    if (v == CALL_MAYBE && !end) return 0;
    if (v == CALL_NO) {
        s->state = BODY;
        s->call.part = TO_CONTENT;
        return 0;
    }
    if (text_begins(text, n, start)) {
        size_t k = sizeof start - 1;
        if (!end && text_may_begin(text + k, n - k, "assistant")) return 0;
        return k + (text_begins(text + k, n - k, "assistant") ? 9 : 0);
    }
    const size_t max = n < HEADER_BYTES_MAX ? n : HEADER_BYTES_MAX;
    const char *p = memmem(text, max, message, sizeof message - 1);
    if (!p && !end && n < HEADER_BYTES_MAX) return 0;
    if (!p) return max; /* the header has no body */
    body_begin(s, text, (size_t)(p - text));
    return (size_t)(p - text) + sizeof message - 1;
}

static size_t body_end(struct parser_stage *s, const char *mark, size_t at)
{
    bool raw = s->call.part == TO_RAW,
         header = strcmp(mark, "<|start|>") == 0 || strcmp(mark, "<|channel|>") == 0;
    s->state = HEADER;
    if (raw && !header) parser_emit(s, CHAT_CONTENT, mark, strlen(mark));
    s->call.part = TO_CONTENT;
    return at + (header ? 0 : strlen(mark));
}

/* Emit text of arguments that are whole JSON, up to the next quote of a string that is outside of a
 * mark. Return its length; 0 if the front of the text may be a mark. A mark in a string is a part
 * of the string. */
static size_t step_string(struct parser_stage *s, const char *text, size_t n)
{
    struct value *v = &s->call.value;
    size_t i = 0;
    if (!v->quoted && (n == 0 || *text != '"')) return 0;
    if (!v->quoted) v->quoted = true, i = 1;
    for (; i < n && v->quoted; i++) {
        if (!v->escaped && text[i] == '"') v->quoted = false;
        v->escaped = !v->escaped && text[i] == '\\';
    }
    return emit(s, text, i);
}

/* Consume a message's body up to the next mark. In the arguments of a call, a mark inside a JSON
 * string is text. */
static size_t step_body(struct parser_stage *s, const char *text, size_t n, bool end)
{
    const struct chat_expected *x = &s->expected;
    const bool json = s->call.part == TO_CALL && x->complete;
    if (s->call.part == TO_CONTENT && x->verbatim && (!x->complete || x->either)) {
        bool mark = s->n_emitted == 0 && text_begins(text, n, "<|channel|>");
        if (s->n_emitted == 0 && text_may_begin(text, n, "<|channel|>") && !end) return 0;
        s->n_emitted += n;
        if (!mark) return emit(s, text, n);
    }
    size_t n_string = json ? step_string(s, text, n) : 0;
    if (n_string > 0) return n_string;
    static const char *const marks[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                        "<|channel|>"};
    const char *quote = json ? memchr(text, '"', n) : NULL;
    size_t at = quote ? (size_t)(quote - text) : n, used;
    const char *first = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t k = mark_find(marks[i], text, n);
        if (k < at) at = k, first = marks[i];
    }
    if (at > 0) return emit(s, text, at);
    enum call_verdict v = mark_at(first, text, n, &used);
    if (v == CALL_MAYBE) return end ? emit(s, text, n) : 0;
    return body_end(s, first, 0);
}

enum chat_place harmony_place(const struct parser_stage *s)
{
    if (s->state == HEADER) return s->held.n > 0 ? CHAT_UNDECIDED : CHAT_BEFORE;
    return s->call.part == TO_REASONING ? CHAT_INSIDE : CHAT_AFTER;
}

size_t harmony_step(struct parser_stage *s, const char *text, size_t n, bool end)
{
    for (;;) {
        int state = s->state;
        size_t k = state == HEADER ? step_header(s, text, n, end) : step_body(s, text, n, end);
        if (k > 0 || s->state == state) return k;
    }
}
