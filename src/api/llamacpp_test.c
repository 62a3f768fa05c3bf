/* Goal: /completion and /infill have the fields and the answers of llama.cpp's server, whole and in
 * pieces. Method: send JSON bodies to the bundled model without sockets, and compare the texts with
 * those of completions. */
#include "llamacpp.h"
#include "rig_test.h"

#define OURS "/completion"
#define TEXT "/v1/completions"
#define ONCE "'prompt':'Once upon a time','seed':5"

/* Return the joined `content` of a stream's events. The caller frees it. */
static char *joined(const struct json *events)
{
    struct buf b = {0};
    for (size_t i = 0; i < json_count(events); i++)
        buf_add_text(&b, text_at(json_item(events, i), "content"));
    buf_add_char(&b, 0);
    return b.data;
}

TEST(llamacpp_answers_have_the_texts_of_completions)
{
    NEED(rig_open_context(&rig, 256));
    struct json *got = post(&rig, OURS, "{" ONCE ",'n_predict':24,'return_tokens':true}");
    struct json *want = post(&rig, TEXT, "{" ONCE ",'max_tokens':24,'return_tokens':true}");
    EXPECT_TEXT(text_at(got, "content"), text_at(want, "choices.0.text"));
    EXPECT(json_count(at(got, "tokens")) == json_count(at(want, "choices.0.tokens")));
    EXPECT(json_bool(at(got, "stop"), false) && !json_bool(at(got, "truncated"), true));
    EXPECT_INT(json_int(at(got, "tokens_evaluated"), -1),
               json_int(at(want, "usage.prompt_tokens"), -2));
    EXPECT_INT(json_int(at(got, "tokens_predicted"), -1),
               json_int(at(want, "usage.completion_tokens"), -2));
    EXPECT_TEXT(text_at(got, "prompt"), "Once upon a time");
    EXPECT_TEXT(text_at(got, "model"), "tiny");
    EXPECT_INT(json_int(at(got, "generation_settings.n_predict"), -1), 24);
    EXPECT_INT(json_int(at(got, "generation_settings.seed"), -1), 5);
    EXPECT_INT(json_int(at(got, "timings.predicted_n"), -1),
               json_int(at(got, "tokens_predicted"), -2));
    EXPECT(json_real(at(got, "timings.predicted_per_second"), 0) > 0);
    EXPECT_INT(json_int(at(got, "timings.prompt_n"), 0) + json_int(at(got, "timings.cache_n"), 0),
               json_int(at(got, "tokens_evaluated"), -1));
    json_drop(got);
    json_drop(want);
    got = post(&rig, OURS, "{" ONCE ",'n_predict':4}");
    EXPECT(json_count(at(got, "tokens")) == 0 && at(got, "tokens"));
    EXPECT(!at(got, "completion_probabilities"));
    EXPECT_TEXT(text_at(got, "stop_type"), "limit");
    json_drop(got);
    rig_close(&rig);
}

TEST(llamacpp_answers_give_the_reason_for_their_end)
{
    NEED(rig_open_context(&rig, 64));
    struct json *got = post(&rig, OURS, "{" ONCE ",'stop':['a','e'],'n_predict':40}");
    EXPECT_TEXT(text_at(got, "stop_type"), "word");
    EXPECT(strlen(text_at(got, "stopping_word")) == 1);
    EXPECT(!strpbrk(text_at(got, "content"), "ae"));
    json_drop(got);
    got = post(&rig, OURS, "{" ONCE ",'grammar':'root ::= \\\"x\\\"'}");
    EXPECT_TEXT(text_at(got, "content"), "x");
    EXPECT_TEXT(text_at(got, "stop_type"), "eos");
    EXPECT_TEXT(text_at(got, "generation_settings.grammar"), "root ::= \"x\"");
    json_drop(got);
    /* n_predict is -1 by default, so the context ends the answer */
    got = post(&rig, OURS, "{" ONCE ",'ignore_eos':true}");
    EXPECT_TEXT(text_at(got, "stop_type"), "limit");
    EXPECT(json_bool(at(got, "truncated"), false));
    EXPECT_INT(json_int(at(got, "generation_settings.n_predict"), 0), -1);
    EXPECT_INT(json_int(at(got, "tokens_evaluated"), 0) + json_int(at(got, "tokens_predicted"), 0),
               64);
    json_drop(got);
    got = post(&rig, OURS, "{" ONCE ",'n_predict':0}");
    EXPECT_TEXT(text_at(got, "content"), "");
    EXPECT_INT(json_int(at(got, "tokens_predicted"), -1), 0);
    json_drop(got);
    rig_close(&rig);
}

