/* Goal: bodies become answers in the form of OpenAI's, vLLM's and llama.cpp's clients. Unsupported
 * requests are rejected with their field. Method: send JSON bodies to the bundled model without
 * sockets, and check its JSON answers, whole and in pieces. */
#include "rig_test.h"

#include "base/os.h"

/* Open the model with a short context, so that limits are easy to reach. */
static bool rig_open(struct rig *r)
{
    return rig_open_context(r, 256);
}

/* Check that the body is rejected because of the field `param`, and that the error contains
 * `place`. */
static void refused_at(struct rig *r, const char *url, const char *body, const char *param,
                       const char *place)
{
    struct json *got = post(r, url, body);
    if (strcmp(text_at(got, "param"), param) != 0 || !strstr(text_at(got, "message"), place))
        test_fail(__FILE__, __LINE__, "%.200s: param %s, message %s", body, text_at(got, "param"),
                  text_at(got, "message"));
    json_drop(got);
}

static void refused(struct rig *r, const char *url, const char *body, const char *param)
{
    refused_at(r, url, body, param, "");
}

static void accepted(struct rig *r, const char *url, const char *body)
{
    struct json *got = post(r, url, body);
    if (json_count(at(got, "choices")) + json_count(at(got, "data")) == 0)
        test_fail(__FILE__, __LINE__, "%s: %s", body, text_at(got, "message"));
    json_drop(got);
}

#define CHAT       "/v1/chat/completions"
#define TEXT       "/v1/completions"
#define EMBED      "/v1/embeddings"
#define USER       "'messages':[{'role':'user','content':'Hi'}]"
#define ONCE       "'prompt':'Once upon a time','temperature':0"
#define TOOL(more) "'tools':[{'type':'function','function':{'name':'f','parameters':{}" more "}}]"

/* Check that an id has nine letters and digits and is unique. */
static void check_id(const char *id, char (*ids)[10], size_t n_id)
{
    size_t n = 0;
    while (isalnum((unsigned char)id[n])) n++;
    if (n != 9 || id[n]) test_fail(__FILE__, __LINE__, "id \"%s\"", id);
    for (size_t i = 0; i < n_id; i++)
        if (strcmp(ids[i], id) == 0) test_fail(__FILE__, __LINE__, "\"%s\" twice", id);
    snprintf(ids[n_id], 10, "%s", id);
}

/* Goal: all ids of two calls in a message are different, for n choices and for another call. */
/* Goal: a body's model selects the adapter with this name. Method: send names of adapters that the
 * model does not have, because the engine rejects the numbers of these adapters. */
TEST(api_model_names_select_adapters)
{
    static const struct addition_set set[] = {{0}, {.name = "sql"}, {.name = "poem"}};
    static const struct {
        const char *url, *body;
        const char *want; /* NULL: accepted */
    } cases[] = {
        {"/v1/completions", "{'prompt':'a','max_tokens':1}", NULL},
        {"/v1/completions", "{'prompt':'a','max_tokens':1,'model':'tiny'}", NULL},
        {"/v1/completions", "{'prompt':'a','max_tokens':1,'model':'sq'}", NULL},
        {"/v1/completions", "{'prompt':['a','b'],'model':'sql'}",
         "adapter: must be in [0, 0], got 1"},
        {"/v1/chat/completions", "{'messages':[{'role':'user','content':'a'}],'model':'poem'}",
         "adapter: must be in [0, 0], got 2"},
        {"/v1/embeddings", "{'input':'a','model':'poem'}", "adapter: must be in [0, 0], got 2"},
    };
    NEED(rig_open(&rig));
    const struct additions opened = rig.session.additions;
    rig.session.additions = (struct additions){.set = set, .n_set = 3};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json *got = post(&rig, cases[i].url, cases[i].body);
        const char *message = json_text(json_field(got, "message"), NULL);
        if (cases[i].want)
            EXPECT_TEXT(message, cases[i].want);
        else
            EXPECT(!message);
        json_drop(got);
    }
    rig.session.additions = opened;
    rig_close(&rig);
}

TEST(api_tool_call_ids_are_unique)
{
    struct api_call a = {.api = &rig.api, .unique = 1}, b = {.api = &rig.api, .unique = 2};
    const struct api_call *call[] = {&a, &b};
    char ids[64][10];
    size_t n_id = 0;
    for (int k = 0; k < 2; k++)
        for (int choice = 0; choice < 4; choice++)
            for (int i = 0; i < 4; i++) {
                struct buf out = {0};
                put_call_id(&(struct json_out){.b = &out}, NULL, NULL, choice_seed(call[k], choice),
                            i);
                NEED(out.n == 11);
                out.data[10] = 0;
                check_id(out.data + 1, ids, n_id++);
                buf_deinit(&out);
            }
}

/* Goal: a call with the model's own id has this id in a whole answer and in pieces. Method: use a
 * template with a tool parser, and a text that is a call. */
TEST(api_tool_calls_have_the_same_id_in_pieces)
{
    struct api_call c = {.api = &rig.api, .unique = 7};
    struct chat_message m = {0};
    struct buf whole = {0}, id = {0};
    static const char name[] = "f";
    chat_message_add(&m,
                     &(struct chat_delta){.kind = CHAT_CALL, .text = "{}", .n = 2, .name = name});
    message_put(&whole, &m, choice_seed(&c, 1));
    put_call_id(&(struct json_out){.b = &id}, NULL, NULL, choice_seed(&c, 1), 0);
    EXPECT(id.n == 11 && strstr(whole.data, id.data));
    chat_message_deinit(&m);
    buf_deinit(&whole);
    buf_deinit(&id);
}

TEST(api_accepts_strict_tools_with_auto)
{
    NEED(rig_open(&rig));
    accepted(&rig, CHAT, "{" USER ",'max_tokens':1," TOOL(",'strict':true") "}");
    accepted(&rig, CHAT,
             "{" USER ",'max_tokens':1,'tool_choice':'auto'," TOOL(",'strict':false") "}");
    refused(&rig, CHAT, "{" USER "," TOOL(",'strict':'yes'") "}", "tools");
    refused(&rig, CHAT,
            "{" USER
            ",'tools':[{'type':'function','function':{'name':'f','strict':true,'parameters':"
            "{'properties':{'a':{'type':'strin'}}}}}]}",
            "tools");
    rig_close(&rig);
}

#define FUNCTION(name, more)                                                                       \
    "{'type':'function','function':{'name':'" name                                                 \
    "','parameters':{'type':'object','properties':{'city':{'enum':['Paris','Rome']}},"             \
    "'required':['city'],'additionalProperties':false}" more "}}"
#define TOOLS   "'tools':[" FUNCTION("f", "") "," FUNCTION("g", "") "]"
#define NAMED   "{'type':'function','function':{'name':'g'}}"
#define ALLOWED "{'type':'allowed_tools','allowed_tools':{'mode':'required','tools':[" NAMED "]}}"

/* Expect calls that match their schema, whole and in pieces. `only`: the function of each call;
 * NULL: any. */
static void calls(struct rig *r, const char *body, const char *only, size_t n_max)
{
    struct json *got = post(r, CHAT, body);
    const struct json *list = at(got, "choices.0.message.tool_calls");
    size_t n = json_count(list);
    if (n == 0 || n > n_max || strcmp(text_at(got, "choices.0.finish_reason"), "tool_calls") != 0)
        test_fail(__FILE__, __LINE__, "%s: %zu calls, %s", body, n, text_at(got, "message"));
    for (size_t i = 0; i < n; i++) {
        const char *name = text_at(json_item(list, i), "function.name");
        const char *arguments = text_at(json_item(list, i), "function.arguments");
        if (only && strcmp(name, only) != 0) test_fail(__FILE__, __LINE__, "%s: %s", body, name);
        struct json *read = NULL; /* the model chooses the spelling */
        NEED(json_parse(&read, arguments, strlen(arguments), NULL, NULL) == 0);
        EXPECT(json_count(read) == 1);
        if (strcmp(text_at(read, "city"), "Paris") != 0) EXPECT_TEXT(text_at(read, "city"), "Rome");
        json_drop(read);
    }
    json_drop(got);
}

TEST(api_forces_calls)
{
    NEED(rig_open(&rig));
    calls(&rig, "{" USER ",'temperature':0,'tool_choice':'required'," TOOLS "}", NULL, 9);
    calls(&rig,
          "{" USER ",'temperature':1,'seed':1,'chat_template_kwargs':{'enable_thinking':false},'"
          "parallel_tool_calls':false,'tool_choice':'required'," TOOLS "}",
          NULL, 1);
    calls(&rig,
          "{" USER ",'temperature':2,'seed':2,'chat_template_kwargs':{'enable_thinking':false},'"
          "tool_choice':" NAMED "," TOOLS "}",
          "g", 1);
    calls(&rig,
          "{" USER ",'temperature':0,'parallel_tool_calls':false,'tool_choice':" ALLOWED "," TOOLS
          "}",
          "g", 1);
    calls(&rig,
          "{" USER ",'temperature':0,'tool_choice':'required','response_format':{'type':"
          "'json_object'}," TOOLS "}",
          NULL, 9);
    accepted(&rig, CHAT, "{" USER ",'tools':[" FUNCTION("f", ",'strict':true") "]}");
    accepted(&rig, CHAT,
             "{" USER ",'max_tokens':9,'response_format':{'type':'json_object'}," TOOLS "}");
    rig_close(&rig);
}

