/* Goal: bodies of Anthropic's messages become the described conversation. Errors, blocks and events
 * have the form that Anthropic's clients expect. Method: convert bodies and compare the neutral
 * form. Send bodies to the bundled model without sockets, whole and in pieces. */
#include "anthropic.h"
#include "rig_test.h"

#define MESSAGES "/v1/messages"
#define COUNT    "/v1/messages/count_tokens"
#define USER     "'messages':[{'role':'user','content':'hi'}]"
#define BODY     "{'max_tokens':24," USER
#define TOOL     "{'name':'f','input_schema':{'type':'object'}}"

/* ---- the neutral form ---- */

/* Compare the neutral form of a body with `want`, both with ' for ". */
static void becomes(const char *body, const char *want)
{
    struct err e = {0};
    struct message_places places = {0};
    struct json *sent = parse(body), *got = NULL;
    (void)anthropic_neutral(&got, &places, &(struct api){0}, sent, &e);
    same_neutral(got, body, want, &e);
    EXPECT_INT(places.n, json_count(json_field(got, "messages")));
    vec_deinit(&places);
    json_drop(sent);
    json_drop(got);
}

TEST(anthropic_conversations_become_neutral)
{
    becomes("{" USER ",'system':'s'}",
            "{'messages':[{'role':'system','content':'s'},{'role':'user','content':'hi'}]}");
    /* several texts, cache_control everywhere, and consecutive messages of one role */
    becomes("{'system':[{'type':'text','text':'a','cache_control':{'type':'ephemeral'}},"
            "{'type':'text','text':'b'}],'cache_control':{'type':'ephemeral'},'messages':["
            "{'role':'user','content':[{'type':'text','text':'c','cache_control':null}]},"
            "{'role':'user','content':'d'}]}",
            "{'cache_control':{'type':'ephemeral'},'messages':["
            "{'role':'system','content':[{'type':'text','text':'a'},{'type':'text','text':'b'}]},"
            "{'role':'user','content':[{'type':'text','text':'c'},{'type':'text','text':'d'}]}]}");
    becomes("{'system':'','messages':[{'role':'user','content':[]},"
            "{'role':'assistant','content':'x'},{'role':'system','content':'y'},"
            "{'role':'user','content':'z'}]}",
            "{'messages':[{'role':'user','content':''},{'role':'assistant','content':'x'},"
            "{'role':'system','content':'y'},{'role':'user','content':'z'}]}");
    /* calls, results and thinking */
    becomes(
        "{'messages':[{'role':'user','content':'q'},{'role':'assistant','content':["
        "{'type':'thinking','thinking':'t','signature':'s'},{'type':'redacted_thinking','data':"
        "'x'},{'type':'text','text':'u'},{'type':'tool_use','id':'toolu_abc','name':'f','input':{"
        "'a':1}},{'type':'tool_use','id':'own','name':'g','input':{},'caller':{'type':'direct'}}]},"
        "{'role':'user','content':[{'type':'tool_result','tool_use_id':'toolu_abc','content':'r'},"
        "{'type':'tool_result','tool_use_id':'own','is_error':true,'content':[{'type':'text',"
        "'text':'no'},{'type':'text','text':'way'}]},{'type':'text','text':'go'}]}]}",
        "{'messages':[{'role':'user','content':'q'},{'role':'assistant','content':'u',"
        "'reasoning_content':'t','tool_calls':[{'id':'abc','type':'function','function':{'name':"
        "'f','arguments':{'a':1}}},{'id':'own','type':'function','function':{'name':'g',"
        "'arguments':{}}}]},{'role':'tool','tool_call_id':'abc','content':'r'},{'role':'tool',"
        "'tool_call_id':'own','content':[{'type':'text','text':'Error: no'},{'type':'text','text':"
        "'way'}]},{'role':'user','content':'go'}]}");
    becomes("{'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'a'},"
            "{'type':'tool_result','tool_use_id':'b','is_error':true}]}]}",
            "{'messages':[{'role':'tool','tool_call_id':'a','content':''},"
            "{'role':'tool','tool_call_id':'b','content':'Error: '}]}");
    becomes("{'messages':[{'role':'user','content':'q'},{'role':'assistant','content':'It is'}]}",
            "{'messages':[{'role':'user','content':'q'},{'role':'assistant','content':'It is'}],"
            "'continue_final_message':true}");
}

