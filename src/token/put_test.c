/* put_test.c - goal: a tokenizer written as GGUF keys, or as a tokenizer.json, gives the ids of its
 * source. Method: golden folders, the fuzzers' seeds, and published vocabularies if present; texts
 * with white space, several scripts, special tokens, and pairs. */
#include "pieces_test.h"

#include "base/json.h"
#include "base/os.h"
#include "token/token.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const texts[] = {"hello world",
                                    "The cat, the hat.",
                                    "it's 12345 (x)!",
                                    "h\xC3\xA9h\xC3\xA9 \xC3\x80 B",
                                    "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E \xF0\x9F\x98\x80",
                                    "a\nb",
                                    "",
                                    "don't stop"};
static const char *const spaces[] = {"  two  spaces ", "\t", "a\tb \n\n c", " "};

/* Compare the ids of a text. */
static void compare_text(const char *name, const struct tokenizer *want,
                         const struct tokenizer *got, const char *text, size_t n)
{
    struct ids a = {0}, b = {0};
    struct err e;
    const unsigned flags = ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL;
    NEED_OK(tokenizer_encode(want, text, n, flags, &a, &e), &e);
    NEED_OK(tokenizer_encode(got, text, n, flags, &b, &e), &e);
    if (a.n != b.n || (a.n > 0 && memcmp(a.v, b.v, a.n * sizeof *a.v) != 0))
        test_fail(__FILE__, __LINE__, "%s: other ids of \"%.60s\": %zu and %zu", name, text, a.n,
                  b.n);
    vec_deinit(&a);
    vec_deinit(&b);
}

/* Compare two tokenizers. exact: true if rules of white space must also be equal. */
static void compare(const char *name, const struct tokenizer *want, const struct tokenizer *got,
                    bool exact)
{
    struct buf more = {0};
    struct err e;
    const char *path = data_path("tokenizers/llama.cpp-vocab/ggml-vocab-bert-bge.gguf.inp");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        compare_text(name, want, got, texts[i], strlen(texts[i]));
    for (size_t i = 0; exact && i < sizeof spaces / sizeof spaces[0]; i++)
        compare_text(name, want, got, spaces[i], strlen(spaces[i]));
    if (exact && path && file_read(&more, path, 1 << 20, &e) == 0)
        compare_text(name, want, got, more.data, more.n);
    buf_deinit(&more);
}

