/* golden_test.c - goal: a forward pass equals the forward pass of Hugging Face transformers, and
 * its bits depend only on the text. Method: compare with the reference logits (make.py) of tiny
 * random checkpoints, read as safetensors and as GGUF. Then compute each text in every serving
 * mode, and compare the bits. Recorded hashes at every level of kernels detect a change of any
 * bit. */
#include "../door/counting.h"
#include "../levels.h"
#include "../recorded.h"
#include "../unit.h"

#include "base/buf.h"
#include "base/cores.h"
#include "base/os.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "session/session.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Models [N_GGUF, end) have no GGUF file. llama.cpp has no such architecture, or another name of a
 * text part. */
static const char *const models[] = {"llama3",
                                     "llama-untied",
                                     "mistral",
                                     "qwen2",
                                     "qwen3",
                                     "smollm3",
                                     "gemma3",
                                     "qwen3moe",
                                     "olmo2",
                                     "gemma",
                                     "gemma2",
                                     "granite",
                                     "phi3",
                                     "glm",
                                     "glm4",
                                     "seed_oss",
                                     "ernie4_5",
                                     "exaone4",
                                     "cohere",
                                     "cohere2",
                                     "starcoder2",
                                     "phi",
                                     "stablelm",
                                     "nemotron",
                                     "arcee",
                                     "olmo",
                                     "olmo3",
                                     "ministral3",
                                     "hunyuan",
                                     "internlm3",
                                     "apertus",
                                     "gpt2",
                                     "gpt_neox",
                                     "falcon",
                                     "bloom",
                                     "mpt",
                                     "gemma4",
                                     "gemma4-moe",
                                     "gemma3n",
                                     "minicpm3",
                                     "deepseek_v3",
                                     "qwen2_5_vl",
                                     "qwen3_vl",
                                     "qwen3_5",
                                     "qwen3_5_moe",
                                     "qwen3_next",
                                     "mixtral",
                                     "qwen2_moe",
                                     "gpt_oss",
                                     "glm4_moe",
                                     "olmoe",
                                     "granitemoeshared",
                                     "phimoe",
                                     "ernie4_5_moe",
                                     "minimax_m2",
                                     "mamba",
                                     "falcon_mamba",
                                     "llama4_text",
                                     "lfm2",
                                     "mamba2",
                                     "jamba",
                                     "bitnet",
                                     "helium",
                                     "gptj",
                                     "opt",
                                     "opt-post",
                                     "falcon-rw",
                                     "mistral3",
                                     "llama4",
                                     "glm4_moe-draft",
                                     "bamba",
                                     "falcon_h1",
                                     "granitemoehybrid",
                                     "nemotron_h",
                                     "nemotron_h-moe",
                                     "kimi_linear",
                                     "rwkv",
                                     "rwkv5",
                                     "rwkv6",
                                     "rwkv7"};
enum { N_MODEL = sizeof models / sizeof models[0], N_GGUF = N_MODEL - 19 };

/* Models of encoder and decoder, of cross.py. The first SOURCE of their tokens are a source. Models
 * [N_CROSS_GGUF, end) have no GGUF file. */
static const char *const crossed[] = {"cross/t5", "cross/mt5", "cross/bart"};
enum { N_CROSS = sizeof crossed / sizeof crossed[0], N_CROSS_GGUF = N_CROSS - 1, SOURCE = 48 };

static const char *gguf_of(int i)
{
    return i < N_GGUF ? "model.gguf" : "";
}

struct setup {
    const char *level;
    int n_thread, n_row, page_rows, context; /* context 0: 256 */
    enum act_choice act;
    enum kv_type kv;
    enum wrap wrap;
    const struct checkpoint_changes *changes; /* NULL if none */
    const char *quantization;                 /* NULL if none */
};
static const struct setup plain = {"ref",          1,      128,       16,   0,
                                   ACT_CHOICE_F32, KV_F32, WRAP_NONE, NULL, NULL};

struct loaded {
    struct checkpoint *c;
    struct backend *b;
    struct model *m;
};