#define OLD                                                                                        \
    "'functions':[{'name':'f','parameters':{'type':'object','properties':{'city':{'enum':["        \
    "'Paris']}},'required':['city'],'additionalProperties':false}}]"

TEST(api_answers_functions_in_their_old_form)
{
    NEED(rig_open(&rig));
    struct json *got =
        post(&rig, CHAT, "{" USER ",'temperature':0,'function_call':{'name':'f'}," OLD "}");
    EXPECT_TEXT(text_at(got, "choices.0.message.function_call.name"), "f");
    EXPECT(*text_at(got, "choices.0.message.function_call.arguments") == '{');
    EXPECT_TEXT(text_at(got, "choices.0.finish_reason"), "function_call");
    EXPECT(!at(got, "choices.0.message.tool_calls"));
    json_drop(got);
    got = post_stream(&rig, CHAT,
                      "{" USER ",'temperature':0,'stream':true,'function_call':{'name':'f'}," OLD
                      "}");
    EXPECT_TEXT(text_at(got, "1.choices.0.delta.function_call.name"), "f");
    json_drop(got);
    accepted(&rig, CHAT,
             "{'messages':[{'role':'user','content':'Hi'},{'role':'assistant','content':null,"
             "'function_call':{'name':'f','arguments':'{}'}},{'role':'function','name':'f',"
             "'content':'sunny'}],'max_tokens':1," OLD "}");
    accepted(&rig, CHAT, "{" USER ",'max_tokens':1,'function_call':'none'," OLD "}");
    refused(&rig, CHAT, "{" USER ",'function_call':5," OLD "}", "function_call");
    refused(&rig, CHAT, "{" USER "," OLD "," TOOLS "}", "functions");
    refused(&rig, CHAT, "{" USER ",'functions':5}", "functions");
    rig_close(&rig);
}

TEST(api_refuses_choices_of_tools_by_place)
{
    NEED(rig_open(&rig));
    refused(&rig, CHAT, "{" USER ",'tool_choice':'required'}", "tool_choice");
    refused(&rig, CHAT, "{" USER ",'tool_choice':'any'," TOOLS "}", "tool_choice");
    refused(&rig, CHAT,
            "{" USER ",'tool_choice':{'type':'function','function':{'name':'h'}}," TOOLS "}",
            "tool_choice");
    refused(&rig, CHAT, "{" USER ",'tool_choice':{'type':'function'}," TOOLS "}", "tool_choice");
    refused(&rig, CHAT, "{" USER ",'tool_choice':{'type':'custom'}," TOOLS "}", "tool_choice");
    refused(&rig, CHAT,
            "{" USER ",'tool_choice':{'type':'allowed_tools','allowed_tools':{'tools':[" NAMED
            "]}}," TOOLS "}",
            "tool_choice");
    refused(&rig, CHAT,
            "{" USER
            ",'tool_choice':{'type':'allowed_tools','allowed_tools':{'mode':'auto'}}," TOOLS "}",
            "tool_choice");
    refused(&rig, CHAT, "{" USER ",'tool_choice':'required','guided_regex':'a'," TOOLS "}",
            "guided_regex");
    refused(&rig, CHAT, "{" USER ",'guided_regex':'a'," TOOLS "}", "guided_regex");
    refused(&rig, CHAT,
            "{" USER
            ",'tool_choice':'required','tools':[" FUNCTION("f", "") "," FUNCTION("f", "") "]}",
            "tools");
    refused(&rig, CHAT,
            "{" USER ",'tool_choice':'required','tools':[{'type':'function','function':{'name':'f',"
            "'parameters':{'type':'array'}}}]}",
            "tools");
    refused(&rig, CHAT,
            "{" USER ",'tool_choice':'required','tools':[{'type':'function','function':{'name':'f',"
            "'parameters':[]}}]}",
            "tools");
    refused(&rig, CHAT, "{" USER ",'tool_choice':'required','ignore_eos':true," TOOLS "}",
            "ignore_eos");
    rig.chat.tool_parser = NULL;
    rig.chat.calls_as_content = true;
    refused(&rig, CHAT, "{" USER ",'tool_choice':'required'," TOOLS "}", "tool_choice");
    rig_close(&rig);
}

/* Goal: tools without a parser of calls are rejected. Exceptions are tool_choice none and the
 * parser "none". */
TEST(api_refuses_tools_without_a_parser)
{
    struct session_options o = session_defaults;
    struct err e = {0};
    NEED(rig_open(&rig));
    EXPECT_TEXT(rig.chat.tool_parser, "hermes");
    rig.chat.tool_parser = NULL;
    refused(&rig, CHAT, "{" USER "," TOOL("") "}", "tools");
    accepted(&rig, CHAT, "{" USER ",'max_tokens':1,'tool_choice':'none'," TOOL("") "}");
    accepted(&rig, CHAT, "{" USER ",'max_tokens':1,'tools':[]}");
    o.tool_call_parser = o.reasoning_parser = "none";
    NEED_OK(chat_parsers(&rig.chat, &o, &e), &e);
    EXPECT(!rig.chat.tool_parser && !rig.chat.reasoning_parser);
    accepted(&rig, CHAT, "{" USER ",'max_tokens':1," TOOL("") "}");
    struct template *own = rig.chat.t;
    static const char silent[] = "{% for m in messages %}{{ m.content }}{% endfor %}";
    NEED_OK(template_open(&rig.chat.t, silent, strlen(silent), &e), &e);
    refused(&rig, CHAT, "{" USER "," TOOL("") "}", "tools");
    accepted(&rig, CHAT,
             "{" USER ",'max_tokens':1,'chat_template_kwargs':{'xml_tools':[]}," TOOL("") "}");
    template_close(rig.chat.t);
    rig.chat.t = own;
    o.tool_call_parser = "no_such_family";
    EXPECT_INT(chat_parsers(&rig.chat, &o, &e), ERR_ARG);
    EXPECT(strstr(e.text, "--tool-call-parser") && strstr(e.text, "hermes"));
    o.tool_call_parser = "hermes";
    o.reasoning_parser = "nosuch";
    EXPECT_INT(chat_parsers(&rig.chat, &o, &e), ERR_ARG);
    EXPECT(strstr(e.text, "--reasoning-parser") && strstr(e.text, "think"));
    rig_close(&rig);
}

/* Goal: a constraint applies to the content. Reasoning that begins in the prompt is free text. */
TEST(api_constraints_are_not_of_reasoning)
{
    static const char opens[] = "{% for m in messages %}{{ m.content }}{% endfor %}{% if "
                                "add_generation_prompt %}A:<think>{% endif %}",
                      closes[] = "{% for m in messages %}{{ m.content }}{% endfor %}{% if "
                                 "add_generation_prompt %}A:<think></think>{% endif %}";
    struct err e = {0};
    NEED(rig_open(&rig));
    struct template *own = rig.chat.t;
    const char *parser = rig.chat.reasoning_parser;
    rig.chat.reasoning_parser = "think";
    NEED_OK(template_open(&rig.chat.t, opens, strlen(opens), &e), &e);
    struct json *got =
        post(&rig, CHAT, "{" USER ",'guided_choice':[' yes'],'max_tokens':60,'temperature':1}");
    if (strcmp(text_at(got, "choices.0.finish_reason"), "stop") == 0)
        EXPECT_TEXT(text_at(got, "choices.0.message.content"), " yes");
    else
        EXPECT_INT(json_count(at(got, "choices")), 1);
    json_drop(got);
    template_close(rig.chat.t);
    NEED_OK(template_open(&rig.chat.t, closes, strlen(closes), &e), &e);
    got = post(&rig, CHAT, "{" USER ",'guided_choice':['<think>no</think>yes']}");
    EXPECT_TEXT(text_at(got, "choices.0.message.content"), "<think>no</think>yes");
    json_drop(got);
    template_close(rig.chat.t);
    rig.chat.t = own;
    got = post(&rig, CHAT,
               /* the parser hermes finds no call in the text */
               "{" USER ",'guided_choice':['{\\'name\\': 1}']}");
    EXPECT_TEXT(text_at(got, "choices.0.finish_reason"), "stop");
    json_drop(got);
    rig.chat.reasoning_parser = parser;
    rig_close(&rig);
}

/* Return the number of words of a text. The bundled model reasons in plain words. */
static int n_word(const char *text)
{
    int n = 0;
    for (const char *c = text ? text : ""; *c; c++) n += *c == ' ';
    return text && *text ? n + 1 : 0;
}

