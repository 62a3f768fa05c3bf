/* arena_test.c - tests of memory with one lifetime. */
#include "arena.h"
#include "../../tests/unit.h"

TEST(arena_alignment_and_contents)
{
    /* Goal: pieces have the requested alignment and do not overlap, in small and large sizes. */
    struct arena a = {0};
    unsigned char *piece[200];
    for (int i = 0; i < 200; i++) {
        size_t align = (size_t)1 << i % 13, n = (size_t)(i * 97 % 5000 + 1);
        piece[i] = arena_push(&a, n, align);
        NEED(piece[i] && (uintptr_t)piece[i] % align == 0);
        memset(piece[i], i, n);
    }
    for (int i = 0; i < 200; i++) {
        size_t n = (size_t)(i * 97 % 5000 + 1);
        EXPECT(piece[i][0] == i && piece[i][n - 1] == i);
    }
    EXPECT_TEXT(arena_text(&a, "copyright", 4), "copy");
    const char *zero = arena_push0(&a, 1000, 100);
    for (int i = 0; i < 100000; i++) NEED(zero && zero[i] == 0);
    EXPECT(arena_push0(&a, 0, 8));
    arena_deinit(&a);
    EXPECT(a.n_byte == 0);
    arena_deinit(&a);
}

TEST(arena_limits)
{
    struct arena a = {.bytes_max = 100};
    EXPECT(arena_push(&a, 60, 1) && !arena_push(&a, 41, 1) && arena_push(&a, 40, 1) &&
           a.n_byte == 100);
    EXPECT(!arena_push0(&a, SIZE_MAX / 2, 3) && !arena_push(&a, SIZE_MAX, 1));
    arena_deinit(&a);
}