static int load(struct loaded *l, const char *path, const struct setup *s, struct err *e)
{
    *l = (struct loaded){0};
    /* description of a backend that may have more threads than this machine has CPUs */
    struct cores cores;
    cores_make(&cores, s->n_thread, s->n_thread);
    struct backend_options bo = {
        .n_thread = s->n_thread, .cores = &cores, .cpu_level = s->level, .act = s->act};
    int rc = s->changes ? checkpoint_open_with(&l->c, path, s->changes, e)
                        : checkpoint_open(&l->c, path, e);
    if (rc == 0) rc = test_backend(&l->b, s->wrap, &bo, e);
    struct model_options mo = {.backend = l->b,
                               .kv_type = s->kv,
                               .page_rows = s->page_rows,
                               .context_max = s->context ? s->context : 256,
                               .n_page = 2048 / s->page_rows,
                               .quantization = s->quantization,
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
    float *v; /* [n, n_vocab] of positions [first, first + n) */
    int n, n_vocab, first;
};

static void keep(void *ctx, int pos, const float *logits)
{
    struct logits *l = ctx;
    memcpy(l->v + (int64_t)(pos - l->first) * l->n_vocab, logits,
           (size_t)l->n_vocab * sizeof *logits);
}

static struct logits logits_of(const struct loaded *l, const struct buf *tokens, int chunk)
{
    const int n = (int)(tokens->n / 4), n_source = model_info(l->m)->n_start > 0 ? SOURCE : 0;
    struct logits out = {
        .n = n - n_source, .n_vocab = model_info(l->m)->n_vocab, .first = n_source};
    const struct score_options o = {.chunk = chunk, .fn = keep, .ctx = &out, .n_source = n_source};
    out.v = calloc((size_t)out.n * (size_t)out.n_vocab, sizeof *out.v);
    struct err e;
    if (score_tokens(l->m, (const int32_t *)tokens->data, n, &o, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s", e.text);
    return out;
}

/* Compare with the n_row rows of a reference: every fifth position, up to the last. Return
 * max|difference| / max|reference|. */
static double difference(const struct logits *got, const float *want, int n_row)
{
    double top = 0, apart = 0;
    for (int r = 0; r < n_row; r++) {
        const float *row = got->v + (int64_t)(got->n - 1 - 5 * (n_row - 1 - r)) * got->n_vocab;
        for (int i = 0; i < got->n_vocab; i++, want++) {
            double d = fabs((double)row[i] - *want);
            apart = d > apart || d != d ? d : apart;
            top = fabs((double)*want) > top ? fabs((double)*want) : top;
        }
    }
    return apart / top;
}

/* Compare the logits of the model at `path` with a reference of a golden folder. */
static void compare_at(enum wrap wrap, const char *model, const char *path, const char *reference)
{
    struct setup s = plain;
    s.wrap = wrap;
    struct buf tokens = slurp(golden(model, "tokens.i32")), want = slurp(golden(model, reference));
    struct loaded l;
    struct err e;
    int rc = load(&l, path, &s, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    if (rc == 0) {
        struct logits got = logits_of(&l, &tokens, 0);
        const int n_row = (got.n + 4) / 5;
        if (want.n != (size_t)n_row * (size_t)got.n_vocab * 4)
            test_fail(__FILE__, __LINE__, "%s: %zu bytes of logits", model, want.n);
        else {
            double d = difference(&got, (const float *)want.data, n_row);
            const char *file = strrchr(path, '/');
            test_note("%-13s %-16s max|difference| / max|reference| = %.1e", model,
                      file ? file + 1 : path, d);
            if (!(d <= 1e-4)) test_fail(__FILE__, __LINE__, "%s: %.2e is above 1e-4", path, d);
        }
        free(got.v);
    }
    unload(&l);
    buf_deinit(&tokens);
    buf_deinit(&want);
}

static void compare_through(enum wrap wrap, const char *model, const char *file,
                            const char *reference)
{
    char path[256];
    snprintf(path, sizeof path, "%s", golden(model, file));
    compare_at(wrap, model, path, reference);
}

static void compare_path(const char *model, const char *path, const char *reference)
{
    compare_at(WRAP_NONE, model, path, reference);
}

static void compare_files(const char *model, const char *file, const char *reference)
{
    compare_through(WRAP_NONE, model, file, reference);
}

static void expect_same(const char *what, const char *model, const struct logits *a,
                        const struct logits *b)
{
    if (a->n != b->n || memcmp(a->v, b->v, (size_t)a->n * (size_t)a->n_vocab * sizeof *a->v) != 0)
        test_fail(__FILE__, __LINE__, "%s: logits differ with %s", model, what);
}

/* Compare the logits of the first 24 tokens alone with the reference. Repeat it in chunks, and on a
 * context that is too short for the long list. */
static void compare_short(const char *name)
{
    static const char *const files[] = {"", "model.gguf"};
    struct buf tokens = slurp(golden(name, "tokens.i32")),
               want = slurp(golden(name, "logits-short.f32"));
    tokens.n = 24 * sizeof(int32_t);
    for (int i = 0; i < 4; i++) {
        struct setup s = plain;
        struct loaded l;
        struct err e;
        s.context = i / 2 ? 24 : 0;
        NEED_OK(load(&l, golden(name, files[i % 2]), &s, &e), &e);
        EXPECT_INT(model_batch_limits(l.m)->n_short, i / 2 ? 0 : 24);
        struct logits whole = logits_of(&l, &tokens, 0), parts = logits_of(&l, &tokens, 5);
        EXPECT_INT(want.n, 5 * (size_t)whole.n_vocab * sizeof(float));
        const double d = difference(&whole, (const float *)want.data, 5);
        test_note("%s, 24 tokens %-16s max|difference| / max|reference| = %.1e", name, files[i % 2],
                  d);
        EXPECT(d <= 1e-4);
        expect_same("chunks of 5", name, &whole, &parts);
        free(whole.v);
        free(parts.v);
        unload(&l);
    }
    buf_deinit(&tokens);
    buf_deinit(&want);
}

/* Goal: a text has the list of divisors (LongRoPE) of its length, not of the context. */
TEST(golden_logits_of_a_short_text_with_two_lists)
{
    if (!repo_path("tests/golden/phi3")) SKIP("tests/golden is not here");
    compare_short("phi3");
    compare_short("minicpm3");
}

TEST(golden_logits_safetensors)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (int i = 0; i < N_MODEL; i++) compare_files(models[i], "", "logits.f32");
    for (int i = 0; i < N_CROSS; i++) compare_files(crossed[i], "", "logits.f32");
}

/* Goal: a linear layer of two tensors, codes and scales, equals the reference. */
TEST(golden_logits_of_8_bit_floats_with_scales)
{
    if (!repo_path("tests/golden/qwen3moe-fp8")) SKIP("tests/golden is not here");
    compare_files("qwen3moe-fp8", "", "logits.f32");
}

/* Goal: quantized weights as other libraries publish them equal the reference on their values. */
TEST(golden_logits_of_published_forms)
{
    static const char *const forms[] = {
        "gptq",           "gptq-v2",        "awq",        "awq-gemv",    "fp8",        "bnb-4bit",
        "bnb-8bit",       "compressed",     "bitnet",     "bitnet-auto", "auto-round", "hqq",
        "quanto",         "gptq-fused",     "sparse",     "gptq-neox",   "awq-neox",   "fp8-falcon",
        "bnb-4bit-bloom", "fp8-qwen3-next", "gptq-mamba2"};
    if (!repo_path("tests/golden/forms")) SKIP("tests/golden is not here");
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char folder[64];
        snprintf(folder, sizeof folder, "forms/%s", forms[i]);
        compare_files(folder, "", "logits.f32");
    }
}

TEST(golden_logits_gguf)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (int i = 0; i < N_GGUF; i++) compare_files(models[i], "model.gguf", "logits.f32");
    for (int i = 0; i < N_CROSS_GGUF; i++) compare_files(crossed[i], "model.gguf", "logits.f32");
}

/* ---- conversion ---- */

/* Compare logits that may differ in their last bits. */
static void compare_close(const char *model, const struct logits *want, const struct logits *got)
{
    double top = 0, apart = 0;
    for (int64_t i = 0; i < (int64_t)want->n * want->n_vocab; i++) {
        const double d = fabs((double)want->v[i] - got->v[i]), x = fabs((double)want->v[i]);
        apart = d > apart || d != d ? d : apart;
        top = x > top ? x : top;
    }
    test_note("%-13s converted: max|difference| / max|logit| = %.1e", model, apart / top);
    EXPECT(apart <= 1e-5 * top);
}

/* Return true if both tensors have the same values. A tensor of `got` may be F32 in place of
 * another float type. */
static bool same_values(const struct tensor_info *got, const struct tensor_info *want)
{
    float a, b;
    if (got->n_dim != want->n_dim || memcmp(got->dim, want->dim, sizeof got->dim) != 0)
        return false;
    if (got->type == want->type)
        return got->n_byte == want->n_byte && memcmp(got->data, want->data, got->n_byte) == 0;
    if (got->type != QT_f32) return false;
    for (size_t i = 0; i < got->n_byte / sizeof a; i++) {
        qtype_info[got->type].ops->decode(&a, got->data + i * sizeof a, 1);
        qtype_info[want->type].ops->decode(&b, want->data + i * qtype_bytes(want->type, 1), 1);
        if (memcmp(&a, &b, sizeof a) != 0) return false;
    }
    return true;
}

/* Compare the tensors of a checkpoint with those of another one. `raw`: also their names in the
 * file. */
static void compare_tensors(const char *model, const char *path, const char *path_want, bool raw)
{
    struct checkpoint *got = NULL, *want = NULL;
    struct err e;
    NEED_OK(checkpoint_open(&got, path, &e), &e);
    NEED_OK(checkpoint_open(&want, path_want, &e), &e);
    EXPECT_INT(checkpoint_n_tensor(got), checkpoint_n_tensor(want));
    for (int i = 0; i < checkpoint_n_tensor(want); i++) {
        const struct tensor_info *w = checkpoint_tensor_at(want, i),
                                 *g = checkpoint_tensor(got, w->name);
        if (!g || (raw && strcmp(g->name_raw, w->name_raw) != 0) || !same_values(g, w))
            test_fail(__FILE__, __LINE__, "%s: %s is another tensor", model, w->name_raw);
    }
    checkpoint_close(got);
    checkpoint_close(want);
}

/* Compare the logits of a converted model with those of its folder: bits, or values. */
static void compare_logits(const char *what, const char *model, const char *path, bool same_bits)
{
    struct loaded from = {0}, to = {0};
    struct err e;
    struct buf tokens = slurp(golden(model, "tokens.i32"));
    NEED_OK(load(&from, golden(model, ""), &plain, &e), &e);
    NEED_OK(load(&to, path, &plain, &e), &e);
    struct logits want = logits_of(&from, &tokens, 0), got = logits_of(&to, &tokens, 0);
    if (same_bits)
        expect_same(what, model, &want, &got);
    else
        compare_close(model, &want, &got);
    free(want.v);
    free(got.v);
    unload(&from);
    unload(&to);
    buf_deinit(&tokens);
}

/* Goal: a folder converted to GGUF is the same model. Method: compare with the file of make.py by
 * bytes, with the reference's logits, and with the folder's logits bit for bit. The last bits of a
 * class differ if GGUF has another order of q and k, or rounds its divisors of the rope to f32. */
TEST(golden_folders_converted_to_gguf)
{
    static const struct {
        const char *name;
        bool same_bits;
    } cases[] = {{"llama3", false},    {"llama-untied", false}, {"mistral", false},
                 {"qwen2", true},      {"qwen3", true},         {"qwen3moe", true},
                 {"smollm3", false},   {"gemma", true},         {"gemma2", true},
                 {"gemma3", true},     {"phi3", false},         {"granite", false},
                 {"olmo2", true},      {"seed_oss", true},      {"ernie4_5", true},
                 {"exaone4", true},    {"glm", true},           {"glm4", true},
                 {"starcoder2", true}, {"arcee", false},        {"stablelm", true},
                 {"phi", true},        {"nemotron", true},      {"olmo", false},
                 {"olmo3", true},      {"hunyuan", false},      {"internlm3", false},
                 {"cohere2", true},    {"cohere", true},        {"ministral3", false},
                 {"apertus", true},    {"gpt2", true},          {"gpt_neox", true},
                 {"falcon", true},     {"bloom", true},         {"mpt", true},
                 {"gemma4", true},     {"gemma4-moe", true},    {"gemma3n", true},
                 {"minicpm3", false},  {"cross/t5", true},      {"cross/mt5", true},
                 {"qwen2_5_vl", true}, {"qwen3_vl", true},      {"deepseek_v3", true},
                 {"qwen3_5", false},   {"qwen3_5_moe", false},  {"mixtral", false},
                 {"qwen2_moe", true},  {"glm4_moe", true},      {"olmoe", true},
                 {"phimoe", false},    {"ernie4_5_moe", true},  {"minimax_m2", true},
                 {"gpt_oss", true},    {"llama4_text", true},   {"granitemoeshared", false},
                 {"lfm2", true},       {"jamba", true},         {"mamba2", true}};
    struct backend *b;
    struct err e;
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = temp_path("converted.gguf");
        const struct convert_options o = {.backend = b, .out = path, .replaces = true};
        if (session_convert(golden(cases[i].name, ""), &o, &e) != 0) {
            test_fail(__FILE__, __LINE__, "%s: %s", cases[i].name, e.text);
            continue;
        }
        compare_tensors(cases[i].name, path, golden(cases[i].name, "model.gguf"), false);
        compare_logits("a conversion", cases[i].name, path, cases[i].same_bits);
    }
    backend_close(b);
}

/* Goal: folders without a GGUF file of make.py, converted to GGUF, give the logits of the folder.
 * The bits of some differ, because GGUF has another order of q and k. */
TEST(golden_folders_of_hybrids_converted_to_gguf)
{
    static const struct {
        const char *name;
        bool same_bits;
    } cases[] = {{"granitemoehybrid", false},
                 {"bamba", false},
                 {"nemotron_h", true},
                 {"rwkv6", true},
                 {"rwkv7", true},
                 {"falcon_h1", false}};
    struct backend *b;
    struct err e;
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = temp_path("hybrid.gguf");
        const struct convert_options o = {.backend = b, .out = path, .replaces = true};
        if (session_convert(golden(cases[i].name, ""), &o, &e) != 0)
            test_fail(__FILE__, __LINE__, "%s: %s", cases[i].name, e.text);
        else
            compare_logits("a conversion", cases[i].name, path, cases[i].same_bits);
    }
    /* a folder made of a GGUF with multiplied tensors has other tensors than the first folder */
    char there[256], back[256];
    snprintf(there, sizeof there, "%s", temp_path("hybrid.gguf"));
    snprintf(back, sizeof back, "%s", temp_path("hybrid"));
    struct convert_options o = {.backend = b, .out = back};
    NEED_OK(session_convert(there, &o, &e), &e);
    compare_logits("a conversion and back", "falcon_h1", back, false);
    /* this folder has a feed-forward block next to mixtures */
    o = (struct convert_options){.backend = b, .out = there, .replaces = true};
    EXPECT_INT(session_convert(golden("nemotron_h-moe", ""), &o, &e), ERR_UNSUPPORTED);
    EXPECT(strstr(e.text, "layers_block_type: a GGUF with mixtures cannot have"));
    /* this folder has other numbers of heads in its two kinds of attention */
    EXPECT_INT(session_convert(golden("kimi_linear", ""), &o, &e), ERR_UNSUPPORTED);
    EXPECT(strstr(e.text, "num_heads: must be the 2 heads of attention in a GGUF, got 3"));
    backend_close(b);
}

