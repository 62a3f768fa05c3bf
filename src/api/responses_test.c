/* Goal: bodies of the Responses API become the described conversation, and errors have the client's
 * names and places. Method: convert bodies and compare the neutral form. Send bodies to the bundled
 * model without sockets. */
#include "responses.h"
#include "rig_test.h"

#define RESPONSES "/v1/responses"
#define COUNT     "/v1/responses/input_tokens"
#define TOOL      "{'type':'function','name':'f','parameters':{'type':'object'}}"

/* Compare the neutral form of a body with `want`, both with ' for ". */
static void becomes(const char *body, const char *want)
{
    struct err e = {0};
    struct json *sent = parse(body), *got = NULL;
    struct responses_source from = {.body = sent};
    (void)responses_neutral(&got, &from, &e);
    same_neutral(got, body, want, &e);
    EXPECT_INT(from.places.n, json_count(json_field(got, "messages")));
    vec_deinit(&from.places);
    json_drop(sent);
    json_drop(got);
}

TEST(responses_items_become_messages)
{
    becomes("{'input':'hi','instructions':'s'}",
            "{'messages':[{'role':'system','content':'s'},{'role':'user','content':'hi'}]}");
    becomes("{'input':[{'role':'developer','content':'d'},{'role':'user','content':[{'type':"
            "'input_text','text':'a'},{'type':'input_text','text':'b'}]},{'type':'message','role':"
            "'user','content':'c','status':'completed','id':'msg_1'}],'instructions':''}",
            "{'messages':[{'role':'developer','content':'d'},{'role':'user','content':[{'type':"
            "'text','text':'a'},{'type':'text','text':'b'}]},{'role':'user','content':'c'}]}");
    /* the items of one answer are one message, up to an item of another role */
    becomes("{'input':[{'role':'user','content':'q'},{'type':'reasoning','id':'rs_1','summary':[],"
            "'content':[{'type':'reasoning_text','text':'t'}]},{'type':'message','id':'msg_1',"
            "'role':'assistant','status':'completed','content':[{'type':'output_text','text':'u',"
            "'annotations':[],'logprobs':[]},{'type':'refusal','refusal':'v'}]},{'type':"
            "'function_call','id':'fc_1','call_id':'call_abc','name':'f','arguments':'{}','status':"
            "'completed'},{'type':'custom_tool_call','call_id':'own','name':'g','input':'x'},"
            "{'type':'function_call_output','call_id':'call_abc','output':'r'},{'type':"
            "'custom_tool_call_output','call_id':'own','output':[{'type':'input_text','text':'s'}]"
            "}]}",
            "{'messages':[{'role':'user','content':'q'},{'role':'assistant','content':[{'type':"
            "'text','text':'u'},{'type':'text','text':'v'}],'reasoning_content':'t','tool_calls':["
            "{'id':'abc','type':'function','function':{'name':'f','arguments':'{}'}},{'id':'own',"
            "'type':'custom','custom':{'name':'g','input':'x'}}]},{'role':'tool','tool_call_id':"
            "'abc','content':'r'},{'role':'tool','tool_call_id':'own','content':'s'}]}");
    /* Two messages of the assistant are not joined. encrypted_content of other servers has no
     * effect. */
    becomes("{'input':[{'role':'assistant','content':'a'},{'role':'assistant','content':'b'},"
            "{'type':'reasoning','id':'r','summary':[],'encrypted_content':'gAAA'},{'type':"
            "'reasoning','id':'r','summary':[],'encrypted_content':'quoth-dGhpbms='},"
            "{'role':'user','content':[]}]}",
            "{'messages':[{'role':'assistant','content':'a'},{'role':'assistant','content':'b',"
            "'reasoning_content':'think'},{'role':'user','content':''}]}");
    becomes("{'input':[{'type':'reasoning','id':'r','summary':[{'type':'summary_text','text':'s'}]}"
            ",{'role':'user','content':'a'}]}",
            "{'messages':[{'role':'assistant','content':'','reasoning_content':'s'},{'role':'user',"
            "'content':'a'}]}");
}

