/* random_test.c - goal: random weights of a folder have the matrices and vectors of its real
 * weights, and a GGUF of random weights has the tensors of a converted folder. Method: bind and
 * convert each golden folder with its weights, and with random weights. A folder of a new
 * architecture is part of the test. */
#include "../../tests/unit.h"
#include "model_impl.h"

#include "base/os.h"
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>

/* A model of a folder. */
struct bound {
    struct checkpoint *c;
    struct model *m;
};

static void bound_close(struct bound *f)
{
    model_close(f->m);
    checkpoint_close(f->c);
}

/* Write the name of a matrix without its end and without the number of an expert. Random weights
 * have all experts in one tensor, and no codes. Gate and up of experts have one name, because
 * folders of one class have them in one tensor or in two. */
static void stem_of(char out[160], const char *name)
{
    const char *end = strstr(name, "_blocks");
    if (!end) end = strstr(name, ".weight");
    if (!end) end = strrchr(name, '.');
    size_t n = end ? (size_t)(end - name) : strlen(name), n_digit = 0;
    while (n_digit < n && isdigit((unsigned char)name[n - 1 - n_digit])) n_digit++;
    if (n_digit > 0 && name[n - 1 - n_digit] == '.') n -= n_digit + 1;
    snprintf(out, 160, "%.*s", (int)n, name);
    char *up = strstr(out, ".ffn_up_exps");
    if (!up) up = strstr(out, ".ffn_gate_exps");
    if (up) snprintf(up, (size_t)(out + 160 - up), ".ffn_gate_up_exps");
}

/* Return vector i of the model, without the orders of inputs of a quantized form. NULL after the
 * last one. */
static const struct vector *vector_at(const struct model *m, size_t i)
{
    for (size_t k = 0; k < m->vector.n; k++)
        if (!m->vector.v[k].index && i-- == 0) return &m->vector.v[k];
    return NULL;
}

/* Return true for a folder whose config.json does not describe its tensors: rwkv6 has no field for
 * the ranks, and transformers writes a tied head for mt5, whose head is separate. */
static bool is_undescribed(const char *path)
{
    return strstr(path, "/rwkv6") || strstr(path, "/mt5");
}

/* sizes: false to compare only the numbers of matrices and vectors. */
static void compare(const char *path, const struct model *want, const struct model *got, bool sizes)
{
    if (want->tensor.n != got->tensor.n)
        test_fail(__FILE__, __LINE__, "%s: %zu matrices, expected %zu", path, got->tensor.n,
                  want->tensor.n);
    for (size_t i = 0; i < want->tensor.n && i < got->tensor.n; i++) {
        const struct tensor *a = want->tensor.v[i], *b = got->tensor.v[i];
        char name[160], own[160];
        stem_of(name, a->name), stem_of(own, b->name);
        if (sizes && (strcmp(name, own) != 0 || a->n_out != b->n_out || a->k != b->k ||
                      a->n_expert != b->n_expert))
            test_fail(__FILE__, __LINE__, "%s: %s [%d, %d, %d], expected %s [%d, %d, %d]", path,
                      own, b->n_expert, (int)b->n_out, (int)b->k, name, a->n_expert, (int)a->n_out,
                      (int)a->k);
    }
    for (size_t i = 0; vector_at(want, i) || vector_at(got, i); i++) {
        const struct vector *a = vector_at(want, i), *b = vector_at(got, i);
        if (!a || !b || (sizes && a->n != b->n)) {
            test_fail(__FILE__, __LINE__, "%s: vector %zu has %d values, expected %d", path, i,
                      b ? (int)b->n : 0, a ? (int)a->n : 0);
            return;
        }
    }
}

/* Return true if random weights of a GGUF have a tensor of real weights in another form: gate and
 * up of experts in one tensor, or no factor of a layer's output, which is optional. */
static bool is_other_form(const struct checkpoint *got, const char *name)
{
    return strstr(name, ".layer_output_scale") ||
           (checkpoint_tensor(got, "blk.0.ffn_gate_up_exps.weight") &&
            (strstr(name, ".ffn_gate_exps.") || strstr(name, ".ffn_up_exps.")));
}