TEST(anthropic_fields_become_neutral)
{
    static const char messages[] = "'messages':[{'role':'user','content':'hi'}]}";
    static const struct {
        const char *field, *want;
    } c[] = {
        {"'temperature':1,'top_k':2,'min_p':0.5,'seed':3,'stop':'x','n':2,'service_tier':'auto'",
         "'temperature':1,'top_k':2,'min_p':0.5,'seed':3,'service_tier':'auto',"},
        {"'model':'m','stream':true,'max_tokens':5", "'max_tokens':5,"},
        {"'stop_sequences':['a','b']", "'stop':['a','b'],"},
        {"'stop_sequences':[]", ""},
        {"'metadata':{'user_id':'u','x':1}", "'user':'u',"},
        {"'metadata':{'user_id':null}", ""},
        {"'thinking':{'type':'enabled','budget_tokens':9}",
         "'chat_template_kwargs':{'enable_thinking':true,'thinking':true},"
         "'thinking_token_budget':9,"},
        {"'thinking':{'type':'adaptive','display':'omitted'}",
         "'chat_template_kwargs':{'enable_thinking':true,'thinking':true},"},
        {"'thinking':{'type':'disabled'},'chat_template_kwargs':{'thinking':true,'x':1}",
         "'chat_template_kwargs':{'x':1,'enable_thinking':false,'thinking':false},"},
        {"'chat_template_kwargs':{'thinking':true}", "'chat_template_kwargs':{'thinking':true},"},
        {"'output_config':{'effort':'low','format':{'type':'json_schema','schema':{'a':1}}}",
         "'reasoning_effort':'low','response_format':{'type':'json_schema','json_schema':{"
         "'schema':{'a':1}}},"},
        {"'output_format':{'type':'json_schema','schema':true}",
         "'response_format':{'type':'json_schema','json_schema':{'schema':true}},"},
        {"'tool_choice':{'type':'any','disable_parallel_tool_use':true}",
         "'parallel_tool_calls':false,'tool_choice':'required',"},
        {"'tool_choice':{'type':'auto'}", "'tool_choice':'auto',"},
        {"'tool_choice':{'type':'none'}", "'tool_choice':'none',"},
        {"'tool_choice':{'type':'tool','name':'f'}",
         "'tool_choice':{'type':'function','function':{'name':'f'}},"},
        {"'tools':[{'type':'custom','name':'f','description':'d','input_schema':{'type':'object'},"
         "'strict':true,'cache_control':{'type':'ephemeral'},'defer_loading':false,"
         "'allowed_callers':['direct'],'eager_input_streaming':true}]",
         "'tools':[{'type':'function','function':{'name':'f','description':'d','parameters':{"
         "'type':'object'},'strict':true}}],"},
        {"'context_management':{'edits':[{'type':'clear_thinking_20251015','keep':'all'}]}",
         "'context_management':{'edits':[{'type':'clear_thinking_20251015','keep':'all'}]},"},
    };
    char body[600], want[600];
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        snprintf(body, sizeof body, "{%s,%s", c[i].field, messages);
        snprintf(want, sizeof want, "{%s%s", c[i].want, messages);
        becomes(body, want);
    }
}

/* ---- wrong bodies ---- */

