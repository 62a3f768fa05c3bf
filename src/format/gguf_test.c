/* gguf_test.c - tests of GGUF files: files built byte by byte, handcrafted valid and invalid files,
 * and real files. */
#include "format_impl.h"
#include "base/os.h"
#include "../../tests/gguf_make.h"
#include "../../tests/unit.h"

#include <math.h>

static struct checkpoint *open_made(struct made *g, const char *name, struct err *e)
{
    struct checkpoint *c = NULL;
    const char *path = temp_path(name);
    if (file_write(path, g->head.data, g->head.n, e) == 0) checkpoint_open(&c, path, e);
    buf_deinit(&g->head);
    return c;
}

static void expect_refused(struct made *g, const char *want)
{
    struct err e = {0};
    struct checkpoint *c = open_made(g, "refused.gguf", &e);
    if (c)
        test_fail(__FILE__, __LINE__, "accepted, expected: %s", want);
    else if (!strstr(e.text, want) || !strstr(e.text, "refused.gguf"))
        test_fail(__FILE__, __LINE__, "\"%s\" lacks: %s", e.text, want);
    checkpoint_close(c);
}

/* Make a file with one F32 tensor [4, 2] "t" with the values 0, 1, ... 7. */
static struct made one_tensor(void)
{
    struct made g = made_begin(3, 1, 0);
    made_tensor(&g, "t", 2, (int64_t[]){4, 2}, 0, 0);
    made_pad(&g, 32);
    for (int i = 0; i < 8; i++) made_f32(&g, (float)i);
    return g;
}

/* Goal: keys that the reader of folders adds for fields of config.json have no effect in a GGUF. */
TEST(gguf_fields_of_a_folder_are_refused)
{
    struct made g = made_begin(3, 0, 1);
    made_key(&g, "config.quantization_config.quant_method", 8), made_text(&g, "gptq", 4);
    expect_refused(&g, "metadata key config.quantization_config.quant_method: a GGUF must not");
}

TEST(gguf_every_value_type)
{
    /* Goal: each scalar type is read as its kind, sign and size. A getter of another kind returns
     * `fallback`. */
    for (uint32_t version = 2; version <= 3; version++) {
        struct made g = made_begin(version, 0, 13);
        made_key(&g, "u8", 0), made_uint(&g, 1, 200);
        made_key(&g, "i8", 1), made_uint(&g, 1, (uint64_t)-3);
        made_key(&g, "u16", 2), made_uint(&g, 2, 60000);
        made_key(&g, "i16", 3), made_uint(&g, 2, (uint64_t)-300);
        made_key(&g, "u32", 4), made_uint(&g, 4, 4000000000u);
        made_key(&g, "i32", 5), made_uint(&g, 4, (uint64_t)-70000);
        made_key(&g, "f32", 6), made_f32(&g, 1.5f);
        made_key(&g, "bool", 7), made_uint(&g, 1, 1);
        made_key(&g, "text", 8), made_text(&g, "h\xC3\xA9", 3);
        made_key(&g, "u64", 10), made_uint(&g, 8, UINT64_MAX);
        made_key(&g, "i64", 11), made_uint(&g, 8, (uint64_t)INT64_MIN);
        made_key(&g, "f64", 12), made_f64(&g, 1e10);
        made_key(&g, "nul", 8), made_text(&g, "a\0b", 3);
        struct err e = {0};
        struct checkpoint *c = open_made(&g, "values.gguf", &e);
        NEED_OK(c ? 0 : -1, &e);
        EXPECT_INT(checkpoint_kind(c), CKPT_GGUF);
        EXPECT_INT(checkpoint_n_meta(c), 13);
        EXPECT_INT(meta_int(checkpoint_meta(c, "u8"), 0), 200);
        EXPECT_INT(meta_int(checkpoint_meta(c, "i8"), 0), -3);
        EXPECT_INT(meta_int(checkpoint_meta(c, "u16"), 0), 60000);
        EXPECT_INT(meta_int(checkpoint_meta(c, "i16"), 0), -300);
        EXPECT_INT(meta_int(checkpoint_meta(c, "u32"), 0), 4000000000);
        EXPECT_INT(meta_int(checkpoint_meta(c, "i32"), 0), -70000);
        EXPECT(meta_real(checkpoint_meta(c, "f32"), 0) == 1.5 &&
               meta_int(checkpoint_meta(c, "f32"), 9) == 9);
        EXPECT(meta_bool(checkpoint_meta(c, "bool"), false) &&
               meta_int(checkpoint_meta(c, "bool"), 0) == 1);
        EXPECT_TEXT(meta_text(checkpoint_meta(c, "text"), NULL), "h\xC3\xA9");
        EXPECT_INT(meta_int(checkpoint_meta(c, "u64"), -7), -7);
        EXPECT(meta_real(checkpoint_meta(c, "u64"), 0) == 0x1p64);
        EXPECT(meta_int(checkpoint_meta(c, "i64"), 0) == INT64_MIN);
        EXPECT_INT(meta_int(checkpoint_meta(c, "f64"), 0), 10000000000);
        size_t n;
        const char *text = meta_text(checkpoint_meta(c, "nul"), &n);
        EXPECT(n == 3 && memcmp(text, "a\0b", 4) == 0);
        EXPECT(!checkpoint_meta(c, "none") && meta_kind(NULL) == META_NONE &&
               meta_int(NULL, 5) == 5);
        EXPECT(!meta_text(checkpoint_meta(c, "u8"), &n) && n == 0 &&
               meta_count(checkpoint_meta(c, "u8")) == 0);
        EXPECT(meta_bool(checkpoint_meta(c, "u8"), true) &&
               meta_real(checkpoint_meta(c, "text"), 2) == 2);
        checkpoint_close(c);
    }
}

