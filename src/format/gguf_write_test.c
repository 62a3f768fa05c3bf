/* Goal: a written GGUF equals the source checkpoint in every key and tensor. Method: write a GGUF,
 * open it, and compare values and types. Files of other programs are also written. */
#include "format_impl.h"
#include "../../tests/gguf_make.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static void expect_same_meta(const char *key, const struct meta *got, const struct meta *want)
{
    if (!got || got->type != want->type || got->n != want->n ||
        (want->type == VT_LIST && got->item != want->item)) {
        test_fail(__FILE__, __LINE__, "key %s is another value", key);
        return;
    }
    if (want->type != VT_LIST)
        EXPECT_BITS(got->data, want->data,
                    want->type == VT_TEXT ? want->n : value_bytes(want->type));
    for (size_t i = 0; i < want->n && want->type == VT_LIST; i++) {
        size_t n, n_want;
        const char *text = meta_item_text(got, i, &n),
                   *text_want = meta_item_text(want, i, &n_want);
        if (text_want) EXPECT(n == n_want && memcmp(text, text_want, n) == 0);
        if (want->item == VT_LIST)
            expect_same_meta(key, (const struct meta *)got->data + i,
                             (const struct meta *)want->data + i);
    }
    if (want->type == VT_LIST && value_bytes(want->item))
        EXPECT_BITS(got->data, want->data, want->n * value_bytes(want->item));
}

static void expect_same(const struct checkpoint *got, const struct checkpoint *want)
{
    EXPECT_INT(got->meta.n, want->meta.n);
    EXPECT_INT(got->tensor.n, want->tensor.n);
    for (size_t i = 0; i < want->meta.n; i++)
        expect_same_meta(want->meta.v[i].key, checkpoint_meta(got, want->meta.v[i].key),
                         &want->meta.v[i].value);
    for (size_t i = 0; i < want->tensor.n; i++) {
        const struct tensor_info *w = &want->tensor.v[i], *g = checkpoint_tensor(got, w->name);
        NEED(g && g->type == w->type && g->n_dim == w->n_dim && g->n_byte == w->n_byte);
        EXPECT_BITS(g->dim, w->dim, sizeof w->dim);
        EXPECT_BITS(g->data, w->data, w->n_byte);
    }
}

static void expect_round_trip(const struct checkpoint *c)
{
    struct err e = {0};
    struct checkpoint *got;
    const char *path = temp_path("written.gguf");
    NEED_OK(checkpoint_write_gguf(c, path, NULL, NULL, &e), &e);
    NEED_OK(checkpoint_open(&got, path, &e), &e);
    expect_same(got, c);
    checkpoint_close(got);
}

TEST(gguf_written_is_what_was_given)
{
    /* every value type, lists of each kind, a non-default alignment, odd sizes */
    struct made g = made_begin(3, 2, 15);
    made_key(&g, "general.alignment", 4), made_uint(&g, 4, 128);
    made_key(&g, "u8", 0), made_uint(&g, 1, 200);
    made_key(&g, "i8", 1), made_uint(&g, 1, (uint64_t)-3);
    made_key(&g, "u16", 2), made_uint(&g, 2, 60000);
    made_key(&g, "i16", 3), made_uint(&g, 2, (uint64_t)-300);
    made_key(&g, "i32", 5), made_uint(&g, 4, (uint64_t)-70000);
    made_key(&g, "f32", 6), made_f32(&g, 1.5f);
    made_key(&g, "bool", 7), made_uint(&g, 1, 1);
    made_key(&g, "text", 8), made_text(&g, "a\0b", 3);
    made_key(&g, "u64", 10), made_uint(&g, 8, UINT64_MAX);
    made_key(&g, "f64", 12), made_f64(&g, 1e10);
    made_list(&g, "numbers", 3, 2), made_uint(&g, 2, 5), made_uint(&g, 2, (uint64_t)-5);
    made_list(&g, "texts", 8, 2), made_text(&g, "", 0), made_text(&g, "xyz", 3);
    made_list(&g, "none", 8, 0);
    made_list(&g, "nested", 9, 2);
    made_uint(&g, 4, 0), made_uint(&g, 8, 3), made_raw(&g, "\1\2\3", 3);
    made_uint(&g, 4, 8), made_uint(&g, 8, 1), made_text(&g, "in", 2);
    made_tensor(&g, "t", 2, (int64_t[]){3, 1}, 0, 0);
    made_tensor(&g, "u", 1, (int64_t[]){5}, 24, 128);
    made_pad(&g, 128), made_f32(&g, 1), made_f32(&g, 2), made_f32(&g, 3);
    made_pad(&g, 128), made_raw(&g, "\1\2\3\4\5", 5), made_pad(&g, 128);
    struct err e = {0};
    struct checkpoint *c;
    EXPECT_INT(file_write(temp_path("given.gguf"), g.head.data, g.head.n, &e), 0);
    NEED_OK(checkpoint_open(&c, temp_path("given.gguf"), &e), &e);
    expect_round_trip(c);
    struct file_map written;
    NEED_OK(file_map_open(&written, temp_path("written.gguf"), &e), &e);
    EXPECT(written.n_byte == g.head.n && memcmp(written.data, g.head.data, g.head.n) == 0);
    file_map_close(&written);
    checkpoint_close(c);
    buf_deinit(&g.head);
}