TEST(llamacpp_prompts_have_all_forms)
{
    NEED(rig_open_context(&rig, 256));
    static const char *const same[] = {
        "{'prompt':'Once upon','n_predict':3,'temperature':0}",
        "{'prompt':['Once upon'],'n_predict':3,'temperature':0}",
        "{'prompt':{'prompt_string':'Once upon'},'n_predict':3,'temperature':0}",
        "{'prompt':[{'prompt_string':'Once upon','multimodal_data':[]}],'n_predict':3,"
        "'temperature':0}",
    };
    char first[100] = "";
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct json *got = post(&rig, OURS, same[i]);
        if (i == 0) snprintf(first, sizeof first, "%s", text_at(got, "content"));
        EXPECT_TEXT(text_at(got, "content"), first);
        json_drop(got);
    }
    /* several prompts, and several choices, are a list */
    struct json *got = post(&rig, OURS,
                            "{'prompt':['Once upon',[40,41],[40,'b',41],{'prompt_string':'c'}],"
                            "'n_predict':3,'temperature':0,'n_cmpl':2}");
    EXPECT(json_kind(got) == JK_LIST && json_count(got) == 8);
    for (int i = 0; i < 8; i++)
        EXPECT_INT(json_int(json_field(json_item(got, (size_t)i), "index"), -1), i);
    EXPECT_TEXT(text_at(got, "0.content"), first);
    EXPECT_TEXT(text_at(got, "1.content"), first);
    EXPECT_INT(json_int(at(got, "2.tokens_evaluated"), -1), 2);
    json_drop(got);
    rejected(OURS, "{'n_predict':3}", ERR_ARG, "prompt: expected a prompt, got nothing");
    rejected(OURS, "{'prompt':[]}", ERR_ARG, "prompt: must have at least 1 entry");
    rejected(OURS, "{'prompt':[40,-1]}", ERR_ARG, "prompt[1]: out of vocabulary");
    rejected(OURS, "{'prompt':{'prompt_string':3}}", ERR_ARG, "prompt.prompt_string: expected");
    rejected(OURS, "{'prompt':{'prompt_string':'a','multimodal_data':['AA==']}}", ERR_UNSUPPORTED,
             "prompt.multimodal_data: not supported yet");
    rig_close(&rig);
}

TEST(llamacpp_streams_have_an_event_per_text)
{
    NEED(rig_open_context(&rig, 256));
    struct json *got =
        post(&rig, OURS, "{" ONCE ",'n_predict':20,'return_tokens':true,'n_probs':2}");
    struct json *events = post_stream(
        &rig, OURS, "{" ONCE ",'n_predict':20,'n_probs':2,'timings_per_token':true,'stream':true}");
    const size_t n = json_count(events);
    char *text = joined(events);
    size_t n_token = 0, n_prob = 0;
    int64_t before = 0;
    EXPECT(n >= 2);
    EXPECT_TEXT(text, text_at(got, "content"));
    for (size_t i = 0; i + 1 < n; i++) {
        const struct json *e = json_item(events, i);
        const int64_t predicted = json_int(at(e, "timings.predicted_n"), -1);
        n_token += json_count(at(e, "tokens"));
        n_prob += json_count(at(e, "completion_probabilities"));
        EXPECT(!json_bool(at(e, "stop"), true) && !at(e, "stop_type"));
        EXPECT(predicted > before);
        before = predicted;
    }
    const struct json *last = json_item(events, n - 1);
    EXPECT(n_token == json_count(at(got, "tokens")) && n_token > 0);
    EXPECT(n_prob == json_count(at(got, "completion_probabilities")) && n_prob == n_token);
    EXPECT(json_count(at(got, "completion_probabilities.0.top_logprobs")) == 2);
    EXPECT(json_bool(at(last, "stop"), false));
    EXPECT_TEXT(text_at(last, "content"), "");
    EXPECT_TEXT(text_at(last, "stop_type"), text_at(got, "stop_type"));
    EXPECT(at(last, "generation_settings.temperature") && at(last, "timings.prompt_ms"));
    free(text);
    json_drop(got);
    json_drop(events);
    events = post_stream(&rig, OURS, "{" ONCE ",'n_predict':5,'stream':true}");
    EXPECT(!at(events, "0.timings") && !at(events, "0.prompt_progress"));
    json_drop(events);
    rig_close(&rig);
}

