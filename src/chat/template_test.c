/* Goal: templates render byte for byte as recorded. Method: render the recorded cases in
 * shared/data/chat. The test prints the name of each case that differs. jinja_test.c has small
 * handwritten cases. */
#include "context_test.h"
#include "base/os.h"
#include "../../tests/alloc.h"
#include "../../tests/unit.h"

#include <stdlib.h>

#define DATA "chat/templates-and-cases/"

/* Callback for a parsed line of a JSONL file of the data. */
typedef bool case_fn(const struct json *c);

/* Run a function for each line of a file of real data. The test is skipped if the file is
 * missing. */
static void each_case(const char *name, case_fn *run)
{
    const char *path = data_path(name);
    if (!path) SKIP("%s is not there", name);
    struct buf text = {0};
    struct err e = {0};
    NEED_OK(file_read(&text, path, 64 << 20, &e), &e);
    int n = 0, n_ok = 0;
    for (char *line = text.data, *end; line && *line; line = end + 1, n++) {
        struct json *j = NULL;
        end = strchr(line, '\n');
        NEED(end);
        NEED_OK(json_parse(&j, line, (size_t)(end - line), NULL, &e), &e);
        n_ok += run(j);
        json_drop(j);
    }
    test_note("%d of %d equal", n_ok, n);
    EXPECT_INT(n_ok, n);
    buf_deinit(&text);
}

static const char *field_text(const struct json *c, const char *name)
{
    const char *text = json_text(json_field(c, name), NULL);
    return text ? text : "";
}

/* Return true if two texts are equal. Otherwise print the place of the first difference, with some
 * context of both texts. */
static bool same(const struct json *c, const char *name, const char *got, const char *want,
                 const struct err *e)
{
    size_t i = 0;
    if (got && strcmp(got, want) == 0) return true;
    while (got && got[i] && got[i] == want[i]) i++;
    size_t from = i > 20 ? i - 20 : 0;
    test_fail(__FILE__, __LINE__, "%s %lld: %s; at %zu got \"%.60s\", want \"%.60s\"", name,
              (long long)json_int(json_field(c, "id"), -1), e->text, i, got ? got + from : "(null)",
              want + from);
    return false;
}

/* Compare the rendering of a small template with the recorded text. */
static bool unit_case(const struct json *c)
{
    struct template *t = NULL;
    struct err e = {0};
    struct buf out = {0};
    const char *source = field_text(c, "template");
    bool ok = template_open(&t, source, strlen(source), &e) == 0 &&
              render_context(t, json_field(c, "context"), NULL, 0, &out, &e) == 0;
    buf_add_text(&out, "");
    ok = same(c, field_text(c, "name"), ok ? (out.data ? out.data : "") : NULL,
              field_text(c, "expected"), &e);
    buf_deinit(&out);
    template_close(t);
    return ok;
}

TEST(jinja_unit_cases)
{
    each_case(DATA "jinja_unit_cases.jsonl", unit_case);
}

/* Render after the output "x". The rendering must keep the "x", and a failed rendering must append
 * nothing. */
static int render_behind_x(const struct template *t, const struct conversation *c, const char *want,
                           int failure)
{
    struct err e = {0};
    struct buf out = {0};
    struct chat_turn turn;
    alloc_spare(true);
    buf_add_char(&out, 'x');
    alloc_spare(false);
    int rc = template_render(t, c, &out, &turn, &e);
    bool good =
        rc == failure ? strcmp(out.data, "x") == 0 : rc == 0 && strcmp(out.data + 1, want) == 0;
    if (!good || out.n != strlen(out.data))
        test_fail(__FILE__, __LINE__, "code %d: %s; \"%.100s\"", rc, e.text, out.data);
    buf_deinit(&out);
    return rc;
}

/* Goal: a failed allocation of a rendering is an error and never gives another output. Method:
 * raise the memory limit until the rendering succeeds. Then make each allocation of the process
 * fail once. */
static void fail_allocations(const struct template *t, const struct conversation *c,
                             const char *want)
{
    int rc = ERR_LIMIT;
    for (size_t i = 8; rc == ERR_LIMIT; i += 8 + i / 64) {
        struct conversation limited = *c;
        limited.limits.bytes_max = i;
        rc = render_behind_x(t, &limited, want, ERR_LIMIT);
    }
    bool hit = true;
    for (uint64_t n = 0; hit; n++) {
        alloc_fail(n, 1);
        render_behind_x(t, c, want, ERR_MEMORY);
        hit = alloc_fail_end() > n;
    }
}

