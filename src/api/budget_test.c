/* Goal: reasoning_effort becomes a variable of the chat template, or a budget without such a
 * variable. The usage counts the tokens of reasoning. Method: send bodies to the bundled model
 * without sockets, with its own template and with templates of the request. */
#include "rig_test.h"

#define CHAT "/v1/chat/completions"
#define USER "'messages':[{'role':'user','content':'Hi'}]"

/* Return the budget of a body for a template; source NULL: the model's template. */
static int budget_of(const char *source, const char *body)
{
    struct err e = {0};
    struct api api = rig.api;
    struct chat chat = rig.chat;
    struct template *own = NULL;
    struct json *sent = parse(body);
    if (source && template_open(&own, source, strlen(source), &e) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", source, e.text);
    if (own) chat.t = own;
    api.chat = &chat;
    const int budget = effort_budget(&api, sent);
    template_close(own);
    json_drop(sent);
    return budget;
}

TEST(api_effort_is_a_budget_without_a_variable)
{
    static const char knows[] = "{{ reasoning_effort }}{{ messages }}", plain[] = "{{ messages }}";
    static const struct {
        const char *effort;
        int own, plain;
    } row[] = {{"none", -1, 0},  {"minimal", 128, 128}, {"low", 1024, 1024}, {"medium", 4096, 4096},
               {"high", -1, -1}, {"xhigh", -1, -1},     {"max", -1, -1}};
    NEED(rig_open_context(&rig, 512));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char body[80];
        snprintf(body, sizeof body, "{'reasoning_effort':'%s'}", row[i].effort);
        EXPECT_INT(budget_of(NULL, body), row[i].own);
        EXPECT_INT(budget_of(plain, body), row[i].plain);
        EXPECT_INT(budget_of(knows, body), -1);
    }
    EXPECT_INT(budget_of(plain, "{'reasoning_effort':'low','thinking_token_budget':-1}"), -1);
    EXPECT_INT(budget_of(plain, "{'reasoning_effort':'low','reasoning_budget_tokens':5}"), -1);
    EXPECT_INT(budget_of(plain, "{}"), -1);
    rig.api.constrain_reasoning = true;
    EXPECT_INT(budget_of(plain, "{'reasoning_effort':'low'}"), -1);
    rig_close(&rig);
}

/* Return the prompt of a body of chats with other members. The caller frees it. */
static char *prompt_of(const char *members)
{
    char body[400];
    snprintf(body, sizeof body, "{" USER ",'max_tokens':1,'return_prompt_text':true,%s}", members);
    struct json *got = post(&rig, CHAT, body);
    if (!at(got, "prompt_text"))
        test_fail(__FILE__, __LINE__, "%s: %s", members, text_at(got, "message"));
    char *text = strdup(text_at(got, "prompt_text"));
    json_drop(got);
    return text;
}

TEST(api_effort_sets_variables_of_the_template)
{
    static const struct {
        const char *a, *b;
    } same[] = {
        {"'reasoning_effort':'low'", "'chat_template_kwargs':{'enable_thinking':true}"},
        {"'reasoning_effort':'none'", "'chat_template_kwargs':{'enable_thinking':false}"},
        {"'reasoning_effort':'high','chat_template':'{{ thinking }} {{ messages[0].content }}'",
         "'chat_template':'True {{ messages[0].content }}'"},
        {"'reasoning_effort':'xhigh','chat_template':'{{ reasoning_effort }}{{ thinking }} {{ "
         "messages[0].content }}'",
         "'chat_template':'xhigh {{ messages[0].content }}'"},
    };
    NEED(rig_open_context(&rig, 512));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char *a = prompt_of(same[i].a), *b = prompt_of(same[i].b);
        EXPECT_TEXT(a, b);
        free(a);
        free(b);
    }
    rejected(CHAT, "{" USER ",'reasoning_effort':'very'}", ERR_ARG,
             "reasoning_effort: must be none, minimal");
    rig_close(&rig);
}

TEST(api_usage_counts_tokens_of_reasoning)
{
    static const char think[] = "{" USER ",'seed':1,'max_tokens':60,'thinking_token_budget':5,"
                                "'chat_template_kwargs':{'enable_thinking':true}%s}";
    char body[300];
    NEED(rig_open_context(&rig, 512));
    snprintf(body, sizeof body, think, "");
    struct json *got = post(&rig, CHAT, body);
    const struct json *n = at(got, "usage.completion_tokens_details.reasoning_tokens");
    const int64_t n_whole = json_int(n, -1);
    EXPECT(n_whole >= 5 && n_whole < json_int(at(got, "usage.completion_tokens"), 0));
    json_drop(got);
    snprintf(body, sizeof body, think, ",'stream':true,'stream_options':{'include_usage':true}");
    struct json *frames = post_stream(&rig, CHAT, body);
    const struct json *last = json_item(frames, json_count(frames) - 1);
    EXPECT_INT(json_int(at(last, "usage.completion_tokens_details.reasoning_tokens"), -1), n_whole);
    json_drop(frames);
    got = post(&rig, CHAT, "{" USER ",'max_tokens':9,'reasoning_effort':'none'}");
    EXPECT_INT(json_int(at(got, "usage.completion_tokens_details.reasoning_tokens"), -1), 0);
    json_drop(got);
    /* a template that always begins reasoning: effort none ends it at once */
    got = post(&rig, CHAT,
               "{" USER ",'max_tokens':9,'reasoning_effort':'none','chat_template':'{{ "
               "messages[0].content }}{% if add_generation_prompt %}<think>\\n{% endif %}'}");
    EXPECT(!json_text(at(got, "choices.0.message.reasoning_content"), NULL));
    EXPECT(json_int(at(got, "usage.completion_tokens_details.reasoning_tokens"), -1) > 0);
    json_drop(got);
    rig_close(&rig);
}
