/* Goal: for each family of tool calls, the grammar of an answer allows the output of the family's
 * models. The parser reads every text that the grammar allows, with the same names, and with
 * arguments that match their schema. Method: make random schemas, texts from the family's
 * description, and random walks through the grammar. Parse all texts, and check the arguments with
 * the grammar of their schema. The test uses bytes instead of a tokenizer. */
#include "../unit.h"

#include "../../src/base/rng.h"
#include "../../src/chat/parser_impl.h"
#include "../../src/grammar/grammar.h"

#include <stdlib.h>

enum { N_TOOL = 3, WALK_MAX = 6000 };

/* ---- random schemas and values ---- */

static const char *const KEYS[] = {"a", "city", "n", "list", "flag", "of"};

/* Append the schema of a value, and a value that matches it. */
static void put_value(struct buf *schema, struct buf *value, uint64_t *seed)
{
    static const char *const words[] = {"Paris", "a b", "x", "so < so"};
    switch (rng_below(seed, 9)) {
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
    case 5:
        buf_add_text(schema, "{\"type\":[\"number\",\"null\"],\"minimum\":-1000}");
        buf_add_text(value, (const char *const[]){"null", "-2.5", "31"}[rng_below(seed, 3)]);
        break;
    case 6:
        buf_add_text(
            schema,
            "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"string\",\"maxLength\":9},"
            "{\"type\":[\"boolean\",\"null\"]},{\"type\":\"array\",\"items\":{\"type\":"
            "\"integer\"},\"maxItems\":2}]},\"maxItems\":4}");
        buf_add_text(value,
                     (const char *const[]){"[\"a/b\",null,[1,2],\"'\\\"\\\\,)]\"]", "[true,[]]",
                                           "[\"\",\"\u00e9\\n<|\"]"}[rng_below(seed, 3)]);
        break;
    case 7:
        buf_add_text(
            schema,
            "{\"type\":\"object\",\"properties\":{\"a b\":{\"type\":\"string\",\"maxLength\":5},"
            "\"true\":{\"type\":\"integer\",\"maximum\":99}},\"maxProperties\":4,"
            "\"additionalProperties\":{\"type\":[\"boolean\",\"string\"],\"maxLength\":4}}");
        buf_add_text(value, (const char *const[]){
                                "{}", "{\"a b\":\"x:y\",\"true\":3}",
                                "{\"true\":-1,\"of\":\"a}\",\"z\":false}"}[rng_below(seed, 3)]);
        break;
    default:
        buf_add_text(schema, "{\"type\":\"string\",\"maxLength\":6}");
        buf_addf(value, "\"%s\"", words[rng_below(seed, 3)]);
    }
}

/* Append a schema of arguments, and matching arguments in the schema's order. */
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
    struct json *list; /* functions of the request, for the parser */
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
    /* harmony.c defines the place of the mark */
    r->answer.place = f->step ? CHAT_BEFORE : CHAT_AFTER;
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

/* Return true if a call's arguments match the schema of its name. */
static bool valid(const struct rig *r, const struct chat_call *c)
{
    for (int i = 0; i < N_TOOL; i++)
        if (strcmp(r->tool[i].name, c->name) == 0)
            return allows(r->own[i], c->arguments.data, c->arguments.n);
    return false;
}

/* ---- output of the family's models ---- */

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

/* Append a value in the notation of the family's style. */
static void put_noted(struct buf *b, const struct call_body *body, const struct json *v)
{
    bool python = body->value == VALUE_PYTHON;
    size_t n;
    const char *text = json_text(v, &n), *close = json_kind(v) == JK_LIST ? "]" : "}";
    if (text && !python) {
        buf_addf(b, "%s%s%s", body->string_mark, text, body->string_mark);
    } else if (json_kind(v) == JK_NULL && python) {
        buf_add_text(b, "None");
    } else if (json_kind(v) == JK_BOOL && python) {
        buf_add_text(b, json_bool(v, false) ? "True" : "False");
    } else if (json_kind(v) == JK_LIST || json_kind(v) == JK_OBJECT) {
        buf_add_char(b, *close == ']' ? '[' : '{');
        for (size_t i = 0; i < json_count(v) && *close == ']'; i++) {
            buf_add_text(b, i ? "," : "");
            put_noted(b, body, json_item(v, i));
        }
        for (void *it = *close == '}' ? json_first(v) : NULL; it; it = json_next(v, it)) {
            const char *key = json_it_key(it, &n);
            const char *mark = python ? "\"" : strchr(key, ' ') ? body->string_mark : "";
            buf_addf(b, "%s%s%s%s:", it == json_first(v) ? "" : ",", mark, key, mark);
            put_noted(b, body, json_it_value(it));
        }
        buf_add_text(b, close);
    } else {
        json_put(b, v);
    }
}

