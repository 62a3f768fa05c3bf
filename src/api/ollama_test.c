/* Goal: bodies of Ollama's API become the described conversation. The errors, answers and lines
 * have the form of Ollama's clients. Method: convert bodies and compare the neutral form. Send
 * bodies to the bundled model without sockets, whole and in lines. */
#include "ollama.h"
#include "rig_test.h"

#include <math.h>

#define CHAT  "/api/chat"
#define GEN   "/api/generate"
#define EMBED "/api/embed"
#define USER  "'model':'m','messages':[{'role':'user','content':'hi'}]"
#define TOOL  "{'type':'function','function':{'name':'f','parameters':{'type':'object'}}}"

/* ---- the neutral form ---- */

static void becomes(const char *body, size_t first, const char *want)
{
    struct err e = {0};
    struct message_places places = {0};
    struct json *sent = parse(body), *got = NULL;
    (void)ollama_neutral_chat(&got, &places, &(struct api){0}, sent, first, &e);
    same_neutral(got, body, want, &e);
    EXPECT_INT(places.n, json_count(json_field(got, "messages")));
    vec_deinit(&places);
    json_drop(sent);
    json_drop(got);
}

TEST(ollama_conversations_become_neutral)
{
    becomes("{'model':'m','messages':[{'role':'System','content':'s'},{'role':'user'}]}", 0,
            "{'messages':[{'role':'system','content':'s'},{'role':'user','content':''}]}");
    /* a last message of the assistant is continued */
    becomes("{'messages':[{'role':'user','content':'q','images':[]},"
            "{'role':'assistant','thinking':'t','content':'It'}]}",
            0,
            "{'messages':[{'role':'user','content':'q'},{'role':'assistant','content':'It',"
            "'reasoning_content':'t'}],'continue_final_message':true}");
    /* results without ids belong to the calls in order, or by their names */
    becomes("{'messages':[{'role':'user','content':'q'},{'role':'assistant','content':'',"
            "'tool_calls':[{'function':{'name':'f','arguments':{'a':1}}},"
            "{'function':{'index':1,'name':'g'}},{'id':'call_own','function':{'name':'h'}}]},"
            "{'role':'tool','content':'of h','tool_call_id':'call_own'},"
            "{'role':'tool','content':'of g','tool_name':'g'},{'role':'tool','content':'of f'}]}",
            0,
            "{'messages':[{'role':'user','content':'q'},{'role':'assistant','content':'',"
            "'tool_calls':["
            "{'id':'call00000','type':'function','function':{'name':'f','arguments':{'a':1}}},"
            "{'id':'call00001','type':'function','function':{'name':'g','arguments':{}}},"
            "{'id':'own','type':'function','function':{'name':'h','arguments':{}}}]},"
            "{'role':'tool','content':'of h','tool_call_id':'own'},"
            "{'role':'tool','content':'of g','tool_call_id':'call00001','name':'g'},"
            "{'role':'tool','content':'of f','tool_call_id':'call00000'}]}");
    /* earlier messages are dropped, except those of the system */
    becomes("{'messages':[{'role':'user','content':'a'},{'role':'system','content':'b'},"
            "{'role':'assistant','content':'c'},{'role':'user','content':'d'}]}",
            3, "{'messages':[{'role':'system','content':'b'},{'role':'user','content':'d'}]}");
}

