/* Goal: model output is read as recorded, and however it is cut the deltas add up to the same.
 * Method: the recorded cases of the Hermes and <think> conventions, cases of our own, each whole,
 * byte by byte and in odd pieces. */
#include "chat/chat.h"
#include "base/os.h"
#include "base/rng.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static void read_pieces(struct chat_message *m, const char *tools, const char *reasoning,
                        const char *text, size_t n, size_t n_piece)
{
    struct chat_parser *p = NULL;
    struct err e;
    uint64_t state = n_piece;
    NEED_OK(chat_parser_open(&p, tools, reasoning, &e), &e);
    for (size_t i = 0, k; i < n; i += k) {
        k = n_piece ? n_piece : 1 + rng_below(&state, 7);
        if (k > n - i) k = n - i;
        chat_parser_push(p, text + i, k, chat_message_add, m);
    }
    chat_parser_finish(p, chat_message_add, m);
    chat_parser_close(p);
}

static bool text_equal(const struct buf *a, const struct buf *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->data, b->data, a->n) == 0);
}

static bool message_equal(const struct chat_message *a, const struct chat_message *b)
{
    bool equal = text_equal(&a->content, &b->content) && text_equal(&a->reasoning, &b->reasoning) &&
                 a->n_call == b->n_call;
    for (size_t i = 0; equal && i < a->n_call; i++)
        equal = strcmp(a->call[i].name, b->call[i].name) == 0 &&
                text_equal(&a->call[i].arguments, &b->call[i].arguments);
    return equal;
}

static const char *shown(const struct buf *b)
{
    return b->data ? b->data : "";
}

/* "reasoning|content|name(arguments)..." of the text, the same for every way of cutting it. */
static void expect_read(const char *tools, const char *reasoning, const char *text,
                        const char *want)
{
    struct chat_message whole = {0};
    struct buf line = {0};
    size_t n = strlen(text);
    read_pieces(&whole, tools, reasoning, text, n, n ? n : 1);
    buf_addf(&line, "%s|%s", shown(&whole.reasoning), shown(&whole.content));
    for (size_t i = 0; i < whole.n_call; i++)
        buf_addf(&line, "|%s(%s)", whole.call[i].name, shown(&whole.call[i].arguments));
    EXPECT_TEXT(line.data, want);
    for (size_t n_piece = 0; n_piece < 4; n_piece++) {
        struct chat_message cut = {0};
        read_pieces(&cut, tools, reasoning, text, n, n_piece);
        if (!message_equal(&cut, &whole))
            test_fail(__FILE__, __LINE__, "in pieces of %zu: %s|%s", n_piece, shown(&cut.reasoning),
                      shown(&cut.content));
        chat_message_deinit(&cut);
    }
    chat_message_deinit(&whole);
    buf_deinit(&line);
}

TEST(think_blocks)
{
    expect_read(NULL, "think", "<think>\nwhy\n</think>\n\nyes", "why|yes");
    expect_read(NULL, "think", "  <think> a\n b </think>c ", "a\n b|c ");
    expect_read(NULL, "think", "no <think>x</think>", "|no <think>x</think>");
    expect_read(NULL, "think", " <thinner", "| <thinner");
    expect_read(NULL, "think", "<think>never closed </thin ", "never closed </thin|");
    expect_read(NULL, "think", "<think></think>x", "|x");
    expect_read(NULL, "think", "", "|");
    expect_read(NULL, "think", "</think>\n\nx </think>", "|x </think>");
    expect_read(NULL, "think", "</thin", "|</thin");
    expect_read(NULL, NULL, "<think>x</think>", "|<think>x</think>");
}

TEST(hermes_calls)
{
    expect_read("hermes", NULL,
                "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
                "||f({\"a\":1})");
    expect_read(
        "hermes", NULL,
        "Hi\n<tool_call>{\"name\":\"f\"}</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{}}",
        "|Hi|f({})|g({})");
    expect_read(
        "hermes", NULL,
        "<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"</tool_call>}\\\"\"}}</tool_call> then ",
        "|then |f({\"s\":\"</tool_call>}\\\"\"})");
    expect_read("hermes", NULL,
                "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>",
                "||f({\"a\":1})");
    expect_read("hermes", NULL, "a \n<tool_call>no</tool_call>", "|a \n<tool_call>no</tool_call>");
    expect_read("hermes", NULL, "a <tool_call>\n{\"x\":1}\n</tool_call> ",
                "|a <tool_call>\n{\"x\":1}\n</tool_call> ");
    expect_read("hermes", NULL, "a <tool_call>{\"name\":\"f\",\"arg",
                "|a <tool_call>{\"name\":\"f\",\"arg");
    expect_read("hermes", NULL, "a <tool_call> ", "|a <tool_call> ");
    expect_read("hermes", NULL, "1 < 2 <tool", "|1 < 2 <tool");
    expect_read("hermes", NULL, "tail  \n", "|tail  \n");
    expect_read(
        "hermes", "think",
        "<think>\nuse <tool_call>{}</tool_call>?</think>\n<tool_call>{\"name\":\"f\"}</tool_call>",
        "use <tool_call>{}</tool_call>?||f({})");
}