/* Write a copy of a golden folder, with n texts of its config.json replaced. */
static void write_changed(const char *dir, const char *name, const char *const (*change)[2], int n)
{
    static const char *const files[] = {"model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json", "generation_config.json"};
    struct buf config = slurp(golden(name, "config.json"));
    char path[300];
    struct err e;
    NEED_OK(dir_make(dir, DIR_PRIVATE, &e), &e);
    for (int i = 0; i < 4; i++) {
        struct buf file = slurp(golden(name, files[i]));
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        NEED_OK(file_write(path, file.data, file.n, &e), &e);
        buf_deinit(&file);
    }
    for (int i = 0; i < n; i++) {
        const size_t n_from = strlen(change[i][0]);
        const char *at = memmem(config.data, config.n, change[i][0], n_from);
        struct buf changed = {0};
        NEED(at);
        buf_add(&changed, config.data, (size_t)(at - config.data));
        buf_add_text(&changed, change[i][1]);
        buf_add(&changed, at + n_from, (size_t)(config.data + config.n - at) - n_from);
        buf_deinit(&config);
        config = changed;
    }
    snprintf(path, sizeof path, "%s/config.json", dir);
    NEED_OK(file_write(path, config.data, config.n, &e), &e);
    buf_deinit(&config);
}

/* Convert a copy of a golden folder with n changes of its config.json to a GGUF and back. Compare
 * the logits of both results, bit for bit, and the tensors of the second one with those of the
 * copy. */
static void compare_changed(const char *name, const char *const (*change)[2], int n)
{
    char dir[256], back[272], file[272];
    struct backend *b;
    struct err e;
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    snprintf(dir, sizeof dir, "%s-changed", temp_path(name));
    snprintf(back, sizeof back, "%s-back", dir);
    snprintf(file, sizeof file, "%s.gguf", dir);
    write_changed(dir, name, change, n);
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    struct convert_options o = {.backend = b, .out = file, .replaces = true};
    NEED_OK(session_convert(dir, &o, &e), &e);
    o.out = back;
    NEED_OK(session_convert(file, &o, &e), &e);
    compare_tensors(name, back, dir, true);
    struct loaded from = {0};
    struct buf tokens = slurp(golden(name, "tokens.i32"));
    NEED_OK(load(&from, dir, &plain, &e), &e);
    struct logits want = logits_of(&from, &tokens, 0);
    for (int i = 0; i < 2; i++) {
        struct loaded to = {0};
        NEED_OK(load(&to, i ? back : file, &plain, &e), &e);
        struct logits got = logits_of(&to, &tokens, 0);
        expect_same(i ? "the folder of a GGUF" : "a GGUF", name, &want, &got);
        free(got.v);
        unload(&to);
    }
    free(want.v);
    unload(&from);
    buf_deinit(&tokens);
    backend_close(b);
}

/* Goal: matrices that a GGUF of RWKV-6 has divided, because of rescale_every, give the logits of
 * the folder, bit for bit, and are the same matrices in a folder made of this GGUF. */
TEST(golden_divided_matrices_of_rwkv6)
{
    static const char *const change[][2] = {{"\"rescale_every\": 0", "\"rescale_every\": 1"}};
    compare_changed("rwkv6", change, 1);
}

/* Goal: a GGUF of DeepSeek-V2, which has the architecture of V3 and another rule that selects
 * experts, becomes a folder of V2 with groups of experts or without them. */
TEST(golden_folders_of_deepseek_v2_converted_and_back)
{
    static const char *const change[][2] = {
        {"DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM"},
        {"\"deepseek_v3\"", "\"deepseek_v2\""},
        {"\"norm_topk_prob\": true",
         "\"norm_topk_prob\": false, \"topk_method\": \"group_limited_greedy\""}};
    compare_changed("deepseek_v3", change, 3);
}

/* Convert a folder to GGUF and back, and compare the second folder with the first one. renamed:
 * tensors have other names in both folders. */
static void compare_there_and_back(const char *name, bool same_bits, bool renamed,
                                   struct backend *b)
{
    char file[64] = "back-", there[256], back[256];
    struct err e;
    for (size_t i = 0; name[i]; i++) file[5 + i] = name[i] == '/' ? '-' : name[i];
    snprintf(there, sizeof there, "%s", temp_path("there.gguf"));
    snprintf(back, sizeof back, "%s", temp_path(file));
    struct convert_options o = {.backend = b, .out = there, .replaces = true};
    int rc = session_convert(golden(name, ""), &o, &e);
    o.out = back;
    if (rc == 0) rc = session_convert(there, &o, &e);
    if (rc != 0) {
        test_fail(__FILE__, __LINE__, "%s: %s", name, e.text);
        return;
    }
    compare_tensors(name, back, golden(name, ""), !renamed);
    compare_logits("a conversion and back", name, back, same_bits);
}

/* Goal: a folder converted to GGUF and back has equal tensors, byte for byte, under equal names,
 * and the same logits, bit for bit. Divisors of the rope, and a base with a factor, are rounded to
 * f32 on the way. */
TEST(golden_folders_converted_to_gguf_and_back)
{
    static const struct {
        const char *name;
        bool same_bits;
    } cases[] = {{"llama3", true},       {"llama-untied", true},
                 {"mistral", true},      {"qwen2", true},
                 {"qwen3", true},        {"qwen3moe", true},
                 {"smollm3", true},      {"gemma", true},
                 {"gemma2", true},       {"gemma3", true},
                 {"phi3", true},         {"granite", true},
                 {"olmo2", true},        {"seed_oss", true},
                 {"ernie4_5", true},     {"exaone4", true},
                 {"glm", true},          {"glm4", true},
                 {"starcoder2", true},   {"arcee", true},
                 {"stablelm", true},     {"phi", true},
                 {"nemotron", true},     {"olmo", true},
                 {"olmo3", true},        {"hunyuan", false},
                 {"internlm3", true},    {"cohere2", true},
                 {"cohere", true},       {"ministral3", false},
                 {"apertus", true},      {"gpt2", true},
                 {"gpt_neox", true},     {"falcon", true},
                 {"bloom", true},        {"mpt", true},
                 {"gemma4", true},       {"gemma4-moe", true},
                 {"gemma3n", true},      {"minicpm3", true},
                 {"qwen3_next", false},  {"cross/t5", true},
                 {"cross/mt5", true},    {"mixtral", true},
                 {"qwen2_moe", true},    {"glm4_moe", true},
                 {"olmoe", true},        {"phimoe", true},
                 {"ernie4_5_moe", true}, {"minimax_m2", true},
                 {"mamba", true},        {"falcon_mamba", true},
                 {"jamba", true},        {"lfm2", true},
                 {"mamba2", true},       {"granitemoeshared", true},
                 {"bamba", true},        {"granitemoehybrid", true},
                 {"nemotron_h", true},   {"rwkv6", true},
                 {"rwkv7", true},        {"gpt_oss", true},
                 {"llama4_text", true},  {"deepseek_v3", true}};
    struct backend *b;
    struct err e;
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        compare_there_and_back(cases[i].name, cases[i].same_bits, false, b);
    /* transformers names the feed-forward block as a mixture, published files do not */
    compare_there_and_back("kimi_linear-heads", true, true, b);
    backend_close(b);
}

/* Convert a GGUF to a folder of F32 tensors. */
static bool convert_to_f32(const char *file, const char *folder, struct backend *b)
{
    struct err e;
    const struct convert_options o = {.backend = b, .out = folder, .type = "f32", .replaces = true};
    const int rc = session_convert(file, &o, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s: %s", file, e.text);
    return rc == 0;
}

/* Write a copy of a GGUF in which a vector has the values of its Q8_0 codes: as these codes, or as
 * F32. */
static void put_with_codes(const char *model, const char *tensor, bool codes, const char *path)
{
    enum { N_MAX = 1024 };
    float v[N_MAX];
    uint8_t q[2 * N_MAX];
    struct checkpoint *c;
    struct err e;
    struct buf file = slurp(golden(model, "model.gguf"));
    NEED_OK(checkpoint_open(&c, golden(model, "model.gguf"), &e), &e);
    const struct tensor_info *t = checkpoint_tensor(c, tensor);
    NEED(t && t->type == QT_f32 && t->n_dim == 1 && t->dim[0] <= N_MAX && t->dim[0] % 32 == 0);
    const size_t n_name = strlen(tensor);
    char *data = memmem(file.data, file.n, t->data, t->n_byte),
         *name = memmem(file.data, file.n, tensor, n_name);
    NEED(data && name);
    memcpy(v, t->data, t->n_byte);
    qtype_info[QT_q8_0].ops->encode(q, v, t->dim[0], NULL);
    qtype_info[QT_q8_0].ops->decode(v, q, t->dim[0]);
    memcpy(data, v, t->n_byte);
    if (codes) memcpy(data, q, qtype_bytes(QT_q8_0, t->dim[0]));
    if (codes) name[n_name + 12] = 8; /* after n_dim, u32, and dim, u64: GGUF's number of Q8_0 */
    NEED_OK(file_write(path, file.data, file.n, &e), &e);
    checkpoint_close(c);
    buf_deinit(&file);
}

/* Goal: a vector in a block format becomes its values, also if its order changes. Method: compare
 * with a file whose vector has the same values as F32. */
TEST(golden_vectors_of_blocks_converted_to_a_folder)
{
    static const struct {
        const char *model, *tensor;
    } cases[] = {{"phi3", "output_norm.weight"},
                 {"gemma2", "blk.0.attn_norm.weight"},
                 {"gpt_neox", "blk.0.attn_qkv.bias"}};
    struct backend *b;
    struct err e;
    if (!repo_path("tests/golden/phi3")) SKIP("tests/golden is not here");
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char file[2][256], folder[2][272];
        for (int codes = 0; codes < 2; codes++) {
            snprintf(file[codes], sizeof file[0], "%s-%d.gguf", temp_path(cases[i].model), codes);
            snprintf(folder[codes], sizeof folder[0], "%s-folder", file[codes]);
            put_with_codes(cases[i].model, cases[i].tensor, codes, file[codes]);
        }
        if (convert_to_f32(file[0], folder[0], b) && convert_to_f32(file[1], folder[1], b))
            compare_tensors(cases[i].model, folder[1], folder[0], true);
    }
    backend_close(b);
}

