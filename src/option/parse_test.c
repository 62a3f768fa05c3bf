/* parse_test.c - goal: a command line and a config file set the targets of a table. The error for
 * any other word contains the flag, its range and the line. Method: one option of each kind, in a
 * small command. */
#include "option_impl.h"

#include "../../tests/unit.h"

#include <stdlib.h>
#include <string.h>

static int64_t whole;
static double real;
static bool on;
static const char *text, *name;
static struct text_list list, words;

static const char *name_at(int i)
{
    static const char *const names[] = {"red", "green"};
    return i < 2 ? names[i] : NULL;
}

/* A form_fn: accept texts of one byte. */
static int short_form(const char *value, struct err *e)
{
    return strlen(value) == 1 ? 0 : err_set(e, ERR_ARG, "must be short");
}

static const struct option inner[] = {
    REAL_OPTION("real", "X", &real, -1, 2, "a real"),
    OPTIONS_END,
};
static const struct option table[] = {
    INT_OPTION("the-number", "N", &whole, 0, 99, "a number", .letter = 'n'),
    OPTIONS_OF(inner),
    FLAG_OPTION("switch", &on, "a flag"),
    TEXT_OPTION("text", "TEXT", &text, "a text", .letter = 't'),
    NAME_OPTION("colour", "NAME", &name, name_at, "names", .many = true),
    LIST_OPTION("list", "X", &list, "a list", .json = true, .form = short_form),
    WORDS_OPTION("words", "X", &words, "words"),
    OPTIONS_END,
};
static const struct command command = {
    .name = "try", .usage = "[A] [B]", .options = table, .arg_max = 2};

/* Texts of a JSON list are valid until the program ends. The leak check must find the lists that
 * contain them. */
static struct text_list kept[128];
static int n_kept;

static void reset(void)
{
    whole = 7, real = 0.5, on = false, text = name = NULL;
    kept[n_kept++ % 128] = list;
    list = (struct text_list){0};
    words.n = 0;
}

/* Parse a command line of words with blanks between them. `line` is changed, and the positional
 * arguments are in arg [*n]. */
static int parse(char *line, char **arg, int *n, struct err *e)
{
    reset();
    *n = 0;
    for (char *word; (word = strsep(&line, " "));) arg[(*n)++] = word;
    return options_parse(&command, n, arg, e);
}

TEST(options_of_a_command_line_set_their_targets)
{
    struct err e;
    char *arg[32];
    int n;
    char line[] = "a --the_number=12 --real -.5 --switch -thello --colour red,green b --list x "
                  "--list [\"y\",\"z\"] --words one -2 - --no-switch";
    NEED_OK(parse(line, arg, &n, &e), &e);
    EXPECT_INT(n, 2);
    EXPECT_TEXT(arg[0], "a");
    EXPECT_TEXT(arg[1], "b");
    EXPECT(whole == 12 && real == -0.5 && !on);
    EXPECT_TEXT(text, "hello");
    EXPECT_TEXT(name, "red,green");
    NEED(list.n == 3 && words.n == 3);
    EXPECT_TEXT(list.v[2], "z");
    EXPECT_TEXT(words.v[1], "-2");
    char last[] = "-n 5 -n6 --list x --no-list --switch=no -- --switch -n";
    NEED_OK(parse(last, arg, &n, &e), &e);
    EXPECT(whole == 6 && list.n == 0 && !on && n == 2);
    EXPECT_TEXT(arg[0], "--switch");
}