/* Goal: reasoning ends at its budget, also if the prompt begins it or a constraint follows it. */
TEST(api_reasoning_ends_at_its_budget)
{
    static const char think[] = "'seed':1,'max_tokens':90,'thinking_token_budget':",
                      on[] = "'chat_template_kwargs':{'enable_thinking':true}";
    char body[400];
    NEED(rig_open(&rig));
    for (int budget = 0; budget < 4; budget++)
        for (int constrained = 0; constrained < 2; constrained++) {
            snprintf(body, sizeof body, "{" USER ",%s,%s%d%s}", on, think, budget,
                     constrained ? ",'guided_regex':'[0-9]{3}','n':2,'stream':false" : "");
            struct json *got = post(&rig, CHAT, body);
            EXPECT_INT(n_word(json_text(at(got, "choices.0.message.reasoning_content"), NULL)),
                       budget);
            if (constrained) {
                const char *text = text_at(got, "choices.1.message.content");
                EXPECT(strlen(text) == 3 && strspn(text, "0123456789") == 3);
                EXPECT_TEXT(text_at(got, "choices.1.finish_reason"), "stop");
            }
            json_drop(got);
        }
    snprintf(body, sizeof body, "{'prompt':'a <think> b',%s3,'ignore_eos':true}", think);
    struct json *got = post(&rig, TEXT, body);
    EXPECT(strstr(text_at(got, "choices.0.text"), "</think>") != NULL);
    json_drop(got);
    snprintf(body, sizeof body, "{'prompt':'a <think> b',%s3,'guided_regex':'a'}", think);
    refused(&rig, TEXT, body, "thinking_token_budget");
    rig_close(&rig);
}

/* Goal: with enable_in_reasoning, a constraint applies from the first token. */
TEST(api_constraints_may_hold_in_reasoning)
{
    static const char *const all[] = {"'guided_choice':['hmm</think>yes']",
                                      "'guided_regex':'hmm</think>yes'"};
    char body[300];
    NEED(rig_open(&rig));
    rig.api.constrain_reasoning = true;
    for (int i = 0; i < 2; i++) {
        snprintf(body, sizeof body, "{" USER ",'chat_template_kwargs':{'enable_thinking':true},%s}",
                 all[i]);
        struct json *got = post(&rig, CHAT, body);
        EXPECT_TEXT(text_at(got, "choices.0.message.reasoning_content"), "hmm");
        EXPECT_TEXT(text_at(got, "choices.0.message.content"), "yes");
        EXPECT_TEXT(text_at(got, "choices.0.finish_reason"), "stop");
        json_drop(got);
    }
    struct json *got = post(&rig, CHAT,
                            "{" USER ",'chat_template_kwargs':{'enable_thinking':true},'tools':[{"
                            "'type':'function','function':{'name':'f'}}],'tool_choice':'required',"
                            "'parallel_tool_calls':false,'max_tokens':60}");
    EXPECT_TEXT(text_at(got, "choices.0.message.tool_calls.0.function.name"), "f");
    json_drop(got);
    refused(&rig, CHAT,
            "{" USER ",'chat_template_kwargs':{'enable_thinking':true},'guided_regex':'a',"
            "'thinking_token_budget':3}",
            "thinking_token_budget");
    rig_close(&rig);
}

#define CUSTOM(name, format) "{'type':'custom','custom':{'name':'" name "'" format "}}"
#define GRAMMAR(syntax, text)                                                                      \
    ",'format':{'type':'grammar','grammar':{'syntax':'" syntax "','definition':'" text "'}}"
#define CHOOSE(name) "'tool_choice':{'type':'custom','custom':{'name':'" name "'}}"

/* Return the input of the first call, whole or joined from the pieces of a stream. */
static void put_input(const struct json *got, bool stream, struct buf *out)
{
    size_t n = stream ? json_count(got) : 1;
    for (size_t i = 0; i < n; i++) {
        const struct json *call = stream ? at(json_item(got, i), "choices.0.delta.tool_calls.0")
                                         : at(got, "choices.0.message.tool_calls.0");
        const char *text = json_text(at(call, "custom.input"), NULL);
        if (text) buf_add_text(out, text);
        EXPECT(!at(call, "function"));
    }
    buf_add_text(out, "");
}

/* Goal: calls of custom tools have the text of their grammar, whole and streamed. */
TEST(api_custom_tools_have_a_text)
{
    static const char *const tools[] = {
        CUSTOM("g", GRAMMAR("regex", "[ab]{2}\\u005c\\u005c")),
        CUSTOM("g",
               GRAMMAR(
                   "lark",
                   "start: e\\ne: \\u0022(\\u0022 e \\u0022)\\u0022 | \\u0022\\u00e9\\\\n\\u0022")),
    };
    char body[700];
    NEED(rig_open(&rig));
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        for (int stream = 0; stream < 2; stream++) {
            struct buf input = {0};
            snprintf(body, sizeof body,
                     "{" USER ",'seed':1,'max_tokens':80,'tools':[" CUSTOM(
                         "free", "") ",%s]," CHOOSE("g") ",'stream':%s}",
                     tools[i], stream ? "true" : "false");
            struct json *got = stream ? post_stream(&rig, CHAT, body) : post(&rig, CHAT, body);
            put_input(got, stream, &input);
            if (i == 0)
                EXPECT(input.n == 3 && strspn(input.data, "ab") == 2 && input.data[2] == '\\');
            if (i == 1) EXPECT(strstr(input.data, "\xc3\xa9\n") != NULL);
            json_drop(got);
            buf_deinit(&input);
        }
    rig_close(&rig);
}

/* Goal: a custom tool that cannot be used is rejected with its place. */
TEST(api_refuses_wrong_custom_tools)
{
    static const char *const bad[] = {
        "'tools':[{'type':'custom','custom':{}}]",
        "'tools':[{'type':'custom'}]",
        "'tools':[" CUSTOM("g", ",'format':{'type':'json'}") "]",
        "'tools':[" CUSTOM("g", ",'format':{'type':'grammar'}") "]",
        "'tools':[" CUSTOM("g", GRAMMAR("bnf", "a")) "]",
        "'tools':[" CUSTOM("g", GRAMMAR("regex", "(")) "]," CHOOSE("g"),
        "'tools':[" CUSTOM("g", GRAMMAR("lark", "start: nosuch")) "]," CHOOSE("g"),
        "'tools':[" CUSTOM("g", "") "," CUSTOM("g", "") "]",
        "'tools':[" CUSTOM("g", "") ",{'type':'function','function':{'name':'g'}}]",
    };
    char body[500];
    NEED(rig_open(&rig));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(body, sizeof body, "{" USER ",'max_tokens':1,%s}", bad[i]);
        refused(&rig, CHAT, body, "tools");
    }
    refused(&rig, CHAT, "{" USER ",'tools':[" CUSTOM("g", "") "]," CHOOSE("h") "}", "tool_choice");
    rig_close(&rig);
}

TEST(api_prompt_logprobs_are_where_vllm_has_them)
{
    NEED(rig_open(&rig));
    struct json *got = post(&rig, CHAT, "{" USER ",'max_tokens':1,'prompt_logprobs':1}");
    EXPECT_INT(json_count(at(got, "prompt_logprobs")),
               json_int(at(got, "usage.prompt_tokens"), -1));
    EXPECT_INT(json_kind(at(got, "prompt_logprobs.0")), JK_NULL);
    EXPECT(!at(got, "choices.0.prompt_logprobs"));
    json_drop(got);
    got = post(&rig, CHAT, "{" USER ",'max_tokens':1}");
    EXPECT_INT(json_kind(at(got, "prompt_logprobs")), JK_NULL);
    json_drop(got);
    got = post(&rig, TEXT, "{" ONCE ",'max_tokens':1}");
    EXPECT_INT(json_kind(at(got, "choices.0.prompt_logprobs")), JK_NULL);
    json_drop(got);
    rig_close(&rig);
}

/* Goal: each piece contains the usage so far. The usage includes the prompt in every piece, and
 * never decreases. The last piece has the usage of the whole answer. */
