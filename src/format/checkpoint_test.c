/* checkpoint_test.c - goal: a checkpoint's key changes if its tensors may have changed, and
 * releasing its pages loses no data. Method: change a copy of the golden llama GGUF slightly. */
#include "format.h"
#include "../../tests/unit.h"

#include "base/hash.h"
#include "base/os.h"

#include <fcntl.h>
#include <sys/stat.h>

struct key {
    uint64_t v[2];
};

static bool same(struct key a, struct key b)
{
    EXPECT((a.v[0] == b.v[0]) == (a.v[1] == b.v[1]));
    return a.v[0] == b.v[0];
}

static struct key key_of(const char *path)
{
    struct key k = {{0, 0}};
    struct checkpoint *c;
    struct err e;
    int rc = checkpoint_open(&c, path, &e);
    if (rc != 0 || !checkpoint_key(c, k.v)) test_fail(__FILE__, __LINE__, "%s: %s", path, e.text);
    if (rc == 0) checkpoint_close(c);
    return k;
}

static void put_byte(const char *path, long at, int byte)
{
    FILE *f = fopen(path, "r+");
    if (!f || fseek(f, at, SEEK_SET) != 0 || fputc(byte, f) == EOF || fclose(f) != 0)
        test_fail(__FILE__, __LINE__, "%s", path);
}

static void set_time(const char *path, long ns)
{
    struct timespec t[2] = {{.tv_sec = 1500000000, .tv_nsec = ns},
                            {.tv_sec = 1500000000, .tv_nsec = ns}};
    if (utimensat(AT_FDCWD, path, t, 0) != 0) test_fail(__FILE__, __LINE__, "%s", path);
}

TEST(checkpoint_key_changes_with_the_file)
{
    const char *golden = repo_path("tests/golden/llama3/model.gguf");
    if (!golden) SKIP("tests/golden is not here");
    struct buf b = {0};
    struct err e;
    char path[300];
    snprintf(path, sizeof path, "%s", temp_path("key.gguf"));
    NEED_OK(file_read(&b, golden, 1 << 26, &e), &e);
    NEED_OK(file_write(path, b.data, b.n, &e), &e);
    set_time(path, 1);
    struct key first = key_of(path);
    EXPECT(same(first, key_of(path)) && !same(first, key_of(golden)));
    set_time(path, 2);
    EXPECT(!same(first, key_of(path)));
    set_time(path, 1);
    EXPECT(same(first, key_of(path)));
    /* change a name in the header, but not the modification time */
    const char *name = memmem(b.data, b.n, "blk.0.attn_norm.weight", 22);
    NEED(name);
    put_byte(path, name - b.data + 4, '7');
    set_time(path, 1);
    EXPECT(!same(first, key_of(path)));
    put_byte(path, name - b.data + 4, '0');
    set_time(path, 1);
    EXPECT(same(first, key_of(path)));
    put_byte(path, (long)b.n, 'x'); /* one byte after the end */
    set_time(path, 1);
    EXPECT(!same(first, key_of(path)));
    /* make another file with equal name, bytes and modification time */
    struct stat was, is;
    NEED(stat(path, &was) == 0);
    char other[300];
    snprintf(other, sizeof other, "%s", temp_path("key2.gguf"));
    NEED_OK(file_write(other, b.data, b.n, &e), &e);
    set_time(other, 1);
    NEED(rename(other, path) == 0 && stat(path, &is) == 0 && is.st_ino != was.st_ino);
    EXPECT(!same(first, key_of(path)));
    buf_deinit(&b);
}

TEST(checkpoint_key_of_folders_and_of_random_weights)
{
    const char *folder = repo_path("tests/golden/llama3");
    struct checkpoint *c;
    struct err e;
    struct key k;
    NEED_OK(checkpoint_open_dummy(&c, &(struct dummy_options){.shape = "tiny"}, &e), &e);
    EXPECT(!checkpoint_key(c, k.v));
    uint64_t before = hash_bytes(checkpoint_tensor_at(c, 1)->data, 1000, 0);
    checkpoint_release_pages(c);
    EXPECT(hash_bytes(checkpoint_tensor_at(c, 1)->data, 1000, 0) == before);
    checkpoint_close(c);
    if (!folder) SKIP("tests/golden is not here");
    EXPECT(same(key_of(folder), key_of(folder)));
    NEED_OK(checkpoint_open(&c, folder, &e), &e);
    const struct tensor_info *t = checkpoint_tensor_at(c, 1);
    before = hash_bytes(t->data, t->n_byte, 0);
    checkpoint_release_pages(c);
    EXPECT(hash_bytes(t->data, t->n_byte, 0) == before);
    checkpoint_close(c);
}