/* The prompt's own part of the answer is pushed first: an opened block, or a closed one. */
TEST(answers_that_the_prompt_began)
{
    static const char source[] =
        "{% for m in messages %}{{ m.role }}: {% if m.reasoning_content %}<think>\n"
        "{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: <think>\n{% if enable_thinking is false %}\n"
        "</think>\n\n{% endif %}{% endif %}";
    static const char messages[] = "[{\"role\":\"user\",\"content\":\"u\"}]";
    static const char options[] = "{\"enable_thinking\":false}";
    struct template *t = NULL;
    struct json *j = NULL, *off = NULL;
    struct err e;
    NEED_OK(template_open(&t, source, strlen(source), &e), &e);
    NEED_OK(json_parse(&j, messages, strlen(messages), NULL, &e), &e);
    NEED_OK(json_parse(&off, options, strlen(options), NULL, &e), &e);
    EXPECT_TEXT(chat_reasoning_parser_of(t), "think");
    EXPECT(chat_tool_parser_of(t) == NULL);
    for (int thinking = 0; thinking < 2; thinking++) {
        struct conversation c = {
            .messages = j, .kwargs = thinking ? NULL : off, .add_generation_prompt = true};
        struct buf out = {0};
        struct chat_turn turn;
        NEED_OK(template_render(t, &c, &out, &turn, &e), &e);
        EXPECT_TEXT(out.data + out.n - turn.n_turn,
                    thinking ? "assistant: <think>\n" : "assistant: <think>\n</think>\n\n");
        buf_add_text(&out, thinking ? "why</think>yes" : "yes");
        size_t n = turn.n_answer + (thinking ? 14 : 3);
        expect_read(NULL, "think", out.data + out.n - n, thinking ? "why|yes" : "|yes");
        buf_deinit(&out);
    }
    json_drop(j);
    json_drop(off);
    template_close(t);
}

TEST(parser_names)
{
    struct chat_parser *p = NULL;
    struct err e;
    EXPECT_INT(chat_parser_open(&p, "nosuch", NULL, &e), ERR_ARG);
    EXPECT(strstr(e.text, "hermes") != NULL);
    EXPECT(p == NULL);
}

TEST(long_output_is_read_through)
{
    struct buf text = {0};
    struct chat_message m = {0};
    buf_add_text(&text, "<think>");
    for (int i = 0; i < 1000000; i++) buf_add_text(&text, "thought ");
    buf_add_text(&text, "</think>\n<tool_call>{\"name\":\"f\"}</tool_call>");
    read_pieces(&m, "hermes", "think", text.data, text.n, text.n);
    EXPECT_INT(m.reasoning.n, 7999999);
    EXPECT_INT(m.n_call, 1);
    EXPECT_INT(m.content.n, 0);
    chat_message_deinit(&m);
    buf_deinit(&text);
}

/* Random texts made of the conventions' own parts. */
TEST(parser_any_text_in_any_pieces)
{
    static const char *const parts[] = {"<think>",
                                        "</think>",
                                        "<tool_call>",
                                        "</tool_call>",
                                        "{\"name\":\"f\"}",
                                        "{",
                                        "}",
                                        "\"",
                                        "\\",
                                        " ",
                                        "\n",
                                        "<",
                                        "</",
                                        "x",
                                        "[1]",
                                        "{\"name\":\"g\",\"arguments\":{"};
    uint64_t state = 7;
    for (int round = 0; round < (test_long() ? 200000 : 5000); round++) {
        struct chat_message whole = {0}, cut = {0};
        struct buf text = {0};
        for (uint64_t k = rng_below(&state, 12); k > 0; k--)
            buf_add_text(&text, parts[rng_below(&state, 16)]);
        buf_add_text(&text, "");
        read_pieces(&whole, "hermes", "think", text.data ? text.data : "", text.n, text.n + 1);
        read_pieces(&cut, "hermes", "think", text.data ? text.data : "", text.n,
                    rng_below(&state, 3));
        if (!message_equal(&whole, &cut))
            test_fail(__FILE__, __LINE__, "cut differs: %s", text.data);
        chat_message_deinit(&whole);
        chat_message_deinit(&cut);
        buf_deinit(&text);
    }
}

