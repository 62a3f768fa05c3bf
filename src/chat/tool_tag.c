/* tool_tag.c - the structural tag of an answer: reasoning, then calls in the form of their
 * family, content, or free text with calls in it.
 *
 * A special token has no bytes in a grammar (grammar.c). So each mark of a family is written as
 * text or as tokens, as the tokenizer encodes it. Free text excludes a mark in both forms,
 * because the parser sees only its text. */
#include "chat/parser_impl.h"

#include "base/json_out.h"

#include <string.h>

enum { NAME_BYTE_MAX = 256, TOOL_MAX = 1000 };

/* The first part of a mark, which is common to its spellings with other blanks (parser_impl.h). */
struct mark {
    const char *text;
    size_t n;
};

enum { MARK_MAX = 5 };

struct tagger {
    const struct chat_answer *a;
    const struct tool_family *family; /* NULL if there are no calls */
    const struct call_text *text;
    struct mark mark
        [MARK_MAX]; /* [n_mark]: begin calls in the family's parser; mark[0] begins written calls */
    size_t n_mark;
    struct json_out o;
};

/* ---- formats ---- */

/* Begin an object {"type": type}. key: NULL in a list. */
static void begin_format(struct tagger *g, const char *key, const char *type)
{
    out_object(&g->o, key);
    out_word(&g->o, "type", type);
}

/* Begin a format with the list "elements". end_list ends both. */
static void begin_list(struct tagger *g, const char *key, const char *type)
{
    begin_format(g, key, type);
    out_list(&g->o, "elements");
}

static void end_list(struct tagger *g)
{
    out_end(&g->o);
    out_end(&g->o);
}

static void put_const(struct tagger *g, const char *text, size_t n)
{
    begin_format(g, NULL, "const_string");
    out_text(&g->o, "value", text, n);
    out_end(&g->o);
}

static void put_regex(struct tagger *g, const char *pattern)
{
    begin_format(g, NULL, "regex");
    out_word(&g->o, "pattern", pattern);
    out_end(&g->o);
}

/* Return the length of the special token that text begins with; 0 if none. */
static size_t special_at(const struct tagger *g, const char *text, size_t n)
{
    return g->a->special ? g->a->special(g->a->special_arg, text, n) : 0;
}

static bool has_special(const struct tagger *g, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (special_at(g, text + i, n - i)) return true;
    return false;
}

/* Put a text of the family as strings and special tokens: at least one element. */
static void put_text(struct tagger *g, const char *text, size_t n)
{
    size_t begin = 0, k;
    for (size_t i = 0; i < n; i += k ? k : 1) {
        k = special_at(g, text + i, n - i);
        if (k == 0) continue;
        if (i > begin) put_const(g, text + begin, i - begin);
        begin_format(g, NULL, "token");
        out_text(&g->o, "token", text + i, k);
        out_end(&g->o);
        begin = i + k;
    }
    if (begin < n || n == 0) put_const(g, text + begin, n - begin);
}

static void put_word(struct tagger *g, const char *text)
{
    if (text) put_text(g, text, strlen(text));
}

/* Put a text in which %d is a number and %s an id (struct call_text). */
static void put_pattern(struct tagger *g, const char *text)
{
    while (text && *text) {
        size_t n = strcspn(text, "%");
        bool number = strncmp(text + n, "%d", 2) == 0, id = strncmp(text + n, "%s", 2) == 0;
        if (text[n] && !number && !id) n++;
        if (n > 0) put_text(g, text, n);
        if (number) put_regex(g, "0|[1-9][0-9]{0,2}");
        if (id) put_regex(g, "[a-zA-Z0-9]{9}");
        text += n + (number || id ? 2 : 0);
    }
}

/* Put a list of marks as the member `key`. */
static void put_words(struct tagger *g, const char *key, const struct mark *mark, size_t n)
{
    out_list(&g->o, key);
    for (size_t i = 0; i < n; i++) out_text(&g->o, NULL, mark[i].text, mark[i].n);
    out_end(&g->o);
}

/* Put free text that excludes some marks. */
static void put_free(struct tagger *g, const struct mark *mark, size_t n)
{
    begin_format(g, NULL, "any_text");
    put_words(g, "excludes", mark, n);
    out_end(&g->o);
}

/* ---- calls ---- */

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* Return the text before the first blank, or before the first < that follows a >. */
static struct mark first_part(const char *text)
{
    size_t n = 0;
    while (text[n] && text[n] != ' ' && (text[n] < '\t' || text[n] > '\r'))
        if (text[n++] == '>' && text[n] == '<') break;
    return (struct mark){text, n};
}

