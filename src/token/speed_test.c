/* speed_test.c - megabytes per second of one thread, by its processor time, so that a busy
 * machine does not count. The bar is 5 MB/s on English and 1 s for 1 MB of one character, of
 * spaces or of emoji; asserted with a margin of two. */
#include "token_impl.h"
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
    vec_deinit(&ids);
    return s;
}

static void fill(struct buf *b, const char *unit)
{
    while (b->n < 1000000) buf_add_text(b, unit);
}

/* Sanitizers slow everything down five to twenty times. */
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
        {"spm grok-1", "tokenizers/sentencepiece/grok-1_tokenizer.model"},
        {"unigram 1k", "tokenizers/sentencepiece/test_model.model"},
        {"unigram t5", "tokenizers/hf/t5-small/tokenizer.json"},
        {"wordpiece bert", "tokenizers/llama.cpp-vocab/ggml-vocab-bert-bge.gguf"},
    };
    struct buf english = {0}, worst[3] = {{0}};
    struct err e;
    if (!data_path("text/war-and-peace.txt")) SKIP("no ../shared/data");
    NEED_OK(file_read(&english, data_path("text/war-and-peace.txt"), 1 << 24, &e), &e);
    fill(&worst[0], "a");
    fill(&worst[1], " ");
    fill(&worst[2], "\xF0\x9F\x98\x80");
    for (size_t v = 0; v < sizeof vocab / sizeof vocab[0]; v++) {
        struct tokenizer *t;
        NEED_OK(tokenizer_open_file(&t, data_path(vocab[v][1]), NULL, &e), &e);
        double mb_s = (double)english.n * 1e-6 / encode_s(t, &english), s[3];
        for (int i = 0; i < 3; i++) s[i] = encode_s(t, &worst[i]);
        test_note("%-17s %6.1f MB/s; 1 MB of a: %.2f s, spaces: %.2f s, emoji: %.2f s", vocab[v][0],
                  mb_s, s[0], s[1], s[2]);
        EXPECT(mb_s * slowness() >= 2.5);
        for (int i = 0; i < 3; i++) EXPECT(s[i] < 2 * slowness());
        tokenizer_close(t);
    }
    buf_deinit(&english);
    for (int i = 0; i < 3; i++) buf_deinit(&worst[i]);
}
