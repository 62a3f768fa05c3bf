/* Goal: the table of other engines' spellings is consistent. Values are mapped, accepted or
 * rejected as its rows require. Method: check each row of aliases.def by itself, and parse single
 * flags with options_parse for a small command. */
#include "option_impl.h"

#include "base/log.h"

#include "../../tests/unit.h"

#include <string.h>

static int64_t length, letter_n;
static bool cache;
static const char *type;
static const struct option table[] = {
    INT_OPTION("max-model-len", "N", &length, 0, 1000, "length"),
    INT_OPTION("number", "N", &letter_n, 0, 9, "number", .letter = 'n'),
    FLAG_OPTION("enable-prefix-caching", &cache, "cache"),
    TEXT_OPTION("kv-cache-dtype", "TYPE", &type, "type"),
    OPTIONS_END,
};
static const struct command command = {
    .name = "try", .usage = "[MODEL] [PROMPT]", .options = table, .arg_max = 2};

TEST(alias_rows_are_sound)
{
    const struct alias *a;
    for (int i = 0; (a = alias_at(i)); i++) {
        bool sets = a->values && strchr(a->values, '=');
        if (sets != (a->option != NULL))
            test_fail(__FILE__, __LINE__, "%s: a value with = needs an option", a->spellings);
        for (const char *word = a->spellings; *word;) {
            bool negated;
            size_t n = strcspn(word, " ");
            const struct alias *found = word[n - 1] == '*' ? a : alias_find(word, n, &negated);
            if (found != a) test_fail(__FILE__, __LINE__, "%.*s: another row has it", (int)n, word);
            word += n + (word[n] == ' ');
        }
    }
}

/* Parse a command line of words with blanks between them. */
static int parse(char *line, char **arg, int *n, struct err *e)
{
    *n = 0;
    for (char *word; (word = strsep(&line, " "));) arg[(*n)++] = word;
    return options_parse(&command, n, arg, e);
}

TEST(alias_values_get_a_prefix)
{
    struct err e;
    char *arg[16], hub[] = "-p hello -hf org/repo:Q4_0";
    int n;
    NEED_OK(parse(hub, arg, &n, &e), &e);
    EXPECT_INT(n, 2);
    EXPECT_TEXT(arg[0], "hf:org/repo:Q4_0");
    EXPECT_TEXT(arg[1], "hello");
}

TEST(alias_flags_on_a_command_line)
{
    struct err e;
    char *arg[16];
    int n;
    char good[] =
        "-p hello -c 77 -n5 --ctk q8_0 -tp 1 --disable_radix_cache -m m.gguf -fa --flash-attn on";
    NEED_OK(parse(good, arg, &n, &e), &e);
    EXPECT(length == 77 && letter_n == 5 && !cache && n == 2);
    EXPECT_TEXT(type, "int8");
    EXPECT_TEXT(arg[0], "m.gguf");
    EXPECT_TEXT(arg[1], "hello");
    static const char *const bad[][2] = {
        {"-tp 2", "-tp: must be 1, got \"2\": not supported yet"},
        {"--enable-lora-bias", "--enable-lora-bias: not supported yet"},
        {"-ctv f16", "-ctv: --ctk has set --kv-cache-dtype to \"int8\" already"},
        {"-npq 1", "unknown flag -npq; quoth try --help lists them"},
        {"-nx", "unknown flag -nx; quoth try --help lists them"},
        {"-np 3",
         "-np: flag not found: quoth try has no --max-num-seqs; quoth try --help lists its flags"},
        {"--pp", "--pp needs a value"},
        {"a -p b -m c", "unexpected argument \"c\"; usage: quoth try [MODEL] [PROMPT]"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[80];
        snprintf(line, sizeof line, "%s", bad[i][0]);
        EXPECT(parse(line, arg, &n, &e) == ERR_ARG);
        EXPECT_TEXT(e.text, bad[i][1]);
    }
    log_silent = true;
    options_notes();
    log_silent = false;
}
