/* keys_rig_test.c - see keys_rig_test.h. */
#include "keys_rig_test.h"

#include "base/log.h"
#include "base/os.h"
#include "../../tests/gguf_make.h"
#include "../../tests/safetensors_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct arch *const all_arches[N_ARCH] = {
#define ARCH(id) &arch_##id,
#include "arch/arch.def"
#undef ARCH
};

bool declares(const struct config_key *list, const char *key)
{
    for (; key && list && list->key; list++)
        if (strcmp(list->key, key) == 0 && list->use != KEY_IDLE) return true;
    return false;
}

const struct checkpoint_changes *read_changes;

/* Open with `read_changes`, in single quotes. */
static int open_changed(struct checkpoint **c, const char *path, struct err *e)
{
    struct buf config = {0}, rope = {0};
    struct checkpoint_changes own = read_changes ? *read_changes : (struct checkpoint_changes){0};
    if (own.config) add_quoted(&config, own.config);
    if (own.rope) add_quoted(&rope, own.rope);
    own.config = config.data, own.rope = rope.data;
    int rc = checkpoint_open_with(c, path, &own, e);
    buf_deinit(&config);
    buf_deinit(&rope);
    return rc;
}

static void read_opened(struct read *r)
{
    struct binder b = {
        .m = &r->m, .checkpoint = r->c, .prefix = r->m.arch->name, .e = &r->e, .part = ""};
    r->m.checkpoint = r->c;
    b.read = calloc((size_t)checkpoint_n_meta(r->c) + 1, 1);
    log_silent = true; /* suppress warnings about unknown fields */
    if (b.read) config_read(&b);
    log_silent = false;
    free(b.read);
    r->rc = b.rc;
}

/* Return a model_type of the architecture. Its name may be that of a model of several parts. */
static const char *type_of(const struct arch *a)
{
    static const struct name_pair type[] = {
#define ARCH_MODEL_TYPE(arch, model_type) {model_type, #arch},
#include "format/tensors.def"
    };
    for (size_t i = 0; parts_of(a->name) && i < sizeof type / sizeof type[0]; i++)
        if (strcmp(type[i].name, a->name) == 0) return type[i].raw;
    return a->name;
}

void read_json(struct read *r, const struct arch *a, const char *json)
{
    *r = (struct read){.m = {.arch = a}};
    EXPECT_INT(json_write(temp_path("config.json"), json), 0);
    EXPECT_INT(safetensors_write(temp_path("model.safetensors"),
                                 "{'x':{'dtype':'I8','shape':[1],'data_offsets':[0,1]}}", 1),
               0);
    r->rc = open_changed(&r->c, temp_path(""), &r->e);
    if (r->rc == 0) read_opened(r);
}

void read_config(struct read *r, const struct arch *a, const char *fields)
{
    char json[2000];
    bool layers = strstr(fields, "num_hidden_layers") != NULL;
    /* the default of gemma3n is for more layers */
    bool shares = a == &arch_gemma3n && !strstr(fields, "num_kv_shared_layers");
    /* the class has no default that it can compute */
    bool chooses = a == &arch_deepseek2 && !strstr(fields, "num_experts_per_tok");
    /* the heads of the class's default have an odd number of rotated lanes */
    bool even = a == &arch_glm4moe && !strstr(fields, "head_dim");
    /* the class has no default that quoth can compute */
    bool kinds = a == &arch_nemotron_h && !strstr(fields, "'hybrid_override_pattern") &&
                 !strstr(fields, "'layers_block_type");
    snprintf(json, sizeof json, "{'model_type':'%s'%s%s%s%s%s%s%s}", type_of(a),
             kinds ? ",'hybrid_override_pattern':'M*'" : "", layers ? "" : ",'num_hidden_layers':2",
             shares ? ",'num_kv_shared_layers':0" : "", chooses ? ",'num_experts_per_tok':2" : "",
             even ? ",'head_dim':128" : "", *fields ? "," : "", fields);
    read_json(r, a, json);
}

void read_done(struct read *r)
{
    checkpoint_close(r->c);
    arena_deinit(&r->m.arena);
}

