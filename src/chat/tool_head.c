/* tool_head.c - the front of a call, up to its name. This file distinguishes calls from other text.
 *
 * The text is a call as soon as its name is complete. Any following text is emitted as its
 * arguments. The name may be the last member of a JSON object. This file searches for the name, and
 * object_step then reparses the object.
 *
 * The search stops after NAME_FAR bytes. The search continues from its last position if more text
 * arrives. Without the limit, a text with many openings and no name would be searched from each
 * opening to the end. */
#include "chat/parser_impl.h"

#include <string.h>

enum { NAME_FAR = 32 << 10, STRING_MAX = 6 * NAME_ROOM };

/* ---- names ---- */

bool in_name(char c)
{
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.' || c == '/';
}

/* Copy a name or an id at text[*at], with a NUL. Return false if the text has no name, or if the
 * name is too long. */
static bool read_name(char name[NAME_ROOM], const char *text, size_t n, size_t *at)
{
    size_t k = 0;
    for (; *at + k < n && k < NAME_ROOM - 1 && in_name(text[*at + k]); k++) name[k] = text[*at + k];
    name[k] = 0;
    *at += k;
    return k > 0 && k < NAME_ROOM - 1;
}

/* Skip blanks and the mark at text[*at]. CALL_MAYBE: the text ends within the mark. */
static enum call_verdict pass_mark(const char *mark, const char *text, size_t n, size_t *at)
{
    size_t blank = space_front(text + *at, n - *at), used = 0;
    enum call_verdict v = mark_at(mark, text + *at + blank, n - *at - blank, &used);
    if (v == CALL_YES) *at += blank + used;
    return v;
}

/* ---- a name, and arguments after marks ---- */

/* Skip [index_mark N] at text[*at]. The id is id_prefix and the text from the name up to the new
 * *at. */
static enum call_verdict pass_index(const struct call_body *b, const char *text, size_t n,
                                    size_t *at, struct tool_head *h)
{
    size_t begin = *at - strlen(h->name), k = *at;
    enum call_verdict v = pass_mark(b->index_mark, text, n, &k);
    if (v != CALL_YES) return v;
    size_t n_prefix = strlen(b->id_prefix);
    while (k < n && n_prefix + k - begin < NAME_ROOM && text[k] >= '0' && text[k] <= '9') k++;
    if (n_prefix + k - begin >= NAME_ROOM) return CALL_NO;
    if (k == n) return CALL_MAYBE;
    memcpy(h->id, b->id_prefix, n_prefix);
    memcpy(h->id + n_prefix, text + begin, k - begin);
    h->id[n_prefix + k - begin] = 0;
    *at = k;
    return CALL_YES;
}

/* Copy the id after id_mark to h->id. */
static enum call_verdict pass_id(const struct call_body *b, const char *text, size_t n, size_t *at,
                                 struct tool_head *h)
{
    size_t k = *at;
    enum call_verdict v = pass_mark(b->id_mark, text, n, &k);
    if (v != CALL_YES) return v;
    if (k == n) return CALL_MAYBE;
    if (!read_name(h->id, text, n, &k)) return CALL_NO;
    *at = k;
    return CALL_YES;
}

/* Parse the name and all text before the arguments. */
static enum call_verdict marked_name(const struct call_body *b, const char *text, size_t n,
                                     struct tool_head *h, size_t *at)
{
    enum call_verdict v = CALL_NO, name_end;
    if (!read_name(h->name, text, n, at)) return CALL_NO;
    if (*at == n) return CALL_MAYBE;
    if (b->index_mark) v = pass_index(b, text, n, at, h);
    if (b->id_mark) v = pass_id(b, text, n, at, h);
    name_end = pass_mark(b->name_end, text, n, at);
    return name_end == CALL_NO && v == CALL_MAYBE ? CALL_MAYBE : name_end;
}

/* Parse the head of CALL_NAMED. The body of CALL_NAMED must be an object, because text with a mark
 * and a word may be content. */
static enum call_verdict named_head(struct parser_stage *s, const struct call_body *b,
                                    const char *text, size_t n, struct tool_head *h)
{
    size_t at = 0;
    enum call_verdict v = marked_name(b, text, n, h, &at);
    if (v != CALL_YES) return v;
    h->n_used = at;
    const char *content = s->tools->content_name;
    size_t n_name = strlen(h->name);
    if (content && strcmp(h->name, content) == 0) {
        h->n_used = n_name + (text[n_name] == '\n'); /* further blanks are content */
        return CALL_YES;
    }
    at += space_front(text + at, n - at);
    if (at == n) return CALL_MAYBE;
    return text[at] == '{' ? CALL_YES : CALL_NO;
}

