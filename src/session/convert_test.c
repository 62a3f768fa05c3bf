/* convert_test.c - goal: the token of padding of a classifier is the same in a folder, in the GGUF
 * made from it, and in the folder made from this GGUF. Method: golden classifiers with other
 * tokens of padding in config.json. */
#include "session.h"

#include "../../tests/unit.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Make a folder of links to a golden model's files, with another member pad_token_id in its
 * config.json. pad: the member and a comma, or "". */
static void make_folder(const char *dir, const char *model, const char *pad)
{
    static const char was[] = "\"pad_token_id\": 1,";
    static const char *const file[] = {"model.safetensors", "tokenizer.json",
                                       "tokenizer_config.json"};
    char from[256], at[400];
    struct buf config = {0}, out = {0};
    struct err e;
    NEED_OK(dir_make(dir, DIR_PRIVATE, &e), &e);
    for (int i = 0; i < 3; i++) {
        snprintf(from, sizeof from, "tests/golden/encoders/%s/%s", model, file[i]);
        snprintf(at, sizeof at, "%s/%s", dir, file[i]);
        char *real = realpath(repo_path(from), NULL);
        unlink(at);
        EXPECT(real && symlink(real, at) == 0);
        free(real);
    }
    snprintf(from, sizeof from, "tests/golden/encoders/%s/config.json", model);
    NEED_OK(file_read(&config, repo_path(from), 1 << 20, &e), &e);
    const char *member = strstr(config.data, was);
    NEED(member);
    buf_add(&out, config.data, (size_t)(member - config.data));
    buf_add_text(&out, pad);
    buf_add_text(&out, member + strlen(was));
    snprintf(at, sizeof at, "%s/config.json", dir);
    NEED_OK(file_write(at, out.data, out.n, &e), &e);
    buf_deinit(&config);
    buf_deinit(&out);
}

/* Return the token of padding of a model's classifier; -1 if none, -2 after a failure. */
static int pad_of(const char *path)
{
    struct checkpoint *c = NULL;
    struct backend *b = NULL;
    struct model *m = NULL;
    struct err e;
    int rc = backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e);
    const struct model_options o = {.backend = b,
                                    .kv_type = KV_F32,
                                    .page_rows = 16,
                                    .n_page = 4,
                                    .batch = {.n_row = 16, .n_seq = 1, .n_out = 1}};
    if (rc == 0) rc = checkpoint_open(&c, path, &e);
    if (rc == 0) rc = model_open(&m, c, &o, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s: %s", path, e.text);
    const int pad = rc == 0 ? model_info(m)->class_pad : -2;
    model_close(m);
    checkpoint_close(c);
    backend_close(b);
    return pad;
}

TEST(a_conversion_keeps_the_padding_of_a_classifier)
{
    static const struct {
        const char *model, *pad; /* the tokenizer of each model has the pad_token 1 */
        int want;
    } cases[] = {
        {"llama-class", "", -1},
        {"llama-class", "\"pad_token_id\": null,", -1},
        {"llama-class", "\"pad_token_id\": 7,", 7},
        {"gemma-class", "", 0}, /* the default of the class */
        {"gemma-class", "\"pad_token_id\": null,", -1},
        {"modernbert-rerank", "", -1}, /* its pooling does not use the token */
    };
    struct backend *b;
    struct err e;
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    log_silent = true;
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        char name[64], gguf[256], back[256];
        snprintf(name, sizeof name, "pads-%d", i);
        const char *dir = temp_path(name);
        snprintf(gguf, sizeof gguf, "%s.gguf", dir);
        snprintf(back, sizeof back, "%s-back", dir);
        make_folder(dir, cases[i].model, cases[i].pad);
        EXPECT_INT(pad_of(dir), cases[i].want);
        NEED_OK(session_convert(dir, &(struct convert_options){.backend = b, .out = gguf}, &e), &e);
        NEED_OK(session_convert(gguf, &(struct convert_options){.backend = b, .out = back}, &e),
                &e);
        if (strcmp(cases[i].model, "modernbert-rerank") == 0) continue;
        EXPECT_INT(pad_of(gguf), cases[i].want);
        EXPECT_INT(pad_of(back), cases[i].want);
    }
    log_silent = false;
    backend_close(b);
}
