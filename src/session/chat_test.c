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
    struct checkpoint *c = NULL;
    struct template *t = NULL;
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
    if (rc == 0 && !t) chat_missing(out, c);
    template_close(t);
    checkpoint_close(c);
    for (int i = 0; i < 5; i++) unlink(temp_path(files[i]));
    return rc ? e.text : out;
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
}
