/* load_test.c - goal: a model that cannot be computed is rejected, and the error contains the
 * reason. Method: change one place in a copy of the golden llama GGUF. */
#include "../../tests/unit.h"

#include "base/os.h"
#include "model.h"

#include <stdlib.h>

static struct buf golden_bytes(void)
{
    struct buf b = {0};
    struct err e;
    const char *path = repo_path("tests/golden/llama3/model.gguf");
    if (path) file_read(&b, path, 1 << 24, &e);
    return b;
}

/* Open and close a model. Return the error of the first failed step. */
static int try_open(const char *path, struct err *e)
{
    struct checkpoint *c = NULL;
    struct backend *b = NULL;
    struct model *m = NULL;
    int rc = checkpoint_open(&c, path, e);
    if (rc == 0) rc = backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, e);
    struct model_options o = {
        .backend = b, .context_max = 64, .batch = {.n_row = 8, .n_seq = 1, .n_out = 8}};
    if (rc == 0) rc = model_open(&m, c, &o, e);
    model_close(m);
    backend_close(b);
    checkpoint_close(c);
    return rc;
}

/* Replace the first `from` by `to`, of equal length, and open the model. Expect the result `rc` and
 * the text `word` in the error. */
static void expect_refusal(const char *from, const char *to, size_t n, int rc, const char *word)
{
    struct buf b = golden_bytes();
    char *at = b.n ? memmem(b.data, b.n, from, n) : NULL;
    if (!at) {
        test_fail(__FILE__, __LINE__, "\"%s\" is not in the file", from);
    } else {
        struct err e = {0};
        memcpy(at, to, n);
        const char *path = temp_path("changed.gguf");
        file_write(path, b.data, b.n, &e);
        int got = try_open(path, &e);
        if (got != rc || !strstr(e.text, word))
            test_fail(__FILE__, __LINE__, "%d \"%s\", expected %d with \"%s\"", got, e.text, rc,
                      word);
    }
    buf_deinit(&b);
}

/* Add a value to a golden GGUF and open the model. */
static int open_added(const char *file, const char *key, float x, struct err *e)
{
    struct checkpoint *c = NULL;
    struct backend *b = NULL;
    struct model *m = NULL;
    int rc = checkpoint_open(&c, repo_path(file), e);
    if (rc == 0) rc = checkpoint_add_f32(c, key, x, e);
    if (rc == 0) rc = backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, e);
    struct model_options o = {
        .backend = b, .context_max = 64, .batch = {.n_row = 8, .n_seq = 1, .n_out = 8}};
    if (rc == 0) rc = model_open(&m, c, &o, e);
    model_close(m);
    backend_close(b);
    checkpoint_close(c);
    return rc;
}

/* Goal: keys of a GGUF that others read have their effect, or are refused. */
TEST(rare_keys_of_a_gguf_have_an_effect)
{
    static const char ernie[] = "tests/golden/ernie4_5_moe/model.gguf",
                      deepseek[] = "tests/golden/deepseek_v3/model.gguf",
                      factor[] = "deepseek2.rope.scaling.attn_factor";
    if (!repo_path(ernie)) SKIP("tests/golden is not here");
    struct err e;
    struct buf b = {0};
    EXPECT_INT(open_added(deepseek, factor, 1.0f, &e), 0);
    EXPECT_INT(open_added(deepseek, factor, 1.2f, &e), ERR_UNSUPPORTED);
    EXPECT(strstr(e.text, "rope.scaling.attn_factor: must be 1, got 1.2"));
    /* the block of all rows has the width of its experts if the width is 0 */
    NEED_OK(file_read(&b, repo_path(ernie), 1 << 24, &e), &e);
    static const char width[] = "expert_shared_feed_forward_length";
    char *at = memmem(b.data, b.n, width, sizeof width - 1);
    NEED(at);
    memset(at + sizeof width - 1 + 4, 0, 4); /* the value follows the type */
    const char *path = temp_path("width.gguf");
    NEED_OK(file_write(path, b.data, b.n, &e), &e);
    EXPECT_INT(try_open(path, &e), 0);
    buf_deinit(&b);
}

