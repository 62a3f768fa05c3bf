/* Goal: opening an object with a failed allocation gives an error or an intact object.
 * - A tokenizer splits texts as usual, and encoding fails or gives the usual ids.
 * - A chat template has the usual features.
 * - A checkpoint has all metadata and tensors. Method: open every valid seed of the fuzzers and
 * every golden checkpoint. Each allocation fails once. A random sample of the allocations for the
 * golden checkpoints fails; with QUOTH_LONG=1, each one. */
#include "../alloc.h"
#include "../unit.h"

#include "../../src/base/os.h"
#include "../../src/base/rng.h"
#include "../../src/chat/chat.h"
#include "../../src/format/format.h"
#include "../../src/token/token.h"

#include <stdlib.h>

static const char text[] =
    "<s>Hello  world, it's 2026! \xE4\xBD\xA0\xE5\xA5\xBD e\xCC\x81 <|im_end|>\n\n\t x\xFF";
enum { ALL = ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL };

/* Append the ids of a text, and the text of all its ids. */
static void describe(const struct tokenizer *t, struct buf *out)
{
    struct err e;
    struct ids ids = {0};
    buf_addf(out, "%s %d %d:", tokenizer_kind(t), tokenizer_n_vocab(t), tokenizer_bos(t));
    for (unsigned flags = 0; flags <= ALL; flags += ALL) {
        if (tokenizer_encode(t, text, sizeof text - 1, flags, &ids, &e) != 0)
            buf_add_text(out, e.text);
        for (size_t i = 0; i < ids.n; i++) buf_addf(out, " %d", ids.v[i]);
        ids.n = 0;
    }
    for (int32_t i = 0; i < tokenizer_n_vocab(t) && i < 1000; i++) {
        size_t n = 0;
        const char *bytes = tokenizer_bytes(t, i, &n);
        buf_add(out, bytes ? bytes : "", n);
        buf_addf(out, "%d%d|", tokenizer_is_eog(t, i), tokenizer_is_special(t, i));
    }
    vec_deinit(&ids);
}

static bool equal(const struct buf *a, const struct buf *b)
{
    return a->n == b->n && memcmp(a->data, b->data, a->n) == 0;
}

static void sweep_encoding(const struct tokenizer *t, const char *path)
{
    struct ids want = {0};
    struct err e = {0};
    EXPECT(tokenizer_encode(t, text, sizeof text - 1, ALL, &want, &e) == 0);
    bool hit = true;
    for (uint64_t n = 0; hit; n++) {
        struct ids got = {0};
        alloc_fail(n, 1);
        int rc = tokenizer_encode(t, text, sizeof text - 1, ALL, &got, &e);
        hit = alloc_fail_end() > n;
        bool same =
            got.n == want.n && (got.n == 0 || memcmp(got.v, want.v, got.n * sizeof *got.v) == 0);
        if (rc == 0 ? !same : rc != ERR_MEMORY || got.n)
            test_fail(__FILE__, __LINE__, "%s: encoding, %llu: code %d, %zu ids", path,
                      (unsigned long long)n, rc, got.n);
        vec_deinit(&got);
    }
    vec_deinit(&want);
}

static int sweep_tokenizer(const char *path)
{
    const char *hint = strstr(path, "tiktoken") ? "o200k" : NULL;
    struct tokenizer *t;
    struct err e = {0};
    struct buf want = {0};
    if (tokenizer_open_file(&t, path, hint, &e) != 0) return 0;
    describe(t, &want);
    sweep_encoding(t, path);
    tokenizer_close(t);
    bool hit = true;
    int n_run = 0;
    for (uint64_t n = 0; hit; n++, n_run++) {
        alloc_fail(n, 1);
        int rc = tokenizer_open_file(&t, path, hint, &e);
        hit = alloc_fail_end() > n;
        struct buf got = {0};
        if (rc == 0) describe(t, &got);
        if (rc == 0 ? !equal(&got, &want) : rc != ERR_MEMORY && rc != ERR_IO)
            test_fail(__FILE__, __LINE__, "%s, %llu: code %d: %.200s", path, (unsigned long long)n,
                      rc, rc ? e.text : got.data);
        buf_deinit(&got);
        if (rc == 0) tokenizer_close(t);
    }
    buf_deinit(&want);
    return n_run;
}

static void describe_template(const struct template *t, struct buf *out)
{
    const char *open, *close;
    template_thinking(t, &open, &close);
    buf_addf(out, "%s|%s|", open ? open : "", close ? close : "");
    buf_add(out, template_caps(t), sizeof(struct template_caps));
}