/* Compare the tensors of GGUF views, but not their types, because random weights have no codes. */
static void compare_views(const char *path, const struct checkpoint *want,
                          const struct checkpoint *got)
{
    for (int i = 0; i < checkpoint_n_tensor(want); i++) {
        const struct tensor_info *a = checkpoint_tensor_at(want, i),
                                 *b = checkpoint_tensor(got, a->name);
        if (b ? memcmp(a->dim, b->dim, sizeof a->dim) != 0 : !is_other_form(got, a->name))
            test_fail(__FILE__, __LINE__, "%s: GGUF: tensor %s %s", path, a->name,
                      b ? "has another shape" : "is missing");
    }
    for (int i = 0; i < checkpoint_n_tensor(got); i++) {
        const char *name = checkpoint_tensor_at(got, i)->name;
        if (!checkpoint_tensor(want, name) && !strstr(name, ".ffn_gate_up_exps."))
            test_fail(__FILE__, __LINE__, "%s: GGUF: tensor %s: not in real weights", path, name);
    }
}

/* Convert a folder to a view, and read random weights with the keys and tensors of the view. Return
 * the error of the first step, or of the comparison with the folder. */
static int convert(struct conversion **view, const struct checkpoint *c, struct backend *backend,
                   struct err *e)
{
    const struct conversion_options o = {.backend = backend};
    struct checkpoint *made = NULL;
    struct dummy_options d = {.model = checkpoint_path(c), .no_data = true};
    int rc = model_gguf_open(view, c, &o, e);
    if (rc == 0) d.view = conversion_view(*view), rc = checkpoint_open_dummy(&made, &d, e);
    if (rc == 0) rc = checkpoint_outline(made, e);
    if (rc == 0) rc = model_same_config(c, made, backend, e);
    checkpoint_close(made);
    return rc;
}

/* Compare the GGUF of random weights with that of a folder's weights. A folder without a GGUF has
 * none of random weights. */
static void check_gguf(const char *path, const struct bound *want, const struct bound *got,
                       struct backend *backend)
{
    struct err e = {0}, own = {0};
    struct conversion *a = NULL, *b = NULL;
    const int rc = convert(&a, want->c, backend, &e),
              rc_random = convert(&b, got->c, backend, &own);
    if (!is_undescribed(path) && rc != rc_random)
        test_fail(__FILE__, __LINE__, "%s: GGUF: \"%s\", expected \"%s\"", path,
                  rc_random ? own.text : "", rc ? e.text : "");
    if (!is_undescribed(path) && rc == 0 && rc_random == 0)
        compare_views(path, conversion_view(a), conversion_view(b));
    conversion_close(a);
    conversion_close(b);
}

/* Compare the weights of a folder. Return false if the folder has no weights that load. */
static bool check_folder(const char *path, struct backend *backend)
{
    struct err e = {0};
    struct bound want = {0}, got = {0};
    struct dummy_options o = {
        .model = path, .no_data = true, .tensors = model_list_random, .tensors_ctx = backend};
    const bool loads = checkpoint_open(&want.c, path, &e) == 0 &&
                       model_bind(&want.m, want.c, backend, NULL, &e) == 0;
    if (loads) {
        int rc = checkpoint_open_dummy(&got.c, &o, &e);
        if (rc == 0) rc = checkpoint_outline(got.c, &e);
        if (rc == 0) rc = model_bind(&got.m, got.c, backend, NULL, &e);
        if (rc != 0)
            test_fail(__FILE__, __LINE__, "%s", e.text);
        else
            compare(path, want.m, got.m, !is_undescribed(path));
        if (rc == 0) check_gguf(path, &want, &got, backend);
        bound_close(&got);
    }
    bound_close(&want);
    return loads;
}