TEST(ollama_fields_become_neutral)
{
    static const char messages[] = "'messages':[{'role':'user','content':'hi'}]}";
    static const struct {
        const char *field, *want;
    } c[] = {
        {"'options':{'temperature':1,'top_k':2,'repeat_penalty':1.5,'num_predict':9,'seed':3,"
         "'stop':['a'],'num_ctx':7,'num_keep':4,'use_mmap':true,'min_tokens':2,'nosuch':1,"
         "'top_p':null}",
         "'temperature':1,'top_k':2,'repetition_penalty':1.5,'max_tokens':9,'seed':3,"
         "'stop':['a'],'min_tokens':2,"},
        {"'options':{'seed':-1,'num_predict':-2,'tfs_z':1,'penalize_newline':true,"
         "'vocab_only':false}",
         "'n_predict':-1,"},
        {"'options':{'num_predict':0}", "'max_tokens':0,"},
        {"'format':'json'", "'response_format':{'type':'json_object'},"},
        {"'format':''", ""},
        {"'format':{'a':1}",
         "'response_format':{'type':'json_schema','json_schema':{'schema':{'a':1}}},"},
        {"'think':true", "'chat_template_kwargs':{'enable_thinking':true,'thinking':true},"},
        {"'think':false,'chat_template_kwargs':{'thinking':true,'x':1}",
         "'chat_template_kwargs':{'x':1,'enable_thinking':false,'thinking':false},"},
        {"'think':'max'", "'reasoning_effort':'max','chat_template_kwargs':{'enable_thinking':true,"
                          "'thinking':true},"},
        {"'logprobs':true,'top_logprobs':2", "'logprobs':true,'top_logprobs':2,"},
        {"'logprobs':false,'top_logprobs':2", ""},
        {"'tools':[]", ""},
        {"'tools':[{'function':{'name':'f'}},{'type':'','function':{}},{'type':'x','function':{}}]",
         "'tools':[{'type':'function','function':{'name':'f'}},{'type':'function','function':{}},"
         "{'type':'x','function':{}}],"},
        {"'user':'u','priority':1,'keep_alive':'5m','stream':true,'model':'m'",
         "'priority':1,'user':'u',"},
    };
    char body[600], want[600];
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        snprintf(body, sizeof body, "{%s,%s", c[i].field, messages);
        snprintf(want, sizeof want, "{%s%s", c[i].want, messages);
        becomes(body, 0, want);
    }
}

TEST(ollama_prompts_become_neutral)
{
    static const struct {
        const char *body;
        bool raw;
        int64_t cut;
        const char *want;
    } c[] = {
        {"{'prompt':'p','system':'s'}", false, 0,
         "{'messages':[{'role':'system','content':'s'},{'role':'user','content':'p'}]}"},
        {"{'prompt':'p','system':''}", false, 0, "{'messages':[{'role':'user','content':'p'}]}"},
        {"{'prompt':'p','options':{'top_k':3}}", true, 0, "{'top_k':3,'prompt':'p'}"},
        {"{'prompt':'p'}", true, 9, "{'prompt':'p','truncate_prompt_tokens':9}"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct err e = {0};
        struct json *sent = parse(c[i].body), *got = NULL;
        (void)ollama_neutral_generate(&got, &(struct api){0}, sent, c[i].raw, c[i].cut, &e);
        same_neutral(got, c[i].body, c[i].want, &e);
        json_drop(sent);
        json_drop(got);
    }
}

TEST(ollama_durations_are_those_of_go)
{
    static const struct {
        const char *value;
        int kind; /* 0: wrong; 1: a duration; 2: zero */
    } c[] = {{"0", 2},       {"0.0", 2},      {"-1", 1},       {"30", 1},    {"'5m'", 1},
             {"'1h30m'", 1}, {"'1.5s'", 1},   {"'.5s'", 1},    {"'0'", 2},   {"'0s'", 2},
             {"'-1h'", 1},   {"'0m0.0s'", 2}, {"'100ms'", 1},  {"'1µs'", 1}, {"''", 0},
             {"'5'", 0},     {"'m'", 0},      {"'1.2.3s'", 0}, {"'5x'", 0},  {"'.s'", 0},
             {"'-'", 0},     {"'1m 2s'", 0},  {"true", 0},     {"[]", 0},    {"'forever'", 0},
             {"null", 1}};
    char body[80];
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct err e = {0};
        double keep_s = NAN;
        snprintf(body, sizeof body, "{'keep_alive':%s}", c[i].value);
        struct json *sent = parse(body);
        int rc = ollama_keep_alive(sent, &keep_s, &e);
        if ((rc == 0) != (c[i].kind > 0) || (keep_s == 0) != (c[i].kind == 2))
            test_fail(__FILE__, __LINE__, "%s: %d, zero %d", c[i].value, rc, keep_s == 0);
        json_drop(sent);
    }
}

