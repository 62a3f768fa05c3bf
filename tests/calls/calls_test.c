/* Goal: for each family of tool calls, the grammar of an answer allows what the family's models write, and the parser reads what the
 * grammar allows: the same names, and arguments that their schema allows.
 * Method: random schemas. Texts made of the family's description, and random walks through the grammar, both parsed; the arguments
 * are checked by the grammar of their schema alone. Bytes only: no tokenizer. */
#include "../unit.h"

#include "../../src/base/rng.h"
#include "../../src/chat/parser_impl.h"
#include "../../src/grammar/grammar.h"

#include <stdlib.h>

enum { N_TOOL = 3, WALK_MAX = 6000 };

/* ---- random schemas and values ---- */

static const char *const KEYS[] = {"a", "city", "n", "list", "flag", "of"};

/* Append the schema of a value, and a value of it. */
static void put_value(struct buf *schema, struct buf *value, uint64_t *seed)
{
    static const char *const words[] = {"Paris", "a b", "x", "so < so"};
    switch (rng_below(seed, 6)) {
    case 0:
        buf_add_text(schema, "{\"type\":\"integer\",\"minimum\":-5,\"maximum\":70}");
        buf_addf(value, "%d", (int)rng_below(seed, 76) - 5);
        break;
    case 1:
        buf_add_text(schema, "{\"type\":\"boolean\"}");
        buf_add_text(value, rng_below(seed, 2) ? "true" : "false");
        break;
    case 2:
        buf_add_text(schema, "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0,"
                             "\"maximum\":9},\"maxItems\":3}");
        buf_add_text(value, rng_below(seed, 2) ? "[1,2]" : "[]");
        break;
    case 3:
        buf_add_text(schema, "{\"type\":\"object\",\"properties\":{\"k\":{\"type\":\"boolean\"}},"
                             "\"required\":[\"k\"],\"additionalProperties\":false}");
        buf_add_text(value, "{\"k\":true}");
        break;
    case 4:
        buf_add_text(schema,
                     "{\"type\":\"string\",\"enum\":[\"Paris\",\"a b\",\"x\",\"so < so\"]}");
        buf_addf(value, "\"%s\"", words[rng_below(seed, 4)]);
        break;
    default:
        buf_add_text(schema, "{\"type\":\"string\",\"maxLength\":6}");
        buf_addf(value, "\"%s\"", words[rng_below(seed, 3)]);
    }
}

/* Append a schema of arguments, and some that it allows, in its order. */
static void put_arguments(struct buf *schema, struct buf *value, uint64_t *seed)
{
    struct buf required = {0};
    buf_add_text(schema, "{\"type\":\"object\",\"properties\":{");
    buf_add_char(value, '{');
    for (size_t k = 0; k < sizeof KEYS / sizeof *KEYS; k++) {
        struct buf one = {0};
        bool needed = rng_below(seed, 2), given = needed || rng_below(seed, 2);
        if (rng_below(seed, 3) == 0) continue;
        buf_addf(schema, "%s\"%s\":", schema->data[schema->n - 1] == '{' ? "" : ",", KEYS[k]);
        put_value(schema, &one, seed);
        if (needed) buf_addf(&required, "%s\"%s\"", required.n ? "," : "", KEYS[k]);
        if (given) buf_addf(value, "%s\"%s\":%s", value->n > 1 ? "," : "", KEYS[k], one.data);
        buf_deinit(&one);
    }
    buf_addf(schema, "},\"required\":[%s],\"additionalProperties\":false}",
             required.data ? required.data : "");
    buf_add_char(value, '}');
    buf_deinit(&required);
}

/* ---- a request ---- */

struct rig {
    const struct tool_family *family;
    const struct call_text *text;
    struct template *t;
    struct buf schema[N_TOOL], value[N_TOOL], tools;
    struct chat_tool tool[N_TOOL];
    struct json *list; /* as the request has them, for the parser */
    struct grammar *own[N_TOOL], *all;
    struct chat_answer answer;
};

