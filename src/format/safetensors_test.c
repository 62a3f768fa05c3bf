/* safetensors_test.c - tests of single safetensors files: small valid and invalid files, and real
 * files. */
#include "format.h"
#include "../../tests/safetensors_make.h"
#include "../../tests/unit.h"

static struct checkpoint *open_made(const char *header, size_t n_data, struct err *e)
{
    struct checkpoint *c = NULL;
    const char *path = temp_path("one.safetensors");
    if (safetensors_write(path, header, n_data) == 0) checkpoint_open(&c, path, e);
    return c;
}

static void expect_refused(const char *header, size_t n_data, const char *want)
{
    struct err e = {0};
    struct checkpoint *c = open_made(header, n_data, &e);
    if (c)
        test_fail(__FILE__, __LINE__, "accepted, expected: %s", want);
    else if (!strstr(e.text, want) || !strstr(e.text, "one.safetensors"))
        test_fail(__FILE__, __LINE__, "\"%s\" lacks: %s", e.text, want);
    checkpoint_close(c);
}

TEST(safetensors_shapes_and_names)
{
    /* Goal: dimensions are reversed, ranges are found, names are translated, and metadata is
     * ignored. */
    struct err e = {0};
    struct checkpoint *c = open_made(
        "{'__metadata__':{'format':'pt'},"
        "'model.layers.12.mlp.up_proj.weight':{'dtype':'BF16','shape':[2,3],'data_offsets':[1,13]},"
        "'scalar':{'dtype':'BOOL','shape':[],'data_offsets':[0,1]},"
        "'none':{'dtype':'F64','shape':[4,0],'data_offsets':[13,13]},"
        "'conv':{'dtype':'I8','shape':[2,3,1,2,1],'data_offsets':[13,25]}}",
        25, &e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT(checkpoint_kind(c) == CKPT_HF && checkpoint_n_meta(c) == 0 &&
           checkpoint_n_tensor(c) == 4);
    const struct tensor_info *t = checkpoint_tensor(c, "blk.12.ffn_up.weight");
    NEED(t);
    EXPECT(t->type == QT_bf16 && t->n_dim == 2 && t->dim[0] == 3 && t->dim[1] == 2 &&
           t->n_byte == 12);
    EXPECT(t->data[0] == 1 && t->data[11] == 12);
    EXPECT_TEXT(t->name_raw, "model.layers.12.mlp.up_proj.weight");
    t = checkpoint_tensor(c, "scalar");
    EXPECT(t && t->n_dim == 1 && t->dim[0] == 1 && t->type == QT_bool);
    t = checkpoint_tensor(c, "none");
    EXPECT(t && t->n_byte == 0 && t->dim[0] == 0 && t->dim[1] == 4);
    t = checkpoint_tensor(c, "conv");
    EXPECT(t && t->n_dim == 4 && t->dim[0] == 1 && t->dim[1] == 2 && t->dim[2] == 1 &&
           t->dim[3] == 6);
    checkpoint_close(c);
}

TEST(safetensors_dtypes)
{
    static const struct {
        const char *name;
        enum qtype type;
    } known[] = {{"F64", QT_f64},   {"F32", QT_f32},         {"F16", QT_f16},
                 {"BF16", QT_bf16}, {"F8_E4M3", QT_f8_e4m3}, {"F8_E5M2", QT_f8_e5m2},
                 {"I64", QT_i64},   {"I32", QT_i32},         {"I16", QT_i16},
                 {"I8", QT_i8},     {"U8", QT_u8},           {"BOOL", QT_bool}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char header[200];
        int n = 3 * qtype_info[known[i].type].n_byte;
        struct err e = {0};
        snprintf(header, sizeof header, "{'x':{'dtype':'%s','shape':[3],'data_offsets':[0,%d]}}",
                 known[i].name, n);
        struct checkpoint *c = open_made(header, (size_t)n, &e);
        NEED_OK(c ? 0 : -1, &e);
        EXPECT_INT(checkpoint_tensor(c, "x")->type, known[i].type);
        checkpoint_close(c);
    }
}

#define ONE(dtype, shape, offsets)                                                                 \
    "{'x':{'dtype':" dtype ",'shape':" shape ",'data_offsets':" offsets "}}"

TEST(safetensors_refusals)
{
    /* Goal: each error describes the file's defect. Method: one file per defect. */
    expect_refused(ONE("'U32'", "[1]", "[0,4]"), 4, "tensor \"x\": dtype U32");
    expect_refused(ONE("3", "[1]", "[0,4]"), 4, "dtype");
    expect_refused(ONE("'F32'", "7", "[0,4]"), 4, "shape");
    expect_refused(ONE("'F32'", "[-1]", "[0,4]"), 4, "shape[0]");
    expect_refused(ONE("'F32'", "[1,1.5]", "[0,4]"), 4, "shape[1]");
    expect_refused(ONE("'F32'", "[2]", "[0,4]"), 4,
                   "data_offsets: must span 8 bytes as shape and dtype, got 4");
    expect_refused(ONE("'F32'", "[4611686018427387904,4]", "[0,0]"), 0,
                   "data_offsets: must span fewer than 2^63 bytes as shape and dtype, got 0");
    expect_refused(ONE("'F32'", "[1]", "[0,8]"), 4,
                   "data_offsets [0, 8], expected a range in 0 .. 4");
    expect_refused(ONE("'F32'", "[1]", "[4,0]"), 4, "data_offsets [4, 0]");
    expect_refused(ONE("'F32'", "[1]", "[0]"), 4, "data_offsets [0, -1]");
    expect_refused(ONE("'F32'", "[1]", "[4,8]"), 8, "tensor \"x\" begins at 4, expected 0 (hole)");
    expect_refused(ONE("'F32'", "[1]", "[0,4]"), 5, "the tensors take 4 bytes");
    expect_refused("{'x':{'dtype':'I8','shape':[2],'data_offsets':[0,2]},"
                   "'y':{'dtype':'I8','shape':[2],'data_offsets':[1,3]}}",
                   3, "tensor \"y\" begins at 1, expected 2 (overlap)");
    expect_refused("{'first':{'dtype':'I8','shape':[2],'data_offsets':[1,3]},"
                   "'z':{'dtype':'I8','shape':[2],'data_offsets':[3,5]}}",
                   5, "tensor \"first\" begins at 1, expected 0 (hole)");
    expect_refused("{'lm_head.weight':{'dtype':'I8','shape':[1],'data_offsets':[0,1]},"
                   "'output.weight':{'dtype':'I8','shape':[1],'data_offsets':[1,2]}}",
                   2, "must have one tensor of each name, got two \"output.weight\"");
    expect_refused("{'':{}}", 0, "name: must have 1 to 1024 bytes without NUL, got 0");
    expect_refused("{'x':[]}", 0, "dtype: expected a string");
    expect_refused("[]", 0, "header: expected an object");
    expect_refused("{'x':", 0, "header: line 1");
    expect_refused("", 0, "header length: must be in [2, 0], got 0");
}

/* Goal: the error for a file without content describes the download, and the file has either the
 * name of weights or of a GGUF. */
TEST(files_without_their_content)
{
    static const struct {
        const char *text, *want;
    } row[] = {{"", "the file is empty; download it again"},
               {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
                "the file is a Git LFS pointer"}};
    static const char *const name[] = {"x.safetensors", "x.gguf", "x.bin"};
    for (size_t i = 0; i < 6; i++) {
        struct err e = {0};
        struct checkpoint *c;
        NEED_OK(file_write(temp_path(name[i / 2]), row[i % 2].text, strlen(row[i % 2].text), &e),
                &e);
        EXPECT_INT(checkpoint_open(&c, temp_path(name[i / 2]), &e), ERR_FORMAT);
        EXPECT(c == NULL && strstr(e.text, row[i % 2].want) && strstr(e.text, name[i / 2]));
        EXPECT_INT(remove(temp_path(name[i / 2])), 0);
    }
}

TEST(safetensors_cut_anywhere)
{
    /* Goal: every proper prefix of a valid file is rejected with a message. */
    struct err e = {0};
    struct buf b = {0};
    const char *path = temp_path("one.safetensors");
    EXPECT_INT(safetensors_write(path, ONE("'F32'", "[3]", "[0,12]"), 12), 0);
    NEED_OK(file_read(&b, path, 1 << 20, &e), &e);
    for (size_t n = 0; n < b.n; n++) {
        struct checkpoint *c;
        EXPECT_INT(file_write(path, b.data, n, &e), 0);
        e.text[0] = 0;
        EXPECT(checkpoint_open(&c, path, &e) != 0 && e.text[0]);
        checkpoint_close(c);
    }
    buf_deinit(&b);
}

/* ---- files made by other programs ---- */

static struct checkpoint *open_data(const char *relative, struct err *e)
{
    const char *path = data_path(relative);
    struct checkpoint *c = NULL;
    if (path) checkpoint_open(&c, path, e);
    return c;
}

TEST(safetensors_samples_by_dtype)
{
    /* Goal: each sample file of Hugging Face opens, or is rejected because of its unsigned
     * dtype. */
    static const struct {
        const char *file;
        int type;
    } sample[] = {{"f", QT_f32}, {"e", QT_f16}, {"d", QT_f64}, {"b", QT_i8}, {"h", QT_i16},
                  {"i", QT_i32}, {"B", QT_u8},  {"H", -1},     {"I", -1}};
    if (!data_path("weights/safetensors-samples")) SKIP("weights/safetensors-samples is absent");
    for (size_t i = 0; i < sizeof sample / sizeof sample[0]; i++) {
        char relative[128];
        struct err e = {0};
        snprintf(relative, sizeof relative,
                 "weights/safetensors-samples/hf-safetensors-samples/%s.safetensors",
                 sample[i].file);
        struct checkpoint *c = open_data(relative, &e);
        if (sample[i].type < 0)
            EXPECT(!c && strstr(e.text, "not supported"));
        else
            EXPECT(c && (int)checkpoint_tensor_at(c, 0)->type == sample[i].type);
        checkpoint_close(c);
    }
}

TEST(safetensors_real)
{
    static const struct {
        const char *path;
        int n_tensor;
    } real[] = {{"weights/candle/csm-voices.safetensors", 2},
                {"weights/candle/jfk-codes.safetensors", 1},
                {"weights/safetensors-samples/cellogpt_s2s.safetensors", 0},
                {"weights/lora/discollama/adapters.safetensors", 0}};
    if (!data_path("weights/candle")) SKIP("weights/candle is absent");
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++) {
        struct err e = {0};
        struct checkpoint *c = open_data(real[i].path, &e);
        NEED_OK(c ? 0 : -1, &e);
        EXPECT(real[i].n_tensor ? checkpoint_n_tensor(c) == real[i].n_tensor
                                : checkpoint_n_tensor(c) > 1);
        checkpoint_close(c);
    }
    /* five bytes after the last tensor; Hugging Face's reader also rejects them */
    struct err e = {0};
    struct checkpoint *c =
        open_data("weights/safetensors-samples/weight-inspect/fixtures/tiny.safetensors", &e);
    EXPECT(!c && strstr(e.text, "the tensors take 32768 bytes"));
}
