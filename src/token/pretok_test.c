/* pretok_test.c - goal: the split into words, the translation of patterns, and normal forms are
 * correct. Method: encode with a kind that only records its words. */
#include "token_impl.h"
#include "base/rng.h"
#include "../../tests/alloc.h"
#include "../../tests/unit.h"

#include <stdlib.h>
#include <time.h>

static struct buf words;

static int recorder_build(struct tokenizer *t, struct err *e)
{
    (void)t, (void)e;
    return 0;
}

static bool recorder_encode(struct encoder *en, const char *p, size_t n)
{
    (void)en;
    if (words.n) buf_add_char(&words, '|');
    buf_add(&words, p, n);
    return true;
}

static void recorder_close(struct tokenizer *t)
{
    (void)t;
}

static const struct token_kind recorder = {"recorder", recorder_build, recorder_encode,
                                           recorder_close, false};

static struct tokenizer *start(void)
{
    struct tokenizer *t = tokenizer_open_empty();
    struct err e;
    if (!t || tokenizer_put(t, 0, "x", 1, PIECE_NORMAL, 0, &e) != 0) abort();
    t->kind = &recorder;
    return t;
}

static const char *cut(const struct tokenizer *t, const char *text, size_t n)
{
    struct ids ids = {0};
    struct err e;
    buf_clear(&words);
    buf_add_text(&words, "");
    EXPECT_INT(tokenizer_encode(t, text, n, 0, &ids, &e), 0);
    vec_deinit(&ids);
    return words.data;
}

static void expect_family(const char *family, const char *text, const char *want)
{
    struct tokenizer *t = start();
    struct err e;
    NEED_OK(tokenizer_add_family(t, family, &e), &e);
    NEED_OK(tokenizer_finish(t, &e), &e);
    EXPECT_TEXT(cut(t, text, strlen(text)), want);
    tokenizer_close(t);
    buf_deinit(&words);
}

TEST(families_cut_as_published)
{
    expect_family("gpt-2", "I'll go  now 1234!\n\n x", "I|'ll| go| | now| 1234|!|\n\n| x");
    expect_family("llama-bpe", "I'LL go 12345\n\n  x", "I|'LL| go| |123|45|\n\n| | x");
    expect_family("qwen2", "a123 b", "a|1|2|3| b");
    expect_family("gpt-4o", "HelloWorld's ABC", "Hello|World's| ABC");
    expect_family("deepseek-v3", "中文 abc1234", "中文| abc|123|4");
    expect_family("falcon", "x=12345", "x|=|123|45");
    expect_family("starcoder", "ab 12", "ab| |1|2");
    expect_family("qwen35", "e\xCC\x81 x", "e\xCC\x81| x");
    expect_family("tekken", "HelloWorld 12", "Hello|World| |1|2");
    expect_family("superbpe", "a1234567", "a|1|234|567");
    expect_family("tiny_aya", "1234567 1234x", "1|234|567| |123|4|x");
    expect_family("kimi-k2", "Hello中文ab", "Hello|中文|ab");
    expect_family("bloom", "Hi, (you)", "Hi|, (|you|)");
    expect_family("gemma4", "a b\n\nc", "a b|\n\n|c");
}

TEST(every_family_compiles)
{
    static const char *const name[] = {
#define FAMILY(id, ...) id,
#include "pretok.def"
#undef FAMILY
    };
    struct err e;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        struct tokenizer *t = start();
        EXPECT_INT(tokenizer_add_family(t, name[i], &e), 0);
        EXPECT_INT(tokenizer_finish(t, &e), 0);
        const char *text = cut(t, "Hello, World's 12345 中文 \n\n x", 31);
        size_t n_bar = 0;
        for (const char *p = text; *p; p++) n_bar += *p == '|';
        if (strlen(text) - n_bar != 31)
            test_fail(__FILE__, __LINE__, "%s drops text: %s", name[i], text);
        tokenizer_close(t);
    }
    buf_deinit(&words);
    test_note("%zu names", sizeof name / sizeof name[0]);
}

static void fill(struct buf *b, const char *unit, size_t n)
{
    buf_clear(b);
    while (b->n < n) buf_add_text(b, unit);
}

/* Goal: no pattern needs quadratic time on realistic text. Method: long runs of every class, in
 * every family. */
