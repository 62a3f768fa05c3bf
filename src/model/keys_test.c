/* keys_test.c - goal: no value of a config.json changes results without an error. Method: read
 * folders with only a config.json. Every declared key of an architecture gets an impossible value,
 * to find keys that are declared but not read. */
#include "keys_rig_test.h"

#include <stdio.h>
#include <string.h>

TEST(config_keys_that_are_declared_are_read)
{
    int n = 0;
    for (int i = 0; i < N_ARCH; i++)
        for (const struct config_key *k = all_arches[i]->hf_key; k->key; k++, n++) {
            char fields[200];
            const char *name = field_of(all_arches[i], k->key);
            const bool base = strcmp(name, "rope.freq_base") == 0;
            bool list = (strstr(name, "layers") && strcmp(name, "num_hidden_layers") != 0) ||
                        strcmp(name, "time_step_limit") == 0 || strstr(name, "_multipliers") ||
                        strstr(name, "_indices") ||
                        (all_arches[i]->hf_lists && !strstr(name, "rope_parameters."));
            if (base) name = "rope_theta";
            snprintf(fields, sizeof fields, base ? "'rope_parameters':{'%s':%s}" : "'%s':%s", name,
                     list ? "[{}]" : "[1,2]");
            expect_config(all_arches[i], fields, k->use == KEY_IDLE ? NULL : name);
        }
    EXPECT(n > 60);
}

TEST(config_keys_of_no_effect_are_accepted)
{
    static const char *const idle[] = {
#define HF_IDLE(field, group) field,
#include "keys.def"
    };
    char fields[200];
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++) {
        snprintf(fields, sizeof fields, "'%s':{'a':1}", idle[i]);
        expect_config(&arch_llama, fields, NULL);
    }
    expect_all("'unsloth_version':'2025.1','unsloth_fixed':true", NULL);
    expect_all("'some_object':{'a':1},'nothing':null", NULL);
}

/* Goal: the halvings of the residual stream leave a finite epsilon and a finite divisor. */
TEST(halvings_of_rwkv_are_finite)
{
    expect_config(&arch_rwkv, "'num_hidden_layers':63,'rescale_every':1", NULL);
    expect_config(&arch_rwkv, "'num_hidden_layers':64,'rescale_every':1", "rescale_every: must be");
    expect_config(&arch_rwkv, "'num_hidden_layers':130,'rescale_every':2", "0 or at least 3");
    expect_config(&arch_rwkv, "'num_hidden_layers':130,'rescale_every':3", NULL);
    expect_config(&arch_rwkv, "'num_hidden_layers':130,'rescale_every':-1", NULL);
}

/* Return the field of the activation; NULL if the class has a fixed one. */
static const char *activation_of(const struct arch *a)
{
    static const char *const field[] = {"config.hidden_activation", "config.activation_function",
                                        "config.activation", "config.hidden_act"};
    for (size_t i = 0; i < sizeof field / sizeof field[0]; i++)
        if (declares(a->hf_key, field[i])) return field[i] + 7;
    return NULL;
}

/* Expect that every class accepts an activation. RWKV-7 has only the square of ReLU, because the
 * other functions of its library differ from those of transformers. */
static void expect_activation(const char *name)
{
    char fields[100];
    snprintf(fields, sizeof fields, "'hidden_act':'%s'", name);
    for (int i = 0; i < N_ARCH; i++) {
        const bool computed = all_arches[i] != &arch_rwkv7 || strcmp(name, "relu2") == 0;
        expect_config(all_arches[i], fields, computed ? NULL : "hidden_act: must be sqrelu");
    }
}