TEST(ollama_durations_have_their_lengths)
{
    static const struct {
        const char *value; /* static */
        double want;
    } c[] = {{"30", 30},         {"-1", -1},      {"2.5", 2.5},     {"'5m'", 300},
             {"'1h30m'", 5400},  {"'1.5s'", 1.5}, {"'-1h'", -3600}, {"'100ms'", 0.1},
             {"'250us'", 25e-5}, {"'5ns'", 5e-9}};
    char body[80];
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct err e = {0};
        double got = NAN;
        snprintf(body, sizeof body, "{'keep_alive':%s}", c[i].value);
        struct json *sent = parse(body);
        EXPECT_INT(ollama_keep_alive(sent, &got, &e), 0);
        if (!(fabs(got - c[i].want) <= 1e-12 * fabs(c[i].want)))
            test_fail(__FILE__, __LINE__, "%s: %g s", c[i].value, got);
        json_drop(sent);
    }
}

/* ---- wrong bodies ---- */

TEST(ollama_errors_have_the_names_of_the_client)
{
    static const struct {
        const char *url, *fields;
        int rc;
        const char *text;
    } c[] = {
        {CHAT, "'messages':[]", ERR_ARG, "model is required"},
        {CHAT, "'model':'m','messages':3", ERR_ARG, "messages: expected a list"},
        {CHAT, "'model':'m','messages':[3]", ERR_ARG, "messages[0]: expected an object"},
        {CHAT, "'model':'m','messages':[{'role':'x','content':''}]", ERR_ARG,
         "messages[0].role: must be system, user, assistant or tool, got \"x\""},
        {CHAT, "'model':'m','messages':[{'role':'user','content':[]}]", ERR_ARG,
         "messages[0].content: expected a string"},
        {CHAT, "'model':'m','messages':[{'role':'user','content':'a','images':['b']}]",
         ERR_UNSUPPORTED, "messages[0].images: not supported yet"},
        {CHAT, "'model':'m','messages':[{'role':'user'},{'role':'assistant','tool_calls':[{}]}]",
         ERR_ARG, "messages[1].tool_calls[0].function: expected an object"},
        {CHAT,
         "'model':'m','messages':[{'role':'assistant','tool_calls':[{'function':{'name':'f',"
         "'arguments':'x'}}]}]",
         ERR_ARG, "messages[0].tool_calls[0].function.arguments: expected an object"},
        {CHAT,
         "'model':'m','messages':[{'role':'assistant','tool_calls':[{'function':{'name':'f'}}]}]",
         ERR_ARG, "messages[0].tool_calls: must be followed by a message of the role tool"},
        {CHAT, USER ",'tools':3", ERR_ARG, "tools: expected a list"},
        {CHAT, USER ",'tools':[{}]", ERR_ARG, "tools[0].function: expected an object"},
        {CHAT, USER ",'tools':[{'function':{}}]", ERR_ARG, "tools[0].function.name: expected a"},
        {CHAT, USER ",'tools':[{'type':'x','function':{'name':'f'}}]", ERR_UNSUPPORTED,
         "tools[0].type: must be \"function\""},
        {CHAT, USER ",'options':[]", ERR_ARG, "options: expected an object"},
        {CHAT, USER ",'options':{'top_k':0.5}", ERR_ARG,
         "option \"top_k\" must be of type integer"},
        {CHAT, USER ",'options':{'top_k':'5'}", ERR_ARG,
         "option \"top_k\" must be of type integer"},
        {CHAT, USER ",'options':{'top_p':'5'}", ERR_ARG,
         "option \"top_p\" must be of type float32"},
        {CHAT, USER ",'options':{'numa':1}", ERR_ARG, "option \"numa\" must be of type boolean"},
        {CHAT, USER ",'options':{'stop':'a'}", ERR_ARG, "option \"stop\" must be of type array"},
        {CHAT, USER ",'options':{'stop':[1]}", ERR_ARG,
         "option \"stop\" must be of an array of strings"},
        {CHAT, USER ",'options':{'stop':['']}", ERR_ARG, "options.stop[0]: must have at least 1"},
        {CHAT, USER ",'options':{'tfs_z':0.5}", ERR_UNSUPPORTED,
         "options.tfs_z: not supported yet, got 0.5"},
        {CHAT, USER ",'options':{'penalize_newline':false}", ERR_UNSUPPORTED,
         "options.penalize_newline: not supported yet"},
        {CHAT, USER ",'options':{'repeat_penalty':-1}", ERR_ARG, "options.repeat_penalty: must be"},
        {CHAT, USER ",'options':{'mirostat':1}", ERR_ARG, "options.mirostat: must be"},
        {CHAT, USER ",'options':{'min_tokens':-1}", ERR_ARG, "options.min_tokens: must be"},
        {CHAT, USER ",'options':{'num_ctx':-1}", ERR_ARG, "options.num_ctx: must be at least 0"},
        {CHAT, USER ",'temperature':0", ERR_ARG, "temperature: must be a member of options"},
        {CHAT, USER ",'num_predict':3", ERR_ARG, "num_predict: must be a member of options"},
        {CHAT, USER ",'format':'xml'", ERR_ARG, "invalid format: \"xml\"; expected \"json\" or a"},
        {CHAT, USER ",'format':[]", ERR_ARG, "invalid format: "},
        {CHAT, USER ",'format':{'type':'list'}", ERR_FORMAT, "format: "},
        {CHAT, USER ",'think':'x'", ERR_ARG, "invalid think value: \"x\" (must be \"high\","},
        {CHAT, USER ",'think':3", ERR_ARG, "think must be a boolean or string (\"high\","},
        {CHAT, USER ",'top_logprobs':21", ERR_ARG, "top_logprobs must be between 0 and 20"},
        {CHAT, USER ",'top_logprobs':-1", ERR_ARG, "top_logprobs must be between 0 and 20"},
        {CHAT, USER ",'logprobs':1", ERR_ARG, "logprobs: expected true or false"},
        {CHAT, USER ",'keep_alive':'x'", ERR_ARG, "keep_alive: expected a number of seconds or"},
        {CHAT, USER ",'stream':1", ERR_ARG, "stream: expected true or false"},
        {CHAT, USER ",'shift':true", ERR_UNSUPPORTED, "shift: not supported yet"},
        {CHAT, USER ",'truncate':3", ERR_ARG, "truncate: expected true or false"},
        {CHAT, USER ",'options':{'num_ctx':3}", ERR_LIMIT,
         "messages: must have at most 2 tokens (options.num_ctx), got"},
        {GEN, "'prompt':'a'", ERR_ARG, "model is required"},
        {GEN, "'model':'m','prompt':3", ERR_ARG, "prompt: expected a string"},
        {GEN, "'model':'m','prompt':['a']", ERR_ARG, "prompt: expected a string"},
        {GEN, "'model':'m','prompt':'a','suffix':'b'", ERR_UNSUPPORTED,
         "\"m\" does not support insert"},
        {GEN, "'model':'m','prompt':'a','template':'b'", ERR_UNSUPPORTED,
         "template: not supported yet"},
        {GEN, "'model':'m','prompt':'a','images':['b']", ERR_UNSUPPORTED,
         "images: not supported yet"},
        {GEN, "'model':'m','prompt':'a','raw':true,'system':'b'", ERR_ARG,
         "raw mode does not support template, system, or context"},
        {GEN, "'model':'m','prompt':'a','raw':true,'context':[1]", ERR_ARG,
         "raw mode does not support template, system, or context"},
        {GEN, "'model':'m','prompt':'a','context':['a']", ERR_ARG, "context[0]: expected a token"},
        {GEN, "'model':'m','prompt':'a','context':[99999999]", ERR_ARG,
         "context[0]: out of vocabulary"},
        {GEN, "'model':'m','prompt':'a','raw':true,'options':{'num_ctx':1}", ERR_LIMIT,
         "prompt: must have at most 0 tokens"},
        {GEN, "'model':'m','options':{'top_k':'5'}", ERR_ARG, "option \"top_k\" must be of type"},
        {EMBED, "'input':'a'", ERR_ARG, "model is required"},
        {EMBED, "'model':'m','input':3", ERR_ARG, "invalid input type"},
        {EMBED, "'model':'m','input':['a',3]", ERR_ARG, "invalid input type"},
        {EMBED, "'model':'m','input':[[1]]", ERR_ARG, "invalid input type"},
        {EMBED, "'model':'m','input':'a','dimensions':-1", ERR_ARG, "dimensions: must be in [0,"},
        {EMBED, "'model':'m','input':'a','dimensions':99999", ERR_ARG,
         "dimensions: must be in [0,"},
        {EMBED, "'model':'m','input':'a b c d e','truncate':false,'options':{'num_ctx':2}",
         ERR_LIMIT, "input[0]: must have at most 2 tokens"},
        {"/api/embeddings", "'model':'m','prompt':['a']", ERR_ARG, "prompt: expected a string"},
    };
    char body[600];
    NEED(rig_open_context(&rig, 256));
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        snprintf(body, sizeof body, "{%s}", c[i].fields);
        rejected(c[i].url, body, c[i].rc, c[i].text);
    }
    rig_close(&rig);
}