TEST(families_take_linear_time)
{
    static const char *const name[] = {
#define FAMILY(id, ...) id,
#include "pretok.def"
#undef FAMILY
    };
    static const char *const unit[] = {
        "a",         "A", " ",    "1",  "\n", " \n",      "\t x",
        "'",         "!", "Ab1 ", "中", "é",  "\xCC\x81", "\xF0\x9F\x98\x80",
        "a\xCC\x81 "};
    size_t n = test_long() ? 1000000 : 20000;
    /* Linear time is 0.02 s per 100,000 bytes, and 20 times that with sanitizers. */
    double worst = 0, limit = test_long() ? 5 : 0.2;
    struct buf text = {0};
    struct err e;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        struct tokenizer *t = start();
        EXPECT(tokenizer_add_family(t, name[i], &e) == 0 && tokenizer_finish(t, &e) == 0);
        for (size_t k = 0; k < sizeof unit / sizeof unit[0]; k++) {
            fill(&text, unit[k], n);
            clock_t from = clock();
            cut(t, text.data, text.n);
            double s = (double)(clock() - from) / CLOCKS_PER_SEC;
            if (s > worst) worst = s;
            if (s > limit)
                test_fail(__FILE__, __LINE__, "%s takes %.1f s for %zu bytes of \"%s\"", name[i], s,
                          n, unit[k]);
        }
        tokenizer_close(t);
    }
    test_note("at most %.3f s for %zu bytes", worst, n);
    buf_deinit(&text);
    buf_deinit(&words);
}

/* Goal: all five behaviours, also with `invert`, give the results of the example in Hugging Face's
 * documentation. */
TEST(split_behaviours)
{
    static const struct {
        enum split_how how;
        bool invert;
        const char *want;
    } table[] = {
        {SPLIT_REMOVED, false, "the|final|countdown"},
        {SPLIT_ISOLATED, false, "the|-|final|-|-|countdown"},
        {SPLIT_WITH_PREVIOUS, false, "the-|final-|-|countdown"},
        {SPLIT_WITH_NEXT, false, "the|-final|-|-countdown"},
        {SPLIT_CONTIGUOUS, false, "the|-|final|--|countdown"},
        {SPLIT_REMOVED, true, "-|-|-"},
    };
    struct err e;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct tokenizer *t = start();
        NEED_OK(tokenizer_add_split(t, "-", 1, table[i].how, &e), &e);
        t->pretok.v[0].invert = table[i].invert;
        NEED_OK(tokenizer_finish(t, &e), &e);
        EXPECT_TEXT(cut(t, "the-final--countdown", 20), table[i].want);
        tokenizer_close(t);
    }
    buf_deinit(&words);
}

static void expect_translation(const char *pattern, const char *want)
{
    struct buf out = {0};
    struct err e;
    NEED_OK(regex_translate(&out, pattern, strlen(pattern), &e), &e);
    EXPECT_TEXT(out.data, want);
    buf_deinit(&out);
}

