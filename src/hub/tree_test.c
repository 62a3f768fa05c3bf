/* Goal: lists of files and manifests are read completely or rejected. Corner cases: a wrong hash, a
 * negative size, a layer that quoth does not have, several links in a header. */
#include "hub_impl.h"
#include "../../tests/unit.h"

#define SHA1   "0123456789012345678901234567890123456789"
#define SHA256 "0123456789012345678901234567890123456789012345678901234567890123"

static int read_tree(struct hub_files *f, const char *text)
{
    return tree_read(f, text, strlen(text), NULL);
}

TEST(hub_reads_a_tree)
{
    struct hub_files f = {0};
    EXPECT(read_tree(&f, "[{\"type\":\"directory\",\"path\":\"a\",\"oid\":\"x\"},"
                         "{\"type\":\"file\",\"path\":\"a/b\",\"size\":3,\"oid\":\"" SHA1 "\"},"
                         "{\"type\":\"file\",\"path\":\"c\",\"size\":9,\"oid\":\"" SHA1
                         "\",\"lfs\":{\"oid\":\"" SHA256 "\",\"size\":7}}]") == 0);
    NEED(f.n == 2);
    EXPECT_TEXT(f.v[0].hash, SHA1);
    EXPECT_TEXT(f.v[1].hash, SHA256);
    EXPECT_INT(f.v[1].n_byte, 7);
    EXPECT(read_tree(&f, "{}") == ERR_FORMAT);
    EXPECT(read_tree(&f, "[1]") == ERR_FORMAT);
    EXPECT(read_tree(&f, "[{\"type\":\"file\",\"path\":\"a\",\"size\":3,\"oid\":\"0\"}]") ==
           ERR_FORMAT);
    EXPECT(read_tree(&f, "[{\"type\":\"file\",\"path\":\"a\",\"size\":-1,\"oid\":\"" SHA1 "\"}]") ==
           ERR_FORMAT);
    EXPECT(read_tree(&f, "[{\"type\":\"file\",\"path\":\"../a\",\"size\":1,\"oid\":\"" SHA1
                         "\"}]") == ERR_FORMAT);
    hub_files_deinit(&f);
}

TEST(hub_reads_links)
{
    char out[100];
    EXPECT(link_next(out, sizeof out, "<http://x/a?b>; rel=\"next\""));
    EXPECT_TEXT(out, "http://x/a?b");
    EXPECT(link_next(out, sizeof out, "<http://x/1>; rel=\"first\", <http://x/2>; rel=\"next\""));
    EXPECT_TEXT(out, "http://x/2");
    EXPECT(!link_next(out, sizeof out, "<http://x/1>; rel=\"last\""));
    EXPECT(!link_next(out, 5, "<http://x/1>; rel=\"next\""));
    EXPECT(!link_next(out, sizeof out, "<http://x"));
    EXPECT(!link_next(out, sizeof out, ""));
}

/* Read a manifest with one layer in addition to the model's layer. Return the result. */
static int read_manifest(const char *kind, const char *digest, const char *size)
{
    struct hub_files f = {0};
    struct buf b = {0};
    int model = -1;
    buf_addf(&b,
             "{\"config\":{\"mediaType\":\"c\",\"digest\":\"sha256:" SHA256
             "\",\"size\":1},\"layers\":["
             "{\"mediaType\":\"application/vnd.ollama.image.%s\",\"digest\":\"%s\",\"size\":%s},"
             "{\"mediaType\":\"application/vnd.ollama.image.model\",\"digest\":\"sha256:" SHA256
             "\",\"size\":5}]}",
             kind, digest, size);
    int rc = manifest_read(&f, &model, b.data, b.n, NULL);
    if (rc == 0) EXPECT(f.n == 3 && model == 1 && f.v[1].n_byte == 5 && f.v[2].chosen);
    buf_deinit(&b);
    hub_files_deinit(&f);
    return rc;
}

TEST(hub_reads_a_manifest)
{
    EXPECT(read_manifest("template", "sha256:" SHA256, "1") == 0);
    EXPECT(read_manifest("adapter", "sha256:" SHA256, "1") == ERR_UNSUPPORTED);
    EXPECT(read_manifest("model", "sha256:" SHA256, "1") == ERR_UNSUPPORTED);
    EXPECT(read_manifest("template", "sha256:" SHA1, "1") == ERR_FORMAT);
    EXPECT(read_manifest("template", SHA256, "1") == ERR_FORMAT);
    EXPECT(read_manifest("template", "sha256:../../../../x", "1") == ERR_FORMAT);
    EXPECT(read_manifest("template", "sha256:" SHA256, "-1") == ERR_FORMAT);
    EXPECT(read_manifest("template", "sha256:" SHA256, "null") == ERR_FORMAT);
}
