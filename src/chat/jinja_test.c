/* Goal: the interpreter implements jinja2's language, locates errors and enforces its limits.
 * Method: compare with the renderings of jinja2 itself (jinja_cases.def), then test errors and
 * limits. */
#include "context_test.h"
#include "base/os.h"
#include "../../tests/alloc.h"
#include "../../tests/unit.h"

#include <stdlib.h>
#include <time.h>

static int render(const char *source, const char *context, const struct template_limits *limits,
                  struct buf *out, struct err *e)
{
    struct template *t = NULL;
    struct json *j = NULL;
    int rc = context ? json_parse(&j, context, strlen(context), NULL, e) : 0;
    if (rc == 0) rc = template_open(&t, source, strlen(source), e);
    if (rc == 0) rc = render_context(t, j, limits, 1795176000, out, e);
    template_close(t);
    json_drop(j);
    return rc;
}

static const struct {
    const char *source, *context, *want;
} rendered[] = {
#define CASE(source, context, want) {source, context, want},
#include "chat/jinja_cases.def"
#undef CASE
};

TEST(jinja_renders_what_jinja2_renders)
{
    for (size_t i = 0; i < sizeof rendered / sizeof *rendered; i++) {
        struct buf out = {0};
        struct err e = {0};
        int rc = render(rendered[i].source, rendered[i].context, NULL, &out, &e);
        const char *got = rc == 0 ? (out.data ? out.data : "") : NULL, *want = rendered[i].want;
        if (!got != !want || (got && strcmp(got, want) != 0))
            test_fail(__FILE__, __LINE__, "%s: \"%s\" %s, not \"%s\"", rendered[i].source,
                      got ? got : "", e.text, want ? want : "(refused)");
        buf_deinit(&out);
    }
}

/* Render with growing limits until a limit suffices. Return false if the result of a smaller limit
 * is not ERR_LIMIT. */
static bool grow_limit(const struct template *t, const struct json *context, const char *want,
                       int by_byte, int by_step)
{
    /* the limit grows by 1, later by larger numbers */
    for (int i = 1; i < 1 << 26; i += 1 + i / 64) {
        struct template_limits l = {.bytes_max = (size_t)(i * by_byte),
                                    .step_max = (uint64_t)(i * by_step)};
        struct buf out = {0};
        struct err e = {0};
        int rc = render_context(t, context, &l, 1795176000, &out, &e);
        bool same = rc == 0 ? want && strcmp(out.data ? out.data : "", want) == 0
                            : rc == ERR_LIMIT || !want;
        buf_deinit(&out);
        if (!same || rc != ERR_LIMIT) return same;
    }
    return true;
}

/* Make each allocation of the process fail once. Return false if the result of a failed allocation
 * is not ERR_MEMORY. */
static bool fail_mallocs(const struct template *t, const struct json *context, const char *want)
{
    bool hit = true, same = true;
    for (uint64_t n = 0; hit && same; n++) {
        struct buf out = {0};
        struct err e = {0};
        alloc_fail(n, 1);
        int rc = render_context(t, context, NULL, 1795176000, &out, &e);
        hit = alloc_fail_end() > n;
        same = rc == 0 ? want && strcmp(out.data ? out.data : "", want) == 0
                       : rc == ERR_MEMORY || !want;
        buf_deinit(&out);
    }
    return same;
}

/* Goal: a failure at any step or allocation of a rendering is an error and never another output. */
TEST(jinja_fails_at_any_step_and_allocation)
{
    for (size_t i = 0; i < sizeof rendered / sizeof *rendered; i++) {
        struct template *t = NULL;
        struct json *j = NULL;
        struct err e = {0};
        const char *context = rendered[i].context ? rendered[i].context : "{}";
        if (template_open(&t, rendered[i].source, strlen(rendered[i].source), &e) != 0) continue;
        NEED_OK(json_parse(&j, context, strlen(context), NULL, &e), &e);
        if (!grow_limit(t, j, rendered[i].want, 8, 0) ||
            !grow_limit(t, j, rendered[i].want, 0, 1) || !fail_mallocs(t, j, rendered[i].want))
            test_fail(__FILE__, __LINE__, "%s", rendered[i].source);
        template_close(t);
        json_drop(j);
    }
}