void expect_config(const struct arch *a, const char *fields, const char *word)
{
    struct read r;
    if (a->hf_why) word = a->hf_why;
    read_config(&r, a, fields);
    if (!word && r.rc != 0)
        test_fail(__FILE__, __LINE__, "%s {%s}: %s", a->name, fields, r.e.text);
    else if (word && (r.rc == 0 || !strstr(r.e.text, word)))
        test_fail(__FILE__, __LINE__, "%s {%s}: \"%s\" lacks %s", a->name, fields,
                  r.rc == 0 ? "accepted" : r.e.text, word);
    read_done(&r);
}

bool lacks_flat_rope(const struct arch *a)
{
    return a->no_rope || declares(a->hf_key, "config.rope_parameters.full_attention");
}

/* Return true for the fields of a flat rope, because the architecture has none, or other spellings
 * (config_ropes_of_modern_bert, config_ropes_per_type_of_layer). */
static bool is_of_rope(const struct arch *a, const char *fields)
{
    const bool nested = declares(a->hf_key, "config.rope_parameters.sliding_attention.rope_type"),
               other = a == &arch_modernbert ||
                       (nested && (strstr(fields, "'type'") ||
                                   strstr(fields, "'rope_parameters':{'rope_type'")));
    return (lacks_flat_rope(a) || other) && strstr(fields, "'rope_");
}

void expect_all(const char *fields, const char *word)
{
    for (int i = 0; i < N_ARCH; i++)
        if (!is_of_rope(all_arches[i], fields)) expect_config(all_arches[i], fields, word);
}

void expect_others(const char *key, const char *fields, const char *word)
{
    for (int i = 0; i < N_ARCH; i++)
        if (!declares(all_arches[i]->hf_key, key) && !is_of_rope(all_arches[i], fields))
            expect_config(all_arches[i], fields, word);
}

bool has_type(const struct arch *a, enum rope_scaling scaling)
{
    const struct rope_type *t = config_rope_types(a);
    while (t->name && t->scaling != scaling) t++;
    return t->name;
}

void expect_scaled(const char *fields, const char *word)
{
    for (int i = 0; i < N_ARCH; i++)
        if (has_type(all_arches[i], ROPE_LINEAR) && !is_of_rope(all_arches[i], fields))
            expect_config(all_arches[i], fields, word);
}

const char *field_of(const struct arch *a, const char *key)
{
    static const struct name_pair pair[] = {
#define HF_KEY(field, key) {field, key},
#include "format/hf_keys.def"
    };
    static const struct {
        const char *arch, *raw, *key; /* static */
    } own[] = {
#define HF_KEY_OF(arch, field, key) {arch, field, key},
#include "format/hf_keys.def"
    };
    if (strncmp(key, "config.", 7) == 0) return key + 7;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(own[i].arch, a->name) == 0 && strcmp(own[i].key, key) == 0) return own[i].raw;
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++)
        if (strcmp(pair[i].name, key) == 0) return pair[i].raw;
    if (strcmp(key, "rope.scaling.original_context_length") == 0)
        return "original_max_position_embeddings";
    return key;
}

static void add_key(struct made *g, const struct arch *a, const char *key, double value)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", a->name, key);
    if (isnan(value)) { /* sections of a rope of 8 pairs */
        made_list(g, full, 5, 4);
        for (int i = 0; i < 4; i++) made_uint(g, 4, "\3\3\2"[i]);
        return;
    }
    made_key(g, full, 12); /* a double, which every numeric getter accepts */
    made_f64(g, value);
}

/* Add a text, or for "[10" the list of true and false. */
static void add_text(struct made *g, const struct arch *a, const char *key, const char *text)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", a->name, key);
    if (*text == '[') {
        made_list(g, full, 7, strlen(text + 1));
        while (*++text) made_uint(g, 1, *text == '1');
        return;
    }
    made_key(g, full, 8);
    made_text(g, text, strlen(text));
}