TEST(anthropic_errors_have_the_names_of_the_client)
{
    static const struct {
        const char *fields; /* members after max_tokens */
        int rc;
        const char *text;
    } c[] = {
        {"'x':1", ERR_ARG, "messages: expected a list"},
        {"'messages':[]", ERR_ARG, "messages: must have at least 1"},
        {"'messages':[3]", ERR_ARG, "messages[0]: expected an object, got an integer"},
        {"'messages':[{'role':'tool','content':''}]", ERR_ARG, "messages[0].role: must be user,"},
        {"'messages':[{'role':'user'}]", ERR_ARG, "messages[0].content: expected a string"},
        {"'messages':[{'role':'user','content':[3]}]", ERR_ARG,
         "messages[0].content[0]: expected a block"},
        {"'messages':[{'role':'user','content':[{'type':'text'}]}]", ERR_ARG,
         "messages[0].content[0].text: expected a string, got nothing"},
        {"'messages':[{'role':'user','content':[{'type':'text','text':'a'},{'type':'image'}]}]",
         ERR_UNSUPPORTED,
         "messages[0].content[1].type: must be text or tool_result, got \"image\""},
        {"'messages':[{'role':'user','content':[{'type':'document'}]}]", ERR_UNSUPPORTED,
         "messages[0].content[0].type: "},
        {"'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'a','content':"
         "[{'type':'image'}]}]}]",
         ERR_UNSUPPORTED, "messages[0].content[0].content[0].type: must be text, got \"image\""},
        {"'messages':[{'role':'user','content':[{'type':'tool_result','content':'a'}]}]", ERR_ARG,
         "messages[0].content[0].tool_use_id: expected a string, got nothing"},
        {"'messages':[{'role':'user','content':[{'type':'text','text':'a','citations':[1]}]}]",
         ERR_UNSUPPORTED, "messages[0].content[0].citations: not supported"},
        {"'messages':[{'role':'assistant','content':[{'type':'server_tool_use'}]}]",
         ERR_UNSUPPORTED, "messages[0].content[0].type: must be text, thinking,"},
        {"'messages':[{'role':'assistant','content':[{'type':'thinking'}]}]", ERR_ARG,
         "messages[0].content[0].thinking: expected a string"},
        {"'messages':[{'role':'assistant','content':[{'type':'tool_use','id':'a','name':'f',"
         "'input':'x'}]}]",
         ERR_ARG, "messages[0].content[0].input: expected an object"},
        {"'messages':[{'role':'user','content':'a'},{'role':'assistant','content':[{'type':"
         "'tool_use','id':'a','name':'f','input':{}}]}]",
         ERR_ARG, "messages[1]: tool_use must be followed by a tool_result"},
        {USER ",'system':3", ERR_ARG, "system: expected a string or a list of blocks"},
        {USER ",'system':false", ERR_ARG, "system: expected a string or a list of blocks"},
        {USER ",'system':[{'type':'image'}]", ERR_UNSUPPORTED, "system[0].type: must be text"},
        {USER ",'tools':{}", ERR_ARG, "tools: expected a list"},
        {USER ",'tools':[{'type':'web_search_20250305','name':'web_search'}]", ERR_UNSUPPORTED,
         "tools[0].type: must be \"custom\", got \"web_search_20250305\""},
        {USER ",'tools':[{'name':'f'}]", ERR_ARG, "tools[0].input_schema: expected an object"},
        {USER ",'tools':[" TOOL ",{'input_schema':{}}]", ERR_ARG, "tools[1].name: expected a"},
        {USER ",'tools':[{'name':'f','input_schema':{'type':'list'}}],'tool_choice':{'type':'any'}",
         ERR_ARG, "tools[0].input_schema: #/type: must be object"},
        {USER ",'tools':[{'name':'f','input_schema':{},'defer_loading':true}]", ERR_UNSUPPORTED,
         "tools[0].defer_loading: not supported"},
        {USER ",'tool_choice':{'type':'any'}", ERR_ARG, "tool_choice: must come with tools"},
        {USER ",'tool_choice':{'type':'all'}", ERR_ARG, "tool_choice.type: must be auto, any,"},
        {USER ",'tool_choice':{'type':'tool'}", ERR_ARG, "tool_choice.name: expected a string"},
        {USER ",'tools':[" TOOL "],'tool_choice':{'type':'tool','name':'g'}", ERR_ARG,
         "tool_choice: tool \"g\" not found"},
        {USER ",'thinking':{'type':'on'}", ERR_ARG, "thinking.type: must be enabled, disabled or"},
        {USER ",'thinking':{'type':'enabled'}", ERR_ARG, "thinking.budget_tokens: expected an int"},
        {USER ",'thinking':{'type':'enabled','budget_tokens':0}", ERR_ARG,
         "thinking.budget_tokens: must be in [1,"},
        {USER ",'stop_sequences':'a'", ERR_ARG, "stop_sequences: expected a list"},
        {USER ",'stop_sequences':['a','']", ERR_ARG, "stop_sequences[1]: must have at least 1"},
        {USER ",'output_config':{'effort':'none'}", ERR_ARG, "output_config.effort: must be low,"},
        {USER ",'output_config':{'format':{'type':'text'}}", ERR_UNSUPPORTED,
         "output_config.format.type: must be \"json_schema\""},
        {USER ",'output_config':{'format':{'type':'json_schema'}}", ERR_ARG,
         "output_config.format.schema: expected a value"},
        {USER ",'output_config':{'format':{'type':'json_schema','schema':{'type':'list'}}}",
         ERR_FORMAT, "output_config.format.schema: "},
        {USER ",'output_config':{'format':{'type':'json_schema','schema':{},'x':1}}",
         ERR_UNSUPPORTED, "output_config.format.x: unknown member"},
        {USER ",'output_format':{'type':'json_schema','schema':{'type':'list'}}", ERR_FORMAT,
         "output_format.schema: "},
        {USER ",'metadata':{'user_id':3}", ERR_ARG, "metadata.user_id: expected a string"},
        {USER ",'container':'a'", ERR_UNSUPPORTED, "container: not supported yet"},
        {USER ",'mcp_servers':[{}]", ERR_UNSUPPORTED, "mcp_servers: not supported yet"},
        {USER ",'context_management':{'edits':[{'type':'clear_tool_uses_20250919'}]}",
         ERR_UNSUPPORTED, "context_management.edits[0]: not supported yet"},
        {USER ",'temperature':'a'", ERR_ARG, "temperature: expected a number"},
    };
    char body[600];
    NEED(rig_open_context(&rig, 256));
    rejected(MESSAGES, "{" USER "}", ERR_ARG, "max_tokens: expected an integer, got nothing");
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        snprintf(body, sizeof body, "{'max_tokens':4,%s}", c[i].fields);
        rejected(MESSAGES, body, c[i].rc, c[i].text);
    }
    rig_close(&rig);
}

