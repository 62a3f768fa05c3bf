/* continue_test.c - goal: a text encoded in parts decodes to the whole text. Method: cut a text at
 * every position, encode its parts with ENCODE_CONTINUE and decode them together, with every kind
 * of tokenizer. */
#include "../../tests/unit.h"

#include "token.h"

#include <stdlib.h>

static const char text[] = "Once upon  a time, \xE4\xBD\xA0\xE5\xA5\xBD \xC3\xA9t\xC3\xA9!\n x";

static bool same_text(const struct tokenizer *t, const struct ids *ids)
{
    struct buf out = {0};
    bool same = tokenizer_decode(t, ids->v, ids->n, 0, &out) && out.n == strlen(text) &&
                memcmp(out.data, text, out.n) == 0;
    buf_deinit(&out);
    return same;
}

static void check_cuts(const struct tokenizer *t, const char *name)
{
    struct err e;
    for (size_t cut = 1; cut < strlen(text); cut++) {
        if (((unsigned char)text[cut] & 0xC0) == 0x80) continue;
        struct ids ids = {0};
        NEED_OK(tokenizer_encode(t, text, cut, 0, &ids, &e), &e);
        NEED_OK(tokenizer_encode(t, text + cut, strlen(text) - cut, ENCODE_CONTINUE, &ids, &e), &e);
        if (!same_text(t, &ids))
            test_fail(__FILE__, __LINE__, "%s: cut at %zu gives another text", name, cut);
        vec_deinit(&ids);
    }
}

TEST(text_goes_on_without_a_space_of_its_own)
{
    static const char *const names[] = {"hf/llama2/tokenizer.json",
                                        "hf/phi-3-mini/tokenizer.json",
                                        "llama.cpp-vocab/ggml-vocab-llama-spm.gguf",
                                        "llama.cpp-vocab/ggml-vocab-gpt-2.gguf",
                                        "sentencepiece/grok-1_tokenizer.model",
                                        "llama3/tokenizer.model",
                                        "rwkv/rwkv_vocab_v20230424.txt"};
    int n = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char relative[128];
        snprintf(relative, sizeof relative, "tokenizers/%s", names[i]);
        const char *path = data_path(relative);
        struct tokenizer *t = NULL;
        struct err e;
        if (!path) continue;
        NEED_OK(tokenizer_open_file(&t, path, NULL, &e), &e);
        check_cuts(t, names[i]);
        tokenizer_close(t);
        n++;
    }
    if (n == 0) SKIP("no real tokenizers");
}
