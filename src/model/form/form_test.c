/* form_test.c - goal: each matrix of a published form has its library's values bit for bit. The
 * error for a file that contradicts itself or its config contains the tensor or field. Method:
 * compare with the hashes in values.txt of tests/golden/forms, and open copies with one change. */
#include "../../../tests/unit.h"

#include "base/os.h"
#include "model/model_impl.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const names[] = {
    "gptq",           "gptq-v2",        "awq",        "awq-gemv",    "fp8",        "bnb-4bit",
    "bnb-8bit",       "compressed",     "bitnet",     "bitnet-auto", "auto-round", "hqq",
    "quanto",         "sparse",         "gptq-fused", "gptq-neox",   "awq-neox",   "fp8-falcon",
    "bnb-4bit-bloom", "fp8-qwen3-next", "gptq-mamba2"};
enum { N_FORM = sizeof names / sizeof names[0] };

struct opened {
    struct checkpoint *c;
    struct backend *b;
    struct model *m;
};

static int open_model(struct opened *o, const char *path, struct err *e)
{
    *o = (struct opened){0};
    int rc = checkpoint_open(&o->c, path, e);
    if (rc == 0) rc = backend_open(&o->b, "cpu", &(struct backend_options){.n_thread = 1}, e);
    struct model_options mo = {
        .backend = o->b, .context_max = 64, .batch = {.n_row = 8, .n_seq = 1, .n_out = 8}};
    return rc ? rc : model_open(&o->m, o->c, &mo, e);
}

static void close_model(struct opened *o)
{
    model_close(o->m);
    backend_close(o->b);
    checkpoint_close(o->c);
}

/* Return the hash of values.txt: 64-bit FNV-1a of n values of f32, with -0 as 0. */
static uint64_t hash_of(const float *x, int64_t n)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i] + 0.0f;
        uint8_t byte[4];
        memcpy(byte, &v, 4);
        for (int j = 0; j < 4; j++) h = (h ^ byte[j]) * 0x100000001B3u;
    }
    return h;
}

/* Return true if the tensor's name in the file begins with `module`. */
static bool is_of_module(const struct opened *o, const struct tensor *t, const char *module)
{
    const size_t n = strlen(module);
    const char *raw = checkpoint_tensor(o->c, t->name)->name_raw;
    return strncmp(raw, module, n) == 0 && raw[n] == '.';
}

enum { VALUES_MAX = 1 << 16 };
/* Write the rows of a matrix to their places in the stored matrix f32 [.., t->k]. Return the number
 * of the rows. */
static int64_t put_rows(const struct opened *o, float *to, const struct tensor *t)
{
    const struct published *p = t->from;
    const int32_t *order = p ? p->order : NULL;
    float *x = malloc((size_t)t->k * sizeof *x);
    for (int32_t i = 0; i < t->n_out; i++) {
        const struct row_part part = p ? p->part : (struct row_part){0};
        const int64_t row =
            part.first + (part.run > 0 ? i / part.run * part.step + i % part.run : i);
        CHECK((row + 1) * t->k <= VALUES_MAX, "%s is large", t->name);
        o->b->op->embed(o->b, x, t, &i, 1);
        for (int64_t c = 0; c < t->k; c++) to[row * t->k + (order ? order[c] : c)] = x[c];
    }
    free(x);
    return t->n_out;
}

/* Return the hash of the values of a module, which several matrices may share. Set *t to the first
 * matrix; NULL if none. */
static uint64_t module_hash(const struct opened *o, const char *module, const struct tensor **t)
{
    int64_t n_row = 0;
    float *x = malloc(VALUES_MAX * sizeof *x);
    *t = NULL;
    for (size_t i = 0; i < o->m->tensor.n; i++) {
        const struct tensor *own = o->m->tensor.v[i];
        if (!is_of_module(o, own, module)) continue;
        if (!*t) *t = own;
        n_row += put_rows(o, x, own);
    }
    const uint64_t h = *t ? hash_of(x, n_row * (*t)->k) : 0;
    free(x);
    return h;
}