/* A template that prints no system message in the middle. */
TEST(anthropic_errors_of_templates_have_the_place_of_the_client)
{
    static const char text[] =
        "{% for m in messages %}{% if m.role in ['user', 'assistant'] or "
        "loop.first %}{{ m.role }}: {{ m.content }}\n{% endif %}{% endfor %}";
    struct err e = {0};
    NEED(rig_open_context(&rig, 256));
    struct template *own = rig.chat.t;
    NEED_OK(template_open(&rig.chat.t, text, strlen(text), &e), &e);
    rejected(MESSAGES,
             "{'max_tokens':4,'system':'s','messages':[{'role':'user','content':'a'},"
             "{'role':'user','content':'b'},{'role':'assistant','content':'c'},"
             "{'role':'system','content':'d'},{'role':'user','content':'e'}]}",
             ERR_ARG, "messages[3].role: the chat template ignores");
    rejected(MESSAGES,
             "{'max_tokens':4,'system':'s','messages':[{'role':'user','content':[{'type':'text',"
             "'text':'a'},{'type':'tool_result','tool_use_id':'b','content':'c'}]}]}",
             ERR_ARG, "messages[0].content[1].role: the chat template ignores");
    template_close(rig.chat.t);
    rig.chat.t = own;
    rig_close(&rig);
}

/* ---- answers ---- */

