/* Goal: fields of llama.cpp and vLLM that change samplers, log probabilities, streams and the data
 * of an answer have their effect, whole and in pieces. Method: send JSON bodies to the bundled
 * model without sockets. */
#include "rig_test.h"

#include "base/base64.h"

#include <math.h>

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"
#define USER "'messages':[{'role':'user','content':'Hi'}]"
#define ONCE "'prompt':'Once upon a time','seed':5,'max_tokens':24"

/* Return the text of a completion, which the caller frees. */
static char *text_of(const char *body)
{
    struct json *got = post(&rig, TEXT, body);
    char *text = strdup(text_at(got, "choices.0.text"));
    if (!at(got, "choices.0.text"))
        test_fail(__FILE__, __LINE__, "%s: %s", body, text_at(got, "message"));
    json_drop(got);
    return text;
}

/* Check that two bodies of completions have equal texts (same) or different texts. */
static void compare(const char *a, const char *b, bool same)
{
    char *x = text_of(a), *y = text_of(b);
    if ((strcmp(x, y) == 0) != same)
        test_fail(__FILE__, __LINE__, "%s and %s: \"%s\" and \"%s\"", a, b, x, y);
    free(x);
    free(y);
}

TEST(api_samplers_have_llama_cpps_order)
{
    NEED(rig_open_context(&rig, 256));
    static const char plain[] = "{" ONCE ",'temperature':1.5,'top_k':20,'top_p':0.9}";
    compare(plain,
            "{" ONCE ",'temperature':1.5,'top_k':20,'top_p':0.9,'samplers':['penalties','dry',"
            "'temperature','top_n_sigma','top_k','typ_p','top_p','min_p','xtc']}",
            true);
    compare(plain, "{" ONCE ",'temperature':1.5,'top_k':20,'top_p':0.9,'samplers':'edtskypmx'}",
            true);
    compare(plain, "{" ONCE ",'temperature':1.5,'top_k':20,'top_p':0.9,'samplers':['temperature']}",
            false);
    compare("{" ONCE ",'temperature':0}", "{" ONCE ",'top_k':1}", true);
    compare("{" ONCE ",'temperature':0}", "{" ONCE ",'top_k':1,'samplers':['temperature']}", false);
    compare("{" ONCE ",'temperature':0}", "{" ONCE ",'temperature':0,'samplers':[]}", false);
    compare("{" ONCE ",'temperature':0}", "{" ONCE ",'temperature':0,'dynatemp_range':1.5}", false);
    compare("{" ONCE ",'dynatemp_range':1}", "{" ONCE ",'dynatemp_range':1,'dynatemp_exponent':3}",
            false);
    compare("{" ONCE ",'top_p':0.01}", "{" ONCE ",'top_p':0.01,'min_keep':40}", false);
    compare("{" ONCE "}", "{" ONCE ",'adaptive_target':0.1}", false);
    compare("{" ONCE ",'adaptive_target':0.3,'min_p':0.05}",
            "{" ONCE ",'adaptive_target':0.3,'min_p':0.05,'adaptive_decay':0.1}", false);
    rejected(TEXT, "{" ONCE ",'samplers':['top_k','dry']}", ERR_UNSUPPORTED,
             "samplers[1]: must have dry before top_k");
    rejected(TEXT, "{" ONCE ",'samplers':['temperature','top_k','temperature']}", ERR_UNSUPPORTED,
             "samplers[2]: must have temperature once");
    compare("{" ONCE ",'samplers':['top_k','infill'],'top_k':3}",
            "{" ONCE ",'samplers':'ki','top_k':3}", true);
    rejected(TEXT, "{" ONCE ",'samplers':['infil']}", ERR_ARG, "samplers[0]: must be penalties");
    rejected(TEXT, "{" ONCE ",'samplers':'q'}", ERR_ARG, "samplers[0]: must be penalties");
    rejected(TEXT, "{" ONCE ",'samplers':[3]}", ERR_ARG, "samplers[0]: expected a string");
    rejected(TEXT, "{" ONCE ",'samplers':3}", ERR_ARG, "samplers: expected a list");
    rejected(TEXT, "{" ONCE ",'samplers':'kkkkkkkkkkkkkkkkk'}", ERR_LIMIT, "samplers: must have");
    rejected(TEXT, "{" ONCE ",'min_keep':-1}", ERR_ARG, "min_keep: must be");
    rejected(TEXT, "{" ONCE ",'adaptive_decay':1}", ERR_ARG, "adaptive_decay: must be");
    rig_close(&rig);
}