/* Goal: experts in MXFP4 become the transposed matrices of all experts, with alternating columns of
 * gate and up, if the caller gives a type. The folder has the logits of the codes. */
TEST(golden_codes_of_experts_converted_to_values)
{
    char folder[256];
    struct backend *b;
    struct err e;
    struct checkpoint *c = NULL;
    if (!repo_path("tests/golden/gpt_oss")) SKIP("tests/golden is not here");
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    snprintf(folder, sizeof folder, "%s", temp_path("values"));
    NEED(convert_to_f32(golden("gpt_oss", "model.gguf"), folder, b));
    NEED_OK(checkpoint_open(&c, folder, &e), &e);
    const struct tensor_info *t = checkpoint_tensor(c, "blk.1.ffn_gate_up_exps.weight");
    NEED(t);
    EXPECT(t->type == QT_f32 && t->dim[0] == 64 && t->dim[1] == 32 && t->dim[2] == 4);
    compare_logits("values of codes", "gpt_oss", folder, false);
    checkpoint_close(c);
    backend_close(b);
}

/* Goal: the matrices of a class with columns, in a block format, become their values in a folder.
 * Method: compare each value with the decoded file. */
TEST(golden_columns_of_blocks_converted_to_a_folder)
{
    char file[256], folder[256];
    struct backend *b;
    struct checkpoint *from, *to;
    struct err e;
    int n_turned = 0;
    if (!repo_path("tests/golden/gpt2")) SKIP("tests/golden is not here");
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    snprintf(file, sizeof file, "%s", temp_path("columns.gguf"));
    snprintf(folder, sizeof folder, "%s", temp_path("columns"));
    const struct convert_options o = {.backend = b, .out = file, .type = "q8_0"};
    NEED_OK(session_convert(golden("gpt2", ""), &o, &e), &e);
    NEED(convert_to_f32(file, folder, b));
    NEED_OK(checkpoint_open(&from, file, &e), &e);
    NEED_OK(checkpoint_open(&to, folder, &e), &e);
    for (int i = 0; i < checkpoint_n_tensor(from); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(from, i),
                                 *got = checkpoint_tensor(to, t->name);
        NEED(got && got->type == QT_f32);
        if (t->n_dim != 2 || strncmp(t->name, "blk.", 4) != 0) continue;
        const int64_t k = t->dim[0], n = t->dim[1];
        float *v = malloc((size_t)(k * n) * sizeof *v);
        NEED(v && t->type == QT_q8_0 && got->dim[0] == n && got->dim[1] == k);
        qtype_info[t->type].ops->decode(v, t->data, k * n);
        int64_t n_wrong = 0;
        for (int64_t j = 0; j < k * n; j++)
            n_wrong += memcmp(got->data + (j % k * n + j / k) * 4, &v[j], 4) != 0;
        if (n_wrong > 0)
            test_fail(__FILE__, __LINE__, "%s: %lld values differ", t->name, (long long)n_wrong);
        free(v);
        n_turned++;
    }
    EXPECT(n_turned >= 4);
    checkpoint_close(from);
    checkpoint_close(to);
    backend_close(b);
}

/* Fill the folder `to` with links to the files of a golden folder, and to a tokenizer, because
 * forms have none. */
static void link_form(const char *form, const char *to)
{
    static const struct {
        const char *name;
        bool own, optional; /* own: of the form, otherwise of another folder */
    } files[] = {{"config.json", true, false},
                 {"model.safetensors", true, false},
                 {"quanto_qmap.json", true, true},
                 {"tokenizer.json", false, false},
                 {"tokenizer_config.json", false, false}};
    struct err e;
    NEED_OK(dir_make(to, DIR_PRIVATE, &e), &e);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char at[288], *real = realpath(golden(files[i].own ? form : "llama3", files[i].name), NULL);
        snprintf(at, sizeof at, "%s/%s", to, files[i].name);
        EXPECT(real ? symlink(real, at) == 0 : files[i].optional);
        free(real);
    }
}

/* Return the hash of values.txt (forms.py): 64-bit FNV-1a of f32, with -0 as 0. */
static uint64_t hash_of(const struct tensor_info *t)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (int64_t i = 0; i < t->dim[0] * t->dim[1]; i++) {
        float x;
        uint8_t byte[4];
        qtype_info[t->type].ops->decode(&x, t->data + (size_t)i * qtype_bytes(t->type, 1), 1);
        x += 0.0f;
        memcpy(byte, &x, 4);
        for (int j = 0; j < 4; j++) h = (h ^ byte[j]) * 0x100000001B3u;
    }
    return h;
}

/* Compare the tensors of a folder, which was made of a GGUF, with the library's values. */
static void compare_form_values(const char *form, const char *path)
{
    char module[128], name[160];
    unsigned long long want;
    int n = 0;
    struct checkpoint *c;
    struct err e;
    struct buf lines = slurp(golden(form, "values.txt"));
    NEED_OK(checkpoint_open(&c, path, &e), &e);
    for (char *rest = lines.data, *line; (line = strsep(&rest, "\n")) && *line; n++) {
        const struct tensor_info *t = NULL;
        NEED(sscanf(line, "%127s %llx", module, &want) == 2);
        snprintf(name, sizeof name, "%s.weight", module);
        for (int i = 0; i < checkpoint_n_tensor(c); i++)
            if (strcmp(checkpoint_tensor_at(c, i)->name_raw, name) == 0)
                t = checkpoint_tensor_at(c, i);
        if (!t || hash_of(t) != want)
            test_fail(__FILE__, __LINE__, "%s: %s has other values", form, name);
    }
    EXPECT(n >= 4);
    checkpoint_close(c);
    buf_deinit(&lines);
}

/* Goal: a folder of quantized weights becomes a GGUF of their values, bit for bit those of the
 * library, and gives the reference's logits. Method: convert the GGUF back to a folder, whose rows
 * have the library's order, and compare hashes. */
TEST(golden_forms_converted_to_gguf)
{
    static const char *const forms[] = {
        "gptq",           "gptq-v2",        "awq",        "awq-gemv",    "fp8",        "bnb-4bit",
        "bnb-8bit",       "compressed",     "bitnet",     "bitnet-auto", "auto-round", "hqq",
        "quanto",         "sparse",         "gptq-fused", "gptq-neox",   "awq-neox",   "fp8-falcon",
        "bnb-4bit-bloom", "fp8-qwen3-next", "gptq-mamba2"};
    struct backend *b;
    struct err e;
    if (!repo_path("tests/golden/forms")) SKIP("tests/golden is not here");
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char form[64], folder[256], file[272], back[272];
        snprintf(form, sizeof form, "forms/%s", forms[i]);
        snprintf(folder, sizeof folder, "%s-form", temp_path(forms[i]));
        snprintf(file, sizeof file, "%s.gguf", folder);
        snprintf(back, sizeof back, "%s-back", folder);
        link_form(form, folder);
        struct convert_options o = {.backend = b, .out = file};
        int rc = session_convert(folder, &o, &e);
        o.out = back;
        if (rc == 0) rc = session_convert(file, &o, &e);
        if (rc != 0) {
            test_fail(__FILE__, __LINE__, "%s: %s", form, e.text);
            continue;
        }
        compare_form_values(form, back);
        compare_path(form, file, "logits.f32");
        compare_path(form, back, "logits.f32");
    }
    backend_close(b);
}

/* Goal: matrices without codes of MXFP4 are converted to it, if its blocks divide their rows. */
TEST(golden_folders_converted_to_mxfp4)
{
    static const char *const name[] = {"gpt_oss", "forms/sparse", "deepseek_v3"};
    struct backend *b;
    struct err e;
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        char folder[256];
        snprintf(folder, sizeof folder, "%s-%zu", temp_path("mxfp4"), i);
        link_form(name[i], folder);
        const struct convert_options o = {
            .backend = b, .out = temp_path("mxfp4.gguf"), .type = "MXFP4", .replaces = true};
        if (session_convert(i == 1 ? folder : golden(name[i], ""), &o, &e) != 0)
            test_fail(__FILE__, __LINE__, "%s: %s", name[i], e.text);
    }
    backend_close(b);
}

/* Goal: a stopped conversion leaves no file, in both directions. */
TEST(golden_conversion_stopped_leaves_no_file)
{
    static const char *const files[] = {"", "model.gguf"};
    const volatile sig_atomic_t stop = 1;
    struct backend *b;
    struct err e;
    if (!repo_path("tests/golden/llama-untied")) SKIP("tests/golden is not here");
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    NEED(temp_put("stopped/other", ""));
    for (int i = 0; i < 2; i++) {
        struct buf list = {0};
        const struct convert_options o = {
            .backend = b, .out = temp_path("stopped/result"), .stop = &stop};
        EXPECT_INT(session_convert(golden("llama-untied", files[i]), &o, &e), ERR_BUSY);
        NEED_OK(dir_list(&list, temp_path("stopped"), &e), &e);
        EXPECT(list.n > 0 && strncmp(list.data, "other", 5) == 0 && list.n <= 7);
        buf_deinit(&list);
    }
    backend_close(b);
}