TEST(gguf_lists)
{
    /* Goal: items of lists of numbers, texts and lists are read by index. An index past the end
     * returns `fallback`. */
    struct made g = made_begin(3, 0, 4);
    made_list(&g, "n", 3, 2), made_uint(&g, 2, 5), made_uint(&g, 2, (uint64_t)-5);
    made_list(&g, "t", 8, 2), made_text(&g, "", 0), made_text(&g, "xyz", 3);
    made_list(&g, "empty", 8, 0);
    made_list(&g, "nested", 9, 2);
    made_uint(&g, 4, 0), made_uint(&g, 8, 3), made_raw(&g, "\1\2\3", 3);
    made_uint(&g, 4, 8), made_uint(&g, 8, 1), made_text(&g, "in", 2);
    struct err e = {0};
    struct checkpoint *c = open_made(&g, "lists.gguf", &e);
    NEED_OK(c ? 0 : -1, &e);
    const struct meta *m = checkpoint_meta(c, "n");
    EXPECT(meta_count(m) == 2 && meta_item_kind(m) == META_INT && meta_item_int(m, 1, 0) == -5);
    EXPECT(meta_item_int(m, 2, 77) == 77 && !meta_item_text(m, 0, NULL) &&
           meta_item_real(m, 0, 0) == 5);
    m = checkpoint_meta(c, "t");
    size_t n;
    const char *text = meta_item_text(m, 1, &n);
    EXPECT(n == 3 && memcmp(text, "xyz", 3) == 0 && meta_item_text(m, 0, &n) && n == 0);
    EXPECT(!meta_item_text(m, 2, &n) && meta_item_int(m, 0, 4) == 4);
    EXPECT(meta_count(checkpoint_meta(c, "empty")) == 0 &&
           meta_kind(checkpoint_meta(c, "empty")) == META_LIST);
    m = checkpoint_meta(c, "nested");
    NEED(meta_count(m) == 2 && meta_item_kind(m) == META_LIST);
    const struct meta *inner = m->data;
    EXPECT(meta_item_int(&inner[0], 2, 0) == 3);
    text = meta_item_text(&inner[1], 0, &n);
    EXPECT(text && n == 2 && memcmp(text, "in", 2) == 0);
    checkpoint_close(c);
}

TEST(gguf_tensor)
{
    struct made g = one_tensor();
    struct err e = {0};
    struct checkpoint *c = open_made(&g, "tensor.gguf", &e);
    NEED_OK(c ? 0 : -1, &e);
    const struct tensor_info *t = checkpoint_tensor(c, "t");
    NEED(t && t == checkpoint_tensor_at(c, 0));
    EXPECT(t->type == QT_f32 && t->n_dim == 2 && t->dim[0] == 4 && t->dim[1] == 2 &&
           t->dim[2] == 1);
    EXPECT(t->n_byte == 32 && t->data[31] == 0x40 && t->file == 0);
    EXPECT_TEXT(t->name_raw, "t");
    EXPECT(checkpoint_file_bytes(c) == 128 && !checkpoint_tensor(c, "u"));
    EXPECT(strstr(checkpoint_path(c), "tensor.gguf") && dir_exists(checkpoint_dir(c)));
    checkpoint_close(c);
}