static int sweep_template(const char *path)
{
    struct template *t;
    struct err e = {0};
    struct buf source = {0}, want = {0};
    int n_run = 0;
    if (file_read(&source, path, 1 << 20, &e) != 0 ||
        template_open(&t, source.data, source.n, &e) != 0) {
        buf_deinit(&source);
        return 0;
    }
    describe_template(t, &want);
    template_close(t);
    bool hit = true;
    for (uint64_t n = 0; hit; n++, n_run++) {
        struct buf got = {0};
        alloc_fail(n, 1);
        int rc = template_open(&t, source.data, source.n, &e);
        hit = alloc_fail_end() > n;
        if (rc == 0) describe_template(t, &got);
        if (rc == 0 ? !equal(&got, &want) : rc != ERR_MEMORY)
            test_fail(__FILE__, __LINE__, "%s, %llu: code %d: %s", path, (unsigned long long)n, rc,
                      e.text);
        buf_deinit(&got);
        if (rc == 0) template_close(t);
    }
    buf_deinit(&source);
    buf_deinit(&want);
    return n_run;
}

static void describe_checkpoint(const struct checkpoint *c, struct buf *out)
{
    for (int i = 0; i < checkpoint_n_meta(c); i++) {
        const char *key;
        size_t n = 0;
        const struct meta *m = checkpoint_meta_at(c, i, &key);
        const char *value = meta_text(m, &n);
        buf_addf(out, "%s=%d %lld %g %zu ", key, meta_bool(m, false), (long long)meta_int(m, -1),
                 meta_real(m, -1), meta_count(m));
        buf_add(out, value ? value : "", n);
    }
    for (int i = 0; i < checkpoint_n_tensor(c); i++) {
        const struct tensor_info *x = checkpoint_tensor_at(c, i);
        buf_addf(out, "%s %d %zu,", x->name, (int)x->type, x->n_byte);
    }
}

static uint64_t stride_rng;        /* state of the strides of sweep_checkpoint */
static int64_t n_checkpoint_alloc; /* number of allocations of all checkpoints */

/* Fail about every stride-th allocation. */
static int sweep_some(const char *path, uint64_t stride)
{
    struct checkpoint *c;
    struct err e = {0};
    struct buf want = {0};
    if (checkpoint_open(&c, path, &e) != 0) return 0;
    describe_checkpoint(c, &want);
    checkpoint_close(c);
    bool hit = true;
    int n_run = 0;
    uint64_t n = test_stride(&stride_rng, stride) - 1, n_alloc = 0;
    for (; hit; n += test_stride(&stride_rng, stride), n_run++) {
        struct buf got = {0};
        alloc_fail(n, 1);
        int rc = checkpoint_open(&c, path, &e);
        n_alloc = alloc_fail_end();
        hit = n_alloc > n;
        if (rc == 0) describe_checkpoint(c, &got);
        if (rc == 0 ? !equal(&got, &want) : rc != ERR_MEMORY && rc != ERR_IO)
            test_fail(__FILE__, __LINE__, "%s, %llu: code %d: %s", path, (unsigned long long)n, rc,
                      e.text);
        buf_deinit(&got);
        if (rc == 0) checkpoint_close(c);
    }
    n_checkpoint_alloc += (int64_t)n_alloc;
    buf_deinit(&want);
    return n_run;
}

static int sweep_checkpoint(const char *path)
{
    return sweep_some(path, 1);
}

static int sweep_golden(const char *path)
{
    return sweep_some(path, 12);
}

static int sweep_folder(const char *relative, int (*sweep)(const char *path))
{
    char dir[1024], path[2048];
    struct buf names = {0};
    struct err e;
    int n_file = 0, n_run = 0;
    snprintf(dir, sizeof dir, "%s", repo_path(relative) ? repo_path(relative) : "");
    if (dir_list(&names, dir, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    for (char *rest = names.data, *name; (name = strsep(&rest, "\n")) && *name;) {
        EXPECT(path_join(path, sizeof path, dir, name));
        int n = sweep(path);
        n_file += n > 0;
        n_run += n;
    }
    test_note("%s: %d files, %d runs", relative, n_file, n_run);
    EXPECT(n_file > 0);
    buf_deinit(&names);
    return n_run;
}

TEST(memory_of_tokenizers)
{
    static const char *const seeds[] = {"tokenizer_json", "sentencepiece", "tokenizer_gguf",
                                        "tiktoken",       "tokenizer_bin", "world"};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        char relative[100];
        snprintf(relative, sizeof relative, "tests/fuzz/corpus/%s", seeds[i]);
        sweep_folder(relative, sweep_tokenizer);
    }
}

TEST(memory_of_templates)
{
    sweep_folder("tests/fuzz/corpus/template", sweep_template);
}

TEST(memory_of_checkpoints)
{
    stride_rng = 1;
    n_checkpoint_alloc = 0;
    int n = sweep_folder("tests/golden", sweep_golden);
    test_sampled(n, n_checkpoint_alloc, "allocations");
    sweep_folder("tests/fuzz/corpus/llama2c", sweep_checkpoint);
}