/* Return the text that begins calls. */
static const char *written(const struct tagger *g)
{
    return g->text->begin && *g->text->begin ? g->text->begin : or_empty(g->text->open);
}

static bool contains(const struct mark *m, const struct mark *part)
{
    return memmem(m->text, m->n, part->text, part->n) != NULL;
}

/* Move the shortest mark that begins the written text to mark[0]. Return false if there is none. */
static bool find_trigger(struct tagger *g)
{
    size_t at = MARK_MAX;
    for (size_t i = 0; i < g->n_mark; i++) {
        bool begins = strncmp(written(g), g->mark[i].text, g->mark[i].n) == 0;
        if (begins && (at == MARK_MAX || g->mark[i].n < g->mark[at].n)) at = i;
    }
    if (at == MARK_MAX) return false;
    struct mark found = g->mark[at];
    g->mark[at] = g->mark[0], g->mark[0] = found;
    return true;
}

/* Set the marks that begin calls for the family's parser; none if some calls have no mark.
 * mark[0] is in written calls. A text without it contains no mark that contains it, so these are
 * left out. */
static void find_marks(struct tagger *g)
{
    const struct tool_family *f = g->family;
    const char *const all[] = {f->section_begin, f->begin[0], f->begin[1], f->begin[2]};
    size_t n = 0;
    for (int i = 0; i < 4; i++) {
        if (all[i] && !*all[i]) return;
        if (all[i]) g->mark[n++] = first_part(all[i]);
    }
    g->n_mark = n;
    if (n == 0 || !find_trigger(g)) return;
    for (size_t i = g->n_mark = 1; i < n; i++)
        if (!contains(&g->mark[i], &g->mark[0]) && !contains(&g->mark[0], &g->mark[i]))
            g->mark[g->n_mark++] = g->mark[i];
}

/* Put the name of a tool, escaped as JSON if the family quotes it. */
static void put_name(struct tagger *g, const struct chat_tool *tool)
{
    struct buf b = {0};
    if (!g->text->quoted) return put_const(g, tool->name, tool->n_name);
    json_put_text(&b, tool->name, tool->n_name);
    g->o.b->failed |= b.failed;
    if (b.n >= 2) put_const(g, b.data + 1, b.n - 2);
    buf_deinit(&b);
}

/* Put the arguments of a call. Without a schema they are any object. In a style that names each
 * argument, they are then free text up to the end of the call. */
static void put_arguments(struct tagger *g, const struct chat_tool *tool)
{
    static const char object[] = "{\"type\":\"object\"}";
    struct mark end[] = {first_part(or_empty(g->text->close)), g->mark[0]};
    if (!tool->schema && g->text->style) return put_free(g, end, g->n_mark ? 2 : 1);
    begin_format(g, NULL, "json_schema");
    if (tool->schema)
        out_raw(&g->o, "json_schema", tool->schema, tool->n_schema);
    else
        out_raw(&g->o, "json_schema", object, sizeof object - 1);
    if (g->text->style) out_word(&g->o, "style", g->text->style);
    out_end(&g->o);
}

/* Put a call as a tag, without its first n_skip bytes, which are already written. */
static void put_call(struct tagger *g, const struct chat_tool *tool, size_t n_skip)
{
    const char *open = or_empty(g->text->open) + n_skip;
    out_object(&g->o, NULL);
    out_word(&g->o, "begin", "");
    begin_list(g, "content", "sequence");
    put_pattern(g, open);
    put_name(g, tool);
    put_pattern(g, g->text->middle);
    put_arguments(g, tool);
    put_pattern(g, g->text->close);
    end_list(g);
    out_word(&g->o, "end", "");
    out_end(&g->o);
}

/* Put one or more calls with separators; exactly one if `one`. */
static void put_separated(struct tagger *g, size_t n_skip, bool one)
{
    begin_format(g, NULL, "tags_with_separator");
    out_list(&g->o, "tags");
    for (size_t i = 0; i < g->a->n_tool; i++) put_call(g, &g->a->tool[i], n_skip);
    out_end(&g->o);
    out_word(&g->o, "separator", or_empty(g->text->between));
    out_flag(&g->o, "at_least_one", true);
    out_flag(&g->o, "stop_after_first", one);
    out_end(&g->o);
}

