/* pairs_test.c - goal: ids equal the expected ids that the llama.cpp project publishes with its
 * vocabularies. */
#include "token_impl.h"
#include "../../tests/unit.h"

#include <stdlib.h>

#define SEPARATOR "\n__ggml_vocab_test__\n"

struct pair_file {
    struct buf in, out;
    size_t at_in, at_out;
};

static bool pair_open(struct pair_file *f, const char *name)
{
    char relative[160];
    struct err e;
    *f = (struct pair_file){0};
    snprintf(relative, sizeof relative, "tokenizers/llama.cpp-vocab/ggml-vocab-%s.gguf.inp", name);
    const char *in = data_path(relative);
    snprintf(relative, sizeof relative, "tokenizers/llama.cpp-vocab/ggml-vocab-%s.gguf.out", name);
    const char *out = data_path(relative);
    return in && out && file_read(&f->in, in, 1 << 20, &e) == 0 &&
           file_read(&f->out, out, 1 << 20, &e) == 0;
}

static void pair_close(struct pair_file *f)
{
    buf_deinit(&f->in);
    buf_deinit(&f->out);
}

/* Read the next text and its expected ids. Return false at the end of the file. */
static bool pair_next(struct pair_file *f, const char **text, size_t *n, struct ids *want)
{
    if (f->at_out >= f->out.n || f->at_in > f->in.n) return false;
    const char *rest = f->in.data + f->at_in;
    const char *end = memmem(rest, f->in.n - f->at_in, SEPARATOR, strlen(SEPARATOR));
    *text = rest;
    *n = end ? (size_t)(end - rest) : f->in.n - f->at_in;
    f->at_in = end ? f->at_in + *n + strlen(SEPARATOR) : f->in.n + 1;
    want->n = 0;
    char *line = f->out.data + f->at_out, *stop = strchrnul(line, '\n');
    f->at_out += (size_t)(stop - line) + 1;
    while (line < stop) {
        char *after;
        long id = strtol(line, &after, 10);
        if (after == line || after > stop) break;
        if (!vec_push(want, (int32_t)id)) return false;
        line = after;
    }
    return true;
}

static bool same_ids(const struct ids *a, const struct ids *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->v, b->v, a->n * sizeof *a->v) == 0);
}

static void check_pair(const char *name, const char *vocab, const char *hint)
{
    struct pair_file f;
    struct tokenizer *t = NULL;
    struct err e = {0};
    struct ids want = {0}, got = {0};
    const char *text, *path = data_path(vocab);
    size_t n;
    int n_same = 0, n_all = 0;
    bool opened = path && pair_open(&f, name);
    EXPECT(opened);
    if (opened && tokenizer_open_file(&t, path, hint, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", name, e.text);
    while (t && pair_next(&f, &text, &n, &want)) {
        got.n = 0;
        EXPECT_INT(tokenizer_encode(t, text, n, 0, &got, &e), 0);
        n_all++;
        if (same_ids(&want, &got))
            n_same++;
        else
            test_fail(__FILE__, __LINE__, "%s: text %d (%zu bytes): %zu ids, not %zu", name, n_all,
                      n, got.n, want.n);
    }
    if (t) test_note("%s: %d of %d texts exact", name, n_same, n_all);
    tokenizer_close(t);
    if (opened) pair_close(&f);
    vec_deinit(&want);
    vec_deinit(&got);
}

TEST(published_pairs_are_exact)
{
    static const char *const own[] = {"bert-bge", "deepseek-coder", "deepseek-llm", "falcon",
                                      "gpt-2",    "llama-spm",      "mpt",          "phi-3",
                                      "refact",   "starcoder"};
    if (!data_path("tokenizers/llama.cpp-vocab")) SKIP("no ../shared/data/tokenizers");
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        char vocab[160];
        snprintf(vocab, sizeof vocab, "tokenizers/llama.cpp-vocab/ggml-vocab-%s.gguf", own[i]);
        check_pair(own[i], vocab, NULL);
    }
    check_pair("llama-bpe", "tokenizers/llama3/tokenizer.model", NULL);
    check_pair("qwen2", "tokenizers/qwen/qwen.tiktoken", NULL);
    test_note("command-r, gemma-4 and qwen35 have pairs but no vocabulary here: not testable");
}