/* Return the least number of matrices of a form. Most folders have 12 and more. */
static int least_of(const char *name)
{
    static const struct {
        const char *name;
        int n;
    } few[] = {{"awq-neox", 4},   {"gptq-mamba2", 6}, {"bnb-4bit-bloom", 8},
               {"fp8-falcon", 8}, {"gptq-fused", 8},  {"gptq-neox", 8}};
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++)
        if (strcmp(name, few[i].name) == 0) return few[i].n;
    return 12;
}

/* Compare the values of the matrices of a published form, opened from `from`, with the recorded
 * ones. */
static void compare_values(const char *name, const char *from)
{
    char path[128], module[128];
    struct opened o;
    struct err e;
    struct buf lines = {0};
    unsigned long long want;
    int n = 0;
    snprintf(path, sizeof path, "tests/golden/forms/%s/values.txt", name);
    if (file_read(&lines, repo_path(path), 1 << 20, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s", e.text);
    if (open_model(&o, from, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.text);
        close_model(&o);
        buf_deinit(&lines);
        return;
    }
    for (char *rest = lines.data, *line; (line = strsep(&rest, "\n")) && *line; n++) {
        if (sscanf(line, "%127s %llx", module, &want) != 2) {
            test_fail(__FILE__, __LINE__, "%s: line %d of values.txt is damaged", name, n + 1);
            break;
        }
        const struct tensor *t;
        const uint64_t got = module_hash(&o, module, &t);
        if (!t)
            test_fail(__FILE__, __LINE__, "%s: %s is not bound", name, module);
        else {
            test_note("%-12s %-34s %-6s %5.2f bits", name, module + 13, qtype_info[t->type].name,
                      8.0 * (double)qtype_bytes(t->type, t->k) / (double)t->k);
            if (got != want) test_fail(__FILE__, __LINE__, "%s: %s has other values", name, module);
        }
    }
    if (n < least_of(name))
        test_fail(__FILE__, __LINE__, "%s: %d matrices, expected %d", name, n, least_of(name));
    close_model(&o);
    buf_deinit(&lines);
}

TEST(form_values_are_the_librarys)
{
    if (!repo_path("tests/golden/forms")) SKIP("tests/golden is not here");
    for (int i = 0; i < N_FORM; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/golden/forms/%s", names[i]);
        compare_values(names[i], repo_path(path));
    }
}

/* Goal: AutoRound's other layouts are GPTQ's version 1, its version 2, and AWQ. Files of those
 * forms keep their values with AutoRound's config. */
TEST(form_layouts_of_auto_round_are_those_of_gptq_and_awq)
{
    static const struct {
        const char *form, *layout;
    } cases[] = {{"gptq-v2", "auto_round"},      {"gptq-v2", "auto_round:gptqmodel"},
                 {"gptq", "auto_round:gptq"},    {"gptq", "auto"},
                 {"awq", "auto_round:auto_awq"}, {"awq", "auto_round:awq"}};
    if (!repo_path("tests/golden/forms")) SKIP("tests/golden is not here");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf config = {0}, weights = {0};
        struct err e;
        char path[128];
        snprintf(path, sizeof path, "tests/golden/forms/%s/config.json", cases[i].form);
        NEED_OK(file_read(&config, repo_path(path), 1 << 20, &e), &e);
        snprintf(path, sizeof path, "tests/golden/forms/%s/model.safetensors", cases[i].form);
        NEED_OK(file_read(&weights, repo_path(path), 1 << 24, &e), &e);
        config.n = (size_t)(strstr(config.data, "\"quantization_config\"") - config.data);
        buf_addf(&config,
                 "\"quantization_config\": {\"quant_method\": \"auto-round\", \"bits\": 4, "
                 "\"group_size\": 32, \"packing_format\": \"%s\", \"extra_config\": {\"x\": {}}}}",
                 cases[i].layout);
        temp_put("changed/config.json", "");
        NEED_OK(file_write(temp_path("changed/config.json"), config.data, config.n, &e), &e);
        temp_put("changed/model.safetensors", "");
        NEED_OK(file_write(temp_path("changed/model.safetensors"), weights.data, weights.n, &e),
                &e);
        compare_values(cases[i].form, temp_path("changed"));
        buf_deinit(&config);
        buf_deinit(&weights);
    }
}

/* ---- facts of a quantized model ---- */

struct counts {
    int n, n_converted, n_by_type[QT_COUNT];
    int64_t n_value;
};

static void count_matrix(void *ctx, const char *tensor, enum qtype type, int64_t n_value,
                         bool converted)
{
    struct counts *c = ctx;
    EXPECT(tensor != NULL);
    c->n++, c->n_converted += converted, c->n_by_type[type]++, c->n_value += n_value;
}

/* Goal: the matrices of a quantized model are reported with their formats in memory. The number of
 * parameters is that of the matrices, not of their codes. */
TEST(form_matrices_are_counted_as_in_memory)
{
    struct opened o;
    struct err e;
    struct counts c = {0};
    if (!repo_path("tests/golden/forms")) SKIP("tests/golden is not here");
    NEED_OK(open_model(&o, repo_path("tests/golden/forms/gptq"), &e), &e);
    struct model_sizes s = {.matrix = count_matrix, .ctx = &c, .kv_type = KV_F16};
    NEED_OK(model_measure(o.c, o.b, NULL, &s, &e), &e);
    EXPECT_INT(s.kv_token_bytes, 2 * 2 * 32 * 2); /* of each layer: k and v of one head */
    EXPECT_INT(c.n, 15); /* 14 layers, and the embedding, which is the head */
    EXPECT_INT(c.n_converted, 13);
    EXPECT_INT(c.n_by_type[QT_bf16], 2);
    EXPECT_INT(c.n_by_type[QT_q4_0], 7);
    EXPECT_INT(c.n_value, 260 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64));
    EXPECT_INT(model_info(o.m)->n_param, c.n_value + 5 * 64);
    EXPECT_INT(model_info(o.m)->head_macs, 260 * 64);
    EXPECT_INT(model_info(o.m)->layer_macs, c.n_value - 260 * 64);
    close_model(&o);
}