/* Check that the joined lists of all frames at `path` equal the list at `whole`. */
static void same_list(const struct json *got, const char *whole, const struct json *frames,
                      const char *path)
{
    struct buf a = {0}, b = {0};
    const struct json *list = at(got, whole);
    for (size_t i = 0; i < json_count(list); i++) json_put(&a, json_item(list, i));
    for (size_t k = 0; k < json_count(frames); k++) {
        list = at(json_item(frames, k), path);
        for (size_t i = 0; i < json_count(list); i++) json_put(&b, json_item(list, i));
    }
    EXPECT_TEXT(b.n ? b.data : "", a.n ? a.data : "");
    EXPECT(a.n > 0);
    buf_deinit(&a);
    buf_deinit(&b);
}

TEST(api_n_probs_are_in_llama_cpps_form)
{
    static const char *const more[] = {"", ",'top_k':2,'post_sampling_probs':true"};
    NEED(rig_open_context(&rig, 256));
    for (int post_probs = 0; post_probs < 2; post_probs++) {
        char body[300];
        snprintf(body, sizeof body, "{" ONCE ",'n_probs':3,'temperature':0.5%s}", more[post_probs]);
        struct json *got = post(&rig, TEXT, body);
        snprintf(body, sizeof body, "{" ONCE ",'n_probs':3,'temperature':0.5%s,'stream':true}",
                 more[post_probs]);
        struct json *frames = post_stream(&rig, TEXT, body);
        const struct json *first = at(got, "choices.0.logprobs.content.0");
        const struct json *tops = json_field(first, post_probs ? "top_probs" : "top_logprobs");
        double sum = 0;
        same_list(got, "choices.0.logprobs.content", frames, "choices.0.logprobs.content");
        EXPECT(json_count(at(got, "choices.0.logprobs.content")) == 24);
        EXPECT(json_int(json_field(first, "id"), -1) >= 0 && json_field(first, "token"));
        EXPECT(json_count(tops) == (post_probs ? 2 : 3));
        for (size_t i = 0; post_probs && i < json_count(tops); i++)
            sum += json_real(json_field(json_item(tops, i), "prob"), 9);
        if (post_probs) EXPECT(fabs(sum - 1) < 1e-5);
        if (!post_probs) EXPECT(json_real(json_field(first, "logprob"), 9) <= 0);
        json_drop(got);
        json_drop(frames);
    }
    struct json *chat = post(&rig, CHAT, "{" USER ",'max_tokens':3,'n_probs':2}");
    EXPECT(json_count(at(chat, "choices.0.logprobs.content.0.top_logprobs")) == 2);
    EXPECT(at(chat, "choices.0.logprobs.content.0.id") != NULL);
    json_drop(chat);
    rejected(TEXT, "{" ONCE ",'n_probs':3,'logprobs':1}", ERR_ARG, "n_probs: must not come with");
    rejected(TEXT, "{" ONCE ",'n_probs':21}", ERR_ARG, "n_probs: must be in [0, 20]");
    rejected(TEXT, "{" ONCE ",'post_sampling_probs':true,'use_beam_search':true,'temperature':0}",
             ERR_ARG, "post_sampling_probs: must not come with");
    rig_close(&rig);
}

