/* probe.c - what a template supports, found by rendering small conversations and reading the
 * result.
 *
 * A marker in the conversation that comes out in the prompt was used; one that is missing, or comes
 * out as part of a printed Python list, was not. Output before a failure counts: a template that
 * prints the system message and then refuses the turn order does support it. Probes run under tight
 * limits. */
#include "chat/template_impl.h"

#include <string.h>

#define CALLS(arguments)                                                                           \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"qUser\"},{\"role\":\"assistant\","            \
    "\"content\":\"\","                                                                            \
    "\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\",\"function\":{\"name\":"          \
    "\"qCalled\","                                                                                 \
    "\"arguments\":" arguments "}}]},{\"role\":\"tool\",\"tool_call_id\":\"call00001\","           \
    "\"name\":\"qCalled\",\"content\":\"qResult\"},{\"role\":\"assistant\",\"content\":\"qDone\"}" \
    ","                                                                                            \
    "{\"role\":\"user\",\"content\":\"qUser\"}],\"tools\":[{\"type\":\"function\",\"function\":"   \
    "{\"name\":\"qTool\",\"description\":\"d\",\"parameters\":{\"type\":\"object\","               \
    "\"properties\":"                                                                              \
    "{\"qArg\":{\"type\":\"string\",\"description\":\"d\"}},\"required\":[\"qArg\"]}}}]}"

static const char with_text[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"qUser\"}]}";
static const char with_parts[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"qUser\"}]}]}";
static const char with_system[] = "{\"messages\":[{\"role\":\"system\",\"content\":\"qSystem\"},{"
                                  "\"role\":\"user\",\"content\":\"qUser\"}]}";
static const char with_system_parts[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"qSystem\"}]},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"qUser\"}]}]}";
static const char with_object[] = CALLS("{\"qArg\":\"qValue\"}");
static const char with_json_text[] = CALLS("\"{\\\"qArg\\\":\\\"qValue\\\"}\"");
static const char with_reasoning[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"qUser\"},{\"role\":\"assistant\",\"content\":"
    "\"qContent\","
    "\"reasoning_content\":\"qReason\"}],\"enable_thinking\":true}";

/* The prompt of one probe, or as much of it as there was before it failed. */
static bool probe(const struct template *t, const char *conversation, struct buf *prompt)
{
    struct render r;
    struct json *j = NULL;
    struct template_limits limits = {
        .n_step_max = 300000, .n_byte_max = 8 << 20, .n_byte_out_max = 1 << 20};
    buf_clear(prompt);
    if (json_parse(&j, conversation, strlen(conversation), NULL, NULL) != 0) return false;
    render_begin(&r, t, &limits, 0, NULL);
    struct val context = val_from_json(&r, j);
    if (context.kind == V_DICT) r.globals = context.dict;
    dict_set(&r, r.globals, "bos_token", val_text("", 0));
    dict_set(&r, r.globals, "eos_token", val_text("", 0));
    dict_set(&r, r.globals, "add_generation_prompt", val_bool(conversation != with_reasoning));
    bool ok = render_run(&r, t) == 0;
    buf_add(prompt, r.out.data ? r.out.data : "", r.out.n);
    buf_add(prompt, "", 1);
    render_end(&r);
    json_drop(j);
    return ok;
}

static bool printed(const struct buf *prompt, const char *marker)
{
    return prompt->n > 0 && strstr(prompt->data, marker) != NULL;
}

static void probe_content(struct template *t, struct buf *prompt)
{
    struct template_caps *caps = &t->caps;
    caps->text_content = probe(t, with_text, prompt) && printed(prompt, "qUser");
    caps->typed_content = probe(t, with_parts, prompt) && printed(prompt, "qUser") &&
                          !printed(prompt, "'type'") && !printed(prompt, "\"type\"");
    /* A template that renders nothing here misses variables of its own: that tells nothing. */
    bool told = caps->text_content || caps->typed_content;
    if (!told) caps->text_content = true;
    probe(t, caps->text_content ? with_system : with_system_parts, prompt);
    caps->system_role = printed(prompt, "qSystem") || !told;
}

static void probe_tools(struct template *t, struct buf *prompt)
{
    struct template_caps *caps = &t->caps;
    bool object_ok = probe(t, with_object, prompt);
    caps->object_arguments = object_ok && printed(prompt, "qValue") && !printed(prompt, "{'qArg'");
    if (!caps->object_arguments) probe(t, with_json_text, prompt);
    caps->tools = printed(prompt, "qTool");
    caps->tool_calls = printed(prompt, "qCalled");
}

/* A NUL-terminated copy of [from, to) in the template's memory. */
static const char *keep(struct template *t, const char *from, const char *to)
{
    return arena_text(&t->arena, from, (size_t)(to - from));
}

/* A template that prints reasoning shows how: the last tag before it opens it, what stands between
 * it and the content closes it. */
static bool probe_printed_thinking(struct template *t, struct buf *prompt)
{
    if (!probe(t, with_reasoning, prompt)) return false;
    const char *user = strstr(prompt->data, "qUser"), *reason = strstr(prompt->data, "qReason");
    const char *content = reason ? strstr(reason, "qContent") : NULL;
    if (!content || !user || user > reason) return false;
    const char *tag = reason;
    while (tag > user && *tag != '<' && *tag != '[') tag--;
    if (tag == user) return false;
    t->thinking.open = keep(t, tag, reason);
    t->thinking.close = keep(t, reason + strlen("qReason"), content);
    return t->thinking.open && t->thinking.close;
}

static void probe_thinking(struct template *t, struct buf *prompt)
{
    if (t->family && (t->family->thinking.open || t->family->thinking.opening))
        t->thinking = t->family->thinking;
    else if (!probe_printed_thinking(t, prompt) && strstr(t->source, "<think>"))
        t->thinking = (struct thinking){.open = "<think>", .close = "</think>"};
    t->caps.reasoning = t->thinking.open != NULL;
}

void template_probe(struct template *t)
{
    struct buf prompt = {0};
    probe_content(t, &prompt);
    probe_tools(t, &prompt);
    probe_thinking(t, &prompt);
    buf_deinit(&prompt);
}