/* Compare the weights of all folders below `path`. Return the number of folders. */
static int check_folders(const char *path, struct backend *backend)
{
    struct err e = {0};
    struct buf list = {0};
    char inner[4096];
    bool found = false;
    snprintf(inner, sizeof inner, "%s/config.json", path);
    if (file_find(&found, inner, &e) == 0 && found) return check_folder(path, backend);
    int n = 0;
    if (dir_list(&list, path, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    for (char *rest = list.data, *name; (name = strsep(&rest, "\n")) && *name;) {
        snprintf(inner, sizeof inner, "%s/%s", path, name);
        if (dir_exists(inner)) n += check_folders(inner, backend);
    }
    buf_deinit(&list);
    return n;
}

TEST(random_weights_of_a_folder_have_the_tensors_of_real_weights)
{
    struct err e = {0};
    struct backend *backend;
    NEED_OK(backend_open(&backend, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    const int n = check_folders(repo_path("tests/golden"), backend);
    test_note("%d folders", n);
    EXPECT(n > 100);
    backend_close(backend);
}

TEST(random_weights_of_a_class_have_its_head)
{
    /* Goal: the class in config.json decides about the head, and its labels about its rows. */
    static const struct {
        const char *folder;
        int n_label;
        bool headless;
    } want[] = {{"qwen3", 0, false},
                {"encoders/qwen3-untied", 0, true},
                {"encoders/llama-class", 3, true},
                {"encoders/bert-rerank", 1, false}};
    struct err e = {0};
    struct backend *backend;
    NEED_OK(backend_open(&backend, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        char path[160];
        struct bound got = {0};
        snprintf(path, sizeof path, "tests/golden/%s", want[i].folder);
        const struct dummy_options o = {
            .model = repo_path(path), .tensors = model_list_random, .tensors_ctx = backend};
        NEED_OK(checkpoint_open_dummy(&got.c, &o, &e), &e);
        NEED_OK(model_bind(&got.m, got.c, backend, NULL, &e), &e);
        EXPECT_INT(got.m->config.n_label, want[i].n_label);
        EXPECT(got.m->headless == want[i].headless);
        bound_close(&got);
    }
    backend_close(backend);
}

static const char *folder_with(const char *config)
{
    static char dir[1024];
    snprintf(dir, sizeof dir, "%s", temp_path("config.json"));
    EXPECT(temp_put("config.json", config));
    *strrchr(dir, '/') = 0;
    return dir;
}

TEST(random_weights_of_a_config_alone)
{
    /* Goal: parameters of recurrent layers keep F32 in every mix, decays are negative, and the
     * model has a tokenizer. */
    static const char config[] =
        "{\"model_type\":\"qwen3_next\",\"hidden_size\":256,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":64,\"vocab_size\":300,"
        "\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":256,"
        "\"shared_expert_intermediate_size\":256,\"linear_num_key_heads\":2,"
        "\"linear_num_value_heads\":4,\"linear_key_head_dim\":32,\"linear_value_head_dim\":64,"
        "\"linear_conv_kernel_dim\":4,\"full_attention_interval\":2}";
    struct err e = {0};
    struct backend *backend;
    struct checkpoint *c = NULL;
    NEED_OK(backend_open(&backend, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    struct dummy_options o = {.model = folder_with(config),
                              .quant = "Q4_K_M",
                              .tensors = model_list_random,
                              .tensors_ctx = backend};
    NEED_OK(checkpoint_open_dummy(&c, &o, &e), &e);
    const struct tensor_info *taps = checkpoint_tensor(c, "blk.0.ssm_conv1d.weight"),
                             *in = checkpoint_tensor(c, "blk.0.ssm_in.weight"),
                             *q = checkpoint_tensor(c, "blk.1.attn_q.weight");
    EXPECT(taps && taps->type == QT_f32 && taps->dim[0] == 4 && taps->dim[1] == 384);
    EXPECT(in && in->type == QT_q4_k && in->dim[1] == 640);
    EXPECT(q && q->dim[1] == 512 && !checkpoint_tensor(c, "blk.0.attn_q.weight"));
    EXPECT_INT(checkpoint_kind(c), CKPT_HF);
    EXPECT_INT(meta_count(checkpoint_meta(c, "tokenizer.ggml.tokens")), 300);
    EXPECT_INT(meta_int(checkpoint_meta(c, "tokenizer.ggml.eos_token_id"), -1), 256);
    checkpoint_close(c);
    backend_close(backend);
}

TEST(random_weights_without_their_sizes_are_refused_by_name)
{
    static const struct {
        const char *config, *word; /* static */
    } bad[] = {
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":1000000000}", "must be in [1, 4096]"},
        {"{\"model_type\":\"no_such\",\"num_hidden_layers\":1}", "no_such"},
    };
    struct err e = {0};
    struct backend *backend;
    NEED_OK(backend_open(&backend, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct checkpoint *c = NULL;
        struct dummy_options o = {.model = folder_with(bad[i].config),
                                  .tensors = model_list_random,
                                  .tensors_ctx = backend};
        EXPECT(checkpoint_open_dummy(&c, &o, &e) != 0);
        if (!strstr(e.text, bad[i].word))
            test_fail(__FILE__, __LINE__, "\"%s\" lacks %s", e.text, bad[i].word);
        checkpoint_close(c);
    }
    backend_close(backend);
}
