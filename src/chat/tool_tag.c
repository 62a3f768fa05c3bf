/* tool_tag.c - the structural tag of an answer: reasoning, then calls in the form of their family,
 * content, or free text that contains calls.
 *
 * A special token has no bytes in a grammar (grammar.c). Therefore each mark of a family is written
 * as text or as tokens, as the tokenizer encodes it. Free text excludes a mark both as text and as
 * tokens, because the parser gets only the text of a mark. */
#include "chat/parser_impl.h"

#include "base/json_out.h"

#include <string.h>

enum { NAME_BYTES_MAX = 256, TOOL_MAX = 1000 };

/* First part of a mark. The part does not depend on the blanks in the mark (parser_impl.h). */
struct mark {
    const char *text; /* borrowed */
    size_t n;
};

enum { MARK_MAX = 5 };

struct tagger {
    const struct chat_answer *a;      /* borrowed */
    const struct tool_family *family; /* static; NULL if the answer has no calls */
    const struct call_text *text;     /* form of written calls, static */
    /* marks that begin calls for the family's parser [n_mark]; mark[0] begins written calls */
    struct mark mark[MARK_MAX];
    size_t n_mark;
    struct json_out o; /* writer of the tag, into the caller's buf */
};

/* ---- formats ---- */

/* Begin an object {"type": type}. key: name of the member; NULL in a list. */
static void begin_format(struct tagger *g, const char *key, const char *type)
{
    out_object(&g->o, key);
    out_word(&g->o, "type", type);
}

/* Begin a format with the list "elements". end_list ends the list and the format. */
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

/* Return the length in bytes of the special token at the front of text; 0 if none. */
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

/* Put a text of the family as at least one string or special token. */
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

/* Put a text. Do nothing if text is NULL. */
static void put_word(struct tagger *g, const char *text)
{
    if (text) put_text(g, text, strlen(text));
}

/* Put a text in which %d stands for a number and %s for an id (struct call_text). */
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

/* Return the text; "" for NULL. */
static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* Return the part of a mark before its first blank, or before its first < that follows a >. */
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

/* Return true if m contains the text of `part`. */
static bool contains(const struct mark *m, const struct mark *part)
{
    return memmem(m->text, m->n, part->text, part->n) != NULL;
}

/* Move the shortest mark that begins the written text to mark[0]. Return false if the written text
 * begins with no mark. */
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

/* Set the marks that begin calls for the family's parser; none if some calls have no mark. mark[0]
 * is the mark of written calls. Marks that contain mark[0] are omitted, because a text without
 * mark[0] cannot contain them. */
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

/* Put the quote of strings: its text or its token. */
static void put_quote(struct tagger *g, const char *mark)
{
    size_t n = strlen(mark);
    bool token = special_at(g, mark, n) == n;
    if (token) out_object(&g->o, "quote");
    out_text(&g->o, token ? "token" : "quote", mark, n);
    if (token) out_end(&g->o);
}

/* Put the arguments of a call. Permit any object if the tool has no schema. A style that names each
 * argument gets free text up to the end of the call. */
static void put_arguments(struct tagger *g, const struct chat_tool *tool)
{
    static const char object[] = "{\"type\":\"object\"}";
    struct mark end[] = {first_part(or_empty(g->text->close)), g->mark[0]};
    const struct call_body *body = g->family->body;
    bool typed = body->form == CALL_MARKED && body->value == VALUE_TYPED;
    if (!tool->schema && typed) return put_free(g, end, g->n_mark ? 2 : 1);
    begin_format(g, NULL, "json_schema");
    if (tool->schema)
        out_raw(&g->o, "json_schema", tool->schema, tool->n_schema);
    else
        out_raw(&g->o, "json_schema", object, sizeof object - 1);
    if (g->text->style) out_word(&g->o, "style", g->text->style);
    if (body->string_mark) put_quote(g, body->string_mark);
    const char *key = or_empty(body->key_begin);
    size_t n_token = special_at(g, key, strlen(key));
    if (n_token) out_text(&g->o, "token", key, n_token);
    if (tool->input) out_raw(&g->o, "input", tool->input, tool->n_input);
    out_end(&g->o);
}

/* Put a call as a tag, without the call's first n_skip bytes, which are already written. */
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

/* Put one or more calls with separators. one: put only one call. */
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

/* Return true if the request or the family permits only one call. */
static bool one_call(const struct tagger *g)
{
    return g->a->one_call || g->text->single;
}

/* ---- free text that contains calls ---- */

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

/* Put free text in which a special token begins calls. The form is star(text calls) text, or text
 * optional(calls) if at most one call is permitted. */
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

/* Put either calls without a mark or free text. A message that begins with a brace is calls. The
 * text excludes the marks of calls in other forms. */
