/* speed_test.c - goal: encoding is fast on one thread. Method: measure megabytes per second of the
 * thread's processor time, so that other load has no effect. The target is 5 MB/s on English, and 1
 * s for 1 MB of one character, of spaces or of emoji. The test permits twice these times. Texts
 * have a quarter of their size, or their full size with QUOTH_LONG=1. */
#include "token_impl.h"

#include "base/cancel.h"
#include "../../tests/unit.h"

#include <stdlib.h>
#include <time.h>

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double encode_s(const struct tokenizer *t, const struct buf *text)
{
    struct ids ids = {0};
    struct err e;
    double start = cpu_s();
    EXPECT_INT(tokenizer_encode(t, text->data, text->n, 0, &ids, &e), 0);
    double s = cpu_s() - start;
    EXPECT(tokenizer_n_least(t, text->n) <= ids.n);
    vec_deinit(&ids);
    return s;
}

/* Return the number of bytes of a text of the worst kind. */
static size_t n_worst(void)
{
    return test_long() ? 1000000 : 250000;
}

static void fill(struct buf *b, const char *unit)
{
    while (b->n < n_worst()) buf_add_text(b, unit);
}

/* Return the slow-down factor of sanitizers (5 to 20). */
static double slowness(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 20;
#else
    return 1;
#endif
}

TEST(encoding_is_fast_on_english_and_on_the_worst)
{
    static const char *const vocab[][2] = {
        {"bpe gpt-2", "tokenizers/llama.cpp-vocab/ggml-vocab-gpt-2.gguf"},
        {"bpe llama-3", "tokenizers/llama3/tokenizer.model"},
        {"bpe o200k", "tokenizers/tiktoken/o200k_base.tiktoken"},
        {"bpe deepseek-llm", "tokenizers/llama.cpp-vocab/ggml-vocab-deepseek-llm.gguf"},
        {"spm llama-2", "tokenizers/llama.cpp-vocab/ggml-vocab-llama-spm.gguf"},
        {"spm llama-2 json", "tokenizers/hf/llama2/tokenizer.json"},
        {"wordpiece bert", "tokenizers/llama.cpp-vocab/ggml-vocab-bert-bge.gguf"},
        {"unigram 1k", "tokenizers/sentencepiece/test_model.model"},
        {"unigram t5", "tokenizers/hf/t5-small/tokenizer.json"},
        {"spm grok-1", "tokenizers/sentencepiece/grok-1_tokenizer.model"},
        {"longest world", "tokenizers/rwkv/rwkv_vocab_v20230424.txt"},
    };
    struct buf english = {0}, worst[3] = {{0}};
    struct err e;
    if (!data_path("text/war-and-peace.txt")) SKIP("no ../shared/data");
    NEED_OK(file_read(&english, data_path("text/war-and-peace.txt"), 1 << 24, &e), &e);
    if (!test_long()) english.n /= 4;
    fill(&worst[0], "a");
    fill(&worst[1], " ");
    fill(&worst[2], "\xF0\x9F\x98\x80");
    /* the sample has every second vocabulary: one or two vocabularies of each kind */
    for (size_t v = 0; v < sizeof vocab / sizeof vocab[0]; v += test_long() ? 1 : 2) {
        struct tokenizer *t;
        NEED_OK(tokenizer_open_file(&t, data_path(vocab[v][1]), NULL, &e), &e);
        double mb_s = (double)english.n * 1e-6 / encode_s(t, &english), s[3];
        for (int i = 0; i < 3; i++) s[i] = encode_s(t, &worst[i]) * 1e6 / (double)n_worst();
        test_note("%-17s %6.1f MB/s; 1 MB of a: %.2f s, spaces: %.2f s, emoji: %.2f s", vocab[v][0],
                  mb_s, s[0], s[1], s[2]);
        EXPECT(mb_s * slowness() >= 2.5);
        for (int i = 0; i < 3; i++) EXPECT(s[i] < 2 * slowness());
        tokenizer_close(t);
    }
    buf_deinit(&english);
    for (int i = 0; i < 3; i++) buf_deinit(&worst[i]);
}

TEST(encoding_ends_when_it_is_cancelled)
{
    /* Goal: encoding the text of a disconnected client ends early, even within one long word. */
    static const char *const vocab[] = {"tokenizers/llama.cpp-vocab/ggml-vocab-gpt-2.gguf",
                                        "tokenizers/llama.cpp-vocab/ggml-vocab-llama-spm.gguf",
                                        "tokenizers/sentencepiece/test_model.model"};
    static const char *const unit[] = {"a", "\n", "a word "};
    atomic_bool stopped = true;
    double whole = 0, cut = 0;
    struct err e;
    if (!data_path(vocab[0])) SKIP("no ../shared/data");
    for (size_t v = 0; v < sizeof vocab / sizeof vocab[0]; v++) {
        struct tokenizer *t;
        NEED_OK(tokenizer_open_file(&t, data_path(vocab[v]), NULL, &e), &e);
        for (size_t u = 0; u < sizeof unit / sizeof unit[0]; u++) {
            struct buf text = {0};
            struct ids ids = {0};
            fill(&text, unit[u]);
            whole += encode_s(t, &text);
            double start = cpu_s();
            cancel_flag = &stopped;
            EXPECT_INT(tokenizer_encode(t, text.data, text.n, 0, &ids, &e), ERR_BUSY);
            cancel_flag = NULL;
            EXPECT_INT(ids.n, 0);
            cut += cpu_s() - start;
            vec_deinit(&ids);
            buf_deinit(&text);
        }
        tokenizer_close(t);
    }
    test_note("%.3f s, cancelled %.3f s", whole, cut);
    EXPECT(cut < whole / 2);
}

TEST(fewest_tokens_of_a_length)
{
    /* Goal: the bound is 0 if a token may cover any number of bytes, and large otherwise. */
    static const struct {
        const char *vocab;
        bool any;
    } c[] = {{"tokenizers/llama.cpp-vocab/ggml-vocab-gpt-2.gguf", true},
             {"tokenizers/llama3/tokenizer.model", true},
             {"tokenizers/hf/llama2/tokenizer.json", true},
             {"tokenizers/hf/t5-small/tokenizer.json", false},
             {"tokenizers/llama.cpp-vocab/ggml-vocab-bert-bge.gguf", false}};
    struct err e;
    if (!data_path(c[0].vocab)) SKIP("no ../shared/data");
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct tokenizer *t;
        NEED_OK(tokenizer_open_file(&t, data_path(c[i].vocab), NULL, &e), &e);
        size_t n = tokenizer_n_least(t, 32 << 20);
        test_note("%-55s at least %zu tokens in 32 MiB", c[i].vocab, n);
        EXPECT(c[i].any ? n > 32768 : n == 0);
        tokenizer_close(t);
    }
}
