/* Goal: reasoning, content and calls are distinguishable on a terminal. A pipe receives only
 * content and calls. Method: write deltas of one answer to temporary files, print a message as
 * JSON, and set options by name. */
#include "answer.h"

#include "../../tests/unit.h"

#include <stdlib.h>
#include <string.h>

static void push(struct view *v, enum chat_delta_kind kind, const char *text, int i_call,
                 const char *name)
{
    struct chat_delta d = {
        .kind = kind, .text = text, .n = strlen(text), .i_call = i_call, .name = name};
    view_delta(v, &d);
}

static void push_all(struct view *v)
{
    push(v, CHAT_REASONING, "hm", 0, NULL);
    push(v, CHAT_REASONING, "m\n", 0, NULL);
    push(v, CHAT_CONTENT, "ok \x1b[31m", 0, NULL);
    push(v, CHAT_CALL, "{\"a\":", 0, "f");
    push(v, CHAT_CALL, "1}", 0, NULL);
    push(v, CHAT_CALL, "{}", 1, "g");
    view_end(v);
}

static void expect_file(FILE *f, const char *want)
{
    char text[256] = "";
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    EXPECT_TEXT(text, want);
}

TEST(view_of_a_terminal)
{
    FILE *f = tmpfile();
    struct view v = {.out = f, .reasoning = f, .terminal = true, .dim = true};
    push_all(&v);
    expect_file(f, "\033[2mhmm\n\033[22m\nok \xE2\x90\x9B[31m\nf({\"a\":1})\ng({})\n");
    fclose(f);
}

TEST(view_of_a_pipe)
{
    FILE *f = tmpfile(), *reasoning = tmpfile();
    struct view v = {.out = f, .reasoning = reasoning};
    push_all(&v);
    expect_file(f, "ok \033[31m\nf({\"a\":1})\ng({})");
    expect_file(reasoning, "hmm\n");
    fclose(f);
    fclose(reasoning);
}

TEST(message_in_openai_form)
{
    struct chat_message m = {0};
    struct buf b = {0};
    struct chat_delta call = {.kind = CHAT_CALL, .text = "{\"x\":\"\"}", .n = 8, .name = "f"};
    chat_message_add(&m, &call);
    message_put(&b, &m, 0);
    EXPECT_TEXT(b.data,
                "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"7Ry57Bg7V\","
                "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
                "\"{\\\"x\\\":\\\"\\\"}\"}}]}");
    buf_deinit(&b);
    chat_message_deinit(&m);
}

TEST(options_set_by_name)
{
    static int64_t number;
    static double share;
    static bool flag;
    static struct text_list list;
    static const struct option table[] = {
        {.kind = OPTION_INT, .name = "a-number", .arg = "N", .target = &number, .lo = 0, .hi = 9},
        {.kind = OPTION_REAL, .name = "share", .arg = "X", .target = &share, .lo = 0, .hi = 1},
        {.kind = OPTION_FLAG, .name = "flag", .target = &flag},
        {.kind = OPTION_LIST, .name = "word", .arg = "TEXT", .target = &list},
        {.kind = OPTION_END},
    };
    struct err e;
    NEED_OK(options_set(table, "a_number", "7", &e), &e);
    NEED_OK(options_set(table, "flag", NULL, &e), &e);
    NEED_OK(options_set(table, "word", "x", &e), &e);
    NEED_OK(options_set(table, "word", "y", &e), &e);
    EXPECT(number == 7 && flag && list.n == 2);
    NEED_OK(options_set(table, "no-flag", NULL, &e), &e);
    NEED_OK(options_set(table, "no-word", NULL, &e), &e);
    EXPECT(!flag && list.n == 0);
    EXPECT(options_set(table, "a-number", "10", &e) == ERR_ARG);
    /* the error has no dashes, because the option was set by name */
    EXPECT(strncmp(e.text, "a-number: ", 10) == 0);
    EXPECT(options_set(table, "nothing-like-it", "1", &e) == ERR_MISSING);
    EXPECT(options_set(table, "a-number", NULL, &e) == ERR_ARG);
    EXPECT(options_set(table, "a-numbre", "1", &e) == ERR_ARG);
    EXPECT(strstr(e.text, "did you mean a-number") != NULL);
    EXPECT(number == 7 && share == 0);
    vec_deinit(&list);
}
