/* Goal: the output of each family of models is parsed as its publisher documents it, in any pieces.
 * Method: parse recorded cases of many templates, and handwritten cases, each whole and with random
 * cuts. The test of recorded cases selects the template's parser. The test first pushes the answer
 * part of the prompt. */
#include "chat/chat.h"
#include "base/os.h"
#include "base/rng.h"
#include "../../tests/unit.h"

#include <stdlib.h>

#define DATA "chat/templates-and-cases/"

/* ---- reading ---- */

struct reading {
    struct chat_parser_options options;
    const char *text;
    size_t n;
    uint64_t seed; /* seed of the cuts; 0: no cuts */
};

/* Parse a text in random pieces, or as a whole if the seed is 0. Pieces must not change the
 * result. */
static void read_text(struct chat_message *m, const struct reading *r)
{
    struct chat_parser *p = NULL;
    struct err e;
    uint64_t state = r->seed;
    uint64_t piece = r->seed ? 1 + rng_below(&state, 30) : 0;
    NEED_OK(chat_parser_open(&p, &r->options, &e), &e);
    for (size_t i = 0, k; i < r->n; i += k) {
        k = r->seed ? 1 + rng_below(&state, piece) : r->n;
        if (k > r->n - i) k = r->n - i;
        chat_parser_push(p, r->text + i, k, chat_message_add, m);
    }
    chat_parser_finish(p, chat_message_add, m);
    EXPECT(!chat_parser_failed(p) && !m->failed);
    chat_parser_close(p);
}

static const char *shown(const struct buf *b)
{
    return b->data ? b->data : "";
}

/* Append the message as "reasoning|content|name#id(arguments)...". */
static void show(struct buf *out, const struct chat_message *m)
{
    buf_addf(out, "%s|%s", shown(&m->reasoning), shown(&m->content));
    for (size_t i = 0; i < m->n_call; i++)
        buf_addf(out, "|%s%s%s(%s)", m->call[i].name, m->call[i].id ? "#" : "",
                 m->call[i].id ? m->call[i].id : "", shown(&m->call[i].arguments));
}

/* Return true if the text in random pieces gives the same message. */
static bool same_in_pieces(const struct reading *whole, const struct chat_message *want, int n_cut)
{
    struct buf line = {0};
    bool ok = true;
    show(&line, want);
    for (int i = 0; i < n_cut && ok; i++) {
        struct chat_message m = {0};
        struct buf cut = {0};
        struct reading r = *whole;
        r.seed = (uint64_t)i + 1;
        read_text(&m, &r);
        show(&cut, &m);
        ok = cut.n == line.n && memcmp(cut.data, line.data, line.n) == 0;
        if (!ok)
            test_fail(__FILE__, __LINE__, "%.*s: cut %d: %s, whole: %s", (int)whole->n, whole->text,
                      i, cut.data, line.data);
        chat_message_deinit(&m);
        buf_deinit(&cut);
    }
    buf_deinit(&line);
    return ok;
}

/* ---- the recorded cases ---- */

static const char *text_of(const struct json *c, const char *name)
{
    const char *text = json_text(json_field(c, name), NULL);
    return text ? text : "";
}

/* Return true if two texts of arguments are equal except for blanks outside of strings. The texts
 * may be incomplete. */
static bool same_arguments(const char *a, const char *b)
{
    for (bool quoted = false;; a++, b++) {
        while (!quoted && (*a == ' ' || *a == '\n')) a++;
        while (!quoted && (*b == ' ' || *b == '\n')) b++;
        if (*a != *b) return false;
        if (!*a) return true;
        if (*a == '\\' && a[1] == b[1] && a[1])
            a++, b++;
        else if (*a == '"')
            quoted = !quoted;
    }
}

/* Return true if the message equals the recorded message. Arguments are compared as JSON values,
 * because their spelling is free. */
static bool as_recorded(const struct chat_message *m, const struct json *want)
{
    const struct json *calls = json_field(want, "tool_calls");
    bool ok = strcmp(shown(&m->content), text_of(want, "content")) == 0 &&
              strcmp(shown(&m->reasoning), text_of(want, "reasoning_content")) == 0 &&
              m->n_call == json_count(calls);
    for (size_t i = 0; ok && i < m->n_call; i++) {
        const struct json *call = json_item(calls, i);
        const char *id = m->call[i].id ? m->call[i].id : "";
        ok = strcmp(m->call[i].name, text_of(call, "name")) == 0 &&
             strcmp(id, text_of(call, "id")) == 0 &&
             same_arguments(shown(&m->call[i].arguments), text_of(call, "arguments"));
    }
    return ok;
}