/* Goal: numbers of sentence-transformers' files in a GGUF are within limits, or refused by name. */
TEST(numbers_of_modules_in_a_gguf_have_limits)
{
    static const struct {
        const char *key;
        uint32_t value;
        bool accepted;
    } cases[] = {{"max_seq_length", 1, true},
                 {"max_seq_length", 0, false},
                 {"max_seq_length", UINT32_MAX, false},
                 {"n_dense", 0, true},
                 {"n_dense", 9, false},
                 {"n_dense", UINT32_MAX, false}};
    if (!repo_path("tests/golden/llama3/model.gguf")) SKIP("tests/golden is not here");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char key[80];
        struct err e = {0};
        struct checkpoint *c;
        struct backend *b;
        struct model *m = NULL;
        struct model_options o = {.context_max = 64, .batch = {.n_row = 8, .n_seq = 1, .n_out = 8}};
        snprintf(key, sizeof key, "sentence_transformers.%s", cases[i].key);
        NEED_OK(checkpoint_open(&c, repo_path("tests/golden/llama3/model.gguf"), &e), &e);
        NEED_OK(checkpoint_add_u32(c, key, cases[i].value, &e), &e);
        NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
        o.backend = b;
        const int rc = model_open(&m, c, &o, &e);
        if (cases[i].accepted ? rc != 0 : rc != ERR_FORMAT || !strstr(e.text, key))
            test_fail(__FILE__, __LINE__, "%s of %u: %d \"%s\"", key, cases[i].value, rc, e.text);
        model_close(m);
        backend_close(b);
        checkpoint_close(c);
    }
}

TEST(models_that_cannot_be_are_refused_by_name)
{
    if (!repo_path("tests/golden/llama3/model.gguf")) SKIP("tests/golden is not here");
    struct err e;
    NEED_OK(try_open(repo_path("tests/golden/llama3/model.gguf"), &e), &e);
    expect_refusal("general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama",
                   "general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0lhama", 37, ERR_UNSUPPORTED,
                   "lhama");
    expect_refusal("llama.block_count", "llama.clock_count", 17, ERR_MISSING, "llama.block_count");
    expect_refusal("blk.1.attn_k.weight", "blk.1.attn_j.weight", 19, ERR_MISSING,
                   "blk.1.attn_k.weight");
    expect_refusal("blk.2.ffn_up.weight", "blk.2.ffn_gp.weight", 19, ERR_MISSING,
                   "blk.2.ffn_up.weight");
    expect_refusal("token_embd.weight", "token_emhd.weight", 17, ERR_MISSING, "token_embd.weight");
    expect_refusal("llama.attention.head_count\x04\0\0\0\x04",
                   "llama.attention.head_count\x04\0\0\0\x03", 31, ERR_FORMAT, "3 heads");
    expect_refusal("llama.attention.head_count\x04\0\0\0\x04",
                   "llama.attention.head_count\x04\0\0\0\x00", 31, ERR_FORMAT, "head_count");
    expect_refusal("llama.embedding_length\x04\0\0\0\x40", "llama.embedding_length\x04\0\0\0\x20",
                   27, ERR_FORMAT, "token_embd.weight");
}

/* Open a copy of the GGUF of gemma4 whose first `from` is `to`, of equal length. */
static int open_gemma4(const char *from, const char *to, struct err *e)
{
    struct buf b = {0};
    if (file_read(&b, repo_path("tests/golden/gemma4/model.gguf"), 1 << 24, e) != 0) return -1;
    char *at = memmem(b.data, b.n, from, strlen(from));
    if (at) memcpy(at, to, strlen(from));
    const char *path = temp_path("gemma4.gguf");
    file_write(path, b.data, b.n, e);
    buf_deinit(&b);
    return at ? try_open(path, e) : -1;
}

/* Goal: k and v of a layer that uses those of another layer may be in a file. Those of another
 * layer, and tensors of other names, may not. */