/* Append a mark of a typed argument, without the newline at its end. The grammar needs none. */
static void put_mark(struct buf *b, const char *mark)
{
    size_t n = mark ? strlen(mark) : 0, blank = n && *mark == '\n';
    buf_add(b, mark ? mark + blank : "", n - blank - (n > 1 && mark[n - 1] == '\n'));
}

/* Return true if the schemas of this test make a value nested members. */
static bool is_nested(const struct json *v)
{
    bool ok = json_count(v) > 0 || json_field(v, "k");
    for (size_t i = 0; json_kind(v) == JK_LIST && i < json_count(v); i++)
        ok = ok && json_kind(json_item(v, i)) == JK_INT;
    return json_kind(v) == JK_OBJECT ? json_field(v, "k") != NULL : json_kind(v) == JK_LIST && ok;
}

/* Append a value between marks that may be nested members. */
static void put_nested(struct buf *b, const struct call_body *body, const struct json *v)
{
    size_t n;
    for (size_t i = 0; json_kind(v) == JK_LIST && is_nested(v) && i < json_count(v); i++) {
        buf_addf(b, "%sitem>", body->key_begin);
        json_put(b, json_item(v, i));
        buf_addf(b, "%sitem>", body->value_end);
    }
    for (void *it = is_nested(v) && json_kind(v) == JK_OBJECT ? json_first(v) : NULL; it;
         it = json_next(v, it)) {
        buf_addf(b, "%s%s>", body->key_begin, json_it_key(it, &n));
        json_put(b, json_it_value(it));
        buf_addf(b, "%s%s>", body->value_end, json_it_key(it, &n));
    }
    if (!is_nested(v)) json_put(b, v);
}

/* Append arguments in the family's style. */
static void put_styled(struct buf *b, const struct rig *r, const char *arguments)
{
    const struct call_body *body = r->family->body;
    struct json *j = NULL;
    struct err e;
    NEED_OK(json_parse(&j, arguments, strlen(arguments), NULL, &e), &e);
    for (void *it = r->text->style ? json_first(j) : NULL; it; it = json_next(j, it)) {
        size_t n;
        const char *key = json_it_key(it, &n), *text = json_text(json_it_value(it), NULL);
        if (body->argument_separator && it != json_first(j))
            buf_add_text(b, body->argument_separator);
        put_mark(b, body->key_begin);
        buf_add_text(b, key);
        put_mark(b, body->key_end[!text && body->key_end[1]]);
        if (body->value != VALUE_TYPED)
            put_noted(b, body, json_it_value(it));
        else if (text)
            buf_add_text(b, text);
        else if (body->nested)
            put_nested(b, body, json_it_value(it));
        else
            json_put(b, json_it_value(it));
        put_mark(b, body->value_end);
        if (body->nested) buf_addf(b, "%s>", key);
    }
    if (!r->text->style) buf_add_text(b, arguments);
    json_drop(j);
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
    put_styled(b, r, arguments);
    put_pattern(b, r->text->close, i);
    buf_deinit(&name);
}

