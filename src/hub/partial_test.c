/* Goal: a partial file continues with the chunks in its journal. Corner cases: an incomplete entry,
 * an entry of another file, another size, a wrong hash. */
#include "hub_impl.h"
#include "../../tests/unit.h"

#include "base/os.h"

#include <stdlib.h>
#include <unistd.h>

enum { N_BYTE = 2 * CHUNK_BYTES + 5 };

TEST(hub_continues_a_partial_file)
{
    const char *path = temp_path("blob-1");
    struct partial p;
    struct err e;
    NEED_OK(partial_open(&p, path, N_BYTE, &e), &e);
    EXPECT_INT(p.n_chunk, 3);
    EXPECT_INT(partial_chunk_bytes(&p, 2), 5);
    EXPECT_INT(p.n_known, 0);
    NEED_OK(partial_write(&p, 2 * CHUNK_BYTES, "abcde", 5, &e), &e);
    partial_note(&p, 2, 77);
    partial_note(&p, 0, 78);
    partial_close(&p);
    NEED_OK(partial_open(&p, path, N_BYTE, &e), &e);
    EXPECT(p.hash[0] == 78 && p.hash[1] == 0 && p.hash[2] == 77);
    EXPECT_INT(p.n_known, CHUNK_BYTES + 5);
    char text[8] = "";
    NEED_OK(partial_read(&p, 2, text, &e), &e);
    EXPECT_TEXT(text, "abcde");
    /* the next entry overwrites an incomplete entry at the end */
    EXPECT(truncate(p.journal, 16 * 2 + 7) == 0);
    partial_close(&p);
    NEED_OK(partial_open(&p, path, N_BYTE, &e), &e);
    EXPECT(p.hash[0] == 0 && p.hash[2] == 77);
    partial_note(&p, 1, 79);
    partial_close(&p);
    NEED_OK(partial_open(&p, path, N_BYTE, &e), &e);
    EXPECT(p.hash[1] == 79 && p.hash[2] == 77);
    NEED_OK(partial_keep(&p, &e), &e);
    EXPECT(file_exists(path) && !file_exists(p.temp) && !file_exists(p.journal));
    partial_close(&p);
}

TEST(hub_ignores_the_journal_of_another_file)
{
    const char *path = temp_path("blob-2");
    struct partial p;
    struct err e;
    NEED_OK(partial_open(&p, path, N_BYTE, &e), &e);
    partial_note(&p, 1, 77);
    partial_close(&p);
    NEED_OK(partial_open(&p, path, N_BYTE + 1, &e), &e);
    EXPECT(p.hash[1] == 0 && p.n_known == 0);
    partial_note(&p, 1, 5);
    partial_discard(&p);
    EXPECT(!file_exists(p.temp) && !file_exists(p.journal));
    partial_close(&p);
    partial_close(&p);
}

TEST(hub_hashes)
{
    struct digest d;
    char hash[HUB_HASH_BYTES];
    struct err e;
    NEED_OK(digest_open(&d, "0123456789012345678901234567890123456789", 3, &e), &e);
    EXPECT(digest_add(&d, "abc", 3) && digest_end(&d, hash));
    EXPECT_TEXT(hash, "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f"); /* git hash-object */
    digest_close(&d);
    NEED_OK(digest_open(&d, "x", 3, &e), &e);
    digest_close(&d);
    NEED_OK(
        digest_open(&d, "0123456789012345678901234567890123456789012345678901234567890123", 3, &e),
        &e);
    EXPECT(digest_add(&d, "abc", 3) && digest_end(&d, hash));
    EXPECT_TEXT(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    digest_close(&d);
    digest_close(&d);
}
