/* golden_test.c - goal: a forward pass equals Hugging Face transformers', and its bits depend on nothing but the text.
 * Method: tiny random checkpoints with reference logits (make.py), read as safetensors and as GGUF; then the same text
 * computed in every way a serving engine may compute it, compared bit for bit. */
#include "../unit.h"

#include "base/buf.h"
#include "base/cores.h"
#include "base/os.h"
#include "base/rng.h"
#include "engine/engine.h"

#include <math.h>
#include <stdlib.h>

static const char *const models[] = {"llama3", "llama-untied", "mistral", "qwen2", "qwen3", "smollm3"};
enum { N_MODEL = sizeof models / sizeof models[0] };

struct setup {
    const char *level;
    int n_thread, n_row, page_rows;
    enum act_choice act;
    enum kv_type kv;
};
static const struct setup plain = {"ref", 1, 128, 16, ACT_CHOICE_F32, KV_F32};

struct loaded {
    struct checkpoint *c;
    struct backend *b;
    struct model *m;
};

static int load(struct loaded *l, const char *path, const struct setup *s, struct err *e)
{
    *l = (struct loaded){0};
    struct cores cores; /* so that threads may be more than the CPUs of this machine */
    cores_make(&cores, s->n_thread, s->n_thread);
    struct backend_options bo = {.n_thread = s->n_thread, .cores = &cores, .cpu_level = s->level, .act = s->act};
    int rc = checkpoint_open(&l->c, path, e);
    if (rc == 0) rc = backend_open(&l->b, "cpu", &bo, e);
    struct model_options mo = {.backend = l->b, .kv_type = s->kv, .page_rows = s->page_rows, .context_max = 256, .n_page = 2048 / s->page_rows,
                               .batch = {.n_row = s->n_row, .n_seq = 8, .n_out = s->n_row}};
    return rc ? rc : model_open(&l->m, l->c, &mo, e);
}

static void unload(struct loaded *l)
{
    model_close(l->m);
    backend_close(l->b);
    checkpoint_close(l->c);
}

static const char *golden(const char *model, const char *file)
{
    static char path[2][256];
    static int next;
    char *p = path[next++ % 2];
    const char *root = repo_path("tests/golden");
    snprintf(p, sizeof path[0], "%s/%s%s%s", root ? root : "", model, *file ? "/" : "", file);
    return p;
}

