/* show_test.c - goal: a config file of options_print sets equal values again, and has no secret.
 * Method: print the options of a small command, and parse the file. */
#include "option_impl.h"

#include "../../tests/unit.h"

#include <stdlib.h>

static int64_t whole;
static double real, unset;
static bool on;
static const char *text, *absent, *key;
static struct text_list list;
static const struct option inner[] = {LIST_OPTION("list", "X", &list, "a list"), OPTIONS_END};
static const struct option table[] = {
    INT_OPTION("whole", "N", &whole, 0, INT32_MAX, "a number"),
    REAL_OPTION("real", "X", &real, 0, 1, "a real"),
    REAL_OPTION("unset", "X", &unset, 0, 1, "a real"),
    FLAG_OPTION("on", &on, "a flag"),
    TEXT_OPTION("text", "TEXT", &text, "a text"),
    TEXT_OPTION("absent", "TEXT", &absent, "a text"),
    TEXT_OPTION("key", "TEXT", &key, "a secret", .secret = true),
    OPTIONS_OF(inner),
    OPTIONS_END,
};
static const struct command command = {.name = "try", .usage = "", .options = table};

/* Write the output of print to `out`. */
static bool printed(char *out, size_t n, void (*print)(const struct option *, FILE *))
{
    memset(out, 0, n);
    FILE *f = fmemopen(out, n - 1, "w");
    if (f) print(table, f);
    return f && fclose(f) == 0;
}

TEST(printed_options_are_a_config_file)
{
    char out[1000], path[300];
    struct err e = {0};
    int n = 2;
    whole = INT32_MAX, real = 0.1, unset = -1, on = true, text = "a: b # c", key = "s3cret";
    /* the reader removes blanks and one pair of quotes */
    NEED(vec_push(&list, "x") && vec_push(&list, "y z") && vec_push(&list, " 'quoted' "));
    NEED(printed(out, sizeof out, options_print));
    EXPECT(strstr(out, "# unset:\n") && strstr(out, "# absent:\n") && !strstr(out, "s3cret"));
    NEED(temp_put("printed", out));
    snprintf(path, sizeof path, "%s", temp_path("printed"));
    whole = 0, real = 0, on = false, text = NULL, list.n = 0;
    NEED_OK(options_parse(&command, &n, (char *[]){"--config", path, NULL}, &e), &e);
    EXPECT(whole == INT32_MAX && real == 0.1 && unset == -1 && on && !absent);
    EXPECT_TEXT(text, "a: b # c");
    NEED(list.n == 3);
    EXPECT_TEXT(list.v[1], "y z");
    EXPECT_TEXT(list.v[2], " 'quoted' ");
    free(list.v);
    list = (struct text_list){0};
}

TEST(shown_options_have_values_or_none)
{
    char out[1000];
    whole = 5, real = 1.0 / 3, unset = -1, on = false, text = "t";
    NEED(printed(out, sizeof out, options_show));
    EXPECT(strstr(out, " 5\n") && strstr(out, " 0.3333333\n") && strstr(out, " false\n"));
    EXPECT(strstr(out, " t\n") && strstr(out, "(not set)\n"));
}