/* Goal: a model without tools or reasoning rejects them with Ollama's error messages. */
TEST(ollama_errors_of_abilities)
{
    static const char text[] = "{% for m in messages %}{{ m.content }}{% endfor %}";
    struct err e = {0};
    NEED(rig_open_context(&rig, 256));
    struct chat own = rig.chat;
    NEED_OK(template_open(&rig.chat.t, text, strlen(text), &e), &e);
    rig.chat.reasoning_parser = NULL;
    rig.chat.tool_parser = NULL;
    rejected(CHAT, "{" USER ",'think':true}", ERR_UNSUPPORTED, "\"m\" does not support thinking");
    rejected(CHAT, "{" USER ",'tools':[" TOOL "]}", ERR_UNSUPPORTED,
             "\"m\" does not support tools: tools: ");
    template_close(rig.chat.t);
    rig.chat.t = NULL;
    rejected(CHAT, "{" USER "}", ERR_UNSUPPORTED, "messages: chat template not found");
    rejected(GEN, "{'model':'m','prompt':'a','system':'b'}", ERR_UNSUPPORTED,
             "system: chat template not found");
    struct json *got = post(&rig, GEN, "{'model':'m','prompt':'a','options':{'num_predict':2}}");
    EXPECT_INT(json_count(at(got, "context")), 3); /* the context is the text without a template */
    json_drop(got);
    rig.chat = own;
    rig_close(&rig);
}