TEST(config_values_that_are_not_computed_are_refused_by_name)
{
    static const char *const act[] = {"quick_gelu", "gelu_10", "relu6", "mish", "xielu"};
    for (size_t i = 0; i < sizeof act / sizeof act[0]; i++) {
        char fields[100];
        for (int a = 0; a < N_ARCH; a++) {
            const char *field = activation_of(all_arches[a]);
            if (!field) continue;
            snprintf(fields, sizeof fields, "'%s':'%s'", field, act[i]);
            const bool known =
                all_arches[a]->own_curve && strcmp(act[i], all_arches[a]->own_curve) == 0;
            expect_config(all_arches[a], fields, known ? NULL : field);
        }
    }
    expect_activation("silu");
    expect_activation("gelu");
    expect_activation("gelu_pytorch_tanh");
    expect_activation("swish");
    expect_activation("gelu_new");
    expect_activation("relu");
    expect_activation("relu2");
    expect_scaled("'rope_scaling':{'type':'linear'}", "rope_parameters.factor: is missing");
    expect_scaled("'rope_parameters':{'rope_type':'yarn'}", "rope_parameters.factor: is missing");
    expect_scaled("'rope_scaling':{'type':'llama3','factor':8}", "low_freq_factor: is missing");
    expect_all("'rope_scaling':{'type':'ntk','factor':8}", "rope.scaling.type: must be");
    expect_all("'rope_scaling':{'factor':8}", "config.json: rope_type: is missing next to factor");
    expect_all("'rope_scaling':{'type':null,'factor':8}", "rope_type: is missing next to factor");
    expect_all("'rope_scaling':1000", "rope_scaling: must be an object or null");
    expect_all("'rope_scaling':[]", "rope_scaling: must be an object or null");
    expect_all("'rope_parameters':'llama3'", "rope_parameters: must be an object or null");
    expect_scaled("'rope_scaling':{'type':'dynamic','factor':8}", NULL);
    expect_scaled("'rope_scaling':{'type':'dynamic'}", "rope_parameters.factor: is missing");
    expect_scaled("'rope_scaling':{'type':'mrope','mrope_section':[16,24,24]}", NULL);
    expect_scaled("'rope_scaling':{'type':'longrope','factor':2}", "short_factor: must be a list");
    expect_config(&arch_phi3,
                  "'rope_parameters':{'rope_type':'default','full_attention':{'rope_type':'linear',"
                  "'factor':2}}",
                  "rope_parameters.full_attention");
    expect_config(&arch_phi3, "'rope_scaling':{'type':'dynamic','factor':8}", "must be longrope");
    expect_scaled("'rope_scaling':{'type':'yarn','factor':4,'spread':1}", "rope_parameters.spread");
    expect_all("'rope_scaling':{'rope_type':'default','spread':null}", "rope_parameters.spread");
    expect_config(&arch_phi3, "'rope_scaling':{'type':'linear'}",
                  "rope.scaling.type: must be longrope");
    expect_config(&arch_phi3, "'rope_scaling':{'type':'su','short_factor':[1.0]}",
                  "short_factor: must be a list of 48 numbers");
    expect_config(&arch_phi3, "'partial_rotary_factor':1.5",
                  "partial_rotary_factor: must be in (0, 1]");
    expect_others("config.rope_parameters.partial_rotary_factor", "'partial_rotary_factor':0.5",
                  "partial_rotary_factor: must be 1, got 0.5");
    expect_all("'partial_rotary_factor':1.0", NULL);
    expect_all("'is_causal':false", "is_causal: must be 1, got false");
    expect_others("config.per_layer_config", "'per_layer_config':{'0':{}}", "per_layer_config");
    expect_all("'text_config':{'intermediate_size':15360}", "text_config");
    for (int i = 0; i < N_ARCH; i++) /* few classes have a rope per layer type */
        expect_config(
            all_arches[i], "'rope_parameters':{'full_attention':{'rope_type':'default'}}",
            all_arches[i]->no_rope || all_arches[i] == &arch_gemma3n ? NULL
            : lacks_flat_rope(all_arches[i])                         ? "rope_parameters."
            : declares(all_arches[i]->hf_key, "config.rope_parameters.sliding_attention.rope_type")
                ? NULL
                : "rope_parameters.full_attention");
    expect_config(&arch_gpt2, "'rope_parameters':{'rope_type':'yarn','mscale':2.0}", NULL);
    expect_config(&arch_gemma3, "'rope_parameters':{'sliding_attention':{'rope_type':'linear'}}",
                  "sliding_attention.rope_type: must be default");
    expect_config(&arch_gemma3, "'rope_parameters':{'sliding_attention':{'factor':2.0}}",
                  "sliding_attention.factor");
    expect_config(&arch_olmo3, "'rope_parameters':{'sliding_attention':{'rope_type':'yarn'}}",
                  "sliding_attention.rope_type: must be default");
    expect_config(&arch_hunyuan_dense, "'rope_scaling':{'type':'dynamic','factor':1,'alpha':50}",
                  NULL);
    expect_config(&arch_hunyuan_dense, "'rope_scaling':{'type':'dynamic','factor':1,'alpha':1e300}",
                  "alpha: must be 0 or a normal number");
    for (int i = 0; i < N_ARCH; i++)
        if (all_arches[i] != &arch_hunyuan_dense && all_arches[i] != &arch_modernbert &&
            has_type(all_arches[i], ROPE_LINEAR) && !lacks_flat_rope(all_arches[i]))
            expect_config(all_arches[i],
                          "'rope_scaling':{'rope_type':'dynamic','factor':1,'alpha':50}",
                          "rope_parameters.alpha");
    expect_config(&arch_hunyuan_dense, "'rope_scaling':{'type':'dynamic','factor':2,'alpha':0}",
                  NULL);
}