/* ---- files that contradict themselves ---- */

/* Append the text b to `out`, with `from` replaced by `to`: all if `all` is true, otherwise the
 * first. Return true if there was one. */
static bool replace(struct buf *out, const struct buf *b, const char *from, size_t n_from,
                    const char *to, size_t n_to, bool all)
{
    const char *rest = b->data, *end = b->data + b->n, *at;
    bool found = false;
    while ((at = memmem(rest, (size_t)(end - rest), from, n_from)) && (all || !found)) {
        buf_add(out, rest, (size_t)(at - rest));
        buf_add(out, to, n_to);
        rest = at + n_from;
        found = true;
    }
    buf_add(out, rest, (size_t)(end - rest));
    return found;
}

/* Copy a folder with each `from` of a JSON file, or the first of model.safetensors, replaced by
 * `to`. Open the copy, and expect `word` in the error. A replacement in model.safetensors has the
 * same length. */
static void expect_refusal(const char *name, const char *file, const char *from, size_t n_from,
                           const char *to, size_t n_to, const char *word)
{
    static const char *const files[] = {"config.json", "quanto_qmap.json", "model.safetensors"};
    struct err e = {0};
    struct opened o;
    bool found = false;
    for (int i = 0; i < 3; i++) {
        struct buf b = {0}, out = {0};
        char path[256];
        snprintf(path, sizeof path, "changed/%s", files[i]);
        temp_put(path, "");
        unlink(temp_path(path));
        snprintf(path, sizeof path, "tests/golden/forms/%s/%s", name, files[i]);
        if (!repo_path(path)) continue; /* a form without a map */
        if (file_read(&b, repo_path(path), 1 << 24, &e) != 0) break;
        if (strcmp(files[i], file) == 0)
            found = replace(&out, &b, from, n_from, to, n_to, i < 2);
        else
            buf_add(&out, b.data, b.n);
        snprintf(path, sizeof path, "changed/%s", files[i]);
        temp_put(path, "");
        file_write(temp_path(path), out.data, out.n, &e);
        buf_deinit(&b);
        buf_deinit(&out);
    }
    const int rc = open_model(&o, temp_path("changed"), &e);
    if (!found || rc == 0 || !strstr(e.text, word))
        test_fail(__FILE__, __LINE__, "%s with %s: %d \"%s\", expected %s", name, to, rc,
                  found ? e.text : "not found", word);
    close_model(&o);
}

