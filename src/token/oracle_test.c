/* oracle_test.c - goal: ids equal those of tiktoken, sentencepiece, rwkv and Hugging Face
 * tokenizers. Method: compare hashes of the ids with tests/golden/token_oracle.json.
 * tests/token_oracle.py computed that file with the original implementations. The test itself does
 * not need Python. */
#include "token_impl.h"
#include "../../tests/unit.h"

#include <stdlib.h>

struct tally {
    uint64_t hash;
    int64_t n;
};

static void tally_text(const struct tokenizer *t, const char *p, size_t n, unsigned flags,
                       struct tally *sum)
{
    struct ids ids = {0};
    struct err e;
    EXPECT_INT(tokenizer_encode(t, p, n, flags, &ids, &e), 0);
    for (size_t i = 0; i <= ids.n; i++) {
        uint32_t step = i < ids.n ? (uint32_t)ids.v[i] : UINT32_MAX;
        sum->hash = (sum->hash ^ step) * 0x100000001B3u;
    }
    sum->n += (int64_t)ids.n;
    vec_deinit(&ids);
}

enum { BY_LINE = 1 << 8 }; /* flag added to the encode flags: each line is a text */

static void tally_lines(const struct tokenizer *t, const char *p, size_t n, unsigned flags,
                        struct tally *sum)
{
    const char *end;
    while ((end = flags & BY_LINE ? memchr(p, '\n', n) : NULL) != NULL) {
        tally_text(t, p, (size_t)(end - p), flags, sum);
        n -= (size_t)(end + 1 - p);
        p = end + 1;
    }
    tally_text(t, p, n, flags, sum);
}

static void tally_file(const struct tokenizer *t, const char *path, unsigned flags,
                       struct tally *sum)
{
    struct buf text = {0};
    struct err e;
    EXPECT(path && file_read(&text, path, 1 << 26, &e) == 0);
    tally_lines(t, text.data ? text.data : "", text.n, flags, sum);
    buf_deinit(&text);
}

static void tally_folder(const struct tokenizer *t, const char *dir, unsigned flags,
                         struct tally *sum)
{
    struct buf names = {0};
    char path[4096];
    EXPECT(dir && dir_list(&names, dir, NULL) == 0);
    for (char *name = names.data, *end; name && *name; name = end + 1) {
        end = strchrnul(name, '\n');
        bool last = *end == 0;
        *end = 0;
        EXPECT(path_join(path, sizeof path, dir, name));
        tally_file(t, path, flags, sum);
        if (last) break;
    }
    buf_deinit(&names);
}

static void tally_strings(const struct tokenizer *t, const char *path, unsigned flags,
                          struct tally *sum)
{
    struct json *list = NULL;
    EXPECT(path && json_read_file(&list, path, 1 << 20, NULL) == 0);
    for (size_t i = 0; i < json_count(list); i++) {
        size_t n;
        const char *text = json_text(json_item(list, i), &n);
        tally_lines(t, text, n, flags, sum);
    }
    json_drop(list);
}

static struct tally tally_corpus(const struct tokenizer *t, const char *name, unsigned flags)
{
    struct tally sum = {0xCBF29CE484222325u, 0};
    if (strcmp(name, "wikitext-test") == 0)
        tally_file(t, data_path("text/wikitext-2/test.txt"), flags, &sum);
    if (strcmp(name, "wikitext-valid") == 0)
        tally_file(t, data_path("text/wikitext-2/valid.txt"), flags, &sum);
    if (strcmp(name, "declarations") == 0) tally_folder(t, data_path("text/udhr"), flags, &sum);
    if (strcmp(name, "naughty") == 0)
        tally_strings(t, data_path("text/unicode/blns.json"), flags, &sum);
    return sum;
}

/* Tokenizer of a file. Successive vocabularies may be one file in two modes. The file is opened
 * once, because opening takes as long as encoding the sample. */
struct opened {
    struct tokenizer *t; /* owned; NULL if none */
    char path[256];
};

static int open_once(struct opened *o, const char *path, const char *hint, struct err *e)
{
    if (o->t && strcmp(path, o->path) == 0) return 0;
    tokenizer_close(o->t);
    o->t = NULL;
    snprintf(o->path, sizeof o->path, "%s", path);
    return tokenizer_open_file(&o->t, path, hint && *hint ? hint : NULL, e);
}

/* Return true if corpus i of a vocabulary is in its sample. All vocabularies have the naughty
 * strings. Every second vocabulary has one of the large corpora, in turns. */
static bool in_sample(int vocabulary, int i, const char *corpus)
{
    return test_long() || strcmp(corpus, "naughty") == 0 ||
           (vocabulary % 2 == 0 && vocabulary / 2 % 3 == i);
}

/* Compare the ids of the sampled corpora. Return the number of these corpora. */
static int check_vocabulary(struct opened *o, int vocabulary, const char *name,
                            const struct json *golden)
{
    struct err e;
    const char *file = json_text(json_field(golden, "path"), NULL);
    const char *hint = json_text(json_field(golden, "hint"), NULL),
               *path = file ? data_path(file) : NULL;
    if (!path) {
        test_note("%s: no %s", name, file);
        return 0;
    }
    if (open_once(o, path, hint, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s: %s", name, e.text);
        o->t = NULL;
        return 0;
    }
    const struct json *corpora = json_field(golden, "corpora");
    unsigned mode = (unsigned)json_int(json_field(golden, "mode"), 0);
    if (json_bool(json_field(golden, "lines"), false)) mode |= BY_LINE;
    int i = 0, n_run = 0;
    for (void *it = json_first(corpora); it; it = json_next(corpora, it), i++) {
        const char *corpus = json_it_key(it, NULL);
        if (!in_sample(vocabulary, i, corpus)) continue;
        n_run++;
        const struct json *want = json_it_value(it);
        struct tally got = tally_corpus(o->t, corpus, mode);
        char hash[20];
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)got.hash);
        if (strcmp(hash, json_text(json_field(want, "hash"), NULL)) != 0)
            test_fail(__FILE__, __LINE__, "%s on %s: %lld ids, the oracle has %lld", name, corpus,
                      (long long)got.n, (long long)json_int(json_field(want, "n"), 0));
    }
    return n_run;
}

/* Goal: the ids equal those of the original implementations, on prose, 43 languages and strings
 * that often reveal defects. */
TEST(ids_equal_the_oracles)
{
    const char *golden = repo_path("tests/golden/token_oracle.json");
    struct json *j;
    struct err e;
    int n = 0, n_run = 0, n_corpus = 0;
    struct opened o = {0};
    if (!golden || !data_path("text/wikitext-2/test.txt")) SKIP("no ../shared/data");
    NEED_OK(json_read_file(&j, golden, 1 << 20, &e), &e);
    for (void *it = json_first(j); it; it = json_next(j, it), n++) {
        n_corpus += (int)json_count(json_field(json_it_value(it), "corpora"));
        n_run += check_vocabulary(&o, n, json_it_key(it, NULL), json_it_value(it));
    }
    test_note("%d vocabularies, each on wikitext-2, the declarations and the naughty strings", n);
    test_sampled(n_run, n_corpus, "texts of vocabularies");
    tokenizer_close(o.t);
    json_drop(j);
}