TEST(config_numbers_beyond_float32_are_refused_by_name)
{ /* goal: no finite number of a config.json is infinite in the model, nor is its reciprocal */
    static const struct {
        const struct arch *arch;
        const char *field;
    } row[] = {
        {&arch_gemma2, "final_logit_softcapping"}, {&arch_gemma2, "attn_logit_softcapping"},
        {&arch_granite, "attention_multiplier"},   {&arch_granite, "embedding_multiplier"},
        {&arch_granite, "residual_multiplier"},    {&arch_granite, "logits_scaling"},
        {&arch_command_r, "logit_scale"},          {&arch_minicpm3, "scale_emb"},
        {&arch_minicpm3, "scale_depth"},           {&arch_deepseek2, "routed_scaling_factor"},
        {&arch_gemma3, "query_pre_attn_scalar"}};
    static const char *const number[] = {"1e39", "1e-46", "1e-40", "1e300", "1e-300"};
    char fields[200], want[200];
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        for (size_t k = 0; k < sizeof number / sizeof number[0]; k++) {
            snprintf(fields, sizeof fields, "'%s':%s", row[i].field, number[k]);
            snprintf(want, sizeof want, "%s: must be 0 or a normal number", row[i].field);
            expect_config(row[i].arch, fields, want);
        }
    expect_config(&arch_granite, "'logits_scaling':-1e-300", "logits_scaling: must be 0 or");
    expect_config(&arch_granite, "'logits_scaling':-2e-38", NULL);
    expect_config(&arch_deepseek2,
                  "'rope_scaling':{'type':'yarn','factor':4,'mscale_all_dim':1e39}",
                  "mscale_all_dim: must be 0 or a normal number");
    expect_config(&arch_deepseek2,
                  "'rope_scaling':{'type':'yarn','factor':4,'mscale_all_dim':1e30}",
                  "mscale_all_dim: must give a finite factor");
}