/* Check that two JSON texts have equal values. */
static void expect_same(const struct rig *r, const char *got, const char *want)
{
    struct json *a = NULL, *b = NULL;
    struct buf x = {0}, y = {0};
    json_parse(&a, got, strlen(got), NULL, NULL);
    json_parse(&b, want, strlen(want), NULL, NULL);
    if (a) json_put(&x, a);
    if (b) json_put(&y, b);
    if (!a || x.n != y.n || memcmp(x.data, y.data, x.n) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s is not %s", r->family->name, got, want);
    json_drop(a);
    json_drop(b);
    buf_deinit(&x);
    buf_deinit(&y);
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
    size_t n_used = 0;
    if (!allows(r->all, b.data, b.n)) {
        grammar_accept(r->all, grammar_begin(r->all), b.data, b.n, &n_used);
        struct err e = {0};
        grammar_failure(r->all, &e);
        test_fail(__FILE__, __LINE__, "%s does not allow %s of %s: %s", r->family->name,
                  b.data + n_used, b.data, e.text);
    }
    if (m.n_call != (r->text->single ? 1 : N_TOOL) || m.content.n > 0)
        test_fail(__FILE__, __LINE__, "%s: %zu calls in %s", r->family->name, m.n_call, b.data);
    for (size_t i = 0; i < m.n_call && i < N_TOOL; i++) {
        EXPECT_TEXT(m.call[i].name, r->tool[i].name);
        expect_same(r, m.call[i].arguments.data, r->value[i].data);
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

/* Return true, and set *s to the following state, if the grammar allows a byte. */
static bool take(struct rig *r, uint32_t *s, char byte)
{
    uint32_t next = grammar_accept(r->all, *s, &byte, 1, NULL);
    if (next != GRAMMAR_DEAD) *s = next;
    return next != GRAMMAR_DEAD;
}

/* Append a random byte that the grammar allows, and set *s to the following state. Ends of values
 * are more frequent than other bytes. Try bytes in a random order up to the first allowed one,
 * because the states of all allowed bytes take long. Return false if none. */
static bool walk_byte(struct rig *r, struct buf *b, uint32_t *s, uint64_t *seed)
{
    static const char ends[] = "\"}]<";
    char byte = 0;
    bool ok = false;
    for (const char *end = ends; *end && !ok; end++)
        ok = rng_below(seed, 4) == 0 && take(r, s, byte = *end);
    const unsigned first = (unsigned)rng_below(seed, 256),
                   step = 1 + 2 * (unsigned)rng_below(seed, 128);
    for (unsigned k = 0; k < 256 && !ok; k++)
        ok = take(r, s, byte = (char)(uint8_t)(first + k * step));
    if (ok) buf_add(b, &byte, 1);
    return ok;
}

/* Append a random text that the grammar allows. Return false if the walk found no end. */
static bool walk(struct rig *r, struct buf *b, uint64_t *seed)
{
    const char *mark = r->text->begin ? r->text->begin : r->text->open;
    bool marked = *mark;
    uint32_t s = grammar_begin(r->all);
    while (b->n < WALK_MAX) {
        if (grammar_ends(r->all, s) && rng_below(seed, 3) == 0) return true;
        uint32_t behind = grammar_accept(r->all, s, mark, strlen(mark), NULL);
        if (marked && !r->answer.no_text && behind != GRAMMAR_DEAD && rng_below(seed, 8) == 0) {
            buf_add_text(b, mark);
            s = behind;
            continue;
        }
        if (!walk_byte(r, b, &s, seed)) return grammar_ends(r->all, s);
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

/* Compile the grammar of free text that contains calls. Return false if the family's calls have no
 * mark that distinguishes them. */
static bool rig_compile_free(struct rig *r)
{
    struct buf b = {0};
    struct err e;
    r->answer.no_text = false;
    bool ok = chat_answer_tag(&b, &r->answer, &e) == 0;
    buf_deinit(&b);
    if (ok) rig_compile(r);
    return ok;
}

static void walk_family(struct rig *r, uint64_t *seed, int *n_call)
{
    const bool harmony = r->family->step != NULL;
    const char *const begun[] = {"", harmony ? "<|channel|>analysis<|message|>" : "<think>",
                                 harmony ? "<|channel|>final<|message|>" : "<think>a</think>\n"};
    static const enum chat_place place[] = {CHAT_BEFORE, CHAT_INSIDE, CHAT_AFTER};
    struct buf content = {0};
    int n = test_long() ? 40 : 2;
    buf_addf(&content, "{\"type\":\"json_schema\",\"json_schema\":%s}", r->schema[0].data);
    for (int k = 0, only = (int)rng_below(seed, 3); k < 3; k++) {
        if (!test_long() && k != only) continue;
        r->answer.place = place[k];
        r->answer.reasoning_parser = harmony ? "openai_gptoss" : "think";
        r->answer.one_call = rng_below(seed, 2);
        rig_compile(r);
        expect_walks(r, begun[k], n, seed, n_call);
        if (chat_calls_are_marked(r->family->name)) {
            r->answer.content = content.data, r->answer.n_content = content.n;
            rig_compile(r);
            expect_walks(r, begun[k], n, seed, n_call);
            r->answer.content = NULL;
        }
        if (rig_compile_free(r)) expect_walks(r, begun[k], n, seed, n_call);
        r->answer.no_text = true;
    }
    buf_deinit(&content);
}

/* Goal: the parser reads the values that each style of arguments writes. Method: force calls of
 * each family with a style, for many schemas and values. */
TEST(calls_in_styles)
{
    uint64_t seed = 7;
    int n_call = 0, n_schema = test_long() ? 60 : 2;
    for (int i = 0; tool_family_of(chat_tool_parsers(i)); i++) {
        const struct tool_family *f = tool_family_of(chat_tool_parsers(i));
        for (int s = 0; f->text[0].style && s < n_schema; s++) {
            struct rig r;
            rig_open(&r, f, &f->text[0], &seed);
            rig_compile(&r);
            expect_written(&r);
            expect_walks(&r, "", test_long() ? 3 : 1, &seed, &n_call);
            rig_close(&r);
        }
    }
    test_note("%d random calls", n_call);
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
                expect_written(&r);
                walk_family(&r, &seed, &n_call);
                rig_close(&r);
            }
    }
    test_note("%d texts of families, %d random calls", n_text, n_call);
    EXPECT(n_text > 0 && n_call > 0);
}

/* Goal: no call has a name that the family's parser reads as content. */
TEST(calls_have_no_name_of_content)
{
    const struct chat_tool all = {.name = "all", .n_name = 3};
    const struct chat_answer a = {.tool_parser = "functionary_v3_2",
                                  .tool = &all,
                                  .n_tool = 1,
                                  .no_text = true,
                                  .place = CHAT_AFTER};
    struct buf b = {0};
    struct err e;
    EXPECT_INT(chat_answer_tag(&b, &a, &e), ERR_ARG);
    EXPECT_TEXT(e.field, "tools");
    buf_deinit(&b);
}

/* Goal: marks of harmony in strings of forced arguments and in constrained content are text. */
TEST(calls_of_harmony_contain_marks)
{
    static const char *const rows[][2] = {
        {"<|channel|>commentary to=functions.f "
         "<|constrain|>json<|message|>{\"a\":\"<|end|>\\\"<|\"}",
         "|f({\"a\":\"<|end|>\\\"<|\"})"},
        {"<|channel|>analysis<|message|>so<|end|><|start|>assistant<|channel|>final<|message|>{"
         "\"a\":"
         "\"<|start|>\"}",
         "{\"a\":\"<|start|>\"}|"},
    };
    for (size_t i = 0; i < 2; i++)
        for (size_t piece = 1; piece < 9; piece++) {
            struct chat_parser *p;
            struct chat_message m = {0};
            struct buf got = {0};
            struct err e;
            const struct chat_parser_options o = {
                .tool_parser = "openai",
                .reasoning_parser = "openai_gptoss",
                .expected = {.complete = true, .verbatim = true, .either = i == 1}};
            const char *text = rows[i][0];
            NEED_OK(chat_parser_open(&p, &o, &e), &e);
            for (size_t at = 0, n = strlen(text); at < n; at += piece)
                chat_parser_push(p, text + at, n - at < piece ? n - at : piece, chat_message_add,
                                 &m);
            chat_parser_finish(p, chat_message_add, &m);
            buf_addf(&got, "%s|", m.content.data ? m.content.data : "");
            for (size_t k = 0; k < m.n_call; k++)
                buf_addf(&got, "%s(%s)", m.call[k].name, m.call[k].arguments.data);
            EXPECT_TEXT(got.data, rows[i][1]);
            buf_deinit(&got);
            chat_message_deinit(&m);
            chat_parser_close(p);
        }
}

/* Goal: free text next to strict calls without a mark contains no mark of another form of calls. */
TEST(calls_without_a_mark_have_no_other_form)
{
    static const char schema[] = "{\"type\":\"object\"}";
    static const char *const rows[][3] = {
        {"llama3_json", "so <|python_tag", "so <|python_tag|>{\"name\": \"g\"}"},
        {"xlam", "```js", "```json\n[{\"name\": \"g\", \"arguments\": {}}]"}};
    const struct chat_tool f = {
        .name = "f", .n_name = 1, .schema = schema, .n_schema = sizeof schema - 1};
    for (size_t i = 0; i < 2; i++) {
        const struct chat_answer a = {
            .tool_parser = rows[i][0], .tool = &f, .n_tool = 1, .place = CHAT_AFTER};
        struct buf b = {0};
        struct err e;
        NEED_OK(chat_answer_tag(&b, &a, &e), &e);
        struct grammar *g = compile(GRAMMAR_TAG, b.data, b.n);
        EXPECT(allows(g, rows[i][1], strlen(rows[i][1])));
        EXPECT(!allows(g, rows[i][2], strlen(rows[i][2])));
        grammar_close(g);
        buf_deinit(&b);
    }
}