static void expect_error(const char *source, const struct template_limits *limits, int want_rc,
                         const char *want_text)
{
    struct buf out = {0};
    struct err e = {0};
    int rc = render(source, "{\"s\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}", limits, &out, &e);
    EXPECT_INT(rc, want_rc);
    if (!strstr(e.text, want_text))
        test_fail(__FILE__, __LINE__, "%s: \"%s\" lacks \"%s\"", source, e.text, want_text);
    buf_deinit(&out);
}

TEST(jinja_errors_name_line_and_column)
{
    expect_error("a\n  {{ x.y }}", NULL, ERR_ARG, "line 2, column 8: \"x\" is undefined");
    expect_error("{% if 1 %}\nx", NULL, ERR_FORMAT,
                 "line 1, column 4: this block has no \"endif\"");
    expect_error("\n\n{{ 1 + }}", NULL, ERR_FORMAT, "line 3, column 8: expected an expression");
    expect_error("{{ 'abc }}", NULL, ERR_FORMAT, "line 1, column 4: a string is not closed");
    expect_error("{% include 'x' %}", NULL, ERR_FORMAT, "cannot read other templates");
    expect_error("{{ 1|nosuch }}", NULL, ERR_FORMAT, "column 6: unknown filter \"nosuch\"");
    expect_error("{{ raise_exception('no system role') }}", NULL, ERR_ARG, "no system role");
    expect_error("\xFF", NULL, ERR_FORMAT, "UTF-8");
    expect_error("{{ 9223372036854775807 + 1 }}", NULL, ERR_ARG, "64 bits");
    expect_error("{% break %}", NULL, ERR_FORMAT, "outside of a loop");
}

TEST_ALONE(jinja_limits_hold)
{
    static const struct template_limits small = {
        .step_max = 100000, .bytes_max = 4 << 20, .out_bytes_max = 1 << 20};
    static const char *const runaway[] = {
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set ns = namespace(x=s) %}{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}{% "
        "endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}{% "
        "endfor %}",
        "{{ s * 1000000000 }}",
        "{{ [1] * 1000000000 }}",
        "{% set a = [] %}{% set _ = a.append(a) %}{{ a }}",
        "{% set a = [] %}{% set _ = a.append(a) %}{% set _ = a.append(a) %}{{ a|tojson }}",
        "{% set a = [] %}{% set _ = a.append(a) %}{% set b = [] %}{% set _ = b.append(b) %}{{ a == "
        "b }}",
        "{{ s|indent(999999999) }}",
        "{{ s|center(999999999) }}",
        "{{ [1]|batch(999999999, 0) }}",
        "{{ s|replace('', s * 99999) }}",
        "{% for a in range(9999) %}{{ s * 9999 }}{% endfor %}",
        "{% set ns = namespace(x=s) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor "
        "%}{{ ns.x }}",
        "{% set x = s * 9999 %}{% for a in range(99) %}{{ x.startswith(x) }}{% endfor %}",
        "{% set x = s * 9999 %}{% for a in range(99) %}{{ x.endswith(('y', x)) }}{% endfor %}",
        "{% set x = s * 9999 %}{% for a in range(99) %}{{ x.removeprefix(x) }}{% endfor %}",
        "{% set x = s * 9999 %}{% for a in range(99) %}{{ x.removesuffix(x) }}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof runaway / sizeof *runaway; i++) {
        int64_t begin = time_us();
        expect_error(runaway[i], &small, ERR_LIMIT, "line");
        if (time_us() - begin > 2000000) test_fail(__FILE__, __LINE__, "too slow: %s", runaway[i]);
    }
}

/* Goal: the parser rejects a deeply nested source, or the rendering reaches a limit. */
TEST(jinja_deep_sources)
{
    static const char *const units[] = {"(",  "[",       "{1:",        "not ", "-", "x.",
                                        "1+", "x|trim|", "{% if 1 %}", "a[",   "f("};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        struct buf source = {0}, out = {0};
        struct err e;
        bool statement = units[i][0] == '{' && units[i][1] == '%';
        if (!statement) buf_add_text(&source, "{{ ");
        for (int k = 0; k < 20000; k++) buf_add_text(&source, units[i]);
        if (!statement) buf_add_text(&source, "x }}");
        EXPECT(render(source.data, NULL, NULL, &out, &e) != 0);
        buf_deinit(&source);
        buf_deinit(&out);
    }
}