TEST(llamacpp_probabilities_after_the_samplers)
{
    NEED(rig_open_context(&rig, 256));
    struct json *got = post(
        &rig, OURS, "{" ONCE ",'n_predict':2,'n_probs':5,'top_k':2,'post_sampling_probs':true}");
    EXPECT(json_count(at(got, "completion_probabilities.0.top_probs")) == 2);
    EXPECT(json_real(at(got, "completion_probabilities.0.prob"), 0) > 0);
    EXPECT(json_bool(at(got, "generation_settings.post_sampling_probs"), false));
    EXPECT_INT(json_int(at(got, "generation_settings.n_probs"), 0), 5);
    json_drop(got);
    rejected(OURS, "{" ONCE ",'n_probs':21}", ERR_ARG, "n_probs: must be in [0, 20]");
    rig_close(&rig);
}

TEST(llamacpp_answers_have_the_selected_members)
{
    NEED(rig_open_context(&rig, 256));
    struct json *got = post(&rig, OURS,
                            "{" ONCE ",'n_predict':3,'response_fields':['content',"
                            "'generation_settings/n_predict','nothing','timings/none','content']}");
    EXPECT(json_count(got) == 2 && at(got, "content"));
    EXPECT_INT(json_int(json_field(got, "generation_settings/n_predict"), -1), 3);
    json_drop(got);
    struct json *events = post_stream(
        &rig, OURS, "{" ONCE ",'n_predict':3,'stream':true,'response_fields':['stop_type']}");
    EXPECT(at(events, "0.tokens_predicted") != NULL);
    EXPECT(json_count(json_item(events, json_count(events) - 1)) == 1);
    json_drop(events);
    rejected(OURS, "{" ONCE ",'response_fields':3}", ERR_ARG, "response_fields: expected");
    rejected(OURS, "{" ONCE ",'response_fields':[3]}", ERR_ARG, "response_fields");
    rig_close(&rig);
}

TEST(llamacpp_lines_end_an_answer)
{
    NEED(rig_open_context(&rig, 512));
#define LINES "'prompt':'a','guided_choice':['  a\\n  b\\nc\\n  d']"
    struct json *got = post(&rig, OURS, "{" LINES "}");
    EXPECT_TEXT(text_at(got, "content"), "  a\n  b\nc\n  d");
    EXPECT(json_bool(at(got, "has_new_line"), false));
    json_drop(got);
    got = post(&rig, OURS, "{" LINES ",'n_indent':2}");
    EXPECT_TEXT(text_at(got, "content"), "  a\n  b\n");
    EXPECT_TEXT(text_at(got, "stop_type"), "limit");
    EXPECT(!json_bool(at(got, "truncated"), true));
    json_drop(got);
    struct json *events = post_stream(&rig, OURS, "{" LINES ",'n_indent':2,'stream':true}");
    char *text = joined(events);
    EXPECT_TEXT(text, "  a\n  b\n");
    free(text);
    json_drop(events);
    got = post(&rig, TEXT, "{" LINES ",'n_indent':1}");
    EXPECT_TEXT(text_at(got, "choices.0.text"), "  a\n  b\n");
    EXPECT_TEXT(text_at(got, "choices.0.finish_reason"), "length");
    json_drop(got);
#define ENDS                                                                                       \
    "'prompt':'a','ignore_eos':true,'temperature':0,'n_predict':300,'logit_bias':[['\\n',100]]"
    got = post(&rig, OURS, "{" ENDS ",'t_max_predict_ms':1}");
    EXPECT(json_int(at(got, "tokens_predicted"), 300) < 300);
    EXPECT_TEXT(text_at(got, "stop_type"), "limit");
    json_drop(got);
    got = post(&rig, OURS, "{" ENDS ",'t_max_predict_ms':1000000}");
    EXPECT_INT(json_int(at(got, "tokens_predicted"), 0), 300);
    json_drop(got);
    rejected(OURS, "{" ONCE ",'n_indent':'a'}", ERR_ARG, "n_indent: expected an integer");
    rejected(OURS, "{" ONCE ",'t_max_predict_ms':1.5}", ERR_ARG, "t_max_predict_ms: expected");
    rig_close(&rig);
}