struct family_case {
    struct template *t;
    char template[256]; /* path of the template t */

    int n_all, n_all_ok, n_left_out;
};

/* Open the template of a case, unless the previous case has the same template. */
static void next_template(struct family_case *f, const struct json *c)
{
    struct buf source = {0};
    struct err e;
    char name[512];
    const char *file = strrchr(text_of(c, "template"), '/');
    if (f->t && file && strcmp(f->template, file) == 0) return;
    template_close(f->t);
    f->t = NULL;
    snprintf(f->template, sizeof f->template, "%s", file ? file : "/");
    snprintf(name, sizeof name, DATA "templates%s", f->template);
    NEED(data_path(name));
    NEED_OK(file_read(&source, data_path(name), 1 << 20, &e), &e);
    NEED_OK(template_open(&f->t, source.data, source.n, &e), &e);
    buf_deinit(&source);
}

/* Append the part of the prompt that belongs to the answer. */
static void add_begun(struct buf *text, const struct template *t, const struct json *c)
{
    static const enum chat_continue continues[] = {CHAT_CONTINUE_NO, CHAT_CONTINUE_AUTO,
                                                   CHAT_CONTINUE_REASONING, CHAT_CONTINUE_CONTENT};
    static const char messages[] = "[{\"role\":\"user\",\"content\":\"Hey there!\"}]";
    struct json *list = NULL, *kwargs = NULL;
    struct buf prompt = {0};
    struct chat_turn turn = {0};
    struct err e;
    bool thinking = json_bool(json_field(c, "enable_thinking"), true);
    const char *options = thinking ? "{\"enable_thinking\":true,\"date_string\":\"20 Nov 2026\"}"
                                   : "{\"enable_thinking\":false,\"date_string\":\"20 Nov 2026\"}";
    NEED_OK(json_parse(&list, messages, sizeof messages - 1, NULL, &e), &e);
    NEED_OK(json_parse(&kwargs, options, strlen(options), NULL, &e), &e);
    struct conversation conversation = {
        .messages = json_field(c, "messages") ? json_field(c, "messages") : list,
        .tools = json_field(c, "tools"),
        .kwargs = kwargs,
        .add_generation_prompt = json_bool(json_field(c, "add_generation_prompt"), true),
        .continue_final = continues[json_int(json_field(c, "continue_final_message"), 0) & 3],
    };
    NEED_OK(template_render(t, &conversation, &prompt, &turn, &e), &e);
    buf_add(text, prompt.data + prompt.n - turn.n_answer, turn.n_answer);
    buf_deinit(&prompt);
    json_drop(list);
    json_drop(kwargs);
}

/* Return the reason for omitting a case; NULL if the case is tested.
 *   14, 140 their reasoning keeps blanks that are removed in other cases of the template
 *   31, 360, 361  expect that a code block around JSON is removed; no such block exists here,
 *                 because a schema constrains the answer */
static const char *left_out(const struct json *c)
{
    switch (json_int(json_field(c, "id"), -1)) {
    case 14:
    case 140:
        return "blanks";
    case 31:
    case 360:
    case 361:
        return "a block of code";
    default:
        return NULL;
    }
}