/* Check if an argument or the end of the call follows the name. */
static enum call_verdict first_argument(struct parser_stage *s, const struct call_body *b,
                                        const char *text, size_t n)
{
    size_t used, at = 0;
    enum call_verdict end = mark_at(s->tools->end[0], text, n, &used);
    if (end != CALL_NO) return end;
    enum call_verdict v = mark_at(b->key_begin ? b->key_begin : "", text, n, &used);
    if (v != CALL_YES || b->value == VALUE_TYPED) return v;
    while (at < n && at < NAME_ROOM && in_name(text[at])) at++;
    if (at == n) return CALL_MAYBE;
    return at > 0 ? pass_mark(b->key_end[0], text, n, &at) : CALL_NO;
}

static enum call_verdict marked_head(struct parser_stage *s, const struct call_body *b,
                                     const char *text, size_t n, struct tool_head *h)
{
    size_t at = 0;
    enum call_verdict v = marked_name(b, text, n, h, &at);
    if (v != CALL_YES) return v;
    h->n_used = at;
    at += space_front(text + at, n - at);
    return at == n ? CALL_MAYBE : first_argument(s, b, text + at, n - at);
}

/* ---- JSON objects ---- */

enum { OPEN, KEY, COLON, VALUE, SKIP, NEXT };

/* Decode the JSON string text[0, n) into out. Return false if the text is not a string, or if the
 * string is empty or too long. */
static bool decode(struct parser_stage *s, const char *text, size_t n, char out[NAME_ROOM])
{
    struct json *j = NULL;
    size_t k = 0;
    if (json_parse(&j, text, n, NULL, NULL) == ERR_MEMORY) parser_no_memory(s);
    const char *name = json_text(j, &k);
    bool ok = name && k > 0 && k < NAME_ROOM && !memchr(name, 0, k);
    if (ok) memcpy(out, name, k), out[k] = 0;
    json_drop(j);
    return ok;
}

size_t string_len(const char *text, size_t n)
{
    for (size_t k = 1; k < n; k++) {
        if (text[k] == '\\')
            k++;
        else if (text[k] == '"')
            return k + 1;
    }
    return 0;
}

/* Return true if the JSON string text[0, n), with its quotes, is `key`. */
static bool is_key(const char *text, size_t n, const char *key)
{
    return key && n == strlen(key) + 2 && memcmp(text + 1, key, n - 2) == 0;
}

/* Skip a value. Return true if the value has ended. */
static bool skip_value(struct head_scan *c, const char *text, size_t n)
{
    for (; c->at < n; c->at++) {
        char x = text[c->at];
        if (c->quoted && x == '\\') {
            if (c->at + 1 >= n) return false;
            c->at++;
        } else if (x == '"') {
            c->quoted = !c->quoted;
        } else if (!c->quoted && (x == '{' || x == '[')) {
            c->depth++;
        } else if (!c->quoted && (x == '}' || x == ']' || x == ',')) {
            if (c->depth == 0) return true;
            c->depth -= x != ',';
        }
    }
    return false;
}

/* Parse a string with a maximum length.
 * CALL_NO: the text is not a string, or the string is too long. */
static enum call_verdict read_string(struct head_scan *c, const char *text, size_t n, size_t *k)
{
    if (text[c->at] != '"') return CALL_NO;
    *k = string_len(text + c->at, n - c->at);
    if (*k > STRING_MAX) return CALL_NO;
    if (*k == 0) return n - c->at > STRING_MAX ? CALL_NO : CALL_MAYBE;
    return CALL_YES;
}

/* Parse a member's value. Store the name and the id, and skip all other members. */
static enum call_verdict read_member(struct head_scan *c, const struct call_body *b,
                                     const char *text, size_t n)
{
    const char *key = text + c->key;
    bool name = is_key(key, c->n_key, b->name_key), id = is_key(key, c->n_key, b->id_key);
    size_t k = 0;
    c->part = SKIP;
    if (!name && !(id && text[c->at] == '"')) return CALL_YES;
    enum call_verdict v = read_string(c, text, n, &k);
    if (v != CALL_YES) return c->part = VALUE, v;
    if (name) c->name = c->at, c->n_name = k;
    if (id) c->id = c->at, c->n_id = k;
    c->at += k;
    return CALL_YES;
}

/* Return true if the search has found all parts of a head. */
static bool named(const struct head_scan *c, const struct call_body *b)
{
    return c->n_name > 0 && (!b->id_key || c->n_id > 0);
}

/* Do one step of the search. CALL_MAYBE means that the search needs more text. CALL_YES means that
 * the search continues in the new state c->part. */
static enum call_verdict search_step(struct head_scan *c, const struct call_body *b,
                                     const char *text, size_t n)
{
    char x = text[c->at];
    size_t k;
    enum call_verdict v;
    switch (c->part) {
    case OPEN:
        c->part = KEY;
        return x == '{' ? (c->at++, CALL_YES) : CALL_NO;
    case KEY:
        if ((v = read_string(c, text, n, &k)) != CALL_YES) return v;
        c->key = c->at, c->n_key = k;
        c->at += k;
        c->part = COLON;
        return CALL_YES;
    case COLON:
        c->part = VALUE;
        return x == ':' ? (c->at++, CALL_YES) : CALL_NO;
    case VALUE:
        return read_member(c, b, text, n);
    case SKIP:
        if (!skip_value(c, text, n)) return CALL_MAYBE;
        c->part = NEXT;
        return CALL_YES;
    default:
        c->part = KEY;
        return x == ',' ? (c->at++, CALL_YES) : CALL_NO;
    }
}