/* ---- answers ---- */

TEST(ollama_answers_have_the_members_of_ollama)
{
    NEED(rig_open_context(&rig, 512));
    rig.api.seeded = true;
    struct json *got = post(&rig, CHAT, "{" USER ",'options':{'num_predict':2},'think':false}");
    EXPECT_TEXT(text_at(got, "model"), "m");
    EXPECT_TEXT(text_at(got, "message.role"), "assistant");
    EXPECT(strlen(text_at(got, "message.content")) > 0);
    EXPECT_TEXT(text_at(got, "done_reason"), "length");
    EXPECT(json_bool(at(got, "done"), false));
    EXPECT_INT(json_int(at(got, "eval_count"), -1), 2);
    EXPECT_INT(strlen(text_at(got, "created_at")), strlen("2026-01-01T00:00:00.000000000Z"));
    EXPECT_INT(json_kind(at(got, "message.thinking")), JK_NONE);
    json_drop(got);
    /* arguments are an object */
    got = post(&rig, CHAT,
               "{'model':'m','messages':[{'role':'user','content':'What is the weather in "
               "Paris?'}],'options':{'temperature':0},'think':false,'tools':[{'type':'function',"
               "'function':{'name':'get_weather','parameters':{'type':'object','properties':{"
               "'city':{'type':'string'}},'required':['city']}}}]}");
    EXPECT_TEXT(text_at(got, "message.tool_calls.0.function.name"), "get_weather");
    EXPECT_INT(json_kind(at(got, "message.tool_calls.0.function.arguments")), JK_OBJECT);
    EXPECT(strncmp(text_at(got, "message.tool_calls.0.id"), "call_", 5) == 0);
    EXPECT_TEXT(text_at(got, "done_reason"), "stop");
    json_drop(got);
    got = post(&rig, CHAT,
               "{" USER ",'format':{'const':7},'think':true,'logprobs':true,"
               "'top_logprobs':2}");
    EXPECT(strlen(text_at(got, "message.thinking")) > 3);
    EXPECT_INT(text_at(got, "message.content")[0], '7');
    EXPECT_INT(json_count(at(got, "logprobs.0.top_logprobs")), 2);
    EXPECT(json_count(at(got, "logprobs")) + 1 >= (size_t)json_int(at(got, "eval_count"), 0));
    json_drop(got);
    got = post(&rig, CHAT, "{'model':'m','messages':[]}");
    EXPECT_TEXT(text_at(got, "done_reason"), "load");
    EXPECT_TEXT(text_at(got, "message.content"), "");
    json_drop(got);
    got = post(&rig, GEN, "{'model':'m','keep_alive':0}");
    EXPECT_TEXT(text_at(got, "done_reason"), "unload");
    EXPECT_TEXT(text_at(got, "response"), "");
    json_drop(got);
    rig_close(&rig);
}