/* Additional keys that GGUF files of one architecture require. */
static const struct {
    const struct arch *arch;
    struct pair pair;
} needed[] = {{&arch_minicpm3, {"attention.q_lora_rank", 24}},
              {&arch_minicpm3, {"attention.kv_lora_rank", 20}},
              {&arch_minicpm3, {"rope.dimension_count", 8}},
              {&arch_deepseek2, {"attention.kv_lora_rank", 20}},
              {&arch_deepseek2, {"rope.dimension_count", 8}},
              {&arch_deepseek2, {"expert_count", 8}},
              {&arch_deepseek2, {"expert_used_count", 2}},
              {&arch_deepseek2, {"expert_feed_forward_length", 24}},
              {&arch_command_r, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_cohere2, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_cohere2, {"attention.sliding_window", 16}},
              {&arch_starcoder2, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_phi2, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_stablelm, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_nemotron, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_olmo, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_gpt2, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_gptneox, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_gptj, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_gptj, {"rope.dimension_count", 16}},
              {&arch_opt, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_falcon, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_bloom, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_mpt, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_mpt, {"attention.max_alibi_bias", 8}},
              {&arch_bert, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_bert, {"attention.causal", 0}},
              {&arch_nomic_bert, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_nomic_bert, {"attention.causal", 0}},
              {&arch_modernbert, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_modernbert, {"attention.causal", 0}},
              {&arch_gemma3, {"attention.sliding_window", 16}},
              {&arch_gemma_embedding, {"attention.sliding_window", 16}},
              {&arch_gemma3n, {"attention.sliding_window", 16}},
              {&arch_gemma4, {"attention.sliding_window", 16}},
              {&arch_gemma4, {"attention.sliding_window_pattern", 0}},
              {&arch_gemma4, {"attention.key_length_swa", 16}},
              {&arch_gemma4, {"attention.value_length_swa", 16}},
              {&arch_gemma4, {"embedding_length_per_layer_input", 0}},
              {&arch_gemma4, {"final_logit_softcapping", 30}},
              {&arch_mamba, {"ssm.conv_kernel", 4}},
              {&arch_mamba, {"ssm.state_size", 8}},
              {&arch_mamba, {"ssm.inner_size", 128}},
              {&arch_mamba, {"ssm.time_step_rank", 4}},
              {&arch_mamba, {"feed_forward_length", 0}},
              {&arch_mamba, {"attention.head_count", 0}},
              {&arch_rwkv6, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_rwkv6, {"attention.head_count", 0}},
              {&arch_rwkv6, {"wkv.head_size", 16}},
              {&arch_rwkv6, {"time_mix_extra_dim", 4}},
              {&arch_rwkv6, {"time_decay_extra_dim", 8}},
              {&arch_rwkv7, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_rwkv7, {"attention.head_count", 0}},
              {&arch_rwkv7, {"wkv.head_size", 16}},
              {&arch_rwkv7, {"attention.decay_lora_rank", 4}},
              {&arch_rwkv7, {"attention.iclr_lora_rank", 5}},
              {&arch_rwkv7, {"attention.value_residual_mix_lora_rank", 6}},
              {&arch_rwkv7, {"attention.gate_lora_rank", 7}},
              {&arch_arwkv7, {"attention.head_count", 0}},
              {&arch_arwkv7, {"token_shift_count", 1}},
              {&arch_arwkv7, {"wkv.head_size", 16}},
              {&arch_arwkv7, {"attention.decay_lora_rank", 4}},
              {&arch_arwkv7, {"attention.iclr_lora_rank", 5}},
              {&arch_arwkv7, {"attention.value_residual_mix_lora_rank", 6}},
              {&arch_arwkv7, {"attention.gate_lora_rank", 7}},
              {&arch_lfm2, {"shortconv.l_cache", 3}},
              {&arch_jamba, {"ssm.conv_kernel", 4}},
              {&arch_jamba, {"ssm.state_size", 8}},
              {&arch_jamba, {"ssm.inner_size", 128}},
              {&arch_jamba, {"ssm.time_step_rank", 4}},
              {&arch_granitehybrid, {"ssm.conv_kernel", 4}},
              {&arch_granitehybrid, {"ssm.state_size", 8}},
              {&arch_granitehybrid, {"ssm.inner_size", 128}},
              {&arch_granitehybrid, {"ssm.time_step_rank", 4}},
              {&arch_granitehybrid, {"ssm.group_count", 2}},
              {&arch_nemotron_h, {"ssm.conv_kernel", 4}},
              {&arch_nemotron_h, {"ssm.state_size", 8}},
              {&arch_nemotron_h, {"ssm.inner_size", 128}},
              {&arch_nemotron_h, {"ssm.time_step_rank", 4}},
              {&arch_nemotron_h, {"ssm.group_count", 2}},
              {&arch_nemotron_h, {"feed_forward_length", 0}},
              {&arch_falcon_h1, {"ssm.conv_kernel", 4}},
              {&arch_falcon_h1, {"ssm.state_size", 8}},
              {&arch_falcon_h1, {"ssm.inner_size", 128}},
              {&arch_falcon_h1, {"ssm.time_step_rank", 4}},
              {&arch_falcon_h1, {"ssm.group_count", 2}},
              {&arch_kimi_linear, {"attention.kv_lora_rank", 20}},
              {&arch_kimi_linear, {"rope.dimension_count", 8}},
              {&arch_kimi_linear, {"ssm.conv_kernel", 4}},
              {&arch_kimi_linear, {"kda.head_dim", 16}},
              {&arch_kimi_linear, {"expert_count", 8}},
              {&arch_kimi_linear, {"expert_used_count", 2}},
              {&arch_kimi_linear, {"expert_feed_forward_length", 24}},
              {&arch_kimi_linear, {"expert_gating_func", 2}},
              {&arch_mamba2, {"ssm.conv_kernel", 4}},
              {&arch_mamba2, {"ssm.state_size", 8}},
              {&arch_mamba2, {"ssm.inner_size", 64}},
              {&arch_mamba2, {"ssm.time_step_rank", 4}},
              {&arch_mamba2, {"ssm.group_count", 2}},
              {&arch_mamba2, {"feed_forward_length", 0}},
              {&arch_mamba2, {"attention.head_count", 0}},
              {&arch_qwen2vl, {"rope.dimension_sections", NAN}},
              {&arch_qwen35, {"rope.dimension_sections", NAN}},
              {&arch_qwen35, {"ssm.conv_kernel", 4}},
              {&arch_qwen35, {"ssm.state_size", 8}},
              {&arch_qwen35, {"ssm.group_count", 2}},
              {&arch_qwen35, {"ssm.time_step_rank", 4}},
              {&arch_qwen35, {"ssm.inner_size", 32}},
              {&arch_qwen35moe, {"rope.dimension_sections", NAN}},
              {&arch_qwen35moe, {"ssm.conv_kernel", 4}},
              {&arch_qwen35moe, {"ssm.state_size", 8}},
              {&arch_qwen35moe, {"ssm.group_count", 2}},
              {&arch_qwen35moe, {"ssm.time_step_rank", 4}},
              {&arch_qwen35moe, {"ssm.inner_size", 32}},
              {&arch_qwen35moe, {"expert_count", 8}},
              {&arch_qwen35moe, {"expert_used_count", 2}},
              {&arch_qwen3next, {"ssm.conv_kernel", 4}},
              {&arch_qwen3next, {"ssm.state_size", 8}},
              {&arch_qwen3next, {"ssm.group_count", 2}},
              {&arch_qwen3next, {"ssm.time_step_rank", 4}},
              {&arch_qwen3next, {"ssm.inner_size", 32}},
              {&arch_qwen3next, {"expert_count", 8}},
              {&arch_qwen3next, {"expert_used_count", 2}},
              {&arch_qwen3vl, {"rope.dimension_sections", NAN}},
              {&arch_qwen3vlmoe, {"rope.dimension_sections", NAN}},
              {&arch_qwen3vlmoe, {"expert_count", 8}},
              {&arch_qwen3vlmoe, {"expert_used_count", 2}},
              {&arch_ernie4_5_moe, {"expert_count", 8}},
              {&arch_ernie4_5_moe, {"expert_used_count", 2}},
              {&arch_glm4moe, {"expert_count", 8}},
              {&arch_glm4moe, {"expert_used_count", 2}},
              {&arch_gpt_oss, {"expert_count", 8}},
              {&arch_gpt_oss, {"expert_used_count", 2}},
              {&arch_granitemoe, {"expert_count", 8}},
              {&arch_granitemoe, {"expert_used_count", 2}},
              {&arch_llama4, {"interleave_moe_layer_step", 1}},
              {&arch_llama4, {"expert_feed_forward_length", 8}},
              {&arch_minimax_m2, {"expert_count", 8}},
              {&arch_minimax_m2, {"expert_used_count", 2}},
              {&arch_olmoe, {"expert_count", 8}},
              {&arch_olmoe, {"expert_used_count", 2}},
              {&arch_phimoe, {"expert_count", 8}},
              {&arch_qwen2moe, {"expert_count", 8}},
              {&arch_qwen2moe, {"expert_used_count", 2}},
              {&arch_minimax_m2, {"expert_gating_func", 2}},
              {&arch_gpt_oss, {"attention.sliding_window", 16}},
              {&arch_qwen3moe, {"expert_count", 8}},
              {&arch_qwen3moe, {"expert_used_count", 2}},
              {&arch_bart, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_bart, {"decoder_start_token_id", 2}},
              {&arch_t5, {"decoder_start_token_id", 0}},
              {&arch_mt5, {"decoder_start_token_id", 0}},
              {&arch_umt5, {"decoder_start_token_id", 0}}};