TEST(llamacpp_figures_of_openais_answers)
{
    NEED(rig_open_context(&rig, 2048));
    struct json *got = post(&rig, TEXT, "{" ONCE ",'max_tokens':4,'timings_per_token':true}");
    EXPECT_INT(json_int(at(got, "timings.predicted_n"), -1), 4);
    EXPECT(json_real(at(got, "timings.prompt_ms"), -1) >= 0);
    json_drop(got);
    got = post(&rig, TEXT, "{" ONCE ",'max_tokens':4}");
    EXPECT(!at(got, "timings"));
    json_drop(got);
    struct json *events =
        post_stream(&rig, "/v1/chat/completions",
                    "{'messages':[{'role':'user','content':'Hi'}],'max_tokens':4,'stream':true,"
                    "'timings_per_token':true}");
    for (size_t i = 0; i < json_count(events); i++)
        EXPECT(at(json_item(events, i), "timings.prompt_n") != NULL);
    json_drop(events);
    rejected(TEXT, "{" ONCE ",'timings_per_token':3}", ERR_ARG, "timings_per_token: expected");
    rejected(TEXT, "{" ONCE ",'sse_ping_interval':0}", ERR_ARG, "sse_ping_interval: must be -1");
    rejected(TEXT, "{" ONCE ",'sse_ping_interval':-2}", ERR_ARG, "sse_ping_interval: must be");
    rig_close(&rig);
}

/* Check that the events before the first token have a rising number of the prompt's tokens. */
static void rises(const char *url, const char *body)
{
    struct json *events = post_stream(&rig, url, body);
    int64_t before = 0, total = 0;
    size_t i = 0;
    for (; at(json_item(events, i), "prompt_progress"); i++) {
        const struct json *p = at(json_item(events, i), "prompt_progress");
        const int64_t n = json_int(json_field(p, "processed"), -1);
        total = json_int(json_field(p, "total"), -1);
        EXPECT(n > before && n <= total && json_int(json_field(p, "cache"), -1) >= 0);
        EXPECT(json_int(json_field(p, "time_ms"), -1) >= 0);
        before = n;
    }
    test_note("%s: %zu events of progress", url, i);
    EXPECT(i >= 2 && before == total && total > 1000);
    for (; i < json_count(events); i++) EXPECT(!at(json_item(events, i), "prompt_progress"));
    json_drop(events);
}

TEST(llamacpp_progress_of_the_prompt)
{
    NEED(rig_open_context(&rig, 2048));
    struct buf b = {0};
    buf_add_text(&b, "{'max_tokens':3,'stream':true,'return_progress':true,'prompt':[");
    for (int i = 0; i < 1500; i++) buf_addf(&b, "%s%d", i ? "," : "", 40 + i % 7);
    buf_add_text(&b, "]}");
    if (b.failed) test_fail(__FILE__, __LINE__, "no memory");
    rises(OURS, b.data);
    buf_clear(&b);
    buf_add_text(&b, "{'max_tokens':3,'stream':true,'return_progress':true,'prompt':[");
    for (int i = 0; i < 1500; i++) buf_addf(&b, "%s%d", i ? "," : "", 50 + i % 5);
    buf_add_text(&b, "]}");
    rises(TEXT, b.data);
    buf_deinit(&b);
    rig_close(&rig);
}

TEST(llamacpp_infill_needs_marks)
{
    NEED(rig_open_context(&rig, 256));
    rejected("/infill", "{'input_prefix':'a','input_suffix':'b'}", ERR_UNSUPPORTED,
             "model: Infill is not supported by this model: prefix token is missing.");
    rejected("/infill", "{'input_prefix':'a','input_suffix':'b','messages':[1]}", ERR_UNSUPPORTED,
             "messages: not supported by this endpoint");
    rejected(OURS, "{'prompt':'a','input_prefix':'a'}", ERR_UNSUPPORTED,
             "input_prefix: not supported by this endpoint");
    rejected(OURS, "{'prompt':'a','lora':[{'id':0,'scale':1}]}", ERR_UNSUPPORTED,
             "lora: not supported yet");
    rig_close(&rig);
}