TEST(anthropic_answers_have_blocks)
{
    NEED(rig_open_context(&rig, 512));
    rig.api.seeded = true;
    struct json *got = post(&rig, MESSAGES, BODY "}");
    EXPECT_TEXT(text_at(got, "type"), "message");
    EXPECT_TEXT(text_at(got, "role"), "assistant");
    EXPECT_TEXT(text_at(got, "model"), "tiny");
    EXPECT(strncmp(text_at(got, "id"), "msg_", 4) == 0);
    EXPECT_TEXT(text_at(got, "content.0.type"), "text");
    EXPECT_INT(json_count(at(got, "content")), 1);
    EXPECT_TEXT(text_at(got, "stop_reason"), "end_turn");
    EXPECT_INT(json_kind(at(got, "stop_sequence")), JK_NULL);
    json_drop(got);
    got = post(&rig, MESSAGES, "{'max_tokens':2," USER "}");
    EXPECT_TEXT(text_at(got, "stop_reason"), "max_tokens");
    EXPECT_INT(json_int(at(got, "usage.output_tokens"), -1), 2);
    json_drop(got);
    got = post(&rig, MESSAGES, BODY ",'stop_sequences':['zzz',' ']}");
    EXPECT_TEXT(text_at(got, "stop_reason"), "stop_sequence");
    EXPECT_TEXT(text_at(got, "stop_sequence"), " ");
    json_drop(got);
    got = post(&rig, MESSAGES,
               "{'max_tokens':60," USER ",'tools':[" TOOL "],'tool_choice':{'type':'any',"
               "'disable_parallel_tool_use':true}}");
    EXPECT_INT(json_count(at(got, "content")), 1);
    EXPECT_TEXT(text_at(got, "content.0.type"), "tool_use");
    EXPECT_TEXT(text_at(got, "content.0.name"), "f");
    EXPECT_INT(json_kind(at(got, "content.0.input")), JK_OBJECT);
    EXPECT(strncmp(text_at(got, "content.0.id"), "toolu_", 6) == 0);
    EXPECT_INT(strlen(text_at(got, "content.0.id")), 15);
    json_drop(got);
    /* arguments that max_tokens truncates are not an object */
    got = post(&rig, MESSAGES,
               "{'max_tokens':14," USER ",'tools':[{'name':'f','input_schema':{'type':"
               "'object','properties':{'city':{'const':'one two three four five'}},"
               "'required':['city']}}],'tool_choice':{'type':'tool','name':'f'}}");
    EXPECT_TEXT(text_at(got, "stop_reason"), "max_tokens");
    EXPECT(strncmp(text_at(got, "content.0.input.INVALID_JSON"), "{", 1) == 0);
    json_drop(got);
    got = post(&rig, MESSAGES,
               "{'max_tokens':60," USER ",'thinking':{'type':'enabled','budget_tokens':3},"
               "'output_config':{'format':{'type':'json_schema','schema':{'const':7}}}}");
    EXPECT_TEXT(text_at(got, "content.0.type"), "thinking");
    EXPECT(strlen(text_at(got, "content.0.thinking")) > 3);
    EXPECT(strncmp(text_at(got, "content.0.signature"), "quoth-", 6) == 0);
    EXPECT_TEXT(text_at(got, "content.1.text"), "7");
    json_drop(got);
    got = post(&rig, MESSAGES,
               "{'max_tokens':60," USER ",'thinking':{'type':'enabled','budget_tokens':3,"
               "'display':'omitted'}}");
    EXPECT_TEXT(text_at(got, "content.0.thinking"), "");
    EXPECT(strncmp(text_at(got, "content.0.signature"), "quoth-", 6) == 0);
    json_drop(got);
    got = post(&rig, MESSAGES, "{'max_tokens':20," USER ",'thinking':{'type':'disabled'}}");
    EXPECT_TEXT(text_at(got, "content.0.type"), "text");
    json_drop(got);
    rig_close(&rig);
}