/* Compare the logits of the llama3 weights with another config.json after the whole text. */
static void compare_variant(const char *label)
{
    static const char *const part[] = {"config.json", "model.safetensors"};
    char file[80];
    snprintf(file, sizeof file, "variant-%s.f32", label);
    struct buf tokens = slurp(golden("llama3", "tokens.i32")), want = slurp(golden("llama3", file));
    struct loaded l;
    struct err e;
    for (int i = 0; i < 2; i++) {
        char to[40];
        snprintf(file, sizeof file, "variant-%s.json", label);
        snprintf(to, sizeof to, "variant/%s", part[i]);
        struct buf b = slurp(golden("llama3", i ? part[i] : file));
        temp_put(to, "");
        if (file_write(temp_path(to), b.data, b.n, &e) != 0)
            test_fail(__FILE__, __LINE__, "%s", e.text);
        buf_deinit(&b);
    }
    int rc = load(&l, temp_path("variant"), &plain, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    struct logits got = rc == 0 ? logits_of(&l, &tokens, 0) : (struct logits){0};
    if (rc == 0 && want.n == (size_t)got.n_vocab * 4) {
        double d = difference(&got, (const float *)want.data, 1);
        test_note("%-26s max|difference| / max|reference| = %.1e", label, d);
        EXPECT(d <= 1e-4);
    } else
        test_fail(__FILE__, __LINE__, "%s: %zu bytes of logits", label, want.n);
    free(got.v);
    unload(&l);
    buf_deinit(&tokens);
    buf_deinit(&want);
}

/* Make a folder of gemma4 as the text part of a model of several parts. outer: fields at the top
 * level. The padding token is 5. Return its logits, in memory of the caller. */
static struct logits padded_logits(const char *outer, const struct buf *tokens)
{
    struct buf text = slurp(golden("gemma4", "config.json")), config = {0},
               weights = slurp(golden("gemma4", "model.safetensors"));
    struct loaded l;
    struct err e;
    const struct checkpoint_changes changes = {.config = "{\"text_config\":{\"pad_token_id\":5}}"};
    struct setup s = plain;
    s.changes = &changes;
    buf_addf(&config, "{\"model_type\":\"gemma4\",%s,\"text_config\":%.*s}", outer, (int)text.n,
             text.data);
    temp_put("parts/config.json", "");
    temp_put("parts/model.safetensors", "");
    if (file_write(temp_path("parts/config.json"), config.data, config.n, &e) != 0 ||
        file_write(temp_path("parts/model.safetensors"), weights.data, weights.n, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s", e.text);
    int rc = load(&l, temp_path("parts"), &s, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    struct logits got = rc == 0 ? logits_of(&l, tokens, 7) : (struct logits){0};
    unload(&l);
    buf_deinit(&text);
    buf_deinit(&config);
    buf_deinit(&weights);
    return got;
}

static bool same_logits(const struct logits *a, const struct logits *b)
{
    return a->v && b->v && a->n == b->n &&
           memcmp(a->v, b->v, (size_t)a->n * (size_t)a->n_vocab * sizeof *a->v) == 0;
}

/* Goal: Gemma 4 reads the padding token in place of the tokens of images, video and audio. */
TEST(golden_tokens_of_other_parts_are_padding)
{
    if (!repo_path("tests/golden/gemma4")) SKIP("tests/golden is not here");
    static const int32_t text[] = {40, 7, 8, 41, 9, 42, 7, 43},
                         pads[] = {40, 5, 8, 41, 5, 42, 5, 43};
    struct buf with = {0}, without = {0};
    buf_add(&with, text, sizeof text);
    buf_add(&without, pads, sizeof pads);
    static const char own[] = "\"image_token_id\":7,\"video_token_id\":9,\"audio_token_id\":null",
                      far[] = "\"image_token_id\":null,\"video_token_id\":null";
    struct logits got = padded_logits(own, &with), want = padded_logits(far, &without),
                  plain_text = padded_logits(far, &with);
    EXPECT(same_logits(&got, &want) && !same_logits(&got, &plain_text));
    free(got.v);
    free(want.v);
    free(plain_text.v);
    buf_deinit(&with);
    buf_deinit(&without);
}

TEST(golden_logits_of_rope_variants)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    compare_variant("yarn-untruncated");
    compare_variant("yarn-mscale");
    compare_variant("yarn-attention-factor");
    compare_variant("linear");
    compare_variant("longrope");
    compare_variant("theta");
}

/* Compare the logits of the llama3 weights with a scaling of the caller. name: "" for the folder,
 * or its GGUF file. */
static void compare_given(const char *label, const struct checkpoint_changes *changes, int context,
                          const char *name)
{
    char file[80];
    struct setup s = plain;
    struct loaded l;
    struct err e;
    snprintf(file, sizeof file, "variant-%s.f32", label);
    struct buf tokens = slurp(golden("llama3", "tokens.i32")), want = slurp(golden("llama3", file));
    s.changes = changes;
    s.context = context;
    int rc = load(&l, golden("llama3", name), &s, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s: %s", label, e.text);
    struct logits got = rc == 0 ? logits_of(&l, &tokens, 0) : (struct logits){0};
    if (rc == 0 && want.n == (size_t)got.n_vocab * 4) {
        double d = difference(&got, (const float *)want.data, 1);
        test_note("given %-26s max|difference| / max|reference| = %.1e", label, d);
        EXPECT(d <= 1e-4);
    } else
        test_fail(__FILE__, __LINE__, "%s: %zu bytes of logits", label, want.n);
    free(got.v);
    unload(&l);
    buf_deinit(&tokens);
    buf_deinit(&want);
}

/* Goal: a scaling that the caller gives in place of the file's equals the reference with that
 * scaling in its config.json. The scaling of the GGUF file is a tensor of divisors. */
TEST(golden_logits_of_scalings_of_the_caller)
{
#define YARN "\"rope_type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":32"
    static const struct {
        const char *label;
        struct checkpoint_changes changes;
        int context;
    } cases[] = {
        {"yarn-untruncated", {.rope = "{" YARN ",\"truncate\":false}"}, 0},
        {"yarn-untruncated", {.config = "{\"rope_scaling\":{" YARN ",\"truncate\":false}}"}, 0},
        {"yarn-mscale", {.rope = "{" YARN ",\"mscale\":0.707,\"mscale_all_dim\":0.4}"}, 0},
        {"yarn-attention-factor", {.rope = "{" YARN ",\"attention_factor\":1.5}"}, 0},
        {"linear", {.rope = "{\"rope_type\":\"linear\",\"factor\":3.0}"}, 0},
        {"longrope",
         {.rope = "{\"rope_type\":\"longrope\",\"original_max_position_embeddings\":64,"
                  "\"short_factor\":[1,1,1,1,1,1,1,1],"
                  "\"long_factor\":[1,1.25,1.5,2,3,4,6,8]}"},
         0},
        {"dynamic",
         {.config = "{\"max_position_embeddings\":32}",
          .rope = "{\"rope_type\":\"dynamic\",\"factor\":3.0}"},
         80},
        {"mrope", {.rope = "{\"rope_type\":\"mrope\",\"mrope_section\":[2,3,3]}"}, 0},
        {"theta", {.rope_theta = 500}, 0}};
#undef YARN
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int gguf = 0; gguf < 2; gguf++)
            if (!gguf || (cases[i].changes.rope && !cases[i].changes.config))
                compare_given(cases[i].label, &cases[i].changes, cases[i].context,
                              gguf ? "model.gguf" : "");
}

/* Basis of comparison for a variant: a model's file and a setup. */
struct base {
    const char *model, *file;
    struct setup setup;
};

/* Compare the bits of a text with another setup and chunk size. */
static void variant(const char *what, const struct base *b, const struct logits *want,
                    struct setup s, int chunk, const struct buf *tokens)
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

static const int chunks[] = {1, 3, 7, 16, 31, 64}, threads[] = {2, 3, 4, 5, 16};
enum { N_CHUNK = sizeof chunks / sizeof chunks[0], N_THREAD = sizeof threads / sizeof threads[0] };

/* Compare every chunk size, page size, number of threads and level, one at a time. */
static void vary_each(const struct base *b, const struct logits *want, const struct buf *tokens)
{
    for (int i = 0; i < N_CHUNK; i++)
        variant("another chunk size", b, want, b->setup, chunks[i], tokens);
    for (int page_rows = 1; page_rows <= 64; page_rows *= 2) {
        struct setup s = b->setup;
        s.page_rows = page_rows;
        variant("another page size", b, want, s, 5, tokens);
    }
    for (int i = 0; i < N_THREAD; i++) {
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

/* Compare a level with a random chunk size, page size and number of threads together. */
static void vary_together(const struct base *b, const struct logits *want, const struct buf *tokens,
                          const char *level, uint64_t *rng)
{
    struct setup s = b->setup;
    char what[80];
    const int chunk = chunks[rng_below(rng, N_CHUNK)];
    s.level = level;
    s.page_rows = 1 << rng_below(rng, 7);
    s.n_thread = threads[rng_below(rng, N_THREAD)];
    snprintf(what, sizeof what, "%s, chunks of %d, pages of %d, %d threads", level, chunk,
             s.page_rows, s.n_thread);
    variant(what, b, want, s, chunk, tokens);
}

/* Number of ways of computing a text: two at random levels, one at each level, or each way. TWO and
 * LEVELS vary chunks, pages and threads together. */
enum ways { TWO, LEVELS, EACH };

/* Compare some ways of computing a text with its bits. Under `make long` compare each way. */
static void vary(const struct base *b, const struct logits *want, const struct buf *tokens,
                 enum ways ways, uint64_t *rng)
{
    int n_level = 0;
    while (kern_levels()[n_level]) n_level++;
    if (ways == EACH || test_long()) {
        vary_each(b, want, tokens);
        return;
    }
    for (int i = 0; i < (ways == TWO ? 2 : n_level); i++) {
        const int level = ways == TWO ? (int)rng_below(rng, (uint64_t)n_level) : i;
        vary_together(b, want, tokens, kern_levels()[level], rng);
    }
}

static void every_way(const struct base *b, enum ways ways, uint64_t *rng)
{
    struct buf tokens = slurp(golden(b->model, "tokens.i32"));
    struct loaded l;
    struct err e;
    int rc = load(&l, golden(b->model, b->file), &b->setup, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    struct logits want = rc == 0 ? logits_of(&l, &tokens, 0) : (struct logits){0};
    unload(&l);
    if (rc == 0) vary(b, &want, &tokens, ways, rng);
    free(want.v);
    buf_deinit(&tokens);
}

TEST(same_bits_however_a_text_is_computed)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    uint64_t rng = 1;
    for (int i = 0; i < N_MODEL; i++) {
        struct base b = {models[i], gguf_of(i), plain};
        every_way(&b, i == 2 ? EACH : TWO, &rng);
        for (int kv = 0; kv < KV_TYPE_COUNT; kv++) {
            b.setup.kv = (enum kv_type)kv;
            if (test_long() || i == 2) every_way(&b, LEVELS, &rng);
        }
    }
    for (int i = 0; i < N_CROSS; i++)
        for (int kv = 0; kv < KV_TYPE_COUNT; kv++) {
            struct base b = {crossed[i], i < N_CROSS_GGUF ? "model.gguf" : "", plain};
            b.setup.kv = (enum kv_type)kv;
            if (test_long() || kv == KV_F32 || i == 0) every_way(&b, LEVELS, &rng);
        }
}

/* Goal: files of each type of weights, with f32 activations, give the logits of transformers for
 * the same weights. With f32 and with the default activations (int8, bf16, f32), every way of
 * computing a text gives the same bits. */
TEST(weights_of_each_type_equal_the_reference_and_give_the_same_bits)
{
    static const char *const files[][3] = {{"llama3", "model-q8_0.gguf", "logits-q8_0.f32"},
                                           {"llama3", "model-q4_1.gguf", "logits-q4_1.f32"},
                                           {"olmo2", "model.gguf", "logits.f32"},   /* BF16 */
                                           {"granite", "model.gguf", "logits.f32"}, /* F16 */
                                           {"granite", "", "logits.f32"}};
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    uint64_t rng = 2;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        compare_files(files[i][0], files[i][1], files[i][2]);
        struct base b = {files[i][0], files[i][1], plain};
        every_way(&b, LEVELS, &rng);
        b.setup.act = ACT_CHOICE_AUTO;
        every_way(&b, LEVELS, &rng);
    }
}

/* Goal: with the default activations, weights of published forms give the same bits at every level,
 * for every way of computing a text. The weights have the outermost integers of each format. */
TEST(published_forms_give_the_same_bits)
{
    static const char *const forms[] = {"forms/gptq", "forms/compressed"};
    if (!repo_path("tests/golden/forms")) SKIP("tests/golden is not here");
    uint64_t rng = 3;
    for (int i = 0; i < 2; i++) {
        struct base b = {forms[i], "", plain};
        b.setup.act = ACT_CHOICE_AUTO;
        every_way(&b, LEVELS, &rng);
    }
}

/* Goal: a scaling of the caller gives the same bits for a folder and for its GGUF, and other bits
 * than the file's scaling. */
TEST(scalings_of_the_caller_are_the_same_for_a_gguf)
{
    static const char *const folders[] = {"qwen3", "gemma3", "glm4", "olmo2"};
    static const struct checkpoint_changes given[] = {
        {.rope = "{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":32}"},
        {.rope = "{\"rope_type\":\"dynamic\",\"factor\":2}"},
        {.rope = "{\"rope_type\":\"default\"}", .rope_theta = 777}};
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (size_t i = 0; i < 4; i++) {
        struct buf tokens = slurp(golden(folders[i], "tokens.i32"));
        struct logits got[4][2];
        for (int k = 0; k < 4; k++)
            for (int gguf = 0; gguf < 2; gguf++) {
                struct setup s = plain;
                struct loaded l;
                struct err e;
                s.changes = k < 3 ? &given[k] : NULL;
                s.context = 512;
                int rc = load(&l, golden(folders[i], gguf ? "model.gguf" : ""), &s, &e);
                if (rc != 0) test_fail(__FILE__, __LINE__, "%s: %s", folders[i], e.text);
                got[k][gguf] = rc == 0 ? logits_of(&l, &tokens, 0) : (struct logits){0};
                unload(&l);
            }
        const size_t n_byte = (size_t)got[3][0].n * (size_t)got[3][0].n_vocab * sizeof(float);
        for (int k = 0; k < 4 && got[3][0].v; k++) {
            expect_same("a GGUF", folders[i], &got[k][0], &got[k][1]);
            if (k < 3 && memcmp(got[k][0].v, got[3][0].v, n_byte) == 0)
                test_fail(__FILE__, __LINE__, "%s: scaling %d has no effect", folders[i], k);
        }
        for (int k = 0; k < 8; k++) free(got[k / 2][k % 2].v);
        buf_deinit(&tokens);
    }
}

/* Replace the values of a tensor at `at` by those of a number format. */
static void round_values(uint8_t *at, const struct tensor_info *t, enum qtype type)
{
    const struct qtype_ops *source = qtype_info[t->type].ops, *to = qtype_info[type].ops;
    float x[BLOCK_MAX];
    uint8_t code[BLOCK_MAX * sizeof(float)];
    const int64_t n = t->dim[0] * t->dim[1] * t->dim[2], k = t->dim[0];
    for (int64_t i = 0; i < n; i += k)
        for (int64_t c = 0; c < k; c += BLOCK_MAX) {
            const int m = k - c < BLOCK_MAX ? (int)(k - c) : BLOCK_MAX;
            uint8_t *from = at + qtype_bytes(t->type, i + c);
            source->decode(x, from, m);
            to->encode(code, x, m, NULL);
            to->decode(x, code, m);
            source->encode(from, x, m, NULL);
        }
}

/* Write a copy of the folder of F32 weights, with the values of a mixture. */
static bool write_rounded(const char *folder, const char *type, int n_layer, int n_group)
{
    struct quant_mix mix;
    struct checkpoint *c;
    struct err e;
    struct buf file = slurp(golden(folder, "model.safetensors")),
               config = slurp(golden(folder, "config.json"));
    uint64_t n_head = 0;
    const uint8_t *first = NULL;
    if (checkpoint_open(&c, golden(folder, ""), &e) != 0 ||
        quant_mix_find(&mix, type, false, &e) != 0)
        return false;
    memcpy(&n_head, file.data, 8);
    for (int i = 0; i < checkpoint_n_tensor(c); i++) {
        const uint8_t *data = checkpoint_tensor_at(c, i)->data;
        if (!first || data < first) first = data;
    }
    for (int i = 0; i < checkpoint_n_tensor(c); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(c, i);
        const struct quant_mix_site site = {.name = t->name,
                                            .type = t->type,
                                            .n_dim = t->n_dim,
                                            .k = t->dim[0],
                                            .n_layer = n_layer,
                                            .n_group = n_group,
                                            .tied = !checkpoint_tensor(c, "output.weight")};
        const enum qtype to = quant_mix_type(&mix, &site);
        /* rows that no block divides keep their values */
        if (to != t->type && (qtype_info[to].block > 1) == (qtype_info[mix.type].block > 1))
            round_values((uint8_t *)file.data + 8 + n_head + (t->data - first), t, to);
    }
    checkpoint_close(c);
    temp_put("rounded/config.json", "");
    bool ok = file_write(temp_path("rounded/config.json"), config.data, config.n, &e) == 0 &&
              file_write(temp_path("rounded/model.safetensors"), file.data, file.n, &e) == 0;
    buf_deinit(&file);
    buf_deinit(&config);
    return ok;
}

static struct logits logits_at(const char *path, const struct setup *s, const struct buf *tokens)
{
    struct loaded l;
    struct err e;
    int rc = load(&l, path, s, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s: %s", path, e.text);
    struct logits got = rc == 0 ? logits_of(&l, tokens, 0) : (struct logits){0};
    unload(&l);
    return got;
}

/* Compare all rows. Return the largest max|difference| / max|reference| of a row. */
static double row_difference(const struct logits *got, const struct logits *want)
{
    double most = got->n == want->n ? 0 : NAN;
    for (int i = 0; i < got->n && i < want->n; i++) {
        const struct logits text = {.v = got->v, .n = i + 1, .n_vocab = got->n_vocab};
        const double d = difference(&text, want->v + (int64_t)i * want->n_vocab, 1);
        if (!(d <= most)) most = d;
    }
    return most;
}

/* Goal: weights that are quantized while loading equal a folder with the values of their formats.
 * Every way of computing a text gives equal bits. */
TEST(weights_quantized_while_loading)
{
    static const char *const types[] = {"F16",    "BF16", "Q8_0",   "Q4_0",   "IQ4_NL",  "Q2_K",
                                        "Q4_K_M", "Q6_K", "NF4_64", "FP4_64", "E4M3_128"};
    static const struct {
        const char *name;
        int n_layer, n_group;
    } folders[] = {{"llama-untied", 3, 2}, {"qwen3moe", 3, 2}};
    uint64_t rng = 4;
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            struct base b = {folders[f].name, "", plain};
            struct buf tokens = slurp(golden(b.model, "tokens.i32"));
            EXPECT(write_rounded(b.model, types[i], folders[f].n_layer, folders[f].n_group));
            struct logits want = logits_at(temp_path("rounded"), &plain, &tokens);
            b.setup.quantization = types[i];
            struct logits got = logits_at(golden(b.model, ""), &b.setup, &tokens);
            if (want.v && got.v) {
                const double d = row_difference(&got, &want);
                test_note("%-13s %-7s max|difference| / max|reference| = %.1e", b.model, types[i],
                          d);
                EXPECT(d <= 1e-4);
                if (i == 6 || i == 8) vary(&b, &got, &tokens, LEVELS, &rng);
            }
            free(want.v);
            free(got.v);
            buf_deinit(&tokens);
        }
}

/* Goal: transposed matrices and groups of rows are quantized like others. Method: the logits are as
 * near to those of the file's weights as the number of bits allows. F16 has all their values. */
TEST(placed_weights_quantized_while_loading)
{
    static const struct {
        const char *type;
        double least, most; /* bounds of the difference to the logits of the file's weights */
    } cases[] = {{"F16", 0, 1e-4}, {"Q8_0", 1e-3, 0.05}, {"Q4_K_M", 0.05, 0.6}};
    static const char *const folders[] = {"gpt2", "gpt_neox"};
    uint64_t rng = 5;
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            struct base b = {folders[f], "", plain};
            struct buf tokens = slurp(golden(b.model, "tokens.i32")),
                       want = slurp(golden(b.model, "logits.f32"));
            b.setup.quantization = cases[i].type;
            struct logits got = logits_at(golden(b.model, ""), &b.setup, &tokens);
            if (got.v) {
                const double d = difference(&got, (const float *)want.data, (got.n + 4) / 5);
                test_note("%-13s %-7s max|difference| / max|reference| = %.1e", b.model,
                          cases[i].type, d);
                EXPECT(d >= cases[i].least && d <= cases[i].most);
                if (i == 2) vary(&b, &got, &tokens, LEVELS, &rng);
            }
            free(got.v);
            buf_deinit(&tokens);
            buf_deinit(&want);
        }
}

/* Goal: weights that are quantized already are not quantized again. */
TEST(quantized_weights_are_not_quantized_again)
{
    static const char *const files[][2] = {
        {"llama3", "model-q8_0.gguf"}, {"forms/gptq", ""}, {"qwen3moe-fp8", ""}};
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (size_t i = 0; i < 3; i++) {
        struct setup s = plain;
        struct loaded l;
        struct err e = {0};
        s.quantization = "Q4_K";
        EXPECT(load(&l, golden(files[i][0], files[i][1]), &s, &e) == ERR_UNSUPPORTED);
        EXPECT(strstr(e.text, "--quantization requires F32, F16 or BF16"));
        unload(&l);
    }
}

enum { N_MANY = 40 }; /* tokens of a text of fill_many */

/* Compare 8 sequences in one batch with each sequence alone. Pages are numbered backwards and
 * interleaved between sequences. */
static void fill_many(struct batch *b, const int32_t *ids, const int *from, const int *n, int n_seq,
                      int page_rows, int n_page)
{
    batch_clear(b);
    for (int s = 0; s < n_seq; s++) {
        b->row0[s] = b->n_row;
        for (int p = 0; p < b->page_stride; p++)
            b->page[s * b->page_stride + p] = n_page - 1 - (p * n_seq + s) % n_page;
        for (int i = 0; i < n[s]; i++) {
            int row = b->n_row++, pos = from[s] + i;
            b->token[row] = ids[(pos + s * 5) % 40];
            b->pos[row] = pos;
            b->slot[row] =
                b->page[s * b->page_stride + pos / page_rows] * page_rows + pos % page_rows;
            b->out_row[b->n_out] = row;
            b->out_kind[b->n_out++] = OUT_LOGITS;
        }
        b->kv_len[s] = from[s] + n[s];
    }
    b->n_seq = n_seq;
    b->row0[n_seq] = b->n_row;
    for (int s = 0; s < n_seq; s++) {
        batch_rope(b, s, N_MANY > b->limits.n_short);
        batch_state(b, s, s);
    }
}

/* Compute 8 sequences of 40 tokens through ragged steps of 1 to 6 rows per sequence, until a
 * sequence is complete. Set from[s] to the number of rows computed for sequence s, and got[s] to
 * their logits. */
static void run_many(struct loaded *l, const int32_t *ids, int page_rows, int from[8],
                     struct logits got[8])
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

/* Compare each sequence in a batch with the sequence alone. level: level of kernels; NULL: the
 * best */
static void many_against_alone(const char *model, enum wrap wrap, const char *level)
{
    struct loaded many, alone;
    struct err e;
    struct setup one = plain, two;
    one.level = level;
    two = one;
    two.n_thread = 2;
    two.wrap = wrap;
    if (load(&many, golden(model, ""), &two, &e) != 0 ||
        load(&alone, golden(model, ""), &one, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.text);
        return;
    }
    struct buf tokens = slurp(golden(model, "tokens.i32"));
    const int32_t *ids = (const int32_t *)tokens.data;
    int n_vocab = model_info(many.m)->n_vocab, from[8] = {0};
    struct logits got[8],
        want = {.v = calloc(40 * (size_t)n_vocab, sizeof(float)), .n = 40, .n_vocab = n_vocab};
    for (int s = 0; s < 8; s++)
        got[s] = (struct logits){
            .v = calloc(40 * (size_t)n_vocab, sizeof(float)), .n = 40, .n_vocab = n_vocab};
    run_many(&many, ids, two.page_rows, from, got);
    for (int s = 0; s < 8; s++) {
        int32_t own[40];
        for (int p = 0; p < 40; p++) own[p] = ids[(p + s * 5) % 40];
        score_tokens(alone.m, own, 40, &(struct score_options){.fn = keep, .ctx = &want}, &e);
        EXPECT(from[s] >= 10);
        if (memcmp(want.v, got[s].v, (size_t)from[s] * (size_t)n_vocab * sizeof *want.v) != 0)
            test_fail(__FILE__, __LINE__, "%s: sequence %d differs between 8 in a batch and alone",
                      model, s);
        free(got[s].v);
    }
    free(want.v);
    unload(&many);
    unload(&alone);
    buf_deinit(&tokens);
}

/* Return the outputs of 12 tokens in one step. kind[] gives the kind of each output. */
static struct model_out twelve_rows(struct loaded *l, struct batch *b, const int32_t *ids,
                                    const int32_t *kind)
{
    const int from[] = {0}, n[] = {12};
    fill_many(b, ids, from, n, 1, plain.page_rows, model_info(l->m)->n_page);
    memcpy(b->out_kind, kind, 12 * sizeof *kind);
    EXPECT(batch_check(b, model_info(l->m)->n_vocab, model_info(l->m)->n_page, plain.page_rows) ==
           NULL);
    return model_forward(l->m, b);
}

/* Goal: a row gives its logits, its hidden state or both. Each output equals the output requested
 * alone. */
TEST(a_row_gives_logits_a_hidden_state_or_both)
{
    enum { N = 12, L = OUT_LOGITS, H = OUT_HIDDEN, B = OUT_LOGITS | OUT_HIDDEN };
    static const int32_t mixed[N] = {L, H, B, B, H, L, L, B, H, H, B, L};
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct loaded l;
    struct batch b;
    struct err e;
    NEED_OK(load(&l, golden("llama3", ""), &plain, &e), &e);
    NEED_OK(batch_open(&b, model_batch_limits(l.m), &e), &e);
    struct buf tokens = slurp(golden("llama3", "tokens.i32"));
    const size_t n_vocab = (size_t)model_info(l.m)->n_vocab, d = (size_t)model_info(l.m)->d_model;
    float *want[2] = {malloc(N * n_vocab * sizeof(float)), malloc(N * d * sizeof(float))};
    for (int k = 0; k < 2; k++) {
        int32_t kind[N];
        for (int i = 0; i < N; i++) kind[i] = k ? H : L;
        struct model_out out = twelve_rows(&l, &b, (const int32_t *)tokens.data, kind);
        memcpy(want[k], k ? out.hidden : out.logits, N * (k ? d : n_vocab) * sizeof(float));
    }
    struct model_out out = twelve_rows(&l, &b, (const int32_t *)tokens.data, mixed);
    int n_logits = 0, n_hidden = 0, n_wrong = 0;
    EXPECT_INT(out.n_logits, 8);
    EXPECT_INT(out.n_hidden, 8);
    for (size_t i = 0; i < N; i++) {
        const float *logits = out.logits + (size_t)n_logits * n_vocab,
                    *hidden = out.hidden + (size_t)n_hidden * d;
        n_wrong +=
            mixed[i] & L && memcmp(logits, want[0] + i * n_vocab, n_vocab * sizeof(float)) != 0;
        n_wrong += mixed[i] & H && memcmp(hidden, want[1] + i * d, d * sizeof(float)) != 0;
        n_logits += (mixed[i] & L) != 0;
        n_hidden += (mixed[i] & H) != 0;
    }
    EXPECT_INT(n_wrong, 0);
    free(want[0]);
    free(want[1]);
    batch_close(&b);
    buf_deinit(&tokens);
    unload(&l);
}

TEST(eight_sequences_in_a_batch_equal_each_alone)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (int i = 0; i < N_MODEL; i++) {
        if (test_long() || i % 4 == 0) many_against_alone(models[i], WRAP_NONE, "ref");
        if (test_long() || i % 4 != 0) many_against_alone(models[i], WRAP_NONE, NULL);
    }
}

/* ---- through a counting backend (counting.h) ---- */

TEST(golden_logits_through_a_counting_backend)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    for (int i = 0; i < N_MODEL; i++) {
        compare_through(WRAP_COUNTING, models[i], "", "logits.f32");
        compare_through(WRAP_PLAIN, models[i], gguf_of(i), "logits.f32");
        if (!test_long() && i % 5 != 0) continue;
        many_against_alone(models[i], i % 2 ? WRAP_COUNTING : WRAP_PLAIN, NULL);
    }
    compare_through(WRAP_COUNTING, "qwen3moe-fp8", "", "logits.f32");
    for (int i = 0; i < N_CROSS; i++) {
        compare_through(WRAP_COUNTING, crossed[i], "", "logits.f32");
        compare_through(WRAP_PLAIN, crossed[i], "", "logits.f32");
    }
}

/* Goal: the counting backend gives the bits of the CPU's backend, with the default activations, at
 * every level, in chunks. */
TEST(same_bits_through_a_counting_backend)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    static const char *const files[][2] = {{"llama3", "model-q8_0.gguf"},
                                           {"olmo2", "model.gguf"},
                                           {"qwen2", "model.gguf"},
                                           {"gemma3", "model.gguf"},
                                           {"qwen3moe", "model.gguf"}};
    int n_level = 0;
    while (kern_levels()[n_level]) n_level++;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct base b = {files[i][0], files[i][1], plain};
        struct buf tokens = slurp(golden(b.model, "tokens.i32"));
        struct loaded l;
        struct err e;
        b.setup.act = ACT_CHOICE_AUTO;
        int rc = load(&l, golden(b.model, b.file), &b.setup, &e);
        if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
        struct logits want = rc == 0 ? logits_of(&l, &tokens, 0) : (struct logits){0};
        unload(&l);
        for (int level = 0; level < n_level && rc == 0; level++)
            for (int wrap = WRAP_COUNTING; wrap <= WRAP_PLAIN; wrap++) {
                struct setup s = b.setup;
                if (!test_long() && level != ((int)i * 2 + wrap) % n_level) continue;
                s.level = kern_levels()[level], s.wrap = (enum wrap)wrap, s.n_thread = 3;
                variant("a counting backend", &b, &want, s, 31, &tokens);
            }
        free(want.v);
        buf_deinit(&tokens);
    }
}

