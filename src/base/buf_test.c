/* buf_test.c - growing byte strings and arrays. */
#include "buf.h"
#include "../../tests/unit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Goal: conversions that buf_addf handles itself give the same text as printf. */
TEST(buf_formats_as_printf)
{
    static const long long number[] = {0,   1,    -1,   7,       -7,      42,        -42,
                                       999, -999, 1000, INT_MAX, INT_MIN, LLONG_MAX, LLONG_MIN};
    struct buf b = {0};
    char want[200];
#define SAME(...)                                                                                  \
    do {                                                                                           \
        snprintf(want, sizeof want, __VA_ARGS__);                                                  \
        buf_clear(&b);                                                                             \
        buf_addf(&b, __VA_ARGS__);                                                                 \
        EXPECT_TEXT(b.data, want);                                                                 \
        EXPECT_INT(b.n, strlen(want));                                                             \
    } while (0)
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        long long v = number[i];
        SAME("%d|%u|%03d.", (int)v, (unsigned)v, (int)v);
        SAME("%lld, %llu, %zu", v, (unsigned long long)v, (size_t)v);
        SAME("%5d|%-5d|%x|%03lld|%ld|%i", (int)v, (int)v, (unsigned)v, v, (long)v, (int)v);
        SAME("%.3f %d", (double)v, (int)v);
    }
    SAME("%s%c%s%%", "a", 'b', "");
    SAME("no conversion");
    SAME("%.*s|%.2s|%8s", 2, "abc", "abc", "abc");
    SAME("100%% of %s%%%d", "x", 3);
#undef SAME
    buf_deinit(&b);
    b.max = 6; /* all or nothing */
    buf_addf(&b, "abc");
    buf_addf(&b, "d%de%d", 1, 2);
    EXPECT(b.failed && b.n == 3);
    EXPECT_TEXT(b.data, "abc");
    buf_deinit(&b);
}

TEST(buf_limit_is_sticky)
{
    /* Goal: an addition beyond max sets failed and appends nothing. */
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