TEST(patterns_are_translated)
{
    struct err e;
    struct buf out = {0};
    expect_translation("\\s+", "[\\t-\\r\\x{85}\\p{Z}]+");
    expect_translation("[^(\\d|[.,])]", "[^(\\p{Nd}|.,)]");
    expect_translation("[\\p{L}&&[^\\p{Han}]]*", "(?:(?=[\\p{L}])[^\\p{Han}])*");
    expect_translation("\\u{1F600}\\u0041$", "\\x{1F600}\\x{0041}(?m:$)");
    expect_translation("[[:alpha:]x]", "[[:alpha:]x]");
    static const char *const bad[] = {"[abc",  "a\\",       "[a[^b]]",
                                      "\\u{}", "[a&&b&&c]", "[[[[[[[[[[[[[[[[[[[[a"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT_INT(regex_translate(&out, bad[i], strlen(bad[i]), &e), ERR_UNSUPPORTED);
    buf_deinit(&out);
}

/* Goal: \s matches Unicode's white space. Regex engines differ for the Mongolian vowel separator,
 * U+0085 and the no-break space. */
TEST(white_space_is_unicodes)
{
    struct regex *r;
    struct err e;
    struct regex_work *w = regex_work_open();
    size_t begin, end;
    NEED_OK(regex_open(&r, "\\s", 2, &e), &e);
    EXPECT(regex_next(r, w, "\xC2\x85", 2, 0, &begin, &end));
    EXPECT(regex_next(r, w, "\xC2\xA0", 2, 0, &begin, &end));
    EXPECT(!regex_next(r, w, "\xE1\xA0\x8E", 3, 0, &begin, &end));
    EXPECT(!regex_next(r, w, "\xE2\x80\x8B", 3, 0, &begin, &end));
    regex_close(r);
    regex_work_close(w);
}

TEST(regex_without_memory_is_no_match_and_no_limit)
{
    /* Goal: a match that runs out of memory is distinguished from no match. Method: use a pattern
     * that exceeds the JIT's stack, and make each allocation fail once. */
    struct err e;
    struct regex *r;
    size_t n = 50000, begin, end, n_failed = 0;
    char *text = malloc(n);
    NEED(text);
    memset(text, 'a', n);
    text[n - 1] = 'c';
    NEED_OK(regex_open(&r, "(?:a|b)*c", 9, &e), &e);
    for (uint64_t i = 0;; i++) {
        struct regex_work *w = regex_work_open();
        NEED(w);
        alloc_fail(i, 1);
        bool found = regex_next(r, w, text, n, 0, &begin, &end);
        bool hit = alloc_fail_end() > i;
        EXPECT(found ? begin == 0 && end == n : regex_work_failed(w));
        n_failed += regex_work_failed(w);
        regex_work_close(w);
        if (!hit) break;
    }
    test_note("%zu failed", n_failed);
    regex_close(r);
    free(text);
}

/* Goal: a pattern with exponential backtracking needs little time and drops no text. */
TEST(limits_never_drop_text)
{
    enum { N = 20000 };
    static char text[N + 1];
    struct tokenizer *t = start();
    struct err e;
    memset(text, 'a', N);
    NEED_OK(tokenizer_add_split(t, "(a+)+b", 6, SPLIT_ISOLATED, &e), &e);
    NEED_OK(tokenizer_finish(t, &e), &e);
    const char *got = cut(t, text, N);
    size_t n = 0;
    for (; *got; got++) n += *got == 'a';
    EXPECT_INT(n, N);
    tokenizer_close(t);
    buf_deinit(&words);
}

/* ---- normal forms ---- */

static size_t read_code_points(const char **p, char *out)
{
    struct buf b = {0};
    for (;;) {
        char *end;
        unsigned long cp = strtoul(*p, &end, 16);
        if (end == *p) break;
        buf_add_utf8(&b, (unsigned)cp);
        *p = end;
    }
    if (**p == ';') ++*p;
    size_t n = b.n < 256 ? b.n : 0;
    if (n) memcpy(out, b.data, n);
    buf_deinit(&b);
    return n;
}

/* Goal: normal forms are those of Unicode. The columns of NormalizationTest.txt are source, NFC,
 * NFD, NFKC and NFKD. */
TEST(normal_forms_are_unicodes)
{
    static const enum uni_form form[] = {UNI_NFC, UNI_NFD, UNI_NFKC, UNI_NFKD};
    const char *path = data_path("tokenizers/unicode/NormalizationTest.txt");
    struct buf file = {0}, got = {0};
    struct err e;
    int n_line = 0;
    if (!path) SKIP("no ../shared/data");
    NEED_OK(file_read(&file, path, 1 << 24, &e), &e);
    for (const char *line = file.data; line && *line;
         line = strchr(line, '\n'), line += line != NULL) {
        char column[5][256];
        size_t n[5];
        const char *p = line;
        if (!((*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'F'))) continue;
        for (int c = 0; c < 5; c++) n[c] = read_code_points(&p, column[c]);
        for (int f = 0; f < 4; f++) {
            buf_clear(&got);
            EXPECT(uni_normalize(&got, column[0], n[0], form[f]));
            EXPECT(got.n == n[f + 1] && memcmp(got.data, column[f + 1], got.n) == 0);
        }
        n_line++;
    }
    test_note("%d lines in 4 forms", n_line);
    buf_deinit(&file);
    buf_deinit(&got);
}

/* Goal: sorting marks takes linear time. A megabyte of marks in descending order is the worst case
 * of a sort by exchange. */
TEST_ALONE(marks_take_linear_time)
{
    struct buf text = {0}, got = {0};
    for (int i = 0; i < 300000; i++)
        buf_add_utf8(&text, i < 150000 ? 0x345 : 0x334); /* classes 240, then 1 */
    int64_t start_us = time_us();
    EXPECT(uni_normalize(&got, text.data, text.n, UNI_NFD));
    EXPECT(time_us() - start_us < 2000000);
    EXPECT(got.n == text.n && memcmp(got.data, "\xCC\xB4", 2) == 0);
    buf_deinit(&text);
    buf_deinit(&got);
}

TEST(bert_normalizer)
{
    struct norm_step s = {.flags = BERT_CLEAN | BERT_CJK | BERT_STRIP | BERT_LOWER};
    struct buf out = {0};
    static const char text[] = "H\xC3\xA9llo\t\x01WORLD\xEF\xBF\xBD 中\xC4\xB0";
    EXPECT(norm_bert(&s, text, sizeof text - 1, &out));
    EXPECT_TEXT(out.data, "hello world  中 i");
    buf_deinit(&out);
}