TEST(api_logprobs_of_named_tokens)
{
    NEED(rig_open_context(&rig, 256));
    struct json *got = post(&rig, TEXT,
                            "{" ONCE ",'logprobs':1,'logprob_token_ids':[40,41,40],"
                            "'return_tokens_as_token_ids':true}");
    const struct json *tops = at(got, "choices.0.logprobs.top_logprobs.0");
    EXPECT(json_field(tops, "token_id:40") && json_field(tops, "token_id:41"));
    EXPECT(json_count(tops) == 3); /* plus the chosen token */
    EXPECT(strncmp(text_at(got, "choices.0.logprobs.tokens.0"), "token_id:", 9) == 0);
    json_drop(got);
    got = post(&rig, CHAT,
               "{" USER ",'max_tokens':2,'logprobs':true,'logprob_token_ids':[40,41],"
               "'return_tokens_as_token_ids':true}");
    EXPECT(json_count(at(got, "choices.0.logprobs.content.0.top_logprobs")) == 2);
    EXPECT(strncmp(text_at(got, "choices.0.logprobs.content.0.token"), "token_id:", 9) == 0);
    json_drop(got);
    rejected(TEXT, "{" ONCE ",'logprob_token_ids':[1]}", ERR_ARG,
             "logprob_token_ids: needs logprobs");
    rejected(TEXT, "{" ONCE ",'logprobs':0,'logprob_token_ids':[]}", ERR_ARG,
             "logprob_token_ids: must have");
    rejected(TEXT, "{" ONCE ",'logprobs':0,'logprob_token_ids':[9999999]}", ERR_ARG,
             "logprob_token_ids[0]: must be");
    rejected(TEXT, "{" ONCE ",'logprobs':0,'logprob_token_ids':'a'}", ERR_ARG,
             "logprob_token_ids: expected");
    rejected(TEXT, "{" ONCE ",'logprobs':0,'post_sampling_probs':true,'logprob_token_ids':[3]}",
             ERR_ARG, "logprob_token_ids: must not come with post_sampling_probs");
    rig_close(&rig);
}

TEST(api_stream_interval_joins_tokens)
{
    NEED(rig_open_context(&rig, 256));
    struct json *each = post_stream(
        &rig, TEXT, "{" ONCE ",'ignore_eos':true,'stream':true,'return_token_ids':true}");
    struct json *joined = post_stream(
        &rig, TEXT,
        "{" ONCE ",'ignore_eos':true,'stream':true,'return_token_ids':true,'stream_interval':8}");
    const size_t n = json_count(joined);
    EXPECT(n <= 5); /* the first token, 8, 8, the last 7 */
    test_note("%zu frames, without an interval %zu", n, json_count(each));
    for (size_t i = 1; i + 1 < n; i++)
        EXPECT(json_count(at(json_item(joined, i), "choices.0.token_ids")) >= 8);
    json_drop(each);
    json_drop(joined);
    rejected(TEXT, "{" ONCE ",'stream_interval':0}", ERR_ARG, "stream_interval: must be");
    rig_close(&rig);
}

TEST(api_answers_have_tokens_and_the_prompts_text)
{
    NEED(rig_open_context(&rig, 256));
    struct json *got =
        post(&rig, TEXT, "{" ONCE ",'return_tokens':true,'return_prompt_text':true}");
    struct json *frames = post_stream(
        &rig, TEXT, "{" ONCE ",'return_tokens':true,'return_prompt_text':true,'stream':true}");
    same_list(got, "choices.0.tokens", frames, "choices.0.tokens");
    EXPECT_TEXT(text_at(got, "choices.0.prompt_text"), "Once upon a time");
    EXPECT_TEXT(text_at(frames, "0.choices.0.prompt_text"), "Once upon a time");
    EXPECT(!at(frames, "1.choices.0.prompt_text"));
    json_drop(got);
    json_drop(frames);
    got = post(&rig, CHAT, "{" USER ",'max_tokens':2,'return_prompt_text':true}");
    EXPECT(strstr(text_at(got, "prompt_text"), "Hi") && strlen(text_at(got, "prompt_text")) > 10);
    json_drop(got);
    rig_close(&rig);
}

TEST(api_chat_template_of_a_request)
{
    NEED(rig_open_context(&rig, 256));
    struct json *got = post(&rig, CHAT,
                            "{" USER ",'max_tokens':2,'return_prompt_text':true,"
                            "'chat_template':'<<{{ messages[0].content }}>>'}");
    EXPECT_TEXT(text_at(got, "prompt_text"), "<<Hi>>");
    json_drop(got);
    rejected(CHAT, "{" USER ",'chat_template':'a\\n{% if %}'}", ERR_ARG,
             "chat_template: template line 2");
    rejected(CHAT, "{" USER ",'chat_template':3}", ERR_ARG, "chat_template: expected a string");
    rig_close(&rig);
}