TEST(responses_fields_become_neutral)
{
    static const char messages[] = "'messages':[{'role':'user','content':'hi'}]}";
    static const struct {
        const char *field, *want;
    } c[] = {
        {"'temperature':1,'top_k':2,'seed':3,'user':'u','timeout':4,'priority':5,'stop':'x'",
         "'temperature':1,'top_k':2,'seed':3,'user':'u','timeout':4,'priority':5,'stop':'x',"},
        {"'model':'m','stream':true,'store':false,'metadata':{'a':'b'},'truncation':'auto',"
         "'unknown':1",
         ""},
        {"'max_output_tokens':5", "'max_tokens':5,"},
        {"'top_logprobs':2", "'logprobs':true,'top_logprobs':2,"},
        {"'include':['message.output_text.logprobs']", "'logprobs':true,'top_logprobs':0,"},
        {"'include':['reasoning.encrypted_content','file_search_call.results']", ""},
        {"'reasoning':{'effort':'low','summary':'auto'}", "'reasoning_effort':'low',"},
        {"'reasoning':{'effort':null}", ""},
        {"'text':{'format':{'type':'text'},'verbosity':'low'}",
         "'response_format':{'type':'text'},"},
        {"'text':{'format':{'type':'json_object'}}", "'response_format':{'type':'json_object'},"},
        {"'text':{'format':{'type':'json_schema','name':'n','schema':{'a':1},'strict':true}}",
         "'response_format':{'type':'json_schema','json_schema':{'name':'n','schema':{'a':1},"
         "'strict':true}},"},
        {"'text':{'format':{'type':'json_object','schema':{'a':1}}}",
         "'response_format':{'type':'json_object','schema':{'a':1}},"},
        {"'tool_choice':'required'", "'tool_choice':'required',"},
        {"'tool_choice':{'type':'function','name':'f'}",
         "'tool_choice':{'type':'function','function':{'name':'f'}},"},
        {"'tool_choice':{'type':'allowed_tools','mode':'auto','tools':[{'type':'custom','name':"
         "'f'}]}",
         "'tool_choice':{'type':'allowed_tools','mode':'auto','tools':[{'type':'custom','custom':{"
         "'name':'f'}}]},"},
        {"'tools':[{'type':'function','name':'f','description':'d','parameters':{'type':'object'},"
         "'strict':true},{'type':'custom','name':'g','format':{'type':'grammar','syntax':'regex',"
         "'definition':'a'}},{'type':'custom','name':'h','format':{'type':'text'}}]",
         "'tools':[{'type':'function','function':{'name':'f','description':'d','parameters':{"
         "'type':'object'},'strict':true}},{'type':'custom','custom':{'name':'g','format':{'type':"
         "'grammar','grammar':{'syntax':'regex','definition':'a'}}}},{'type':'custom','custom':{"
         "'name':'h','format':{'type':'text'}}}],"},
    };
    char body[700], want[700];
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        snprintf(body, sizeof body, "{%s,'input':'hi'}", c[i].field);
        snprintf(want, sizeof want, "{%s%s", c[i].want, messages);
        becomes(body, want);
    }
}