/* Method: count the calls of the backend in a step of one sequence. The batch is copied to the
 * device once. Only the logits are copied back, once. The only other copies are a row of the rope's
 * tables for each new position. */
TEST(a_step_sends_its_batch_and_fetches_its_logits_once)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct setup s = plain;
    struct loaded l;
    struct err e;
    s.wrap = WRAP_COUNTING;
    NEED_OK(load(&l, golden("llama3", ""), &s, &e), &e);
    struct buf tokens = slurp(golden("llama3", "tokens.i32"));
    const int64_t n_step = (int64_t)(tokens.n / 4), vectors = counting_calls(l.b, COUNT_write);
    EXPECT_INT(counting_calls(l.b, COUNT_read), 0);
    /* only norms are counted, because the model has no biases */
    EXPECT_INT(vectors, 2 * model_info(l.m)->n_layer + 1);
    struct logits got = logits_of(&l, &tokens, 1);
    EXPECT_INT(counting_calls(l.b, COUNT_begin), n_step);
    EXPECT_INT(counting_calls(l.b, COUNT_embed), n_step);
    EXPECT_INT(counting_calls(l.b, COUNT_read), n_step);
    EXPECT_INT(counting_bytes(l.b, COUNT_read), n_step * got.n_vocab * 4);
    EXPECT_INT(counting_calls(l.b, COUNT_write) - vectors, 2 * n_step);
    EXPECT_INT(counting_calls(l.b, COUNT_attn), n_step * model_info(l.m)->n_layer);
    EXPECT_INT(counting_calls(l.b, COUNT_copy), 0);
    free(got.v);
    buf_deinit(&tokens);
    unload(&l);
}