TEST(api_repeated_patterns_end_an_answer)
{
    NEED(rig_open_context(&rig, 256));
#define LOOP                                                                                       \
    "'prompt':'a','temperature':0,'max_tokens':60,'ignore_eos':true,'logit_bias':{'40':100,'41':"  \
    "99}"
    struct json *got = post(&rig, TEXT,
                            "{" LOOP ",'return_tokens':true,"
                            "'repetition_detection':{'max_pattern_size':3,'min_count':5}}");
    EXPECT_TEXT(text_at(got, "choices.0.finish_reason"), "repetition");
    EXPECT_TEXT(text_at(got, "choices.0.stop_reason"), "repetition_detected");
    EXPECT(json_count(at(got, "choices.0.tokens")) == 5);
    json_drop(got);
    got = post(&rig, TEXT,
               "{" LOOP ",'min_tokens':9,'return_tokens':true,"
               "'repetition_detection':{'max_pattern_size':3,'min_pattern_size':2,'min_count':3}}");
    EXPECT(json_count(at(got, "choices.0.tokens")) == 9);
    json_drop(got);
#define DETECT(members) "{" LOOP ",'repetition_detection':{" members "}}"
    rejected(TEXT, DETECT("'max_pattern_size':300,'min_count':2"), ERR_ARG,
             "repetition_detection.max_pattern_size: must be in [0, 256], got 300");
    rejected(TEXT, DETECT("'max_pattern_size':3,'min_count':1"), ERR_ARG,
             "repetition_detection.min_count");
    rejected(TEXT, DETECT("'max_pattern_size':3,'min_pattern_size':4,'min_count':2"), ERR_ARG,
             "repetition_detection.min_pattern_size");
    rejected(TEXT, "{" LOOP ",'repetition_detection':3}", ERR_ARG,
             "repetition_detection: expected an object");
    rejected(TEXT, DETECT("'max_pattern_size':'a'"), ERR_ARG,
             "repetition_detection.max_pattern_size: expected");
    rig_close(&rig);
}

/* Read a base64 text at a path into b. */
static void decode(const struct json *got, struct buf *b)
{
    const char *text = text_at(got, "data.0.embedding");
    NEED(base64_decode(text, strlen(text), b));
}

TEST(api_embeddings_have_number_formats)
{
    static const struct {
        const char *more;
        size_t n_byte;
    } forms[] = {{"", 4},
                 {",'endianness':'big'", 4},
                 {",'embed_dtype':'float16','endianness':'little'", 2},
                 {",'embed_dtype':'bfloat16','endianness':'big'", 2},
                 {",'embed_dtype':'fp8_e4m3'", 1},
                 {",'embed_dtype':'fp8_e5m2'", 1}};
    struct buf b[6] = {{0}};
    NEED(rig_open_context(&rig, 256));
    for (int i = 0; i < 6; i++) {
        char body[200];
        snprintf(body, sizeof body, "{'input':'a','encoding_format':'base64'%s}", forms[i].more);
        struct json *got = post(&rig, "/v1/embeddings", body);
        decode(got, &b[i]);
        EXPECT(b[i].n * 4 == b[0].n * forms[i].n_byte);
        json_drop(got);
    }
    for (int k = 0; k < 4; k++) EXPECT(b[0].data[k] == b[1].data[3 - k]);
    EXPECT((b[3].data[0] & 0xFF) == (b[0].data[3] & 0xFF)); /* sign and exponent of bfloat16 */
    for (int i = 0; i < 6; i++) buf_deinit(&b[i]);
    rejected("/v1/embeddings", "{'input':'a','embed_dtype':'float16'}", ERR_ARG,
             "embed_dtype: needs encoding_format base64");
    rejected("/v1/embeddings", "{'input':'a','endianness':'big'}", ERR_ARG,
             "endianness: needs encoding_format base64");
    rejected("/v1/embeddings", "{'input':'a','endianness':'odd'}", ERR_ARG, "endianness: must be");
    rejected("/v1/embeddings", "{'input':'a','embed_dtype':'int8'}", ERR_ARG,
             "embed_dtype: must be");
    struct json *pooled =
        post(&rig, "/pooling", "{'input':'a','task':'embed','encoding_format':'base64'}");
    EXPECT(strlen(text_at(pooled, "data.0.data")) > 20);
    json_drop(pooled);
    rig_close(&rig);
}