TEST(api_usage_is_in_each_piece)
{
    static const struct {
        const char *url, *body;
    } calls[] = {
        {CHAT, "{" USER ",'max_tokens':8,'min_tokens':8,'n':2,'stream':true,"
               "'stream_options':{'include_usage':true,'continuous_usage_stats':true}}"},
        {TEXT, "{" ONCE ",'max_tokens':8,'min_tokens':8,'stream':true,"
               "'stream_options':{'include_usage':true,'continuous_usage_stats':true}}"},
    };
    NEED(rig_open(&rig));
    for (size_t i = 0; i < 2; i++) {
        struct json *got = post_stream(&rig, calls[i].url, calls[i].body);
        int64_t last = 0, n_prompt = json_int(at(got, "0.usage.prompt_tokens"), -1);
        EXPECT(json_count(got) > 1 && n_prompt > 0);
        for (size_t k = 0; k < json_count(got); k++) {
            const struct json *u = at(json_item(got, k), "usage");
            int64_t n = json_int(at(u, "completion_tokens"), -1);
            EXPECT(n >= last && json_int(at(u, "prompt_tokens"), -1) == n_prompt);
            EXPECT_INT(json_int(at(u, "total_tokens"), -1), n_prompt + n);
            last = n;
        }
        EXPECT_INT(last, i == 0 ? 16 : 8);
        if (i == 0) EXPECT_INT(json_int(at(got, "0.usage.completion_tokens"), -1), 0);
        json_drop(got);
    }
    struct json *got = post_stream(&rig, TEXT,
                                   "{" ONCE ",'max_tokens':3,'stream':true,'stream_options'"
                                   ":{'continuous_usage_stats':true}}");
    for (size_t k = 0; k < json_count(got); k++) EXPECT(!at(json_item(got, k), "usage"));
    json_drop(got);
    refused(&rig, TEXT, "{" ONCE ",'stream':true,'stream_options':{'continuous_usage_stats':1}}",
            "continuous_usage_stats");
    rig_close(&rig);
}

/* Goal: the last piece of a completion that ends by its length has a text and the reason. */
TEST(api_completion_ends_with_its_last_token)
{
    NEED(rig_open(&rig));
    for (int i = 0; i < 20; i++) {
        struct json *got = post_stream(&rig, TEXT, "{" ONCE ",'max_tokens':4,'stream':true}");
        size_t n = json_count(got);
        const struct json *last = json_item(got, n - 1);
        EXPECT_TEXT(text_at(last, "choices.0.finish_reason"), "length");
        EXPECT(*text_at(last, "choices.0.text"));
        json_drop(got);
    }
    rig_close(&rig);
}

TEST(api_completion_logprobs_have_the_chosen_token)
{
    NEED(rig_open(&rig));
    struct json *got = post(&rig, TEXT, "{" ONCE ",'max_tokens':3,'logprobs':0,'echo':true}");
    const struct json *tokens = at(got, "choices.0.logprobs.tokens"),
                      *top = at(got, "choices.0.logprobs.top_logprobs");
    EXPECT(json_count(tokens) > 3 && json_kind(json_item(top, 0)) == JK_NULL);
    for (size_t i = 1; i < json_count(tokens); i++) {
        EXPECT_INT(json_count(json_item(top, i)), 1);
        EXPECT(json_field(json_item(top, i), json_text(json_item(tokens, i), NULL)));
    }
    json_drop(got);
    /* at a high temperature, the chosen token is rarely among the two most likely tokens */
    got = post(&rig, TEXT,
               "{'prompt':'Once','temperature':50,'seed':1,'max_tokens':20,'logprobs':2}");
    top = at(got, "choices.0.logprobs.top_logprobs");
    tokens = at(got, "choices.0.logprobs.tokens");
    int n_three = 0;
    for (size_t i = 0; i < json_count(top); i++) {
        n_three += json_count(json_item(top, i)) == 3;
        EXPECT(json_field(json_item(top, i), json_text(json_item(tokens, i), NULL)));
    }
    EXPECT(n_three > 10);
    json_drop(got);
    rig_close(&rig);
}

TEST(api_context_length_error_has_openai_words_and_figures)
{
    static const char *const body[] = {"'messages':[{'role':'user','content':'", "'prompt':'",
                                       "'input':'"},
                             *const end[] = {"'}]", "'", "'"}, *const url[] = {CHAT, TEXT, EMBED},
                             *const param[] = {"messages", "prompt", "input"};
    NEED(rig_open(&rig));
    for (int i = 0; i < 3; i++) {
        struct buf b = {0};
        buf_addf(&b, "{%s", body[i]);
        for (int k = 0; k < 400; k++) buf_add_text(&b, "word ");
        buf_addf(&b, "%s}", end[i]);
        struct json *got = post(&rig, url[i], b.data);
        EXPECT_TEXT(text_at(got, "code"), "context_length_exceeded");
        EXPECT_TEXT(text_at(got, "param"), param[i]);
        EXPECT(strstr(text_at(got, "message"),
                      "This model's maximum context length is 256 tokens. However, "));
        EXPECT_INT(json_int(at(got, "n_ctx"), -1), 256);
        EXPECT(json_int(at(got, "n_prompt_tokens"), -1) > 256);
        /* the model was trained for 1024 */
        EXPECT(strstr(text_at(got, "message"), "--max-model-len"));
        json_drop(got);
        buf_deinit(&b);
    }
    rig_close(&rig);
}

TEST(api_paths_without_v1)
{
    NEED(rig_open(&rig));
    accepted(&rig, "/chat/completions", "{" USER ",'max_tokens':1}");
    accepted(&rig, "/completions", "{" ONCE ",'max_tokens':1}");
    accepted(&rig, "/embeddings", "{'input':'Once'}");
    struct json *body = parse("{}");
    struct api_call *c;
    struct err e = {0};
    EXPECT_INT(api_call_open(&c, &rig.api, "/v1", body, NULL, &e), ERR_MISSING);
    EXPECT_INT(api_call_open(&c, &rig.api, "", body, NULL, &e), ERR_MISSING);
    json_drop(body);
    rig_close(&rig);
}

/* Goal: a bias of -100 in every form forbids the token that would be the most likely one without
 * the bias. */
TEST(api_logit_bias_forms)
{
    char body[6][256], first[64];
    NEED(rig_open(&rig));
    struct json *got = post(&rig, TEXT, "{" ONCE ",'max_tokens':1,'return_token_ids':true}");
    long long id = json_int(at(got, "choices.0.token_ids.0"), -1);
    snprintf(first, sizeof first, "%s", text_at(got, "choices.0.text"));
    json_drop(got);
    NEED(id >= 0 && *first && !strpbrk(first, "\"'\\"));
    snprintf(body[0], 256, "{" ONCE ",'max_tokens':1,'logit_bias':{'%lld':-100}}", id);
    snprintf(body[1], 256, "{" ONCE ",'max_tokens':1,'logit_bias':{'%lld':false}}", id);
    snprintf(body[2], 256, "{" ONCE ",'max_tokens':1,'logit_bias':[[%lld,-100]]}", id);
    snprintf(body[3], 256, "{" ONCE ",'max_tokens':1,'logit_bias':[[%lld,false],[5,1.5]]}", id);
    snprintf(body[4], 256, "{" ONCE ",'max_tokens':1,'logit_bias':{'%s':false}}", first);
    snprintf(body[5], 256, "{" ONCE ",'max_tokens':1,'logit_bias':[['%s',-100]]}", first);
    for (int i = 0; i < 6; i++) {
        got = post(&rig, TEXT, body[i]);
        if (strcmp(text_at(got, "choices.0.text"), first) == 0 || !at(got, "choices"))
            test_fail(__FILE__, __LINE__, "%s: %s", body[i], text_at(got, "message"));
        json_drop(got);
    }
    static const char *const wrong[] = {"{'07':1}",
                                        "{'-5':1}",
                                        "{'+5':1}",
                                        "{'':1}",
                                        "{'5':true}",
                                        "{'5':'a'}",
                                        "[5]",
                                        "[[5]]",
                                        "[[5,1,2]]",
                                        "[['',1]]",
                                        "[[-1,1]]",
                                        "[[5,true]]",
                                        "[[1.5,1]]",
                                        "[[999999,1]]",
                                        "[[5,101]]",
                                        "'a'",
                                        "{'99999999999999999999':1}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(body[0], 256, "{" ONCE ",'max_tokens':1,'logit_bias':%s}", wrong[i]);
        refused(&rig, TEXT, body[0], "logit_bias");
    }
    struct buf many = {0};
    buf_add_text(&many, "{" ONCE ",'max_tokens':1,'logit_bias':[[5,1]");
    for (int i = 0; i < 5000; i++) buf_add_text(&many, ",[5,1]");
    buf_add_text(&many, "]}");
    refused(&rig, TEXT, many.data, "logit_bias");
    buf_deinit(&many);
    rig_close(&rig);
}

/* Goal: lists that allow no token are rejected with the field of the last list. */
TEST(api_lists_that_forbid_every_token)
{
    struct buf all = {0};
    NEED(rig_open(&rig));
    buf_add_text(&all, "{" ONCE ",'max_tokens':1,'logit_bias':[[0,-100]");
    for (int i = 1; i < 4096; i++) buf_addf(&all, ",[%d,%s]", i, i % 2 ? "false" : "-100");
    buf_add_text(&all, "]}");
#define BODY(more) "{" ONCE ",'max_tokens':1," more "}"
    refused(&rig, TEXT, all.data, "logit_bias");
    refused(&rig, TEXT, BODY("'allowed_token_ids':[300,301],'logit_bias':{'300':-100,'301':-100}"),
            "logit_bias");
    refused(&rig, CHAT, "{" USER ",'allowed_token_ids':[]}", "allowed_token_ids");
    refused(&rig, TEXT, BODY("'allowed_token_ids':[300],'stop_token_ids':[300],'min_tokens':1"),
            "min_tokens");
    accepted(&rig, TEXT, BODY("'allowed_token_ids':[300],'stop_token_ids':[300]"));
    accepted(&rig, TEXT, BODY("'allowed_token_ids':[300,301],'logit_bias':{'300':-100,'301':-99}"));
    buf_deinit(&all);
    rig_close(&rig);
}