TEST(gguf_refusals)
{
    /* Goal: each error describes the file's defect. Method: one file per defect. */
    struct made g = made_begin(1, 0, 0);
    expect_refused(&g, "GGUF version 1, expected 2 or 3");
    g = made_begin(0x03000000, 0, 0);
    expect_refused(&g, "big-endian");
    g = made_begin(3, 0, 1);
    expect_refused(&g, "a metadata key takes 8 bytes, but the file has 0 more");
    g = made_begin(3, 0, 1), made_key(&g, "", 0), made_uint(&g, 1, 0);
    expect_refused(&g, "a metadata key has 0 bytes, expected 1 to 65535");
    g = made_begin(3, 0, 1), made_key(&g, "\xFF", 0), made_uint(&g, 1, 0);
    expect_refused(&g, "is not UTF-8 text");
    g = made_begin(3, 0, 1), made_key(&g, "k", 13);
    expect_refused(&g, "key \"k\" has value type 13");
    g = made_begin(3, 0, 1), made_key(&g, "k", 8), made_uint(&g, 8, 1ull << 63);
    expect_refused(&g, "k takes 9223372036854775808 bytes");
    g = made_begin(3, 0, 1), made_list(&g, "k", 12, 1ull << 61);
    expect_refused(&g, "a list of 2305843009213693952 items does not fit");
    g = made_begin(3, 0, 1), made_list(&g, "k", 99, 0);
    expect_refused(&g, "value type 99");
    g = made_begin(3, 0, 1), made_list(&g, "k", 9, 1);
    for (int i = 0; i < 20; i++) made_uint(&g, 4, 9), made_uint(&g, 8, 1);
    expect_refused(&g, "nested deeper than 8");
    g = made_begin(3, 0, 2), made_key(&g, "k", 7), made_uint(&g, 1, 0), made_key(&g, "k", 7),
    made_uint(&g, 1, 0);
    expect_refused(&g, "key \"k\"");
    g = made_begin(3, 0, 1), made_key(&g, "general.alignment", 4), made_uint(&g, 4, 24);
    expect_refused(&g, "general.alignment is 24, expected a power of two");
}

static void refuse_tensor(int n_dim, const int64_t *dim, uint32_t type, uint64_t offset,
                          const char *want)
{
    struct made g = made_begin(3, 1, 0);
    made_tensor(&g, "w", n_dim, dim, type, offset);
    made_pad(&g, 32), made_uint(&g, 8, 0), made_pad(&g, 32);
    expect_refused(&g, want);
}

TEST(gguf_tensor_refusals)
{
    refuse_tensor(1, (int64_t[]){8}, 43, 0, "tensor \"w\" has type 43");
    refuse_tensor(5, (int64_t[]){1, 1, 1, 1, 1}, 0, 0, "has 5 dimensions");
    refuse_tensor(2, (int64_t[]){1, 0}, 0, 0, "dimension 1 is 0");
    refuse_tensor(1, (int64_t[]){-1}, 0, 0, "dimension 0 is 18446744073709551615");
    refuse_tensor(1, (int64_t[]){33}, 2, 0,
                  "rows of 33 values, expected a multiple of 32 for type Q4_0");
    refuse_tensor(3, (int64_t[]){1 << 30, 1 << 30, 1 << 30}, 0, 0, "product overflows");
    refuse_tensor(2, (int64_t[]){1ll << 40, 1ll << 22}, 0, 0, "product overflows");
    refuse_tensor(1, (int64_t[]){8}, 0, 8, "offset 8, expected a multiple of the alignment 32");
    refuse_tensor(
        1, (int64_t[]){8}, 0, 32,
        "truncated: tensor \"w\": 32 bytes at offset 32 of 32 bytes of data; download it again");
    refuse_tensor(1, (int64_t[]){8}, 0, UINT64_MAX - 31,
                  "tensor \"w\": 32 bytes at offset 18446744073709551584");
    struct made g = made_begin(3, 2, 0);
    made_tensor(&g, "w", 1, (int64_t[]){1}, 0, 0), made_tensor(&g, "w", 1, (int64_t[]){1}, 0, 0);
    expect_refused(&g, "must have one tensor of each name, got two \"w\"");
    g = one_tensor(), g.head.n--;
    expect_refused(&g, "the file is truncated: tensor");
    char name[66];
    memset(name, 'n', 65), name[65] = 0;
    g = made_begin(3, 2, 0), made_tensor(&g, "v", 1, (int64_t[]){16}, 0, 0);
    made_tensor(&g, "w", 1, (int64_t[]){8}, 0, 32), made_pad(&g, 32);
    for (int n = 0; n < 16; n++) made_f32(&g, 0);
    expect_refused(&g, "tensor \"w\" begins at 32, expected at least 64 (overlap)");
    g = made_begin(3, 1, 0), made_tensor(&g, name, 1, (int64_t[]){8}, 0, 0);
    expect_refused(&g, "a tensor name has 65 bytes, expected 1 to 64");
}

