/* Goal: exactly the files of a model are selected from a repository. Corner cases: formats with a
 * common beginning, splits with a missing file, two models of one format, shards without the
 * index. */
#include "hub_impl.h"
#include "../../tests/unit.h"

#include <stdlib.h>

/* Add files whose names are separated by blanks. */
static void fill(struct hub_files *f, const char *names)
{
    char *copy = strdup(names), *rest = copy;
    struct err e;
    for (char *name; copy && (name = strsep(&rest, " "));)
        EXPECT(files_add(f, name, strlen(name), "", 1, &e) == 0);
    free(copy);
}

/* Choose, and compare the chosen files and the result. `want` NULL: an error. */
static void choose(const char *names, const char *quant, int want_rc, const char *want)
{
    struct hub_files f = {0};
    struct buf got = {0};
    struct err e = {0};
    int first;
    fill(&f, names);
    int rc = files_choose(&f, quant, &first, &e);
    for (size_t i = 0; rc == 0 && i < f.n; i++)
        if (f.v[i].chosen) buf_addf(&got, "%s%s", got.n ? " " : "", f.v[i].path);
    if (rc != want_rc) test_fail(__FILE__, __LINE__, "%s: %d %s", quant, rc, e.text);
    if (want) EXPECT_TEXT(got.data ? got.data : "", want);
    buf_deinit(&got);
    hub_files_deinit(&f);
}

TEST(hub_chooses_number_formats)
{
    static const char all[] =
        "m-Q4_K_M.gguf m-Q4_K_S.gguf m-Q4_0.gguf m-IQ4_XS.gguf UD/m-UD-Q4_K_XL.gguf "
        "mmproj-Q4_0.gguf m-mmproj-Q4_K_S.gguf m.imatrix-Q4_0.gguf README.md";
    choose(all, "", 0, "m-Q4_K_M.gguf");
    choose(all, "q4_k_s", 0, "m-Q4_K_S.gguf");
    choose(all, "Q4_0", 0, "m-Q4_0.gguf");
    choose(all, "Q4_K_XL", 0, "UD/m-UD-Q4_K_XL.gguf");
    choose(all, "UD-Q4_K_XL", 0, "UD/m-UD-Q4_K_XL.gguf");
    choose(all, "Q4_K", ERR_MISSING, NULL);
    choose(all, "4_0", ERR_MISSING, NULL);
    choose("m-Q8_0.gguf m-F16.gguf", "", 0, "m-Q8_0.gguf");
    choose("model_q5_1.gguf", "", 0, "model_q5_1.gguf");
    choose("model_q5_1.gguf", "Q5_1", 0, "model_q5_1.gguf");
    choose("a.gguf b.gguf", "", ERR_ARG, NULL);
    choose("a.gguf b.gguf", "b.gguf", 0, "b.gguf");
    choose("a-Q4_0.gguf b-Q4_0.gguf", "Q4_0", ERR_ARG, NULL);
    choose("a-Q4_0.gguf b-Q4_0.gguf", "a-Q4_0", 0, "a-Q4_0.gguf");
    choose("README.md", "", ERR_MISSING, NULL);
}

TEST(hub_chooses_splits)
{
    choose("m-Q8_0-00001-of-00002.gguf m-Q8_0-00002-of-00002.gguf m-F16.gguf", "Q8_0", 0,
           "m-Q8_0-00001-of-00002.gguf m-Q8_0-00002-of-00002.gguf");
    choose("m-Q8_0-00001-of-00003.gguf m-Q8_0-00003-of-00003.gguf", "Q8_0", ERR_MISSING, NULL);
    choose("m-Q8_0-00002-of-00002.gguf", "Q8_0", ERR_MISSING, NULL);
    choose("Q8_0/x-00001-of-00001.gguf", "Q8_0", 0, "Q8_0/x-00001-of-00001.gguf");
    choose("m-Q8_0-00000-of-00002.gguf", "", ERR_MISSING, NULL);
}

TEST(hub_chooses_folders)
{
    choose("config.json model.safetensors tokenizer.json tokenizer.model merges.txt chat.jinja "
           "model.fp16.safetensors pytorch_model.bin onnx/config.json 1_Pooling/config.json "
           "2_Dense/model.safetensors original/params.json additional_chat_templates/t.jinja x.py",
           "", 0,
           "config.json model.safetensors tokenizer.json tokenizer.model merges.txt chat.jinja "
           "1_Pooling/config.json 2_Dense/model.safetensors additional_chat_templates/t.jinja");
    choose("config.json model.safetensors.index.json model-00001-of-00002.safetensors "
           "model-00002-of-00002.safetensors consolidated.safetensors",
           "", 0,
           "config.json model.safetensors.index.json model-00001-of-00002.safetensors "
           "model-00002-of-00002.safetensors");
    choose("config.json model.safetensors.index.json model-00002-of-00002.safetensors", "",
           ERR_MISSING, NULL);
    choose("config.json model.safetensors model.safetensors.index.json "
           "model-00001-of-00001.safetensors",
           "", 0, "config.json model.safetensors model.safetensors.index.json");
    choose("config.json weights.safetensors a-Q4_0.gguf", "", 0, "config.json weights.safetensors");
    choose("config.json weights.safetensors a-Q4_0.gguf", "Q4_0", 0, "a-Q4_0.gguf");
    choose("weights.safetensors", "", ERR_MISSING, NULL);
}

TEST(hub_labels_of_files)
{
    char label[200];
    EXPECT(gguf_label(label, "a/m-7b-Q4_K_M-00001-of-00002.gguf"));
    EXPECT_TEXT(label, "Q4_K_M");
    EXPECT(!gguf_label(label, "a/m-7b-Q4_K_M-00002-of-00002.gguf"));
    EXPECT(gguf_label(label, "m.BF16.gguf"));
    EXPECT_TEXT(label, "BF16");
    EXPECT(gguf_label(label, "m-MXFP4_MOE.gguf"));
    EXPECT_TEXT(label, "MXFP4_MOE");
    EXPECT(gguf_label(label, "Qwen3.gguf"));
    EXPECT_TEXT(label, "Qwen3");
    EXPECT(!gguf_label(label, "mmproj-F16.gguf"));
}

TEST(hub_paths_of_files)
{
    static const char *const bad[] = {"",     "/a", "a/",    "a//b", "..",   "a/..",
                                      "../a", ".",  "a/./b", "a\\b", "a\nb", "a\x7f"};
    struct hub_files f = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT(files_add(&f, bad[i], strlen(bad[i]), "", 0, NULL) == ERR_FORMAT);
    EXPECT(files_add(&f, "a\0b", 3, "", 0, NULL) == ERR_FORMAT);
    EXPECT(files_add(&f, "a", 1, "", (uint64_t)1 << 60, NULL) == ERR_FORMAT);
    EXPECT(files_add(&f, "a/..b/c..", 9, "", 0, NULL) == 0);
    EXPECT_INT(f.n, 1);
    hub_files_deinit(&f);
}