TEST(forms_that_contradict_themselves_are_refused_by_name)
{
    static const struct {
        const char *form, *file, *from, *to, *word;
    } cases[] = {
        {"gptq", "config.json", "\"dynamic\"", "\"dynamics\"", "quantization_config.dynamics: not"},
        {"gptq", "config.json", "\"gptq\",\n  \"meta", "\"marlin\",\n  \"meta",
         "checkpoint_format: must be"},
        {"gptq", "model.safetensors", "0.self_attn.q_proj.qzeros", "0.self_attn.q_proj.qzerox",
         "layers.0.self_attn.q_proj.qzeros is missing; a similar tensor: "
         "model.layers.0.self_attn.q_proj.qzerox"},
        {"gptq", "model.safetensors", "0.self_attn.q_proj.g_idx", "0.self_attn.q_proj.h_idx",
         "q_proj.g_idx is missing; a similar tensor: model.layers.0.self_attn.q_proj.h_idx"},
        {"gptq", "config.json", "\"quantization_config\"", "\"quantization_confix\"",
         "is of quantized weights, but config.json has no quantization_config"},
        {"bnb-4bit", "model.safetensors", "0.self_attn.q_proj.weight.absmax",
         "0.self_attn.q_proj.weight.absmix", "q_proj.weight.absmax is missing"},
        {"gptq", "model.safetensors", "0.self_attn.q_proj.qweight\":{\"dtype\":\"I32",
         "0.self_attn.q_proj.qweight\":{\"dtype\":\"F32", "has type F32"},
        {"gptq", "config.json", "\"group_size\": 32", "\"group_size\": 0", "group_size: must"},
        {"gptq", "config.json", "\"group_size\": 32", "\"group_size\": true", "4194304], got true"},
        {"gptq", "config.json", "\"bits\": 4", "\"bits\": 99", "[2, 8], got 99"},
        {"gptq", "config.json", "\"checkpoint_format\"",
         "\"format\": \"gptq_v2\", \"checkpoint_format\"", "format: must be checkpoint_format"},
        {"gptq", "config.json", "\"checkpoint_format\": \"gptq\"",
         "\"checkpoint_format\": \"gptq\\\"|\\\"gptq_v2\"", "checkpoint_format: must be"},
        {"awq", "config.json", "\"group_size\": 32", "\"group_size\": 48", "not of 48 inputs"},
        {"awq", "config.json", "\"group_size\": 32", "\"group_size\": 33", "not of 33 inputs"},
        {"awq", "config.json", "\"group_size\": 32", "\"group_size\": 0", "group_size: must"},
        {"awq", "config.json", "\"version\"", "\"format\": \"gemv\", \"version\"",
         "format: must be the same"},
        {"awq", "config.json", "\"gemm\"", "\"gemv\"", "qzeros is ["},
        {"awq-gemv", "config.json", "\"gemv\"", "\"gemm\"", "expected [any, "},
        {"awq-gemv", "config.json", "\"group_size\": 32", "\"group_size\": 3",
         "not of groups of 3 inputs"},
        {"awq-gemv", "config.json", "\"group_size\": 32", "\"group_size\": 64", "qzeros is ["},
        {"awq-gemv", "config.json", "\"group_size\": 32", "\"group_size\": 1000", "groups of 1000"},
        {"awq-gemv", "config.json", "\"group_size\": 32", "\"group_size\": -1", "qzeros is ["},
        {"awq-gemv", "config.json", "\"group_size\": 32", "\"group_size\": null", "groups of 128"},
        {"awq-gemv", "config.json", "\"group_size\": 32,", "", "groups of 128"},
        {"awq-gemv", "config.json", "\"group_size\": 32", "\"group_size\": {}",
         "must be an integer in"},
        {"fp8", "model.safetensors", "0.self_attn.q_proj.weight_scale",
         "0.self_attn.q_proj.weight_scalx",
         "q_proj.weight_scale is missing; a similar tensor: "
         "model.layers.0.self_attn.q_proj.weight_scalx"},
        {"fp8", "config.json", "\"ignored_layers\"",
         "\"weight_block_size\": [8, 8], \"ignored_layers\"", "expected [8, 8]"},
        {"bnb-4bit", "model.safetensors", "0.self_attn.q_proj.weight.quant_map",
         "0.self_attn.q_proj.weight.quant_mbp", "weight.quant_map is missing"},
        {"bnb-4bit", "model.safetensors", "\"blocksize\": 64", "\"blocksize\": 32",
         "weight.absmax is ["},
        {"bnb-4bit", "model.safetensors", "\"blocksize\": 64", "\"blocksize\": []",
         "must have a blocksize in"},
        {"bnb-4bit", "model.safetensors", "\"nested_blocksize\"", "\"nested_blockside\"",
         "must have a nested_blocksize in"},
        {"bnb-4bit", "model.safetensors", "\"nested_offset\"", "\"nested_offsex\"",
         "must have a number nested_offset"},
        {"bnb-4bit", "model.safetensors", "\"shape\": [64, 96]", "\"shape\": [96, 64]",
         "must have the shape [64, 96]"},
        {"bnb-8bit", "model.safetensors", "0.self_attn.q_proj.SCB", "0.self_attn.q_proj.SCA",
         "q_proj.SCB is missing; a similar tensor: model.layers.0.self_attn.q_proj.SCA"},
        {"compressed", "config.json", "\"symmetric\": false", "\"symmetric\": true",
         "are symmetric"},
        {"compressed", "config.json", "mixed-precision", "marlin-24", "format: must be"},
        {"compressed", "model.safetensors", "1.self_attn.v_proj.weight_zero_point",
         "1.self_attn.v_proj.weight_zero_paint", "v_proj.weight_zero_point is missing"},
        {"compressed", "config.json", "\"transform_config\": {}",
         "\"transform_config\": {\"config_groups\": {\"R1\": {}}}",
         "transform_config.config_groups"},
        {"compressed", "model.safetensors", "0.mlp.up_proj.weight_global_scale",
         "0.mlp.up_proj.weight_global_scalx", "weight_scale has type F8_E4M3"},
        {"auto-round", "config.json", "auto_round:auto_gptq", "auto_round:llm_compressor",
         "packing_format: must be"},
        {"auto-round", "config.json", "auto_round:auto_gptq", "auto_round:auto_awq", "expected ["},
        {"auto-round", "config.json", "\"int\"", "\"mx_fp\"", "data_type: must be"},
        {"auto-round", "config.json", "\"extra_config\"", "\"rotation_config\"",
         "rotation_config: not supported"},
        {"auto-round", "config.json", "\"extra_config\": {", "\"act_bits\": 8, \"meta\": {",
         "act_bits: must be"},
        {"auto-round", "config.json", "\"group_size\": 32", "\"group_size\": 0",
         "group_size: must"},
        {"auto-round", "config.json", "\"extra_config\"", "\"block_name_to_quantize\"",
         "not 4 bits"},
        {"hqq", "model.safetensors", "0.self_attn.q_proj.zero", "0.self_attn.q_proj.zerx",
         "self_attn.q_proj.zero is missing; a similar tensor: "
         "model.layers.0.self_attn.q_proj.zerx"},
        {"hqq", "model.safetensors", "0.self_attn.q_proj.packing", "0.self_attn.q_proj.pbcking",
         "self_attn.q_proj.packing is missing; a similar tensor: "
         "model.layers.0.self_attn.q_proj.pbcking"},
        {"hqq", "model.safetensors", "4bit_u8", "5bit_u8", "is no known packing"},
        {"hqq", "model.safetensors", "4bit_u8", "8bit_u8", "W_q is ["},
        {"quanto", "quanto_qmap.json", "\"none\"", "\"qint8\"",
         "q_proj: activations: \"qint8\" is not supported"},
        {"quanto", "quanto_qmap.json", "\"qint8\"", "\"qint3\"", "weights: \"qint3\" is not"},
        {"quanto", "quanto_qmap.json", "\"weights\"", "\"weighty\"", "weighty: \"qint8\" is not"},
        {"quanto", "model.safetensors", "0.self_attn.v_proj.weight._shift",
         "0.self_attn.v_proj.weight._shifx",
         "self_attn.v_proj.weight._shift is missing; a similar tensor: "
         "model.layers.0.self_attn.v_proj.weight._shifx"},
        {"quanto", "model.safetensors", "_proj.weight._data\":{\"dtype\":\"I8",
         "_proj.weight._data\":{\"dtype\":\"U8", "has type U8"},
        {"quanto", "model.safetensors", "\"U8\",\"shape\":[16,64]", "\"U8\",\"shape\":[64,16]",
         "expected"},
        {"quanto", "model.safetensors", "\"U8\",\"shape\":[16,64]", "\"U8\",\"shape\":[32,32]",
         "expected"},
        {"quanto", "config.json", "\"vocab_size\"",
         "\"quantization_config\": {\"group_size\": 4}, \"vocab_size\"",
         "group_size: not supported"},
        {"fp8-falcon", "config.json", "\n   24,", "\n   20,", "expected [7, 2]"},
        {"fp8-falcon", "config.json", "\n   24,", "\n   0,",
         "weight_block_size: must be 2 sizes in [1, "},
        {"fp8-falcon", "config.json", "\"num_kv_heads\": 2", "\"num_kv_heads\": 3",
         "num_kv_heads: must be a divisor of 4"},
        {"fp8-falcon", "config.json", "\"num_kv_heads\": 2", "\"num_kv_heads\": 1",
         "query_key_value.weight is [128, 64], expected [96, 64]"},
        {"gptq-neox", "config.json", "\"group_size\": 24", "\"group_size\": 0", "group_size: must"},
        {"gptq-neox", "model.safetensors", "0.attention.query_key_value.qzeros",
         "0.attention.query_key_value.qzerox", "query_key_value.qzeros is missing"},
        {"gptq-neox", "config.json", "\"num_attention_heads\": 4", "\"num_attention_heads\": 5",
         "expected [any, 135]"},
        {"gptq-fused", "config.json", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 1",
         "expected [any, 96]"},
        {"gptq-mamba2", "config.json", "\"n_groups\": 2", "\"n_groups\": 3", "expected [any, 270]"},
        {"fp8-qwen3-next", "config.json", "\"linear_value_head_dim\": 6",
         "\"linear_value_head_dim\": 5", "expected [72, 24]"},
        {"bnb-4bit-bloom", "model.safetensors", "\"shape\": [144, 48]", "\"shape\": [48, 144]",
         "must have the shape [144, 48]"},
        {"bitnet", "config.json", "\"linear_class\": \"bitlinear\"", "\"linear_class\": {}",
         "linear_class: must be"},
        {"bitnet", "config.json", "offline", "online", "quantization_mode: must be"},
        {"bitnet", "config.json", "\"linear_class\"", "\"use_rms_norm\": true, \"linear_class\"",
         "use_rms_norm: must be false"},
    };
    if (!repo_path("tests/golden/forms")) SKIP("tests/golden is not here");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refusal(cases[i].form, cases[i].file, cases[i].from, strlen(cases[i].from),
                       cases[i].to, strlen(cases[i].to), cases[i].word);
}