static struct grammar *compile(enum grammar_kind kind, const char *text, size_t n)
{
    struct grammar *g = NULL;
    struct err e = {0};
    if (grammar_open(&g, kind, text, n, &(struct grammar_options){.plain = true}, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s: %.2000s", e.text, text);
    return g;
}

static void rig_tools(struct rig *r, uint64_t *seed)
{
    static const char *const plain[N_TOOL] = {"get_weather", "f", "a.b-c2"};
    static const char *const hostile[N_TOOL] = {"get \"it\"", "a<tool_call>[TOOL_CALLS]{",
                                                "\"}\\\n"};
    bool any = r->text->quoted && rng_below(seed, 2);
    struct err e;
    buf_add_char(&r->tools, '[');
    for (int i = 0; i < N_TOOL; i++) {
        const char *name = any && i < 2 ? hostile[i] : plain[i];
        put_arguments(&r->schema[i], &r->value[i], seed);
        r->tool[i] = (struct chat_tool){.name = name,
                                        .n_name = strlen(name),
                                        .schema = r->schema[i].data,
                                        .n_schema = r->schema[i].n,
                                        .i = (size_t)i};
        r->own[i] = compile(GRAMMAR_SCHEMA, r->schema[i].data, r->schema[i].n);
        buf_addf(&r->tools, "%s{\"type\":\"function\",\"function\":{\"name\":", i ? "," : "");
        json_put_text(&r->tools, name, strlen(name));
        buf_addf(&r->tools, ",\"parameters\":%s}}", r->schema[i].data);
    }
    buf_add_char(&r->tools, ']');
    NEED_OK(json_parse(&r->list, r->tools.data, r->tools.n, NULL, &e), &e);
}

static void rig_open(struct rig *r, const struct tool_family *f, const struct call_text *text,
                     uint64_t *seed)
{
    struct err e;
    struct buf source = {0};
    *r = (struct rig){.family = f, .text = text};
    buf_addf(&source, "{{ '%s' }}", text->has ? text->has : "");
    NEED_OK(template_open(&r->t, source.data, source.n, &e), &e);
    buf_deinit(&source);
    rig_tools(r, seed);
    r->answer = (struct chat_answer){
        .t = r->t, .tool_parser = f->name, .tool = r->tool, .n_tool = N_TOOL, .no_text = true};
    r->answer.place = CHAT_AFTER;
}

static void rig_compile(struct rig *r)
{
    struct buf b = {0};
    struct err e;
    grammar_close(r->all);
    r->all = NULL;
    NEED_OK(chat_answer_tag(&b, &r->answer, &e), &e);
    r->all = compile(GRAMMAR_TAG, b.data, b.n);
    buf_deinit(&b);
}

static void rig_close(struct rig *r)
{
    for (int i = 0; i < N_TOOL; i++) {
        buf_deinit(&r->schema[i]);
        buf_deinit(&r->value[i]);
        grammar_close(r->own[i]);
    }
    buf_deinit(&r->tools);
    json_drop(r->list);
    grammar_close(r->all);
    template_close(r->t);
}

static void read_text(const struct rig *r, const char *begun, const char *text, size_t n,
                      struct chat_message *m)
{
    struct chat_parser *p = NULL;
    struct err e;
    const struct chat_parser_options o = {.tool_parser = r->family->name,
                                          .reasoning_parser = r->answer.reasoning_parser,
                                          .tools = r->list,
                                          .expected = chat_answer_expected(&r->answer)};
    NEED_OK(chat_parser_open(&p, &o, &e), &e);
    chat_parser_push(p, begun, strlen(begun), NULL, NULL);
    EXPECT_INT(chat_parser_place(p), r->answer.place);
    for (size_t i = 0; i < n; i += 7)
        chat_parser_push(p, text + i, n - i < 7 ? n - i : 7, chat_message_add, m);
    chat_parser_finish(p, chat_message_add, m);
    chat_parser_close(p);
}

static bool allows(struct grammar *g, const char *text, size_t n)
{
    return g && grammar_ends(g, grammar_accept(g, grammar_begin(g), text, n, NULL));
}

/* Are a call's arguments what the schema of its name allows? */
static bool valid(const struct rig *r, const struct chat_call *c)
{
    for (int i = 0; i < N_TOOL; i++)
        if (strcmp(r->tool[i].name, c->name) == 0)
            return allows(r->own[i], c->arguments.data, c->arguments.n);
    return false;
}

/* ---- what the family's models write ---- */

static void put_pattern(struct buf *b, const char *text, int i)
{
    for (; text && *text; text++) {
        if (strncmp(text, "%d", 2) == 0)
            buf_addf(b, "%d", i);
        else if (strncmp(text, "%s", 2) == 0)
            buf_add_text(b, "aB3456789");
        else
            buf_add_char(b, *text);
        text += strncmp(text, "%d", 2) == 0 || strncmp(text, "%s", 2) == 0;
    }
}

static void put_call(struct buf *b, const struct rig *r, int i, const char *arguments)
{
    struct buf name = {0};
    json_put_text(&name, r->tool[i].name, r->tool[i].n_name);
    put_pattern(b, r->text->open, i);
    if (r->text->quoted)
        buf_add(b, name.data + 1, name.n - 2);
    else
        buf_add_text(b, r->tool[i].name);
    put_pattern(b, r->text->middle, i);
    buf_add_text(b, arguments);
    put_pattern(b, r->text->close, i);
    buf_deinit(&name);
}

static void expect_written(struct rig *r)
{
    struct buf b = {0};
    struct chat_message m = {0};
    put_pattern(&b, r->text->begin, 0);
    for (int i = 0; i < (r->text->single ? 1 : N_TOOL); i++) {
        if (i > 0) put_pattern(&b, r->text->between, i);
        put_call(&b, r, i, r->value[i].data);
    }
    put_pattern(&b, r->text->end, 0);
    read_text(r, "", b.data, b.n, &m);
    if (!allows(r->all, b.data, b.n))
        test_fail(__FILE__, __LINE__, "%s does not allow %s", r->family->name, b.data);
    if (m.n_call != (r->text->single ? 1 : N_TOOL) || m.content.n > 0)
        test_fail(__FILE__, __LINE__, "%s: %zu calls in %s", r->family->name, m.n_call, b.data);
    for (size_t i = 0; i < m.n_call && i < N_TOOL; i++) {
        EXPECT_TEXT(m.call[i].name, r->tool[i].name);
        EXPECT_TEXT(m.call[i].arguments.data, r->value[i].data);
    }
    chat_message_deinit(&m);
    buf_clear(&b);
    put_pattern(&b, r->text->begin, 0);
    put_call(&b, r, 0, "{\"other\":1}");
    put_pattern(&b, r->text->end, 0);
    if (allows(r->all, b.data, b.n))
        test_fail(__FILE__, __LINE__, "%s allows %s", r->family->name, b.data);
    buf_deinit(&b);
}

/* ---- random walks ---- */

/* Append a random text that the grammar allows. false: it found no end. */
static bool walk(struct rig *r, struct buf *b, uint64_t *seed)
{
    static const char ends[] = "\"}]<";
    const char *mark = r->text->begin ? r->text->begin : r->text->open;
    uint32_t s = grammar_begin(r->all);
    while (b->n < WALK_MAX) {
        char byte[256];
        int n = 0;
        if (grammar_ends(r->all, s) && rng_below(seed, 3) == 0) return true;
        uint32_t behind = grammar_accept(r->all, s, mark, strlen(mark), NULL);
        if (!r->answer.no_text && behind != GRAMMAR_DEAD && rng_below(seed, 8) == 0) {
            buf_add_text(b, mark);
            s = behind;
            continue;
        }
        for (int c = 0; c < 256; c++) {
            char one = (char)c;
            if (grammar_accept(r->all, s, &one, 1, NULL) == GRAMMAR_DEAD) continue;
            byte[n++] = one;
            if (c && strchr(ends, c) && rng_below(seed, 4) == 0) byte[0] = one, n = 1, c = 256;
        }
        if (n == 0) return grammar_ends(r->all, s);
        char next = byte[rng_below(seed, (uint64_t)n)];
        s = grammar_accept(r->all, s, &next, 1, NULL);
        buf_add(b, &next, 1);
    }
    return false;
}

static void expect_walks(struct rig *r, const char *begun, int n, uint64_t *seed, int *n_call)
{
    for (int i = 0; i < n; i++) {
        struct buf b = {0};
        struct chat_message m = {0};
        bool ended = walk(r, &b, seed);
        if (ended) read_text(r, begun, b.data ? b.data : "", b.n, &m);
        for (size_t k = 0; k < m.n_call; k++)
            if (!valid(r, &m.call[k]))
                test_fail(__FILE__, __LINE__, "%s: %s(%s) of %.1000s", r->family->name,
                          m.call[k].name, m.call[k].arguments.data, b.data);
        bool content = m.content.n > 0, calls = m.n_call > 0;
        bool wrong =
            r->answer.no_text && (r->answer.content ? content == calls : content || !calls);
        if (ended && (wrong || (r->answer.one_call && m.n_call > 1)))
            test_fail(__FILE__, __LINE__, "%s: %zu calls and \"%s\" of %.1000s", r->family->name,
                      m.n_call, m.content.data ? m.content.data : "", b.data);
        if (ended && r->answer.content && content &&
            !allows(r->own[0], m.content.data, m.content.n))
            test_fail(__FILE__, __LINE__, "%s: %s", r->family->name, m.content.data);
        *n_call += (int)m.n_call;
        chat_message_deinit(&m);
        buf_deinit(&b);
    }
}

static void walk_family(struct rig *r, uint64_t *seed, int *n_call)
{
    static const char *const begun[] = {"", "<think>", "<think>a</think>\n"};
    static const enum chat_place place[] = {CHAT_BEFORE, CHAT_INSIDE, CHAT_AFTER};
    struct buf content = {0};
    int n = test_long() ? 40 : 2;
    buf_addf(&content, "{\"type\":\"json_schema\",\"json_schema\":%s}", r->schema[0].data);
    for (int k = 0, only = (int)rng_below(seed, 3); k < 3; k++) {
        if (!test_long() && k != only) continue;
        r->answer.place = place[k];
        r->answer.reasoning_parser = "think";
        r->answer.one_call = rng_below(seed, 2);
        rig_compile(r);
        expect_walks(r, begun[k], n, seed, n_call);
        if (chat_calls_are_marked(r->family->name)) {
            r->answer.content = content.data, r->answer.n_content = content.n;
            rig_compile(r);
            expect_walks(r, begun[k], n, seed, n_call);
            r->answer.content = NULL;
        }
        if (r->family->start_only) continue;
        r->answer.no_text = false;
        rig_compile(r);
        expect_walks(r, begun[k], n, seed, n_call);
        r->answer.no_text = true;
    }
    buf_deinit(&content);
}

TEST(calls_as_families_write_them)
{
    uint64_t seed = 5;
    int n_text = 0, n_call = 0, n_schema = test_long() ? 100 : 1;
    for (int i = 0; tool_family_of(chat_tool_parsers(i)); i++) {
        const struct tool_family *f = tool_family_of(chat_tool_parsers(i));
        if (!f->text[0].open) test_note("calls of %s cannot be forced", f->name);
        for (size_t k = 0; k < sizeof f->text / sizeof *f->text && f->text[k].open; k++, n_text++)
            for (int s = 0; s < n_schema; s++) {
                struct rig r;
                rig_open(&r, f, &f->text[k], &seed);
                rig_compile(&r);
                if (!f->text[k].style) expect_written(&r);
                walk_family(&r, &seed, &n_call);
                rig_close(&r);
            }
    }
    test_note("%d texts of families, %d random calls", n_text, n_call);
    EXPECT(n_text > 0 && n_call > 0);
}
