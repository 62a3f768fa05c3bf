/* probe.c - features of a template, detected by rendering small conversations and inspecting the
 * result.
 *
 * A template supports a field if the prompt contains the field's marker outside of a printed Python
 * list. Output before a failure is also inspected, because a template may print the system message
 * and then reject the turn order. Probes have small limits.
 *
 * Markers begin with q and do not occur in templates: qUser, qSystem, qTool, qCalled, qArg, qValue,
 * qResult, qReason, qContent, qLast. */
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
static const char with_turns[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"qUser\"},{\"role\":\"assistant\",\"content\":"
    "\"qContent\"},{\"role\":\"user\",\"content\":\"qLast\"}]}";
static const char with_object[] = CALLS("{\"qArg\":\"qValue\"}");
static const char with_json_text[] = CALLS("\"{\\\"qArg\\\":\\\"qValue\\\"}\"");
static const char with_reasoning[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"qUser\"},{\"role\":\"assistant\",\"content\":"
    "\"qContent\","
    "\"reasoning_content\":\"qReason\"}],\"enable_thinking\":true}";

static const char with_blocks[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"qUser\"},{\"role\":\"assistant\",\"content\":["
    "{\"type\":\"thinking\",\"thinking\":\"qReason\"},{\"type\":\"text\",\"text\":\"qContent\"}]}]"
    "}";

struct probe {
    const struct template *t; /* borrowed */
    struct buf prompt;        /* prompt of the last rendering; incomplete if the rendering failed */
    /* true if memory is exhausted in any rendering, which makes the results invalid */
    bool no_memory;
};

/* Render one conversation. Return false if the template rejects the conversation. */
static bool probe(struct probe *p, const char *conversation)
{
    struct render r;
    struct json *j = NULL;
    struct template_limits limits = {
        .step_max = 300000, .bytes_max = 8 << 20, .out_bytes_max = 1 << 20};
    buf_clear(&p->prompt);
    p->no_memory |= json_parse(&j, conversation, strlen(conversation), NULL, NULL) != 0;
    render_begin(&r, p->t, &limits, 0, NULL);
    struct val context = val_from_json(&r, j);
    if (context.kind == V_DICT) r.globals = context.dict;
    dict_set(&r, r.globals, "bos_token", val_text("", 0));
    dict_set(&r, r.globals, "eos_token", val_text("", 0));
    dict_set(&r, r.globals, "add_generation_prompt",
             val_bool(conversation != with_reasoning && conversation != with_blocks));
    int rc = render_run(&r, p->t);
    buf_add(&p->prompt, r.out.data ? r.out.data : "", r.out.n);
    buf_add(&p->prompt, "", 1);
    p->no_memory |= rc == ERR_MEMORY || p->prompt.failed;
    render_end(&r);
    json_drop(j);
    return rc == 0 && !p->no_memory;
}

/* Return true if the last prompt contains the marker. */
static bool printed(const struct probe *p, const char *marker)
{
    return !p->no_memory && p->prompt.n > 0 && strstr(p->prompt.data, marker) != NULL;
}

/* Return true if the template printed the parts of a content as Python or JSON. */
static bool printed_list(const struct probe *p)
{
    return printed(p, "'type'") || printed(p, "\"type\"");
}

static void probe_content(struct template *t, struct probe *p)
{
    struct template_caps *caps = &t->caps;
    caps->text_content = probe(p, with_text) && printed(p, "qUser");
    caps->typed_content = probe(p, with_parts) && printed(p, "qUser") && !printed_list(p);
    /* no feature can be detected if the template renders no content for lack of variables */
    bool has_content = caps->text_content || caps->typed_content;
    if (!has_content) caps->text_content = true;
    probe(p, caps->text_content ? with_system : with_system_parts);
    caps->system_role = printed(p, "qSystem") || !has_content;
    t->prints_turns = probe(p, with_turns) && printed(p, "qUser") && printed(p, "qContent") &&
                      printed(p, "qLast");
}

/* Detect the form of tool calls. Try arguments as an object first. A template that prints the
 * object as Python ({'qArg': ...}) expects JSON text. */
static void probe_tools(struct template *t, struct probe *p)
{
    struct template_caps *caps = &t->caps;
    bool object_ok = probe(p, with_object);
    caps->object_arguments = object_ok && printed(p, "qValue") && !printed(p, "{'qArg'");
    if (!caps->object_arguments) probe(p, with_json_text);
    caps->tools = printed(p, "qTool");
    caps->tool_calls = printed(p, "qCalled");
    t->prints_tool = printed(p, "qResult");
}

/* Return a NUL-terminated copy of [from, to) in the template's memory. */
static const char *copy_text(struct template *t, const char *from, const char *to)
{
    return arena_text(&t->arena, from, (size_t)(to - from));
}

/* Detect the marks of a template that prints reasoning. The opening mark is the last tag before the
 * reasoning. The closing mark is the text between reasoning and content. */
static bool probe_printed_thinking(struct template *t, const char *conversation, struct probe *p)
{
    if (!probe(p, conversation) || printed_list(p)) return false;
    const char *user = strstr(p->prompt.data, "qUser"), *reason = strstr(p->prompt.data, "qReason");
    const char *content = reason ? strstr(reason, "qContent") : NULL;
    if (!content || !user || user > reason) return false;
    const char *tag = reason;
    while (tag > user && *tag != '<' && *tag != '[') tag--;
    if (tag == user) return false;
    t->thinking.open = copy_text(t, tag, reason);
    t->thinking.close = copy_text(t, reason + strlen("qReason"), content);
    p->no_memory |= !t->thinking.open || !t->thinking.close;
    return !p->no_memory;
}

/* Set the marks of reasoning. Try the table of families first, then printed marks, then the marks
 * of most models. */
static void probe_thinking(struct template *t, struct probe *p)
{
    if (t->family && (t->family->thinking.open || t->family->thinking.opening))
        t->thinking = t->family->thinking;
    else if (!probe_printed_thinking(t, with_reasoning, p)) {
        t->thinking_blocks = probe_printed_thinking(t, with_blocks, p);
        if (!t->thinking_blocks && strstr(t->source, "<think>"))
            t->thinking = (struct turn_form){.open = "<think>", .close = "</think>"};
    }
    t->caps.reasoning = t->thinking.open != NULL;
}

int template_probe(struct template *t, struct err *e)
{
    struct probe p = {.t = t};
    probe_content(t, &p);
    probe_tools(t, &p);
    probe_thinking(t, &p);
    buf_deinit(&p.prompt);
    return p.no_memory ? err_memory(e, "the probes of a chat template", t->n) : 0;
}