/* Goal: codes of bitsandbytes that are not contiguous rows are rejected. */
TEST(other_layouts_of_8_bit_codes_are_refused)
{
    struct checkpoint *c;
    struct err e;
    char changed[64];
    if (!repo_path("tests/golden/forms")) SKIP("tests/golden is not here");
    NEED_OK(checkpoint_open(&c, repo_path("tests/golden/forms/bnb-8bit"), &e), &e);
    const struct tensor_info *t = checkpoint_tensor(c, "blk.0.attn_k.weight_format");
    const char *from = (const char *)t->data - sizeof changed + 1; /* with the bytes before */
    memcpy(changed, from, sizeof changed);
    changed[sizeof changed - 1] = 2;
    expect_refusal("bnb-8bit", "model.safetensors", from, sizeof changed, changed, sizeof changed,
                   "weight_format must be 0");
    checkpoint_close(c);
}

/* Goal: numbers of HQQ that select another layout are rejected. */
TEST(other_layouts_of_hqq_are_refused)
{
    static const struct {
        const char *tensor, *word;
    } cases[] = {{"blk.0.attn_k.axis", "axis must be 1, got 0"},
                 {"blk.0.attn_k.view_as_float", "view_as_float must be 0, got 2"},
                 {"blk.0.attn_k.group_size", "does not divide"},
                 {"blk.0.attn_k.shape", "shape is ["}};
    struct checkpoint *c;
    struct err e;
    if (!repo_path("tests/golden/forms")) SKIP("tests/golden is not here");
    NEED_OK(checkpoint_open(&c, repo_path("tests/golden/forms/hqq"), &e), &e);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char changed[96];
        const struct tensor_info *t = checkpoint_tensor(c, cases[i].tensor);
        const char *from = (const char *)t->data - sizeof changed + 1; /* with the bytes before */
        memcpy(changed, from, sizeof changed);
        changed[sizeof changed - 1] = i == 0 ? 0 : i == 2 ? 7 : 2;
        expect_refusal("hqq", "model.safetensors", from, sizeof changed, changed, sizeof changed,
                       cases[i].word);
    }
    checkpoint_close(c);
}