static void add_trace(void *ctx, int layer, const char *name, const float *x, int n_row, int64_t n)
{
    uint64_t *h = ctx;
    (void)layer, (void)name;
    *h = recorded_hash(*h, x, (size_t)n_row * (size_t)n * sizeof *x);
}

TEST(intermediates_are_fetched_through_the_door)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    uint64_t hash[2] = {RECORDED_BEGIN, RECORDED_BEGIN};
    for (int i = 0; i < 2; i++) {
        struct setup s = plain;
        struct loaded l;
        struct err e;
        s.wrap = i ? WRAP_COUNTING : WRAP_NONE;
        NEED_OK(load(&l, golden("gemma3", ""), &s, &e), &e);
        struct buf tokens = slurp(golden("gemma3", "tokens.i32"));
        model_trace(l.m, add_trace, &hash[i]);
        struct logits got = logits_of(&l, &tokens, 7);
        EXPECT(hash[i] != RECORDED_BEGIN);
        free(got.v);
        buf_deinit(&tokens);
        unload(&l);
    }
    EXPECT(hash[0] == hash[1]);
}

/* Goal: the tests with a counting backend detect a fault. Method: access the backend's memory
 * outside of ops. */
TEST(memory_behind_the_door_cannot_be_touched)
{
    for (int write = 0; write < 2; write++) {
        struct backend *b;
        struct err e;
        NEED_OK(test_backend(&b, WRAP_COUNTING, &(struct backend_options){.n_thread = 1}, &e), &e);
        volatile float *x = b->op->alloc(b, 4096);
        NEED(x);
        pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would report the signal */
            if (write)
                x[7] = 1;
            else
                (void)x[7];
            _exit(0);
        }
        int status = 0;
        EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
               WTERMSIG(status) == SIGSEGV);
        b->op->release(b, (void *)(uintptr_t)x, 4096);
        backend_close(b);
    }
}