/* Put one or more calls with the texts `begin` and `end`, without the first n_skip bytes. */
static void put_calls(struct tagger *g, size_t n_skip, bool one)
{
    const char *begin = or_empty(g->text->begin);
    size_t n = strlen(begin), k = n_skip < n ? n_skip : n;
    begin_list(g, NULL, "sequence");
    put_text(g, begin + k, n - k);
    put_separated(g, n_skip - k, one || n_skip > n);
    put_word(g, g->text->end);
    end_list(g);
}

static bool one_call(const struct tagger *g)
{
    return g->a->one_call || g->text->single;
}

/* ---- free text with calls in it ---- */

/* Put free text in which mark[0] begins calls. */
static void put_triggered(struct tagger *g)
{
    bool one = one_call(g);
    begin_format(g, NULL, "dispatch");
    out_list(&g->o, "rules");
    out_list(&g->o, NULL);
    out_text(&g->o, NULL, g->mark[0].text, g->mark[0].n);
    put_calls(g, g->mark[0].n, one);
    out_end(&g->o);
    out_end(&g->o);
    out_flag(&g->o, "loop", !one);
    put_words(g, "excludes", g->mark + 1, g->n_mark - 1);
    out_end(&g->o);
}

/* Put free text in which a special token begins calls: star(text calls) text, or text
 * optional(calls) if there is at most one. */
static void put_triggered_token(struct tagger *g)
{
    bool one = one_call(g);
    begin_list(g, NULL, "sequence");
    if (one) put_free(g, g->mark, g->n_mark);
    begin_format(g, NULL, one ? "optional" : "star");
    begin_list(g, "content", "sequence");
    if (!one) put_free(g, g->mark, g->n_mark);
    put_calls(g, 0, one);
    end_list(g);
    out_end(&g->o);
    if (!one) put_free(g, g->mark, g->n_mark);
    end_list(g);
}

/* Put calls without a mark, or free text. A message that begins with a brace is calls. */
static void put_unmarked(struct tagger *g, char brace)
{
    static const char blank[] = " \\t\\n\\x0b\\x0c\\r";
    struct buf b = {0};
    begin_list(g, NULL, "or");
    put_calls(g, 0, one_call(g));
    buf_addf(&b, "[%s]*([^%s\\%c][\\s\\S]*)?", blank, blank, brace);
    g->o.b->failed |= b.failed;
    put_regex(g, b.data ? b.data : "");
    end_list(g);
    buf_deinit(&b);
}

/* Put free text with calls in it. ERR_UNSUPPORTED if no mark distinguishes the calls. */
static int put_free_calls(struct tagger *g, struct err *e)
{
    const char *text = written(g);
    const struct mark *mark = g->mark;
    bool marked = g->n_mark && !g->family->start_only && strncmp(text, mark->text, mark->n) == 0;
    if (!g->n_mark && (*text == '{' || *text == '['))
        put_unmarked(g, *text);
    else if (marked && has_special(g, mark->text, mark->n))
        put_triggered_token(g);
    else if (marked)
        put_triggered(g);
    else
        return err_field(e, ERR_UNSUPPORTED, "tools",
                         ": no mark begins the calls of this model, so that \"strict\" cannot be "
                         "kept beside free text; tool_choice \"required\" can");
    return 0;
}

/* ---- reasoning ---- */

/* Put reasoning up to its closing mark and the gap after it. open: with its opening mark. */
static void put_closed_reasoning(struct tagger *g, const struct reason_family *r, bool open)
{
    begin_list(g, open ? "content" : NULL, "sequence");
    struct mark close[3];
    size_t n = 0;
    for (; n < 3 && r->close[n]; n++) close[n] = first_part(r->close[n]);
    if (open) put_word(g, r->open[0]);
    put_free(g, close, n);
    put_word(g, r->close[0]);
    if (g->a->gap)
        put_word(g, g->a->gap);
    else
        put_regex(g, "[ \\t\\r\\n]{0,4}");
    end_list(g);
}

static void put_reasoning(struct tagger *g)
{
    const struct reason_family *r = reason_family_of(g->a->reasoning_parser);
    if (!r || g->a->place == CHAT_AFTER) return;
    if (g->a->place == CHAT_INSIDE) return put_closed_reasoning(g, r, false);
    begin_format(g, NULL, "optional");
    put_closed_reasoning(g, r, true);
    out_end(&g->o);
}

const char *chat_reasoning_gap(const struct template *t, const char *reasoning_parser)
{
    const struct reason_family *r = reason_family_of(reasoning_parser);
    const char *open, *close = NULL, *at = NULL;
    if (t) template_thinking(t, &open, &close);
    if (r && close) at = strstr(close, r->close[0]);
    if (at) at += strlen(r->close[0]);
    return at && space_front(at, strlen(at)) == strlen(at) ? at : "";
}