/* ---- the recorded cases ---- */

static const char *text_of(const struct json *c, const char *name)
{
    const char *text = json_text(json_field(c, name), NULL);
    return text ? text : "";
}

/* JSON texts are equal as values written compactly. */
static bool json_equal(const char *a, const char *b)
{
    struct json *ja = NULL, *jb = NULL;
    struct buf ta = {0}, tb = {0};
    bool ok = json_parse(&ja, a, strlen(a), NULL, NULL) == 0 &&
              json_parse(&jb, b, strlen(b), NULL, NULL) == 0;
    if (ok) {
        json_put(&ta, ja);
        json_put(&tb, jb);
        ok = text_equal(&ta, &tb);
    }
    json_drop(ja);
    json_drop(jb);
    buf_deinit(&ta);
    buf_deinit(&tb);
    return ok;
}

static bool as_recorded(const struct chat_message *m, const struct json *want)
{
    const struct json *calls = json_field(want, "tool_calls");
    bool ok = strcmp(shown(&m->content), text_of(want, "content")) == 0 &&
              strcmp(shown(&m->reasoning), text_of(want, "reasoning_content")) == 0 &&
              m->n_call == json_count(calls);
    for (size_t i = 0; ok && i < m->n_call; i++)
        ok = strcmp(m->call[i].name, text_of(json_item(calls, i), "name")) == 0 &&
             json_equal(shown(&m->call[i].arguments), text_of(json_item(calls, i), "arguments"));
    return ok;
}

/* Cases written with these conventions; reasoning is looked for unless its format is "none". */
static bool concerns(const struct json *c, const char *text)
{
    /* 140 expects the blank behind </think> inside of the reasoning */
    if (json_bool(json_field(c, "is_partial"), false) || json_int(json_field(c, "id"), 0) == 140)
        return false;
    bool calls = strstr(text, "<tool_call>") && strstr(text, "\"name\": ");
    bool think = strstr(text, "<think>") != NULL;
    return (calls || think) && (calls || json_count(json_field(c, "tools")) == 0) &&
           !json_field(c, "json_schema");
}

/* What belongs to the answer in the generation prompt: from its <think> on. */
static bool recorded_case(const struct json *c, int *n_ok)
{
    struct buf text = {0};
    struct chat_message m = {0};
    bool none = strcmp(text_of(c, "reasoning_format"), "none") == 0;
    const char *opened = strstr(text_of(c, "llamacpp_generation_prompt"), "<think>");
    if (opened) buf_add_text(&text, opened);
    buf_add_text(&text, text_of(c, "input"));
    bool mine = concerns(c, text.data);
    if (mine) {
        read_pieces(&m, "hermes", none ? NULL : "think", text.data, text.n, 3);
        bool ok = as_recorded(&m, json_field(c, "expect"));
        *n_ok += ok;
        if (!ok)
            test_fail(__FILE__, __LINE__, "case %lld: %s => \"%s\" / \"%s\" / %zu calls",
                      (long long)json_int(json_field(c, "id"), -1), text.data, shown(&m.reasoning),
                      shown(&m.content), m.n_call);
    }
    chat_message_deinit(&m);
    buf_deinit(&text);
    return mine;
}

TEST(chat_parse_cases_hermes_and_think)
{
    const char *path = data_path("chat/templates-and-cases/chat_parse_cases.jsonl");
    struct buf lines = {0};
    struct err e = {0};
    int n = 0, n_ok = 0;
    if (!path) SKIP("chat_parse_cases.jsonl is not there");
    NEED_OK(file_read(&lines, path, 64 << 20, &e), &e);
    for (char *line = lines.data, *end; line && *line; line = end + 1) {
        struct json *j = NULL;
        end = strchr(line, '\n');
        NEED(end);
        NEED_OK(json_parse(&j, line, (size_t)(end - line), NULL, &e), &e);
        n += recorded_case(j, &n_ok);
        json_drop(j);
    }
    test_note("%d of %d as recorded", n_ok, n);
    EXPECT(n >= 60);
    buf_deinit(&lines);
}
