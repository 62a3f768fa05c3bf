/* family.c - conventions of model families that a probe of their templates cannot detect.
 *
 * The first row whose texts are in the template's source is used. A new family is a row, and a
 * function if its messages must be changed. Features that a probe detects (probe.c) need no row. */
#include "chat/template_impl.h"

#include <string.h>

static bool has_items(struct val v)
{
    return v.kind == V_LIST && v.list->n > 0;
}

/* Adapt to gpt-oss: the reasoning field is "thinking". "thinking" replaces the content of a message
 * with tool calls. */
static void adjust_harmony(struct render *r, const struct template *t, struct list *messages)
{
    (void)t;
    for (uint32_t i = 0; i < messages->n && r->rc == 0; i++) {
        struct val message = messages->v[i],
                   reasoning = message_field(r, message, "reasoning_content");
        if (reasoning.kind != V_TEXT) continue;
        dict_set(r, message.dict, "thinking", reasoning);
        if (has_items(message_field(r, message, "tool_calls")))
            dict_remove(r, message.dict, val_text("content", 7));
    }
}

/* Adapt to LFM2: the reasoning field is "thinking". */
static void adjust_lfm2(struct render *r, const struct template *t, struct list *messages)
{
    (void)t;
    for (uint32_t i = 0; i < messages->n && r->rc == 0; i++) {
        struct val reasoning = message_field(r, messages->v[i], "reasoning_content");
        if (reasoning.kind == V_TEXT) dict_set(r, messages->v[i].dict, "thinking", reasoning);
    }
}

/* Adapt to StepFun: remove white space around contents, because white space makes the model repeat
 * itself. */
static void adjust_stepfun(struct render *r, const struct template *t, struct list *messages)
{
    (void)t;
    static const char *const fields[] = {"content", "reasoning_content"};
    for (uint32_t i = 0; i < messages->n * 2 && r->rc == 0; i++) {
        struct val message = messages->v[i / 2], text = message_field(r, message, fields[i % 2]);
        if (text.kind == V_TEXT)
            dict_set(r, message.dict, fields[i % 2], text_strip(text, STRIP_BOTH));
    }
}

/* Adapt to Firefunction: the template requires the variable "functions", which may be empty. */
static void adjust_firefunction(struct render *r, const struct template *t, struct list *messages)
{
    (void)t, (void)messages;
    if (!dict_find_text(r, r->globals, "functions"))
        dict_set(r, r->globals, "functions", val_text("", 0));
}

/* ---- Gemma 4: a call, its results and the answer are one message ---- */

/* Return the JSON value in the content of a tool message; the content itself if it is not JSON. */
static struct val tool_result(struct render *r, struct val content)
{
    return content.kind == V_TEXT ? val_from_json_text(r, content) : content;
}

/* Append the result of one call. Use the name of the call at the same position, because messages of
 * role tool often have no name. */
static void add_response(struct render *r, struct list *responses, struct val calls,
                         struct val message)
{
    struct val response = val_dict(r, V_DICT), name = VAL_UNDEFINED;
    if (responses->n < calls.list->n)
        name = message_field(r, message_field(r, calls.list->v[responses->n], "function"), "name");
    if (name.kind != V_TEXT || name.n == 0) name = message_field(r, message, "tool_call_id");
    if (r->rc != 0) return;
    dict_set(r, response.dict, "name", name.kind == V_TEXT ? name : val_text("", 0));
    dict_set(r, response.dict, "response", tool_result(r, message_field(r, message, "content")));
    list_add(r, responses, response);
}

/* Merge an assistant message with calls, its results and the following answer into one message.
 * Do nothing for newer templates, which merge messages themselves. The first comment of a template
 * identifies its version. */
static void adjust_gemma4(struct render *r, const struct template *t, struct list *messages)
{
    uint32_t out = 0;
    if (strstr(t->source, "{#- OpenAI Chat Completions:")) return;
    for (uint32_t i = 0; i < messages->n && r->rc == 0; out++) {
        struct val message = messages->v[i++], calls = message_field(r, message, "tool_calls");
        messages->v[out] = message;
        if (!message_role_is(r, message, "assistant") || !has_items(calls)) continue;
        struct val responses = val_list(r, V_LIST, 0);
        while (i < messages->n && message_role_is(r, messages->v[i], "tool"))
            add_response(r, responses.list, calls, messages->v[i++]);
        if (has_items(responses)) dict_set(r, message.dict, "tool_responses", responses);
        dict_remove(r, message.dict, val_text("content", 7));
        if (i >= messages->n || !message_role_is(r, messages->v[i], "assistant")) continue;
        struct val answer = message_field(r, messages->v[i], "content");
        if (has_items(message_field(r, messages->v[i], "tool_calls")) || !val_truth(answer))
            continue;
        dict_set(r, message.dict, "content", answer);
        i++;
    }
    messages->n = out;
}

/* ---- DeepSeek V4: results in the order of the calls ---- */

/* Return the position of the call that a result belongs to; 0 if its id is unknown. */
static int64_t call_order(struct render *r, const struct list *calls, struct val message)
{
    struct val id = message_field(r, message, "tool_call_id");
    for (uint32_t i = 0; i < calls->n && r->rc == 0; i++) {
        struct val other = message_field(r, calls->v[i], "id");
        if (id.kind == V_TEXT && id.n > 0 && val_equal(r, id, other)) return i;
    }
    return 0;
}

