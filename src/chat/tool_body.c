/* tool_body.c - the text between a call's marks: an object with name and arguments, a list of
 * these, or a name and the arguments after a mark. A body is a call if it is complete, is JSON and
 * has a name. */
#include "chat/parser_impl.h"

#include <string.h>

enum { NAME_BYTE_MAX = 512 };

/* Return the length of the JSON object or list at text[0], by its braces; 0 if it is incomplete.
 * Resumes at scan.at for a longer version of the text. */
static size_t value_len(struct scan *scan, const char *text, size_t n)
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

/* Parse JSON; NULL if invalid. */
static struct json *parse(struct stage *s, const char *text, size_t n)
{
    static const struct json_limits limits = {.depth_max = 200, .node_max = 1000000};
    struct json *j = NULL;
    if (json_parse(&j, text, n, &limits, NULL) == ERR_MEMORY) parser_no_memory(s);
    return j;
}

static void emit(struct stage *s, const char *name, const char *id, struct buf *arguments)
{
    if (arguments->failed)
        parser_no_memory(s);
    else
        parser_emit_call(s, name, id, arguments->data ? arguments->data : "", arguments->n);
    buf_deinit(arguments);
}

/* ---- objects and lists of them ---- */

/* call: source[0, n_source), parsed */
static void emit_object(struct stage *s, const struct call_body *b, const struct json *call,
                        const char *name, const char *source, size_t n_source)
{
    struct buf out = {0};
    const char *key = b->arguments_key[0];
    if (b->arguments_key[1] && !json_field(call, key)) key = b->arguments_key[1];
    const struct json *arguments = json_field(call, key);
    size_t n = 0;
    const char *text = json_text(arguments, &n);
    if (text)
        buf_add(&out, text, n);
    else if (arguments && !digits_kept(&out, source, n_source, key))
        json_put(&out, arguments);
    else if (!arguments)
        buf_add_text(&out, "{}");
    emit(s, name, b->id_key ? json_text(json_field(call, b->id_key), NULL) : NULL, &out);
}

/* Return whether text[0, n) is a call. report: emit it, too. */
static bool read_object(struct stage *s, const struct call_body *b, const char *text, size_t n,
                        bool report)
{
    struct json *j = parse(s, text, n);
    const char *name = json_text(json_field(j, b->name_key), NULL);
    if (name && report) emit_object(s, b, j, name, text, n);
    json_drop(j);
    return name != NULL;
}

/* Return whether text[0, n) is a list of calls, which may be empty. report: emit them, too. */
static bool read_list(struct stage *s, const struct call_body *b, const char *text, size_t n,
                      bool report)
{
    struct json *list = parse(s, text, n);
    size_t count = json_count(list);
    bool ok = json_kind(list) == JK_LIST;
    for (size_t i = 0; ok && i < count; i++)
        ok = json_text(json_field(json_item(list, i), b->name_key), NULL) != NULL;
    json_drop(list);
    for (size_t i = 0, at = 1; ok && report && i < count; i++) {
        at += strcspn(text + at, "{");
        struct scan scan = {0};
        size_t k = value_len(&scan, text + at, n - at);
        read_object(s, b, text + at, k, true);
        at += k;
    }
    return ok;
}

static enum verdict json_body(struct stage *s, const struct call_body *b, const char *text,
                              size_t n, bool report, size_t *n_used)
{
    bool list = b->form == CALL_LIST;
    if (text[0] != (list ? '[' : '{')) return CALL_NO;
    size_t k = value_len(&s->scan, text, n);
    if (k == 0) return CALL_MAYBE;
    *n_used = k;
    bool ok = list ? read_list(s, b, text, k, report) : read_object(s, b, text, k, report);
    return ok ? CALL_YES : CALL_NO;
}

/* ---- a name, and the arguments after a mark ---- */

static bool in_name(char c)
{
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
}

/* Copy a name or an id at text[*at], with a NUL. Returns false if there is none or it is too
 * long. */
static bool read_name(char name[NAME_BYTE_MAX], const char *text, size_t n, size_t *at)
{
    size_t k = 0;
    for (; *at + k < n && k < NAME_BYTE_MAX - 1 && in_name(text[*at + k]); k++)
        name[k] = text[*at + k];
    name[k] = 0;
    *at += k;
    return k > 0 && k < NAME_BYTE_MAX - 1;
}

/* Skip the mark at text[*at]. */
static enum verdict pass_mark(const char *mark, const char *text, size_t n, size_t *at)
{
    if (text_begins(text + *at, n - *at, mark)) return *at += strlen(mark), CALL_YES;
    return text_may_begin(text + *at, n - *at, mark) ? CALL_MAYBE : CALL_NO;
}

static enum verdict named_head(const struct call_body *b, const char *text, size_t n,
                               char name[NAME_BYTE_MAX], char id[NAME_BYTE_MAX], size_t *at)
{
    *id = 0;
    if (!read_name(name, text, n, at)) return CALL_NO;
    enum verdict v = b->id_mark ? pass_mark(b->id_mark, text, n, at) : CALL_NO;
    if (v == CALL_YES && *at == n) return CALL_MAYBE;
    if (v == CALL_YES && !read_name(id, text, n, at)) return CALL_NO;
    enum verdict behind = pass_mark(b->name_end, text, n, at);
    return behind == CALL_NO && v == CALL_MAYBE ? CALL_MAYBE : behind;
}

static enum verdict named_body(struct stage *s, const struct call_body *b, const char *text,
                               size_t n, bool report, size_t *n_used)
{
    char name[NAME_BYTE_MAX], id[NAME_BYTE_MAX];
    size_t at = 0;
    enum verdict v = named_head(b, text, n, name, id, &at);
    if (v != CALL_YES) return v;
    at += space_front(text + at, n - at);
    if (at >= n) return CALL_MAYBE;
    if (text[at] != '{') return CALL_NO;
    size_t k = value_len(&s->scan, text + at, n - at);
    if (k == 0) return CALL_MAYBE;
    *n_used = at + k;
    struct json *j = parse(s, text + at, k);
    struct buf out = {0};
    if (j && report) {
        buf_add(&out, text + at, k);
        emit(s, name, *id ? id : NULL, &out);
    }
    json_drop(j);
    return j ? CALL_YES : CALL_NO;
}

enum verdict tool_body(struct stage *s, const char *text, size_t n, bool report, size_t *n_used)
{
    enum verdict v = CALL_NO;
    *n_used = 0;
    for (const struct call_body *b = s->tools->body; v == CALL_NO && b->form != CALL_FORM_END; b++)
        v = b->form == CALL_NAMED ? named_body(s, b, text, n, report, n_used)
                                  : json_body(s, b, text, n, report, n_used);
    return v;
}