/* Return the processor time of this thread in seconds. Other processes do not change it, unlike the
 * time of the clock. */
static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Goal: the work of a rendering grows linearly with the conversation. */
TEST_ALONE(jinja_long_conversation)
{
    static const char source[] =
        "{% set ns = namespace(p='') %}{% for m in messages %}{% set ns.p = ns.p + '<|' + m.role + "
        "'|>' + m.content|trim + '\\n' %}{% endfor %}{{ ns.p }}";
    struct buf context = {0}, out = {0};
    struct err e = {0};
    buf_add_text(&context, "{\"messages\":[");
    for (int i = 0; i < 5000; i++) {
        buf_addf(&context, "%s{\"role\":\"user\",\"content\":\"", i ? "," : "");
        for (int k = 0; k < 100; k++) buf_add_text(&context, "message ");
        buf_add_text(&context, "\"}");
    }
    buf_add_text(&context, "]}");
    const double begin = thread_seconds();
    NEED_OK(render(source, context.data, NULL, &out, &e), &e);
    const double took = thread_seconds() - begin;
    test_note("4 MB built piece by piece: %.0f ms", took * 1e3);
    EXPECT_INT(out.n, 5000 * (8 + 799 + 1));
    EXPECT(took < 3);
    buf_deinit(&context);
    buf_deinit(&out);
}

/* Return the processor time of a template with a result of n bytes. */
static double seconds_of(const char *source, size_t n)
{
    struct buf out = {0};
    struct err e = {0};
    const double begin = thread_seconds();
    const int rc = render(source, NULL, NULL, &out, &e);
    const double took = thread_seconds() - begin;
    EXPECT_INT(rc, 0);
    EXPECT_INT(out.n, n);
    buf_deinit(&out);
    return took;
}

/* Goal: the cost of a repeated text depends on the bytes of the result, not on the number of
 * texts. */
TEST_ALONE(jinja_repeats_short_texts_as_fast_as_long_ones)
{
    double one = 1e9, thousand = 1e9; /* the best of some runs: other programs use the caches */
    for (int i = 0; i < 5; i++) {
        const double a = seconds_of("{{ 'a' * 30000000 }}", 30000000),
                     b = seconds_of("{{ 'a' * 1000 * 30000 }}", 30000000);
        one = a < one ? a : one, thousand = b < thousand ? b : thousand;
    }
    test_note("30 MB of 1 byte: %.0f ms, of 1000: %.0f ms", one * 1e3, thousand * 1e3);
    EXPECT(one < 2 * thousand + 0.02);
}

static const time_t test_day = 1795176000; /* 2026-11-20, 12:00 UTC */

/* Render messages with a template and compare the prompt. */
static void expect_prompt(const char *source, const char *messages, enum chat_continue how,
                          const char *want)
{
    struct template *t = NULL;
    struct json *j = NULL;
    struct buf out = {0};
    struct err e;
    NEED_OK(json_parse(&j, messages, strlen(messages), NULL, &e), &e);
    NEED_OK(template_open(&t, source, strlen(source), &e), &e);
    struct conversation c = {
        .messages = j, .add_generation_prompt = true, .continue_final = how, .now = test_day};
    NEED_OK(template_render(t, &c, &out, NULL, &e), &e);
    EXPECT_TEXT(out.data, want);
    buf_deinit(&out);
    template_close(t);
    json_drop(j);
}

