/* encoder_test.c - goal: the hidden states of an encoder, and of a decoder without a head, equal
 * those of Hugging Face transformers. The bits of the hidden states depend only on the text.
 * Method: compare with the references of tiny random checkpoints (encoders.py), read as safetensors
 * and as GGUF. Then compute the text next to others, by other threads, pages and kernels, and
 * compare the bits. */
#include "../levels.h"
#include "../unit.h"

#include "base/buf.h"
#include "base/cores.h"
#include "base/os.h"
#include "engine/engine.h"
#include "session/session.h"

#include <math.h>
#include <stdlib.h>

static const struct {
    const char *name;
    bool gguf;
} encoders[] = {{"bert", true},
                {"bert-dense", false},
                {"bert-rerank", false},
                {"roberta", false},
                {"xlm-roberta-rerank", false},
                {"distilbert", false},
                {"distilbert-class", false},
                {"modernbert", true},
                {"modernbert-rerank", true},
                {"nomic-bert", true},
                {"qwen3-untied", false},
                {"qwen3-rerank", false},
                {"qwen2-rerank", false},
                {"llama-class", false},
                {"gemma-embedding", true},
                {"sentence-t5", true},
                {"mt5-encoder", true},
                {"gemma-class", false}};
enum { N_ENCODER = sizeof encoders / sizeof encoders[0], SEGMENT1 = 25 };

struct loaded {
    struct checkpoint *c;
    struct backend *b;
    struct model *m;
};

static bool load(struct loaded *l, const char *path, const char *level, int n_thread, int page_rows)
{
    struct err e = {0};
    struct cores cores;
    *l = (struct loaded){0};
    cores_make(&cores, n_thread, n_thread);
    struct backend_options bo = {
        .n_thread = n_thread, .cores = &cores, .cpu_level = level, .act = ACT_CHOICE_F32};
    int rc = checkpoint_open(&l->c, path, &e);
    if (rc == 0) rc = backend_open(&l->b, "cpu", &bo, &e);
    struct model_options mo = {.backend = l->b,
                               .kv_type = KV_F32,
                               .page_rows = page_rows,
                               .n_page = 512 / page_rows,
                               .batch = {.n_row = 128, .n_seq = 4, .n_out = 4}};
    if (rc == 0) rc = model_open(&l->m, l->c, &mo, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    return rc == 0;
}

static void unload(struct loaded *l)
{
    model_close(l->m);
    backend_close(l->b);
    checkpoint_close(l->c);
}

static const char *path_of(const char *encoder, const char *file)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/encoders/%s%s%s", encoder, *file ? "/" : "", file);
    return repo_path(path);
}