/* Parse the output of a recorded case and compare the message. */
static void recorded_case(struct family_case *f, const struct json *c)
{
    struct buf text = {0};
    struct chat_message m = {0};
    struct buf line = {0};
    if (left_out(c)) {
        f->n_left_out++;
        return;
    }
    next_template(f, c);
    bool none = strcmp(text_of(c, "reasoning_format"), "none") == 0;
    add_begun(&text, f->t, c);
    /* the recorded result excludes a block that the prompt closed */
    if (none && text.n && strncmp(text.data, "</think>", 8) == 0) buf_clear(&text);
    buf_add_text(&text, text_of(c, "input"));
    const struct json *tools = json_field(c, "tools");
    struct reading r = {
        .options = {.tool_parser = chat_tool_parser_of(f->t),
                    .reasoning_parser = none ? NULL : chat_reasoning_parser_of(f->t),
                    .tools = tools,
                    .no_calls = json_count(tools) == 0},
        .text = text.data,
        .n = text.n};
    read_text(&m, &r);
    bool ok = as_recorded(&m, json_field(c, "expect"));
    show(&line, &m);
    if (!ok)
        test_fail(__FILE__, __LINE__, "case %lld, %s, %s, %s: %s => %s",
                  (long long)json_int(json_field(c, "id"), -1), f->template + 1,
                  r.options.tool_parser ? r.options.tool_parser : "none",
                  r.options.reasoning_parser ? r.options.reasoning_parser : "none", text.data,
                  line.data);
    ok = same_in_pieces(&r, &m, test_long() ? 2500 : 25) && ok;
    f->n_all++;
    f->n_all_ok += ok;
    chat_message_deinit(&m);
    buf_deinit(&text);
    buf_deinit(&line);
}

TEST(families_recorded)
{
    const char *path = data_path(DATA "chat_parse_cases.jsonl");
    struct family_case f = {0};
    struct buf lines = {0};
    struct err e = {0};
    if (!path) SKIP("chat_parse_cases.jsonl is not there");
    NEED_OK(file_read(&lines, path, 64 << 20, &e), &e);
    for (char *line = lines.data, *end; line && *line; line = end + 1) {
        struct json *j = NULL;
        end = strchr(line, '\n');
        NEED(end);
        NEED_OK(json_parse(&j, line, (size_t)(end - line), NULL, &e), &e);
        recorded_case(&f, j);
        json_drop(j);
    }
    test_note("%d of %d as recorded, %d left out", f.n_all_ok, f.n_all, f.n_left_out);
    EXPECT(f.n_all >= 400);
    template_close(f.t);
    buf_deinit(&lines);
}

/* ---- handwritten cases, from the families' published formats ---- */

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},\"b\":{\"type\":"
    "\"boolean\"},\"n\":{\"type\":[\"string\",\"null\"]},\"l\":{\"type\":\"array\",\"items\":{"
    "\"type\":\"string\"}},\"o\":{\"$ref\":\"#/$defs/o\"}},\"$defs\":{\"o\":{\"type\":\"object\","
    "\"properties\":{\"x\":{\"type\":\"number\"}}}}}}},{\"type\":\"function\",\"function\":{"
    "\"name\":\"g\"}}]";

#define QWEN(name, text) "<tool_call>\n<function=" name ">\n" text "</function>\n</tool_call>"
#define ARG(key, text)   "<parameter=" key ">\n" text "\n</parameter>\n"
#define M3               "]<]minimax[>["
#define DSML             "<｜DSML｜"
#define CLOSE_DSML       "</｜DSML｜"
#define V3_CALL          "<｜tool▁call▁begin｜>"
#define V3_SEP           "<｜tool▁sep｜>"
#define V3_END           "<｜tool▁call▁end｜>"
#define KIMI             "<|tool_call_begin|>"
#define KIMI_ARGUMENTS   "<|tool_call_argument_begin|>"
#define STEP3            "<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\""