/* Search for the name of a JSON call. c->at is the position of the search, and c->part its state.
 * Position and state are kept after CALL_MAYBE. */
static enum call_verdict search(struct head_scan *c, const struct call_body *b, const char *text,
                                size_t n)
{
    for (;;) {
        if (c->part == SKIP && named(c, b)) return CALL_YES;
        if (c->part != SKIP) c->at += space_front(text + c->at, n - c->at);
        if (c->at == n) return CALL_MAYBE;
        if (c->part == NEXT && text[c->at] == '}') return c->n_name > 0 ? CALL_YES : CALL_NO;
        enum call_verdict v = search_step(c, b, text, n);
        if (v != CALL_YES) return v;
    }
}

/* Parse the head of CALL_OBJECT. The members before the name are parsed twice: by object_head, and
 * by object_step after the name is found. */
static enum call_verdict object_head(struct parser_stage *s, const struct call_body *b,
                                     const char *text, size_t n, struct tool_head *h)
{
    struct head_scan *c = &s->head;
    if (c->body != b) *c = (struct head_scan){.body = b};
    enum call_verdict v = search(c, b, text, n < NAME_FAR ? n : NAME_FAR);
    if (v == CALL_MAYBE && n >= NAME_FAR) return CALL_NO;
    if (v != CALL_YES) return v;
    if (!decode(s, text + c->name, c->n_name, h->name)) return CALL_NO;
    if (c->n_id > 0 && !decode(s, text + c->id, c->n_id, h->id)) *h->id = 0;
    return CALL_YES;
}

/* Parse {NAME: and store the name in h. */
static enum call_verdict keyed_head(struct parser_stage *s, const char *text, size_t n,
                                    struct tool_head *h)
{
    struct head_scan c = {0};
    size_t k;
    if (text[0] != '{') return CALL_NO;
    c.at = 1 + space_front(text + 1, n - 1);
    if (c.at == n) return CALL_MAYBE;
    enum call_verdict v = read_string(&c, text, n, &k);
    if (v != CALL_YES) return v;
    if (!decode(s, text + c.at, k, h->name)) return CALL_NO;
    c.at += k;
    v = pass_mark(":", text, n, &c.at);
    h->n_used = c.at;
    return v;
}

/* Parse the head of a list of calls. An empty list is a message without calls. */
static enum call_verdict list_head(struct parser_stage *s, const struct call_body *b,
                                   const char *text, size_t n, struct tool_head *h)
{
    if (text[0] != '[') return CALL_NO;
    size_t at = 1 + space_front(text + 1, n - 1);
    if (at == n) return CALL_MAYBE;
    h->empty = text[at] == ']';
    if (h->empty) return CALL_YES;
    enum call_verdict v = b->form == CALL_KEYED ? keyed_head(s, text + at, n - at, h)
                                                : object_head(s, b, text + at, n - at, h);
    h->n_used = 0;
    return v;
}

/* ---- the head of a call of any form ---- */

static enum call_verdict head_of(struct parser_stage *s, const struct call_body *b,
                                 const char *text, size_t n, struct tool_head *h)
{
    switch (b->form) {
    case CALL_OBJECT:
        return object_head(s, b, text, n, h);
    case CALL_LIST:
    case CALL_KEYED:
        return list_head(s, b, text, n, h);
    case CALL_NAMED:
        return named_head(s, b, text, n, h);
    default:
        return marked_head(s, b, text, n, h);
    }
}

/* Parse the head of one call of a list, after its bracket or comma. */
enum call_verdict call_item(struct parser_stage *s, const char *text, size_t n, bool end,
                            struct tool_head *h)
{
    const struct call_body *b = s->call.body;
    *h = (struct tool_head){0};
    enum call_verdict v =
        b->form == CALL_KEYED ? keyed_head(s, text, n, h) : object_head(s, b, text, n, h);
    if (v != CALL_MAYBE || end) s->head = (struct head_scan){0};
    return v == CALL_MAYBE && end ? CALL_NO : v;
}

/* Try the forms of the family in their order. *body is the form of the call. */
enum call_verdict call_head(struct parser_stage *s, const char *text, size_t n, bool end,
                            struct tool_head *h, const struct call_body **body)
{
    /* the search has excluded the forms before s->head.body */
    const struct call_body *b = s->head.body ? s->head.body : s->tools->body;
    for (; b->form != CALL_FORM_END; b++) {
        *h = (struct tool_head){0};
        enum call_verdict v = n > 0 ? head_of(s, b, text, n, h) : CALL_MAYBE;
        if (v == CALL_MAYBE && end) v = CALL_NO;
        if (v != CALL_MAYBE) s->head = (struct head_scan){0};
        *body = b;
        if (v != CALL_NO) return v;
    }
    return CALL_NO;
}
