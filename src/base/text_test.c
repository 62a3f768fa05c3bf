/* text_test.c - goal: ends, names and digits are found. Corner cases: a text that equals its end,
 * an empty text, a path that ends with a slash, the characters next to the digits. */
#include "../../tests/unit.h"

#include "text.h"

TEST(text_ends)
{
    EXPECT(text_ends_with("a.json", ".json") && text_ends_with(".json", ".json"));
    EXPECT(!text_ends_with("json", ".json") && !text_ends_with("a.jsonl", ".json"));
    EXPECT(text_ends_with("", "") && text_n_ends_with(NULL, 0, ""));
    EXPECT(!text_n_ends_with(NULL, 0, "x") && !text_n_ends_with("ab", 1, "b"));
}

TEST(path_has_a_name)
{
    EXPECT_TEXT(path_name("a/b/c"), "c");
    EXPECT_TEXT(path_name("c"), "c");
    EXPECT_TEXT(path_name("a/"), "");
}

TEST(hex_digits_of_all_bytes)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    int n = 0;
    for (int c = 0; c < 256; c++) n += hex_digit((char)c) >= 0;
    EXPECT(n == 22);
    for (int i = 0; i < 22; i++) EXPECT(hex_digit(digits[i]) == (i < 16 ? i : i - 6));
}

TEST(hex_numbers_end_at_limits_and_other_characters)
{
    uint32_t v = 1;
    EXPECT(hex_read("ffFF00", 6, 4, &v) == 4 && v == 0xffff);
    EXPECT(hex_read("12345678", 8, 8, &v) == 8 && v == 0x12345678);
    EXPECT(hex_read("a0g", 3, 8, &v) == 2 && v == 0xa0);
    EXPECT(hex_read("abc", 1, 8, &v) == 1 && v == 0xa);
    EXPECT(hex_read("", 0, 8, &v) == 0 && v == 0);
    EXPECT(hex_read("}1", 2, 6, &v) == 0 && v == 0);
}