TEST(api_causes_of_a_failed_answer)
{
    /* Goal: the status distinguishes failures of the client and of the server. */
    static const struct {
        enum cause cause;
        int status;
    } c[] = {{CAUSE_LIMIT, 400}, {CAUSE_FIELDS, 400}, {CAUSE_MEMORY, 503}, {CAUSE_MODEL, 500}};
    struct part p = {.constraint_field = "regex"};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct choice a = {.reply = {.finish = FINISH_ERROR, .cause = c[i].cause}};
        struct err e = {0};
        EXPECT_INT(api_status(check_choice(&p, &a, &e)), c[i].status);
    }
}

TEST(api_continuing_a_message)
{
    NEED(rig_open(&rig));
    static const char begun[] = "'messages':[{'role':'user','content':'Hi'},"
                                "{'role':'assistant','content':'Once upon'}],'max_tokens':2";
    char body[512];
    snprintf(body, sizeof body, "{%s,'continue_final_message':true}", begun);
    accepted(&rig, CHAT, body);
    snprintf(body, sizeof body, "{%s,'continue_final_message':true,'add_generation_prompt':false}",
             begun);
    accepted(&rig, CHAT, body);
    snprintf(body, sizeof body, "{%s,'continue_final_message':true,'add_generation_prompt':true}",
             begun);
    refused(&rig, CHAT, body, "continue_final_message");
    refused(&rig, CHAT, "{" USER ",'continue_final_message':true,'add_generation_prompt':true}",
            "continue_final_message");
    refused(&rig, CHAT, "{" USER ",'continue_final_message':true}", "continue_final_message");
    rig_close(&rig);
}

TEST(api_messages_without_content)
{
    NEED(rig_open(&rig));
#define ONE(m) "{'messages':[" m "],'max_tokens':1}"
    refused_at(&rig, CHAT, ONE("{'role':'user'}"), "messages", "messages[0].content");
    refused_at(
        &rig, CHAT,
        ONE("{'role':'user','content':'a'},{'role':'assistant'},{'role':'user','content':'b'}"),
        "messages", "messages[1].content");
    refused_at(&rig, CHAT, ONE("{'role':'system'},{'role':'user','content':'b'}"), "messages",
               "[0].content");
    refused_at(&rig, CHAT, ONE("{}"), "messages", "messages[0]");
    refused_at(&rig, CHAT, ONE("{'role':5}"), "messages", "messages[0]");
    static const char *const wrong[] = {"5", "1.5", "true", "{}", "{'type':'text','text':'a'}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{'messages':[{'role':'user','content':'a'},{'role':'%s','content':%s}],'max_"
                 "tokens':1}",
                 i % 2 ? "tool" : "own", wrong[i]);
        refused_at(&rig, CHAT, body, "messages", "messages[1].content");
    }
    static const char *const nul[] = {
        "{'role':'user\\u0000x','content':'a'}",
        "{'role':'user\\u0000','content':'a'}",
        "{'role':'user','name':'a\\u0000','content':'a'}",
        "{'role':'user','content':[{'type':'text\\u0000','text':'a'}]}",
        "{'role':'tool','tool_call_id':'a\\u0000b','content':'a'}",
        "{'role':'assistant','tool_calls':[{'id':'a\\u0000','type':'function',"
        "'function':{'name':'f','arguments':'{}'}}]}",
        "{'role':'assistant','tool_calls':[{'id':'a','type':'function\\u0000',"
        "'function':{'name':'f','arguments':'{}'}}]}"};
    for (size_t i = 0; i < sizeof nul / sizeof *nul; i++) {
        char body[400];
        snprintf(body, sizeof body,
                 "{'messages':[{'role':'user','content':'a'},%s],'max_tokens':1}", nul[i]);
        refused_at(&rig, CHAT, body, "messages", "NUL");
    }
    accepted(&rig, CHAT, ONE("{'role':'user','content':'a\\u0000b'}"));
    accepted(&rig, CHAT, ONE("{'role':'user','content':[{'type':'text','text':'a'}]}"));
    accepted(&rig, CHAT, ONE("{'role':'user','content':null}"));
    accepted(&rig, CHAT,
             ONE("{'role':'user','content':'a'},{'role':'assistant','tool_calls':[{'id':'a','type':"
                 "'function',"
                 "'function':{'name':'f','arguments':'{}'}}]},{'role':'tool','tool_call_id':'a','"
                 "content':'b'}"));
#undef ONE
    rig_close(&rig);
}

TEST(api_numbers_at_their_edges)
{
    NEED(rig_open(&rig));
    accepted(&rig, TEXT, "{" ONCE ",'max_tokens':1,'seed':-9223372036854775808}");
    accepted(&rig, TEXT, "{" ONCE ",'max_tokens':1,'seed':9223372036854775807}");
    refused(&rig, TEXT, "{" ONCE ",'max_tokens':1,'seed':-9223372036854775809}", "seed");
    refused(&rig, TEXT, "{" ONCE ",'max_tokens':1,'seed':9223372036854775808}", "seed");
    refused(&rig, TEXT, "{" ONCE ",'max_tokens':4,'min_tokens':5}", "min_tokens");
    refused(&rig, TEXT, "{" ONCE ",'min_tokens':17}", "min_tokens");
    refused(&rig, CHAT, "{" USER ",'max_completion_tokens':4,'min_tokens':5}", "min_tokens");
    accepted(&rig, TEXT, "{" ONCE ",'max_tokens':4,'min_tokens':4}");
    /* both numbers are truncated to the context */
    accepted(&rig, TEXT, "{" ONCE ",'max_tokens':1000,'min_tokens':1000}");
    accepted(&rig, CHAT, "{" USER ",'max_tokens':4,'min_tokens':4}");
    rig_close(&rig);
}

TEST(api_fields_that_cannot_be_kept_are_refused)
{
    static const char *const field[] = {"'logits_processors':['a']",
                                        "'routed_experts_prompt_start':1"};
    char body[256], param[64];
    NEED(rig_open(&rig));
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        snprintf(param, sizeof param, "%.*s", (int)strcspn(field[i] + 1, "'"), field[i] + 1);
        snprintf(body, sizeof body, "{" USER ",%s}", field[i]);
        refused(&rig, CHAT, body, param);
        snprintf(body, sizeof body, "{" ONCE ",%s}", field[i]);
        refused(&rig, TEXT, body, param);
    }
    rig_close(&rig);
}

/* Goal: llama.cpp's names of length, choices and repetition penalty have an effect. No field that
 * limits reasoning is ignored. */
TEST(api_fields_under_the_names_of_llama_cpp)
{
    static const struct {
        const char *url, *body;
        int n_token;
    } length[] = {{TEXT, "{" ONCE ",'ignore_eos':true,'n_predict':3}", 3},
                  {TEXT, "{" ONCE ",'ignore_eos':true,'max_tokens':9,'n_predict':20}", 20},
                  {CHAT, "{" USER ",'ignore_eos':true,'n_predict':3}", 3},
                  {TEXT, "{" ONCE ",'ignore_eos':true,'n_predict':2,'n_cmpl':3}", 6},
                  {TEXT, "{" ONCE ",'ignore_eos':true,'n_predict':2,'n_cmpl':3,'n':2}", 4}};
    static const char *const penalty[] = {"'repeat_penalty':1.9", "'repetition_penalty':1.9",
                                          "'repetition_penalty':1.9,'repeat_penalty':1",
                                          "'repeat_penalty':1"};
    static const char *const limit[] = {"reasoning_budget_tokens", "thinking_budget_tokens",
                                        "thinking_token_budget"};
    struct json *got[4];
    char body[256];
    NEED(rig_open(&rig));
    for (size_t i = 0; i < sizeof length / sizeof *length; i++) {
        struct json *j = post(&rig, length[i].url, length[i].body);
        EXPECT_INT(json_int(at(j, "usage.completion_tokens"), -1), length[i].n_token);
        json_drop(j);
    }
    for (int i = 0; i < 4; i++) {
        snprintf(body, sizeof body, "{" ONCE ",'n_predict':24,%s}", penalty[i]);
        got[i] = post(&rig, TEXT, body);
    }
    for (int i = 0; i < 4; i++)
        EXPECT((strcmp(text_at(got[0], "choices.0.text"), text_at(got[i], "choices.0.text")) ==
                0) == (i < 3));
    for (int i = 0; i < 4; i++) json_drop(got[i]);
    accepted(&rig, TEXT, "{" ONCE ",'n_predict':-1,'stop':'a'}");
    refused(&rig, TEXT, "{" ONCE ",'n_predict':-2}", "n_predict");
    refused(&rig, CHAT, "{" USER ",'n_predict':'x'}", "n_predict");
    refused(&rig, TEXT, "{" ONCE ",'n_cmpl':0}", "n_cmpl");
    refused(&rig, TEXT, "{" ONCE ",'repeat_penalty':'x'}", "repeat_penalty");
    const char *parser = rig.chat.reasoning_parser;
    for (int i = 0; i < 3; i++) {
        snprintf(body, sizeof body, "{" USER ",'max_tokens':1,'%s':0}", limit[i]);
        accepted(&rig, CHAT, body);
        rig.chat.reasoning_parser = NULL;
        refused(&rig, CHAT, body, limit[i]);
        snprintf(body, sizeof body, "{" USER ",'max_tokens':1,'%s':-1}", limit[i]);
        accepted(&rig, CHAT, body);
        rig.chat.reasoning_parser = parser;
        snprintf(body, sizeof body, "{" USER ",'max_tokens':1,'%s':'x'}", limit[i]);
        refused(&rig, CHAT, body, limit[i]);
    }
    accepted(&rig, TEXT, "{" ONCE ",'n_predict':1,'adaptive_target':-1}");
    refused(&rig, TEXT, "{" ONCE ",'n_predict':1,'n_probs':-5}", "n_probs");
    rig_close(&rig);
}

