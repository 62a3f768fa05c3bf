/* utf8_test.c - compare UTF-8 with its definition, for every code point and every short byte
 * string. */
#include "utf8.h"
#include "../../tests/unit.h"

TEST(utf8_every_code_point)
{
    /* Goal: encode and decode are inverse. Surrogates and values above U+10FFFF are rejected. */
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char bytes[4];
        uint32_t back;
        int n = utf8_encode(bytes, cp), want = cp < 0x80      ? 1
                                               : cp < 0x800   ? 2
                                               : cp < 0x10000 ? 3
                                                              : 4;
        bool surrogate = cp >= 0xD800 && cp <= 0xDFFF;
        NEED(n == want);
        NEED(utf8_decode(bytes, (size_t)n, &back) == (surrogate ? 0 : n));
        NEED(back == (surrogate ? 0xFFFD : cp));
        for (int cut = 1; cut < n && !surrogate; cut++)
            NEED(utf8_decode(bytes, (size_t)cut, &back) == -1);
    }
}

/* Return the length by the definition, from shape and value instead of table 3-7. */
static int naive_len(const uint8_t *s, size_t n)
{
    int len = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
    if (len == 0 || (size_t)len > n) return 0;
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t cp = len == 1 ? s[0] : s[0] & (0x7Fu >> len);
    for (int i = 1; i < len; i++) {
        if (s[i] >> 6 != 2) return 0;
        cp = cp << 6 | (s[i] & 0x3F);
    }
    bool ok = cp >= least[len] && cp <= 0x10FFFF && !(cp >= 0xD800 && cp <= 0xDFFF);
    return ok ? len : 0;
}

TEST(utf8_every_short_string)
{
    /* Goal: a decoded length equals the length by the definition. Method: all 4-byte strings of
     * boundary bytes. */
    static const uint8_t boundary[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                       0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                       0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    enum { N = sizeof boundary };
    for (int i = 0; i < N * N * N * N; i++) {
        uint8_t s[4] = {boundary[i % N], boundary[i / N % N], boundary[i / N / N % N],
                        boundary[i / N / N / N]};
        uint32_t cp;
        int got = utf8_decode((const char *)s, 4, &cp);
        NEED(got == naive_len(s, 4));
        NEED(got > 0 || cp == 0xFFFD);
    }
}

TEST(utf8_maximal_subparts)
{
    /* Goal: one replacement character replaces the bytes of table 3-8 of the Unicode standard. */
    EXPECT_INT(utf8_bad_len("\xC0\xAF", 2), 1);
    EXPECT_INT(utf8_bad_len("\xE0\x80\x80", 3), 1);
    EXPECT_INT(utf8_bad_len("\xED\xA0\x80", 3), 1);
    EXPECT_INT(utf8_bad_len("\xF4\x91\x92\x93", 4), 1);
    EXPECT_INT(utf8_bad_len("\xE1\x80\xE2", 3), 2);
    EXPECT_INT(utf8_bad_len("\xF0\x91\x92", 3), 3);
    EXPECT_INT(utf8_bad_len("\xF1\xBF\x41", 3), 2);
    EXPECT_INT(utf8_bad_len("\x80", 1), 1);
    EXPECT_INT(utf8_bad_len("", 0), 0);
}

TEST(utf8_valid_and_width)
{
    EXPECT(utf8_valid("", 0) && utf8_valid("h\xC3\xA9\0z", 5));
    EXPECT(!utf8_valid("\xC3", 1) && !utf8_valid("a\xED\xA0\x80", 4));
    EXPECT(utf8_width('a') == 1 && utf8_width(0x4E2D) == 2 && utf8_width(0x301) == 0);
}

TEST(utf8_shows_one_line)
{
    char text[] = "a\x1b[2J\nb\tc\r\x7f \xC3\xA9 \xC2\x9B \xC2\xA0\xC2";
    utf8_show(text, sizeof text - 1);
    EXPECT_TEXT(text, "a?[2J b c?? \xC3\xA9 ?? \xC2\xA0\xC2");
    char turned[] = "\xE2\x80\xAE"
                    "a\xE2\x80\xA8\xD8\x9C\xE2\x81\xA6\xE2\x80\x8B\xC2\x85\xE2\x80\xA7";
    utf8_show(turned, sizeof turned - 1);
    EXPECT_TEXT(turned, "???a????????\xE2\x80\x8B??\xE2\x80\xA7");
}

/* Goal: an error shows a character or a byte, but never a control character. */
TEST(utf8_first_character_as_text)
{
    char out[24];
    EXPECT_TEXT(utf8_first_text("", 0, out), "the end");
    EXPECT_TEXT(utf8_first_text("ab", 2, out), "'a'");
    EXPECT_TEXT(utf8_first_text("\xF0\x9F\x98\x80z", 5, out), "'\xF0\x9F\x98\x80'");
    EXPECT_TEXT(utf8_first_text("\x1b[", 2, out), "the byte 0x1b");
    EXPECT_TEXT(utf8_first_text("\xE2\x80\xAE", 3, out), "the byte 0xe2");
    EXPECT_TEXT(utf8_first_text("\xC3", 1, out), "the byte 0xc3");
}