static void put_unmarked(struct tagger *g, char brace)
{
    const struct tool_family *f = g->family;
    const char *const all[] = {f->section_begin, f->begin[0], f->begin[1], f->begin[2]};
    struct mark other[4];
    size_t n = 0;
    for (int i = 0; i < 4; i++)
        if (all[i] && *all[i] && *all[i] != brace) other[n++] = first_part(all[i]);
    begin_list(g, NULL, "or");
    put_calls(g, 0, one_call(g));
    begin_format(g, NULL, "any_text");
    put_words(g, "excludes", other, n);
    out_text(&g->o, "first_not", &brace, 1);
    out_end(&g->o);
    end_list(g);
}

/* Put free text, then optional calls after a separator. */
static void put_text_before_calls(struct tagger *g)
{
    const struct mark between = first_part(or_empty(g->text->between));
    put_free(g, &between, 1);
    begin_format(g, NULL, "optional");
    begin_list(g, "content", "sequence");
    put_text(g, between.text, between.n);
    put_calls(g, 0, one_call(g));
    end_list(g);
    out_end(&g->o);
}

/* Put calls only, or content and calls. Functionary also writes the content as a call. */
static void put_named_content(struct tagger *g)
{
    if (g->a->begun) {
        begin_list(g, NULL, "sequence");
        put_text_before_calls(g);
        end_list(g);
        return;
    }
    begin_list(g, NULL, "or");
    begin_list(g, NULL, "sequence");
    put_word(g, g->family->content_name);
    put_word(g, g->family->body->name_end);
    put_text_before_calls(g);
    end_list(g);
    put_calls(g, 0, one_call(g));
    end_list(g);
}

/* ---- messages of harmony (harmony.c) ---- */

static const char harmony_analysis[] = "<|channel|>analysis<|message|>",
                  harmony_next[] = "<|end|><|start|>assistant",
                  harmony_commentary[] = "<|channel|>commentary<|message|>",
                  harmony_final[] = "<|channel|>final<|message|>";

/* Return true if the answer consists of messages of harmony. */
static bool is_harmony(const struct tagger *g)
{
    const struct reason_family *r = reason_family_of(g->a->reasoning_parser);
    return g->family ? g->family->step == harmony_step : r && r->step == harmony_step;
}

/* Put the free text of a message. */
static void put_harmony_text(struct tagger *g)
{
    static const char *const marks[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                        "<|channel|>"};
    struct mark mark[sizeof marks / sizeof *marks];
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        mark[i] = (struct mark){marks[i], strlen(marks[i])};
    put_free(g, mark, sizeof marks / sizeof *marks);
}

/* Put a header and a text. Also put the mark after the text and the start of the next message if
 * `ends` is true. */
static void put_harmony_message(struct tagger *g, const char *header, bool ends)
{
    begin_list(g, NULL, "sequence");
    put_word(g, header);
    put_harmony_text(g);
    if (ends) put_word(g, harmony_next);
    end_list(g);
}

/* Put any number of messages before the last message. free: true if these messages may also be
 * commentary. */
static void put_harmony_begin(struct tagger *g, bool free)
{
    begin_format(g, NULL, "star");
    begin_list(g, "content", "or");
    put_harmony_message(g, harmony_analysis, true);
    if (free) put_harmony_message(g, harmony_commentary, true);
    end_list(g);
    out_end(&g->o);
}

/* Put messages. The last message is a call or free text. */
static void put_harmony_free(struct tagger *g)
{
    begin_list(g, NULL, "sequence");
    put_harmony_begin(g, true);
    begin_list(g, NULL, "or");
    put_harmony_message(g, harmony_final, false);
    put_harmony_message(g, harmony_commentary, false);
    put_calls(g, 0, true);
    end_list(g);
    end_list(g);
}

/* Put free messages with at most one call. Put the text of a message first if the prompt has begun
 * the message. */
static void put_harmony_answer(struct tagger *g)
{
    if (g->a->place == CHAT_BEFORE) return put_harmony_free(g);
    begin_list(g, NULL, "sequence");
    put_harmony_text(g);
    begin_format(g, NULL, "optional");
    begin_list(g, "content", "sequence");
    put_word(g, harmony_next);
    put_harmony_free(g);
    end_list(g);
    out_end(&g->o);
    end_list(g);
}