TEST(gguf_cut_anywhere)
{
    /* Goal: every proper prefix of a valid file is rejected without a crash. The error contains the
     * file. */
    struct made g = one_tensor();
    for (size_t n = 0; n < g.head.n; n++) {
        struct made cut = {0};
        buf_add(&cut.head, g.head.data, n);
        expect_refused(&cut, "");
    }
    buf_deinit(&g.head);
}

/* ---- split ---- */

static void write_part(const char *name, int no, int count, int n_tensor_all)
{
    struct made g = made_begin(3, 1, 3);
    char tensor[16];
    struct err e;
    snprintf(tensor, sizeof tensor, "t%d", no);
    made_key(&g, "split.no", 2), made_uint(&g, 2, (uint64_t)no);
    made_key(&g, "split.count", 2), made_uint(&g, 2, (uint64_t)count);
    made_key(&g, "split.tensors.count", 5), made_uint(&g, 4, (uint64_t)n_tensor_all);
    made_tensor(&g, tensor, 1, (int64_t[]){1}, 0, 0);
    made_pad(&g, 32), made_f32(&g, (float)no), made_pad(&g, 32);
    EXPECT_INT(file_write(temp_path(name), g.head.data, g.head.n, &e), 0);
    buf_deinit(&g.head);
}

static void expect_split_refused(const char *name, const char *want)
{
    struct err e = {0};
    struct checkpoint *c;
    EXPECT(checkpoint_open(&c, temp_path(name), &e) != 0);
    if (!strstr(e.text, want)) test_fail(__FILE__, __LINE__, "\"%s\" lacks: %s", e.text, want);
    checkpoint_close(c);
}

TEST(gguf_split)
{
    /* Goal: the path of any part opens the whole model. The error names a missing or inconsistent
     * part. */
    static const char *const name[] = {"s-00001-of-00003.gguf", "s-00002-of-00003.gguf",
                                       "s-00003-of-00003.gguf"};
    struct err e = {0};
    for (int i = 0; i < 3; i++) write_part(name[i], i, 3, 3);
    for (int i = 0; i < 3; i++) {
        struct checkpoint *c;
        NEED_OK(checkpoint_open(&c, temp_path(name[i]), &e), &e);
        EXPECT_INT(checkpoint_n_tensor(c), 3);
        const struct tensor_info *t = checkpoint_tensor(c, "t2");
        float x = 0;
        if (t) memcpy(&x, t->data, 4);
        EXPECT(t && t->file == 2 && x == 2);
        EXPECT_INT(meta_int(checkpoint_meta(c, "split.no"), -1), 0);
        checkpoint_close(c);
    }
    write_part(name[0], 0, 3, 4);
    expect_split_refused(name[1], "split.tensors.count: must be 3, the number of tensors, got 4");
    write_part(name[0], 0, 2, 3);
    expect_split_refused(name[0], "split.count: must be 3 as in the file's name, got 2");
    write_part("alone.gguf", 0, 2, 3);
    expect_split_refused("alone.gguf", "split.count: must be 1 as in the file's name, got 2");
    write_part(name[0], 1, 3, 3);
    expect_split_refused(name[0], "split.no is 1, expected 0");
    write_part(name[0], 0, 3, 3), write_part(name[2], 1, 3, 3);
    expect_split_refused(name[0], "s-00003-of-00003.gguf: split.no is 1, expected 2");
    remove(temp_path(name[1]));
    expect_split_refused(name[0], "s-00002-of-00003.gguf: cannot open");
}