/* Compare one file with one setup with the recorded bits, at every level of this CPU, or at one
 * level. The recorded bits are equal at all levels. only: index of a level; -1: every level */
static void compare_recorded(struct recorded *r, const struct base *b, const struct buf *tokens,
                             const char *act, int only)
{
    char key[96];
    snprintf(key, sizeof key, "%s/%s act=%s kv=%s", b->model, *b->file ? b->file : "safetensors",
             act, kv_type_name(b->setup.kv));
    for (const char *const *level = kern_levels(); *level; level++) {
        struct setup s = b->setup;
        struct loaded l;
        struct err e;
        if (only >= 0 && level != kern_levels() + only) continue;
        s.level = *level;
        int rc = load(&l, golden(b->model, b->file), &s, &e);
        if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
        struct logits got = rc == 0 ? logits_of(&l, tokens, 0) : (struct logits){0};
        if (rc == 0)
            recorded_compare(r, key,
                             recorded_hash(RECORDED_BEGIN, got.v,
                                           (size_t)got.n * (size_t)got.n_vocab * sizeof *got.v),
                             *level);
        free(got.v);
        unload(&l);
    }
}

/* Return the index of a random level. Under `make long` return -1, for every level. */
static int some_level(uint64_t *rng)
{
    uint64_t n = 0;
    while (kern_levels()[n]) n++;
    return test_long() ? -1 : (int)rng_below(rng, n);
}

/* Compare a file with each KV type, and with the default activations. The sample of a file has one
 * of the KV types, and one level each. */
static void record_file(struct recorded *r, const char *model, const char *file, int n_kv,
                        uint64_t *rng)
{
    struct buf tokens = slurp(golden(model, "tokens.i32"));
    struct base b = {model, file, plain};
    const int only = (int)rng_below(rng, (uint64_t)n_kv);
    for (int kv = 0; kv < n_kv; kv++) {
        if (!test_long() && kv != only) continue;
        b.setup.kv = (enum kv_type)kv;
        b.setup.act = ACT_CHOICE_F32;
        compare_recorded(r, &b, &tokens, "f32", some_level(rng));
    }
    b.setup.kv = KV_F16;
    b.setup.act = ACT_CHOICE_AUTO;
    compare_recorded(r, &b, &tokens, "auto", some_level(rng));
    buf_deinit(&tokens);
}

/* Record logits after 512 positions, at which attention merges two spans. The text is computed in
 * chunks, because the batch has at most 128 rows. */
static void record_long(struct recorded *r)
{
    struct buf tokens = slurp(golden("llama3", "tokens.i32")), many = {0};
    struct base b = {"../../models/quoth-tiny", "quoth-tiny-q8_0.gguf", plain};
    for (int i = 0; i < 9; i++) buf_add(&many, tokens.data, tokens.n);
    b.setup.context = 800;
    b.setup.kv = KV_Q8;
    b.setup.act = ACT_CHOICE_AUTO;
    int n_level = 0;
    while (kern_levels()[n_level]) n_level++;
    /* the sample has the best level, because the reference takes seconds */
    compare_recorded(r, &b, &many, "auto, 720 tokens", test_long() ? -1 : n_level - 1);
    buf_deinit(&tokens);
    buf_deinit(&many);
}

TEST(recorded_logits)
{
    static struct recorded r;
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    uint64_t rng = 1;
    recorded_open(&r, "logits.txt");
    for (int i = 0; i < N_MODEL; i++) record_file(&r, models[i], "", 1, &rng);
    for (int i = 0; i < N_GGUF; i++) record_file(&r, models[i], "model.gguf", KV_TYPE_COUNT, &rng);
    record_file(&r, "llama3", "model-q8_0.gguf", 1, &rng);
    record_file(&r, "llama3", "model-q4_1.gguf", 1, &rng);
    record_long(&r);
    for (int i = 0; i < N_CROSS; i++) record_file(&r, crossed[i], "", 1, &rng);
    for (int i = 0; i < N_CROSS_GGUF; i++)
        record_file(&r, crossed[i], "model.gguf", KV_TYPE_COUNT, &rng);
    recorded_close(&r, !test_long());
}