TEST(config_values_that_one_class_does_not_compute_are_refused_by_name)
{
    expect_config(&arch_internlm3, "'qkv_bias':true", "qkv_bias: must equal the field bias");
    expect_config(&arch_gemma3, "'rope_local_base_freq':0.0", "must be above 0");
    expect_config(&arch_qwen3moe, "'num_experts':4",
                  "num_experts_per_tok: must be in [1, 4], got 8");
    expect_config(&arch_qwen3moe, "'num_experts':0", "must be in [1, 65536], got 0");
    expect_config(&arch_qwen3moe, "'mlp_only_layers':3", "mlp_only_layers: must be a list");
    expect_config(&arch_gemma3, "'sliding_window':null", "sliding_window: must be");
    expect_config(&arch_gemma3,
                  "'sliding_window':null,'layer_types':['full_attention','full_attention']", NULL);
    expect_config(&arch_gemma3, "'query_pre_attn_scalar':0", "must be above 0");
    expect_config(&arch_gemma3, "'final_logit_softcapping':-1.0", "must be above 0");
    expect_config(&arch_gemma3, "'final_logit_softcapping':0", "must be above 0, or null, got 0");
    expect_config(&arch_gemma2, "'attn_logit_softcapping':0.0", "must be above 0");
    expect_config(&arch_gemma2, "'attn_logit_softcapping':null", NULL);
    expect_config(&arch_granite, "'logits_scaling':0", "must be a number other than 0");
    for (int i = 0; i < N_ARCH; i++)
        if (!all_arches[i]->layer_norm_eps &&
            strcmp(field_of(all_arches[i], "attention.layer_norm_rms_epsilon"), "rms_norm_eps") ==
                0)
            expect_config(all_arches[i], "'rms_norm_eps':'1e-5'",
                          "rms_norm_eps: must be a number, got \"1e-5\"");
    expect_config(&arch_command_r, "'layer_norm_eps':'1e-5'", "layer_norm_eps: must be a number");
    expect_config(&arch_command_r, "'logit_scale':null", "logit_scale: must be a number, got null");
    expect_config(&arch_cohere2, "'use_qk_norm':true", "use_qk_norm: must be 0, got true");
    expect_config(&arch_cohere2, "'sliding_window':null",
                  "sliding_window: is missing: layers slide");
    expect_config(&arch_phi2, "'tie_word_embeddings':true",
                  "tie_word_embeddings: must be 0, got true");
    expect_config(&arch_phi2, "'qk_layernorm':true", "qk_layernorm: must be 0, got true");
    expect_config(&arch_gptj, "'tie_word_embeddings':true",
                  "tie_word_embeddings: must be 0, got true");
    expect_config(&arch_gptj, "'rotary_dim':7", "rotary_dim: must be even and at most 256, got 7");
    expect_config(&arch_gptj, "'n_head':128", "rotary_dim: must be even and at most 32, got 64");
    expect_config(&arch_gptj, "'rotary_dim':null", "rotary_dim: must be an integer, got null");
    expect_config(&arch_gptneox, "'head_dim':64",
                  "head_dim: must be hidden_size / num_attention_heads");
    expect_config(&arch_gpt2, "'add_cross_attention':true",
                  "add_cross_attention: must be 0, got true");
    expect_config(&arch_gpt2, "'n_embd':64,'hidden_size':96",
                  "n_embd: must equal the field hidden_size");
    expect_config(&arch_gpt2, "'hidden_size':null,'n_embd':64", "must equal the field");
    expect_config(&arch_gpt2, "'n_embd':96,'hidden_size':96,'intermediate_size':7,'head_dim':5",
                  NULL);
    expect_config(&arch_opt, "'layer_norm_eps':1e-6", "layer_norm_eps: must be 1e-05, got 1e-06");
    expect_config(&arch_distilbert, "'layer_norm_eps':1e-6",
                  "layer_norm_eps: must be 1e-12, got 1e-06");
    expect_config(&arch_distilbert, "'layer_norm_eps':1e-12", NULL);
    expect_config(&arch_opt, "'max_position_embeddings':2147483647",
                  "max_position_embeddings: must be");
    expect_config(&arch_falcon, "'new_decoder_architecture':true,'parallel_attn':false",
                  "parallel_attn: ");
    expect_config(&arch_falcon, "'new_decoder_architecture':true,'num_ln_in_parallel_attn':3",
                  "num_ln_in_parallel_attn: must be 1 or 2, got 3");
    expect_config(&arch_falcon, "'num_ln_in_parallel_attn':2",
                  "num_ln_in_parallel_attn: must not be 2");
    expect_config(&arch_falcon, "'parallel_attn':false,'num_ln_in_parallel_attn':2", NULL);
    expect_config(&arch_falcon, "'new_decoder_architecture':true,'num_kv_heads':8",
                  "num_kv_heads: must be a divisor of 71, got 8");
    expect_config(&arch_falcon, "'multi_query':false,'num_kv_heads':1",
                  "num_kv_heads: must be num_atten");
    expect_config(&arch_falcon, "'num_kv_heads':8", NULL);
    expect_config(&arch_bloom, "'slow_but_exact':true,'pretraining_tp':4",
                  "slow_but_exact: must be false");
    expect_config(&arch_bloom, "'slow_but_exact':true", NULL);
    expect_config(&arch_bloom, "'apply_residual_connection_post_layernorm':true",
                  "apply_residual_connection_post_layernorm: must be 0");
    expect_config(&arch_mpt, "'attn_config':{'alibi':false}",
                  "attn_config.alibi: must be 1, got false");
    expect_config(&arch_mpt, "'attn_config':{'alibi_bias_max':16}",
                  "alibi_bias_max: must be 8, got 16");
    expect_config(&arch_mpt, "'attn_config':{'attn_type':'multiquery_attention'}",
                  "attn_type: must be");
    expect_config(&arch_mpt, "'attn_config':{'clip_qkv':-1}",
                  "clip_qkv: must be at least 0, got -1");
    expect_config(&arch_mpt, "'attn_config':{'qk_ln':true}", "attn_config.qk_ln: must be 0");
    expect_config(&arch_mpt, "'attn_config':7", "attn_config: expected an object");
    expect_config(&arch_mpt, "'attn_config':null,'norm_type':'layernorm'", NULL);
    expect_config(&arch_mpt, "'norm_type':'rmsnorm'", "norm_type: must be low_precision_layernorm");
    expect_config(&arch_mistral, "'sliding_window':0", "sliding_window: must be in [1, ");
    expect_config(&arch_qwen3, "'layer_types':['sliding_attention','full_attention']",
                  "sliding_window is missing");
    expect_config(&arch_qwen2, "'layer_types':['full_attention']",
                  "layer_types: must be a list of 2");
    expect_config(&arch_smollm3, "'no_rope_layer_interval':0", "no_rope_layer_interval: must be");
    expect_config(&arch_smollm3, "'no_rope_layers':[1]",
                  "no_rope_layers: must be a list of at least 2");
    expect_config(&arch_llama4, "'no_rope_layers':[],'attn_temperature_tuning':4", NULL);
    expect_config(&arch_llama4, "'attention_chunk_size':null", NULL);
    /* hybrids with recurrent layers */
    expect_config(&arch_falcon_h1, "'mlp_multipliers':[0.0,1.0]", "mlp_multipliers: [0]: must not");
    expect_config(&arch_falcon_h1, "'mlp_multipliers':[1.0,0.0]", NULL);
    expect_config(&arch_falcon_h1, "'ssm_multipliers':[1,1,1,1,1e-40]", "must be a list of 5");
    expect_config(&arch_falcon_h1, "'ssm_multipliers':[1,1,1,1e39,1]", "must be a list of 5");
    expect_config(&arch_falcon_h1, "'ssm_multipliers':[1,1,1,1,1e-20],'ssm_in_multiplier':1e-20",
                  "must give a normal number");
    expect_config(&arch_mamba2, "'time_step_limit':[0,1e-46]", "must be [");
    expect_config(&arch_nemotron_h, "'mamba_dt_min':-0.05,'time_step_min':0.1",
                  "mamba_dt_min: must be at least 0");
    expect_config(&arch_nemotron_h, "'mamba_dt_min':null", "mamba_dt_min: must be at least 0");
    expect_config(&arch_nemotron_h, "'mamba_conv_bias':false,'use_conv_bias':true", NULL);
    expect_config(&arch_nemotron_h, "'hybrid_override_pattern':'ME*-'", NULL);
    expect_config(&arch_nemotron_h, "'hybrid_override_pattern':'MX'", "[1]: must be");
    expect_config(&arch_nemotron_h, "'moe_latent_size':0", "moe_latent_size: must be in [1, ");
    expect_config(&arch_nemotron_h, "'n_group':3", "n_group: must be a divisor of 8 experts");
    expect_config(&arch_nemotron_h, "'num_experts_per_tok':9", "must be in [1, 8], got 9");
    expect_config(&arch_nemotron_h, "'mamba_num_heads':65536,'mamba_head_dim':65536",
                  "must give a width of at most");
    expect_config(&arch_kimi_linear,
                  "'linear_attn_config':{'full_attn_layers':[2],'kda_layers':[1]}", NULL);
    expect_config(&arch_kimi_linear,
                  "'linear_attn_config':{'full_attn_layers':[2],'kda_layers':[2]}",
                  "layer 1 must be in one of");
    expect_config(&arch_kimi_linear,
                  "'linear_attn_config':{'full_attn_layers':[0],'kda_layers':[1]}",
                  "must be in [1, 2]");
    expect_config(&arch_kimi_linear, "'moe_router_activation_func':'softmax'",
                  "must be \"sigmoid\"");
    expect_config(&arch_kimi_linear, "'mlp_layer_types':['dense','both']",
                  "must be dense or sparse");
    expect_config(&arch_jamba, "'num_experts':1", NULL);
    expect_config(&arch_jamba, "'num_experts':0", NULL);
    expect_config(&arch_jamba, "'num_experts':2,'num_experts_per_tok':3", "must be in [1, 2]");
    expect_config(&arch_jamba, "'attn_layer_period':4,'attn_layer_offset':4", "below the interval");
    expect_config(&arch_llama4, "'attention_chunk_size':0",
                  "attention_chunk_size: must be in [1, ");
    expect_config(
        &arch_llama4,
        "'attention_chunk_size':null,'layer_types':['full_attention','chunked_attention']",
        "attention_chunk_size: must be at least 1");
    expect_config(&arch_llama4, "'layer_types':['full_attention','sliding_attention']",
                  "layer_types: [1]: must be full_attention or chunked_attention");
    expect_config(&arch_llama4, "'floor_scale':0", "floor_scale: must be in [1, ");
    expect_config(&arch_llama4, "'moe_layers':3", "moe_layers: must be a list");
}

