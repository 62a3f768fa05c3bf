/* random_test.c - goal: random weights of a folder have the matrices and vectors of its real
 * weights. Method: bind each golden folder with its weights, and with random weights. A folder of a
 * new architecture is part of the test. */
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