/* Goal: on llama.cpp's paths, a prompt of ids and texts is the prompt of their tokens. Other paths
 * reject such a prompt, with the index of the first item of the other kind. */
TEST(api_prompts_of_ids_and_texts)
{
    static const struct {
        const char *url, *body, *field, *place;
    } mixed[] = {
        {EMBED, "{'input':['a',3]}", "input", "input[1]: expected a string or a list"},
        {EMBED, "{'input':['a','b',null]}", "input", "input[2]: expected a string or a list"},
        {EMBED, "{'input':[3,'a']}", "input", "input[1]: expected a token id, got a string"},
        {EMBED, "{'input':[[12],[34,'a',56]]}", "input", "input[1][1]: expected a token id"},
        {EMBED, "{'input':[['a',3]]}", "input", "input[1]: expected a string or a list"},
        {TEXT, "{'prompt':['a',3],'max_tokens':1}", "prompt", "prompt[1]: expected a string or a"},
        {TEXT, "{'prompt':[12,34,'string',56],'max_tokens':1}", "prompt", "prompt[2]: expected a"},
        {"/embed", "{'inputs':['a',3]}", "inputs", "inputs[1]: expected a string or a list"},
    };
    NEED(rig_open(&rig));
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++)
        refused_at(&rig, mixed[i].url, mixed[i].body, mixed[i].field, mixed[i].place);
    struct json *got = post(&rig, "/completion", "{'prompt':[12,34,'string',56],'n_predict':1}");
    struct json *ids = post(&rig, TEXT, "{'prompt':'string','max_tokens':1}");
    EXPECT_INT(json_int(at(got, "tokens_evaluated"), -1),
               3 + json_int(at(ids, "usage.prompt_tokens"), -1));
    EXPECT(strstr(text_at(got, "prompt"), "string"));
    json_drop(ids);
    json_drop(got);
    static const struct {
        const char *input;
        size_t n;
    } lists[] = {{"'a'", 1},           {"[12,34]", 1},        {"[[12,34]]", 1}, {"['a','b']", 2},
                 {"['a',[12,34]]", 2}, {"[[12],[34,56]]", 2}, {"['a']", 1}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char body[256];
        snprintf(body, sizeof body, "{'input':%s}", lists[i].input);
        got = post(&rig, EMBED, body);
        if (json_count(at(got, "data")) != lists[i].n)
            test_fail(__FILE__, __LINE__, "%s: %zu, %s", body, json_count(at(got, "data")),
                      text_at(got, "message"));
        json_drop(got);
    }
    refused(&rig, EMBED, "{'input':[]}", "input");
    refused(&rig, EMBED, "{'input':''}", "input");
    refused_at(&rig, EMBED, "{'input':[12,true]}", "input", "input[1]");
    refused_at(&rig, EMBED, "{'input':[[12,[3]]]}", "input", "input[1]");
    refused(&rig, EMBED, "{'input':[999999]}", "input");
    refused_at(&rig, EMBED, "{'input':[1.5]}", "input", "input[0]");
    rig_close(&rig);
}

/* Goal: an error about one of several prompts has its index. */
TEST(api_errors_of_lists_have_the_index)
{
    static const struct {
        const char *url, *field, *begin, *end;
    } of[] = {{EMBED, "input", "{'input':['a','b',", "]}"},
              {"/api/embed", "input", "{'model':'tiny','truncate':false,'input':['a','b',", "]}"},
              {"/embed", "inputs", "{'inputs':['a','b',", "]}"},
              {TEXT, "prompt", "{'max_tokens':1,'prompt':['a','b',", "]}"},
              {"/completion", "prompt", "{'n_predict':1,'prompt':['a','b',", "]}"}};
    enum { OLLAMA = 1 };
    char body[80000], place[80];
    NEED(rig_open(&rig));
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        snprintf(body, sizeof body, "%s%s%s", of[i].begin, "''", of[i].end);
        snprintf(place, sizeof place, "%s[2]: must have at least 1 token, got 0", of[i].field);
        refused_at(&rig, of[i].url, body, of[i].field, place);
        snprintf(body, sizeof body, "%s[999999]%s", of[i].begin, of[i].end);
        snprintf(place, sizeof place, "%s[2][0]: out of vocabulary", of[i].field);
        if (i != OLLAMA) refused_at(&rig, of[i].url, body, of[i].field, place); /* it has no ids */
        /* a text that is tokenized, and one that is not */
        for (int n_byte = 2000; n_byte <= 70000; n_byte += 68000) {
            int n = snprintf(body, sizeof body, "%s'", of[i].begin);
            for (int k = 0; k < n_byte / 4; k++)
                n += snprintf(body + n, sizeof body - (size_t)n, "x y ");
            snprintf(body + n, sizeof body - (size_t)n, "'%s", of[i].end);
            snprintf(place, sizeof place, "%s[2]: This model's maximum context", of[i].field);
            refused_at(&rig, of[i].url, body, of[i].field, place);
        }
    }
    refused_at(&rig, EMBED, "{'input':''}", "input", "input: must have at least 1 token");
    rig_close(&rig);
}