/* Read the config with values of the caller and compare the result, as expect_config does. */
static void expect_changed(const struct arch *a, const char *fields,
                           const struct checkpoint_changes *ch, const char *word)
{
    read_changes = ch;
    expect_config(a, fields, word);
    read_changes = NULL;
}

static void expect_overrides(const struct arch *a, const char *fields, const char *config,
                             const char *word)
{
    expect_changed(a, fields, &(struct checkpoint_changes){.config = config}, word);
}

static void expect_rope(const struct arch *a, const char *fields, const char *rope,
                        const char *word)
{
    expect_changed(a, fields, &(struct checkpoint_changes){.rope = rope}, word);
}

/* Goal: a field of --hf-overrides is used, without effect as in a file, or rejected by name. */
TEST(overrides_are_used_idle_or_refused)
{
    expect_overrides(&arch_llama, "", "{'rope_tetha':1}",
                     "--hf-overrides: rope_tetha: architecture llama has no such field, got 1");
    expect_overrides(&arch_llama, "", "{'new':{'a':1}}", "--hf-overrides: new: ");
    expect_overrides(&arch_llama, "'rope_tetha':1", "{'hidden_act':'silu'}", NULL);
    expect_overrides(&arch_llama, "", "{'architectures':['A'],'method':'m','dtype':'x'}", NULL);
    expect_overrides(&arch_llama, "", "{'hidden_act':'mish'}",
                     "--hf-overrides: hidden_act: must be");
    expect_overrides(&arch_llama, "'hidden_size':64", "{'hidden_size':-1}",
                     "hidden_size: must be in");
    expect_overrides(&arch_llama, "", "{'text_config':{'hidden_size':64}}", "text_config");
    expect_overrides(&arch_mpt, "", "{'attn_config':{'qk_ln':true}}", "attn_config.qk_ln: must be");
    expect_overrides(&arch_mpt, "", "{'attn_config':{'foo':1}}", "--hf-overrides: attn_config.foo");
    expect_overrides(&arch_mpt, "'attn_config':{'qk_ln':true}", "{'attn_config':{'qk_ln':false}}",
                     NULL);
    expect_overrides(&arch_mpt, "'attn_config':{'qk_ln':true}", "{'attn_config':null}", NULL);
    expect_overrides(&arch_qwen3, "", "{'rope_scaling':{'type':'yarn','factor':2,'spread':1}}",
                     "--hf-overrides: rope_parameters.spread");
    expect_overrides(&arch_llama, "", "{'rope_scaling':1000}",
                     "--hf-overrides: rope_scaling: must be an object or null");
    expect_overrides(&arch_llama, "", "{'rope_parameters':[]}",
                     "--hf-overrides: rope_parameters: must be an object or null");
    expect_overrides(&arch_llama, "", "{'rope_scaling':{'factor':4}}",
                     "--hf-overrides: rope_type: is missing next to factor");
    expect_overrides(&arch_llama, "", "{'rope_scaling':null}", NULL);
    expect_overrides(&arch_gpt2, "'n_embd':64", "{'hidden_size':96}", "must equal the field");
}