/* Sort the tool messages among v[0, n) by insertion, stably. Other messages keep their
 * positions. */
static void sort_results(struct render *r, const struct list *calls, struct val *v, uint32_t n)
{
    for (uint32_t i = 0; i < n && r->rc == 0; i++) {
        if (!message_role_is(r, v[i], "tool")) continue;
        for (uint32_t k = i, hole = i; k-- > 0 && r->rc == 0;) {
            if (!message_role_is(r, v[k], "tool")) continue;
            if (call_order(r, calls, v[k]) <= call_order(r, calls, v[hole])) break;
            struct val swap = v[k];
            v[k] = v[hole];
            v[hole] = swap;
            hole = k;
        }
    }
}

/* Sort the results of each turn in the order of the calls of the last assistant message, because
 * clients may send results in any order. */
static void adjust_deepseek_v4(struct render *r, const struct template *t, struct list *messages)
{
    (void)t;
    struct val calls = VAL_UNDEFINED;
    for (uint32_t i = 0; i < messages->n && r->rc == 0;) {
        uint32_t end = i;
        while (end < messages->n && (message_role_is(r, messages->v[end], "user") ||
                                     message_role_is(r, messages->v[end], "tool")))
            end++;
        if (has_items(calls)) sort_results(r, calls.list, messages->v + i, end - i);
        struct val at =
            end < messages->n ? message_field(r, messages->v[end], "tool_calls") : VAL_UNDEFINED;
        if (has_items(at)) calls = at;
        i = end + 1;
    }
}

/* ---- the table of families ---- */

static const struct family families[] = {
    {.name = "harmony",
     .has = {"<|channel|>"},
     .adjust = adjust_harmony,
     .keeps_developer = true,
     .thinking = {"<|start|>assistant", "<|channel|>analysis<|message|>",
                  "<|end|><|start|>assistant<|channel|>final<|message|>"}},
    {.name = "functionary_v3_2",
     .has = {">>>all", ">>>${recipient}"},
     .thinking = {.opening = "<|start_header_id|>assistant<|end_header_id|>\n\n>>>all\n"}},
    {.name = "kimi_k2",
     .has = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"},
     .thinking = {.open = "<think>", .close = "</think>"}},
    {.name = "cohere2",
     .has = {"<|START_TEXT|>", "<|START_ACTION|>"},
     .thinking = {.open = "<|START_THINKING|>", .close = "<|END_THINKING|><|START_TEXT|>"}},
    {.name = "lfm2",
     .has = {"<|tool_list_start|>", "<|tool_list_end|>"},
     .adjust = adjust_lfm2,
     .thinking = {.open = "<think>", .close = "</think>"}},
    {.name = "lfm2_5",
     .has = {"List of tools: ["},
     .lacks = "<|tool_list_start|>",
     .adjust = adjust_lfm2,
     .thinking = {.open = "<think>", .close = "</think>"}},
    {.name = "deepseek_v3_2",
     .has = {"dsml_token", "DSML", "function_calls"},
     .thinking = {.open = "<think>", .close = "</think>"}},
    {.name = "deepseek_v4",
     .has = {"dsml_token", "DSML", "tool_calls"},
     .adjust = adjust_deepseek_v4,
     .closed = "</think>",
     .thinking = {.open = "<think>", .close = "</think>"}},
    {.name = "gemma4",
     .has = {"'<|tool_call>call:'"},
     .adjust = adjust_gemma4,
     .turn_end = "<turn|>\n",
     .turn_begin = "<|turn>model\n",
     .thinking = {.open = "<|channel>thought\n", .close = "<channel|>"}},
    {.name = "stepfun",
     .has = {"You have access to the following functions in JSONSchema format"},
     .adjust = adjust_stepfun,
     .thinking = {.open = "<think>\n", .close = "\n</think>\n\n"}},
    {.name = "minicpm5",
     .has = {"Tool usage guidelines:", "<function name=\"", "<param name=\""},
     .thinking = {.open = "<think>\n", .close = "\n</think>\n\n"}},
    {.name = "qwen3_xml",
     .has = {"<tool_call>", "<function=", "<parameter=", "<think>"},
     .thinking = {.open = "<think>\n", .close = "\n</think>\n\n"}},
    {.name = "nemotron_nano_v2",
     .has = {"<SPECIAL_10>", "<TOOLCALL>"},
     .thinking = {.open = "<think>\n", .close = "</think>"}},
    {.name = "firefunction", .has = {"functools[", "+ functions"}, .adjust = adjust_firefunction},
};

/* Return true if a template's source has the texts of a family. The source must contain all texts
 * of `has`, and must not contain `lacks`. */
static bool fits(const struct family *f, const char *source)
{
    for (int i = 0; i < 4 && f->has[i]; i++)
        if (!strstr(source, f->has[i])) return false;
    return !f->lacks || !strstr(source, f->lacks);
}

const struct family *family_of(const char *source)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (fits(&families[i], source)) return &families[i];
    return NULL;
}