TEST(responses_errors_have_the_names_of_the_client)
{
    static const struct {
        const char *fields;
        int rc;
        const char *text;
    } c[] = {
        {"'x':1", ERR_ARG, "input: expected a string or a list of items, got nothing"},
        {"'input':[]", ERR_ARG, "input: must have at least 1 item"},
        {"'input':[3]", ERR_ARG, "input[0]: expected an object, got an integer"},
        {"'input':[{'role':'tool','content':''}]", ERR_ARG, "input[0].role: must be user,"},
        {"'input':[{'role':'user'}]", ERR_ARG, "input[0].content: expected a string"},
        {"'input':[{'role':'user','content':[3]}]", ERR_ARG, "input[0].content[0]: expected an ob"},
        {"'input':[{'role':'user','content':[{'type':'input_text'}]}]", ERR_ARG,
         "input[0].content[0].text: expected a string, got nothing"},
        {"'input':[{'role':'user','content':'a'},{'role':'user','content':[{'type':'input_image',"
         "'image_url':'x'}]}]",
         ERR_UNSUPPORTED,
         "input[1].content[0].type: must be input_text, output_text or refusal, "
         "got \"input_image\""},
        {"'input':[{'type':'web_search_call','id':'ws_1'}]", ERR_UNSUPPORTED,
         "input[0].type: must be message, reasoning, item_reference, or a call or output of a "
         "function "
         "or custom tool, got \"web_search_call\""},
        {"'input':[{'type':'function_call','name':'f','arguments':'{}'}]", ERR_ARG,
         "input[0].call_id: expected a string, got nothing"},
        {"'input':[{'type':'function_call','name':'f','call_id':'a','arguments':{}}]", ERR_ARG,
         "input[0].arguments: expected a string, got an object"},
        {"'input':[{'type':'custom_tool_call','name':'f','call_id':'a'}]", ERR_ARG,
         "input[0].input: expected a string, got nothing"},
        {"'input':[{'type':'function_call_output','call_id':'a','output':3}]", ERR_ARG,
         "input[0].output: expected a string or a list"},
        {"'input':[{'type':'function_call_output','call_id':'a','output':[{'type':'input_image'}]}"
         "]",
         ERR_UNSUPPORTED, "input[0].output[0].type: must be input_text"},
        {"'input':[{'type':'reasoning','content':'a'}]", ERR_ARG, "input[0].content: expected a"},
        {"'input':[{'type':'reasoning','summary':[{'type':'x','text':''}]}]", ERR_UNSUPPORTED,
         "input[0].summary[0].type: must be summary_text"},
        {"'input':[{'type':'reasoning','encrypted_content':'quoth-***'}]", ERR_ARG,
         "input[0].encrypted_content: must be unchanged"},
        {"'input':'a','instructions':3", ERR_ARG, "instructions: expected a string"},
        {"'input':'a','tools':{}", ERR_ARG, "tools: expected a list"},
        {"'input':'a','tools':[{'type':'web_search'}]", ERR_UNSUPPORTED,
         "tools[0].type: must be \"function\" or \"custom\", got \"web_search\""},
        {"'input':'a','tools':[" TOOL ",{'type':'mcp','server_label':'x'}]", ERR_UNSUPPORTED,
         "tools[1].type: must be \"function\" or \"custom\", got \"mcp\""},
        {"'input':'a','tools':[{'type':'function'}]", ERR_ARG, "tools[0].name: expected a string"},
        {"'input':'a','tools':[{'type':'function','name':'f','strict':true,'parameters':{'type':"
         "'list'}}]",
         ERR_ARG, "tools[0].parameters: #/type: must be object"},
        {"'input':'a','tools':[{'type':'custom','name':'f','format':{'type':'grammar','syntax':"
         "'peg','definition':''}}]",
         ERR_ARG, "tools[0].format.syntax: must be \"lark\" or \"regex\""},
        {"'input':'a','tools':[" TOOL "],'tool_choice':{'type':'web_search_preview'}",
         ERR_UNSUPPORTED,
         "tool_choice.type: must be \"function\", \"custom\" or \"allowed_tools\""},
        {"'input':'a','tools':[" TOOL "],'tool_choice':{'type':'function','name':'g'}", ERR_ARG,
         "tool_choice: tool \"g\" not found"},
        {"'input':'a','tool_choice':'required'", ERR_ARG, "tool_choice: must come with tools"},
        {"'input':'a','tool_choice':'any'", ERR_ARG, "tool_choice: expected \"auto\""},
        {"'input':'a','text':{'format':{'type':'xml'}}", ERR_ARG,
         "text.format.type: must be one of text, json_object, json_schema, got \"xml\""},
        {"'input':'a','text':{'format':{'type':'json_schema','name':'n'}}", ERR_ARG,
         "text.format.schema: expected a value"},
        {"'input':'a','text':{'format':{'type':'json_schema','schema':{'type':'list'}}}",
         ERR_FORMAT, "text.format.schema: "},
        {"'input':'a','text':{'format':{'type':'json_object','schema':{'type':'list'}}}",
         ERR_FORMAT, "text.format.schema: "},
        {"'input':'a','text':{'format':{'type':'text','schema':{}}}", ERR_UNSUPPORTED,
         "text.format.schema: unknown member"},
        {"'input':'a','text':{'format':{'type':'json_schema','schema':{},'x':1}}", ERR_UNSUPPORTED,
         "text.format.x: unknown member"},
        {"'input':'a','text':{'verbosity':'loud'}", ERR_ARG, "text.verbosity: must be one of low,"},
        {"'input':'a','reasoning':{'effort':'huge'}", ERR_ARG, "reasoning.effort: must be one of"},
        {"'input':'a','reasoning':{'summary':'long'}", ERR_ARG, "reasoning.summary: must be one"},
        {"'input':'a','max_output_tokens':0", ERR_ARG, "max_output_tokens: must be in [1,"},
        {"'input':'a','top_logprobs':99", ERR_ARG, "top_logprobs: must be in [0,"},
        {"'input':'a','include':['all']", ERR_ARG, "include[0]: must be a known part"},
        {"'input':'a','truncation':'some'", ERR_ARG, "truncation: must be one of auto, disabled"},
        {"'input':'a','n':2", ERR_ARG, "n: must be in [1, 1]"},
        {"'input':'a','metadata':{'a':1}", ERR_ARG, "metadata.a: expected a string"},
        {"'input':'a','max_tokens':5", ERR_UNSUPPORTED, "max_tokens: not supported by this"},
        {"'messages':[{'role':'user','content':'a'}]", ERR_UNSUPPORTED, "messages: not supported"},
        {"'input':'a','conversation':'conv_1'", ERR_UNSUPPORTED,
         "conversation: nothing is stored here"},
        {"'input':'a','prompt':{'id':'pmpt_1'}", ERR_UNSUPPORTED, "prompt: not supported yet"},
        {"'input':'a','temperature':'a'", ERR_ARG, "temperature: expected a number"},
        {"'input':'a','stream':true,'stream_options':3", ERR_ARG, "stream_options: expected an"},
    };
    char body[600];
    NEED(rig_open_context(&rig, 256));
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        snprintf(body, sizeof body, "{%s}", c[i].fields);
        rejected(RESPONSES, body, c[i].rc, c[i].text);
    }
    rig_close(&rig);
}

