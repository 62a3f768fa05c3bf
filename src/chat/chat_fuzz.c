/* Goal: templates, conversations and model output do not crash the program or exceed its limits. A
 * text in pieces gives the same result as the whole text. Method: mutate a template, a conversation
 * or an output under small limits. The other inputs are fixed. Parse output whole and in pieces. */
#include "chat/chat.h"
#include "../../tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static const struct template_limits small = {
    .step_max = 50000, .bytes_max = 8 << 20, .out_bytes_max = 256 << 10};

static const char conversation_text[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be "
    "br\\u00efef.\"},{\"role\":\"user\",\"content\":\"Hi\\n{{ x }}\"},"
    "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":"
    "\"c1\",\"type\":\"function\","
    "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[1,2.5,null,true]}\"}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"{\\\"r\\\":1}\"},{\"role\":\"user\","
    "\"content\":"
    "[{\"type\":\"text\",\"text\":\"and?\"}]}],\"tools\":[{\"type\":\"function\",\"function\":{"
    "\"name\":\"f\",\"description\":\"d\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\"}},\"required\":["
    "\"a\"]}}}],"
    "\"kwargs\":{\"enable_thinking\":true,\"x\":[3,1,2],\"s\":\"a,b\"}}";

static const char template_text[] = "{%- macro show(v, deep=0) -%}{%- if v is mapping -%}{%- for "
                                    "k, w in v|items -%}{{ k ~ '=' }}{{ show(w, deep + 1) }}"
                                    "{%- endfor -%}{%- elif v is string -%}{{ v|trim }}{%- else "
                                    "-%}{{ v|tojson }}{%- endif -%}{%- endmacro -%}"
                                    "{%- if tools %}{{ tools|tojson(indent=2) }}\n{% endif -%}"
                                    "{%- for m in messages %}<|{{ m.role }}|>{{ show(m.content) "
                                    "}}{% if m.tool_calls %}{% for c in m.tool_calls %}"
                                    "<tool_call>{\"name\": \"{{ c.function.name }}\", "
                                    "\"arguments\": {{ c.function.arguments|tojson }}}</tool_call>"
                                    "{% endfor %}{% endif %}<|end|>\n{% endfor %}{% if "
                                    "add_generation_prompt %}<|assistant|><think>\n{% endif %}";

/* Render a conversation of the input. Errors are legal, crashes are not. */
static void render_case(const struct template *t, const struct json *j, enum chat_continue how,
                        bool render)
{
    struct buf out = {0};
    struct chat_turn turn;
    struct err e;
    static const struct chat_variable tokens[] = {{"bos_token", "<s>", 3},
                                                  {"eos_token", "</s>", 4}};
    struct conversation c = {
        .messages = json_field(j, "messages"),
        .tools = json_field(j, "tools"),
        .kwargs = json_field(j, "kwargs"),
        .token = tokens,
        .n_token = 2,
        .add_generation_prompt = true,
        .continue_final = how,
        .now = 1795176000,
        .limits = small,
    };
    buf_add_char(&out, 'x');
    int rc = template_render(t, &c, &out, render ? &turn : NULL, &e);
    if (rc == 0) fuzz_accepted();
    if (out.n < 1 || out.data[0] != 'x' || out.data[out.n] || (rc != 0 && out.n != 1))
        abort(); /* template_render must keep existing bytes of *out */
    buf_deinit(&out);
}

/* Append a fragment of the language. Random mutations seldom form whole statements. */
static void add_fragment(struct buf *b, uint8_t c)
{
    static const char *const fragments[] = {"{{ ",
                                            " }}",
                                            "{% if ",
                                            " %}",
                                            "{% else %}",
                                            "{% endif %}",
                                            "{% for a in ",
                                            "{% endfor %}",
                                            "{% set x = ",
                                            "x",
                                            " | ",
                                            " is ",
                                            "not ",
                                            " in ",
                                            "(",
                                            ")",
                                            "[",
                                            "]",
                                            "[::-1]",
                                            "[1:]",
                                            ".items()",
                                            ".append(x)",
                                            "messages",
                                            "tools",
                                            "loop",
                                            "range(9)",
                                            "namespace(a=x)",
                                            "'ab,c'",
                                            "1",
                                            "-2.5",
                                            "none",
                                            "{'a': x}",
                                            "[x, x]",
                                            "tojson(indent=1)",
                                            "join(x)",
                                            "sort(attribute='a')",
                                            "map('upper')",
                                            "selectattr('role')",
                                            "string",
                                            "length",
                                            "list",
                                            " ~ ",
                                            " + ",
                                            " * ",
                                            " // ",
                                            " % ",
                                            " ** ",
                                            " == ",
                                            " < ",
                                            "{% macro m(a, b=x) %}",
                                            "{% endmacro %}",
                                            "m(x)",
                                            "{% call m(x) %}",
                                            "{% endcall %}",
                                            "{% filter upper %}",
                                            "{% endfilter %}",
                                            "{%- ",
                                            " -%}",
                                            ", ",
                                            " if x else ",
                                            "\xC3\xA9",
                                            "{% break %}",
                                            ".split(',')",
                                            "replace('a', x)",
                                            "'%s' % x",
                                            "'{:>9}'.format(x)"};
    buf_add_text(b, fragments[c % (sizeof fragments / sizeof *fragments)]);
}

FUZZ(template)
{
    static struct json *conversation;
    struct template *t = (void *)&n; /* not NULL */
    struct buf source = {0};
    struct err e;
    for (size_t i = 0; i < n; i++) {
        if ((data[i] < 0x20 && data[i] != '\n') || data[i] >= 0x7F)
            add_fragment(&source, data[i]);
        else
            buf_add_char(&source, (char)data[i]);
    }
    if (!conversation)
        json_parse(&conversation, conversation_text, strlen(conversation_text), NULL, &e);
    if (template_open(&t, source.n ? source.data : "", source.n, &e) == 0)
        render_case(t, conversation, CHAT_CONTINUE_NO, false);
    else if (t)
        abort();
    template_close(t);
    buf_deinit(&source);
}

FUZZ(conversation)
{
    static struct template *t;
    struct json *j = NULL;
    struct err e;
    if (!t) template_open(&t, template_text, strlen(template_text), &e);
    if (json_parse(&j, (const char *)data, n, NULL, &e) == 0)
        render_case(t, j, (enum chat_continue)(n % 4), n % 3 == 0);
    json_drop(j);
}

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},\"o\":{\"$ref\":\"#"
    "\"},"
    "\"u\":{\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#/properties/"
    "s\"}},{\"$ref\":\"#\"}]"
    "}}}}}]";

/* Parse the text with the families that the text's first two bytes select. */
static void read_output(struct chat_message *m, const char *text, size_t n, size_t n_piece)
{
    static struct json *tools;
    struct chat_parser *p = NULL;
    struct err e;
    int n_tool = 0, n_reason = 0;
    while (chat_tool_parsers(n_tool + 1)) n_tool++;
    while (chat_reasoning_parsers(n_reason + 1)) n_reason++;
    if (!tools) json_parse(&tools, tools_text, strlen(tools_text), NULL, &e);
    size_t head = n < 2 ? n : 2;
    struct chat_parser_options o = {
        .tool_parser = head ? chat_tool_parsers((unsigned char)text[0] % n_tool) : NULL,
        .reasoning_parser =
            head == 2 ? chat_reasoning_parsers((unsigned char)text[1] % n_reason) : NULL,
        .tools = n % 2 ? tools : NULL,
        .no_calls = n % 7 == 0};
    if (chat_parser_open(&p, &o, NULL) != 0) abort();
    for (size_t i = head; i < n; i += n_piece)
        chat_parser_push(p, text + i, n_piece < n - i ? n_piece : n - i, chat_message_add, m);
    chat_parser_finish(p, chat_message_add, m);
    chat_parser_close(p);
}

/* Search for the reasoning of the family, whole and in pieces. The results must be equal after the
 * message's parser has found the place. */
static void track_output(const char *text, size_t n, size_t n_piece)
{
    struct chat_track whole, cut;
    struct chat_parser *p = NULL;
    int n_reason = 0;
    if (n < 2) return;
    while (chat_reasoning_parsers(n_reason + 1)) n_reason++;
    const char *name = chat_reasoning_parsers((unsigned char)text[1] % n_reason);
    const bool anywhere = n % 2;
    bool known = chat_track_begin(&whole, name, anywhere);
    if (chat_track_begin(&cut, name, anywhere) != known) abort();
    chat_track_push(&whole, text + 2, n - 2);
    if (chat_parser_open(&p, &(struct chat_parser_options){.reasoning_parser = name}, NULL) != 0)
        abort();
    for (size_t i = 2; i < n; i += n_piece) {
        size_t n_one = n_piece < n - i ? n_piece : n - i;
        chat_track_push(&cut, text + i, n_one);
        chat_parser_push(p, text + i, n_one, NULL, NULL);
    }
    bool inside = chat_track_inside(&whole);
    enum chat_place place = chat_parser_place(p);
    if (chat_track_inside(&cut) != inside || chat_track_ended(&cut) != chat_track_ended(&whole))
        abort();
    /* a message of harmony has several blocks, which only a search with `anywhere` finds */
    bool same = !known || anywhere || whole.anywhere || place == CHAT_UNDECIDED;
    if (!same && inside != (place == CHAT_INSIDE)) abort();
    chat_parser_close(p);
}

static bool differs(const struct buf *a, const struct buf *b)
{
    return a->n != b->n || (a->n > 0 && memcmp(a->data, b->data, a->n) != 0);
}

/* Append a fragment of a family's syntax. Random bytes seldom form marks. */
static void add_mark(struct buf *b, uint8_t c)
{
    static const char *const marks[] = {"<tool_call>",
                                        "</tool_call>",
                                        "{\"name\": \"f\", ",
                                        "\"arguments\": {",
                                        "\"a\": 1",
                                        "}",
                                        "]",
                                        "[",
                                        "<function=f>\n",
                                        "<parameter=s>\n",
                                        "\n</parameter>\n",
                                        "</function>",
                                        "<parameter=u>",
                                        "</parameter>",
                                        "f",
                                        "<arg_key>i</arg_key>",
                                        "<arg_value>",
                                        "</arg_value>",
                                        "<invoke name=\"f\">",
                                        "</invoke>",
                                        "<parameter name=\"i\">",
                                        "<minimax:tool_call>",
                                        "]<]minimax[>[",
                                        "<tool_call>]<]minimax[>[<invoke name=\"f\">",
                                        "]<]minimax[>[<u>",
                                        "]<]minimax[>[</u>",
                                        "]<]minimax[>[<item>",
                                        "]<]minimax[>[</item>",
                                        "<｜DSML｜invoke name=\"f\">",
                                        "<｜DSML｜parameter name=\"s\" string=\"true\">",
                                        "</｜DSML｜parameter>",
                                        "<｜tool▁call▁begin｜>",
                                        "function<｜tool▁sep｜>",
                                        "<｜tool▁sep｜>",
                                        "```json\n",
                                        "```",
                                        "<|tool_call_begin|>functions.f:0",
                                        "<|tool_call_argument_begin|>",
                                        "<|START_ACTION|>",
                                        "{\"tool_call_id\": \"0\", \"tool_name\": \"f\", ",
                                        "<|START_TEXT|>",
                                        "<|tool_call>call:f{",
                                        "s:",
                                        "<|\"|>",
                                        ",",
                                        "}<tool_call|>",
                                        "<|tool_call_start|>[",
                                        "f(s=",
                                        "'a'",
                                        "\"\"\"",
                                        "\\u00e9",
                                        "\\x41",
                                        "True",
                                        "{'k': (1, 2)}",
                                        ")",
                                        "functools[",
                                        "[TOOL_CALLS]",
                                        "[ARGS]",
                                        "[CALL_ID]",
                                        ">>>",
                                        "all\n",
                                        "<function name=\"f\"><param name=\"s\">",
                                        "<![CDATA[",
                                        "]]>",
                                        "<|channel|>analysis",
                                        "<|channel|>final",
                                        "<|message|>",
                                        " to=functions.f",
                                        "<|end|>",
                                        "<|start|>assistant",
                                        "<think>",
                                        "</think>",
                                        "[THINK]",
                                        "[/THINK]",
                                        "<|channel>thought\n",
                                        "<channel|>",
                                        "<|START_THINKING|>",
                                        "<|END_THINKING|>",
                                        "; ",
                                        "\n"};
    buf_add_text(b, marks[c % (sizeof marks / sizeof *marks)]);
}

FUZZ(chat_parse)
{
    struct chat_message whole = {0}, cut = {0};
    struct buf text = {0};
    for (size_t i = 0; i < n; i++) {
        if (i >= 2 && ((data[i] < 0x20 && data[i] != '\n') || data[i] >= 0x7F))
            add_mark(&text, data[i]);
        else
            buf_add_char(&text, (char)data[i]);
    }
    read_output(&whole, text.n ? text.data : "", text.n, text.n + 1);
    read_output(&cut, text.n ? text.data : "", text.n, 1 + n % 5);
    if (differs(&whole.content, &cut.content) || differs(&whole.reasoning, &cut.reasoning) ||
        whole.n_call != cut.n_call)
        abort();
    for (size_t i = 0; i < whole.n_call; i++)
        if (strcmp(whole.call[i].name, cut.call[i].name) != 0 ||
            differs(&whole.call[i].arguments, &cut.call[i].arguments))
            abort();
    if (whole.n_call > 0) fuzz_accepted();
    track_output(text.n ? text.data : "", text.n, 1 + n % 5);
    chat_message_deinit(&whole);
    chat_message_deinit(&cut);
    buf_deinit(&text);
}