TEST(keys_and_values_without_use_are_left_out)
{
    static const char scale[] = "blk.5.layer_output_scale.weight",
                      other[] = "blk.3.layer_output_scale.weight";
    if (!repo_path("tests/golden/gemma4/model.gguf")) SKIP("tests/golden is not here");
    struct err e = {0};
    NEED_OK(open_gemma4(scale, "blk.5.attn_k.left_out_tensor.x2", &e), &e);
    NEED_OK(open_gemma4(scale, "blk.5.attn_v.weight_of_nothing_", &e), &e);
    NEED_OK(open_gemma4(scale, "blk.5.attn_k_norm.left_out.xx.2", &e), &e);
    EXPECT(open_gemma4(scale, "blk.5.attn_q.left_out_tensor.x2", &e) == ERR_UNSUPPORTED &&
           strstr(e.text, "blk.5.attn_q.left_out_tensor.x2"));
    EXPECT(open_gemma4(other, "blk.3.attn_k.left_out_tensor.x2", &e) == ERR_UNSUPPORTED);
    EXPECT(open_gemma4("blk.3.attn_k.weight", "blk.3.attn_j.weight", &e) == ERR_MISSING);
}

/* Goal: a classifier of the head's rows rejects a token without a row. */
TEST(tokens_of_a_classifier_must_have_rows)
{
    struct err e;
    struct checkpoint *c = NULL;
    struct backend *b = NULL;
    if (!repo_path("tests/golden/llama3/model.gguf")) SKIP("tests/golden is not here");
    NEED_OK(checkpoint_open(&c, repo_path("tests/golden/llama3/model.gguf"), &e), &e);
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    for (int id = 259; id <= 260; id++) {
        struct model *m = NULL;
        struct model_options o = {.backend = b,
                                  .context_max = 64,
                                  .batch = {.n_row = 8, .n_seq = 1, .n_out = 8},
                                  .class_token = {0, id},
                                  .n_class_token = 2};
        EXPECT_INT(model_open(&m, c, &o, &e), id < 260 ? 0 : ERR_FORMAT);
        model_close(m);
    }
    EXPECT(strstr(e.text, "classifier_from_token[1]: must be a token in [0, 260), got 260"));
    backend_close(b);
    checkpoint_close(c);
}

/* Goal: model_info lists every matrix once, under its number. */
TEST(matrices_of_a_model_are_listed)
{
    struct err e;
    struct checkpoint *c = NULL;
    struct backend *b = NULL;
    struct model *m = NULL;
    if (!repo_path("tests/golden/llama3/model.gguf")) SKIP("tests/golden is not here");
    NEED_OK(checkpoint_open(&c, repo_path("tests/golden/llama3/model.gguf"), &e), &e);
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    struct model_options o = {
        .backend = b, .context_max = 64, .batch = {.n_row = 8, .n_seq = 1, .n_out = 8}};
    NEED_OK(model_open(&m, c, &o, &e), &e);
    const struct model_info *info = model_info(m);
    EXPECT_INT(info->n_matrix, 2 + 7 * info->n_layer); /* ends, and seven in each layer */
    EXPECT(info->permuted);
    for (int i = 0; i < info->n_matrix; i++) {
        const struct tensor_info *t = checkpoint_tensor(c, info->matrix[i]->name);
        EXPECT_INT(info->matrix[i]->number, i);
        EXPECT(t && t->dim[0] == info->matrix[i]->k && t->dim[1] == info->matrix[i]->n_out);
    }
    model_close(m);
    backend_close(b);
    checkpoint_close(c);
}