/* Compare the rendering of a published template with the recorded text. */
static bool template_case(const struct json *c)
{
    struct template *t = NULL;
    struct err e = {0};
    struct buf out = {0};
    const char *source = field_text(c, "template");
    /* One case needs the list of tokens of its tokenizer. The case does not contain that list, so
     * this copy comes from the expected output. */
    static const char tokens[] =
        "{\"additional_special_tokens\":[\"<|role_sep|>\",\"<|message_sep|>\",\"[\",\"]\"]}";
    struct json *kwargs = NULL;
    bool incomplete = strstr(source, "additional_special_tokens") != NULL;
    if (incomplete) json_parse(&kwargs, tokens, strlen(tokens), NULL, &e);
    const char *bos = incomplete ? "<s>" : field_text(c, "bos_token"),
               *eos = field_text(c, "eos_token");
    const struct chat_variable token[] = {{"bos_token", bos, strlen(bos)},
                                          {"eos_token", eos, strlen(eos)}};
    struct conversation conversation = {
        .messages = json_field(c, "messages"),
        .kwargs = kwargs,
        .token = token,
        .n_token = 2,
        .add_generation_prompt = json_bool(json_field(c, "add_generation_prompt"), true),
    };
    bool ok = template_open(&t, source, strlen(source), &e) == 0 &&
              template_render(t, &conversation, &out, NULL, &e) == 0;
    ok = same(c, field_text(c, "name"), ok ? out.data : NULL, field_text(c, "expected_jinja"), &e);
    if (ok) fail_allocations(t, &conversation, out.data);
    buf_deinit(&out);
    json_drop(kwargs);
    template_close(t);
    return ok;
}

TEST(chat_template_cases)
{
    each_case(DATA "chat_template_cases.jsonl", template_case);
}

static const char default_messages[] =
    "[{\"role\":\"user\",\"content\":\"Hey there!\\nHow are you?\"}]";

/* Open the template file of a recorded case; NULL if it is missing. */
static struct template *recorded_template(const struct json *c, struct err *e)
{
    char name[256];
    struct template *t = NULL;
    struct buf source = {0};
    const char *file = strrchr(field_text(c, "template"), '/');
    snprintf(name, sizeof name, DATA "templates%s", file ? file : "/");
    const char *path = data_path(name);
    if (path && file_read(&source, path, 1 << 20, e) == 0)
        template_open(&t, source.data, source.n, e);
    buf_deinit(&source);
    return t;
}

static bool prompt_case(const struct json *c)
{
    static const enum chat_continue continues[] = {CHAT_CONTINUE_NO, CHAT_CONTINUE_AUTO,
                                                   CHAT_CONTINUE_REASONING, CHAT_CONTINUE_CONTENT};
    struct err e = {0};
    struct buf out = {0};
    struct json *messages = NULL, *kwargs = NULL;
    bool thinking = json_bool(json_field(c, "enable_thinking"), true);
    /* llama.cpp defines date_string for every template, quoth only if a request sets it */
    const char *options = thinking ? "{\"enable_thinking\":true,\"date_string\":\"20 Nov 2026\"}"
                                   : "{\"enable_thinking\":false,\"date_string\":\"20 Nov 2026\"}";
    json_parse(&messages, default_messages, strlen(default_messages), NULL, &e);
    json_parse(&kwargs, options, strlen(options), NULL, &e);
    struct template *t = recorded_template(c, &e);
    struct conversation conversation = {
        .messages = json_field(c, "messages") ? json_field(c, "messages") : messages,
        .tools = json_field(c, "tools"),
        .kwargs = kwargs,
        .add_generation_prompt = json_bool(json_field(c, "add_generation_prompt"), true),
        .continue_final = continues[json_int(json_field(c, "continue_final_message"), 0) & 3],
    };
    struct chat_turn turn = {0};
    template_clock("2026-11-20T12:00", &conversation.now, &e);
    bool ok = t && template_render(t, &conversation, &out, &turn, &e) == 0;
    const char *name = strrchr(field_text(c, "template"), '/');
    ok = same(c, name, ok ? out.data : NULL, field_text(c, "llamacpp_prompt"), &e) &&
         same(c, name, ok ? out.data + out.n - turn.n_turn : NULL,
              field_text(c, "llamacpp_generation_prompt"), &e);
    if (ok) fail_allocations(t, &conversation, out.data);
    buf_deinit(&out);
    template_close(t);
    json_drop(messages);
    json_drop(kwargs);
    return ok;
}

TEST(chat_parse_prompts)
{
    each_case(DATA "chat_parse_cases.jsonl", prompt_case);
}