/* Goal: a prompt becomes a conversation with its text, and a context precedes the next prompt. */
TEST(ollama_prompts_are_conversations)
{
    static const char options[] = "'options':{'temperature':0,'num_predict':20},'think':false";
    char body[4000];
    struct buf context = {0};
    NEED(rig_open_context(&rig, 512));
    snprintf(body, sizeof body, "{" USER ",%s}", options);
    struct json *talk = post(&rig, CHAT, body);
    snprintf(body, sizeof body, "{'model':'m','prompt':'hi',%s}", options);
    struct json *got = post(&rig, GEN, body);
    EXPECT_TEXT(text_at(got, "response"), text_at(talk, "message.content"));
    const int64_t n_prompt = json_int(at(got, "prompt_eval_count"), 0);
    EXPECT_INT(n_prompt, json_int(at(talk, "prompt_eval_count"), -1));
    /* the end token is a part of the context */
    EXPECT_INT(json_count(at(got, "context")), n_prompt + json_int(at(got, "eval_count"), -1));
    json_put(&context, at(got, "context"));
    const size_t n_context = json_count(at(got, "context"));
    snprintf(body, sizeof body, "{'model':'m','prompt':'hi','context':%s,%s}", context.data,
             options);
    struct json *next = post(&rig, GEN, body);
    EXPECT_INT(json_int(at(next, "prompt_eval_count"), 0), (int64_t)n_context + n_prompt);
    /* `truncate` drops the beginning of a context that is too long */
    snprintf(body, sizeof body,
             "{'model':'m','prompt':'hi','context':%s,'truncate':true,'think':false,"
             "'options':{'num_ctx':%d,'num_predict':1}}",
             context.data, (int)n_prompt + 4);
    struct json *cut = post(&rig, GEN, body);
    EXPECT_INT(json_int(at(cut, "prompt_eval_count"), 0), n_prompt + 3);
    struct json *raw = post(&rig, GEN,
                            "{'model':'m','prompt':'hi','raw':true,'options':{"
                            "'temperature':0,'num_predict':5}}");
    struct json *text =
        post(&rig, "/v1/completions", "{'prompt':'hi','temperature':0,'max_tokens':5}");
    EXPECT_TEXT(text_at(raw, "response"), text_at(text, "choices.0.text"));
    EXPECT_INT(json_kind(at(raw, "context")), JK_NONE);
    struct json *all[] = {talk, got, next, cut, raw, text};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_drop(all[i]);
    buf_deinit(&context);
    rig_close(&rig);
}

/* Goal: a conversation that is too long is an error, or loses its first turns with `truncate`. The
 * system's message and the last turn stay, and no turn is dropped that fits. */
TEST(ollama_truncate_drops_first_turns)
{
    struct buf b = {0}, kept = {0};
    NEED(rig_open_context(&rig, 256));
    buf_add_text(&b, "'model':'m','options':{'num_ctx':120,'num_predict':1},'think':false,"
                     "'messages':[{'role':'system','content':'s'}");
    for (int i = 0; i < 20; i++)
        buf_addf(&b, ",{'role':'user','content':'q%d'},{'role':'assistant','content':'a'}", i);
    buf_add_text(&b, ",{'role':'user','content':'last'}]");
    struct buf body = {0};
    buf_addf(&body, "{%s}", b.data);
    rejected(CHAT, body.data, ERR_LIMIT, "messages: must have at most 119 tokens");
    buf_clear(&body);
    buf_addf(&body, "{%s,'truncate':true}", b.data);
    struct json *got = post(&rig, CHAT, body.data);
    const int64_t n = json_int(at(got, "prompt_eval_count"), -1);
    json_drop(got);
    /* the conversation without the dropped turns has this count */
    int n_turn = 0;
    for (int drop = 20; drop >= 0 && n_turn == 0; drop--) {
        buf_clear(&kept);
        buf_add_text(&kept, "{'model':'m','options':{'num_ctx':120,'num_predict':1},'think':false,"
                            "'messages':[{'role':'system','content':'s'}");
        for (int i = drop; i < 20; i++)
            buf_addf(&kept, ",{'role':'user','content':'q%d'},{'role':'assistant','content':'a'}",
                     i);
        buf_add_text(&kept, ",{'role':'user','content':'last'}]}");
        got = post(&rig, CHAT, kept.data);
        if (json_int(at(got, "prompt_eval_count"), -1) == n) n_turn = 21 - drop;
        /* one more turn does not fit */
        if (n_turn && drop > 0) {
            buf_clear(&kept);
            buf_add_text(&kept,
                         "{'model':'m','options':{'num_ctx':120,'num_predict':1},'think':false,"
                         "'messages':[{'role':'system','content':'s'}");
            for (int i = drop - 1; i < 20; i++)
                buf_addf(&kept,
                         ",{'role':'user','content':'q%d'},{'role':'assistant','content':'a'}", i);
            buf_add_text(&kept, ",{'role':'user','content':'last'}]}");
            rejected(CHAT, kept.data, ERR_LIMIT, "messages: must have at most 119 tokens");
        }
        json_drop(got);
    }
    EXPECT(n_turn > 1 && n_turn < 21);
    buf_deinit(&b);
    buf_deinit(&kept);
    buf_deinit(&body);
    rig_close(&rig);
}