/* Goal: each schema of response_format is enforced, and unknown members are rejected by name. */
TEST(api_response_format_has_no_silent_member)
{
#define FORMAT(members) "{" USER ",'max_tokens':9,'response_format':{" members "}}"
    static const char *const enforced[] = {
        FORMAT("'type':'json_object','value':{'const':7}"),
        FORMAT("'type':'json_object','schema':{'const':7},'value':null,'json_schema':null"),
        FORMAT("'type':'json_schema','json_schema':{'name':'n','schema':{'const':7},'x':null}")};
    static const struct {
        const char *body, *place;
    } unknown[] = {
        {FORMAT("'type':'json_object','json_schema':{'schema':true}"), ".json_schema: unknown"},
        {FORMAT("'type':'json_object','value':{},'schema':{}"), ".value: must not come with"},
        {FORMAT("'type':'json_object','value':3"), ".value: expected a JSON Schema"},
        {FORMAT("'type':'text','schema':{}"), ".schema: unknown member; available: type"},
        {FORMAT("'type':'json_schema','json_schema':{'schema':{}},'schema':{}"), ".schema: unkn"},
        {FORMAT("'type':'json_schema','json_schema':{'schema':{},'shema':1}"),
         ".json_schema.shema: unknown member; available: name, description, schema, strict"},
    };
    NEED(rig_open(&rig));
    for (size_t i = 0; i < sizeof enforced / sizeof *enforced; i++) {
        struct json *got = post(&rig, CHAT, enforced[i]);
        EXPECT_TEXT(text_at(got, "choices.0.message.content"), "7");
        json_drop(got);
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        refused_at(&rig, CHAT, unknown[i].body, "response_format", unknown[i].place);
#undef FORMAT
    refused_at(&rig, CHAT, "{" USER ",'web_search_options':{}}", "web_search_options",
               "quoth has no web search");
    rig_close(&rig);
}

/* Goal: the answer continues after the model's end token with ignore_eos, and the token has no
 * text. */
TEST(api_ignore_eos_continues_after_the_end)
{
    NEED(rig_open(&rig));
    int32_t eos = tokenizer_eos(rig.session.tokenizer);
    char body[256];
    for (int chat = 0; chat < 2; chat++) {
        snprintf(body, sizeof body,
                 "{%s,'max_tokens':6,'temperature':0,'ignore_eos':true,'return_token_ids':true,"
                 "'allowed_token_ids':[%d]}",
                 chat ? USER : "'prompt':'Once'", eos);
        struct json *got = post(&rig, chat ? CHAT : TEXT, body);
        const struct json *ids = at(got, "choices.0.token_ids");
        EXPECT_INT(json_count(ids), 6);
        EXPECT_INT(json_int(json_item(ids, 5), -1), eos);
        EXPECT_TEXT(text_at(got, "choices.0.finish_reason"), "length");
        EXPECT_TEXT(text_at(got, chat ? "choices.0.message.content" : "choices.0.text"), "");
        json_drop(got);
    }
    snprintf(body, sizeof body, "{'prompt':'Once','max_tokens':6,'allowed_token_ids':[%d]}", eos);
    struct json *got = post(&rig, TEXT, body);
    EXPECT_TEXT(text_at(got, "choices.0.finish_reason"), "stop");
    json_drop(got);
    rig_close(&rig);
}

/* Goal: texts of a list have a limit, because tokenizing them blocks a handler's thread. */
TEST(api_bounds_the_bytes_of_lists_of_texts)
{
    static char body[1 << 18], word[256];
    if (!rig_open(&rig)) return;
    memset(word, 'a', sizeof word - 1);
    static const struct {
        const char *field;
        int n;
        bool fits;
    } list[] = {
        {"bad_words", 257, true}, {"bad_words", 258, false}, {"dry_sequence_breakers", 64, true}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        int n = snprintf(body, sizeof body, "{" ONCE ",'max_tokens':1,'%s':[", list[i].field);
        for (int k = 0; k < list[i].n; k++)
            n += snprintf(body + n, sizeof body - (size_t)n, "%s'%s'", k ? "," : "", word);
        snprintf(body + n, sizeof body - (size_t)n, "]}");
        if (list[i].fits)
            accepted(&rig, TEXT, body);
        else
            refused(&rig, TEXT, body, list[i].field);
    }
    rig_close(&rig);
}

/* Goal: an empty constraint is a constraint or an error. A past bug dropped empty constraints, so
 * texts were not constrained. */
TEST(api_empty_constraints_are_refused)
{
    static const char *const list[][2] = {
        {"guided_choice", "[]"},     {"guided_grammar", "''"}, {"guided_json", "''"},
        {"guided_json", "false"},    {"json_schema", "''"},    {"ebnf", "''"},
        {"structural_tag", "{}"},    {"structural_tag", "''"}, {"structured_outputs", "{}"},
        {"structured_outputs", "0"}, {"guided_regex", "0"},    {"grammar", "false"}};
    char body[256];
    NEED(rig_open(&rig));
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        snprintf(body, sizeof body, "{" ONCE ",'max_tokens':2,'%s':%s}", list[i][0], list[i][1]);
        refused(&rig, TEXT, body, list[i][0]);
        snprintf(body, sizeof body, "{" ONCE ",'max_tokens':2,'%s':null}", list[i][0]);
        accepted(&rig, TEXT, body);
    }
    accepted(&rig, TEXT, "{" ONCE ",'max_tokens':2,'grammar':''}");
    struct json *got = post(&rig, TEXT, "{" ONCE ",'max_tokens':2,'guided_regex':''}");
    EXPECT_TEXT(text_at(got, "choices.0.text"), "");
    EXPECT_TEXT(text_at(got, "choices.0.finish_reason"), "stop");
    json_drop(got);
    rig_close(&rig);
}

/* Goal: a timeout ends the compilation of a constraint. The answer has the usual form of an answer
 * after a timeout, also in pieces and in a chat. Method: compile a schema of a million states,
 * which fails after more than a second without a timeout. */
TEST(api_timeout_ends_compilation)
{
    static const char *const list[][2] = {{TEXT, "'prompt':'x'"}, {CHAT, USER}};
    char body[512];
    NEED(rig_open(&rig));
    for (int i = 0; i < 2; i++) {
        snprintf(body, sizeof body,
                 "{%s,'max_tokens':2,'n':2,'min_tokens':1,'timeout':0.02,'structured_outputs':"
                 "{'json':{'type':'integer','multipleOf':999983}}}",
                 list[i][1]);
        int64_t began_us = time_us();
        struct json *got = post(&rig, list[i][0], body);
        EXPECT(time_us() - began_us < 500000);
        EXPECT_TEXT(text_at(got, "choices.0.finish_reason"), "length");
        EXPECT_TEXT(text_at(got, "choices.1.finish_reason"), "length");
        EXPECT_TEXT(text_at(got, i ? "choices.1.message.content" : "choices.1.text"), "");
        EXPECT_INT(json_int(json_field(json_field(got, "usage"), "completion_tokens"), -1), 0);
        json_drop(got);
    }
    rig_close(&rig);
}

/* Goal: a malformed call of a message is rejected with its place, and the forms of real clients are
 * accepted. */
TEST(api_calls_of_messages_are_checked)
{
    static const char *const bad[][2] = {
        {"[{'id':1}]", "messages[1].tool_calls[0].function.name: expected a string, got nothing"},
        {"[{'function':{'name':'f'},'id':1}]", "[0].id: expected a string, got an integer"},
        {"[{'function':{'name':'f','arguments':3}}]", "[0].function.arguments: expected"},
        {"[{'name':'f'},7]", "[1].function.name: expected"},
        {"[{'type':'custom','custom':{'input':'x'}}]", "[0].custom.name: expected"},
        {"[{'type':'custom','custom':{'name':'f','input':{}}}]", "[0].custom.input: expected"},
        {"{'id':'x'}", "messages[1].tool_calls: expected a list of calls, got an object"}};
    static const char *const good[] = {
        "null", "[]", "[{'id':'c','type':'function','function':{'name':'f','arguments':'{}'}}]",
        "[{'id':null,'index':0,'function':{'name':'f','arguments':{'a':1}}}]",
        "[{'type':'custom','id':'c','custom':{'name':'f','input':'x'}}]"};
    char body[512];
    NEED(rig_open(&rig));
    for (size_t i = 0; i < sizeof bad / sizeof *bad + sizeof good / sizeof *good; i++) {
        bool wrong = i < sizeof bad / sizeof *bad;
        snprintf(body, sizeof body,
                 "{'messages':[{'role':'user','content':'Hi'},{'role':'assistant','content':'x',"
                 "'tool_calls':%s}],'max_tokens':1}",
                 wrong ? bad[i][0] : good[i - sizeof bad / sizeof *bad]);
        if (wrong)
            refused_at(&rig, CHAT, body, "messages", bad[i][1]);
        else
            accepted(&rig, CHAT, body);
    }
    rig_close(&rig);
}

/* Goal: a field of chats is not dropped silently by completions. */
TEST(api_completions_refuse_fields_of_chats)
{
    NEED(rig_open(&rig));
    refused(&rig, TEXT, "{" ONCE ",'max_tokens':1,'tool_choice':'required'}", "tool_choice");
    refused(&rig, TEXT, "{" ONCE ",'max_tokens':1," TOOL("") "}", "tools");
    refused(&rig, TEXT, "{" ONCE ",'max_tokens':1," USER "}", "messages");
    accepted(&rig, TEXT,
             "{" ONCE ",'max_tokens':1,'tool_choice':'auto','tools':[],'messages':null}");
    rig_close(&rig);
}

/* Goal: errors of beam search and of names with NUL give the client's field and the fault. */
TEST(api_errors_give_the_field_of_the_client)
{
    NEED(rig_open(&rig));
    refused(&rig, TEXT, "{" ONCE ",'max_tokens':1,'use_beam_search':true,'n':100}", "n");
    refused(&rig, TEXT, "{" ONCE ",'max_tokens':1,'use_beam_search':true,'best_of':100}",
            "best_of");
    refused_at(&rig, CHAT,
               "{" USER ",'tools':[{'type':'function','function':{'name':'f\\u0000g'}}]}", "tools",
               "[0].function.name: must not contain NUL, got one at offset 1");
    rig_close(&rig);
}

/* Goal: a repeated member of a schema in a string is an error, under the field's name. */
TEST(api_repeated_members_of_a_schema_are_refused)
{
    NEED(rig_open(&rig));
    refused_at(&rig, TEXT, "{" ONCE ",'guided_json':'{\\'type\\':1,\\'type\\':2}'}", "guided_json",
               "type: must not be repeated");
    rig_close(&rig);
}

/* Check that a body with a text of n bytes, at the place in `format`, is rejected. */
static void refused_long(struct rig *r, const char *url, const char *format, size_t n,
                         const char *param)
{
    struct buf body = {0};
    const char *mark = strchr(format, '@');
    buf_add(&body, format, (size_t)(mark - format));
    for (size_t i = 0; i < n; i++) buf_add_char(&body, 'a');
    buf_add_text(&body, mark + 1);
    refused(r, url, body.data, param);
    buf_deinit(&body);
}