TEST(conversations_take_the_template_s_form)
{
    static const char plain[] = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
                                "{% if add_generation_prompt %}a:{% endif %}";
    static const char parts[] = "{% for m in messages %}{{ m.role }}:{% for p in m.content %}{{ "
                                "p.text }}{% endfor %};{% endfor %}";
    static const char no_system[] =
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
        "{{ m.content }};{% endfor %}";
    static const char as_text[] = "{% for m in messages %}{% for c in m.tool_calls %}{{ "
                                  "c.function.name + c.function.arguments }}"
                                  "{% endfor %}{{ m.content }}{% endfor %}";
    static const char as_object[] =
        "{% for m in messages %}{% for c in m.tool_calls %}{% for k, v in "
        "c.function.arguments|items %}"
        "{{ k }}={{ v }};{% endfor %}{% endfor %}{{ m.content }}{% endfor %}";
    static const char thinks[] = "{% for m in messages %}{{ m.role }}:{% if m.reasoning_content "
                                 "%}<think>\n{{ m.reasoning_content }}\n"
                                 "</think>\n\n{% endif %}{{ m.content }}\n{% endfor %}{% if "
                                 "add_generation_prompt %}assistant:{% endif %}";
    expect_prompt(plain,
                  "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"},{\"type\":"
                  "\"text\",\"text\":\"y\"}]}]",
                  CHAT_CONTINUE_NO, "user:x\ny\na:");
    expect_prompt(
        plain,
        "[{\"role\":\"developer\",\"content\":\"d\"},{\"role\":\"assistant\",\"content\":null}]",
        CHAT_CONTINUE_NO, "system:d\nassistant:\na:");
    expect_prompt(parts, "[{\"role\":\"user\",\"content\":\"x\"}]", CHAT_CONTINUE_NO, "user:x;");
    expect_prompt(no_system,
                  "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\"}]",
                  CHAT_CONTINUE_NO, "s\nu;");
    static const char as_json[] = "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{"
                                  "\"function\":{\"name\":\"f\",\"arguments\":"
                                  "{\"a\": 1}}}]},{\"role\":\"user\",\"content\":\"u\"}]";
    static const char as_string[] = "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{"
                                    "\"function\":{\"name\":\"f\",\"arguments\":"
                                    "\"{\\\"a\\\": 1}\"}}]},{\"role\":\"user\",\"content\":\"u\"}]";
    expect_prompt(as_text, as_json, CHAT_CONTINUE_NO, "f{\"a\": 1}u");
    expect_prompt(as_text, as_string, CHAT_CONTINUE_NO, "f{\"a\": 1}u");
    expect_prompt(as_object, as_json, CHAT_CONTINUE_NO, "a=1;u");
    expect_prompt(as_object, as_string, CHAT_CONTINUE_NO, "a=1;u");
    static const char goes_on[] = "[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\","
                                  "\"content\":\"c\",\"reasoning_content\":\"r\"}]";
    expect_prompt(thinks, goes_on, CHAT_CONTINUE_AUTO,
                  "user:u\nassistant:<think>\nr\n</think>\n\nc");
    expect_prompt(thinks, goes_on, CHAT_CONTINUE_REASONING, "user:u\nassistant:<think>\nr");
}

/* Goal: reasoning becomes a block of the content only if the template supports this block. */
TEST(reasoning_as_a_block)
{
#define BLOCKS(else_)                                                                              \
    "{% for m in messages %}{% if m.role == 'system' %}[SYSTEM_PROMPT]{{ m.content }}"             \
    "{% elif m.role == 'user' %}[INST]{{ m.content }}[/INST]{% else %}"                            \
    "{% if m.content is string %}{{ m.content }}{% else %}{% for b in m.content %}"                \
    "{% if b.type == 'text' %}{{ b.text }}{% else %}" else_ "{% endif %}{% endfor %}{% endif %}"   \
    "{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}[ARGS]{% endfor %}</s>"           \
    "{% endif %}{% endfor %}"
    static const char talk[] =
        "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\"},"
        "{\"role\":\"assistant\",\"content\":\"c\",\"reasoning_content\":\"r\"},"
        "{\"role\":\"user\",\"content\":\"v\"}]";
    expect_prompt(BLOCKS("{{ raise_exception('Only text chunks are supported') }}"), talk,
                  CHAT_CONTINUE_NO, "[SYSTEM_PROMPT]s[INST]u[/INST]c</s>[INST]v[/INST]");
    expect_prompt(BLOCKS("{% if b.type == 'thinking' %}[THINK]{{ b.thinking }}[/THINK]{% endif %}"),
                  talk, CHAT_CONTINUE_NO,
                  "[SYSTEM_PROMPT]s[INST]u[/INST][THINK]r[/THINK]c</s>[INST]v[/INST]");
#undef BLOCKS
}

/* Goal: a template's own date is never replaced. A template that requires a date gets today's
 * date. */
TEST(dates_only_for_templates_that_need_them)
{
    static const char user[] = "[{\"role\":\"user\",\"content\":\"u\"}]";
    char today[40];
    strftime(today, sizeof today, "%d %b %Y u", localtime(&test_day));
    expect_prompt("{% if not date_string is defined %}{% set date_string = '26 Jul 2024' %}"
                  "{% endif %}{{ date_string }} {{ messages[0].content }}",
                  user, CHAT_CONTINUE_NO, "26 Jul 2024 u");
    expect_prompt("{{ date_string|default('no date') }} {{ messages[0].content }}", user,
                  CHAT_CONTINUE_NO, "no date u");
    expect_prompt("{{ date_string + ' ' + messages[0].content }}", user, CHAT_CONTINUE_NO, today);
}