/* Make the prompt of a body for /infill, with invented marks. The caller frees the result. */
static struct request *infill(const char *body, const struct llamacpp_marks *marks, int max_tokens,
                              struct arena *a, int want, const char *why)
{
    struct err e = {0};
    struct json *sent = parse(body);
    struct request *r = request_open(&e);
    if (!r) test_fail(__FILE__, __LINE__, "%s", e.text);
    r->max_tokens = max_tokens;
    const int rc = llamacpp_infill(r, &rig.api, marks, sent, a, &e);
    if (rc != want || (want && strncmp(e.text, why, strlen(why)) != 0))
        test_fail(__FILE__, __LINE__, "%.200s: %d %s", body, rc, e.text);
    json_drop(sent);
    return r;
}

/* Append the tokens of a text. */
static void add(struct ids *ids, const char *text)
{
    if (tokenizer_encode(rig.session.tokenizer, text, strlen(text), 0, ids, NULL) != 0)
        test_fail(__FILE__, __LINE__, "%s", text);
}

static void same_ids(const struct ids *got, const struct ids *want)
{
    EXPECT_INT((int)got->n, (int)want->n);
    for (size_t i = 0; i < got->n && i < want->n; i++) EXPECT_INT(got->v[i], want->v[i]);
}

TEST(llamacpp_infill_prompts)
{
    enum { PRE = 301, SUF, MID, REPO, FILE_MARK, PAD };
    struct llamacpp_marks marks = {.id = {PRE, SUF, MID, -1, -1, -1}};
    struct arena a = {0};
    struct ids want = {0};
    NEED(rig_open_context(&rig, 1024));
    const struct tokenizer *t = rig.session.tokenizer;
    const size_t n_bos = tokenizer_adds_bos(t);
    struct request *r =
        infill("{'input_prefix':'def f():','input_suffix':'return x','prompt':'  x',"
               "'input_extra':[{'filename':'b.py','text':'y = 1'}]}",
               &marks, 64, &a, 0, NULL);
    if (n_bos) EXPECT(vec_push(&want, tokenizer_bos(t)));
    add(&want, "\n\n--- snippet ---\n\n");
    add(&want, "y = 1");
    EXPECT(vec_push(&want, PRE));
    add(&want, "def f():");
    add(&want, "  x");
    EXPECT(vec_push(&want, SUF));
    add(&want, "return x");
    EXPECT(vec_push(&want, MID));
    same_ids(&r->prompt, &want);
    EXPECT_INT(r->params.n_stop_id, 0);
    request_close(r);
    /* with marks of files, files have names; these marks end the answer */
    marks = (struct llamacpp_marks){.id = {PRE, SUF, MID, REPO, FILE_MARK, PAD}};
    want.n = 0;
    if (n_bos) EXPECT(vec_push(&want, tokenizer_bos(t)));
    EXPECT(vec_push(&want, REPO));
    add(&want, "myproject\n");
    EXPECT(vec_push(&want, FILE_MARK));
    add(&want, "b.py\n");
    add(&want, "y = 1");
    EXPECT(vec_push(&want, FILE_MARK));
    add(&want, "tmp\n");
    add(&want, "z");
    EXPECT(vec_push(&want, FILE_MARK));
    add(&want, "filename\n");
    EXPECT(vec_push(&want, PRE) && vec_push(&want, SUF) && vec_push(&want, MID));
    r = infill("{'input_prefix':'','input_suffix':'','input_extra':[{'filename':'b.py','text':'y = "
               "1'},{'text':'z'}]}",
               &marks, 64, &a, 0, NULL);
    same_ids(&r->prompt, &want);
    EXPECT_INT(r->params.n_stop_id, 3);
    request_close(r);
    vec_deinit(&want);
    arena_deinit(&a);
    rig_close(&rig);
}