/* Goal: KV bytes and products of attention follow from heads of k and v of different sizes. */
TEST(heads_of_k_and_v_of_different_sizes_are_counted)
{
    struct err e;
    struct checkpoint *c = NULL;
    struct backend *b = NULL;
    struct model *m = NULL;
    if (!repo_path("tests/golden/minicpm3/model.gguf")) SKIP("tests/golden is not here");
    NEED_OK(checkpoint_open(&c, repo_path("tests/golden/minicpm3/model.gguf"), &e), &e);
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    struct model_options o = {.backend = b,
                              .context_max = 64,
                              .kv_type = KV_F16,
                              .batch = {.n_row = 8, .n_seq = 1, .n_out = 8}};
    NEED_OK(model_open(&m, c, &o, &e), &e);
    const struct model_info *info = model_info(m);
    const int n_head = 2 * 2; /* number of heads of both layers; k has 20 values, and v 16 */
    EXPECT_INT(info->kv_token_bytes, n_head * (20 + 16) * 2);
    EXPECT_INT(info->pair_macs, n_head * (20 + 16));
    model_close(m);
    backend_close(b);
    checkpoint_close(c);
}

/* Copy a golden folder to the temporary folder, replace a field of its config.json, and open the
 * copy. */
static int open_changed(const char *model, const char *from, const char *to, struct err *e)
{
    static const char *const file[] = {"config.json", "model.safetensors"};
    for (int i = 0; i < 2; i++) {
        struct buf b = {0}, out = {0};
        char path[256];
        snprintf(path, sizeof path, "tests/golden/%s/%s", model, file[i]);
        if (file_read(&b, repo_path(path), 1 << 24, e) != 0) return -1;
        char *at = memmem(b.data, b.n, from, strlen(from));
        size_t before = at ? (size_t)(at - b.data) : b.n, skip = at ? strlen(from) : 0;
        buf_add(&out, b.data, before);
        if (at) buf_add_text(&out, to);
        buf_add(&out, b.data + before + skip, b.n - before - skip);
        snprintf(path, sizeof path, "changed/%s", file[i]);
        temp_put(path, "");
        file_write(temp_path(path), out.data, out.n, e);
        buf_deinit(&b);
        buf_deinit(&out);
    }
    return try_open(temp_path("changed"), e);
}

/* Goal: the number of layers of a GGUF includes those that predict further tokens. So do lists. */
TEST(further_layers_of_a_gguf_are_left_out)
{
    if (!repo_path("tests/golden/qwen3_5/model.gguf")) SKIP("tests/golden is not here");
    static const bool kind[] = {true, false, true};
    struct err e;
    for (int n_next = 0; n_next < 3; n_next++) {
        struct checkpoint *c = NULL;
        struct backend *b = NULL;
        struct model *m = NULL;
        NEED_OK(checkpoint_open(&c, repo_path("tests/golden/qwen3_5/model.gguf"), &e), &e);
        const int n_layer = (int)meta_int(checkpoint_meta(c, "qwen35.block_count"), 0);
        EXPECT_INT(n_layer, 3);
        NEED_OK(checkpoint_add_u32(c, "qwen35.nextn_predict_layers", (uint32_t)n_next, &e), &e);
        NEED_OK(checkpoint_add_bools(c, "qwen35.attention.recurrent_layers", kind, 3, &e), &e);
        NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
        struct model_options o = {
            .backend = b, .context_max = 64, .batch = {.n_row = 8, .n_seq = 1, .n_out = 8}};
        NEED_OK(model_open(&m, c, &o, &e), &e);
        EXPECT_INT(model_info(m)->n_layer, n_layer - n_next);
        model_close(m);
        backend_close(b);
        checkpoint_close(c);
    }
}