/* Goal: scales of gemv that contradict the group size are rejected, if the width agrees. A larger
 * size leaves values in the padding, and a smaller one has groups without a scale. */
TEST(scales_of_another_group_size_are_refused)
{
    struct checkpoint *c;
    struct err e;
    if (!repo_path("tests/golden/forms")) SKIP("tests/golden is not here");
    NEED_OK(checkpoint_open(&c, repo_path("tests/golden/forms/awq-gemv"), &e), &e);
    const struct tensor_info *t = checkpoint_tensor(c, "blk.0.attn_q.scales");
    NEED(t && t->type == QT_f16 && t->dim[0] == 32);
    char *changed = malloc(t->n_byte);
    NEED(changed != NULL);
    memcpy(changed, t->data, t->n_byte);
    memcpy(changed + t->n_byte - 2, changed, 2);
    expect_refusal("awq-gemv", "model.safetensors", (const char *)t->data, t->n_byte, changed,
                   t->n_byte, "scales is not of 2 groups of 32 inputs");
    memcpy(changed, t->data, t->n_byte);
    for (int64_t r = 0; r < t->dim[1]; r++) memset(changed + r * 64 + 2, 0, 2);
    expect_refusal("awq-gemv", "model.safetensors", (const char *)t->data, t->n_byte, changed,
                   t->n_byte, "scales is not of 2 groups of 32 inputs");
    free(changed);
    checkpoint_close(c);
}