enum { N_NEEDED = sizeof needed / sizeof needed[0] };

const char *read_left_out;

/* Return true if the file must not have the key, or has the key's value of `more`. */
static bool is_among(const struct pair more[2], const char *key)
{
    return (read_left_out && strcmp(read_left_out, key) == 0) ||
           (more[0].key && strcmp(more[0].key, key) == 0) ||
           (more[1].key && strcmp(more[1].key, key) == 0);
}

/* Return true if `needed` has another value of a key. */
static bool is_needed(const struct arch *a, const char *key)
{
    for (int i = 0; i < N_NEEDED; i++)
        if (needed[i].arch == a && strcmp(needed[i].pair.key, key) == 0) return true;
    return false;
}

void read_gguf_text(struct read *r, const struct arch *a, const struct pair more[2],
                    const char *text)
{
    static const struct pair sizes[] = {
        {"block_count", 2},          {"embedding_length", 64},
        {"feed_forward_length", 96}, {"attention.head_count", 4},
        {"context_length", 256},     {"attention.layer_norm_rms_epsilon", 1e-5}};
    enum { N_SIZE = sizeof sizes / sizeof sizes[0] };
    struct made g = {0};
    int n_more = (more[0].key != NULL) + (more[1].key != NULL), n_needed = 0, n_size = 0;
    for (int i = 0; i < N_SIZE; i++)
        n_size += !is_among(more, sizes[i].key) && !is_needed(a, sizes[i].key);
    for (int i = 0; i < N_NEEDED; i++)
        n_needed += needed[i].arch == a && !is_among(more, needed[i].pair.key);
    *r = (struct read){.m = {.arch = a}};
    made_raw(&g, "GGUF\3\0\0\0", 8);
    made_uint(&g, 8, 0);
    made_uint(&g, 8, (uint64_t)(2 + n_size + n_more + n_needed));
    made_key(&g, "general.architecture", 8);
    made_text(&g, a->name, strlen(a->name));
    made_key(&g, "someone.note", 5);
    made_uint(&g, 4, 1);
    for (int i = 0; i < N_SIZE; i++)
        if (!is_among(more, sizes[i].key) && !is_needed(a, sizes[i].key))
            add_key(&g, a, sizes[i].key, sizes[i].value);
    if (text) add_text(&g, a, more[0].key, text);
    for (int i = text != NULL; i < n_more; i++) add_key(&g, a, more[i].key, more[i].value);
    for (int i = 0; i < N_NEEDED; i++)
        if (needed[i].arch == a && !is_among(more, needed[i].pair.key))
            add_key(&g, a, needed[i].pair.key, needed[i].pair.value);
    EXPECT_INT(file_write(temp_path("keys.gguf"), g.head.data, g.head.n, &r->e), 0);
    buf_deinit(&g.head);
    r->rc = open_changed(&r->c, temp_path("keys.gguf"), &r->e);
    if (r->rc == 0) read_opened(r);
}

void read_gguf(struct read *r, const struct arch *a, const struct pair more[2])
{
    read_gguf_text(r, a, more, NULL);
}

bool has_gguf(const struct arch *a)
{
    return !a->gguf_why && (a->gguf_key || !a->encoder);
}

void expect_gguf(const char *key, double value, const char *word)
{
    for (int i = 0; i < N_ARCH; i++) {
        struct read r;
        if (declares(all_arches[i]->gguf_key, key) || !has_gguf(all_arches[i])) continue;
        if (key && all_arches[i]->no_rope && strncmp(key, "rope.", 5) == 0) continue;
        read_gguf(&r, all_arches[i], (struct pair[2]){{key, value}});
        if (word ? r.rc == 0 || !strstr(r.e.text, word) : r.rc != 0)
            test_fail(__FILE__, __LINE__, "%s.%s = %g: \"%s\", expected %s", all_arches[i]->name,
                      key, value, r.rc == 0 ? "accepted" : r.e.text, word ? word : "no error");
        read_done(&r);
    }
}
