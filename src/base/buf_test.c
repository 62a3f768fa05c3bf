/* buf_test.c - growing byte strings and arrays. */
#include "buf.h"
#include "../../tests/unit.h"

#include <stdlib.h>

TEST(buf_adds)
{
    struct buf b = {0};
    buf_add(&b, "a\0b", 3);
    buf_add_text(&b, "cd"), buf_add_char(&b, 'e'), buf_add_utf8(&b, 0x20AC),
        buf_addf(&b, "%d-%s", 42, "x");
    EXPECT(b.n == 13 && memcmp(b.data,
                               "a\0bcde\xE2\x82\xAC"
                               "42-x",
                               14) == 0);
    buf_clear(&b);
    EXPECT(b.n == 0 && b.data[0] == 0 && b.cap > 0);
    buf_deinit(&b);
    EXPECT(!b.data && b.cap == 0);
    buf_deinit(&b);
}

TEST(buf_limit_is_sticky)
{
    /* Goal: passing max sets failed, and nothing is added any more, however small. */
    struct buf b = {.max = 4};
    buf_add_text(&b, "abcd");
    EXPECT(!b.failed && b.n == 4);
    buf_addf(&b, "%s", "e");
    EXPECT(b.failed && b.n == 4);
    EXPECT_TEXT(b.data, "abcd");
    EXPECT(!buf_detach(&b));
    buf_clear(&b);
    buf_add_text(&b, "ok");
    EXPECT(!b.failed && b.n == 2);
    EXPECT(!buf_room(&b, SIZE_MAX));
    buf_deinit(&b);
}

TEST(buf_detach_gives_away)
{
    struct buf b = {0};
    char *empty = buf_detach(&b);
    EXPECT_TEXT(empty, "");
    free(empty);
    buf_add_text(&b, "mine");
    char *text = buf_detach(&b);
    EXPECT(!b.data && b.n == 0);
    EXPECT_TEXT(text, "mine");
    free(text);
}

TEST(vec_grows)
{
    VEC(int) v = {0};
    for (int i = 0; i < 1000; i++) NEED(vec_push(&v, i));
    EXPECT(v.n == 1000 && v.v[0] == 0 && v.v[999] == 999 && v.cap >= 1000);
    EXPECT(!vec_reserve(&v, SIZE_MAX / 2) && v.n == 1000);
    vec_deinit(&v);
    EXPECT(!v.v && v.n == 0 && v.cap == 0);
}
