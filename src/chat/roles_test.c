/* Goal: a message that is not printed gives an error. Method: render conversations with templates
 * that print only some of their roles. Each message is either printed or named in the error. */
#include "chat/chat.h"
#include "../../tests/unit.h"

#include <string.h>

#define MESSAGE(role) "{\"role\":\"" role "\",\"content\":\"hi\"}"
#define USER          MESSAGE("user")

/* A template that prints two roles. The template only compares the content of a message of the role
 * "control". */
static const char two_roles[] =
    "{% for m in messages %}{% if m.role == 'user' or m.role == 'assistant' %}<{{ m.role }}>"
    "{{ m.content }}{% elif m.role == 'control' and m.content == 'think' %}<think>{% endif %}"
    "{% endfor %}";
/* A template that prints every role. It prints a system message only at the start. */
static const char first_system[] =
    "{% for m in messages %}{% if m.role != 'system' or loop.first %}<{{ m.role }}>{{ m.content }}"
    "{% endif %}{% endfor %}";
/* Templates that print only the last message, all but the first, none, and only the user's. */
static const char last_only[] = "{{ messages[-1].content }}";
static const char not_first[] =
    "{% for m in messages %}{% if not loop.first %}{{ m.content }}{% endif %}{% endfor %}";
static const char nothing[] = "hi";
static const char users_only[] =
    "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}";

/* Return the text of the error; "" if none. */
static const char *render(const char *source, const char *messages, struct err *e)
{
    struct template *t = NULL;
    struct json *j = NULL;
    struct buf out = {0};
    *e = (struct err){0};
    bool ok = template_open(&t, source, strlen(source), e) == 0 &&
              json_parse(&j, messages, strlen(messages), NULL, e) == 0;
    const struct conversation c = {.messages = j, .add_generation_prompt = true};
    if (ok) template_render(t, &c, &out, NULL, e);
    template_close(t);
    json_drop(j);
    buf_deinit(&out);
    return e->text;
}

TEST(roles_that_a_template_ignores)
{
    static const struct {
        const char *source, *messages, *error;
    } cases[] = {
        {two_roles, "[" USER "," MESSAGE("assistant") "," USER "]", ""},
        {two_roles, "[" USER "," MESSAGE("bob") "," USER "]", "messages[1].role"},
        {two_roles, "[" MESSAGE("bob") "," USER "," MESSAGE("ann") "]", "messages[0].role"},
        {two_roles, "[" USER "," MESSAGE("tool") "]", "messages[1].role"},
        {two_roles, "[" USER "," MESSAGE("developer") "]", "messages[1].role"},
        {two_roles, "[{\"role\":\"control\",\"content\":\"think\"}," USER "]", ""},
        {two_roles, "[{\"role\":\"control\"}," USER "]", "messages[0].role"},
        {two_roles,
         "[" MESSAGE("system") ",{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                               "\"text\":\"a\"}]}]",
         ""},
        {two_roles, "[" MESSAGE("system") "]", "messages[0].role"},
        {last_only, "[" USER "]", ""},
        {last_only, "[" USER "," MESSAGE("assistant") "," USER "]", "messages[0].role"},
        {last_only, "[" MESSAGE("assistant") "," MESSAGE("bob") "]", "messages[0].role"},
        {not_first, "[" USER "," MESSAGE("assistant") "]", "messages[0].role"},
        {nothing, "[" USER "]", "messages[0].role"},
        {users_only, "[" USER "," USER "]", ""},
        {users_only, "[" USER "," MESSAGE("assistant") "," USER "]", "messages[1].role"},
        {users_only, "[" USER ",{\"role\":\"assistant\",\"content\":null}," USER "]", ""},
        {first_system, "[" MESSAGE("system") "," MESSAGE("bob") "," MESSAGE("tool") "]", ""},
        {first_system, "[" USER "," MESSAGE("system") "]", "messages[1].role"},
        {first_system, "[" USER "," MESSAGE("bob") "," MESSAGE("system") "]", "messages[2].role"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e;
        const char *text = render(cases[i].source, cases[i].messages, &e);
        bool same = *cases[i].error ? strncmp(text, cases[i].error, strlen(cases[i].error)) == 0
                                    : *text == 0;
        if (!same) test_fail(__FILE__, __LINE__, "%s: \"%s\"", cases[i].messages, text);
        EXPECT(same);
    }
}

TEST(many_messages_that_a_template_ignores)
{
    struct buf b = {0};
    struct err e;
    buf_add_text(&b, "[" USER);
    for (int i = 0; i < 4000; i++) buf_add_text(&b, "," MESSAGE("control"));
    buf_add_char(&b, ']');
    NEED(!b.failed);
    EXPECT(strncmp(render(two_roles, b.data, &e), "messages[1].role", 16) == 0);
    buf_deinit(&b);
    buf_add_text(&b, "[" USER);
    for (int i = 0; i < 2000; i++)
        buf_add_text(&b, ",{\"role\":\"control\",\"content\":\"think\"}");
    buf_add_char(&b, ']');
    NEED(!b.failed);
    /* each of these messages needs a separate rendering */
    EXPECT(strncmp(render(two_roles, b.data, &e), "messages[9].role", 16) == 0);
    buf_deinit(&b);
}
