/* Goal: the error for a model without a default chat template names the model's other templates,
 * and the flag. */
#include "session.h"

#include "../../tests/safetensors_make.h"
#include "../../tests/unit.h"

#include <string.h>
#include <unistd.h>

/* Return the advice for a folder with this tokenizer_config.json and chat_template.jinja (NULL: no
 * file); "" if the folder has a default template. */
static const char *advice_of(const char *config, const char *jinja)
{
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer_config.json",
                                        "chat_template.jinja", "chat_template.json"};
    static char out[CHAT_MISSING_BYTES];
    struct checkpoint *c;
    struct template *t;
    static struct err e;
    char dir[4096];
    for (int i = 0; i < 5; i++) unlink(temp_path(files[i])); /* also files of other tests */
    EXPECT_INT(json_write(temp_path("config.json"), "{'model_type':'llama'}"), 0);
    EXPECT_INT(json_write(temp_path("tokenizer_config.json"), config), 0);
    if (jinja) temp_put("chat_template.jinja", jinja);
    EXPECT_INT(safetensors_write(temp_path("model.safetensors"),
                                 "{'x':{'dtype':'I8','shape':[1],'data_offsets':[0,1]}}", 1),
               0);
    snprintf(dir, sizeof dir, "%s", temp_path("config.json"));
    *strrchr(dir, '/') = 0;
    *out = 0;
    int rc = checkpoint_open(&c, dir, &e);
    if (rc == 0) rc = chat_template(&t, c, NULL, &e);
    if (rc != 0) return e.text;
    if (!t) chat_missing(out, c);
    template_close(t);
    checkpoint_close(c);
    for (int i = 0; i < 5; i++) unlink(temp_path(files[i]));
    return out;
}

TEST(chat_template_without_a_default)
{
    EXPECT_TEXT(advice_of("{'chat_template':'{{ messages }}'}", NULL), "");
    EXPECT_TEXT(advice_of("{}", NULL), "chat template not found in the model; give one with "
                                       "--chat-template FILE");
    EXPECT_TEXT(advice_of("{'chat_template':[{'name':'rag','template':'r'},"
                          "{'name':'tool_use','template':'t'}]}",
                          NULL),
                "chat template \"default\" not found in the model; available with --chat-template "
                "NAME: rag, tool_use");
    EXPECT_TEXT(advice_of("{'chat_template':'{{ messages }}'}", " \n"),
                "the chat template of the model is empty; give one with --chat-template FILE");
/* chat_test.c - goal: a GGUF that names a template of llama.cpp has that template. Method: a file
 * with only metadata. */
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
