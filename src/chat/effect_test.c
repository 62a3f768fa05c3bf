/* Goal: a template of a request that ignores a part of a conversation gives an error with the place
 * of the part. Templates of models that print all parts pass. Method: small templates that drop a
 * content by its value, contents, messages or calls. */
#include "chat/chat.h"
#include "../../tests/unit.h"

#include <string.h>

#define LOOP(text)    "{% for m in messages %}" text "{% endfor %}"
#define USER(text)    "{\"role\":\"user\",\"content\":\"" text "\"}"
#define SYSTEM(text)  "{\"role\":\"system\",\"content\":\"" text "\"}"
#define CALL(args)    "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":" args "}}"
#define CALLS(list)   "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" list "]}"
#define PRINT_CALL    "{{ c.function.name }}({{ c.function.arguments }})"
#define PRINTS(calls) LOOP("<{{ m.role }}>{{ m.content or '' }}" calls)

static const char whole[] = PRINTS("{% for c in m.tool_calls or [] %}" PRINT_CALL "{% endfor %}");
static const char no_calls[] = PRINTS("");
static const char first_call[] =
    PRINTS("{% if m.tool_calls %}{% set c = m.tool_calls[0] %}" PRINT_CALL "{% endif %}");
static const char call_names[] =
    PRINTS("{% for c in m.tool_calls or [] %}{{ c.function.name }}{% endfor %}");
static const char roles_only[] = LOOP("<{{ m.role }}>");
static const char some[] = LOOP("{% if m.content == 'a' %}<{{ m.content }}>{% endif %}");
static const char others[] = LOOP("{% if m.content != 'a' %}<{{ m.content }}>{% endif %}");
static const char alternate[] =
    LOOP("{% if loop.index0 % 2 == 0 and m.role != 'user' %}{{ raise_exception('roles must "
         "alternate') }}{% endif %}<{{ m.content }}>");
static const char own_system[] =
    "{% if messages[0].role != 'system' %}<S>be good{% endif %}" LOOP("<{{ m.content }}>");

/* Return the text of the error; "" if none. */
static const char *render(const char *source, const char *messages, bool checks, struct err *e)
{
    struct template *t = NULL;
    struct json *j = NULL;
    struct buf out = {0};
    *e = (struct err){0};
    bool ok = template_open(&t, source, strlen(source), e) == 0 &&
              json_parse(&j, messages, strlen(messages), NULL, e) == 0;
    const struct conversation c = {
        .messages = j, .add_generation_prompt = true, .checks_parts = checks};
    if (ok) template_render(t, &c, &out, NULL, e);
    template_close(t);
    json_drop(j);
    buf_deinit(&out);
    return e->text;
}

TEST(parts_that_a_template_of_a_request_ignores)
{
    static const struct {
        const char *source, *messages, *error;
    } cases[] = {
        {whole, "[" SYSTEM("s") "," USER("a") "]", ""},
        {whole, "[" USER("a") "," USER("a") "," USER("a") "]", ""},
        {whole, "[" USER("a") "," CALLS(CALL("\"{}\"") "," CALL("\"{\\\"x\\\":1}\"")) "]", ""},
        {whole, "[" USER("a") "," CALLS(CALL("{\"x\":1}")) "]", ""},
        {no_calls, "[" USER("a") "]", ""},
        {no_calls, "[" USER("a") "," CALLS(CALL("\"{}\"")) "]", "messages[1].tool_calls[0]"},
        {first_call, "[" USER("a") "," CALLS(CALL("\"{}\"")) "]", ""},
        {first_call, "[" USER("a") "," CALLS(CALL("\"{}\"") "," CALL("\"{\\\"x\\\":1}\"")) "]",
         "messages[1].tool_calls[1]"},
        {call_names, "[" USER("a") "," CALLS(CALL("{\"x\":1}")) "]", "messages[1].tool_calls[0]"},
        {roles_only, "[" USER("a") "]", "messages[0]"},
        {some, "[" USER("a") "," USER("a") "]", ""},
        {some, "[" USER("a") "," USER("b") "," USER("a") "]", "messages[1]"},
        {others, "[" USER("b") "," USER("a") "]", "messages[1].content"},
        {others, "[" USER("b") "," USER("c") "]", ""},
        {alternate, "[" USER("b") ",{\"role\":\"assistant\",\"content\":\"a\"}," USER("c") "]", ""},
        {own_system, "[" SYSTEM("be good") "," USER("c") "]", ""},
        {own_system, "[" USER("c") "]", ""},
        {whole, "[" USER("qOther") "," CALLS(CALL("{\"qOther\":1}")) "]", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e;
        const char *text = render(cases[i].source, cases[i].messages, true, &e);
        const bool same = *cases[i].error
                              ? strncmp(text, cases[i].error, strlen(cases[i].error)) == 0
                              : *text == 0;
        if (!same)
            test_fail(__FILE__, __LINE__, "%s: %s: \"%s\"", cases[i].source, cases[i].messages,
                      text);
        EXPECT(same);
    }
}

TEST(the_check_of_parts_is_bounded)
{
    struct buf b = {0};
    struct err e;
    buf_add_char(&b, '[');
    for (int i = 0; i < 3000; i++)
        buf_addf(&b, "%s{\"role\":\"user\",\"content\":\"message %d of a long conversation\"}",
                 i ? "," : "", i);
    buf_add_char(&b, ']');
    NEED(!b.failed);
    EXPECT_TEXT(render(whole, b.data, false, &e), "");
    EXPECT(strncmp(render(whole, b.data, true, &e), "chat_template: ", 15) == 0);
    buf_deinit(&b);
}

/* Goal: all renderings together have the steps of one, so a template with loops ends soon. */
TEST(the_check_of_parts_shares_the_steps)
{
    static const char slow[] =
        PRINTS("{% if messages|length > 30 %}{% for i in range(3000) %}{% endfor %}{% endif %}");
    struct buf b = {0};
    struct err e;
    buf_add_char(&b, '[');
    for (int i = 0; i < 60; i++)
        buf_addf(&b, "%s{\"role\":\"user\",\"content\":\"%d\"}", i ? "," : "", i);
    buf_add_char(&b, ']');
    NEED(!b.failed);
    EXPECT_TEXT(render(slow, b.data, false, &e), "");
    EXPECT(strncmp(render(slow, b.data, true, &e), "chat_template: ", 15) == 0);
    buf_deinit(&b);
}
