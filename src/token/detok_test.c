/* detok_test.c - goal: decoding is correct, at once and as a stream. Method: a vocabulary of all
 * 256 bytes, which permits every split. */
#include "token_impl.h"
#include "base/utf8.h"
#include "../../tests/unit.h"

#include <stdlib.h>

/* Open a byte-level vocabulary: ids [0, 255] are the bytes, 256 is "<end>", a control token. */
static struct tokenizer *open_bytes(void)
{
    struct tokenizer *t = tokenizer_open_empty();
    struct err e;
    for (size_t b = 0; b < 256; b++) {
        char c = (char)b;
        if (tokenizer_put(t, b, &c, 1, PIECE_NORMAL, 0, &e) != 0) abort();
    }
    if (tokenizer_put(t, 256, "<end>", 5, PIECE_CONTROL, 0, &e) != 0) abort();
    t->kind = &token_kind_bpe;
    t->opt.raw_bytes = true;
    t->eos = 256;
    t->piece[256].match = MATCH_RAW;
    if (tokenizer_finish(t, &e) != 0) abort();
    return t;
}

static void replace_bad(const char *p, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = utf8_decode(p + i, n - i, &cp);
        if (len > 0)
            buf_add(out, p + i, (size_t)len);
        else
            buf_add_utf8(out, 0xFFFD);
        i += (size_t)(len > 0 ? len : utf8_bad_len(p + i, n - i));
    }
}

static void stream(const struct tokenizer *t, const char *p, size_t n, struct buf *out)
{
    struct detok d;
    detok_init(&d, t, 0);
    for (size_t i = 0; i < n; i++) {
        size_t before = out->n;
        EXPECT(detok_push(&d, (uint8_t)p[i], out));
        if (out->n > before && !utf8_valid(out->data + before, out->n - before))
            test_fail(__FILE__, __LINE__, "broken after byte %zu", i);
    }
    EXPECT(detok_flush(&d, out));
}

/* Goal: the output never contains an invalid sequence. The output equals the text with invalid
 * bytes replaced. Method: decode every file of UTF-8 tests byte by byte, from every start. */
TEST(stream_is_always_valid_utf8)
{
    static const char *const file[] = {"text/unicode/utf8tests/utf8tests.bin",
                                       "text/unicode/utf8tests/utf8tests.txt",
                                       "text/unicode/utf8tests/utf8.replace.ref.txt"};
    struct tokenizer *t = open_bytes();
    struct err e;
    for (size_t i = 0; i < sizeof file / sizeof file[0]; i++) {
        struct buf text = {0};
        if (!data_path(file[i]) || file_read(&text, data_path(file[i]), 1 << 20, &e) != 0) continue;
        size_t step = text.n > 8000 ? 61 : 7;
        for (size_t from = 0; from < text.n; from += test_long() ? 1 : step) {
            struct buf got = {0}, want = {0};
            stream(t, text.data + from, text.n - from, &got);
            replace_bad(text.data + from, text.n - from, &want);
            EXPECT(got.n == want.n && memcmp(got.data, want.data, want.n) == 0);
            buf_deinit(&got);
            buf_deinit(&want);
        }
        buf_deinit(&text);
    }
    tokenizer_close(t);
}

TEST(stream_of_every_three_bytes)
{
    struct tokenizer *t = open_bytes();
    static const uint8_t byte[] = {0x41, 0x80, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF,
                                   0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF4, 0xFF};
    enum { N = sizeof byte };
    struct buf got = {0}, want = {0};
    for (int i = 0; i < N * N * N * N; i++) {
        char text[4] = {(char)byte[i % N], (char)byte[i / N % N], (char)byte[i / N / N % N],
                        (char)byte[i / N / N / N]};
        buf_clear(&got);
        buf_clear(&want);
        stream(t, text, 4, &got);
        replace_bad(text, 4, &want);
        EXPECT(got.n == want.n && memcmp(got.data, want.data, want.n) == 0);
    }
    buf_deinit(&got);
    buf_deinit(&want);
    tokenizer_close(t);
}

TEST(special_tokens_can_be_left_out)
{
    struct tokenizer *t = open_bytes();
    const int32_t ids[] = {'a', 256, 'b', 9999, -1};
    struct buf out = {0};
    EXPECT(tokenizer_decode(t, ids, 5, 0, &out));
    EXPECT_TEXT(out.data, "a<end>b");
    buf_clear(&out);
    EXPECT(tokenizer_decode(t, ids, 5, DECODE_SKIP_SPECIAL, &out));
    EXPECT_TEXT(out.data, "ab");
    EXPECT(tokenizer_is_eog(t, 256) && tokenizer_is_special(t, 256) &&
           !tokenizer_is_special(t, 'a'));
    buf_deinit(&out);
    tokenizer_close(t);
}