/* Goal: a group outside the scales is rejected before it is used. */
TEST(groups_of_inputs_outside_the_scales_are_refused)
{
    static const int32_t wrong[] = {-1, 2, INT32_MAX, INT32_MIN};
    struct checkpoint *c;
    struct err e;
    if (!repo_path("tests/golden/forms")) SKIP("tests/golden is not here");
    NEED_OK(checkpoint_open(&c, repo_path("tests/golden/forms/gptq"), &e), &e);
    const struct tensor_info *t = checkpoint_tensor(c, "blk.0.attn_k.g_idx");
    char *changed = malloc(t->n_byte);
    for (size_t i = 0; i < 2 * sizeof wrong / sizeof wrong[0]; i++) {
        memcpy(changed, t->data, t->n_byte);
        /* the first group is unset, or another group */
        memcpy(changed + i % 2 * 40, &wrong[i / 2], 4);
        expect_refusal("gptq", "model.safetensors", (const char *)t->data, t->n_byte, changed,
                       t->n_byte, "expected a group in [0, 2)");
    }
    memset(changed, 0xff, t->n_byte); /* no group is set */
    expect_refusal("gptq", "model.safetensors", (const char *)t->data, t->n_byte, changed,
                   t->n_byte, "expected a group in [0, 2), because desc_act is true");
    free(changed);
    checkpoint_close(c);
}