bool chat_calls_are_marked(const char *tool_parser)
{
    const struct tool_family *f = tool_family_of(tool_parser);
    return f && f->begin[0] && *f->begin[0];
}

/* ---- the answer ---- */

static int check_name(const struct tagger *g, const struct chat_tool *tool, struct err *e)
{
    bool plain = tool->n_name > 0;
    for (size_t i = 0; i < tool->n_name; i++) {
        unsigned char c = (unsigned char)tool->name[i];
        bool letter = ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
        plain &= letter || c == '_' || c == '-' || (c && strchr("._-", c)) ||
                 (g->text->quoted && c >= ' ' && c != 0x7F);
    }
    if (!plain)
        return err_field(e, ERR_ARG, "tools",
                         "[%zu].function.name: must have only letters, digits, _, - and . to be "
                         "called as this request demands",
                         tool->i);
    if (tool->n_name > NAME_BYTE_MAX)
        return err_field(e, ERR_ARG, "tools", "[%zu].function.name: must have at most %d bytes",
                         tool->i, NAME_BYTE_MAX);
    return 0;
}

static int check_names(const struct tagger *g, struct err *e)
{
    const struct chat_tool *tool = g->a->tool;
    int rc = 0;
    if (g->a->n_tool > TOOL_MAX)
        return err_field(e, ERR_LIMIT, "tools",
                         ": at most %d can be held to their schemas, got %zu", TOOL_MAX,
                         g->a->n_tool);
    for (size_t i = 0; rc == 0 && i < g->a->n_tool; i++) rc = check_name(g, &tool[i], e);
    for (size_t i = 0; rc == 0 && i < g->a->n_tool; i++)
        for (size_t k = 0; k < i; k++)
            if (tool[k].n_name == tool[i].n_name &&
                memcmp(tool[k].name, tool[i].name, tool[i].n_name) == 0)
                return err_field(e, ERR_ARG, "tools",
                                 "[%zu].function.name: is the name of tools[%zu], too", tool[i].i,
                                 tool[k].i);
    return rc;
}

/* Return true if the template contains the text that this form of calls requires. */
static bool fits(const struct call_text *c, const struct template *t)
{
    return !c->has || (t && strstr(template_source(t), c->has));
}

/* Set the family and its form of calls, and check the names of the tools. */
static int find_text(struct tagger *g, struct err *e)
{
    const struct tool_family *f = g->family = tool_family_of(g->a->tool_parser);
    enum { N_TEXT = sizeof f->text / sizeof *f->text };
    for (int i = 0; f && !g->text && i < N_TEXT && f->text[i].open; i++)
        if (fits(&f->text[i], g->a->t)) g->text = &f->text[i];
    if (g->text) find_marks(g);
    if (g->text) return check_names(g, e);
    return err_field(e, ERR_UNSUPPORTED, "tool_choice",
                     ": not supported for calls of an unknown form; choose a parser with "
                     "--tool-call-parser (a wrong name lists them)");
}

/* Put what follows reasoning: free text with calls, or only calls, content or either. */
static int put_body(struct tagger *g, struct err *e)
{
    const struct chat_answer *a = g->a;
    bool either = a->n_tool && a->content;
    if (a->n_tool && !a->no_text) return put_free_calls(g, e);
    if (either) begin_list(g, NULL, "or");
    if (a->n_tool) put_calls(g, 0, one_call(g));
    if (a->content) out_raw(&g->o, NULL, a->content, a->n_content);
    if (either) end_list(g);
    return 0;
}

struct chat_expected chat_answer_expected(const struct chat_answer *a)
{
    return (struct chat_expected){.closed = a->no_text || a->place == CHAT_INSIDE,
                                  .either = a->n_tool > 0 && a->content,
                                  .verbatim = a->no_text,
                                  .gap = a->gap};
}

int chat_answer_tag(struct buf *out, const struct chat_answer *a, struct err *e)
{
    struct tagger g = {.a = a, .o = {.b = out}};
    int rc = a->n_tool ? find_text(&g, e) : 0;
    if (rc != 0) return rc;
    begin_list(&g, NULL, "sequence");
    put_reasoning(&g);
    rc = put_body(&g, e);
    end_list(&g);
    return rc == 0 && out->failed ? err_memory(e, "a grammar", out->n) : rc;
}
