/* world_test.c - goal: RWKV's lists of tokens are read as Python reads them. Lines with another
 * form are rejected. The longest token matches at each byte. Method: a list of 270 tokens
 * (tests/token_seeds.py), lines written here, and ids by a search without a trie. */
#include "pieces_test.h"

#include "base/os.h"
#include "base/rng.h"

#include <stdio.h>
#include <string.h>

/* Open a list of one literal, or return NULL and keep the error. */
static struct tokenizer *open_text(const char *text, size_t n, struct err *e)
{
    struct tokenizer *t = NULL;
    const char *path = temp_path("rwkv_vocab_test.txt");
    if (file_write(path, text, n, e) == 0) tokenizer_open_file(&t, path, NULL, e);
    return t;
}

/* Goal: the bytes of each literal are those of Python. */
TEST(literals_of_python)
{
    static const struct {
        const char *line, *want;
        size_t n;
    } cases[] = {{"1 'a' 1\n", "a", 1},
                 {"1 \"'\" 1\r\n", "'", 1},
                 {"1 '\\'\"' 2", "'\"", 2},
                 {"1 ' ' 1", " ", 1},
                 {"1 '\\\\\\n\\r\\t' 4", "\\\n\r\t", 4},
                 {"1 '\\x00' 1", "\0", 1},
                 {"1 '\\xe9' 2", "\xC3\xA9", 2},
                 {"1 b'\\xE9' 1", "\xE9", 1},
                 {"1 b\"a\\xffb\" 3",
                  "a\xFF"
                  "b",
                  3},
                 {"1 '\\u3000' 3", "\xE3\x80\x80", 3},
                 {"1 '\\U0001F600' 4", "\xF0\x9F\x98\x80", 4},
                 {"1 '\xE6\x97\xA5' 3", "\xE6\x97\xA5", 3},
                 {"1 'b' 1", "b", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        size_t n = 0;
        struct tokenizer *t = open_text(cases[i].line, strlen(cases[i].line), &e);
        const char *got = t ? tokenizer_bytes(t, 1, &n) : NULL;
        if (!got || n != cases[i].n || memcmp(got, cases[i].want, n) != 0)
            test_fail(__FILE__, __LINE__, "%s: %zu bytes, %s", cases[i].line, n, e.text);
        tokenizer_close(t);
    }
}

/* Goal: every other form of a line is an error, also if a literal is cut at any byte. */
TEST(lines_with_another_form_are_rejected)
{
    static const char *const lines[] = {"",
                                        "\n",
                                        "1",
                                        "1 ",
                                        "1 '",
                                        "1 'a",
                                        "1 'a'",
                                        "1 'a' ",
                                        "1 'a' 2",
                                        "1 'a' 1 ",
                                        "1 'a' 1x",
                                        "1  'a' 1",
                                        " 1 'a' 1",
                                        "x 'a' 1",
                                        "0 'a' 1",
                                        "-1 'a' 1",
                                        "1 a 1",
                                        "1 'a\" 1",
                                        "1 '' 0",
                                        "1 b 1",
                                        "1 b' 1",
                                        "1 '\\' 1",
                                        "1 '\\x' 1",
                                        "1 '\\x4' 1",
                                        "1 '\\xg0' 1",
                                        "1 '\\u12' 1",
                                        "1 '\\q' 1",
                                        "1 '\\ud800' 3",
                                        "1 '\\U00110000' 4",
                                        "1 '\xFF' 1",
                                        "1 b'\xC3\xA9' 2",
                                        "1 b'\\u3000' 3",
                                        "1 '\x01' 1",
                                        "1 u'a' 1",
                                        "99999999999999999999 'a' 1",
                                        "2000000 'a' 1",
                                        "1 'a' 99999999999999999999",
                                        "1 'a' 1\n\n2 'b' 1",
                                        "1 'a' 1\n1 'b' 1"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct err e = {0};
        struct tokenizer *t = open_text(lines[i], strlen(lines[i]), &e);
        /* only an empty file has no line to reject: it becomes a vocabulary of token 0 */
        if (t && *lines[i]) test_fail(__FILE__, __LINE__, "\"%s\" is accepted", lines[i]);
        if (!t) EXPECT_INT(e.code, ERR_FORMAT);
        tokenizer_close(t);
    }
    struct err e = {0};
    EXPECT(!open_text("1 'a\0b' 3", 9, &e));
}

static struct tokenizer *open_small(void)
{
    struct tokenizer *t = NULL;
    struct err e = {0};
    const char *path = repo_path("tests/fuzz/corpus/world/rwkv_vocab_small.txt");
    if (!path || tokenizer_open_file(&t, path, NULL, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s", e.text);
    return t;
}

/* Return the id of the longest token at p, by comparison with all tokens. */
static int32_t longest_by_search(const struct tokenizer *t, const char *p, size_t n, size_t *len)
{
    int32_t best = -1;
    *len = 0;
    for (int32_t id = 1; id < tokenizer_n_vocab(t); id++) {
        size_t k;
        const char *bytes = tokenizer_bytes(t, id, &k);
        if (k > *len && k <= n && memcmp(bytes, p, k) == 0) best = id, *len = k;
    }
    return best;
}

static void check_bytes(const struct tokenizer *t, const char *p, size_t n)
{
    struct ids ids = {0};
    struct buf out = {0};
    struct err e;
    size_t i = 0, at = 0, len;
    NEED_OK(tokenizer_encode(t, p, n, 0, &ids, &e), &e);
    for (; at < n && i < ids.n; i++, at += len)
        if (longest_by_search(t, p + at, n - at, &len) != ids.v[i]) break;
    EXPECT(at == n && i == ids.n);
    EXPECT(tokenizer_decode(t, ids.v, ids.n, 0, &out));
    EXPECT(out.n == n && memcmp(out.n ? out.data : "", p, n) == 0);
    EXPECT(tokenizer_n_least(t, n) <= ids.n);
    vec_deinit(&ids);
    buf_deinit(&out);
}

/* Goal: each token of a text is the longest that begins at its place. Tokens cross the borders
 * of invalid UTF-8. Method: random texts of bytes that tokens contain. */
TEST(longest_token_at_each_byte)
{
    static const char pool[] = " hel\n\\n\"'it's\xE6\x97\xA5\xE3\x80\x80\xC3\xA9\xFF\xE6<s>abc  ";
    struct tokenizer *t = open_small();
    NEED(t);
    uint64_t seed = 1;
    char text[64];
    for (int k = 0; k < 3000; k++) {
        const size_t n = rng_below(&seed, sizeof text);
        for (size_t i = 0; i < n; i++)
            text[i] = k % 2 ? pool[rng_below(&seed, sizeof pool - 1)] : (char)rng_next(&seed);
        check_bytes(t, text, n);
    }
    EXPECT_TEXT(pieces_of(t, "hell \xE6\x97\xA5 \xE6\xFF", 0), "hell| \xE6|\x97|\xA5| \xE6|\xFF");
    EXPECT_TEXT(pieces_of(t, "<s>ll", 0), "<|s|>|ll");
    EXPECT_TEXT(pieces_of(t, "<s>ll", ENCODE_PARSE_SPECIAL), "<s>|ll");
    tokenizer_close(t);
}

/* Goal: the stream of a text equals the text, though tokens end inside characters. */
TEST(streamed_characters_are_whole)
{
    static const char text[] = "a \xE6\x97\xA5\xE6\x97\xA5 \xE6\x97\xA5\xE3\x80\x80\xC3\xA9";
    struct tokenizer *t = open_small();
    NEED(t);
    struct ids ids = {0};
    struct buf out = {0};
    struct detok d;
    struct err e;
    detok_init(&d, t, DECODE_SKIP_SPECIAL);
    NEED_OK(tokenizer_encode(t, text, sizeof text - 1, 0, &ids, &e), &e);
    for (size_t i = 0; i < ids.n; i++) {
        EXPECT(detok_push(&d, ids.v[i], &out));
        EXPECT(uni_valid_len(out.data ? out.data : "", out.n) == out.n);
    }
    EXPECT(detok_flush(&d, &out));
    EXPECT(out.n == sizeof text - 1 && memcmp(out.data, text, out.n) == 0);
    vec_deinit(&ids);
    buf_deinit(&out);
    tokenizer_close(t);
}

/* Goal: a folder's config names token 0, adds tokens and BOS, and its list precedes other files. */
TEST(folder_of_a_world_model)
{
    static const char config[] =
        "{\"tokenizer_class\":\"RwkvTokenizer\",\"add_bos_token\":true,\"eos_token\":\"\\n\\n\","
        "\"bos_token\":\"<|end|>\",\"added_tokens_decoder\":{\"0\":{\"content\":\"<|end|>\","
        "\"special\":true},\"300\":{\"content\":\"<|im|>\",\"special\":true}}}";
    static const char list[] = "1 'a' 1\n2 '\\n' 1\n3 '\\n\\n' 2\n4 'aa' 2\n";
    char dir[256], path[300];
    struct tokenizer *t = NULL;
    struct err e = {0};
    snprintf(dir, sizeof dir, "%s", temp_path("world-folder"));
    NEED_OK(dir_make(dir, DIR_PRIVATE, &e), &e);
    snprintf(path, sizeof path, "%s/rwkv_vocab_v20230424.txt", dir);
    NEED_OK(file_write(path, list, sizeof list - 1, &e), &e);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    NEED_OK(file_write(path, config, sizeof config - 1, &e), &e);
    snprintf(path, sizeof path, "%s/vocab.txt", dir);
    NEED_OK(file_write(path, "b'<s>'\nb'a'\n", 12, &e), &e);
    EXPECT_INT(tokenizer_open_file(&t, path, NULL, &e), ERR_UNSUPPORTED);
    NEED_OK(tokenizer_open_file(&t, dir, NULL, &e), &e);
    const unsigned all = ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL;
    EXPECT_TEXT(pieces_of(t, "aaa\n\n\n<|im|>", all), "<|end|>|aa|a|\n\n|\n|<|im|>");
    EXPECT_INT(tokenizer_eos(t), 3);
    EXPECT_INT(tokenizer_bos(t), 0);
    EXPECT(tokenizer_is_special(t, 0) && !tokenizer_is_special(t, 3) && tokenizer_is_eog(t, 3));
    tokenizer_close(t);
}