TEST(other_words_of_a_command_line_are_refused_by_name)
{
    static const struct {
        const char *line, *word;
    } cases[] = {
        {"--the-number 100", "--the-number: must be an integer in [0, 99], got 100"},
        {"--the-number 5x", "--the-number: must be an integer"},
        {"--the-number=", "--the-number: must be an integer"},
        {"--the-number 99999999999999999999", "--the-number: must be an integer"},
        {"-n", "--the-number needs a value: --the-number N"},
        {"--real nan", "--real: must be a number in [-1, 2], got nan"},
        {"--real inf", "--real: must be a number"},
        {"--switch=maybe", "--switch: must be true or false, got \"maybe\""},
        {"--colour red,blue", "--colour"},
        {"--list xx", "--list: must be short"},
        {"--list [\"x\",\"yy\"]", "--list: must be short"},
        {"--list [1]", "--list: expected a list of strings"},
        {"--list [\"x\"", "--list"},
        {"--the-numbr 5", "did you mean --the-number?"},
        {"--no-text", "unknown flag --no-text"},
        {"--no-the-number", "unknown flag --no-the-number"},
        {"--", NULL},
        {"--config", "--config needs a file"},
        {"--config /nowhere/x", "/nowhere/x"},
        {"a b c", "unexpected argument \"c\"; usage: quoth try [A] [B]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        char line[80], *arg[8];
        int n;
        snprintf(line, sizeof line, "%s", cases[i].line);
        const int rc = parse(line, arg, &n, &e);
        if ((rc == 0) != !cases[i].word || (rc != 0 && !strstr(e.text, cases[i].word)))
            test_fail(__FILE__, __LINE__, "%s: %d \"%s\"", cases[i].line, rc, e.text);
    }
}

TEST(config_files_set_options_line_by_line)
{
    static const struct {
        const char *file, *word;
    } cases[] = {
        {"# comment\n\n the_number : 5 \ntext = 'a: b'\nswitch: yes\n", NULL},
        {"text: \"", NULL},
        {"the-number: 5\nreal: 7\n", "conf:2: --real: must be a number in [-1, 2], got 7"},
        {"the-number\n", "conf:1: expected \"name: value\", got \"the-number\""},
        {"nothing: 1\n", "conf:1: unknown flag --nothing"},
        {": 1\n", "conf:1: unknown flag --"},
        {"a-name-that-is-longer-than-sixty-four-bytes-in-order-to-test-the-buffer-of-it: 1\n",
         "conf:1: unknown flag --a-name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        char line[300], *arg[8];
        int n;
        NEED(temp_put("conf", cases[i].file));
        snprintf(line, sizeof line, "--config %s -n 6", temp_path("conf"));
        const int rc = parse(line, arg, &n, &e);
        if ((rc == 0) != !cases[i].word || (rc != 0 && !strstr(e.text, cases[i].word)))
            test_fail(__FILE__, __LINE__, "%s: %d \"%s\"", cases[i].file, rc, e.text);
        EXPECT(i > 0 || (whole == 6 && on && text && strcmp(text, "a: b") == 0));
    }
}

/* Goal: a NUL in a config file is an error, because the NUL would hide the remaining part of its
 * line. The last line of a name has precedence, as on the command line. */
TEST(config_files_have_no_nul)
{
    static const char nul[] = "the_number: 4\0 2\n";
    struct err e = {0};
    char line[300], *arg[8];
    int n;
    NEED(temp_put("conf", ""));
    snprintf(line, sizeof line, "--config %s", temp_path("conf"));
    FILE *f = fopen(temp_path("conf"), "wb");
    NEED(f && fwrite(nul, 1, sizeof nul - 1, f) == sizeof nul - 1 && fclose(f) == 0);
    EXPECT_INT(parse(line, arg, &n, &e), ERR_FORMAT);
    EXPECT(strstr(e.text, "conf: cannot read: the file contains NUL"));
    NEED(temp_put("conf", "the_number: 4\nthe_number: 5\n"));
    snprintf(line, sizeof line, "--config %s", temp_path("conf"));
    EXPECT_INT(parse(line, arg, &n, &e), 0);
    EXPECT_INT(whole, 5);
}

/* Goal: a check does not change the target, and accepts the values that setting accepts. */
TEST(options_are_set_and_judged_by_name)
{
    static const struct {
        const char *name, *value;
        int rc;
    } cases[] = {{"the_number", "42", 0},       {"the-number", "100", ERR_ARG},
                 {"the-number", NULL, ERR_ARG}, {"switch", NULL, 0},
                 {"no-switch", NULL, 0},        {"list", "[\"x\",\"y\"]", 0},
                 {"list", "xx", ERR_ARG},       {"colour", "blue", ERR_ARG},
                 {"swich", "1", ERR_ARG},       {"other", "1", ERR_MISSING}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e;
        reset();
        EXPECT_INT(options_judge(table, cases[i].name, cases[i].value, &e), cases[i].rc);
        EXPECT(whole == 7 && !on && !name && list.n == 0);
        EXPECT_INT(options_set(table, cases[i].name, cases[i].value, &e), cases[i].rc);
    }
    EXPECT_TEXT(option_name(table, 1), "real");
    EXPECT(!option_name(table, 7) && !option_name(table, -1));
}

/* Goal: the number of a command's options is not limited. */
TEST(names_of_a_large_table)
{
    enum { N = 400 };
    static struct option large[N + 1], outer[2] = {{.kind = OPTION_GROUP, .include = large}};
    static char names[N][24];
    struct err e;
    outer[1].kind = large[N].kind = OPTION_END;
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "option-%d", i);
        large[i] = (struct option){.kind = OPTION_FLAG, .name = names[i]};
    }
    for (int i = 0; i < N; i++) EXPECT_TEXT(option_name(outer, i), names[i]);
    EXPECT(!option_name(outer, N));
    EXPECT_INT(options_judge(outer, "opsion-399", "1", &e), ERR_ARG);
    EXPECT(strstr(e.text, "option-399"));
}

TEST(names_near_a_mistyped_one)
{
    static const char *const names[] = {"temperature", "top-p", "top-k", "now"};
    static const char *const near[][2] = {
        {"temprature", "temperature"},
        {"temp", "temperature"},
        {"top_p", "top-p"},
        {"top", "top-p"},
        {"seed", NULL},
        {"foo", NULL}, /* "now" with two edits */
        {"temperature-of-the-whole-answer-and-everything-after-it", NULL},
    };
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        const char *got = nearest_name(near[i][0], names, 4);
        if (!got != !near[i][1] || (got && strcmp(got, near[i][1]) != 0))
            test_fail(__FILE__, __LINE__, "%s: %s", near[i][0], got ? got : "none");
    }
    EXPECT(nearest_name("x", NULL, 0) == NULL);
    EXPECT(same_name("a_b", 3, "a-b") && !same_name("a_b", 3, "a_b") && !same_name("ab", 1, "ab"));
}