/* A template that prints no system message in the middle. */
TEST(responses_errors_of_templates_have_the_place_of_the_client)
{
    static const char text[] =
        "{% for m in messages %}{% if m.role in ['user', 'assistant'] or "
        "loop.first %}{{ m.role }}: {{ m.content }}\n{% endif %}{% endfor %}";
    struct err e = {0};
    NEED(rig_open_context(&rig, 256));
    struct template *own = rig.chat.t;
    NEED_OK(template_open(&rig.chat.t, text, strlen(text), &e), &e);
    rejected(RESPONSES,
             "{'instructions':'s','input':[{'role':'user','content':'a'},{'role':'user','content':"
             "'b'},{'role':'assistant','content':'c'},{'type':'reasoning','id':'r','summary':[]},"
             "{'role':'system','content':'d'},{'role':'user','content':'e'}]}",
             ERR_ARG, "input[4].role: the chat template ignores");
    template_close(rig.chat.t);
    rig.chat.t = own;
    rig_close(&rig);
}

/* Goal: `truncation` "auto" drops the minimum number of oldest turns. It keeps system messages, and
 * calls together with their outputs. */
TEST(responses_drop_the_oldest_turns)
{
    struct buf body = {0};
    NEED(rig_open_context(&rig, 256));
    for (int n = 1; n < 40; n += 3) {
        int64_t n_before = -1;
        for (int first = 0; first <= n; first++) { /* the conversation without its first turns */
            buf_clear(&body);
            buf_addf(&body, "{'instructions':'Be kind.','max_output_tokens':20,'input':[");
            for (int i = first; i <= n; i++)
                buf_addf(&body,
                         "%s{'role':'user','content':'turn %d'},{'type':'function_call','call_id':"
                         "'c%d','name':'f','arguments':'{}'},{'type':'function_call_output',"
                         "'call_id':'c%d','output':'%d'},{'role':'assistant','content':'a'}",
                         i > first ? "," : "", i, i, i, i);
            buf_addf(&body, ",{'role':'user','content':'last'}]");
            const size_t end = body.n;
            buf_addf(&body, "}");
            struct json *count = post(&rig, COUNT, body.data);
            const int64_t n_token = json_int(at(count, "input_tokens"), -1);
            json_drop(count);
            if (first == 0) { /* the part of the conversation that the server keeps */
                body.n = end;
                buf_addf(&body, ",'truncation':'auto'}");
                struct json *got = post(&rig, RESPONSES, body.data);
                n_before = json_int(at(got, "usage.input_tokens"), -1);
                EXPECT(n_before > 0 && n_before <= 236);
                json_drop(got);
            }
            if (n_token > 236) continue;
            EXPECT_INT(n_before, n_token); /* the longest conversation that fits */
            break;
        }
    }
    buf_clear(&body);
    buf_addf(&body, "{'truncation':'auto','input':'");
    for (int i = 0; i < 300; i++) buf_addf(&body, " word");
    buf_addf(&body, "'}");
    rejected(RESPONSES, body.data, ERR_LIMIT, "input: ");
    buf_deinit(&body);
    rig_close(&rig);
}