/* Goal: a long text in any field is rejected by its length, before it is tokenized. */
TEST(api_long_texts_are_refused_everywhere)
{
    NEED(rig_open(&rig));
    refused_long(&rig, TEXT, "{'prompt':'@'}", 1 << 18, "prompt");
    refused_long(&rig, TEXT, "{'prompt':['@',5]}", 1 << 18, "prompt");
    refused_long(&rig, TEXT, "{'prompt':[['@']]}", 1 << 18, "prompt");
    refused_long(&rig, TEXT, "{'prompt':['a',['@',5]]}", 1 << 18, "prompt");
    refused_long(&rig, EMBED, "{'input':[['@']]}", 1 << 18, "input");
    refused_long(&rig, TEXT, "{" ONCE ",'logit_bias':{'@':1}}", 1 << 17, "logit_bias");
    refused_long(&rig, TEXT, "{" ONCE ",'logit_bias':[['@',1]]}", 1 << 17, "logit_bias");
    refused_long(&rig, TEXT, "{" ONCE ",'model':'@'}", 1 << 17, "model");
    rig_close(&rig);
}

/* Goal: each choice repeats an echoed prompt. Choices repeat only the kept part of a truncated
 * prompt. */
TEST(api_echo_of_a_cut_prompt_is_what_is_left)
{
    static const struct {
        const char *options, *begin;
    } list[] = {{"'truncate_prompt_tokens':4", " the end"},
                {"'truncate_prompt_tokens':1,'truncation_side':'right'", "Once"},
                {"'truncate_prompt_tokens':200", "Once upon a time"}};
    char body[256];
    NEED(rig_open(&rig));
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        snprintf(body, sizeof body,
                 "{'prompt':'Once upon a time, one two three, to the "
                 "end','echo':true,'max_tokens':0,'n':2,%s}",
                 list[i].options);
        struct json *got = post(&rig, TEXT, body);
        const char *text = text_at(got, "choices.1.text");
        bool whole = i == 2, found = i == 0
                                         ? strstr(text, list[i].begin) != NULL
                                         : strncmp(text, list[i].begin, strlen(list[i].begin)) == 0;
        if (!found || whole != (strlen(text) == 43))
            test_fail(__FILE__, __LINE__, "%s: \"%s\"", body, text);
        json_drop(got);
    }
    rig_close(&rig);
}

/* Goal: fields that no token satisfies together are an error of the request. The error names
 * exactly the fields that forbid a token. */
TEST(api_fields_that_contradict_each_other)
{
    static const struct {
        const char *fields, *param, *place;
    } list[] = {
        {"'regex':'abc','allowed_token_ids':[5]", "regex", "allowed_token_ids"},
        {"'regex':'abc','allowed_token_ids':[5],'stream':true", "regex", "allowed_token_ids"},
        {"'regex':'abc','allowed_token_ids':[5],'n':2", "regex", "allowed_token_ids"},
        {"'regex':'a','bad_words':['a'],'allowed_token_ids':[5]", "regex",
         "contradicts bad_words, allowed_token_ids:"},
        {"'guided_choice':['lived'],'bad_words':['zebra'],'logit_bias':{'5':-100},"
         "'allowed_token_ids':[40,50,60]",
         "guided_choice", "contradicts allowed_token_ids:"}};
    char body[256];
    NEED(rig_open(&rig));
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        snprintf(body, sizeof body, "{" ONCE ",%s}", list[i].fields);
        struct json *got = post(&rig, TEXT, body);
        EXPECT_TEXT(text_at(got, "type"), "invalid_request_error");
        EXPECT_TEXT(text_at(got, "param"), list[i].param);
        if (!strstr(text_at(got, "message"), list[i].place))
            test_fail(__FILE__, __LINE__, "%s: %s", body, text_at(got, "message"));
        json_drop(got);
    }
    rig_close(&rig);
}

/* Check that the answer to a body has at least n_least bytes and at most half of its
 * reservation. */
static void reserves_enough(struct rig *r, const char *url, const char *body, size_t n_least)
{
    struct err e = {0};
    struct api_call *c = NULL;
    struct buf b = {0};
    struct json *sent = parse(body);
    struct queue *bell = queue_open(1, 1);
    char byte;
    int rc = api_call_open(&c, &r->api, url, sent, bell, &e);
    if (rc == 0) rc = api_call_submit(c, &e);
    while (rc == 0 && !api_call_poll(c)) (void)queue_pop(bell, &byte, -1);
    int64_t n_byte = rc == 0 ? c->n_byte : 0;
    if (rc == 0) rc = api_call_put(c, &b, &e);
    if (rc != 0 || b.n < n_least || n_byte < 2 * (int64_t)b.n)
        test_fail(__FILE__, __LINE__, "%.200s: %zu bytes, %lld reserved; %s", body, b.n,
                  (long long)n_byte, e.text);
    api_call_close(c);
    json_drop(sent);
    buf_deinit(&b);
    queue_close(bell);
}

/* Set id to the n tokens whose texts are the longest as JSON. */
static void longest_tokens(struct rig *r, int32_t *id, int n)
{
    const struct tokenizer *t = r->session.tokenizer;
    int64_t most[8] = {0};
    for (int32_t i = 0; i < r->session.info->n_vocab; i++) {
        size_t n_byte = 0;
        const char *text = tokenizer_bytes(t, i, &n_byte);
        int64_t size = text ? (int64_t)json_text_bytes(text, n_byte) : 0;
        int at = (int)(i % n);
        if (size > most[at]) most[at] = size, id[at] = i;
    }
}

/* Goal: memory for the parts that each choice repeats is reserved before the first choice.
 * Otherwise a body of 30 MB, or logprobs of a long prompt, could need gigabytes. */
TEST(api_repeated_texts_are_reserved)
{
    static char body[40000], text[30001];
    static const char *const of_prompt[] = {
        "'prompt_logprobs':20",
        "'prompt_logprobs':0",
        "'echo':true,'logprobs':20",
        "'echo':true,'logprobs':0",
        "'return_token_ids':true",
        "'echo':true,'logprobs':20,'prompt_logprobs':5,'return_token_ids':true"};
    memset(text, 'a', sizeof text - 1);
    NEED(rig_open(&rig));
    snprintf(body, sizeof body,
             "{'messages':[{'role':'user','content':'Hi'},{'role':'assistant','content':'%s'}],'"
             "max_tokens':1,"
             "'truncate_prompt_tokens':5,'n':8,'echo':true}",
             text);
    reserves_enough(&rig, CHAT, body, 8 * 30000);
    int32_t longest[8] = {0};
    longest_tokens(&rig, longest, 8);
    for (size_t i = 0; i < sizeof of_prompt / sizeof *of_prompt; i++) {
        int n =
            snprintf(body, sizeof body, "{'n':16,'max_tokens':1,%s,'prompt':[300", of_prompt[i]);
        for (int k = 1; k < 250; k++)
            n += snprintf(body + n, sizeof body - (size_t)n, ",%d", 300 + k * 13);
        snprintf(body + n, sizeof body - (size_t)n, "]}");
        reserves_enough(&rig, TEXT, body, 16 * 250 * 4);
        n = snprintf(body, sizeof body, "{'n':16,'max_tokens':1,%s,'prompt':[%d", of_prompt[i],
                     longest[0]);
        for (int k = 1; k < 250; k++)
            n += snprintf(body + n, sizeof body - (size_t)n, ",%d", longest[k % 8]);
        snprintf(body + n, sizeof body - (size_t)n, "]}");
        reserves_enough(&rig, TEXT, body, 16 * 250 * 4);
    }
    int n = snprintf(body, sizeof body, "{'n':64,'max_tokens':1,'echo':true,'prompt':'");
    for (int k = 0; k < 250; k++) n += snprintf(body + n, sizeof body - (size_t)n, "\\u0001");
    snprintf(body + n, sizeof body - (size_t)n, "'}");
    reserves_enough(&rig, TEXT, body, 64 * 250 * 6);
    rig_close(&rig);
}

/* Goal: a NUL does not hide the end of a string. A field of another type is not ignored. */
TEST(api_words_are_whole)
{
    NEED(rig_open(&rig));
    refused(&rig, TEXT, "{" ONCE ",'response_format':{'type':'text\\u0000x'}}", "response_format");
    refused(&rig, CHAT, "{" USER ",'tool_choice':'none\\u0000x'}", "tool_choice");
    refused(&rig, CHAT, "{" USER ",'modalities':['text\\u0000audio']}", "modalities");
    refused(&rig, CHAT, "{" USER ",'modalities':'audio'}", "modalities");
    refused(&rig, CHAT, "{" USER ",'modalities':{'audio':1}}", "modalities");
    refused(&rig, TEXT, "{" ONCE ",'model':'tiny\\u0000x'}", "model");
    refused(&rig, TEXT, "{" ONCE ",'early_stopping':'never\\u0000'}", "early_stopping");
    accepted(&rig, CHAT, "{" USER ",'modalities':['text'],'max_tokens':1}");
    rig_close(&rig);
}