static struct buf slurp(const char *path)
{
    struct buf b = {0};
    struct err e;
    if (file_read(&b, path, 64 << 20, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    return b;
}

struct logits {
    float *v; /* [n, n_vocab] */
    int n, n_vocab;
};

static void keep(void *ctx, int pos, const float *logits)
{
    struct logits *l = ctx;
    memcpy(l->v + (int64_t)pos * l->n_vocab, logits, (size_t)l->n_vocab * sizeof *logits);
}

static struct logits logits_of(const struct loaded *l, const struct buf *tokens, int chunk)
{
    struct logits out = {.n = (int)(tokens->n / 4), .n_vocab = model_info(l->m)->n_vocab};
    out.v = calloc((size_t)out.n * (size_t)out.n_vocab, sizeof *out.v);
    struct err e;
    if (score_tokens(l->m, (const int32_t *)tokens->data, out.n, chunk, keep, &out, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    return out;
}

static double difference(const struct logits *got, const float *want)
{
    double top = 0, apart = 0;
    for (int64_t i = 0; i < (int64_t)got->n * got->n_vocab; i++) {
        double d = fabs((double)got->v[i] - want[i]);
        apart = d > apart || d != d ? d : apart;
        top = fabs((double)want[i]) > top ? fabs((double)want[i]) : top;
    }
    return apart / top;
}

static void compare_files(const char *model, const char *file, const char *reference)
{
    struct buf tokens = slurp(golden(model, "tokens.i32")), want = slurp(golden(model, reference));
    struct loaded l;
    struct err e;
    int rc = load(&l, golden(model, file), &plain, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    if (rc == 0) {
        struct logits got = logits_of(&l, &tokens, 0);
        if (want.n != (size_t)got.n * (size_t)got.n_vocab * 4) test_fail(__FILE__, __LINE__, "%s: %zu bytes of logits", model, want.n);
        else {
            double d = difference(&got, (const float *)want.data);
            test_note("%-13s %-16s max|difference| / max|reference| = %.1e", model, *file ? file : "safetensors", d);
            if (!(d <= 1e-4)) test_fail(__FILE__, __LINE__, "%s/%s: %.2e is above 1e-4", model, file, d);
        }
        free(got.v);
    }
    unload(&l);
    buf_deinit(&tokens);
    buf_deinit(&want);
}

TEST(golden_logits_safetensors)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (int i = 0; i < N_MODEL; i++) compare_files(models[i], "", "logits.f32");
}

TEST(golden_logits_gguf)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (int i = 0; i < N_MODEL; i++) compare_files(models[i], "model.gguf", "logits.f32");
}

static void expect_same(const char *what, const char *model, const struct logits *a, const struct logits *b)
{
    if (a->n != b->n || memcmp(a->v, b->v, (size_t)a->n * (size_t)a->n_vocab * sizeof *a->v) != 0)
        test_fail(__FILE__, __LINE__, "%s: logits differ with %s", model, what);
}

/* What a variant is compared with: a file of a model, under a setup. */
struct base {
    const char *model, *file;
    struct setup setup;
};

/* Same text under another setup and chunk size: equal bits. */
static void variant(const char *what, const struct base *b, const struct logits *want, struct setup s, int chunk, const struct buf *tokens)
{
    struct loaded l;
    struct err e;
    int rc = load(&l, golden(b->model, b->file), &s, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    struct logits got = rc == 0 ? logits_of(&l, tokens, chunk) : (struct logits){0};
    if (rc == 0) expect_same(what, b->model, want, &got);
    free(got.v);
    unload(&l);
}

static void vary(const struct base *b, const struct logits *want, const struct buf *tokens)
{
    static const int chunks[] = {1, 3, 7, 16, 31, 64};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++)
        variant("another chunk size", b, want, b->setup, chunks[i], tokens);
    for (int page_rows = 1; page_rows <= 64; page_rows *= 2) {
        struct setup s = b->setup;
        s.page_rows = page_rows;
        variant("another page size", b, want, s, 5, tokens);
    }
    static const int threads[] = {2, 3, 4, 5, 16};
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        struct setup s = b->setup;
        s.n_thread = threads[i];
        variant("more threads", b, want, s, 9 + threads[i] * 5, tokens);
    }
    for (const char *const *level = kern_levels(); *level; level++) {
        struct setup s = b->setup;
        s.level = *level;
        variant(*level, b, want, s, 0, tokens);
    }
}

static void every_way(const struct base *b)
{
    struct buf tokens = slurp(golden(b->model, "tokens.i32"));
    struct loaded l;
    struct err e;
    int rc = load(&l, golden(b->model, b->file), &b->setup, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    struct logits want = rc == 0 ? logits_of(&l, &tokens, 0) : (struct logits){0};
    unload(&l);
    if (rc == 0) vary(b, &want, &tokens);
    free(want.v);
    buf_deinit(&tokens);
}

TEST(same_bits_however_a_text_is_computed)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (int i = 0; i < N_MODEL; i++) {
        struct base b = {models[i], "model.gguf", plain};
        every_way(&b);
        for (int kv = 0; kv < KV_TYPE_COUNT; kv++) {
            b.setup.kv = (enum kv_type)kv;
            if (test_long() || i == 2) every_way(&b);
        }
    }
}

/* Quantized files: with f32 activations they equal transformers on the weights they hold, and with those and the default
 * ones (int8, bf16) a text gives the same bits however it is computed. */
TEST(quantized_weights_equal_the_reference_and_give_the_same_bits)
{
    static const char *const types[] = {"q8_0", "q4_1", "bf16", "f16"};
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (int i = 0; i < 4; i++) {
        char file[32], reference[32];
        snprintf(file, sizeof file, "model-%s.gguf", types[i]);
        snprintf(reference, sizeof reference, "logits-%s.f32", types[i]);
        compare_files("llama3", file, reference);
        struct base b = {"llama3", file, plain};
        every_way(&b);
        b.setup.act = ACT_CHOICE_AUTO;
        every_way(&b);
    }
}

/* Pages numbered backwards and interleaved between sequences; 8 sequences in one batch against each alone. */
static void fill_many(struct batch *b, const int32_t *ids, const int *from, const int *n, int n_seq, int page_rows, int n_page)
{
    batch_clear(b);
    for (int s = 0; s < n_seq; s++) {
        b->row0[s] = b->n_row;
        for (int p = 0; p < b->page_stride; p++) b->page[s * b->page_stride + p] = n_page - 1 - (p * n_seq + s) % n_page;
        for (int i = 0; i < n[s]; i++) {
            int row = b->n_row++, pos = from[s] + i;
            b->token[row] = ids[(pos + s * 5) % 40];
            b->pos[row] = pos;
            b->slot[row] = b->page[s * b->page_stride + pos / page_rows] * page_rows + pos % page_rows;
            b->out_row[b->n_out] = row;
            b->out_kind[b->n_out++] = OUT_LOGITS;
        }
        b->kv_len[s] = from[s] + n[s];
        b->state[s] = b->adapter[s] = -1;
    }
    b->n_seq = n_seq;
    b->row0[n_seq] = b->n_row;
}

/* 8 sequences of 40 tokens through ragged steps: each gets 1 to 6 rows, until one is done. from[] ends as the rows
 * computed; got[s] holds their logits. */
static void run_many(struct loaded *l, const int32_t *ids, int page_rows, int from[8], struct logits got[8])
{
    struct batch b;
    struct err e;
    if (batch_open(&b, model_batch_limits(l->m), &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.text);
        return;
    }
    int n_vocab = model_info(l->m)->n_vocab, n_page = model_info(l->m)->n_page, n[8], most = 0;
    uint64_t rng = 7;
    while (most + 5 <= 40) {
        for (int s = 0; s < 8; s++) n[s] = 1 + (int)rng_below(&rng, 3) * (int)rng_below(&rng, 3);
        fill_many(&b, ids, from, n, 8, page_rows, n_page);
        const char *wrong = batch_check(&b, n_vocab, n_page, page_rows);
        if (wrong) test_fail(__FILE__, __LINE__, "batch: %s", wrong);
        const float *out = model_forward(l->m, &b).logits;
        for (int s = 0; s < 8; s++) {
            for (int r = 0; r < n[s]; r++, out += n_vocab) keep(&got[s], from[s] + r, out);
            from[s] += n[s];
            most = from[s] > most ? from[s] : most;
        }
    }
    batch_close(&b);
}

static void many_against_alone(const char *model)
{
    struct loaded many, alone;
    struct err e;
    struct setup two = plain;
    two.n_thread = 2;
    if (load(&many, golden(model, ""), &two, &e) != 0 || load(&alone, golden(model, ""), &plain, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.text);
        return;
    }
    struct buf tokens = slurp(golden(model, "tokens.i32"));
    const int32_t *ids = (const int32_t *)tokens.data;
    int n_vocab = model_info(many.m)->n_vocab, from[8] = {0};
    struct logits got[8], want = {.v = calloc(40 * (size_t)n_vocab, sizeof(float)), .n = 40, .n_vocab = n_vocab};
    for (int s = 0; s < 8; s++) got[s] = (struct logits){.v = calloc(40 * (size_t)n_vocab, sizeof(float)), .n = 40, .n_vocab = n_vocab};
    run_many(&many, ids, two.page_rows, from, got);
    for (int s = 0; s < 8; s++) {
        int32_t own[40];
        for (int p = 0; p < 40; p++) own[p] = ids[(p + s * 5) % 40];
        score_tokens(alone.m, own, 40, 0, keep, &want, &e);
        EXPECT(from[s] >= 10);
        if (memcmp(want.v, got[s].v, (size_t)from[s] * (size_t)n_vocab * sizeof *want.v) != 0)
            test_fail(__FILE__, __LINE__, "%s: sequence %d differs between 8 in a batch and alone", model, s);
        free(got[s].v);
    }
    free(want.v);
    unload(&many);
    unload(&alone);
    buf_deinit(&tokens);
}

TEST(eight_sequences_in_a_batch_equal_each_alone)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (int i = 0; i < N_MODEL; i++) many_against_alone(models[i]);
}