/* Goal: the error of an unknown architecture lists the names that files of this kind have. */
TEST(unknown_architectures_have_the_list_of_their_files)
{
    if (!repo_path("tests/golden/llama3/model.gguf")) SKIP("tests/golden is not here");
    struct err e = {0};
    EXPECT(open_changed("llama3", "\"model_type\": \"llama\"", "\"model_type\": \"foo\"", &e) ==
           ERR_UNSUPPORTED);
    EXPECT(strstr(e.text, "model_type \"foo\" not found; available: "));
    EXPECT(strstr(e.text, ", gpt_neox, ") && strstr(e.text, ", glm, ") &&
           strstr(e.text, ", roberta, "));
    EXPECT(!strstr(e.text, "gptneox") && !strstr(e.text, "chatglm"));
    EXPECT(!strstr(e.text, "did you mean"));
    expect_refusal("llama", "lxama", 5, ERR_UNSUPPORTED, ", gptneox, ");
    expect_refusal("llama", "lxama", 5, ERR_UNSUPPORTED, "; did you mean \"llama\"?");
    EXPECT(open_changed("llama3", "\"model_type\": \"llama\"", "\"model_type\": \"gpt_naox\"",
                        &e) == ERR_UNSUPPORTED);
    EXPECT(strstr(e.text, "\"gpt_naox\" not found; did you mean \"gpt_neox\"?"));
    EXPECT(open_changed("llama3", "\"model_type\": \"llama\"", "\"model_type\": \"qwen3-vl\"",
                        &e) == ERR_UNSUPPORTED);
    EXPECT(strstr(e.text, "did you mean \"qwen3_vl\"?")); /* a model of several parts */
}

/* Goal: the error for weights alone names the missing config.json. */
TEST(weights_without_config_json_are_refused)
{
    if (!repo_path("tests/golden/llama3/model.gguf")) SKIP("tests/golden is not here");
    struct buf b = {0};
    struct err e = {0};
    NEED_OK(file_read(&b, repo_path("tests/golden/llama3/model.safetensors"), 1 << 24, &e), &e);
    NEED_OK(file_write(temp_path("alone.safetensors"), b.data, b.n, &e), &e);
    buf_deinit(&b);
    EXPECT_INT(try_open(temp_path("alone.safetensors"), &e), ERR_MISSING);
    EXPECT(strstr(e.text, "config.json is missing") && strstr(e.text, "alone.safetensors"));
    EXPECT_INT(remove(temp_path("alone.safetensors")), 0);
}

