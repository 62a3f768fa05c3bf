/* token_fuzz.c - goal: a mutated tokenizer file is opened or rejected. An opened tokenizer must
 * encode and decode any text. */
#include "token_impl.h"
#include "../../tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void round_trip(const struct tokenizer *t, const char *text, size_t n)
{
    struct ids ids = {0};
    struct buf out = {0};
    struct detok d;
    struct err e;
    if (tokenizer_encode(t, text, n, ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL, &ids, &e) != 0)
        abort();
    for (size_t i = 0; i < ids.n; i++)
        if (ids.v[i] < 0 || ids.v[i] >= tokenizer_n_vocab(t)) abort();
    if (!tokenizer_decode(t, ids.v, ids.n, DECODE_SKIP_SPECIAL, &out)) abort();
    detok_init(&d, t, 0);
    for (size_t i = 0; i < ids.n; i++) detok_push(&d, ids.v[i], &out);
    detok_flush(&d, &out);
    vec_deinit(&ids);
    buf_deinit(&out);
}

static void try_file(const char *path, const char *hint)
{
    static const char *const text[] = {
        "Hello, world! It's 12345 degrees  in <s>Zürich</s>\n\n\t<|im_end|> ok",
        "\xFF\xC3\xE2\x96 \xE2\x96\x81\xE2\x96\x81 ｶﾞ ﬁ e\xCC\x81 \xF0\x9F\x98\x80\xF0\x9F\x98\x80 "
        "中文",
        "                                                                                      "
        "aaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaa",
    };
    struct tokenizer *t = (void *)path; /* a failed open must set t to NULL */
    struct err e = {0};
    if (tokenizer_open_file(&t, path, hint, &e) != 0) {
        /* a rejection needs a message and must not return an object */
        if (!e.text[0] || t) abort();
        return;
    }
    fuzz_accepted();
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++)
        round_trip(t, text[i], strlen(text[i]));
    round_trip(t, "", 0);
    tokenizer_close(t);
}

FUZZ(tokenizer_json)
{
    try_file(fuzz_file(data, n, ".json"), NULL);
}

FUZZ(sentencepiece)
{
    try_file(fuzz_file(data, n, ".model"), "llama-3");
}

FUZZ(tokenizer_gguf)
{
    try_file(fuzz_file(data, n, ".gguf"), NULL);
}

FUZZ(tiktoken)
{
    try_file(fuzz_file(data, n, ".tiktoken"), "o200k");
}

FUZZ(world)
{
    try_file(fuzz_file(data, n, "-rwkv_vocab.txt"), NULL);
}

FUZZ(tokenizer_bin)
{
    try_file(fuzz_file(data, n, ".bin"), NULL);
}