/* ---- files made by other programs ---- */

/* Expect that NAME.ok.gguf opens and NAME.bad.gguf does not. TENSORS_*.ok have tensors without data
 * bytes, so only their header opens. Some of these tensors have the types 9 and 15 (Q8_1, Q8_K).
 * They are types of activations, which no model has. */
static void run_handcrafted(const char *dir, const char *name)
{
    char path[1024];
    struct err e = {0};
    struct checkpoint *c;
    NEED(path_join(path, sizeof path, dir, name));
    bool good = strstr(name, ".ok.") != NULL,
         header_only = good && strncmp(name, "TENSORS_", 8) == 0;
    int rc = header_only ? checkpoint_open_header(&c, path, &e) : checkpoint_open(&c, path, &e);
    if (good && (qtype_of_gguf(9) < 0 || qtype_of_gguf(15) < 0) &&
        strstr(e.text, "has type 15, which"))
        test_note("%s", e.text);
    else if ((rc == 0) != good)
        test_fail(__FILE__, __LINE__, "%s: %s", name, rc ? e.text : "accepted");
    EXPECT(rc == 0 || e.text[0]);
    checkpoint_close(c);
    if (!header_only) return;
    EXPECT(checkpoint_open(&c, path, &e) != 0);
    checkpoint_close(c);
}

TEST(gguf_handcrafted)
{
    const char *dir = data_path("malformed/gguf-handcrafted");
    if (!dir) SKIP("malformed/gguf-handcrafted is absent");
    struct buf names = {0};
    struct err e;
    int n = 0;
    NEED_OK(dir_list(&names, dir, &e), &e);
    for (char *rest = names.data, *name; (name = strsep(&rest, "\n")) && *name;)
        if (strstr(name, ".gguf")) run_handcrafted(dir, name), n++;
    EXPECT_INT(n, 31);
    buf_deinit(&names);
}

TEST(gguf_real)
{
    /* Goal: a converter's file is read correctly, with its whole vocabulary. */
    const char *path = data_path("weights/gguf/stories260K-F32.gguf");
    if (!path) SKIP("weights/gguf is absent");
    struct checkpoint *c;
    struct err e;
    size_t n;
    NEED_OK(checkpoint_open(&c, path, &e), &e);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "general.architecture"), NULL), "llama");
    EXPECT_INT(meta_int(checkpoint_meta(c, "llama.block_count"), 0), 5);
    EXPECT(fabs(meta_real(checkpoint_meta(c, "llama.attention.layer_norm_rms_epsilon"), 0) - 1e-5) <
           1e-9);
    const struct meta *tokens = checkpoint_meta(c, "tokenizer.ggml.tokens");
    EXPECT_INT(meta_count(tokens), 512);
    EXPECT(meta_item_text(tokens, 1, &n) && n == 3);
    EXPECT_INT(checkpoint_n_tensor(c), 48);
    const struct tensor_info *t = checkpoint_tensor(c, "blk.4.ffn_down.weight");
    EXPECT(t && t->dim[0] == 172 && t->dim[1] == 64 && t->type == QT_f32);
    checkpoint_close(c);
}

TEST(gguf_real_vocabularies)
{
    const char *dir = data_path("tokenizers/llama.cpp-vocab");
    if (!dir) SKIP("tokenizers/llama.cpp-vocab is absent");
    struct buf names = {0};
    struct err e = {0};
    NEED_OK(dir_list(&names, dir, &e), &e);
    for (char *rest = names.data, *name; (name = strsep(&rest, "\n")) && *name;) {
        char path[1024];
        struct checkpoint *c;
        size_t n = strlen(name);
        if (n < 5 || strcmp(name + n - 5, ".gguf") != 0) continue;
        NEED(path_join(path, sizeof path, dir, name));
        NEED_OK(checkpoint_open(&c, path, &e), &e);
        EXPECT(meta_count(checkpoint_meta(c, "tokenizer.ggml.tokens")) > 1000);
        checkpoint_close(c);
    }
    buf_deinit(&names);
}