static const struct {
    const char *tools, *reasoning, *text, *want;
} own_cases[] = {
    {"qwen3_coder", "think", "<think>\nw\n</think>\n\n" QWEN("f", ARG("s", "1") ARG("i", "1")),
     "w||f({\"s\": \"1\", \"i\": 1})"},
    {"qwen3_coder", NULL,
     "Hi\n" QWEN("f", ARG("s", "a\n</b>\"\n") ARG("n", "null")) "\n" QWEN("g", ""),
     "|Hi\n|f({\"s\": \"a\\n</b>\\\"\\n\", \"n\": null})|g({})"},
    {"qwen3_coder", NULL,
     QWEN("f", ARG("b", "True") ARG("o", "{\"x\": 1}") ARG("l", "[1, 2") ARG("z", "7")),
     "||f({\"b\": true, \"o\": {\"x\": 1}, \"l\": \"[1, 2\", \"z\": 7})"},
    {"qwen3_coder", NULL, "<tool_call> and <function=NAME> are marks",
     "|<tool_call> and <function=NAME> are marks"},
    {"qwen3_coder", NULL, "<function=f>\n<parameter=s>\ncut of", "||f({\"s\": \"cut of)"},
    {"qwen3_xml", NULL, "<function=f></function>", "||f({})"},
    {"seed_oss", "seed_oss",
     "<seed:think>w</seed:think>\n<seed:tool_call>\n<function=f>\n<parameter=s>a\n</parameter>\n"
     "<parameter=i>-3</parameter>\n</function>\n</seed:tool_call>",
     "w||f({\"s\": \"a\\n\", \"i\": -3})"},
    {"glm45", NULL,
     "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>12</arg_value>\n<arg_key>i</arg_key>\n"
     "<arg_value>12</arg_value>\n</tool_call>",
     "||f({\"s\": \"12\", \"i\": 12})"},
    {"glm47", "glm45",
     "<think>w</think><tool_call>f<arg_key>l</arg_key><arg_value>[\"a\"]</arg_value></tool_call>"
     "<tool_call>g</tool_call>",
     "w||f({\"l\": [\"a\"]})|g({})"},
    {"glm47", NULL, "<tool_call>is a mark", "|<tool_call>is a mark"},
    {"minimax_m2", NULL,
     "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a</parameter>\n</invoke>\n"
     "<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
     "||f({\"s\": \"a\"})|g({})"},
    {"minimax_m3", "minimax_m3",
     "<mm:think>w</mm:think>" M3 "<tool_call>\n" M3 "<invoke name=\"f\">" M3 "<o>" M3 "<x>1.5" M3
     "</x>" M3 "</o>" M3 "<l>" M3 "<item>1" M3 "</item>" M3 "</l>" M3 "</invoke>\n" M3
     "</tool_call>",
     "w||f({\"o\": {\"x\": 1.5}, \"l\": [\"1\"]})"},
    {"deepseek_v32", NULL,
     DSML "function_calls>\n" DSML "invoke name=\"f\">\n" DSML
          "parameter name=\"q\" string=\"true\">1" CLOSE_DSML "parameter>\n" DSML
          "parameter name=\"i\" string=\"false\">1" CLOSE_DSML "parameter>\n" CLOSE_DSML
          "invoke>\n" CLOSE_DSML "function_calls>",
     "||f({\"q\": \"1\", \"i\": 1})"},
    {"deepseek_v4", NULL,
     DSML "tool_calls>\n" DSML "invoke name=\"g\">\n" CLOSE_DSML "invoke>\n" CLOSE_DSML
          "tool_calls> x",
     "|x|g({})"},
    {"deepseek_v3", NULL,
     V3_CALL "function" V3_SEP "f\n```json\n{\"s\":\"```\"}\n```" V3_END "\n" V3_CALL
             "function" V3_SEP "g\n```json\n{}\n```" V3_END,
     "||f({\"s\":\"```\"})|g({})"},
    {"deepseek_v31", NULL, "a" V3_CALL "f" V3_SEP "{\"i\": 1}" V3_END, "|a|f({\"i\": 1})"},
    {"kimi_k2", "kimi_k2", "<think>w" KIMI "functions.f:3" KIMI_ARGUMENTS "{}",
     "w||f#functions.f:3({})"},
    {"kimi_k2", NULL, KIMI "f" KIMI_ARGUMENTS "{\"i\":1}<|tool_call_end|>", "||f({\"i\":1})"},
    {"granite", "granite",
     "Here is my thought process: w\nHere is my response: <|tool_call|>[{\"name\": \"f\", "
     "\"arguments\": {\"i\": 1}}, {\"name\": \"g\"}]",
     "w||f({\"i\": 1})|g({})"},
    {"granite", "granite", "<think>w</think><response>a</response>", "w|a"},
    {"granite-20b-fc", NULL, "<function_call> {\"name\": \"f\", \"arguments\": {}}", "||f({})"},
    {"granite4", NULL, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
     "||f({})"},
    {"cohere_command3", "cohere_command3",
     "<|START_THINKING|>w<|END_THINKING|><|START_RESPONSE|>a<|END_RESPONSE|>", "w|a"},
    {"cohere_command4", NULL,
     "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"i\": "
     "1}}]<|END_ACTION|>",
     "||f#0({\"i\": 1})"},
    {"command_r", NULL, "Action:\n```json\n[\n{\"tool_name\": \"f\", \"parameters\": {}}\n]\n```",
     "||f({})"},
    {"gemma4", "gemma4",
     "<|channel>thought\nw<channel|>a<|tool_call>call:f{s:<|\"|>x \"y\"<|\"|>,o:{x:1,k:<|\"|><|\"|"
     ">},l:[<|\"|>a<|\"|>,b c],b:true}<tool_call|>",
     "w|a|f({\"s\": \"x \\\"y\\\"\", \"o\": {\"x\": 1, \"k\": \"\"}, \"l\": [\"a\", \"b c\"], "
     "\"b\": true})"},
    {"functiongemma", NULL,
     "<start_function_call>call:f{s:<escape>a<escape>,i:3}<end_function_call>",
     "||f({\"s\": \"a\", \"i\": 3})"},
    {"functiongemma", NULL, "<start_function_call>call:g{}<end_function_call>", "||g({})"},
    {"functiongemma", NULL, "<start_function_call>call:f{s:<escape>cut", "||f({\"s\": \"cut)"},
    {"nemotron", NULL, "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"i\": 1}}]</TOOLCALL>",
     "||f({\"i\": 1})"},
    {"lfm2", NULL,
     "<|tool_call_start|>[f(s='it\\'s', l=[1, (2,), None]), g()]<|tool_call_end|>done",
     "|done|f({\"s\": \"it's\", \"l\": [1, [2], null]})|g({})"},
    {"pythonic", NULL, "[f(s=\"a\", i=1), g()]", "||f({\"s\": \"a\", \"i\": 1})|g({})"},
    {"pythonic", NULL, "[f(o={'x': {'y': True}, 2: 'z'}, s='''q''')]",
     "||f({\"o\": {\"x\": {\"y\": true}, \"2\": \"z\"}, \"s\": \"q\"})"},
    {"pythonic", NULL, "[link](url) and [f(s=1)]", "|[link](url) and [f(s=1)]"},
    {"llama4_pythonic", NULL, "<|python_start|>[f(i=1)]<|python_end|>", "||f({\"i\": 1})"},
    {"llama4_pythonic", NULL, "[f(i=1), g()]", "||f({\"i\": 1})|g({})"},
    {"llama4_pythonic", NULL, "no [f(i=1)]", "|no [f(i=1)]"},
    {"olmo3", "olmo3", "<think>w</think><function_calls>f(i=1)\ng()</function_calls>",
     "w||f({\"i\": 1})|g({})"},
    {"olmo3", NULL, "<function_calls>f(s=\"\\u00e9\\n\")</function_calls>",
     "||f({\"s\": \"\u00e9\\n\"})"},
    {"olmo3", NULL, "f(i=1)", "|f(i=1)"},
    {"phi4_mini_json", NULL, "functools[{\"name\": \"f\", \"arguments\": {\"i\": 1}}]",
     "||f({\"i\": 1})"},
    {"phi4_mini_json", NULL, "functools[{\"name\": \"f\", \"parameters\": {}}, {\"name\": \"g\"}]",
     "||f({})|g({})"},
    {"phi4_mini_json", NULL, "functools is a module", "|functools is a module"},
    {"apertus", "apertus",
     "<|inner_prefix|>w<|inner_suffix|><|tools_prefix|>[{\"f\": {\"i\": 1}}, {\"g\": "
     "{}}]<|tools_suffix|>",
     "w||f({\"i\": 1})|g({})"},
    {"functionary", NULL,
     "a <function=f>{\"s\": \"</function>\"}</function><function=g>{}</function>",
     "|a|f({\"s\": \"</function>\"})|g({})"},
    {"functionary_v3_2", NULL, "all\nHi\n>>>f\n{\"i\": 1}>>>g\n{}", "|Hi|f({\"i\": 1})|g({})"},
    {"gigachat3", NULL,
     "a<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {}}",
     "|a|f({})"},
    {"minicpm5", NULL,
     "<function name=\"f\"><param name=\"s\"><![CDATA[</param>]]></param><param "
     "name=\"i\">1</param></function>",
     "||f({\"s\": \"</param>\", \"i\": 1})"},
    {"jamba", NULL, "<tool_calls>[{\"name\": \"f\", \"arguments\": {\"i\": 1}}]</tool_calls>",
     "||f({\"i\": 1})"},
    {"jamba", NULL,
     "<tool_calls>[\n    {\"name\": \"f\", \"arguments\": {}},\n    {\"name\": \"g\", "
     "\"arguments\": {}}\n]</tool_calls>",
     "||f({})|g({})"},
    {"jamba", NULL, "<tool_calls>[1]</tool_calls>", "|<tool_calls>[1]</tool_calls>"},
    {"hunyuan_a13b", "hunyuan_a13b", "<think>\nw\n</think>\n<answer>\na\n</answer>", "w|\na\n"},
    {"internlm", NULL,
     "a<|action_start|><|plugin|>\n{\"name\": \"f\", \"parameters\": {\"i\": 1}}<|action_end|>",
     "|a|f({\"i\": 1})"},
    {"internlm", NULL, "<|action_start|><|interpreter|>\nprint(1)<|action_end|>",
     "|<|action_start|><|interpreter|>\nprint(1)<|action_end|>"},
    {"internlm", NULL, "<|action_start|><|plugin|>{\"name\": \"f\"}", "||f({})"},
    {"step3", NULL,
     STEP3 "f\"><steptml:parameter name=\"i\">1</steptml:parameter></steptml:invoke>",
     "||f({\"i\": 1})"},
    {"step3", NULL, STEP3 "g\"></steptml:invoke>", "||g({})"},
    {"step3", NULL, STEP3, "|" STEP3},
    {"longcat", NULL,
     "<longcat_tool_call>\n{\"name\": \"f\", \"arguments\": "
     "{}}\n</longcat_tool_call>\n<longcat_tool_call>{\"name\": \"g\"}",
     "||f({})|g({})"},
    {"longcat", NULL, "a <longcat_tool_call>x", "|a <longcat_tool_call>x"},
    {"longcat", NULL,
     "<longcat_tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"i\\\": 1}\"}</longcat_tool_call>",
     "||f({\"i\": 1})"},
    {"xlam", NULL, "[{\"name\": \"f\", \"arguments\": {\"i\": 1}}]", "||f({\"i\": 1})"},
    {"xlam", NULL, "<tool_call>[{\"name\": \"f\", \"arguments\": {}}]</tool_call>", "||f({})"},
    {"xlam", NULL, "[{\"name\": \"other\"}]", "|[{\"name\": \"other\"}]"},
    {"ernie45", "ernie45", "<think>w</think>\n\n<response>a</response>", "w|a"},
    {NULL, "mistral", "[THINK]w[/THINK]a", "w|a"},
    {"mistral", "mistral", "[THINK]w[TOOL_CALLS]f[ARGS]{}", "w||f({})"},
    {NULL, "apriel", "Here are my reasoning steps:\nw\n[BEGIN FINAL RESPONSE]\na",
     "Here are my reasoning steps:\nw|a"},
    {"openai", "openai_gptoss",
     "<|channel|>analysis<|message|>w<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f <|constrain|>json<|message|>{\"i\": 1}<|call|>",
     "w||f({\"i\": 1})"},
    {"openai", "openai_gptoss", "<|channel|>final<|message|>a < b<|return|>", "|a < b"},
    {NULL, "openai_gptoss",
     "<|channel|>analysis<|message|>w<|end|><|start|>assistant "
     "to=functions.f<|channel|>commentary<|message|>{}",
     "w|{}"},
    {"openai", NULL, "no header", "|no header"},
};