/* Goal: a response has its status, its items and its usage. */
TEST(responses_have_a_status)
{
    NEED(rig_open_context(&rig, 512));
    struct json *got = post(&rig, RESPONSES, "{'input':'What is 47 + 38?','temperature':0}");
    EXPECT_TEXT(text_at(got, "status"), "completed");
    EXPECT_TEXT(text_at(got, "object"), "response");
    EXPECT_TEXT(text_at(got, "output.0.content.0.text"), "47 + 38 = 85");
    EXPECT_INT(json_int(at(got, "usage.output_tokens_details.reasoning_tokens"), -1), 0);
    json_drop(got);
    got =
        post(&rig, RESPONSES, "{'input':'What is 47 + 38?','max_output_tokens':2,'temperature':0}");
    EXPECT_TEXT(text_at(got, "status"), "incomplete");
    EXPECT_TEXT(text_at(got, "incomplete_details.reason"), "max_output_tokens");
    EXPECT_TEXT(text_at(got, "output.0.status"), "incomplete");
    EXPECT_INT(json_int(at(got, "usage.output_tokens"), -1), 2);
    json_drop(got);
    got = post(&rig, RESPONSES,
               "{'input':'hi','max_output_tokens':60,'temperature':0,'chat_template_kwargs':{'"
               "enable_thinking':"
               "true},'thinking_token_budget':5,'include':['reasoning.encrypted_content'],"
               "'text':{'format':{'type':'json_schema','name':'n','schema':{'const':7}}}}");
    EXPECT_TEXT(text_at(got, "output.0.type"), "reasoning");
    EXPECT(strlen(text_at(got, "output.0.content.0.text")) > 3);
    EXPECT(strncmp(text_at(got, "output.0.encrypted_content"), "quoth-", 6) == 0);
    EXPECT_TEXT(text_at(got, "output.1.content.0.text"), "7");
    int64_t n = json_int(at(got, "usage.output_tokens_details.reasoning_tokens"), -1);
    EXPECT(n >= 5 && n < json_int(at(got, "usage.output_tokens"), -1));
    json_drop(got);
    rig_close(&rig);
}

/* Goal: a count is the number of tokens of the prompt. */
TEST(responses_counts_are_those_of_usage)
{
    static const char *const more[] = {
        "}", ",'instructions':'You are kind.'}", ",'tools':[" TOOL "],'tool_choice':'required'}",
        ",'reasoning':{'effort':'low'},'text':{'format':{'type':'json_object'}}}"};
    char body[400];
    NEED(rig_open_context(&rig, 256));
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        snprintf(body, sizeof body, "{'max_output_tokens':1,'input':'hi'%s", more[i]);
        struct json *got = post(&rig, RESPONSES, body), *count = post(&rig, COUNT, body);
        EXPECT(json_int(at(count, "input_tokens"), -1) > 0);
        EXPECT_INT(json_int(at(count, "input_tokens"), -1),
                   json_int(at(got, "usage.input_tokens"), 0));
        json_drop(got);
        json_drop(count);
    }
    rig_close(&rig);
}