TEST(llamacpp_infill_prompts_with_the_suffix_first)
{
    enum { PRE = 301, SUF = 302 };
    const struct llamacpp_marks marks = {.id = {PRE, SUF, -1, -1, -1, -1}, .suffix_first = true},
                                none = {.id = {PRE, SUF, -1, -1, -1, -1}};
    struct arena a = {0};
    struct ids want = {0};
    struct err e = {0};
    NEED(rig_open_context(&rig, 1024));
    const struct tokenizer *t = rig.session.tokenizer;
    struct request *r =
        infill("{'input_prefix':'def f():','input_suffix':'return x'}", &marks, 64, &a, 0, NULL);
    if (tokenizer_adds_bos(t)) EXPECT(vec_push(&want, tokenizer_bos(t)));
    EXPECT(vec_push(&want, SUF));
    add(&want, "return x");
    EXPECT(vec_push(&want, PRE));
    add(&want, "def f():");
    same_ids(&r->prompt, &want);
    request_close(r);
    struct llamacpp_gap none_gap;
    struct api_call c = {.api = &rig.api};
    EXPECT_INT(llamacpp_gap_open(&none_gap, &c, &none, "b", 1, &e), ERR_UNSUPPORTED);
    EXPECT_TEXT(e.field, "suffix");
    llamacpp_gap_close(&none_gap);
    vec_deinit(&want);
    arena_deinit(&a);
    rig_close(&rig);
}

TEST(llamacpp_a_gap_is_tokenized_once_for_all_prompts)
{
    enum { PRE = 301, SUF, MID, PAD, N = 3 };
    const struct llamacpp_marks marks = {.id = {PRE, SUF, MID, -1, -1, PAD}};
    const char *const before[N] = {"def f():", "x", ""};
    struct part parts[N] = {0};
    struct ids want = {0};
    struct err e = {0};
    struct llamacpp_gap gap;
    NEED(rig_open_context(&rig, 256));
    const struct tokenizer *t = rig.session.tokenizer;
    struct api_call c = {.api = &rig.api, .part = parts, .n_part = N};
    NEED_OK(llamacpp_gap_open(&gap, &c, &marks, "return x", 8, &e), &e);
    for (int i = 0; i < N; i++) {
        NEED((parts[i].request = request_open(&e)) != NULL);
        if (tokenizer_adds_bos(t)) EXPECT(vec_push(&parts[i].request->prompt, tokenizer_bos(t)));
        add(&parts[i].request->prompt, before[i]);
    }
    NEED_OK(llamacpp_fill(&c, &gap, &e), &e);
    for (int i = 0; i < N; i++) {
        const struct request *r = parts[i].request;
        want.n = 0;
        if (tokenizer_adds_bos(t)) EXPECT(vec_push(&want, tokenizer_bos(t)));
        EXPECT(vec_push(&want, PRE));
        add(&want, before[i]);
        EXPECT(vec_push(&want, SUF));
        add(&want, "return x");
        EXPECT(vec_push(&want, MID));
        same_ids(&r->prompt, &want);
        EXPECT_INT(r->params.n_stop_id, 1);
        EXPECT_INT(r->params.stop_id[0], PAD);
        EXPECT(r->params.stop_id == parts[0].request->params.stop_id);
    }
    llamacpp_gap_close(&gap);
    /* copies for all prompts are limited, before the first one is made */
    gap.suffix.n = 8193;
    c.n_part = 2048;
    EXPECT_INT(llamacpp_fill(&c, &gap, &e), ERR_LIMIT);
    EXPECT_TEXT(e.field, "suffix");
    for (int i = 0; i < N; i++) request_close(parts[i].request);
    arena_deinit(&c.lists);
    vec_deinit(&want);
    rig_close(&rig);
}

TEST(llamacpp_a_gap_must_fit_into_the_context)
{
    const struct llamacpp_marks marks = {.id = {301, 302, 303, -1, -1, -1}};
    struct llamacpp_gap gap;
    struct buf b = {0};
    struct err e = {0};
    NEED(rig_open_context(&rig, 256));
    const struct api_call c = {.api = &rig.api};
    for (int i = 0; i < 1000; i++) buf_addf(&b, "%d ", i);
    EXPECT_INT(llamacpp_gap_open(&gap, &c, &marks, b.data, b.n, &e), ERR_LIMIT);
    EXPECT_TEXT(e.field, "suffix");
    EXPECT(gap.suffix.n > 256);
    llamacpp_gap_close(&gap);
    /* a very long text is not tokenized */
    for (int i = 0; i < 100000; i++) buf_addf(&b, "%d ", i);
    NEED(!b.failed);
    EXPECT_INT(llamacpp_gap_open(&gap, &c, &marks, b.data, b.n, &e), ERR_LIMIT);
    EXPECT_TEXT(e.field, "suffix");
    EXPECT_INT((int)gap.suffix.n, 0);
    llamacpp_gap_close(&gap);
    buf_deinit(&b);
    rig_close(&rig);
}