/* Goal: a scaling of the caller replaces the file's, with the checks of the file's. */
TEST(scalings_of_the_caller_are_used_or_refused)
{
    static const char llama3[] = "'rope_scaling':{'rope_type':'llama3','factor':8,"
                                 "'low_freq_factor':1,'high_freq_factor':4,"
                                 "'original_max_position_embeddings':64}";
    for (int i = 0; i < N_ARCH; i++) {
        const struct arch *a = all_arches[i];
        /* the default of the class has no rope */
        const char *own =
            a == &arch_granitehybrid
                ? "'position_embedding_type':'rope','layer_types':['attention','mamba']"
                : "";
        const char *none = a->no_rope ? "--rope-scaling: the model has no rope" : NULL,
                   *flat = none                 ? none
                           : lacks_flat_rope(a) ? "--rope-scaling: full_attention: is missing"
                                                : NULL;
        expect_rope(a, own, "{'rope_type':'default'}", flat);
        if (!has_type(a, ROPE_LINEAR)) continue;
        expect_rope(a, own, "{'rope_type':'linear','factor':2}", flat);
        expect_rope(a, own, "{'rope_type':'yarn'}",
                    none ? none : "--rope-scaling: factor: is missing");
        expect_rope(a, own, "{'rope_type':'ntk'}",
                    none ? none : "--rope-scaling: rope_type: must be");
        expect_rope(a, own, "{'rope_type':'yarn','factor':4,'spread':1}",
                    flat ? flat : "--rope-scaling: spread");
        expect_changed(a, own, &(struct checkpoint_changes){.rope_theta = 5000},
                       a->no_rope ? "--rope-theta: the model has no rope"
                       : lacks_flat_rope(a) && a != &arch_gemma3n
                           ? "rope_theta: must not come with another base"
                           : NULL);
    }
    expect_rope(&arch_llama, "", "{}", "--rope-scaling: rope_type is missing");
    expect_rope(&arch_llama, "", "{'factor':4}", "--rope-scaling: rope_type: is missing");
    expect_rope(&arch_llama, llama3, "{'rope_type':'llama3','factor':2}",
                "--rope-scaling: low_freq_factor: is missing");
    /* the advice: the flag of the factor, or an object with all parameters of the type */
    expect_rope(&arch_llama, "", "{'rope_type':'linear'}", "give --rope-scale with");
    expect_rope(&arch_llama, "", "{'rope_type':'llama3'}",
                "for example {\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1");
    expect_rope(&arch_llama, "", "{'rope_type':'longrope'}",
                "for example {\"rope_type\":\"longrope\"");
    expect_rope(&arch_falcon, "'alibi':true", "{'rope_type':'linear','factor':2}",
                "the model has no rope");
    expect_rope(&arch_phi3, "", "{'rope_type':'yarn','factor':2}", "short_factor: must be");
    expect_changed(&arch_hunyuan_dense,
                   "'rope_scaling':{'type':'dynamic','factor':1,'alpha':50,'rope_theta':100}",
                   &(struct checkpoint_changes){.rope_theta = 5000}, "must not come with another");
}

