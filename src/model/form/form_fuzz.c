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

/* The models of tests/golden/forms: a llama, and models whose matrices have several parts. */
#define CONFIG(type, fields)                                                                       \
    "{\"model_type\":\"" type "\",\"vocab_size\":260,\"num_hidden_layers\":2," fields              \
    "\"max_position_embeddings\":64,\"quantization_config\":{\"quant_method\":"
#define WIDTH(d, ff) "\"hidden_size\":" #d ",\"intermediate_size\":" #ff ","
#define HEADS(q)     "\"num_attention_heads\":" #q ","
#define ROPE                                                                                       \
    "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000.0,"                       \
    "\"partial_rotary_factor\":0.5},"
#define LLAMA                                                                                      \
    CONFIG("llama", WIDTH(64, 96) HEADS(4) "\"num_key_value_heads\":2,\"head_dim\":16,"            \
                                           "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true,")
#define PHI3                                                                                       \
    CONFIG("phi3", WIDTH(64, 96) HEADS(4) "\"num_key_value_heads\":2,\"tie_word_embeddings\":"     \
                                          "true,")
#define NEOX CONFIG("gpt_neox", WIDTH(48, 64) HEADS(4) ROPE)
#define FALCON                                                                                     \
    CONFIG("falcon", "\"hidden_size\":64,\"ffn_hidden_size\":96," HEADS(                           \
                         4) "\"new_decoder_architecture\":true,\"num_kv_heads\":2,")
#define BLOOM                                                                                      \
    "{\"model_type\":\"bloom\",\"vocab_size\":260,\"num_hidden_layers\":2,\"hidden_size\":48,"     \
    "\"n_head\":6,\"tie_word_embeddings\":false,\"quantization_config\":{\"quant_method\":"
#define QWEN3_NEXT                                                                                 \
    CONFIG("qwen3_next", WIDTH(24, 20) HEADS(2) ROPE                                               \
           "\"num_key_value_heads\":1,\"head_dim\":16,\"full_attention_interval\":2,"              \
           "\"moe_intermediate_size\":8,\"num_experts\":5,\"num_experts_per_tok\":2,"              \
           "\"shared_expert_intermediate_size\":12,\"linear_conv_kernel_dim\":3,"                  \
           "\"linear_key_head_dim\":8,\"linear_value_head_dim\":6,\"linear_num_key_heads\":2,"     \
           "\"linear_num_value_heads\":4,\"rms_norm_eps\":1e-6,\"tie_word_embeddings\":false,")
#define MAMBA2                                                                                     \
    "{\"model_type\":\"mamba2\",\"vocab_size\":260,\"num_hidden_layers\":3,\"hidden_size\":48,"    \
    "\"num_heads\":6,\"head_dim\":16,\"expand\":2,\"state_size\":12,\"n_groups\":2,"               \
    "\"conv_kernel\":4,\"use_bias\":true,\"layer_norm_epsilon\":1e-5,"                             \
    "\"tie_word_embeddings\":true,\"quantization_config\":{\"quant_method\":"
static const char *const configs[] = {
    LLAMA "\"gptq\",\"bits\":4,\"group_size\":32,\"dynamic\":{\"+:x\":{}}}}",
    LLAMA "\"awq\",\"bits\":4,\"group_size\":32,\"version\":\"gemm\"}}",
    LLAMA "\"awq\",\"bits\":4,\"group_size\":32,\"version\":\"gemv\"}}",
    LLAMA "\"fp8\"}}",
    LLAMA "\"fp8\",\"weight_block_size\":[24,40]}}",
    LLAMA "\"bitsandbytes\"}}",
    LLAMA "\"bitnet\"}}",
    LLAMA "\"hqq\"}}",
    LLAMA "\"auto-round\",\"bits\":4,\"group_size\":32,\"sym\":true,"
          "\"packing_format\":\"auto_round:auto_gptq\",\"extra_config\":{}}}",
    LLAMA "\"quanto\",\"quanto_qmap.json\":true}}",
    LLAMA
    "\"compressed-tensors\",\"config_groups\":{\"a\":{\"weights\":{\"num_bits\":4,\"group_size\":"
    "32,"
    "\"block_structure\":[24,40]}},\"b\":{\"weights\":{\"num_bits\":8,\"group_size\":16}},"
    "\"c\":{\"weights\":{\"num_bits\":3}}}}}",
    PHI3 "\"gptq\",\"bits\":4,\"group_size\":32}}",
    NEOX "\"gptq\",\"bits\":4,\"group_size\":24,\"dynamic\":{\"+:x\":{}}}}",
    FALCON "\"fp8\",\"weight_block_size\":[24,40]}}",
    BLOOM "\"bitsandbytes\"}}",
    QWEN3_NEXT "\"fp8\",\"weight_block_size\":[10,16]}}",
    MAMBA2 "\"gptq\",\"bits\":4,\"group_size\":24,\"dynamic\":{\"+:x\":{}}}}",
};

/* Open the fuzzed weights with a config.json. */
static void open_as(const char *text)
{
    struct checkpoint *c;
    struct backend *b;
    struct model *m;
    struct err e = {0};
    fuzz_put("config.json", text, strlen(text));
    if (checkpoint_open(&c, fuzz_folder(), &e) != 0) return;
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
    log_silent = true;
    fuzz_put("model.safetensors", data, n);
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) open_as(configs[i]);
}