/* Parse a text and compare the message, shown as one line. */
static void own_case(const struct json *tools, const char *tool_parser, const char *reasoning,
                     const char *text, const char *want)
{
    struct chat_message m = {0};
    struct buf line = {0};
    struct reading r = {
        .options = {.tool_parser = tool_parser, .reasoning_parser = reasoning, .tools = tools},
        .text = text,
        .n = strlen(text)};
    read_text(&m, &r);
    show(&line, &m);
    EXPECT_TEXT(line.data, want);
    same_in_pieces(&r, &m, test_long() ? 2000 : 40);
    chat_message_deinit(&m);
    buf_deinit(&line);
}

TEST(families_as_published)
{
    struct json *tools = NULL;
    struct err e;
    NEED_OK(json_parse(&tools, tools_text, sizeof tools_text - 1, NULL, &e), &e);
    for (size_t i = 0; i < sizeof own_cases / sizeof *own_cases; i++)
        own_case(tools, own_cases[i].tools, own_cases[i].reasoning, own_cases[i].text,
                 own_cases[i].want);
    json_drop(tools);
}

/* Goal: the name of a call is emitted before its arguments are complete. Pieces of a string are
 * emitted before the string is complete. */
TEST(calls_are_emitted_as_they_are_written)
{
    static const char *const texts[][2] = {
        {"qwen3_coder", "<tool_call>\n<function=f>\n<parameter=s>\nhalf of"},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"half of"},
        {"kimi_k2", KIMI "functions.f:0" KIMI_ARGUMENTS "{\"s\": \"half of"},
        {"lfm2", "<|tool_call_start|>[f(s=\"half of"},
        {"openai", " to=functions.f<|channel|>commentary<|message|>{\"s\": \"half of"},
    };
    struct json *tools = NULL;
    struct err e;
    NEED_OK(json_parse(&tools, tools_text, sizeof tools_text - 1, NULL, &e), &e);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct chat_parser *p = NULL;
        struct chat_message m = {0};
        const struct chat_parser_options o = {.tool_parser = texts[i][0], .tools = tools};
        NEED_OK(chat_parser_open(&p, &o, &e), &e);
        chat_parser_push(p, texts[i][1], strlen(texts[i][1]), chat_message_add, &m);
        EXPECT_INT(m.n_call, 1);
        if (m.n_call == 1) EXPECT_TEXT(shown(&m.call[0].arguments), "{\"s\": \"half of");
        chat_message_deinit(&m);
        chat_parser_close(p);
    }
    json_drop(tools);
}