/* Goal: a count is the number of tokens of the prompt, also of a prompt that is too long. */
TEST(anthropic_counts_are_those_of_usage)
{
    static const char *const more[] = {
        "}", ",'system':'You are kind.'}", ",'tools':[" TOOL "],'tool_choice':{'type':'any'}}",
        ",'thinking':{'type':'enabled','budget_tokens':5}}",
        ",'output_config':{'effort':'low','format':{'type':'json_schema','schema':{}}}}"};
    char body[400];
    NEED(rig_open_context(&rig, 256));
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        snprintf(body, sizeof body, "{'max_tokens':1," USER "%s", more[i]);
        struct json *got = post(&rig, MESSAGES, body), *count = post(&rig, COUNT, body);
        EXPECT_INT(json_int(at(count, "input_tokens"), -1),
                   json_int(at(got, "usage.input_tokens"), 0) +
                       json_int(at(got, "usage.cache_read_input_tokens"), 0));
        json_drop(got);
        json_drop(count);
    }
    struct buf b = {0};
    buf_add_text(&b, "{'messages':[{'role':'user','content':'");
    for (int i = 0; i < 400; i++) buf_add_text(&b, " word");
    buf_add_text(&b, "'}]}");
    struct json *got = post(&rig, COUNT, b.data);
    EXPECT(json_int(at(got, "input_tokens"), -1) > 400);
    json_drop(got);
    buf_deinit(&b);
    rig_close(&rig);
}

/* ---- errors ---- */

TEST(anthropic_errors_of_requests)
{
    static const struct {
        int rc;
        const char *type;
    } c[] = {
        {ERR_ARG, "invalid_request_error"},    {ERR_UNSUPPORTED, "invalid_request_error"},
        {ERR_LIMIT, "invalid_request_error"},  {ERR_MISSING, "not_found_error"},
        {ERR_BUSY, "rate_limit_error"},        {ERR_MEMORY, "overloaded_error"},
        {ERR_UNAVAILABLE, "overloaded_error"}, {ERR_IO, "api_error"},
    };
    char want[300];
    struct err e;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct buf b = {0}, event = {0};
        err_field(&e, c[i].rc, "x", ": so");
        anthropic_errors.put(&b, c[i].rc, &e, "i1");
        snprintf(want, sizeof want,
                 "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"x: so\"},"
                 "\"request_id\":\"i1\"}",
                 c[i].type);
        EXPECT_TEXT(b.data, want);
        call_put_error(&(struct api_call){.dialect = dialect_find("/v1/messages")}, &event, c[i].rc,
                       &e);
        snprintf(want, sizeof want,
                 "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":"
                 "\"x: so\"}}\n\n",
                 c[i].type);
        EXPECT_TEXT(event.data, want);
        buf_deinit(&b);
        buf_deinit(&event);
    }
    struct buf b = {0};
    err_figures(&e, err_field(&e, ERR_LIMIT, "messages", ": so"), 9, 8);
    anthropic_errors.put(&b, ERR_LIMIT, &e, NULL);
    EXPECT_TEXT(b.data, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","
                        "\"message\":\"prompt is too long: 9 tokens > 8 maximum\"}}");
    buf_deinit(&b);
}

TEST(anthropic_errors_of_the_http_server)
{
    static const struct {
        int status;
        const char *type;
    } c[] = {
        {400, "invalid_request_error"}, {401, "authentication_error"},
        {403, "permission_error"},      {404, "not_found_error"},
        {405, "invalid_request_error"}, {408, "timeout_error"},
        {413, "request_too_large"},     {415, "invalid_request_error"},
        {429, "rate_limit_error"},      {500, "api_error"},
        {503, "overloaded_error"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct buf b = {0};
        char want[200];
        anthropic_errors.net.put(
            &b, &(struct net_error){.status = c[i].status, .text = "so", .id = "i"});
        snprintf(want, sizeof want,
                 "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"so\"},"
                 "\"request_id\":\"i\"}",
                 c[i].type);
        EXPECT_TEXT(b.data, want);
        buf_deinit(&b);
    }
}
