/* Goal: an INI text is read line by line, and each malformed line is rejected with its number. */
#include "ini.h"

#include "buf.h"

#include "../../tests/unit.h"

#include <string.h>

static int note(void *ctx, const char *section, const char *key, const char *value, struct err *e)
{
    struct buf *b = ctx;
    if (key && strcmp(key, "bad") == 0) return err_field(e, ERR_ARG, "bad", ": unknown option");
    if (key)
        buf_addf(b, "%s|%s|%s;", section, key, value);
    else
        buf_addf(b, "[%s];", section);
    return 0;
}

TEST(ini_reads_sections_and_lines)
{
    static const char text[] = "version = 1\n"
                               "; a comment\n"
                               "\n"
                               "[*]\r\n"
                               "  c=8192 \r\n"
                               "[ a/b:Q8_0 ]\n"
                               "# more\n"
                               "key = a = b ; c\n"
                               "quoted = \" x \"\n"
                               "empty =";
    struct buf b = {0};
    struct err e = {0};
    EXPECT_INT(ini_read(text, strlen(text), "p", note, &b, &e), 0);
    EXPECT_TEXT(b.data, "|version|1;[*];*|c|8192;[a/b:Q8_0];a/b:Q8_0|key|a = b ; c;"
                        "a/b:Q8_0|quoted| x ;a/b:Q8_0|empty|;");
    buf_deinit(&b);
}

TEST(ini_rejects_malformed_lines)
{
    static char line[4200];
    memset(line, 'x', sizeof line);
    const struct {
        const char *text; /* static */
        size_t n;
        int rc;
        const char *place; /* static */
    } c[] = {
        {"a=1\nb", 5, ERR_FORMAT, "p:2: expected KEY = VALUE"},
        {"= 1", 3, ERR_FORMAT, "p:1: "},
        {"[a", 2, ERR_FORMAT, "p:1: expected ]"},
        {"[ ]", 3, ERR_FORMAT, "p:1: expected the name"},
        {"a = \"x", 6, ERR_FORMAT, "p:1: expected a second"},
        {"a = \"", 5, ERR_FORMAT, "p:1: expected a second"},
        {"a\0=1", 4, ERR_FORMAT, "p:1: the line has a NUL"},
        {"\n\nbad = 1", 9, ERR_ARG, "p:3: bad: unknown option"},
        {line, sizeof line, ERR_LIMIT, "p:1: the line has 4200 bytes"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct buf b = {0};
        struct err e = {0};
        EXPECT_INT(ini_read(c[i].text, c[i].n, "p", note, &b, &e), c[i].rc);
        if (strncmp(e.text, c[i].place, strlen(c[i].place)) != 0)
            test_fail(__FILE__, __LINE__, "%zu: %s", i, e.text);
        buf_deinit(&b);
    }
}