TEST(gguf_of_others_written_again)
{
    static const char *const path[] = {
        "tests/golden/llama3/model.gguf",
        "tests/golden/qwen3/model.gguf",
        "tests/golden/smollm3/model.gguf",
    };
    if (!repo_path(path[0])) SKIP("tests/golden is not here");
    for (size_t i = 0; i < sizeof path / sizeof path[0]; i++) {
        struct checkpoint *c;
        struct err e;
        NEED_OK(checkpoint_open(&c, repo_path(path[i]), &e), &e);
        expect_round_trip(c);
        checkpoint_close(c);
    }
}

static void note_progress(void *ctx, uint64_t done, uint64_t n_byte)
{
    uint64_t *last = ctx;
    EXPECT(done > last[0] && done <= n_byte);
    last[0] = done, last[1] = n_byte;
}

TEST(gguf_of_random_weights_is_streamed)
{
    /* Goal: a dummy written with no_data equals a dummy generated in memory. */
    struct err e = {0};
    struct checkpoint *made, *bare, *got;
    struct dummy_options o = {.shape = "tiny", .quant = "Q4_K_M"};
    NEED_OK(checkpoint_open_dummy(&made, &o, &e), &e);
    o.no_data = true;
    NEED_OK(checkpoint_open_dummy(&bare, &o, &e), &e);
    uint64_t last[2] = {0};
    const char *path = temp_path("dummy.gguf");
    NEED_OK(checkpoint_write_gguf(bare, path, note_progress, last, &e), &e);
    EXPECT(last[0] == last[1]);
    NEED_OK(checkpoint_open(&got, path, &e), &e);
    EXPECT_INT(checkpoint_file_bytes(got), last[1]);
    expect_same(got, made);
    checkpoint_close(made), checkpoint_close(bare), checkpoint_close(got);
}

static void expect_refused(const struct checkpoint *c, const char *word)
{
    struct err e = {0};
    EXPECT(checkpoint_write_gguf(c, temp_path("unwritten.gguf"), NULL, NULL, &e) != 0);
    if (!strstr(e.text, word)) test_fail(__FILE__, __LINE__, "\"%s\" lacks %s", e.text, word);
    EXPECT(!file_exists(temp_path("unwritten.gguf")));
}

TEST(gguf_that_cannot_be_written_is_refused_by_name)
{
    struct err e = {0};
    struct checkpoint *c;
    struct dummy_options o = {.shape = "tiny", .quant = "F8_E4M3"};
    NEED_OK(checkpoint_open_dummy(&c, &o, &e), &e);
    expect_refused(c, "token_embd.weight: type F8_E4M3: not supported by GGUF");
    checkpoint_close(c);
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    NEED_OK(checkpoint_open(&c, repo_path("tests/golden/llama3"), &e), &e);
    expect_refused(c, "cannot write as GGUF");
    checkpoint_close(c);
}