TEST(ollama_embeddings_are_those_of_openai)
{
    NEED(rig_open_context(&rig, 256));
    struct json *got = post(&rig, EMBED, "{'model':'m','input':['a b','c'],'dimensions':5}"),
                *old = post(&rig, "/api/embeddings", "{'model':'m','prompt':'c'}"),
                *cut = post(&rig, EMBED, "{'model':'m','input':'a b c d','options':{'num_ctx':2}}"),
                *none = post(&rig, EMBED, "{'model':'m','input':[]}"),
                *want = post(&rig, "/v1/embeddings", "{'input':['a b','c'],'dimensions':5}"),
                *whole = post(&rig, "/v1/embeddings", "{'input':'c'}");
    struct buf a = {0}, b = {0};
    for (int i = 0; i < 2; i++) {
        buf_clear(&a), buf_clear(&b);
        json_put(&a, json_item(at(got, "embeddings"), (size_t)i));
        json_put(&b, at(json_item(at(want, "data"), (size_t)i), "embedding"));
        EXPECT_TEXT(a.data, b.data);
    }
    buf_clear(&a), buf_clear(&b);
    json_put(&a, at(old, "embedding"));
    json_put(&b, at(whole, "data.0.embedding"));
    EXPECT_TEXT(a.data, b.data);
    EXPECT_INT(json_int(at(cut, "prompt_eval_count"), -1), 2);
    EXPECT_INT(json_kind(at(none, "embeddings")), JK_LIST);
    EXPECT_INT(json_count(at(none, "embeddings")), 0);
    struct json *all[] = {got, old, cut, none, want, whole};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_drop(all[i]);
    buf_deinit(&a);
    buf_deinit(&b);
    rig_close(&rig);
}

/* ---- errors ---- */

TEST(ollama_errors_are_texts)
{
    struct err e;
    struct buf b = {0};
    err_field(&e, ERR_ARG, "x", ": so");
    ollama_errors.put(&b, ERR_ARG, &e, "i1");
    call_put_error(&(struct api_call){.dialect = dialect_find(CHAT)}, &b, ERR_ARG, &e);
    EXPECT_TEXT(b.data, "{\"error\":\"x: so\"}{\"error\":\"x: so\"}\n");
    buf_clear(&b);
    err_figures(&e, err_field(&e, ERR_LIMIT, "messages", ": so"), 9, 8);
    ollama_errors.put(&b, ERR_LIMIT, &e, NULL);
    EXPECT_TEXT(
        b.data,
        "{\"error\":\"the input length exceeds the context length: 9 tokens > 8 maximum\"}");
    buf_clear(&b);
    err_field(&e, ERR_MISSING, "model", ": \"a\"b\" not found; available: \"c\"");
    ollama_errors.put(&b, ERR_MISSING, &e, NULL);
    EXPECT_TEXT(b.data, "{\"error\":\"model 'a\\\"b' not found; available: \\\"c\\\"\"}");
    buf_clear(&b);
    ollama_errors.net.put(&b, &(struct net_error){.status = 401, .text = "so", .id = "i"});
    EXPECT_TEXT(b.data, "{\"error\":\"so\"}");
    buf_deinit(&b);
}
