/* template_name_test.c - goal: a GGUF that names a template of llama.cpp has that template. Method:
 * a file with only metadata. */
#include "../../tests/unit.h"
#include "session.h"

#include <string.h>

/* Goal: the name "rwkv-world" is llama.cpp's template for RWKV, not the text of a template. */
TEST(template_named_by_a_gguf)
{
    static const char messages[] =
        "[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\" Hi \"},"
        "{\"role\":\"assistant\",\"content\":\"Hello.\"},{\"role\":\"user\",\"content\":\"Bye\"}]";
    struct checkpoint *c = NULL;
    struct template *t = NULL;
    struct json *j = NULL;
    struct buf out = {0};
    struct err e = {0};
    NEED_OK(checkpoint_build(&c, "named.gguf", NULL, NULL, &e), &e);
    NEED_OK(checkpoint_add_text(c, "tokenizer.chat_template", "rwkv-world", 10, &e), &e);
    NEED_OK(chat_template(&t, c, NULL, &e), &e);
    NEED_OK(json_parse(&j, messages, sizeof messages - 1, NULL, &e), &e);
    const struct conversation talk = {.messages = j, .add_generation_prompt = true};
    NEED_OK(template_render(t, &talk, &out, NULL, &e), &e);
    buf_add_char(&out, 0);
    EXPECT_TEXT(out.data, "System: Be brief.\n\nUser: Hi\n\nAssistant: Hello.\n\nUser: Bye\n\n"
                          "Assistant:");
    buf_deinit(&out);
    json_drop(j);
    template_close(t);
    checkpoint_close(c);
}
