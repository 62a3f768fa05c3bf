/* form_fuzz.c - bind and pack the mutated weights of a quantized model, under the config of each
 * form. The result is a model or an error with a message. */
#include "../../../tests/fuzz/fuzz.h"

#include "base/log.h"
#include "base/os.h"
#include "model/model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The model of tests/golden/forms. */
#define MODEL                                                                                      \
    "{\"model_type\":\"llama\",\"vocab_size\":260,\"hidden_size\":64,\"intermediate_size\":96,"    \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16," \
    "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true,\"max_position_embeddings\":64,"           \
    "\"quantization_config\":{\"quant_method\":"
static const char *const quantization[] = {
    "\"gptq\",\"bits\":4,\"group_size\":32,\"dynamic\":{\"+:x\":{}}}}",
    "\"awq\",\"bits\":4,\"group_size\":32,\"version\":\"gemm\"}}",
    "\"awq\",\"bits\":4,\"group_size\":32,\"version\":\"gemv\"}}",
    "\"fp8\"}}",
    "\"fp8\",\"weight_block_size\":[24,40]}}",
    "\"bitsandbytes\"}}",
    "\"bitnet\"}}",
    "\"hqq\"}}",
    "\"auto-round\",\"bits\":4,\"group_size\":32,\"sym\":true,"
    "\"packing_format\":\"auto_round:auto_gptq\",\"extra_config\":{}}}",
    "\"quanto\",\"quanto_qmap.json\":true}}",
    "\"compressed-tensors\",\"config_groups\":{\"a\":{\"weights\":{\"num_bits\":4,\"group_size\":"
    "32,"
    "\"block_structure\":[24,40]}},\"b\":{\"weights\":{\"num_bits\":8,\"group_size\":16}},"
    "\"c\":{\"weights\":{\"num_bits\":3}}}}}",
};
static char dir[64], config[96], weights[96];

static void remove_dir(void)
{
    unlink(config);
    unlink(weights);
    rmdir(dir);
}

static void put(const char *path, const void *data, size_t n)
{
    struct err e;
    if (file_write(path, data, n, &e) != 0) abort();
}

static void make_dir(void)
{
    snprintf(dir, sizeof dir, "/dev/shm/quoth-fuzz-form-%d", (int)getpid());
    snprintf(config, sizeof config, "%s/config.json", dir);
    snprintf(weights, sizeof weights, "%s/model.safetensors", dir);
    if (mkdir(dir, 0700) != 0) abort();
    atexit(remove_dir);
    log_silent = true;
}

/* Open a model whose config.json contains the fuzzed quantization_config. */
static void open_as(const char *form)
{
    char text[1024];
    struct checkpoint *c;
    struct backend *b;
    struct model *m;
    struct err e = {0};
    snprintf(text, sizeof text, "%s%s", MODEL, form);
    put(config, text, strlen(text));
    if (checkpoint_open(&c, dir, &e) != 0) return;
    if (backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e) != 0) abort();
    const struct model_options o = {
        .backend = b, .context_max = 16, .batch = {.n_row = 1, .n_seq = 1, .n_out = 1}};
    const int rc = model_open(&m, c, &o, &e);
    assert((rc == 0) == (e.text[0] == 0));
    if (rc == 0) fuzz_accepted();
    model_close(m);
    backend_close(b);
    checkpoint_close(c);
}

FUZZ(form_safetensors)
{
    if (!dir[0]) make_dir();
    put(weights, data, n);
    for (size_t i = 0; i < sizeof quantization / sizeof quantization[0]; i++)
        open_as(quantization[i]);
}