/* Write a GGUF's tokenizer as a folder, and return the tokenizer of that folder. */
static struct tokenizer *through_folder(const char *name, const struct checkpoint *c)
{
    char path[300];
    struct buf json = {0}, world = {0}, config = {0};
    struct tokenizer *t = NULL;
    struct err e;
    snprintf(path, sizeof path, "%s-json", temp_path(name));
    int rc = tokenizer_put_hf(&json, &world, &config, c, &e);
    if (rc == 0) rc = dir_make(path, DIR_PRIVATE, &e);
    strncat(path, "/tokenizer_config.json", sizeof path - strlen(path) - 1);
    if (rc == 0) rc = file_write(path, config.data, config.n, &e);
    *strrchr(path, '/') = 0;
    strncat(path, world.n ? "/rwkv_vocab_v20230424.txt" : "/tokenizer.json",
            sizeof path - strlen(path) - 1);
    if (rc == 0)
        rc = world.n ? file_write(path, world.data, world.n, &e)
                     : file_write(path, json.data, json.n, &e);
    *strrchr(path, '/') = 0;
    if (rc == 0) rc = tokenizer_open_file(&t, path, NULL, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s: %s", name, e.text);
    buf_deinit(&json);
    buf_deinit(&world);
    buf_deinit(&config);
    return t;
}

/* Compare a GGUF's tokenizer with the tokenizer of a folder made from it. */
static void compare_gguf(const char *name, const char *path, bool exact)
{
    struct checkpoint *c;
    struct tokenizer *want = NULL;
    struct err e;
    NEED_OK(checkpoint_open_header(&c, path, &e), &e);
    NEED_OK(tokenizer_open(&want, c, &e), &e);
    struct tokenizer *got = through_folder(name, c);
    if (got) compare(name, want, got, exact);
    tokenizer_close(want);
    tokenizer_close(got);
    checkpoint_close(c);
}

static void link_to(const char *dir, const char *name, const char *file)
{
    char at[400], *real = realpath(file, NULL);
    snprintf(at, sizeof at, "%s/%s", dir, name);
    EXPECT(real && symlink(real, at) == 0);
    free(real);
}

/* Open a folder of a golden model and another tokenizer's files, which end with NULL. */
static struct checkpoint *open_folder(const char *name, const char *const *file)
{
    char dir[256];
    struct checkpoint *c = NULL;
    struct err e;
    snprintf(dir, sizeof dir, "%s-folder", temp_path(name));
    int rc = dir_make(dir, DIR_PRIVATE, &e);
    link_to(dir, "config.json", repo_path("tests/golden/llama3/config.json"));
    link_to(dir, "model.safetensors", repo_path("tests/golden/llama3/model.safetensors"));
    for (; *file; file++) {
        const char *own = strrchr(*file, '/') + 1;
        link_to(dir, strstr(own, ".model") ? "tokenizer.model" : own, *file);
    }
    if (rc == 0) rc = checkpoint_open(&c, dir, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s: %s", name, e.text);
    return c;
}

/* Compare the tokenizer of a folder with the tokenizers of a GGUF and a folder made from it. */
static void compare_folder(const char *name, const char *const *file, int n_vocab, bool exact)
{
    char path[256];
    struct checkpoint *c = open_folder(name, file), *view = NULL, *made = NULL;
    struct tokenizer *want = NULL, *got = NULL;
    struct err e;
    NEED(c);
    snprintf(path, sizeof path, "%s.gguf", temp_path(name));
    NEED_OK(checkpoint_build(&view, path, NULL, NULL, &e), &e);
    NEED_OK(checkpoint_add_text(view, "general.architecture", "llama", 5, &e), &e);
    NEED_OK(tokenizer_put_gguf(view, c, n_vocab, &e), &e);
    NEED_OK(checkpoint_write_gguf(view, path, NULL, NULL, &e), &e);
    NEED_OK(checkpoint_open_header(&made, path, &e), &e);
    NEED_OK(tokenizer_open(&want, c, &e), &e);
    NEED_OK(tokenizer_open(&got, made, &e), &e);
    compare(name, want, got, exact);
    checkpoint_close(made);
    compare_gguf(name, path, true);
    tokenizer_close(want);
    tokenizer_close(got);
    checkpoint_close(view);
    checkpoint_close(c);
}

/* Goal: conversions in both directions preserve vocabularies of published models. */
TEST(published_vocabularies_written_and_read)
{
    static const struct {
        const char *name, *file[3]; /* files in ../shared/data/tokenizers */
        int n_vocab;
        bool exact;
    } folders[] = {
        {"llama2", {"hf/llama2/tokenizer.json", "hf/llama2/tokenizer_config.json"}, 32000, true},
        {"phi3",
         {"hf/phi-3-mini/tokenizer.json", "hf/phi-3-mini/tokenizer_config.json"},
         32064,
         false},
        {"t5", {"hf/t5-small/tokenizer.json", "hf/t5-small/tokenizer_config.json"}, 32128, true},
        {"wordpiece", {"hf/model2vec-wordpiece/tokenizer.json"}, 40000, true},
        {"gpt2", {"gpt2/encoder.json", "gpt2/merges.txt"}, 50257, true},
        {"ja", {"sentencepiece/test_ja_model.model"}, 8000, true},
        {"world", {"rwkv/rwkv_vocab_v20230424.txt"}, 65536, true}};
    static const char *const ggufs[] = {"bert-bge", "deepseek-coder", "deepseek-llm", "falcon",
                                        "gpt-2",    "llama-spm",      "mpt",          "phi-3",
                                        "refact",   "stablelm",       "starcoder"};
    if (!data_path("tokenizers/hf")) SKIP("no ../shared/data");
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[3][256];
        const char *file[4] = {NULL, NULL, NULL, NULL};
        for (int k = 0; k < 3 && folders[i].file[k]; k++) {
            char name[120];
            snprintf(name, sizeof name, "tokenizers/%s", folders[i].file[k]);
            snprintf(path[k], sizeof path[k], "%s", data_path(name) ? data_path(name) : name);
            file[k] = path[k];
        }
        compare_folder(folders[i].name, file, folders[i].n_vocab, folders[i].exact);
    }
    for (size_t i = 0; i < sizeof ggufs / sizeof ggufs[0]; i++) {
        char name[120];
        snprintf(name, sizeof name, "tokenizers/llama.cpp-vocab/ggml-vocab-%s.gguf", ggufs[i]);
        compare_gguf(ggufs[i], data_path(name), true);
    }
}

/* Goal: each kind of tokenizer is written and read without real files. */
TEST(seed_vocabularies_written_and_read)
{
    static const char *const ggufs[] = {"gpt2", "llama", "t5", "bert", "rwkv"};
    for (size_t i = 0; i < sizeof ggufs / sizeof ggufs[0]; i++) {
        char name[120];
        snprintf(name, sizeof name, "tests/fuzz/corpus/tokenizer_gguf/%s.gguf", ggufs[i]);
        compare_gguf(ggufs[i], repo_path(name), false);
    }
}
