/* Goal: a model with an adapter equals a model whose weights contain the adapter. Rows of other
 * adapters do not change a bit of a request. An invalid adapter is rejected by its field or tensor.
 * Method: random adapters for the golden models, written here in PEFT's format. */
#include "../../tests/door/counting.h"
#include "../../tests/unit.h"

#include "adapter/adapter.h"
#include "base/os.h"
#include "base/rng.h"
#include "session.h"

#include <math.h>
#include <stdlib.h>

/* ---- files ---- */

/* A safetensors file with f32 tensors. */
struct made {
    struct buf header, data;
};

static void made_begin(struct made *m)
{
    *m = (struct made){0};
    buf_add_text(&m->header, "{");
}

static void made_add(struct made *m, const char *name, const float *v, int64_t n_out, int64_t k)
{
    char shape[64];
    if (n_out)
        snprintf(shape, sizeof shape, "%lld,%lld", (long long)n_out, (long long)k);
    else
        snprintf(shape, sizeof shape, "%lld", (long long)k);
    const size_t n = (size_t)((n_out ? n_out : 1) * k) * sizeof *v, at = m->data.n;
    buf_addf(&m->header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
             m->header.n > 1 ? "," : "", name, shape, at, at + n);
    buf_add(&m->data, (const char *)v, n);
}