/* Goal: two values of one parameter are errors. */
TEST(changes_that_contradict_each_other_are_refused)
{
    static const struct {
        struct checkpoint_changes ch;
        const char *word;
    } cases[] = {{{.config = "{'rope_scaling':{}}", .rope = "{'type':'yarn'}"},
                  "--rope-scaling: must not come with rope_scaling in --hf-overrides"},
                 {{.config = "{'text_config':{'rope_parameters':{}}}", .rope = "{'type':'yarn'}"},
                  "--rope-scaling: must not come with rope_parameters in --hf-overrides"},
                 {{.config = "{'rope_theta':5}", .rope_theta = 7},
                  "--rope-theta: must not come with rope_theta in --hf-overrides"},
                 {{.config = "{'rope_parameters':{'rope_theta':5}}", .rope_theta = 7},
                  "--rope-theta: must not come with rope_theta in --hf-overrides"},
                 {{.rope = "{'rope_theta':5}", .rope_theta = 7},
                  "--rope-theta: must not come with rope_theta in --rope-scaling"},
                 {{.config = "{'rope_scaling':{},'rope_parameters':{}}"}, "rope_parameters"},
                 {{.config = "[]"}, "--hf-overrides: expected an object"},
                 {{.rope = "7"}, "--rope-scaling: expected an object"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_changed(&arch_llama, "", &cases[i].ch, cases[i].word);
}

static const char v5[] = "'rope_parameters':{'rope_theta':60,'rope_type':'llama3','factor':8,"
                         "'low_freq_factor':1,'high_freq_factor':4,"
                         "'original_max_position_embeddings':64},'max_position_embeddings':256",
                  v4[] = "'rope_theta':60,'rope_scaling':{'type':'yarn','factor':4,"
                         "'beta_fast':16,'original_max_position_embeddings':64},"
                         "'max_position_embeddings':256",
                  each[] = "'rope_parameters':{'full_attention':{'rope_type':'linear','factor':"
                           "8,'rope_theta':60},'sliding_attention':{'rope_theta':9,'rope_type':"
                           "'default'}}",
                  part[] = "'rope_parameters':{'full_attention':{'rope_type':'proportional',"
                           "'partial_rotary_factor':0.25,'rope_theta':60},'sliding_attention':{"
                           "'rope_theta':9,'rope_type':'default'}}";
static const struct {
    const struct arch *arch;
    const char *fields;
    struct checkpoint_changes ch;
    enum rope_scaling scaling;
    double base, factor;
    int original, context;
} rope_cases[] = {
    {&arch_llama, v5, {.rope = "{'rope_type':'yarn','factor':2}"}, ROPE_YARN, 60, 2, 256, 512},
    {&arch_llama, v5, {.rope = "{'rope_type':'default'}"}, ROPE_NONE, 60, 1, 256, 256},
    {&arch_llama, v5, {.rope_theta = 7}, ROPE_LLAMA3, 7, 8, 64, 256},
    {&arch_llama, v5, {.config = "{'rope_theta':7}"}, ROPE_LLAMA3, 7, 8, 64, 256},
    {&arch_llama, v5, {.config = "{'rope_scaling':null}"}, ROPE_NONE, 60, 1, 256, 256},
    {&arch_llama,
     v5,
     {.config = "{'rope_scaling':{'type':'linear','factor':2,'rope_theta':5}}"},
     ROPE_LINEAR,
     5,
     2,
     256,
     512},
    {&arch_llama,
     v4,
     {.config = "{'rope_parameters':{'rope_type':'dynamic','factor':3}}"},
     ROPE_DYNAMIC,
     60,
     3,
     256,
     768},
    {&arch_llama,
     v4,
     {.rope = "{'rope_type':'yarn'}", .rope_adds = true},
     ROPE_YARN,
     60,
     4,
     64,
     256},
    {&arch_llama,
     v4,
     {.rope = "{'rope_type':'yarn','factor':8}", .rope_adds = true},
     ROPE_YARN,
     60,
     8,
     64,
     512},
    {&arch_llama,
     v4,
     {.rope = "{'rope_type':'linear','factor':8}", .rope_adds = true},
     ROPE_LINEAR,
     60,
     8,
     256,
     2048},
    {&arch_llama,
     "",
     {.rope = "{'rope_type':'mrope','mrope_section':[1,2,3]}"},
     ROPE_NONE,
     10000,
     1,
     2048,
     2048},
    {&arch_gptneox, "'rotary_emb_base':500", {.rope_theta = 7}, ROPE_NONE, 7, 1, 2048, 2048},
    {&arch_modernbert, "'global_rope_theta':500", {.rope_theta = 7}, ROPE_NONE, 7, 1, 8192, 8192},
    {&arch_mistral3,
     "'max_position_embeddings':256",
     {.rope_theta = 7},
     ROPE_YARN,
     7,
     16,
     16384,
     256},
    {&arch_mistral3,
     "'max_position_embeddings':256",
     {.rope = "{'rope_type':'default'}"},
     ROPE_NONE,
     10000,
     1,
     256,
     256},
    {&arch_gemma3,
     each,
     {.rope = "{'rope_type':'yarn','factor':2}"},
     ROPE_YARN,
     60,
     2,
     131072,
     262144},
    {&arch_gemma3,
     each,
     {.rope = "{'full_attention':{'rope_type':'yarn','factor':2},'sliding_attention':{}}"},
     ROPE_YARN,
     60,
     2,
     131072,
     262144},
    {&arch_gemma3, each, {.rope_theta = 5}, ROPE_LINEAR, 5, 8, 131072, 131072},
    {&arch_gemma4, part, {.rope_theta = 5}, ROPE_PROPORTIONAL, 5, 1, 131072, 131072},
    {&arch_gemma4,
     part,
     {.rope = "{'full_attention':{'rope_type':'dynamic','factor':2},'sliding_attention':{}}"},
     ROPE_DYNAMIC,
     60,
     2,
     131072,
     262144}};

/* Goal: the values of the caller have priority over those at every place of a file, and only the
 * file's parameters of the scaling end. */
TEST(ropes_of_the_caller_replace_those_of_every_place)
{
    for (size_t i = 0; i < sizeof rope_cases / sizeof rope_cases[0]; i++) {
        struct read r;
        read_changes = &rope_cases[i].ch;
        read_config(&r, rope_cases[i].arch, rope_cases[i].fields);
        read_changes = NULL;
        const struct rope_config *p = &r.m.config.rope[ROPE_MAIN];
        if (r.rc != 0)
            test_fail(__FILE__, __LINE__, "case %zu: %s", i, r.e.text);
        else if (p->scaling != rope_cases[i].scaling || p->base != rope_cases[i].base ||
                 p->factor != rope_cases[i].factor ||
                 p->context_original != rope_cases[i].original ||
                 r.m.config.context_train != rope_cases[i].context)
            test_fail(__FILE__, __LINE__, "case %zu: scaling %d base %g factor %g, %d of %d", i,
                      (int)p->scaling, p->base, p->factor, p->context_original,
                      r.m.config.context_train);
        if (r.rc == 0 && rope_cases[i].arch == &arch_gemma3)
            EXPECT(r.m.config.rope[ROPE_LOCAL].base == 9 &&
                   r.m.config.rope[ROPE_LOCAL].scaling == ROPE_NONE);
        read_done(&r);
    }
}

TEST(config_quantized_weights_are_refused_by_their_method)
{
    static const char *const method[] = {"eetq", "fp_quant", "modelopt_fp4", "torchao", "new_one"};
    for (size_t i = 0; i < sizeof method / sizeof method[0]; i++) {
        char fields[160], word[80];
        snprintf(fields, sizeof fields, "'quantization_config':{'quant_method':'%s','bits':4}",
                 method[i]);
        snprintf(word, sizeof word, "quant_method: must be a known method, got \"%s\"", method[i]);
        expect_all(fields, word);
    }
#define FP8 "'quantization_config':{'quant_method':'fp8','weight_block_size':[128,64]"
    expect_all(FP8 ",'fmt':'e4m3','activation_scheme':'dynamic','modules_to_not_convert':['x']}",
               NULL);
    expect_all(FP8 ",'fmt':'e5m2'}", "quantization_config.fmt: must be \"e4m3\"");
    expect_all(FP8 ",'activation_scheme':'static'}", NULL);
    expect_all(FP8 ",'activation_scheme':'none'}", "activation_scheme: must be");
    expect_all(FP8 ",'new_field':{'x':1}}",
               "quantization_config.new_field: not supported yet in quant_method \"fp8\"");
    /* powers of two, as float32 in the published files */
    expect_all(FP8 ",'scale_fmt':'ue8m0'}", NULL);
    expect_all(FP8 ",'scale_fmt':'ue4m3'}", "scale_fmt: must be \"float\"|\"ue8m0\"");
    expect_all("'quantization_config':{'quant_method':'fp8'}", NULL);
    expect_all("'quantization_config':{'quant_method':'modelopt','quant_algo':'FP8',"
               "'producer':{'name':'modelopt'},'ignore':['lm_head'],'config_groups':{'group_0':{"
               "'weights':{'num_bits':8,'type':'float'}}}}",
               NULL);
    expect_all("'quantization_config':{'quant_method':'modelopt','quant_algo':'NVFP4'}",
               "quant_algo: must be \"FP8\"");
    expect_all("'quantization_config':{'quant_method':'gptq','bits':5}", "bits: must be 2, 3, 4");
    expect_all("'quantization_config':{'quant_method':'gptq','bits':null,'rotation':'hadamard'}",
               "rotation: must be false");
    expect_all("'quantization_config':{'quant_method':'awq','bits':8}", "bits: must be");
    expect_all("'quantization_config':{'quant_method':'awq','version':'GEMM'}", NULL);
    expect_all("'quantization_config':{'quant_method':'awq','version':'marlin'}",
               "version: must be \"gemm\"");
    expect_all("'quantization_config':{'quant_method':'fp8','weight_block_size':[0,128]}",
               "weight_block_size");
#undef FP8
#define DEEP "'compression_config':{'quant_method':'compressed-tensors','config_groups':{'g':{"
    expect_all(DEEP "'weights':{'num_bits':4,'new':1}}}}", "config_groups.g.weights.new: not supp");
    expect_all(DEEP "'weights':{'num_bits':4,'new':null,'dynamic':false}}}}", NULL);
    expect_all(DEEP "'weights':{'type':'complex'}}}}", "weights.type: must be");
#undef DEEP
    expect_all("'compression_config':{'quant_method':'compressed-tensors','transform_config':{},"
               "'sparsity_config':{'format':'dense'}}",
               NULL);
    expect_all("'compression_config':{'quant_method':'compressed-tensors','transform_config':"
               "{'config_groups':{'a':{'type':'hadamard'}}}}",
               "transform_config.config_groups");
    expect_all("'compression_config':{'quant_method':'compressed-tensors',"
               "'sparsity_config':{'format':'marlin-24'}}",
               "sparsity_config.format: must");
    expect_all("'quantization_config':{}", "quant_method: must be a known method, got none");
    expect_all("'quantization_config':null", NULL);
}
