/* base64_test.c - goal: decoding restores encoded bytes, and invalid base64 is rejected. Method:
 * RFC 4648's examples, and random bytes of every length. */
#include "../../tests/unit.h"

#include "base64.h"
#include "rng.h"

#include <string.h>

TEST(base64_is_rfc_4648s)
{
    static const char *const pair[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++) {
        struct buf text = {0}, back = {0};
        buf_add_text(&text, "");
        buf_add_text(&back, "");
        base64_encode(pair[i][0], strlen(pair[i][0]), &text);
        EXPECT_TEXT(text.data, pair[i][1]);
        EXPECT(base64_decode(text.data, text.n, &back));
        EXPECT_TEXT(back.data, pair[i][0]);
        buf_deinit(&text);
        buf_deinit(&back);
    }
    struct buf out = {0};
    EXPECT(!base64_decode("Zm9*", 4, &out));
    EXPECT(!base64_decode("Z", 1, &out));
    buf_deinit(&out);
}

TEST(base64_keeps_random_bytes)
{
    uint64_t rng = 4;
    uint8_t byte[200];
    for (size_t n = 0; n < sizeof byte; n++) {
        struct buf text = {0}, back = {0};
        for (size_t i = 0; i < n; i++) byte[i] = (uint8_t)rng_below(&rng, 256);
        base64_encode(byte, n, &text);
        EXPECT_INT(text.n, (n + 2) / 3 * 4);
        EXPECT(base64_decode(text.data ? text.data : "", text.n, &back));
        EXPECT_INT(back.n, n);
        EXPECT(n == 0 || memcmp(back.data, byte, n) == 0);
        buf_deinit(&text);
        buf_deinit(&back);
    }
}