/* ---- hostile texts ---- */

/* Return the processor time of reading the text byte by byte, in microseconds. */
static int64_t time_of(const char *family, const struct buf *text, struct chat_message *m)
{
    struct chat_parser_options o = {.tool_parser = family};
    struct chat_parser *p = NULL;
    struct err e;
    int64_t begin = time_thread_ns();
    if (chat_parser_open(&p, &o, &e) != 0) return test_fail(__FILE__, __LINE__, "%s", e.text), 0;
    for (size_t i = 0; i < text->n; i++)
        chat_parser_push(p, text->data + i, 1, chat_message_add, m);
    chat_parser_finish(p, chat_message_add, m);
    chat_parser_close(p);
    return (time_thread_ns() - begin) / 1000;
}

/* Append a text n times. */
static void add_times(struct buf *b, const char *text, int n)
{
    while (n-- > 0) buf_add_text(b, text);
}

/* Goal: time grows linearly with the text. Method: parse openings of calls without a call, and a
 * member's name without an end. In a family with two forms, parse a name after other members. */
TEST(chat_hostile_calls_take_linear_time)
{
    static const struct {
        const char *family, *begin, *again;
        int n;
    } c[] = {{"hermes", "", "<tool_call>{\"a\":[", 12000},
             {"granite", "<|tool_call|>{\"arguments\":\"", "abcdefgh", 2500},
             {"hermes", "<tool_call>{\"name\":\"f\",\"", "abcdefgh", 20000}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        int64_t us[2];
        for (int k = 0; k < 2; k++) {
            struct buf b = {0};
            struct chat_message m = {0};
            buf_add_text(&b, c[i].begin);
            add_times(&b, c[i].again, k ? c[i].n : c[i].n / 4);
            us[k] = time_of(c[i].family, &b, &m);
            chat_message_deinit(&m);
            buf_deinit(&b);
        }
        test_note("%s: %lld and %lld us", c[i].again, (long long)us[0], (long long)us[1]);
        EXPECT(us[1] < 9 * us[0]);
    }
}

/* Goal: a text in any pieces is not a call if its name is too far from the beginning. */
TEST(chat_names_are_searched_within_bounds)
{
    for (int far = 0; far < 2; far++) {
        struct buf b = {0};
        struct chat_message m = {0};
        buf_add_text(&b, "<tool_call>{\"arguments\":{\"a\":\"");
        add_times(&b, "abcdefgh", far ? 5000 : 3000);
        buf_add_text(&b, "\"},\"name\":\"f\"}</tool_call>");
        struct reading r = {{.tool_parser = "hermes"}, b.data, b.n, 0};
        read_text(&m, &r);
        EXPECT_INT(m.n_call, !far);
        EXPECT(!far || m.content.n == b.n);
        EXPECT(same_in_pieces(&r, &m, 3));
        chat_message_deinit(&m);
        buf_deinit(&b);
    }
}
