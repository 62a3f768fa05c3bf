/* Goal: a new model of Ollama's store has the layers of its base, except those that it replaces.
 * Blobs have the hash of their name. */
#include "hub_impl.h"
#include "../../tests/unit.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

static const char digest_of_gguf[] =
    "sha256:28be41b6ac4ab7b3eb2cb26be09f0b0c9f5f9a5dd2b2d2dcb8e8ab0f3e6c6c51";

/* Use an empty store. */
static void use_store(const char *name)
{
    setenv("OLLAMA_MODELS", temp_path(name), 1);
}

/* Return the text of a layer of a model, borrowed until the next call. */
static const char *layer(const struct hub_model *m, const char *kind)
{
    static char text[100];
    struct buf b = {0};
    if (hub_layer(&b, m, kind, 0, NULL) != 0) return "failed";
    snprintf(text, sizeof text, "%.*s", (int)b.n, b.n ? b.data : "");
    buf_deinit(&b);
    return text;
}

/* Return the number of layers of a kind. */
static int n_layer(const struct hub_model *m, const char *kind)
{
    int n = 0;
    for (size_t i = 0; i < m->file.n; i++) {
        const char *own = layer_kind(m->file.v[i].path);
        n += own && strcmp(own, kind) == 0;
    }
    return n;
}

TEST(hub_creates_models)
{
    const struct hub_part first[] = {{.kind = "model", .text = "weights", .n_byte = 7},
                                     {.kind = "system", .text = "a", .n_byte = 1},
                                     {.kind = "license", .text = "MIT", .n_byte = 3},
                                     {.kind = "license", .text = "BSD", .n_byte = 3},
                                     {.kind = "config", .text = "{}", .n_byte = 2}},
                          second[] = {{.kind = "system", .text = "b", .n_byte = 1},
                                      {.kind = "params", .text = "{}", .n_byte = 2}};
    struct hub_name a, b;
    struct hub_model ma = {0}, mb = {0};
    struct err e;
    uint64_t n_byte;
    use_store("store-1");
    NEED_OK(hub_name_typed(&a, "a", &e), &e);
    NEED_OK(hub_name_typed(&b, "me/b:v1", &e), &e);
    NEED_OK(hub_create(&a, NULL, first, 5, &e), &e);
    NEED_OK(hub_find(&ma, &a, &e), &e);
    EXPECT_TEXT(layer(&ma, "system"), "a");
    EXPECT_INT(n_layer(&ma, "license"), 2);
    NEED_OK(hub_create(&b, &ma, second, 2, &e), &e);
    NEED_OK(hub_find(&mb, &b, &e), &e);
    EXPECT_TEXT(layer(&mb, "system"), "b");
    EXPECT_TEXT(layer(&mb, "params"), "{}");
    EXPECT_TEXT(layer(&ma, "params"), "");
    EXPECT(strcmp(ma.path, mb.path) == 0 && n_layer(&mb, "license") == 2);
    EXPECT_INT(n_layer(&mb, "system"), 1);
    /* the blobs of the other model stay */
    NEED_OK(hub_remove(&a, &n_byte, &e), &e);
    EXPECT_INT(n_byte, 1);
    EXPECT(file_exists(mb.path));
    EXPECT_INT(hub_create(&a, &ma, NULL, 0, &e), ERR_MISSING);
    hub_model_deinit(&ma);
    hub_model_deinit(&mb);
}

TEST(hub_rejects_parts_and_blobs)
{
    static const char *const bad[] = {"", "sha256:", "sha256:../../x", "sha256:00",
                                      "md5:00000000000000000000000000000000"};
    const struct hub_part missing = {.kind = "model", .digest = digest_of_gguf};
    char path[HUB_PATH_BYTES];
    struct hub_name a, hf;
    struct hub_model m = {0};
    struct err e;
    use_store("store-2");
    NEED_OK(hub_name_typed(&a, "a", &e), &e);
    NEED_OK(hub_name_typed(&hf, "hf:org/a", &e), &e);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        EXPECT_INT(hub_blob(path, bad[i], &e), ERR_ARG);
        EXPECT_INT(hub_blob_add(bad[i], "x", 1, &e), ERR_ARG);
    }
    EXPECT_INT(hub_blob_add(digest_of_gguf, "x", 1, &e), ERR_ARG);
    EXPECT_INT(hub_blob(path, digest_of_gguf, &e), ERR_MISSING);
    EXPECT_INT(hub_create(&a, NULL, &missing, 1, &e), ERR_MISSING);
    EXPECT_INT(hub_create(&hf, NULL, &missing, 1, &e), ERR_ARG);
    EXPECT_INT(hub_find(&m, &a, &e), ERR_MISSING);
    /* the SHA-256 of no byte */
    const char *empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    NEED_OK(hub_blob_add(empty, "", 0, &e), &e);
    NEED_OK(hub_blob_add(empty, "", 0, &e), &e);
    NEED_OK(hub_blob(path, empty, &e), &e);
    EXPECT_INT(file_exists(path), 1);
}