TEST(llamacpp_infill_prompts_fit_into_the_context)
{
    const struct llamacpp_marks marks = {.id = {301, 302, 303, -1, -1, -1}};
    struct arena a = {0};
    struct buf b = {0}, text = {0};
    NEED(rig_open_context(&rig, 256));
    for (int i = 0; i < 60000; i++) buf_addf(&text, "%d ", i);
    buf_addf(
        &b, "{'input_prefix':'%s','input_suffix':'%s','input_extra':[{'text':'%s'},{'text':'%s'}]}",
        text.data, text.data, text.data, text.data);
    if (b.failed) test_fail(__FILE__, __LINE__, "no memory");
    struct request *r = infill(b.data, &marks, 20, &a, 0, NULL);
    const struct ids *p = &r->prompt;
    EXPECT(p->n + 20 <= 256 && p->n > 128);
    size_t suffix = 0;
    while (suffix < p->n && p->v[suffix] != 302) suffix++;
    EXPECT(p->v[p->n - 1] == 303 && p->n - 2 - suffix == 30); /* a quarter of 128, less 2 */
    struct ids first = {0};
    add(&first, "0 1 2 3 4 5");
    for (size_t i = 0; i + 1 < first.n; i++) EXPECT_INT(p->v[suffix + 1 + i], first.v[i]);
    vec_deinit(&first);
    request_close(r);
    request_close(infill("{'input_suffix':''}", &marks, 9, &a, ERR_ARG,
                         "input_prefix: expected a string, got nothing"));
    request_close(infill("{'input_prefix':'','input_suffix':3}", &marks, 9, &a, ERR_ARG,
                         "input_suffix: expected a string, got an integer"));
    request_close(infill("{'input_prefix':'','input_suffix':'','prompt':[3]}", &marks, 9, &a,
                         ERR_ARG, "prompt: expected a string"));
    request_close(infill("{'input_prefix':'','input_suffix':'','input_extra':{}}", &marks, 9, &a,
                         ERR_ARG, "input_extra: expected a list of objects"));
    request_close(infill("{'input_prefix':'','input_suffix':'','input_extra':[3]}", &marks, 9, &a,
                         ERR_ARG, "input_extra[0]: expected an object"));
    request_close(infill("{'input_prefix':'','input_suffix':'','input_extra':[{}]}", &marks, 9, &a,
                         ERR_ARG, "input_extra[0].text: expected a string, got nothing"));
    buf_deinit(&b);
    buf_deinit(&text);
    arena_deinit(&a);
    rig_close(&rig);
}

TEST(llamacpp_probabilities_end_before_the_stop_string)
{
    char body[200];
    NEED(rig_open_context(&rig, 256));
    struct json *all = post(&rig, OURS, "{" ONCE ",'n_predict':12,'n_probs':1,'temperature':0}");
    const struct json *probs = at(all, "completion_probabilities");
    const char *content = text_at(all, "content");
    EXPECT(json_count(probs) > 6);
    /* the stop string is the text of tokens 4 and 5, the first place of which is unique here */
    const char *a = text_at(json_item(probs, 4), "token"),
               *b = text_at(json_item(probs, 5), "token");
    snprintf(body, sizeof body,
             "{" ONCE ",'n_predict':12,'n_probs':1,'temperature':0,'stop':['%s%s']%%s}", a, b);
    char text[300];
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, body, i ? ",'include_stop_str_in_output':true" : "");
        struct json *got = post(&rig, OURS, text);
        const char *begin = text_at(got, "content");
        EXPECT_TEXT(text_at(got, "stop_type"), "word");
        EXPECT(strncmp(content, begin, strlen(begin)) == 0);
        EXPECT_INT(json_count(at(got, "completion_probabilities")), i ? 6 : 4);
        json_drop(got);
    }
    json_drop(all);
    rig_close(&rig);
}