TEST(bad_conversations_are_named)
{
    static const struct {
        const char *messages, *want;
    } cases[] = {
        {"{}", "messages:"},
        {"[1]", "messages[0]"},
        {"[{\"role\":\"user\",\"content\":\"x\"},{\"content\":\"y\"}]", "messages[1]"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", "messages[0].content[0]"},
    };
    struct template *t = NULL;
    struct err e;
    static const char source[] = "{% for m in messages %}{{ m.content + 'x' }}{% endfor %}";
    NEED_OK(template_open(&t, source, strlen(source), &e), &e);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json *j = NULL;
        struct buf out = {0};
        NEED_OK(json_parse(&j, cases[i].messages, strlen(cases[i].messages), NULL, &e), &e);
        EXPECT(template_render(t, &(struct conversation){.messages = j}, &out, NULL, &e) != 0);
        if (!strstr(e.text, cases[i].want))
            test_fail(__FILE__, __LINE__, "\"%s\" lacks \"%s\"", e.text, cases[i].want);
        buf_deinit(&out);
        json_drop(j);
    }
    template_close(t);
}

/* Goal: JSON texts inside a template, such as arguments, have limits. The number of their values
 * has the limit of a body, because 30 MB of values would need gigabytes. */
TEST(documents_inside_of_texts_have_limits)
{
    static const char source[] =
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{% for k, v in "
        "c.function.arguments|items %}{{ k }}{{ v }}{% endfor %}{% endfor %}{% endfor %}",
                      inner[] = "{{ s|from_json|length }}";
    static const char *const piece[] = {"{},", "["};
    struct template *t[2] = {0};
    struct err e = {0};
    NEED_OK(template_open(&t[0], source, strlen(source), &e), &e);
    NEED_OK(template_open(&t[1], inner, strlen(inner), &e), &e);
    EXPECT(template_caps(t[0])->object_arguments);
    for (int i = 0; i < 4; i++) {
        struct buf text = {0}, out = {0};
        struct json *j = NULL;
        bool conversation = i < 2;
        int n = i % 2 ? 3000 : 1200000, rc;
        buf_add_text(&text, conversation ? "[{\"role\":\"assistant\",\"content\":\"\",\"tool_"
                                           "calls\":[{\"type\":\"function\","
                                           "\"function\":{\"name\":\"f\",\"arguments\":\"["
                                         : "{\"s\":\"[");
        for (int k = 0; k < n; k++) buf_add_text(&text, piece[i % 2]);
        buf_add_text(&text, conversation ? "1]\"}}]}]" : "1]\"}");
        NEED_OK(json_parse(&j, text.data, text.n, NULL, &e), &e);
        rc = conversation
                 ? template_render(t[0], &(struct conversation){.messages = j}, &out, NULL, &e)
                 : render_context(t[1], j, NULL, 0, &out, &e);
        EXPECT(rc != 0 && strstr(e.text, "limit"));
        json_drop(j);
        buf_deinit(&text);
        buf_deinit(&out);
    }
    template_close(t[0]);
    template_close(t[1]);
}

TEST(clock_of_a_date)
{
    int64_t day = 0, noon = 0;
    struct err e;
    struct buf out = {0};
    struct template *t = NULL;
    static const char source[] = "{{ strftime_now('%Y-%m-%d %-d %b %H:%M %%') }}";
    NEED_OK(template_clock("2026-11-20", &day, &e), &e);
    NEED_OK(template_clock("2026-11-20T12:30", &noon, &e), &e);
    EXPECT_INT(noon - day, 45000);
    EXPECT_INT(template_clock("20.11.2026", &day, &e), ERR_ARG);
    NEED_OK(template_open(&t, source, strlen(source), &e), &e);
    NEED_OK(render_context(t, NULL, NULL, noon, &out, &e), &e);
    EXPECT_TEXT(out.data, "2026-11-20 20 Nov 12:30 %");
    buf_deinit(&out);
    template_close(t);
}
