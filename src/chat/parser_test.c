/* Goal: the concatenated deltas of model output do not depend on the cuts between pieces. Method:
 * push handwritten cases whole, byte by byte and in odd pieces. families_test.c has more cases. */
#include "chat/chat.h"
#include "base/rng.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static int parser_open(struct chat_parser **p, const char *tools, const char *reasoning,
                       struct err *e)
{
    const struct chat_parser_options o = {.tool_parser = tools, .reasoning_parser = reasoning};
    return chat_parser_open(p, &o, e);
}

/* Parse a text in pieces of n_piece bytes; 0: random lengths. */
static void read_pieces(struct chat_message *m, const char *tools, const char *reasoning,
                        const char *text, size_t n, size_t n_piece)
{
    struct chat_parser *p = NULL;
    struct err e;
    uint64_t state = n_piece;
    NEED_OK(parser_open(&p, tools, reasoning, &e), &e);
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

/* Expect that the text gives the message "reasoning|content|name(arguments)..." with any cuts. */
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
                "||f({\"a\": 1})");
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
    expect_read("hermes", NULL, "a <tool_call>{\"name\":\"f\",\"arg", "|a|f()");
    expect_read("hermes", NULL, "a <tool_call>{\"name\":\"f", "|a <tool_call>{\"name\":\"f");
    expect_read("hermes", NULL, "a <tool_call> ", "|a <tool_call> ");
    expect_read("hermes", NULL, "1 < 2 <tool", "|1 < 2 <tool");
    expect_read("hermes", NULL, "tail  \n", "|tail  \n");
    expect_read(
        "hermes", "think",
        "<think>\nuse <tool_call>{}</tool_call>?</think>\n<tool_call>{\"name\":\"f\"}</tool_call>",
        "use <tool_call>{}</tool_call>?||f({})");
}

/* Goal: both forms after [TOOL_CALLS] are parsed. The cases include the recorded inputs of
 * Mistral's templates. */