static struct buf slurp(const char *encoder, const char *file)
{
    struct buf b = {0};
    struct err e;
    if (file_read(&b, path_of(encoder, file), 1 << 20, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s", e.text);
    return b;
}

/* Add a sequence whose first page is page0. The sequence's rows are outputs if `wanted` is true. */
static void add_seq(struct batch *b, const int32_t *ids, int n, int page0, int page_rows,
                    bool wanted)
{
    int32_t *table = b->page + b->n_seq * b->page_stride;
    for (int i = 0; i * page_rows < n; i++) table[i] = page0 + i;
    for (int i = 0; i < n; i++) {
        const int row = b->n_row++;
        b->token[row] = ids[i];
        b->pos[row] = i;
        b->slot[row] = page0 * page_rows + i;
        if (b->limits.n_segment > 1) b->segment[row] = wanted && i >= SEGMENT1;
        if (!wanted) continue;
        b->out_row[b->n_out] = row;
        b->out_kind[b->n_out++] = OUT_HIDDEN;
    }
    b->kv_len[b->n_seq++] = n;
    b->row0[b->n_seq] = b->n_row;
}

/* Return the hidden states of the text [n, d], owned by the caller. others: number of sequences
 * before it in the step, made of other parts of the text. */
static float *hidden_of(const struct loaded *l, const int32_t *ids, int n, int others)
{
    const struct model_info *info = model_info(l->m);
    const int pages = (n + info->page_rows - 1) / info->page_rows;
    const size_t n_byte = (size_t)n * (size_t)info->d_model * sizeof(float);
    float *hidden = malloc(n_byte);
    struct batch b;
    struct err e;
    if (batch_open(&b, model_batch_limits(l->m), &e) != 0 || !hidden) return hidden;
    batch_clear(&b);
    for (int i = 0; i < others; i++)
        add_seq(&b, ids + 3 * i, n - 7 * (i + 1), (i + 1) * pages, info->page_rows, false);
    add_seq(&b, ids, n, 0, info->page_rows, true);
    const char *wrong = batch_check(&b, info->n_vocab, info->n_page, info->page_rows);
    if (wrong) test_fail(__FILE__, __LINE__, "%s", wrong);
    struct model_out out = model_forward(l->m, &b);
    EXPECT_INT(out.n_hidden, n);
    EXPECT_INT(out.n_logits, 0);
    memcpy(hidden, out.hidden, n_byte);
    batch_close(&b);
    return hidden;
}

/* Compare the hidden states of the model at `path` with the encoder's. file: name for messages.
 * text, states: files with the tokens and the hidden states. */
static void compare_text(const char *encoder, const char *file, const char *path, const char *text,
                         const char *states)
{
    struct loaded l;
    struct buf tokens = slurp(encoder, text), want = slurp(encoder, states);
    const int n = (int)(tokens.n / 4);
    if (load(&l, path, "ref", 1, 16)) {
        const size_t d = (size_t)model_info(l.m)->d_model;
        float *got = hidden_of(&l, (const int32_t *)tokens.data, n, 0);
        const float *ref = (const float *)want.data;
        double top = 0, apart = 0;
        EXPECT_INT(want.n, (size_t)n * d * 4);
        for (size_t i = 0; i < (size_t)n * d; i++) {
            const double diff = fabs((double)got[i] - (double)ref[i]);
            apart = diff > apart || diff != diff ? diff : apart;
            top = fabs((double)ref[i]) > top ? fabs((double)ref[i]) : top;
        }
        test_note("%-12s %-11s max|difference| / max|reference| = %.1e", encoder,
                  *file ? file : "safetensors", apart / top);
        /* the states do not depend on other texts of the step */
        float *crowded = hidden_of(&l, (const int32_t *)tokens.data, n, 2);
        EXPECT_BITS(crowded, got, (size_t)n * d * 4);
        free(crowded);
        if (!(apart / top <= 1e-4))
            test_fail(__FILE__, __LINE__, "%s/%s: %.2e is above 1e-4", encoder, file, apart / top);
        free(got);
    }
    unload(&l);
    buf_deinit(&tokens);
    buf_deinit(&want);
}

static void compare_path(const char *encoder, const char *file, const char *path)
{
    compare_text(encoder, file, path, "tokens.i32", "hidden.f32");
}

static void compare(const char *encoder, const char *file)
{
    compare_path(encoder, file, path_of(encoder, file));
}

TEST(golden_hidden_states_of_encoders)
{
    for (int i = 0; i < N_ENCODER; i++) {
        compare(encoders[i].name, "");
        if (encoders[i].gguf) compare(encoders[i].name, "model.gguf");
    }
}

/* Goal: padding tokens within a text of RoBERTa have the padding position, and later tokens the
 * positions that they have without them, as in transformers. */
TEST(padding_tokens_of_roberta_are_not_counted)
{
    static const char *const name[] = {"roberta", "xlm-roberta-rerank"};
    for (int i = 0; i < 2; i++)
        compare_text(name[i], "padded.i32", path_of(name[i], ""), "padded.i32", "padded.f32");
}

/* Goal: the config.json of Nomic's published files describes the same model as that of the class of
 * transformers. */
TEST(published_config_of_nomic_bert)
{
    static const char *const file[][2] = {{"published.json", "published/config.json"},
                                          {"model.safetensors", "published/model.safetensors"}};
    struct err e = {0};
    for (int i = 0; i < 2; i++) {
        struct buf b = slurp("nomic-bert", file[i][0]);
        temp_put(file[i][1], "");
        NEED_OK(file_write(temp_path(file[i][1]), b.data, b.n, &e), &e);
        buf_deinit(&b);
    }
    compare_path("nomic-bert", "published.json", temp_path("published"));
}

/* Goal: the tensors of NomicBERT may have the names of NomicBertForMaskedLM, which begin with
 * "nomic_bert.". */
TEST(names_of_nomic_bert_may_have_a_beginning)
{
    struct err e = {0};
    struct buf file = slurp("nomic-bert", "model.safetensors"),
               config = slurp("nomic-bert", "config.json"), changed = {0};
    uint64_t n = 0;
    memcpy(&n, file.data, sizeof n);
    buf_add(&changed, file.data, sizeof n);
    for (size_t i = sizeof n; i < sizeof n + n; i++) {
        const char *at = file.data + i;
        const bool name = strncmp(at, "\"emb", 4) == 0 || strncmp(at, "\"encoder.", 9) == 0;
        buf_add(&changed, at, 1);
        if (name) buf_addf(&changed, "nomic_bert.");
    }
    while (changed.n % 8) buf_addf(&changed, " ");
    const uint64_t n_changed = changed.n - sizeof n;
    buf_add(&changed, file.data + sizeof n + n, file.n - sizeof n - n);
    memcpy(changed.data, &n_changed, sizeof n_changed);
    EXPECT(n_changed > n);
    temp_put("begun/model.safetensors", "");
    NEED_OK(file_write(temp_path("begun/model.safetensors"), changed.data, changed.n, &e), &e);
    NEED_OK(file_write(temp_path("begun/config.json"), config.data, config.n, &e), &e);
    compare_path("nomic-bert", "nomic_bert.", temp_path("begun"));
    buf_deinit(&changed);
    buf_deinit(&config);
    buf_deinit(&file);
}

/* Compare the tensors of a GGUF made of a folder with those of the golden file. */
static void compare_tensors(const char *encoder, const char *path)
{
    struct checkpoint *got = NULL, *want = NULL;
    struct err e;
    NEED_OK(checkpoint_open(&got, path, &e), &e);
    NEED_OK(checkpoint_open(&want, path_of(encoder, "model.gguf"), &e), &e);
    EXPECT_INT(checkpoint_n_tensor(got), checkpoint_n_tensor(want));
    for (int i = 0; i < checkpoint_n_tensor(want); i++) {
        const struct tensor_info *w = checkpoint_tensor_at(want, i),
                                 *g = checkpoint_tensor(got, w->name);
        const bool dense = strncmp(w->name, "dense_", 6) == 0; /* F32 in the golden file */
        if (!g || memcmp(g->dim, w->dim, sizeof g->dim) != 0 ||
            (!dense && (g->type != w->type || memcmp(g->data, w->data, w->n_byte) != 0)))
            test_fail(__FILE__, __LINE__, "%s: %s is another tensor", encoder, w->name);
    }
    checkpoint_close(got);
    checkpoint_close(want);
}

/* Goal: an encoder converted to GGUF, and to a folder again, gives the reference's hidden states.
 * Two have heads that GGUF cannot express, and are rejected. */
TEST(golden_encoders_converted_to_gguf_and_back)
{
    struct backend *b;
    struct err e;
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    for (int i = 0; i < N_ENCODER; i++) {
        const char *name = encoders[i].name;
        const bool none = strcmp(name, "bert-dense") == 0 || strcmp(name, "distilbert-class") == 0;
        char file[256], back[272];
        snprintf(file, sizeof file, "%s", temp_path(name));
        snprintf(back, sizeof back, "%s-back", file);
        struct convert_options o = {.backend = b, .out = file};
        int rc = session_convert(path_of(name, ""), &o, &e);
        EXPECT_INT(rc, none ? ERR_UNSUPPORTED : 0);
        if (rc != 0) continue;
        o.out = back;
        NEED_OK(session_convert(file, &o, &e), &e);
        if (encoders[i].gguf) compare_tensors(name, file);
        compare_path(name, "converted", file);
        compare_path(name, "and back", back);
    }
    backend_close(b);
}

/* Goal: the bits of an encoder's rows do not depend on other sequences, threads, pages or
 * kernels. */
TEST(hidden_states_of_encoders_depend_on_the_text_only)
{
    for (int k = 0; k < N_ENCODER; k++) {
        struct buf tokens = slurp(encoders[k].name, "tokens.i32");
        const int32_t *ids = (const int32_t *)tokens.data;
        const int n = (int)(tokens.n / 4);
        float *want = NULL;
        for (const char *const *level = kern_levels(); *level; level++)
            for (int i = 0; i < 3; i++) {
                struct loaded l;
                if (!load(&l, path_of(encoders[k].name, ""), *level, 1 + i, 8 << i)) break;
                const size_t n_byte = (size_t)n * (size_t)model_info(l.m)->d_model * sizeof(float);
                float *got = hidden_of(&l, ids, n, i);
                if (want && memcmp(got, want, n_byte) != 0)
                    test_fail(__FILE__, __LINE__, "%s: %s, %d threads, pages of %d: other bits",
                              encoders[k].name, *level, 1 + i, 8 << i);
                if (!want)
                    want = got;
                else
                    free(got);
                unload(&l);
            }
        free(want);
        buf_deinit(&tokens);
    }
}