TEST(tensors_are_bound_left_out_or_refused_by_name)
{
    if (!repo_path("tests/golden/llama3/model.gguf")) SKIP("tests/golden is not here");
    static const char endless[] = "{\n      \"__float__\": \"Infinity\"\n    }";
    static const struct {
        const char *model, *from, *to, *word; /* word: NULL if the model is accepted */
    } cases[] = {
        {"llama-untied", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true", NULL},
        {"qwen3", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
         "tensor lm_head.weight is missing"},
        {"qwen3", "\"model.embed_tokens.weight\"", "\"lm_head.weight\"           ", NULL},
        {"llama-untied", "embed_tokens.weight", "embed_tokenx.weight",
         "tensor model.embed_tokens.weight is missing"},
        {"qwen2", "self_attn.q_proj.bias", "self_attn.q_prox.bias",
         "layers.0.self_attn.q_proj.bias is missing; a similar tensor: "
         "model.layers.0.self_attn.q_prox.bias"},
        {"qwen3", "\"attention_bias\": false", "\"attention_bias\": true", "bias is missing"},
        {"llama-untied", "lm_head.weight", "lm_heax.weight",
         "lm_head.weight is missing; a similar tensor: lm_heax.weight"},
        {"llama3", "\"num_hidden_layers\"", "\"num_hidden_layerz\"",
         "config.json has no num_hidden_layers, so the number of layers is 32"},
        {"llama-untied", "\"vocab_size\": 260", "\"vocab_size\": 261",
         "vocab_size: must be the 260 rows"},
        /* experts as one matrix each */
        {"qwen3moe", "experts.3.up_proj.weight", "experts.7.up_proj.weight",
         "tensor model.layers.0.mlp.experts.3.up_proj.weight is missing"},
        {"qwen3moe", "experts\": 5", "experts\": 6",
         "layers.0.mlp.gate.weight: expected [6, 32] (num_experts, hidden_size), got [5, 32]"},
        {"qwen3moe", "mlp.experts.4.down_proj", "mlp.experts.8.down_proj",
         "layers.0.mlp.experts.4.down_proj.weight is missing"},
        {"qwen3moe", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9",
         "num_experts_per_tok: must be in [1, 5], got 9"},
        {"qwen3moe", "\"moe_intermediate_size\": 24", "\"moe_intermediate_size\": 32",
         "experts.0.gate_proj.weight: expected [32, 32] (moe_intermediate_size, hidden_size), got "
         "[24, 32]"},
        /* latent attention */
        {"deepseek_v3", "gate.e_score_correction_bias", "gate.e_score_correction_bixs",
         "e_score_correction_bias is missing"},
        {"deepseek_v3", "1.mlp.shared_experts.up_proj", "1.mlp.shared_experts.op_proj",
         "shared_experts.up_proj.weight is missing"},
        {"deepseek_v3", "kv_b_proj", "kv_c_proj", "kv_b_proj.weight is missing"},
        /* layers after the model, which predict further tokens */
        {"deepseek_v3", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", NULL},
        {"deepseek_v3",
         "\"num_hidden_layers\": 2,\n  \"num_key_value_heads\": 2,\n  "
         "\"num_nextn_predict_layers\": 1",
         "\"num_hidden_layers\": 1,\n  \"num_key_value_heads\": 2,\n  "
         "\"num_nextn_predict_layers\": 0",
         "tensor model.layers.1.input_layernorm.weight: belongs to layer 1"},
        {"glm4_moe", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
         "tensor model.layers.1.input_layernorm.weight: belongs to layer 1"},
        {"glm4_moe",
         "\"num_hidden_layers\": 2,\n  \"num_key_value_heads\": 1,\n  "
         "\"num_nextn_predict_layers\": 0",
         "\"num_hidden_layers\": 1,\n  \"num_key_value_heads\": 1,\n  "
         "\"num_nextn_predict_layers\": 1",
         NULL},
        /* recurrent layers; Python and transformers 5 write infinity in these forms */
        {"mamba2", endless, "Infinity", NULL},
        {"mamba2", endless, "100.0", NULL},
        {"mamba2", endless, "NaN", "time_step_limit: must be [LEAST, MOST]"},
        {"mamba2", endless, "-Infinity", "time_step_limit: must be [LEAST, MOST]"},
        {"lfm2", "\"intermediate_size\": 60", "\"intermediate_size\": 48, \"block_ff_dim\": 60",
         NULL},
        {"qwen3_5", "[64,1,4]", "[4,1,64]", "conv1d.weight: expected ["},
        {"lfm2", "\"block_ffn_dim_multiplier\": 1.1", "\"block_ffn_dim_multiplier\": null",
         "feed_forward.w1.weight: expected [40, "},
        {"qwen3_5", "\"linear_attention\"", "\"conv\"",
         "layer_types: [0]: must be full_attention or linear_attention, got \"conv\""},
        {"minicpm3", "self_attn.q_a_proj", "self_attn.q_b_prox",
         "q_a_proj.weight is missing; a similar tensor: model.layers.0.self_attn.q_b_prox.weight"},
        {"minicpm3", "self_attn.q_a_layernorm", "self_attn.q_b_layernorm",
         "q_a_layernorm.weight is missing; a similar tensor: "
         "model.layers.0.self_attn.q_b_layernorm.weight"},
        {"minicpm3", "self_attn.q_b_proj", "self_attn.q_x_proj", "q_b_proj.weight is missing"},
        {"minicpm3", "kv_a_proj_with_mqa", "kv_a_proj_with_mqb",
         "kv_a_proj_with_mqa.weight is missing"},
        {"minicpm3", "kv_a_layernorm", "kv_b_layernorm", "kv_a_layernorm.weight is missing"},
        {"minicpm3", "kv_b_proj", "kv_c_proj", "kv_b_proj.weight is missing"},
        {"minicpm3", "self_attn.o_proj", "self_attn.p_proj", "self_attn.o_proj.weight is missing"},
        {"minicpm3", "[24,32]", "[32,24]",
         "q_a_proj.weight: expected [24, 32] (q_lora_rank, hidden_size), got [32, 24]"},
        {"minicpm3", "[56,20]", "[20,56]",
         "kv_b_proj.weight: expected [56, 20] (56, kv_lora_rank), got [20, 56]"},
        {"minicpm3", "[28,32]", "[32,28]",
         "kv_a_proj_with_mqa.weight: expected [28, 32] (kv_lora_rank + qk_rope_head_dim, "
         "hidden_size), got [32, 28]"},
        {"minicpm3", "\"q_lora_rank\": 24", "\"q_lora_rank\": null",
         "layers.0.self_attn.q_proj.weight is missing"},
        {"minicpm3", "\"v_head_dim\": 16", "\"v_head_dim\": 12",
         "kv_b_proj.weight: expected [48, 20] (48, kv_lora_rank), got [56, 20]"},
        /* encoder and decoder */
        {"cross/t5", "DenseReluDense.wi.", "DenseReluDense.wx.",
         "DenseReluDense.wi_1.weight is missing"},
        {"cross/t5", "EncDecAttention.k", "EncDecAttention.j",
         "layer.1.EncDecAttention.k.weight is missing"},
        {"cross/t5", "attention_bias.weight", "attention_bias.waight",
         "relative_attention_bias.weight is missing"},
        {"cross/t5", "\"relative_attention_num_buckets\": 8",
         "\"relative_attention_num_buckets\": 9",
         "relative_attention_bias.weight: expected [9, 2] (relative_attention_num_buckets, "
         "num_heads), got [8, 2]"},
        {"cross/t5", "\"num_decoder_layers\": 2", "\"num_decoder_layers\": 3",
         "tensor decoder.block.2.layer.0.layer_norm.weight is missing"},
        {"cross/t5", "\"num_decoder_layers\": 2", "\"num_decoder_layers\": 1",
         "tensor decoder.block.1."},
        {"cross/mt5", "lm_head.weight", "lm_heax.weight", "tensor lm_heax.weight"},
        {"cross/mt5", "\"decoder_start_token_id\": 0", "\"decoder_start_token_id\": 97",
         "decoder_start_token_id: must be in [0, 97), got 97"},
        {"cross/bart", "encoder_attn.k_proj.bias", "encoder_attn.j_proj.bias",
         "decoder.layers.0.encoder_attn.k_proj.bias is missing"},
        {"cross/bart", "encoder_attn_layer_norm", "encoder_attn_layer_narm",
         "decoder.layers.0.encoder_attn_layer_norm.bias is missing"},
        {"cross/bart", "final_logits_bias", "final_logits_bios", "tensor final_logits_bios"},
        {"cross/bart", "[1,265]", "[265,1]",
         "final_logits_bias: expected [1, 265] (vocab_size), got [265, 1]"},
        {"cross/bart", "\"max_position_embeddings\": 128", "\"max_position_embeddings\": 127",
         "embed_positions.weight: expected [129, 24] (129, d_model), got [130, 24]"},
        {"cross/bart", "\"decoder_ffn_dim\": 32", "\"decoder_ffn_dim\": 24",
         "decoder.layers.0.fc1.weight: expected [24, 24] (decoder_ffn_dim, d_model), got [32, 24]"},
        /* a linear layer stored as two tensors */
        {"qwen3moe-fp8", "weight_scale_inv", "weight_scale_off", "weight_scale_inv is missing"},
        {"qwen3moe-fp8", "40\n", "8\n", "weight_scale_inv is ["},
        {"qwen3moe-fp8", "\"e4m3\"", "\"e5m2\"", "quantization_config.fmt: must be"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        int rc = open_changed(cases[i].model, cases[i].from, cases[i].to, &e);
        if (cases[i].word ? rc == 0 || !strstr(e.text, cases[i].word) : rc != 0)
            test_fail(__FILE__, __LINE__, "%s with %s: %d \"%s\", expected %s", cases[i].model,
                      cases[i].to, rc, e.text, cases[i].word ? cases[i].word : "no error");
    }
    expect_refusal("rope_freqs.weight", "rope_fregs.weight", 17, ERR_UNSUPPORTED,
                   "tensor rope_fregs.weight");
}