TEST(mistral_calls)
{
    static const char *const cases[][2] = {
        {"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"arg1\": 1}, \"id\": \"123456789\"}]",
         "||f({\"arg1\": 1})"},
        {"[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"s\":\"]}\"}}, {\"name\":\"g\"}]",
         "||f({\"s\":\"]}\"})|g({})"},
        {"What's up?[TOOL_CALLS]f[ARGS]{\"arg1\": 1}", "|What's up?|f({\"arg1\": 1})"},
        {"[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{\"arg1\": 1}", "||f({\"arg1\": 1})"},
        {"[TOOL_CALLS]f[CALL_ID]000000001[ARGS]{\"a\": 1}[TOOL_CALLS]g_2[CALL_ID]000000002[ARGS]{}",
         "||f({\"a\": 1})|g_2({})"},
        {"[TOOL_CALLS]f[ARGS]{\"s\":\"[TOOL_CALLS]}\"} then", "|then|f({\"s\":\"[TOOL_CALLS]}\"})"},
        {"[TOOL_CALLS] is a token", "|[TOOL_CALLS] is a token"},
        {"[TOOL_CALLS]f[ARGS]{\"a\":}", "||f({\"a\":})"},
        {"[TOOL_CALLS]f[ARGS]{\"a\"", "||f({\"a\")"},
        {"[TOOL_CALLS][{\"arguments\":{}}]", "|[TOOL_CALLS][{\"arguments\":{}}]"},
        {"[TOOL_CALLS][1, 2]", "|[TOOL_CALLS][1, 2]"},
        {"[TOOL_CALLS]f[CALL_ID", "|[TOOL_CALLS]f[CALL_ID"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_read("mistral", NULL, cases[i][0], cases[i][1]);
}

/* Goal: calls without a mark are parsed. A message consists of either calls or content. */
TEST(llama3_json_calls)
{
    static const char *const cases[][2] = {
        {"{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "||f({\"a\": 1})"},
        {" {\"name\":\"f\",\"parameters\":{}}; {\"name\":\"g\"}\n", "||f({})|g({})"},
        {"{\"name\":\"f\"} and more", "|and more|f({})"},
        {"{\"name\":\"f\"}; and more", "|; and more|f({})"},
        {"Hello {\"name\":\"f\"}", "|Hello {\"name\":\"f\"}"},
        {"{\"amount\": 1}", "|{\"amount\": 1}"},
        {"{\"name\":\"f\"", "||f()"},
        {"{\"name\":\"f", "|{\"name\":\"f"},
        {" ", "| "},
        {"", "|"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_read("llama3_json", NULL, cases[i][0], cases[i][1]);
}

/* Goal: ids in hermes calls are ignored, because the model may have copied ids from the
 * conversation. */
TEST(hermes_calls_have_no_id_of_the_model)
{
    static const char text[] =
        "<tool_call>{\"name\":\"f\",\"id\":\"a\",\"arguments\":{}}</tool_call>";
    struct chat_parser *p = NULL;
    struct chat_message m = {0};
    NEED(parser_open(&p, "hermes", NULL, NULL) == 0);
    chat_parser_push(p, text, sizeof text - 1, chat_message_add, &m);
    chat_parser_finish(p, chat_message_add, &m);
    EXPECT(m.n_call == 1 && !m.call[0].id);
    chat_message_deinit(&m);
    chat_parser_close(p);
}

/* Goal: arguments are emitted unchanged, except that quotes around them are removed and line breaks
 * in strings are escaped. The first member with a name for arguments is used. */
TEST(arguments_are_as_written)
{
    static const char *const cases[][2] = {
        {"{\"id\": 12345678901234567890}", "{\"id\": 12345678901234567890}"},
        {"{\"x\":1234567890123456789.5, \"b\": [ 1 , {\"c\": \"a b\\\"\"} ]}",
         "{\"x\":1234567890123456789.5, \"b\": [ 1 , {\"c\": \"a b\\\"\"} ]}"},
        {"[ 98765432109876543210 ]", "[ 98765432109876543210 ]"},
        {"98765432109876543210", "98765432109876543210"},
        {"null", "{}"},
        {"{\"s\": \"a\nb\\\nc\\t\"}", "{\"s\": \"a\\nb\\nc\\t\"}"},
        {"\"{\\\"a\\\":\\u00e9\\ud83d\\ude00\\ud83d\\n}\"", "{\"a\":\u00e9\U0001F600\uFFFD\n}"},
    };
    static const char *const calls[] = {
        "<tool_call>{\"name\": \"f\", \"arguments\" : %s }</tool_call>",
        "<tool_call>{\"x\": [{\"arguments\": 2}], \"arguments\":%s, \"arguments\": 3,"
        "\"name\": \"f\"}</tool_call>",
        "<tool_call>{\"parameters\": %s, \"s\": \"}\", \"name\": \"f\"}</tool_call>"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int k = 0; k < 3; k++) {
            char text[512], want[512];
            snprintf(text, sizeof text, calls[k], cases[i][0]);
            snprintf(want, sizeof want, "||f(%s)", cases[i][1]);
            expect_read("hermes", NULL, text, want);
        }
    }
}

/* Goal: a call ends reasoning without </think>. A call before </think> is a draft. */
TEST(a_call_ends_unclosed_reasoning)
{
    static const char call[] = "<tool_call>\n{\"name\":\"f\",\"arguments\":{}}\n</tool_call>";
    static const struct {
        const char *text, *want; /* %s of the text is the call */
    } cases[] = {
        {"<think>I need\n%s", "I need||f({})"},
        {"<think>%s", "||f({})"},
        {"<think> a\n%s\n%s then", "a|then|f({})|f({})"},
        {"<think>a <tool_call> is a tag, <tool_call>\n{\"x\":1} too\n%s",
         "a <tool_call> is a tag, <tool_call>\n{\"x\":1} too||f({})"},
        {"<think>a <tool_call>{ </think> b", "a <tool_call>{|b"},
        {"<think>a <tool_call>{ b", "a <tool_call>{ b|"},
        {"<think>a <tool_call>", "a <tool_call>|"},
        {"<think>a <tool_call>  {\"name\":\"f\",\"arguments\":\"</think>\"} b", "a|b|f(</think>)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, cases[i].text, call, call);
        expect_read("hermes", "think", text, cases[i].want);
    }
    expect_read("hermes", "think", "<think>a <tool_call>{\"name\":\"f\"}</tool_call> b</think> c",
                "a <tool_call>{\"name\":\"f\"}</tool_call> b|c");
    expect_read("hermes", "think",
                "<think>a <tool_call>{\"name\":\"f\"}</tool_call></think>\n"
                "<tool_call>{\"name\":\"g\"}</tool_call>",
                "a <tool_call>{\"name\":\"f\"}</tool_call>||g({})");
    expect_read(NULL, "think", "<think>a <tool_call>{\"name\":\"f\"}</tool_call>",
                "a <tool_call>{\"name\":\"f\"}</tool_call>|");
}

/* Goal: the text held after a draft is limited. A draft above the limit becomes a call. */
TEST(a_draft_is_held_within_bounds)
{
    struct buf text = {0};
    struct chat_message m = {0};
    buf_add_text(&text, "<think>a\n<tool_call>{\"name\":\"f\"}</tool_call>");
    for (int i = 0; i < 700000; i++) buf_add_text(&text, " thought");
    read_pieces(&m, "hermes", "think", text.data, text.n, 100);
    EXPECT_TEXT(shown(&m.reasoning), "a");
    EXPECT_INT(m.n_call, 1);
    EXPECT_INT(m.content.n, 700000 * 8 - 1);
    chat_message_deinit(&m);
    buf_deinit(&text);
}

/* Goal: the answer part of the prompt opens or closes the block of reasoning. */
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
    EXPECT_INT(parser_open(&p, "nosuch", NULL, &e), ERR_ARG);
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

/* Goal: random texts of the families' marks give the same message in any pieces. */
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
