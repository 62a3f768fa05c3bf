/* pack_test.c - goal: a packed program opens as its model. A file that only resembles a packed
 * program is rejected. Method: append a golden GGUF to a file of random length, open the result,
 * pack it again, and change every byte of its trailer. */
#include "../../tests/unit.h"

#include "base/rng.h"
#include "format_impl.h"

static const char *write_file(const char *name, const void *data, size_t n)
{
    struct err e;
    const char *path = temp_path(name);
    if (file_write(path, data, n, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    return path;
}

static void expect_model(const char *path)
{
    struct checkpoint *c;
    struct err e;
    NEED_OK(checkpoint_open(&c, path, &e), &e);
    EXPECT(checkpoint_packed(path));
    const struct tensor_info *t = checkpoint_tensor(c, "token_embd.weight");
    NEED(t);
    EXPECT_INT((uintptr_t)t->data % 32, 0);
    EXPECT(((const float *)t->data)[0] != 0);
    checkpoint_close(c);
}

TEST(a_packed_program_opens_as_its_model)
{
    const char *model = repo_path("tests/golden/llama3/model.gguf");
    if (!model) SKIP("tests/golden is not here");
    uint8_t program[70000];
    uint64_t rng = 3;
    for (size_t i = 0; i < sizeof program; i++) program[i] = (uint8_t)rng_next(&rng);
    struct err e;
    char exe[256], once[256], twice[256];
    snprintf(exe, sizeof exe, "%s", write_file("exe", program, sizeof program));
    snprintf(once, sizeof once, "%s", temp_path("once"));
    snprintf(twice, sizeof twice, "%s", temp_path("twice"));
    EXPECT(!checkpoint_packed(exe));
    NEED_OK(checkpoint_pack(exe, model, once, true, &e), &e);
    expect_model(once);
    EXPECT(checkpoint_is_app(once));
    /* repacking a packed program replaces its model */
    NEED_OK(checkpoint_pack(once, model, twice, true, &e), &e);
    expect_model(twice);
    struct buf a = {0}, b = {0};
    NEED_OK(file_read(&a, once, 1 << 24, &e), &e);
    NEED_OK(file_read(&b, twice, 1 << 24, &e), &e);
    EXPECT(a.n == b.n && memcmp(a.data, b.data, a.n) == 0 &&
           memcmp(a.data, program, sizeof program) == 0);
    EXPECT_INT(checkpoint_pack(exe, once, twice, true, &e), ERR_ARG);
    for (int i = 1; i <= 32; i++) {
        size_t offset, n;
        a.data[a.n - (size_t)i] ^= 1;
        EXPECT(!pack_find((const uint8_t *)a.data, a.n, &offset, &n));
        a.data[a.n - (size_t)i] ^= 1;
    }
    buf_deinit(&a), buf_deinit(&b);
}
