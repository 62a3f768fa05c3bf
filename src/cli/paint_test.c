/* Goal: an answer on a terminal is wrapped at words, and Markdown becomes styles. Pieces of any
 * size give the same bytes. Method: write texts to a file, glyph by glyph and in random pieces. The
 * width changes between the pieces. */
#include "paint.h"

#include "base/utf8.h"

#include "../../tests/unit.h"

#include <string.h>

#define B "\033[1m"
#define b "\033[22m"
#define C "\033[36m"
#define c "\033[39m"

static void feed(struct paint *p, const char *text)
{
    for (size_t i = 0, n = strlen(text); i < n;) {
        uint32_t glyph;
        int len = utf8_decode(text + i, n - i, &glyph);
        NEED(len > 0);
        paint_glyph(p, glyph);
        i += (size_t)len;
    }
}

static void expect_painted(int width, bool markdown, const char *text, const char *want)
{
    char got[1024];
    FILE *f = tmpfile();
    NEED(f != NULL);
    struct paint p = {.out = f, .width = width, .markdown = markdown};
    feed(&p, text);
    paint_flush(&p);
    rewind(f);
    got[fread(got, 1, sizeof got - 1, f)] = 0;
    EXPECT_TEXT(got, want);
    paint_deinit(&p);
    fclose(f);
}

TEST(paint_wraps_at_words)
{
    static const struct {
        int width;
        const char *text, *want;
    } cases[] = {
        {10, "one two three four", "one two\nthree four"},
        {10, "one two  three", "one two\nthree"},
        {10, "exactly te", "exactly te"},
        {10, "exactly ten", "exactly\nten"},
        {10, "\n\n a b\n", "\n\n a b\n"},
        {6, "abcdefghijklm no", "abcdef\nghijkl\nm no"},
        {6, "\xE5\xAE\xBD\xE5\xAE\xBD\xE5\xAE\xBD\xE5\xAE\xBD",
         "\xE5\xAE\xBD\xE5\xAE\xBD\xE5\xAE\xBD\n\xE5\xAE\xBD"},
        {5, "ab\xE5\xAE\xBD\xE5\xAE\xBD", "ab\xE5\xAE\xBD\n\xE5\xAE\xBD"},
        {9, "a\tb\tc", "a       b\nc"},
        {0, "no width, no rows at all", "no width, no rows at all"},
        {1, "abc", "a\nb\nc"},
        {12, "**not** `bold`", "**not**\n`bold`"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_painted(cases[i].width, false, cases[i].text, cases[i].want);
}

TEST(paint_renders_markdown)
{
    static const struct {
        int width;
        const char *text, *want;
    } cases[] = {
        {40, "a **bold** word", "a " B "bold" b " word"},
        {40, "**a b**c\nd", B "a b" b "c\nd"},
        {8, "so **bold words** end", "so " B "bold\nwords" b "\nend"},
        {40, "2 ** 3 and a**b and *x*", "2 ** 3 and a**b and *x*"},
        {40, "**open\nnext", B "open" b "\nnext"},
        {40, "use `x * **y**` now", "use " C "x * **y**" c " now"},
        {40, "a **`b`**, **c `d` e**", "a " B C "b" c b ", " B "c " C "d" c " e" b},
        {40, "``a`b`` c", C "a`b" c " c"},
        {40, "\\*\\*plain\\*\\* \\n", "**plain** \\n"},
        {40, "# Big *n*\ntext", B "Big *n*" b "\ntext"},
        {40, "#hash -1 - x", "#hash -1 - x"},
        {40, "- one\n  * two\n+ three", "\xE2\x80\xA2 one\n  \xE2\x80\xA2 two\n\xE2\x80\xA2 three"},
        {12, "- one two three", "\xE2\x80\xA2 one two\n  three"},
        {12, "10. one two three", "10. one two\n    three"},
        {40, "12 apples\n3.5 pears\n-5", "12 apples\n3.5 pears\n-5"},
        {8, "```c\nint  main(void);\n\n**\n```\nend", C "int  main(void);\n\n**\n" c "end"},
        {40, "```\nopen", C "open" c},
        {40, "---\n**", "---\n**"},
        {40, "- ", "\xE2\x80\xA2"},
        {40, "-", "-"},
        {40, "**bold:** x", B "bold:" b " x"},
        {40, "\xE5\xAE\xBD**b**", "\xE5\xAE\xBD" B "b" b},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_painted(cases[i].width, true, cases[i].text, cases[i].want);
}

TEST(paint_follows_the_width)
{
    char got[64];
    FILE *f = tmpfile();
    NEED(f != NULL);
    struct paint p = {.out = f, .width = 20};
    feed(&p, "one two three fou");
    p.width = 8;
    feed(&p, "r five six seven");
    paint_flush(&p);
    rewind(f);
    got[fread(got, 1, sizeof got - 1, f)] = 0;
    EXPECT_TEXT(got, "one two three\nfour\nfive six\nseven");
    paint_deinit(&p);
    fclose(f);
}
