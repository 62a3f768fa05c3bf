/* load_test.c - goal: a model that cannot be computed is refused with a sentence that names why.
 * Method: the golden llama GGUF with one thing changed in a copy of its bytes. */
#include "../../tests/unit.h"

#include "base/os.h"
#include "model.h"

#include <stdlib.h>

static struct buf golden_bytes(void)
{
    struct buf b = {0};
    struct err e;
    const char *path = repo_path("tests/golden/llama3/model.gguf");
    if (path) file_read(&b, path, 1 << 24, &e);
    return b;
}

static int try_open(const char *path, struct err *e)
{
    struct checkpoint *c = NULL;
    struct backend *b = NULL;
    struct model *m = NULL;
    int rc = checkpoint_open(&c, path, e);
    if (rc == 0) rc = backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, e);
    struct model_options o = {
        .backend = b, .context_max = 64, .batch = {.n_row = 8, .n_seq = 1, .n_out = 8}};
    if (rc == 0) rc = model_open(&m, c, &o, e);
    model_close(m);
    backend_close(b);
    checkpoint_close(c);
    return rc;
}

/* Replace the first `from` by `to` (equal length) and open: expects `rc` and `word` in the
 * sentence. */
static void expect_refusal(const char *from, const char *to, size_t n, int rc, const char *word)
{
    struct buf b = golden_bytes();
    char *at = b.n ? memmem(b.data, b.n, from, n) : NULL;
    if (!at) {
        test_fail(__FILE__, __LINE__, "\"%s\" is not in the file", from);
    } else {
        struct err e = {0};
        memcpy(at, to, n);
        const char *path = temp_path("changed.gguf");
        file_write(path, b.data, b.n, &e);
        int got = try_open(path, &e);
        if (got != rc || !strstr(e.text, word))
            test_fail(__FILE__, __LINE__, "%d \"%s\", expected %d with \"%s\"", got, e.text, rc,
                      word);
    }
    buf_deinit(&b);
}

TEST(models_that_cannot_be_are_refused_by_name)
{
    if (!repo_path("tests/golden/llama3/model.gguf")) SKIP("tests/golden is not here");
    struct err e;
    NEED_OK(try_open(repo_path("tests/golden/llama3/model.gguf"), &e), &e);
    expect_refusal("general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama",
                   "general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0lhama", 37, ERR_UNSUPPORTED,
                   "lhama");
    expect_refusal("llama.block_count", "llama.clock_count", 17, ERR_MISSING, "llama.block_count");
    expect_refusal("blk.1.attn_k.weight", "blk.1.attn_j.weight", 19, ERR_MISSING,
                   "blk.1.attn_k.weight");
    expect_refusal("blk.2.ffn_up.weight", "blk.2.ffn_gp.weight", 19, ERR_MISSING,
                   "blk.2.ffn_up.weight");
    expect_refusal("token_embd.weight", "token_emhd.weight", 17, ERR_MISSING, "token_embd.weight");
    expect_refusal("llama.attention.head_count\x04\0\0\0\x04",
                   "llama.attention.head_count\x04\0\0\0\x03", 31, ERR_FORMAT, "3 heads");
    expect_refusal("llama.attention.head_count\x04\0\0\0\x04",
                   "llama.attention.head_count\x04\0\0\0\x00", 31, ERR_FORMAT, "head_count");
    expect_refusal("llama.embedding_length\x04\0\0\0\x40", "llama.embedding_length\x04\0\0\0\x20",
                   27, ERR_FORMAT, "token_embd.weight");
}