static void made_end(struct made *m, const char *path)
{
    struct buf b = {0};
    struct err e;
    buf_add_char(&m->header, '}');
    for (int i = 0; i < 8; i++) buf_add_char(&b, (char)(m->header.n >> (8 * i)));
    buf_add(&b, m->header.data, m->header.n);
    buf_add(&b, m->data.data, m->data.n);
    if (file_write(path, b.data, b.n, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    buf_deinit(&b);
    buf_deinit(&m->header);
    buf_deinit(&m->data);
}

/* ---- adapters ---- */

enum { N_PART = 26 };
static const char *const parts[N_PART] = {"self_attn.q_proj",
                                          "self_attn.k_proj",
                                          "self_attn.v_proj",
                                          "self_attn.o_proj",
                                          "mlp.gate_proj",
                                          "mlp.up_proj",
                                          "mlp.down_proj",
                                          "self_attn.qkv_proj",
                                          "mlp.gate_up_proj",
                                          "attn.c_attn",
                                          "mlp.c_fc",
                                          "attention.query_key_value",
                                          "self_attention.query_key_value",
                                          "self_attn.q_a_proj",
                                          "self_attn.q_b_proj",
                                          "self_attn.kv_a_proj_with_mqa",
                                          "self_attn.kv_b_proj",
                                          "layer.0.SelfAttention.q",
                                          "layer.0.SelfAttention.o",
                                          "layer.1.EncDecAttention.k",
                                          "layer.1.EncDecAttention.v",
                                          "layer.1.DenseReluDense.wi_0",
                                          "layer.2.DenseReluDense.wo",
                                          "encoder_attn.k_proj",
                                          "encoder_attn.out_proj",
                                          "fc1"};

static const char all_seven[] =
    "{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":6,\"bias\":\"none\","
    "\"target_modules\":[\"q_proj\",\"k_proj\",\"v_proj\",\"o_proj\","
    "\"gate_proj\",\"up_proj\",\"down_proj\"]}";

/* An adapter's config, and the rank and scale that it gives a part. */
struct kind {
    const char *config;
    unsigned parts; /* bit of each part with tensors */
    int rank[N_PART];
    float scale[N_PART];
};

static const struct kind plain = {
    all_seven, 127, {4, 4, 4, 4, 4, 4, 4}, {1.5f, 1.5f, 1.5f, 1.5f, 1.5f, 1.5f, 1.5f}};

static float *random_values(uint64_t *rng, int64_t n)
{
    float *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; v && i < n; i++) v[i] = rng_float(rng) * 0.4f - 0.2f;
    return v;
}

/* Add scale * b a to w [n_out, k]; transposed: to w [k, n_out]. */
static void merge(float *w, const float *a, const float *b, int64_t n_out, int64_t k, int rank,
                  float scale, bool transposed)
{
    for (int64_t i = 0; i < n_out; i++)
        for (int64_t j = 0; j < k; j++) {
            double sum = 0;
            for (int r = 0; r < rank; r++) sum += (double)b[i * rank + r] * a[r * k + j];
            float *to = transposed ? &w[j * n_out + i] : &w[i * k + j];
            *to = (float)(*to + scale * sum);
        }
}

/* Return the part of a tensor of layer N, "model.layers.N.PART.weight". -1 if it has none. */
static int part_of(const char *name)
{
    const char *number = strpbrk(name, "0123456789"), *at = number ? strchr(number, '.') : NULL;
    for (int i = 0; at && i < N_PART; i++)
        if (strncmp(at + 1, parts[i], strlen(parts[i])) == 0 && strstr(at, ".weight")) return i;
    return -1;
}

static void copy_file(const char *from, const char *to, const char *name)
{
    struct buf b = {0};
    struct err e;
    char path[600];
    snprintf(path, sizeof path, "%s/%s", from, name);
    if (file_read(&b, path, 1 << 24, &e) == 0) {
        snprintf(path, sizeof path, "%s/%s", to, name);
        file_write(path, b.data, b.n, &e);
    }
    buf_deinit(&b);
}

/* Write the files of an adapter to the temporary folder `to`. */
static void end_adapter(struct made *m, const char *to, const char *config)
{
    char name[300];
    snprintf(name, sizeof name, "%s/adapter_config.json", to);
    temp_put(name, config);
    snprintf(name, sizeof name, "%s/adapter_model.safetensors", to);
    made_end(m, temp_path(name));
}

/* Write the weights of a model to the temporary folder `to`, with the other files of the golden
 * model. golden: its path; NULL: write the weights alone. */
static void end_merged(struct made *m, const char *to, const char *golden)
{
    static const char *const files[] = {"config.json", "tokenizer.json", "tokenizer_config.json"};
    char name[300];
    snprintf(name, sizeof name, "%s/config.json", to);
    if (golden) temp_put(name, ""); /* makes the folder */
    for (int i = 0; golden && i < 3; i++) copy_file(repo_path(golden), temp_path(to), files[i]);
    snprintf(name, sizeof name, "%s/model.safetensors", to);
    made_end(m, temp_path(name));
}

/* Write a random adapter for the golden model to the temporary folder `to`, and a model whose
 * weights contain the adapter to `merged` (NULL if none). */
static void make_adapter(const char *to, const char *merged, const char *golden,
                         const struct kind *kind, uint64_t seed)
{
    struct made adapter, model;
    struct checkpoint *c = NULL;
    struct err e;
    char path[400], name[200];
    snprintf(path, sizeof path, "tests/golden/%s", golden);
    if (checkpoint_open(&c, repo_path(path), &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    made_begin(&adapter);
    made_begin(&model);
    for (int i = 0; i < checkpoint_n_tensor(c); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(c, i);
        const int part = part_of(t->name_raw);
        /* the matrices of gpt2's layers are transposed */
        const bool transposed = part >= 0 && strcmp(golden, "gpt2") == 0;
        const int64_t k = t->dim[transposed], n_out = t->dim[!transposed];
        const int64_t n = t->dim[0] * (t->n_dim > 1 ? t->dim[1] : 1);
        float *w = malloc((size_t)n * sizeof *w);
        qtype_info[t->type].ops->decode(w, t->data, n);
        if (part >= 0 && (kind->parts >> part & 1)) {
            const int rank = kind->rank[part];
            float *a = random_values(&seed, rank * k), *b = random_values(&seed, n_out * rank);
            const int stem = (int)(strlen(t->name_raw) - strlen(".weight"));
            snprintf(name, sizeof name, "base_model.model.%.*s.lora_A.weight", stem, t->name_raw);
            made_add(&adapter, name, a, rank, k);
            snprintf(name, sizeof name, "base_model.model.%.*s.lora_B.weight", stem, t->name_raw);
            made_add(&adapter, name, b, n_out, rank);
            merge(w, a, b, n_out, k, rank, kind->scale[part], transposed);
            free(a), free(b);
        }
        made_add(&model, t->name_raw, w, t->n_dim > 1 ? t->dim[1] : 0, t->dim[0]);
        free(w);
    }
    end_adapter(&adapter, to, kind->config);
    end_merged(&model, merged ? merged : to, merged ? path : NULL);
    checkpoint_close(c);
}

/* ---- merged weights ---- */

enum { N_ID = 40 };

struct logits {
    float *v; /* [N_ID, n_vocab] */
    int n_vocab;
};

static void keep(void *ctx, int pos, const float *logits)
{
    struct logits *l = ctx;
    memcpy(l->v + (size_t)pos * (size_t)l->n_vocab, logits, (size_t)l->n_vocab * sizeof *l->v);
}

static int open_with(struct session *s, const char *path, const char *lora, struct err *e)
{
    struct session_options o = session_defaults;
    const struct session_size size = {.n_seq = 1, .n_out = 64};
    o.lora = lora;
    o.kv_cache_dtype = "float32";
    /* merged weights are f32, but the model's weights may have another type */
    o.activation_dtype = "f32";
    o.max_model_len = 64;
    o.max_num_batched_tokens = 24;
    o.pack_cache = false;
    o.threads = 1; /* one thread is fast on a busy machine */
    return session_open_as(s, path, &o, &size, e);
}

/* Set *l to the logits of a fixed text, whose first half is the source of an encoder. */
static bool logits_of(struct logits *l, const char *path, const char *lora)
{
    struct session s;
    struct err e = {0};
    int32_t ids[N_ID];
    *l = (struct logits){0};
    int rc = open_with(&s, path, lora, &e);
    if (rc == 0) {
        l->n_vocab = s.info->n_vocab;
        for (int i = 0; i < N_ID; i++) ids[i] = 3 + i * i * 7 % (l->n_vocab < 253 ? 90 : 250);
        l->v = calloc((size_t)l->n_vocab * N_ID, sizeof *l->v);
        rc = score_tokens(
            s.model, ids, N_ID,
            &(struct score_options){
                .chunk = 16, .n_source = s.info->n_start ? N_ID / 2 : 0, .fn = keep, .ctx = l},
            &e);
        session_close(&s);
    }
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s: %s", path, e.text);
    return rc == 0;
}

/* Return max|a - b| / max|b|. */
static double distance(const struct logits *a, const struct logits *b)
{
    double most = 0, apart = 0;
    for (int i = 0; i < N_ID * b->n_vocab; i++) {
        const double d = fabs((double)a->v[i] - b->v[i]);
        apart = d > apart || d != d ? d : apart;
        most = fabs((double)b->v[i]) > most ? fabs((double)b->v[i]) : most;
    }
    return apart / most;
}

TEST(adapter_equals_merged_weights)
{
    const struct kind kinds[] = {
        plain,
        /* alpha / sqrt(rank); a pattern is a regular expression */
        {"{\"peft_type\":\"LORA\",\"r\":9,\"lora_alpha\":2,\"use_rslora\":true,"
         "\"rank_pattern\":{\"v_proj\":4,\"mlp\\\\.(gate|up)_proj\":1,\"proj\":2},"
         "\"alpha_pattern\":{\"v_proj\":0.5},\"target_modules\":\".*(q|v|gate|down)_proj\","
         "\"lora_dropout\":0.1,\"some_field_of_2027\":null}",
         1 | 4 | 16 | 64,
         {9, 0, 4, 0, 1, 0, 9},
         {2 / 3.f, 0, 0.25f, 0, 2, 0, 2 / 3.f}},
        /* a rank that is not a multiple of a SIMD vector */
        {"{\"peft_type\":\"LORA\",\"r\":33,\"lora_alpha\":33,\"target_modules\":\"all-linear\"}",
         8 | 32,
         {0, 0, 0, 33, 0, 33, 0},
         {0, 0, 0, 1, 0, 1, 0}},
        {"{\"peft_type\":\"LORA\",\"r\":3,\"lora_alpha\":6,\"target_modules\":[\"q_proj\","
         "\"k_proj\",\"self_attn.v_proj\",\"o_proj\"]}",
         15,
         {3, 3, 3, 3},
         {2, 2, 2, 2}},
        {"{\"peft_type\":\"LORA\",\"r\":5,\"lora_alpha\":10,"
         "\"target_modules\":[\"qkv_proj\",\"gate_up_proj\",\"down_proj\"]}",
         64 | 128 | 256,
         {0, 0, 0, 0, 0, 0, 5, 5, 5},
         {0, 0, 0, 0, 0, 0, 2, 2, 2}},
        /* PEFT writes fan_in_fan_out for transposed matrices, but does not transpose its own
         * matrices */
        {"{\"peft_type\":\"LORA\",\"r\":5,\"lora_alpha\":10,\"fan_in_fan_out\":true,"
         "\"target_modules\":[\"c_attn\",\"c_fc\"]}",
         512 | 1024,
         {0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5},
         {0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2}},
        {"{\"peft_type\":\"LORA\",\"r\":5,\"lora_alpha\":10,"
         "\"target_modules\":[\"query_key_value\"]}",
         2048 | 4096,
         {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5},
         {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2}},
        {"{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"q_a_proj\","
         "\"q_b_proj\",\"kv_a_proj_with_mqa\",\"kv_b_proj\",\"o_proj\"]}",
         8 | 15 << 13,
         {0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4},
         {0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2}},
        {"{\"peft_type\":\"LORA\",\"r\":5,\"lora_alpha\":10,"
         "\"target_modules\":[\"q\",\"k\",\"v\",\"o\",\"wi_0\",\"wo\"]}",
         63 << 17,
         {[17] = 5, 5, 5, 5, 5, 5},
         {[17] = 2, 2, 2, 2, 2, 2}},
        {"{\"peft_type\":\"LORA\",\"r\":5,\"lora_alpha\":10,"
         "\"target_modules\":[\"q_proj\",\"k_proj\",\"out_proj\",\"fc1\"]}",
         1 | 7 << 23,
         {5, [23] = 5, 5, 5},
         {2, [23] = 2, 2, 2}},
    };
    enum {
        QKV = 3,
        FUSED = 4,
        GPT2 = 5,
        GROUPS = 6,
        LATENT = 7,
        T5 = 8,
        BART = 9
    }; /* parts of certain models */
    static const struct {
        const char *golden, *gguf; /* gguf: another file of the same weights; NULL if none */
        size_t first, last;        /* range of kinds */
    } models[] = {
        {"llama3", "tests/golden/llama3/model.gguf", 0, QKV},
        {"qwen3", "tests/golden/qwen3/model.gguf", 0, QKV},
        {"gemma3", NULL, 0, QKV},
        {"gemma4", "tests/golden/gemma4/model.gguf", QKV, QKV},
        {"qwen2", NULL, 0, QKV},
        {"qwen3moe", "tests/golden/qwen3moe/model.gguf", QKV, QKV}, /* experts */
        {"smollm3", "tests/golden/smollm3/model.gguf", 0, QKV},
        {"mistral", "tests/golden/mistral/model.gguf", 0, QKV},
        {"olmo2", NULL, 0, QKV},
        {"granite", "tests/golden/granite/model.gguf", 0, QKV},
        {"glm4", "tests/golden/glm4/model.gguf", QKV, QKV}, /* gate and up are one matrix */
        {"phi3", "tests/golden/phi3/model.gguf", FUSED, FUSED},
        {"gpt2", "tests/golden/gpt2/model.gguf", GPT2, GPT2},
        {"gpt_neox", "tests/golden/gpt_neox/model.gguf", GROUPS, GROUPS},
        {"falcon", "tests/golden/falcon/model.gguf", GROUPS, GROUPS},
        {"minicpm3", "tests/golden/minicpm3/model.gguf", LATENT, LATENT},
        {"cross/mt5", "tests/golden/cross/mt5/model.gguf", T5, T5},
        {"cross/bart", NULL, BART, BART}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        for (size_t k = models[i].first; k <= models[i].last; k++) {
            char path[100];
            struct logits base, merged, with, gguf;
            snprintf(path, sizeof path, "tests/golden/%s", models[i].golden);
            if (!dir_exists(repo_path(path))) SKIP("tests/golden is not here");
            if (k == 2 && i > 0) continue; /* d_model is less than the rank */
            make_adapter("lora", "merged", models[i].golden, &kinds[k], 7 + i);
            NEED(logits_of(&base, repo_path(path), NULL));
            NEED(logits_of(&merged, temp_path("merged"), NULL));
            NEED(logits_of(&with, repo_path(path), temp_path("lora")));
            const double apart = distance(&with, &merged), from_base = distance(&with, &base);
            /* norms of gemma4 amplify rounding: 1e-6 to 2e-4 for 12 random adapters */
            const double limit = strcmp(models[i].golden, "gemma4") == 0 ? 5e-4 : 1e-5;
            if (!(apart <= limit && from_base > 1e-2))
                test_fail(__FILE__, __LINE__, "%s, adapter %zu: %g from merged, %g from base",
                          models[i].golden, k, apart, from_base);
            if (models[i].gguf) {
                NEED(logits_of(&gguf, repo_path(models[i].gguf), temp_path("lora")));
                if (!(distance(&gguf, &merged) <= limit))
                    test_fail(__FILE__, __LINE__, "%s, adapter %zu: %g from merged", models[i].gguf,
                              k, distance(&gguf, &merged));
                free(gguf.v);
            }
            free(base.v), free(merged.v), free(with.v);
        }
}

/* Set *l to the logits of a fixed text with the adapter "lora", on a backend of this kind and
 * kernel level. */
static int logits_on(struct logits *l, enum wrap wrap, const char *level, struct err *e)
{
    struct checkpoint *c = NULL;
    struct backend *b = NULL;
    struct model *m = NULL;
    struct additions a = {0};
    const struct backend_options bo = {.n_thread = 1, .cpu_level = level};
    int32_t ids[N_ID];
    for (int i = 0; i < N_ID; i++) ids[i] = 3 + i * i * 7 % 250;
    int rc = checkpoint_open(&c, repo_path("tests/golden/llama3"), e);
    if (rc == 0) rc = test_backend(&b, wrap, &bo, e);
    const struct model_options mo = {.backend = b,
                                     .context_max = 64,
                                     .batch = {.n_row = 24, .n_seq = 1, .n_out = 64},
                                     .additions = &a};
    if (rc == 0) rc = adapters_open(&a, temp_path("lora"), &(struct text_list){0}, e);
    if (rc == 0) rc = model_open(&m, c, &mo, e);
    if (rc == 0) rc = adapters_bind(&a, m, b, e);
    l->n_vocab = rc == 0 ? model_info(m)->n_vocab : 0;
    l->v = calloc((size_t)l->n_vocab * N_ID + 1, sizeof *l->v);
    if (rc == 0) rc = score_tokens(m, ids, N_ID, &(struct score_options){.fn = keep, .ctx = l}, e);
    model_close(m);
    adapters_close(&a);
    backend_close(b);
    checkpoint_close(c);
    return rc;
}

TEST(adapters_have_the_same_bits_on_every_backend)
{
    struct err e = {0};
    struct logits want = {0};
    if (!dir_exists(repo_path("tests/golden/llama3"))) SKIP("tests/golden is not here");
    make_adapter("lora", NULL, "llama3", &plain, 11);
    NEED_OK(logits_on(&want, WRAP_NONE, "ref", &e), &e);
    for (int i = 0; kern_levels()[i]; i++)
        for (int wrap = WRAP_NONE; wrap <= WRAP_PLAIN; wrap++) {
            struct logits got = {0};
            int rc = logits_on(&got, (enum wrap)wrap, kern_levels()[i], &e);
            const size_t n = (size_t)want.n_vocab * N_ID * sizeof *want.v;
            if (rc == 0 && memcmp(got.v, want.v, n) != 0)
                test_fail(__FILE__, __LINE__, "%s, backend %d differs", kern_levels()[i], wrap);
            if (rc != 0 && rc != ERR_UNSUPPORTED) test_fail(__FILE__, __LINE__, "%s", e.text);
            free(got.v);
        }
    free(want.v);
}

/* ---- IA3 ---- */

/* A golden model, IA3's modules, and modules whose inputs are scaled. */
struct ia3_case {
    const char *golden, *config;
    unsigned parts, inputs; /* bits of `parts` */
};

/* Write an IA3 adapter to `to`, and a model whose weights and biases contain it to `merged`. */
static void make_ia3(const char *to, const char *merged, const struct ia3_case *k, uint64_t seed)
{
    struct made adapter, model;
    struct checkpoint *c = NULL;
    struct err e;
    char path[400], name[300];
    float *factor[16][N_PART] = {{NULL}};
    snprintf(path, sizeof path, "tests/golden/%s", k->golden);
    if (checkpoint_open(&c, repo_path(path), &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    made_begin(&adapter);
    made_begin(&model);
    for (int pass = 0; pass < 2; pass++) /* weights give the sizes, so they precede biases */
        for (int i = 0; i < checkpoint_n_tensor(c); i++) {
            const struct tensor_info *t = checkpoint_tensor_at(c, i);
            const char *digit = strpbrk(t->name_raw, "0123456789"),
                       *dot = strrchr(t->name_raw, '.');
            const bool bias = dot && strcmp(dot, ".bias") == 0;
            const int64_t n_out = t->n_dim > 1 ? t->dim[1] : 1, n = t->dim[0] * n_out;
            if (bias != (pass == 1)) continue;
            int part = -1;
            for (int p = 0; digit && p < N_PART; p++)
                if (k->parts >> p & 1 && strstr(t->name_raw, parts[p])) part = p;
            float *w = malloc((size_t)n * sizeof *w);
            qtype_info[t->type].ops->decode(w, t->data, n);
            if (part >= 0) {
                const bool in = k->inputs >> part & 1;
                float **f = &factor[*digit - '0'][part];
                const int64_t n_f = bias ? t->dim[0] : in ? t->dim[0] : n_out;
                if (!*f) {
                    *f = random_values(&seed, n_f);
                    for (int64_t j = 0; j < n_f; j++) (*f)[j] = 1 + 3 * (*f)[j];
                    snprintf(name, sizeof name, "base_model.model.%.*s.ia3_l",
                             (int)(dot - t->name_raw), t->name_raw);
                    made_add(&adapter, name, *f, in ? 1 : n_f, in ? n_f : 1);
                }
                for (int64_t j = 0; j < n; j++)
                    if (bias ? !in : true)
                        w[j] *= (*f)[bias ? j : in ? j % t->dim[0] : j / t->dim[0]];
            }
            made_add(&model, t->name_raw, w, t->n_dim > 1 ? t->dim[1] : 0, t->dim[0]);
            free(w);
        }
    for (int i = 0; i < 16; i++)
        for (int p = 0; p < N_PART; p++) free(factor[i][p]);
    end_adapter(&adapter, to, k->config);
    end_merged(&model, merged, path);
    checkpoint_close(c);
}

#define IA3(targets, inputs)                                                                       \
    "{\"peft_type\":\"IA3\",\"target_modules\":" targets ",\"feedforward_modules\":" inputs        \
    ",\"fan_in_fan_out\":false,\"init_ia3_weights\":true,\"task_type\":\"CAUSAL_LM\"}"

static const struct ia3_case ia3_cases[] = {
    {"llama3", IA3("[\"k_proj\",\"v_proj\",\"down_proj\"]", "[\"down_proj\"]"), 2 | 4 | 64, 64},
    {"qwen2",
     IA3("[\"q_proj\",\"k_proj\",\"v_proj\",\"o_proj\",\"up_proj\",\"down_proj\"]",
         "[\"o_proj\",\"up_proj\"]"),
     1 | 2 | 4 | 8 | 32 | 64, 8 | 32},
    {"phi3", IA3("[\"qkv_proj\",\"down_proj\"]", "[\"down_proj\"]"), 128 | 64, 64}};

TEST(ia3_equals_scaled_weights)
{
    static const char *const files[] = {"", "/model.gguf"};
    char file[400];
    if (!dir_exists(repo_path("tests/golden/llama3"))) SKIP("tests/golden is not here");
    for (size_t i = 0; i < sizeof ia3_cases / sizeof ia3_cases[0]; i++)
        for (int k = 0; k < 2; k++) {
            struct logits want, got, plain_logits;
            make_ia3("ia3", "ia3-merged", &ia3_cases[i], 40 + i);
            snprintf(file, sizeof file, "tests/golden/%s%s", ia3_cases[i].golden, files[k]);
            const bool ok = logits_of(&want, temp_path("ia3-merged"), NULL) &
                            logits_of(&got, repo_path(file), temp_path("ia3")) &
                            logits_of(&plain_logits, repo_path(file), NULL);
            if (ok && !(distance(&got, &want) <= 1e-5))
                test_fail(__FILE__, __LINE__, "%s: %g from scaled weights", file,
                          distance(&got, &want));
            EXPECT(!ok || distance(&plain_logits, &want) > 1e-2);
            free(want.v), free(got.v), free(plain_logits.v);
        }
}

/* ---- neighbours ---- */

enum { N_ADAPTER = 3, N_ANSWER = 12, N_PROMPT = 37 };

struct answer {
    int n, n_cached;
    int32_t token[N_ANSWER];
    float logprob[N_ANSWER];
};

static int submit(struct engine *en, struct queue *q, int prompt, int adapter, struct err *e)
{
    struct request *r = request_open(e);
    for (int i = 0; i < N_PROMPT; i++)
        (void)!vec_push(&r->prompt, 3 + (i * i + (i > 20 ? prompt : 0)) % 200);
    r->max_tokens = N_ANSWER;
    r->adapter = adapter;
    r->params.temperature = 0;
    r->params.ignore_eos = true;
    r->params.n_logprob = 0;
    r->reply = q;
    return engine_submit(en, r, e);
}

static void collect(struct engine *en, struct queue *const *q, struct answer *a, int n)
{
    struct event ev;
    for (int left = n; left > 0;) {
        engine_step(en);
        for (int i = 0; i < n; i++)
            while (queue_pop(q[i], &ev, 0)) {
                if (ev.kind == EVENT_DONE) left--, a[i].n_cached = ev.usage.n_cached;
                if (ev.kind != EVENT_TOKEN || a[i].n == N_ANSWER) continue;
                a[i].token[a[i].n] = ev.token;
                a[i].logprob[a[i].n++] = ev.chosen.logprob;
            }
    }
}

/* Check three adapters: none, a LoRA, and a LoRA or IA3. */
static void check_batch(bool ia3)
{
    enum { N = 9 }; /* three prompts with three adapters each; prompts share their first page */
    struct err e = {0};
    struct session s;
    struct session_options o = session_defaults;
    struct engine_options eo;
    struct answer alone[N] = {{0}}, mixed[2][N] = {{{0}}};
    struct queue *q[N];
    char named[2][300];
    const char *words[] = {named[0], named[1]};
    if (!dir_exists(repo_path("tests/golden/llama3"))) SKIP("tests/golden is not here");
    make_adapter("one", NULL, "llama3", &plain, 5);
    make_adapter("two", NULL, "llama3", &plain, 6);
    if (ia3) make_ia3("two", "ia3-merged", &ia3_cases[0], 6);
    snprintf(named[0], sizeof named[0], "one=%s", temp_path("one"));
    snprintf(named[1], sizeof named[1], "two=%s", temp_path("two"));
    o.lora_modules = (struct text_list){.v = words, .n = 2};
    o.pack_cache = false;
    o.block_size = 16;
    o.threads = 1;
    o.max_num_batched_tokens = 23; /* chunks of prompts next to decodes */
    NEED_OK(session_open_as(&s, repo_path("tests/golden/llama3"), &o, &session_many, &e), &e);
    EXPECT_INT(session_adapter(&s, "one"), 1);
    EXPECT_INT(session_adapter(&s, "two"), 2);
    EXPECT_INT(session_adapter(&s, "three"), 0);
    for (int i = 0; i < N; i++) q[i] = engine_reply_queue();
    for (int i = 0; i < N; i++) { /* a new engine for each, so nothing is cached */
        session_engine_options(&eo, &s, &o);
        NEED_OK(engine_open(&s.engine, &eo, &e), &e);
        NEED_OK(submit(s.engine, q[i], i / N_ADAPTER, i % N_ADAPTER, &e), &e);
        collect(s.engine, &q[i], &alone[i], 1);
        engine_close(s.engine);
    }
    eo.check = true;
    NEED_OK(engine_open(&s.engine, &eo, &e), &e);
    for (int turn = 0; turn < 2; turn++) { /* the second request finds the pages of the first one */
        for (int i = 0; i < N; i++)
            NEED_OK(submit(s.engine, q[i], i / N_ADAPTER, i % N_ADAPTER, &e), &e);
        collect(s.engine, q, mixed[turn], N);
        for (int i = 0; i < N; i++) {
            EXPECT(turn == 0 || mixed[turn][i].n_cached == 32);
            EXPECT(memcmp(mixed[turn][i].token, alone[i].token, sizeof alone[i].token) == 0);
            EXPECT(memcmp(mixed[turn][i].logprob, alone[i].logprob, sizeof alone[i].logprob) == 0);
        }
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++)
            EXPECT(memcmp(alone[i].logprob, alone[k].logprob, sizeof alone[i].logprob) != 0);
    for (int i = 0; i < N; i++) queue_close(q[i]);
    session_close(&s);
}

TEST(adapters_in_a_batch_do_not_change_other_rows)
{
    check_batch(false);
    check_batch(true);
}

/* ---- invalid adapters ---- */

/* Expect that the golden model with the folder "bad" does not open, with this error. */
static void expect_refusal(const char *want)
{
    struct session s;
    struct err e = {0};
    int rc = open_with(&s, repo_path("tests/golden/llama3"), temp_path("bad"), &e);
    if (rc == 0) session_close(&s);
    if (rc == 0 || !strstr(e.text, want))
        test_fail(__FILE__, __LINE__, "\"%s\", expected: %s", e.text, want);
}

TEST(adapters_with_other_fields_are_refused_by_name)
{
    static const char *const cases[][2] = {
        {"{\"peft_type\":\"LOHA\"}", "peft_type"},
        {"{}", "peft_type"},
        {"[]", "expected an object"},
        {"{\"peft_type\":\"LORA\",\"use_dora\":true}", "use_dora: not supported yet (DoRA)"},
        {"{\"peft_type\":\"LORA\",\"bias\":\"all\"}", "bias: not supported yet"},
        {"{\"peft_type\":\"LORA\",\"modules_to_save\":[\"lm_head\"]}", "modules_to_save"},
        {"{\"peft_type\":\"LORA\",\"init_lora_weights\":\"pissa\"}", "init_lora_weights"},
        {"{\"peft_type\":\"LORA\",\"new_field\":false}", "new_field: not supported yet"},
        {"{\"peft_type\":\"LORA\",\"r\":0}", "r: must be in [1, 65536], got 0"},
        {"{\"peft_type\":\"LORA\",\"r\":4.5}", "r: expected an integer"},
        {"{\"peft_type\":\"LORA\",\"r\":99}", "r: must be at most 64, got 99"},
        {"{\"peft_type\":\"LORA\",\"r\":3}", "expected [3, 64], got [4, 64]"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":\"4\"}", "lora_alpha: expected a number"},
        {"{\"peft_type\":\"LORA\",\"use_rslora\":1}", "use_rslora: expected true or false"},
        {"{\"peft_type\":\"LORA\",\"rank_pattern\":[1]}", "rank_pattern: expected an object"},
        {"{\"peft_type\":\"LORA\",\"rank_pattern\":{\"(\":1}}", "must be a regular expression"},
        {"{\"peft_type\":\"LORA\",\"alpha_pattern\":{\"q_proj\":\"a\"}}", "alpha_pattern"},
        {"{\"peft_type\":\"LORA\",\"r\":4,\"target_modules\":[\"q_proj\"]}",
         "target_modules: must match all modules with tensors, got no match of "
         "model.layers.0.self_attn.k_proj"},
        {"{\"peft_type\":\"LORA\",\"r\":4,\"target_modules\":\"(a+)+b\"}", "target_modules"},
        {"{\"peft_type\":\"LORA\",\"feedforward_modules\":[\"up_proj\"]}",
         "feedforward_modules: must not come with peft_type"},
        {"{\"peft_type\":\"LORA\",\"target_modules\":[1]}", "target_modules: expected a list"},
        {"{\"peft_type\":\"LORA\"", "adapter_config.json"},
    };
    if (!dir_exists(repo_path("tests/golden/llama3"))) SKIP("tests/golden is not here");
    make_adapter("bad", NULL, "llama3", &plain, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        temp_put("bad/adapter_config.json", cases[i][0]);
        expect_refusal(cases[i][1]);
    }
    temp_put("bad/adapter_config.json", "{\"peft_type\":\"LORA\",\"r\":4,\"target_modules\":"
                                        "[\"proj\",\"q_proj\"]}");
    expect_refusal("target_modules: must match all modules with tensors");
}

/* Replace each `from` by `to`, of equal length, in bad/adapter_model.safetensors. */
static void change(const char *from, const char *to)
{
    struct buf b = {0};
    struct err e;
    make_adapter("bad", NULL, "llama3", &plain, 1);
    const char *path = temp_path("bad/adapter_model.safetensors");
    if (file_read(&b, path, 1 << 24, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    for (char *at; (at = memmem(b.data, b.n, from, strlen(from)));) memcpy(at, to, strlen(to));
    file_write(path, b.data, b.n, &e);
    buf_deinit(&b);
}

TEST(adapters_with_other_tensors_are_refused_by_name)
{
    static const char *const cases[][3] = {
        {"layers.1.self_attn.q_proj", "layers.7.self_attn.q_proj", "layers.7.self_attn.q_proj"},
        {"layers.0.mlp.up_proj.lora_A", "layers.0.mlp.up_proj.lora_X", "lora_A.weight is missing"},
        {"layers.0.mlp.up_proj.lora_B", "layers.0.mlp.up_proj.lora_X", "lora_B.weight is missing"},
        {"model.layers.2.mlp.down_proj.", "model.layers.2.mlp.experts_0.", "experts_0"},
        {"base_model.model.", "base_model.modex.", "matrix of this name not found in the model"},
        {"[4,96]", "[96,4]", "expected [4, 96], got [96, 4]"},
        {"\"F32\"", "\"I32\"", "type I32: not supported yet"},
    };
    if (!dir_exists(repo_path("tests/golden/llama3"))) SKIP("tests/golden is not here");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        change(cases[i][0], cases[i][1]);
        expect_refusal(cases[i][2]);
    }
    struct kind some = plain;
    some.parts = 1;
    make_adapter("bad", NULL, "llama3", &some, 1);
    expect_refusal("target_modules: tensor of \"k_proj\" is missing");
}

TEST(adapter_values_must_be_finite)
{
    struct buf b = {0};
    struct err e;
    if (!dir_exists(repo_path("tests/golden/llama3"))) SKIP("tests/golden is not here");
    make_adapter("bad", NULL, "llama3", &plain, 1);
    NEED_OK(file_read(&b, temp_path("bad/adapter_model.safetensors"), 1 << 24, &e), &e);
    memcpy(b.data + b.n - 4, &(float){NAN}, 4);
    file_write(temp_path("bad/adapter_model.safetensors"), b.data, b.n, &e);
    expect_refusal("must be finite");
    /* a file that ends early, anywhere */
    for (size_t n = 0; n < b.n - 4; n += 1 + n / 7) {
        file_write(temp_path("bad/adapter_model.safetensors"), b.data, n, &e);
        expect_refusal("adapter_model.safetensors");
    }
    buf_deinit(&b);
}

TEST(adapters_are_named_once_each_and_are_folders)
{
    static const struct {
        const char *word[2], *want;
    } cases[] = {
        {{"name", NULL}, "lora-modules: must be NAME=PATH, got \"name\""},
        {{"=path", NULL}, "lora-modules: must be NAME=PATH"},
        {{"name=", NULL}, "lora-modules: must be NAME=PATH"},
        {{"a=nowhere", NULL}, "nowhere: expected a folder"},
        {{"a=x", "a=y"}, "lora-modules: must have one path for each name, got two for \"a\""},
        {{"{\"name\":\"a\",\"path\":\"x\"}", "a=y"},
         "lora-modules: must have one path for each name, got two for \"a\""},
        {{"{\"name\":\"a\",\"path\":\"nowhere\",\"base_model_name\":\"b\"}", NULL},
         "nowhere: expected a folder"},
        {{"{\"name\":\"a\",\"path\":\"x\",\"rank\":3}", NULL}, "lora-modules: must have"},
        {{"{\"name\":\"a\",\"path\":7}", NULL}, "lora-modules: must have"},
        {{"{\"name\":", NULL}, "lora-modules: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct session s;
        struct err e = {0};
        struct session_options o = session_defaults;
        const char *words[] = {cases[i].word[0], cases[i].word[1]};
        o.threads = 1;
        o.lora_modules = (struct text_list){.v = words, .n = words[1] ? 2 : 1};
        EXPECT(session_open_as(&s, repo_path("models/quoth-tiny/quoth-tiny-q8_0.gguf"), &o,
                               &session_many, &e) != 0);
        if (!strstr(e.text, cases[i].want))
            test_fail(__FILE__, __LINE__, "\"%s\", expected: %s", e.text, cases[i].want);
    }
}