/* Put free text that contains calls. Return ERR_UNSUPPORTED if no mark distinguishes the calls. */
static int put_free_calls(struct tagger *g, struct err *e)
{
    const char *text = written(g);
    const struct mark *mark = g->mark;
    bool marked = g->n_mark && !g->family->start_only && strncmp(text, mark->text, mark->n) == 0;
    bool first = g->family->start_only && g->n_mark == 1 && strcmp(mark->text, text) == 0;
    if (is_harmony(g))
        put_harmony_answer(g);
    else if (g->family->content_name)
        put_named_content(g);
    else if ((!g->n_mark && (*text == '{' || *text == '[')) || (first && strcmp(text, "[") == 0))
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

/* Put reasoning, its closing mark and the following gap. open: true to also put the opening
 * mark. */
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

/* Put messages of analysis before a call or constrained content. Free messages contain their own
 * reasoning. */
static void put_harmony_reasoning(struct tagger *g)
{
    if (g->a->n_tool && !g->a->no_text) return;
    if (g->a->place == CHAT_INSIDE) {
        put_harmony_text(g);
        put_word(g, harmony_next);
    }
    if (!g->a->no_reasoning) put_harmony_begin(g, false);
}

/* Put the reasoning that the place permits: an optional block before reasoning, the rest of the
 * block inside of it, and nothing after it. */
static void put_reasoning(struct tagger *g)
{
    const struct reason_family *r = reason_family_of(g->a->reasoning_parser);
    bool begins = g->a->place == CHAT_BEFORE && !g->a->no_reasoning;
    if (!r || (g->a->place != CHAT_INSIDE && !begins)) return;
    if (is_harmony(g)) return put_harmony_reasoning(g);
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
    if (!f || f->start_only) return false;
    if (f->step == harmony_step) return true;
    return f->begin[0] ? *f->begin[0] : f->section_begin != NULL;
}

/* ---- the answer ---- */

/* Check the name of a tool. The name is written without escapes in most forms, so only plain
 * characters are allowed. */
static int check_name(const struct tagger *g, const struct chat_tool *tool, struct err *e)
{
    bool plain = tool->n_name > 0;
    for (size_t i = 0; i < tool->n_name; i++) {
        unsigned char c = (unsigned char)tool->name[i];
        bool letter = ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
        plain &= letter || c == '_' || c == '-' || (c && strchr("._-", c)) ||
                 (g->text->quoted && c >= ' ' && c != 0x7F);
    }
    if (g->family->content_name && strcmp(tool->name, g->family->content_name) == 0)
        return err_field(e, ERR_ARG, "tools",
                         "[%zu].function.name: must not be \"%s\", which begins this model's "
                         "content",
                         tool->i, g->family->content_name);
    if (!plain)
        return err_field(e, ERR_ARG, "tools",
                         "[%zu].function.name: must have only letters, digits, _, - and . if its "
                         "calls are forced, got \"%.60s\"",
                         tool->i, tool->name);
    if (tool->n_name > NAME_BYTES_MAX)
        return err_field(e, ERR_ARG, "tools",
                         "[%zu].function.name: must have at most %d bytes, got %zu", tool->i,
                         NAME_BYTES_MAX, tool->n_name);
    return 0;
}

/* Check all names, and their number. Two tools with one name would have two schemas for one
 * call. */
static int check_names(const struct tagger *g, struct err *e)
{
    const struct chat_tool *tool = g->a->tool;
    int rc = 0;
    if (g->a->n_tool > TOOL_MAX)
        return err_field(e, ERR_LIMIT, "tools",
                         ": must have at most %d tools with schemas, got %zu", TOOL_MAX,
                         g->a->n_tool);
    for (size_t i = 0; rc == 0 && i < g->a->n_tool; i++) rc = check_name(g, &tool[i], e);
    for (size_t i = 0; rc == 0 && i < g->a->n_tool; i++)
        for (size_t k = 0; k < i; k++)
            if (tool[k].n_name == tool[i].n_name &&
                memcmp(tool[k].name, tool[i].name, tool[i].n_name) == 0)
                return err_field(e, ERR_ARG, "tools",
                                 "[%zu].function.name: must be unique, got the name of tools[%zu]",
                                 tool[i].i, tool[k].i);
    return rc;
}

/* Return true if the template contains the text that the form c requires. */
static bool fits(const struct call_text *c, const struct template *t)
{
    return !c->has || (t && strstr(template_source(t), c->has));
}

/* Set the family and the form of calls, and check the names of the tools. */
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

/* Put the constrained content. In harmony the content is a message, unless the prompt has begun the
 * content. */
static void put_content(struct tagger *g)
{
    bool message = is_harmony(g) && g->a->place != CHAT_AFTER;
    if (message) begin_list(g, NULL, "sequence");
    if (message) put_word(g, harmony_final);
    out_raw(&g->o, NULL, g->a->content, g->a->n_content);
    if (message) end_list(g);
}

/* Put the part after reasoning: free text with calls, only calls, only content, or either calls or
 * content. */
static int put_body(struct tagger *g, struct err *e)
{
    const struct chat_answer *a = g->a;
    bool either = a->n_tool && a->content;
    if (a->n_tool && !a->no_text) return put_free_calls(g, e);
    if (either) begin_list(g, NULL, "or");
    if (a->n_tool) put_calls(g, 0, one_call(g));
    if (a->content) put_content(g);
    if (either) end_list(g);
    return 0;
}

struct chat_expected chat_answer_expected(const struct chat_answer *a)
{
    return (struct chat_expected){.closed = a->no_text || a->place == CHAT_INSIDE,
                                  .either = a->n_tool > 0 && a->content,
                                  .verbatim = a->no_text,
                                  .complete = a->n_tool > 0,
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
