/* keys_test.c - goal: no value of a config.json and no key of a GGUF changes results without an
 * error. Method: read folders with only a config.json. Every declared key of an architecture gets
 * an impossible value, to find keys that are declared but not read. Defaults are compared with the
 * defaults of the reference's classes. GGUF files with only metadata are tested in the same way. */
#include "../../tests/unit.h"

#include "base/log.h"
#include "base/os.h"
#include "../../tests/gguf_make.h"
#include "../../tests/safetensors_make.h"
#include "arch/gemma_impl.h"
#include "model_impl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct arch *const arches[] = {
#define ARCH(id) &arch_##id,
#include "arch/arch.def"
#undef ARCH
};
enum { N_ARCH = sizeof arches / sizeof arches[0] };

/* Return true if the architecture's own list has the key. */
static bool declares(const struct config_key *list, const char *key)
{
    for (; key && list && list->key; list++)
        if (strcmp(list->key, key) == 0 && list->use != KEY_IDLE) return true;
    return false;
}

/* Values of the caller for the next read_config or read_gguf; NULL: none. */
static const struct checkpoint_changes *changes;

/* Open with `changes`, in single quotes. */
static int open_changed(struct checkpoint **c, const char *path, struct err *e)
{
    struct buf config = {0}, rope = {0};
    struct checkpoint_changes own = changes ? *changes : (struct checkpoint_changes){0};
    if (own.config) add_quoted(&config, own.config);
    if (own.rope) add_quoted(&rope, own.rope);
    own.config = config.data, own.rope = rope.data;
    int rc = checkpoint_open_with(c, path, &own, e);
    buf_deinit(&config);
    buf_deinit(&rope);
    return rc;
}

struct read {
    struct checkpoint *c;
    struct model m;
    struct err e;
    int rc;
};

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

/* Read a config.json of architecture `a` with two layers and `fields`, in single quotes. */
static void read_config(struct read *r, const struct arch *a, const char *fields)
{
    char json[2000];
    *r = (struct read){.m = {.arch = a}};
    bool layers = strstr(fields, "num_hidden_layers") != NULL;
    /* the name of the architecture is that of a config of several parts, if there is one */
    const char *text = arch_of_parts(a->name) ? "_text" : "";
    /* the default of gemma3n is for more layers */
    bool shares = a == &arch_gemma3n && !strstr(fields, "num_kv_shared_layers");
    snprintf(json, sizeof json, "{'model_type':'%s%s'%s%s%s%s}", a->name, text,
             layers ? "" : ",'num_hidden_layers':2", shares ? ",'num_kv_shared_layers':0" : "",
             *fields ? "," : "", fields);
    EXPECT_INT(json_write(temp_path("config.json"), json), 0);
    EXPECT_INT(safetensors_write(temp_path("model.safetensors"),
                                 "{'x':{'dtype':'I8','shape':[1],'data_offsets':[0,1]}}", 1),
               0);
    r->rc = open_changed(&r->c, temp_path(""), &r->e);
    if (r->rc == 0) read_opened(r);
}

static void done(struct read *r)
{
    checkpoint_close(r->c);
    arena_deinit(&r->m.arena);
}

/* Read the config and compare the result. word is a part of the expected error; NULL if the fields
 * are accepted. */
static void expect(const struct arch *a, const char *fields, const char *word)
{
    struct read r;
    read_config(&r, a, fields);
    if (!word && r.rc != 0)
        test_fail(__FILE__, __LINE__, "%s {%s}: %s", a->name, fields, r.e.text);
    else if (word && (r.rc == 0 || !strstr(r.e.text, word)))
        test_fail(__FILE__, __LINE__, "%s {%s}: \"%s\" lacks %s", a->name, fields,
                  r.rc == 0 ? "accepted" : r.e.text, word);
    done(&r);
}

/* Return true if the class has no rope, or requires an object of rope parameters per layer type. */
static bool lacks_flat_rope(const struct arch *a)
{
    return a->no_rope || declares(a->hf_key, "config.rope_parameters.full_attention");
}

/* Return true for the fields of a flat rope, because the architecture has none. */
static bool is_of_rope(const struct arch *a, const char *fields)
{
    return lacks_flat_rope(a) && strstr(fields, "'rope_");
}

static void expect_all(const char *fields, const char *word)
{
    for (int i = 0; i < N_ARCH; i++)
        if (!is_of_rope(arches[i], fields)) expect(arches[i], fields, word);
}

/* As expect_all, for architectures that do not declare `key` themselves. */
static void expect_others(const char *key, const char *fields, const char *word)
{
    for (int i = 0; i < N_ARCH; i++)
        if (!declares(arches[i]->hf_key, key) && !is_of_rope(arches[i], fields))
            expect(arches[i], fields, word);
}

/* Return true if a config.json of the architecture may have the scaling. */
static bool has_type(const struct arch *a, enum rope_scaling scaling)
{
    const struct rope_type *t = config_rope_types(a);
    while (t->name && t->scaling != scaling) t++;
    return t->name;
}

/* As expect_all, for architectures with a rope that may have any scaling. */
static void expect_scaled(const char *fields, const char *word)
{
    for (int i = 0; i < N_ARCH; i++)
        if (has_type(arches[i], ROPE_LINEAR) && !is_of_rope(arches[i], fields))
            expect(arches[i], fields, word);
}

/* Return the config.json field of an architecture for a declared key. */
static const char *field_of(const struct arch *a, const char *key)
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

TEST(config_keys_that_are_declared_are_read)
{
    int n = 0;
    for (int i = 0; i < N_ARCH; i++)
        for (const struct config_key *k = arches[i]->hf_key; k->key; k++, n++) {
            char fields[200];
            const char *name = field_of(arches[i], k->key);
            const bool base = strcmp(name, "rope.freq_base") == 0;
            bool list = (strstr(name, "layers") && strcmp(name, "num_hidden_layers") != 0) ||
                        (arches[i]->hf_lists && !strstr(name, "rope_parameters."));
            if (base) name = "rope_theta";
            snprintf(fields, sizeof fields, base ? "'rope_parameters':{'%s':%s}" : "'%s':%s", name,
                     list ? "[{}]" : "[1,2]");
            expect(arches[i], fields, k->use == KEY_IDLE ? NULL : name);
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
        expect(&arch_llama, fields, NULL);
    }
    expect_all("'unsloth_version':'2025.1','unsloth_fixed':true", NULL);
    expect_all("'some_object':{'a':1},'nothing':null", NULL);
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

TEST(config_values_that_are_not_computed_are_refused_by_name)
{
    static const char *const act[] = {"quick_gelu", "gelu_10", "relu6", "mish", "xielu"};
    for (size_t i = 0; i < sizeof act / sizeof act[0]; i++) {
        char fields[100];
        for (int a = 0; a < N_ARCH; a++) {
            const char *field = activation_of(arches[a]);
            if (!field) continue;
            snprintf(fields, sizeof fields, "'%s':'%s'", field, act[i]);
            const bool known = arches[a]->own_curve && strcmp(act[i], arches[a]->own_curve) == 0;
            expect(arches[a], fields, known ? NULL : field);
        }
    }
    expect_all("'hidden_act':'silu'", NULL);
    expect_all("'hidden_act':'gelu'", NULL);
    expect_all("'hidden_act':'gelu_pytorch_tanh'", NULL);
    expect_all("'hidden_act':'swish'", NULL);
    expect_all("'hidden_act':'gelu_new'", NULL);
    expect_all("'hidden_act':'relu'", NULL);
    expect_all("'hidden_act':'relu2'", NULL);
    expect_scaled("'rope_scaling':{'type':'linear'}", "rope_parameters.factor: is missing");
    expect_scaled("'rope_parameters':{'rope_type':'yarn'}", "rope_parameters.factor: is missing");
    expect_scaled("'rope_scaling':{'type':'llama3','factor':8}", "low_freq_factor: is missing");
    expect_all("'rope_scaling':{'type':'ntk','factor':8}", "rope.scaling.type: must be");
    expect_scaled("'rope_scaling':{'type':'dynamic','factor':8}", NULL);
    expect_scaled("'rope_scaling':{'type':'dynamic'}", "rope_parameters.factor: is missing");
    expect_scaled("'rope_scaling':{'type':'mrope','mrope_section':[2,3,3]}", NULL);
    expect_scaled("'rope_scaling':{'type':'longrope','factor':2}", "short_factor: must be a list");
    expect(&arch_phi3, "'rope_scaling':{'type':'dynamic','factor':8}", "must be longrope");
    expect_scaled("'rope_scaling':{'type':'yarn','factor':4,'spread':1}", "rope_parameters.spread");
    expect_all("'rope_scaling':{'rope_type':'default','spread':null}", "rope_parameters.spread");
    expect(&arch_phi3, "'rope_scaling':{'type':'linear'}", "rope.scaling.type: must be longrope");
    expect(&arch_phi3, "'rope_scaling':{'type':'su','short_factor':[1.0]}",
           "short_factor: must be a list of 48 numbers");
    expect(&arch_phi3, "'partial_rotary_factor':1.5", "partial_rotary_factor: must be in (0, 1]");
    expect_others("config.rope_parameters.partial_rotary_factor", "'partial_rotary_factor':0.5",
                  "partial_rotary_factor: must be 1, got 0.5");
    expect_all("'partial_rotary_factor':1.0", NULL);
    expect_all("'is_causal':false", "is_causal: must be 1, got false");
    expect_others("config.per_layer_config", "'per_layer_config':{'0':{}}", "per_layer_config");
    expect_all("'text_config':{'hidden_size':15360}", "text_config");
    for (int i = 0; i < N_ARCH; i++) /* few classes have a rope per layer type */
        expect(arches[i], "'rope_parameters':{'full_attention':{'rope_type':'default'}}",
               arches[i]->no_rope || arches[i] == &arch_gemma3n ? NULL
               : lacks_flat_rope(arches[i])                     ? "rope_parameters."
               : declares(arches[i]->hf_key, "config.rope_parameters.sliding_attention.rope_type")
                   ? NULL
                   : "rope_parameters.full_attention");
    expect(&arch_gpt2, "'rope_parameters':{'rope_type':'yarn','mscale':2.0}", NULL);
    expect(&arch_gemma3, "'rope_parameters':{'sliding_attention':{'rope_type':'linear'}}",
           "sliding_attention.rope_type: must be default");
    expect(&arch_gemma3, "'rope_parameters':{'sliding_attention':{'factor':2.0}}",
           "sliding_attention.factor");
    expect(&arch_olmo3, "'rope_parameters':{'sliding_attention':{'rope_type':'yarn'}}",
           "sliding_attention.rope_type: must be default");
    expect(&arch_hunyuan_dense, "'rope_scaling':{'type':'dynamic','factor':1,'alpha':50}", NULL);
    expect(&arch_hunyuan_dense, "'rope_scaling':{'type':'dynamic','factor':1,'alpha':1e300}",
           "alpha: must give a finite base");
    for (int i = 0; i < N_ARCH; i++)
        if (arches[i] != &arch_hunyuan_dense && has_type(arches[i], ROPE_LINEAR) &&
            !lacks_flat_rope(arches[i]))
            expect(arches[i], "'rope_scaling':{'type':'dynamic','factor':1,'alpha':50}",
                   "rope_parameters.alpha");
    expect(&arch_hunyuan_dense, "'rope_scaling':{'type':'dynamic','factor':2,'alpha':0}", NULL);
    expect(&arch_internlm3, "'qkv_bias':true", "qkv_bias: must equal the field bias");
    expect(&arch_gemma3, "'rope_local_base_freq':0.0", "must be above 0");
    expect(&arch_qwen3moe, "'num_experts':4", "num_experts_per_tok: must be in [1, 4], got 8");
    expect(&arch_qwen3moe, "'num_experts':0", "must be in [1, 65536], got 0");
    expect(&arch_qwen3moe, "'mlp_only_layers':3", "mlp_only_layers: must be a list");
    expect(&arch_gemma3, "'sliding_window':null", "sliding_window: must be");
    expect(&arch_gemma3, "'sliding_window':null,'layer_types':['full_attention','full_attention']",
           NULL);
    expect(&arch_gemma3, "'query_pre_attn_scalar':0", "must be above 0");
    expect(&arch_gemma3, "'final_logit_softcapping':-1.0", "must be above 0");
    expect(&arch_gemma3, "'final_logit_softcapping':0", "must be above 0, or null, got 0");
    expect(&arch_gemma2, "'attn_logit_softcapping':0.0", "must be above 0");
    expect(&arch_gemma2, "'attn_logit_softcapping':null", NULL);
    expect(&arch_granite, "'logits_scaling':0", "must be a number other than 0");
    for (int i = 0; i < N_ARCH; i++)
        if (!arches[i]->layer_norm_eps &&
            strcmp(field_of(arches[i], "attention.layer_norm_rms_epsilon"), "rms_norm_eps") == 0)
            expect(arches[i], "'rms_norm_eps':'1e-5'",
                   "rms_norm_eps: must be a number, got \"1e-5\"");
    expect(&arch_command_r, "'layer_norm_eps':'1e-5'", "layer_norm_eps: must be a number");
    expect(&arch_command_r, "'logit_scale':null", "logit_scale: must be a number, got null");
    expect(&arch_cohere2, "'use_qk_norm':true", "use_qk_norm: must be 0, got true");
    expect(&arch_cohere2, "'sliding_window':null", "sliding_window: is missing: layers slide");
    expect(&arch_phi2, "'tie_word_embeddings':true", "tie_word_embeddings: must be 0, got true");
    expect(&arch_phi2, "'qk_layernorm':true", "qk_layernorm: must be 0, got true");
    expect(&arch_gptj, "'tie_word_embeddings':true", "tie_word_embeddings: must be 0, got true");
    expect(&arch_gptj, "'rotary_dim':7", "rotary_dim: must be even and at most 256, got 7");
    expect(&arch_gptj, "'n_head':128", "rotary_dim: must be even and at most 32, got 64");
    expect(&arch_gptj, "'rotary_dim':null", "rotary_dim: must be an integer, got null");
    expect(&arch_gptneox, "'head_dim':64", "head_dim: must be hidden_size / num_attention_heads");
    expect(&arch_gpt2, "'add_cross_attention':true", "add_cross_attention: must be 0, got true");
    expect(&arch_gpt2, "'n_embd':64,'hidden_size':96", "n_embd: must equal the field hidden_size");
    expect(&arch_gpt2, "'hidden_size':null,'n_embd':64", "must equal the field");
    expect(&arch_gpt2, "'n_embd':96,'hidden_size':96,'intermediate_size':7,'head_dim':5", NULL);
    expect(&arch_opt, "'layer_norm_eps':1e-6", "layer_norm_eps: must be 1e-05, got 1e-06");
    expect(&arch_distilbert, "'layer_norm_eps':1e-6", "layer_norm_eps: must be 1e-12, got 1e-06");
    expect(&arch_distilbert, "'layer_norm_eps':1e-12", NULL);
    expect(&arch_opt, "'max_position_embeddings':2147483647", "max_position_embeddings: must be");
    expect(&arch_falcon, "'new_decoder_architecture':true,'parallel_attn':false",
           "parallel_attn: ");
    expect(&arch_falcon, "'new_decoder_architecture':true,'num_ln_in_parallel_attn':3",
           "num_ln_in_parallel_attn: must be 1 or 2, got 3");
    expect(&arch_falcon, "'num_ln_in_parallel_attn':2", "num_ln_in_parallel_attn: must not be 2");
    expect(&arch_falcon, "'parallel_attn':false,'num_ln_in_parallel_attn':2", NULL);
    expect(&arch_falcon, "'new_decoder_architecture':true,'num_kv_heads':8",
           "num_kv_heads: must be a divisor of 71, got 8");
    expect(&arch_falcon, "'multi_query':false,'num_kv_heads':1", "num_kv_heads: must be num_atten");
    expect(&arch_falcon, "'num_kv_heads':8", NULL);
    expect(&arch_bloom, "'slow_but_exact':true,'pretraining_tp':4",
           "slow_but_exact: must be false");
    expect(&arch_bloom, "'slow_but_exact':true", NULL);
    expect(&arch_bloom, "'apply_residual_connection_post_layernorm':true",
           "apply_residual_connection_post_layernorm: must be 0");
    expect(&arch_mpt, "'attn_config':{'alibi':false}", "attn_config.alibi: must be 1, got false");
    expect(&arch_mpt, "'attn_config':{'alibi_bias_max':16}", "alibi_bias_max: must be 8, got 16");
    expect(&arch_mpt, "'attn_config':{'attn_type':'multiquery_attention'}", "attn_type: must be");
    expect(&arch_mpt, "'attn_config':{'clip_qkv':-1}", "clip_qkv: must be at least 0, got -1");
    expect(&arch_mpt, "'attn_config':{'qk_ln':true}", "attn_config.qk_ln: must be 0");
    expect(&arch_mpt, "'attn_config':7", "attn_config: expected an object");
    expect(&arch_mpt, "'attn_config':null,'norm_type':'layernorm'", NULL);
    expect(&arch_mpt, "'norm_type':'rmsnorm'", "norm_type: must be low_precision_layernorm");
    expect(&arch_mistral, "'sliding_window':0", "sliding_window: must be in [1, ");
    expect(&arch_qwen3, "'layer_types':['sliding_attention','full_attention']",
           "sliding_window is missing");
    expect(&arch_qwen2, "'layer_types':['full_attention']", "layer_types: must be a list of 2");
    expect(&arch_smollm3, "'no_rope_layer_interval':0", "no_rope_layer_interval: must be");
    expect(&arch_smollm3, "'no_rope_layers':[1]", "no_rope_layers: must be a list of at least 2");
}

/* As expect, with values of the caller. */
static void expect_changed(const struct arch *a, const char *fields,
                           const struct checkpoint_changes *ch, const char *word)
{
    changes = ch;
    expect(a, fields, word);
    changes = NULL;
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
    expect_overrides(&arch_gpt2, "'n_embd':64", "{'hidden_size':96}", "must equal the field");
}

/* Goal: a scaling of the caller replaces the file's, with the checks of the file's. */
TEST(scalings_of_the_caller_are_used_or_refused)
{
    static const char llama3[] = "'rope_scaling':{'rope_type':'llama3','factor':8,"
                                 "'low_freq_factor':1,'high_freq_factor':4,"
                                 "'original_max_position_embeddings':64}";
    for (int i = 0; i < N_ARCH; i++) {
        const struct arch *a = arches[i];
        const char *none = a->no_rope ? "--rope-scaling: the model has no rope" : NULL,
                   *flat = none                 ? none
                           : lacks_flat_rope(a) ? "--rope-scaling: full_attention: is missing"
                                                : NULL;
        expect_rope(a, "", "{'rope_type':'default'}", flat);
        if (!has_type(a, ROPE_LINEAR)) continue;
        expect_rope(a, "", "{'rope_type':'linear','factor':2}", flat);
        expect_rope(a, "", "{'rope_type':'yarn'}",
                    none ? none : "--rope-scaling: factor: is missing");
        expect_rope(a, "", "{'rope_type':'ntk'}",
                    none ? none : "--rope-scaling: rope_type: must be");
        expect_rope(a, "", "{'rope_type':'yarn','factor':4,'spread':1}",
                    flat ? flat : "--rope-scaling: spread");
        expect_changed(a, "", &(struct checkpoint_changes){.rope_theta = 5000},
                       a->no_rope ? "--rope-theta: the model has no rope"
                       : lacks_flat_rope(a) && a != &arch_gemma3n
                           ? "rope_theta: must not come with another base"
                           : NULL);
    }
    expect_rope(&arch_llama, llama3, "{'rope_type':'llama3','factor':2}",
                "--rope-scaling: low_freq_factor: is missing");
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

/* Goal: the values of the caller have priority over those at every place of a file, and only the
 * file's parameters of the scaling end. */
TEST(ropes_of_the_caller_replace_those_of_every_place)
{
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
    } cases[] = {
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
        {&arch_modernbert,
         "'global_rope_theta':500",
         {.rope_theta = 7},
         ROPE_NONE,
         7,
         1,
         8192,
         8192},
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
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read r;
        changes = &cases[i].ch;
        read_config(&r, cases[i].arch, cases[i].fields);
        changes = NULL;
        const struct rope_config *p = &r.m.config.rope[ROPE_MAIN];
        if (r.rc != 0)
            test_fail(__FILE__, __LINE__, "case %zu: %s", i, r.e.text);
        else if (p->scaling != cases[i].scaling || p->base != cases[i].base ||
                 p->factor != cases[i].factor || p->context_original != cases[i].original ||
                 r.m.config.context_train != cases[i].context)
            test_fail(__FILE__, __LINE__, "case %zu: scaling %d base %g factor %g, %d of %d", i,
                      (int)p->scaling, p->base, p->factor, p->context_original,
                      r.m.config.context_train);
        if (r.rc == 0 && cases[i].arch == &arch_gemma3)
            EXPECT(r.m.config.rope[ROPE_LOCAL].base == 9 &&
                   r.m.config.rope[ROPE_LOCAL].scaling == ROPE_NONE);
        done(&r);
    }
}

TEST(config_quantized_weights_are_refused_by_their_method)
{
    static const char *const method[] = {"eetq", "mxfp4", "modelopt", "torchao", "new_one"};
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
    expect_all(FP8 ",'scale_fmt':'ue8m0'}", "scale_fmt");
    expect_all("'quantization_config':{'quant_method':'fp8'}", NULL);
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
               "'sparsity_config':{'format':'sparse-24-bitmask'}}",
               "sparsity_config.format: must");
    expect_all("'quantization_config':{}", "quant_method: must be a known method, got none");
    expect_all("'quantization_config':null", NULL);
}

/* Goal: absent fields and null fields get the defaults of the reference's classes. */
TEST(config_defaults_belong_to_the_architecture)
{
    static const struct {
        const struct arch *a;
        int n_head_kv, d_head, context, window;
        double base;
        bool tied;
    } want[] = {{&arch_llama, 32, 128, 2048, 0, 1e4, false},
                {&arch_mistral, 8, 128, 131072, 4096, 1e4, false},
                {&arch_qwen2, 32, 128, 32768, 0, 1e4, false},
                {&arch_qwen3, 32, 128, 32768, 0, 1e4, false},
                {&arch_smollm3, 4, 128, 32768, 0, 2e6, true}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct read r;
        read_config(&r, want[i].a, "");
        NEED_OK(r.rc, &r.e);
        const struct config *c = &r.m.config;
        EXPECT(c->rms_eps == 1e-6f && c->rope[ROPE_MAIN].base == want[i].base);
        EXPECT_INT(c->n_head_kv, want[i].n_head_kv);
        EXPECT_INT(c->d_head, want[i].d_head);
        EXPECT_INT(c->context_train, want[i].context);
        EXPECT_INT(c->layer[1].window, want[i].window);
        EXPECT(c->tied == want[i].tied);
        EXPECT(c->qkv_bias == (want[i].a == &arch_qwen2 ? BIAS_NEEDED : BIAS_NONE));
        done(&r);
        read_config(&r, want[i].a, "'num_key_value_heads':null,'sliding_window':null");
        NEED_OK(r.rc, &r.e);
        EXPECT(r.m.config.n_head_kv == r.m.config.n_head && r.m.config.layer[0].window == 0);
        done(&r);
    }
}

/* Expect layers with a window (bit i of slides) and with rope (bit i of rope). */
static void expect_layers(const struct arch *a, const char *fields, unsigned slides, unsigned rope)
{
    struct read r;
    read_config(&r, a, fields);
    NEED_OK(r.rc, &r.e);
    unsigned s = 0, p = 0;
    for (int i = 0; i < r.m.config.n_layer; i++) {
        s |= (unsigned)(r.m.config.layer[i].window == 16) << i;
        p |= (unsigned)(r.m.config.layer[i].rope != ROPE_OFF) << i;
    }
    if (s != slides || p != rope)
        test_fail(__FILE__, __LINE__, "%s {%s}: windows %x, rope %x", a->name, fields, s, p);
    done(&r);
}

TEST(config_windows_are_where_the_architecture_has_them)
{
#define FOUR "'num_hidden_layers':4,'sliding_window':16,"
    expect_layers(&arch_llama, FOUR "'use_sliding_window':true", 0, 15);
    expect_layers(&arch_mistral, FOUR "'use_cache':true", 15, 15);
    expect_layers(&arch_qwen2, FOUR "'use_cache':true", 0, 15);
    expect_layers(&arch_qwen3, FOUR "'max_window_layers':0", 0, 15);
    expect_layers(&arch_qwen2, FOUR "'use_sliding_window':true", 0, 15);
    expect_layers(&arch_qwen2, FOUR "'use_sliding_window':true,'max_window_layers':1", 14, 15);
    expect_layers(&arch_qwen3,
                  FOUR "'use_sliding_window':true,'max_window_layers':1,'layer_types':['sliding_"
                       "attention','full_attention','full_attention','sliding_attention']",
                  9, 15);
    expect_layers(&arch_smollm3, FOUR "'use_cache':true", 0, 7);
    expect_layers(&arch_smollm3, FOUR "'use_sliding_window':true", 8, 7);
    expect_layers(&arch_smollm3, FOUR "'no_rope_layer_interval':2", 0, 5);
    expect_layers(&arch_smollm3, FOUR "'no_rope_layers':[0,0,1,1],'no_rope_layer_interval':2", 0,
                  12);
#undef FOUR
}

/* Goal: sizes have the names of their class, and the defaults that depend on other sizes. */
TEST(config_sizes_have_the_names_of_their_class)
{
    struct read r;
    read_config(&r, &arch_gpt2, "'n_embd':96,'n_head':4,'n_positions':40,'intermediate_size':7");
    NEED_OK(r.rc, &r.e);
    EXPECT_INT(r.m.config.d_ff, 4 * 96);
    EXPECT_INT(r.m.config.d_head, 24);
    EXPECT_INT(r.m.config.n_position, 40);
    done(&r);
    read_config(&r, &arch_gpt2, "'n_inner':50,'scale_attn_by_inverse_layer_idx':true");
    EXPECT(r.rc == 0 && r.m.config.d_ff == 50 &&
           r.m.config.layer[1].attn_scale == r.m.config.layer[0].attn_scale / 2);
    done(&r);
    read_config(&r, &arch_llama, "'n_embd':96,'hidden_dim':5,'n_layers':9,'dim':7");
    EXPECT(r.rc == 0 && r.m.config.d == 4096 && r.m.config.n_layer == 2);
    done(&r);
    read_config(&r, &arch_gptneox, "'rotary_pct':0.5,'rotary_emb_base':500,'rope_theta':7");
    EXPECT(r.rc == 0 && r.m.config.rope[ROPE_MAIN].d_rot == 48 &&
           r.m.config.rope[ROPE_MAIN].base == 500);
    done(&r);
    read_config(&r, &arch_gptneox,
                "'rotary_pct':0.5,'rope_parameters':{'rope_theta':60,'partial_rotary_factor':1}");
    EXPECT(r.rc == 0 && r.m.config.rope[ROPE_MAIN].d_rot == 96 &&
           r.m.config.rope[ROPE_MAIN].base == 60);
    done(&r);
    read_config(&r, &arch_falcon, "'alibi':true,'multi_query':false,'parallel_attn':false");
    EXPECT(r.rc == 0 && r.m.config.order == BLOCKS_SERIAL && r.m.config.layer[1].n_head_kv == 71 &&
           r.m.config.alibi == 8 && r.m.config.layer[0].rope == ROPE_OFF);
    done(&r);
    read_config(&r, &arch_falcon, "'num_kv_heads':71");
    EXPECT(r.rc == 0 && r.m.config.order == BLOCKS_PARALLEL && r.m.config.layer[1].n_head_kv == 1 &&
           r.m.config.d_ff == 4 * 4544 && r.m.config.layer[0].rope == ROPE_MAIN);
    done(&r);
    read_config(&r, &arch_mpt,
                "'d_model':96,'n_heads':4,'attn_config':{'clip_qkv':6,'softmax_scale':0.5}");
    EXPECT(r.rc == 0 && r.m.config.qkv_limit == 6 && r.m.config.layer[1].attn_scale == 0.5f &&
           r.m.config.d_ff == 384);
    done(&r);
    read_config(&r, &arch_opt, "'do_layer_norm_before':false,'word_embed_proj_dim':512");
    EXPECT(r.rc == 0 && r.m.config.order == BLOCKS_POST && r.m.config.d_embd == 512 &&
           r.m.config.position0 == 2 && r.m.config.n_position == 2050 &&
           r.m.config.context_train == 2048);
    done(&r);
}

TEST(config_magnitudes_of_yarn)
{
#define YARN "'rope_parameters':{'rope_type':'yarn','factor':4.0"
    static const struct {
        const char *fields;
        double want;
        bool whole;
    } cases[] = {{YARN "}", 1.1386294361119891, true},
                 {YARN ",'truncate':false}", 1.1386294361119891, false},
                 {YARN ",'attention_factor':1.5,'mscale':2}", 1.5, true},
                 {YARN ",'mscale':0.707}", 1.1386294361119891, true},
                 {YARN ",'mscale':1.0,'mscale_all_dim':1.0}", 1, true},
                 {YARN ",'mscale':2.0,'mscale_all_dim':1.0}", 1.121751143713058, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int a = 0; a < N_ARCH; a++) {
            struct read r;
            if (!has_type(arches[a], ROPE_YARN) || lacks_flat_rope(arches[a])) continue;
            if (declares(arches[a]->hf_key, "config.rope_parameters.truncate")) continue;
            read_config(&r, arches[a], cases[i].fields);
            NEED_OK(r.rc, &r.e);
            EXPECT(fabs(r.m.config.rope[ROPE_MAIN].magnitude - cases[i].want) < 1e-6);
            EXPECT(r.m.config.rope[ROPE_MAIN].ramp_whole == cases[i].whole);
            done(&r);
        }
#undef YARN
}

#define SIX                                                                                        \
    "'num_hidden_layers':6,'layer_types':['sliding_attention','full_attention',"                   \
    "'sliding_attention','full_attention','sliding_attention','sliding_attention']"

/* Goal: layers of gemma4 have the sizes of their type. The last ones use the keys and values of the
 * layer before them of their type, and the very last attends to all positions. */
TEST(config_layers_of_gemma4)
{
    static const char *const heads[] = {
        "'global_head_dim':64,'num_global_key_value_heads':2",
        "'per_layer_config':{'1':{'head_dim':64,'num_key_value_heads':2},'03':{'head_dim':64,"
        "'num_key_value_heads':2},'5':{'num_key_value_heads':2,'head_dim':64}},"
        "'global_head_dim':8"};
    struct read r;
    for (int k = 0; k < 2; k++) {
        char fields[700];
        snprintf(fields, sizeof fields,
                 SIX ",'attention_k_eq_v':true,'num_kv_shared_layers':2,'use_double_wide_mlp':true,"
                     "'head_dim':32,%s",
                 heads[k]);
        read_config(&r, &arch_gemma4, fields);
        NEED_OK(r.rc, &r.e);
        for (int i = 0; i < 6; i++) {
            const struct layer_config *l = &r.m.config.layer[i];
            const bool full = i % 2 == 1;
            EXPECT_INT(l->window, full ? 0 : 512);
            EXPECT_INT(l->d_head, full ? 64 : 32);
            EXPECT_INT(l->n_head_kv, full ? 2 : 4);
            EXPECT_INT(l->d_ff, i < 4 ? 9216 : 18432);
            EXPECT_INT(l->kv_layer, i < 4 ? i : i - 2);
            EXPECT(l->reuses_kv == (i >= 4) && l->v_is_k == (full && i < 4) && l->attn_scale == 1);
            EXPECT_INT(r.m.config.rope[l->rope].d_rot, l->d_head);
        }
        EXPECT(r.m.config.rope[ROPE_MAIN].scaling == ROPE_PROPORTIONAL &&
               r.m.config.rope[ROPE_MAIN].part == 0.25);
        done(&r);
    }
    read_config(&r, &arch_gemma4, "'num_global_key_value_heads':2,'per_layer_config':null");
    EXPECT(r.rc == 0 && r.m.config.layer[1].d_head == 256 && r.m.config.layer[1].n_head_kv == 4);
    done(&r);
    read_config(&r, &arch_gemma4, "'num_global_key_value_heads':2");
    EXPECT(r.rc == 0 && r.m.config.layer[1].d_head == 512 && r.m.config.layer[1].n_head_kv == 4);
    done(&r);
}

/* Goal: layers of gemma3n have the widths of a list, and the windows of their type. */
TEST(config_layers_of_gemma3n)
{
    struct read r;
    read_config(&r, &arch_gemma3n,
                SIX ",'num_kv_shared_layers':3,'intermediate_size':[1,2,3,4,5,6]");
    NEED_OK(r.rc, &r.e);
    for (int i = 0; i < 6; i++) {
        const struct layer_config *l = &r.m.config.layer[i];
        EXPECT_INT(l->window, i % 2 && i < 5 ? 0 : 512);
        EXPECT_INT(l->d_ff, i + 1);
        EXPECT_INT(l->kv_layer, i < 3 ? i : i == 3 ? 1 : 2);
        EXPECT(l->reuses_kv == (i >= 3) && l->attn_scale == 1);
    }
    EXPECT(r.m.config.logit_softcap == 30 && r.m.config.n_stream == 4);
    done(&r);
    read_config(&r, &arch_gemma3n, "'num_hidden_layers':5");
    EXPECT(r.rc == 0 && r.m.config.layer[4].window == 0 && r.m.config.layer[3].window == 512);
    done(&r);
    expect(&arch_gemma3n, "'num_hidden_layers':5,'num_kv_shared_layers':5",
           "num_kv_shared_layers: must be below the 5 layers, got 5");
    expect(&arch_gemma3n, "'intermediate_size':[4]", "intermediate_size: must be a list of 2");
    expect(&arch_gemma3n, "'intermediate_size':[4,0]", "intermediate_size: [1]: must be in [1, ");
    expect(&arch_gemma3n, "'intermediate_size':[4,1.5]", "intermediate_size: must be a list of 2");
    expect(&arch_gemma3n, "'activation_sparsity_pattern':0.5", "pattern: must be a list of 2");
    expect(&arch_gemma3n, "'activation_sparsity_pattern':[0.5,1.0]", "pattern: [1]: must be below");
    expect(&arch_gemma3n, "'activation_sparsity_pattern':[0,0.95]", NULL);
    expect(&arch_gemma3n, "'altup_num_inputs':17", "altup_num_inputs: must be in [1, 16]");
    expect(&arch_gemma3n, "'altup_num_inputs':2,'altup_active_idx':2", "must be below the 2 stre");
    expect(&arch_gemma3n, "'sliding_window':null", "sliding_window: must be at least 1");
    expect(&arch_gemma3n, "'hidden_size_per_layer_input':0", "per_layer_input: must be in [1, ");
}

/* Goal: the quantiles of the normal distribution are right, for sparsities of layers. */
TEST(config_sparsities_of_gemma3n)
{
    static const struct {
        const char *fields;
        double cut[2];
    } cases[] = {
        {"'activation_sparsity_pattern':[0.95,0.5]", {1.6448536, 0}},
        {"'activation_sparsity_pattern':[0.02,0]", {-2.0537489, -INFINITY}},
        {"'use_cache':true", {-INFINITY, -INFINITY}},
        {"'num_hidden_layers':11", {1.6448536, 1.6448536}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read r;
        read_config(&r, &arch_gemma3n, cases[i].fields);
        NEED_OK(r.rc, &r.e);
        struct binder b = {
            .m = &r.m, .checkpoint = r.c, .prefix = "gemma3n", .e = &r.e, .part = ""};
        for (int il = 0; il < 2; il++) {
            const double got = (double)gemma3n_cut(&b, il), want = cases[i].cut[il];
            if (!(got == want || fabs(got - want) < 1e-6))
                test_fail(__FILE__, __LINE__, "case %zu, layer %d: %g", i, il, got);
        }
        done(&r);
    }
}

TEST(config_values_of_gemma4_that_are_not_computed_are_refused)
{
#define OWN(text) "'per_layer_config':{" text "}"
    static const struct {
        const char *fields, *word;
    } cases[] = {
        {"'use_bidirectional_attention':'all'", "use_bidirectional_attention: must be \"vision\""},
        {"'use_bidirectional_attention':'vision'", NULL},
        {OWN("'0':{'head_dim':8},'00':{}"), "per_layer_config: must not have layer 0 twice"},
        {OWN("'two':{'head_dim':8}"), "per_layer_config: expected an object per layer"},
        {OWN("'1':8"), "per_layer_config: expected an object per layer"},
        {OWN("'4096':{'head_dim':8}"), "per_layer_config: expected an object per layer"},
        {OWN("'2':{'head_dim':8}"), "per_layer_config.head_dim: must be integers of the layers"},
        {OWN("'1':{'head_dim':null}"), "per_layer_config.1.head_dim: must be an integer"},
        {OWN("'1':{'head_dim':7}"), "per_layer_config.head_dim: must be even, got 7"},
        {OWN("'1':{'head_dim':0}"), "per_layer_config.head_dim: must be in [1, "},
        {OWN("'1':{'num_key_value_heads':3}"), "num_key_value_heads: must be a divisor of 8"},
        {OWN("'1':{'intermediate_size':8}"), "per_layer_config.intermediate_size: not supported"},
        {OWN("'1':{'use_cache':false}"), "per_layer_config.use_cache: not supported"},
        {OWN(""), NULL},
        {SIX "," OWN("'1':{'head_dim':8}"), "per_layer_config: layers of one type must have"},
        {"'global_head_dim':null", "global_head_dim: must be an integer"},
        {"'num_kv_shared_layers':1", "num_kv_shared_layers: must leave a layer of the type"},
        {"'num_kv_shared_layers':2", "num_kv_shared_layers: must be in [0, 1], got 2"},
        {"'enable_moe_block':true", "num_experts: must be at least 1"},
        {"'enable_moe_block':true,'num_experts':4", "top_k_experts: must be in [1, 4], got 0"},
        {"'enable_moe_block':true,'num_experts':4,'top_k_experts':2", "moe_intermediate_size"},
        {"'num_experts':4,'top_k_experts':9,'num_experts_per_tok':3", NULL},
        {"'sliding_window':null", "sliding_window: must be at least 1"},
        {"'rope_parameters':{'rope_type':'default','rope_theta':10.0}", "full_attention: is miss"},
        {"'rope_parameters':{'full_attention':{'rope_type':'proportional','rope_theta':10.0}}",
         "sliding_attention: is missing"},
        {"'rope_parameters':{'full_attention':{'rope_type':'default'},'sliding_attention':{"
         "'rope_theta':1.0}}",
         "rope_theta: is missing"},
        {"'rope_parameters':{'full_attention':{'rope_type':'default','rope_theta':9.0},"
         "'sliding_attention':{'rope_type':'default'}}",
         "sliding_attention.rope_theta: is missing"},
        {"'rope_parameters':{'full_attention':{'rope_type':'linear','rope_theta':9.0,'factor':2,"
         "'partial_rotary_factor':0.5}}",
         "partial_rotary_factor: must be 1, unless"},
        {"'rope_parameters':{'full_attention':{'rope_type':'yarn','rope_theta':9.0,'factor':2,"
         "'truncate':false},'sliding_attention':{'rope_theta':9.0}}",
         "rope_parameters.truncate: must be 1, got false"},
        {"'rope_parameters':{'full_attention':{'rope_type':'proportional','rope_theta':9.0,"
         "'partial_rotary_factor':1.5}}",
         "partial_rotary_factor: must be in [0, 1], got 1.5"},
        {"'global_head_dim':8,'rope_parameters':{'full_attention':{'rope_type':'longrope',"
         "'rope_theta':9.0,'factor':2,'short_factor':[1,1,1,1],'long_factor':[2,2]},"
         "'sliding_attention':{'rope_theta':9.0}}",
         "long_factor: must be a list of 4 numbers"},
        {"'global_head_dim':8,'rope_parameters':{'full_attention':{'rope_type':'longrope',"
         "'rope_theta':9.0,'factor':2,'short_factor':[1,1,1,1],'long_factor':[2,2,2,2]},"
         "'sliding_attention':{'rope_theta':9.0}}",
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(&arch_gemma4, cases[i].fields, cases[i].word);
#undef OWN
}

/* Goal: ModernBERT has windows on both sides. sliding_window is half of local_attention, and counts
 * before it, as in transformers. rope_theta at the top level is no field of the class. */
TEST(config_windows_of_modern_bert)
{
    static const struct {
        const char *fields;
        int half;
    } cases[] = {{"", 64},
                 {"'local_attention':24", 12},
                 {"'local_attention':41", 20},
                 {"'sliding_window':5", 5},
                 {"'local_attention':24,'sliding_window':5", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read r;
        read_config(&r, &arch_modernbert, cases[i].fields);
        NEED_OK(r.rc, &r.e);
        const struct layer_config *l = r.m.config.layer;
        EXPECT_INT(l[0].window, 0);
        EXPECT_INT(l[1].window, cases[i].half + 1);
        EXPECT_INT(l[1].n_later, cases[i].half);
        done(&r);
    }
    for (int i = 0; i < 2; i++) { /* the class has another name of its base */
        struct read r;
        read_config(&r, &arch_modernbert, i ? "'global_rope_theta':5" : "'rope_theta':5");
        EXPECT(r.rc == 0 && r.m.config.rope[ROPE_MAIN].base == (i ? 5 : 160000));
        done(&r);
    }
    expect(&arch_modernbert, "'sliding_window':0", "sliding_window: must be");
    expect(&arch_modernbert, "'local_attention':1", "local_attention: must be");
}

/* Goal: the published files of Nomic's model have the fields and defaults of another class than
 * that of transformers. Each field has an effect, or is refused by name. */
TEST(config_fields_of_nomics_class)
{
#define NOMIC                                                                                      \
    "'n_embd':32,'n_head':4,'n_inner':48,'qkv_proj_bias':false,'mlp_fc1_bias':false,"              \
    "'mlp_fc2_bias':false,'rotary_emb_fraction':1.0,"
#define SWIGLU NOMIC "'activation_function':'swiglu'"
#define GEGLU  NOMIC "'activation_function':'geglu'"
    static const struct {
        const char *fields;
        double base, eps;
        enum curve curve;
    } good[] = {
        {SWIGLU, 10000, 1e-5, CURVE_silu},
        {GEGLU ",'rotary_emb_base':1000,'layer_norm_epsilon':1e-12", 1000, 1e-12, CURVE_gelu_erf}};
    static const char *const bad[][2] = {
        {NOMIC "'activation_function':'gelu'", "activation_function: must be swiglu or geglu"},
        {NOMIC "'rotary_emb_base':1000", "must come with activation_function"},
        {"'activation_function':'swiglu','n_inner':48", "must come with rotary_emb_fraction 1"},
        {SWIGLU ",'n_inner':null", "n_inner"},
        {SWIGLU ",'rotary_emb_base':-1", "rotary_emb_base: must be"},
        {SWIGLU ",'layer_norm_epsilon':-1", "layer_norm_epsilon: must be"},
        {SWIGLU ",'hidden_act':'silu'", "must not come with hidden_act"},
        {SWIGLU ",'rope_theta':5", "must not come with rope_theta"},
        {SWIGLU ",'prenorm':true", "prenorm: must be 0"},
        {SWIGLU ",'rotary_scaling_factor':2", "rotary_scaling_factor: must be 0"},
        {SWIGLU ",'moe_every_n_layers':2", "moe_every_n_layers: must be 0"},
        {"'n_inner':48,'activation_function':'swiglu','rotary_emb_fraction':0.5",
         "rotary_emb_fraction: must be 1, got 0.5"}};
#undef NOMIC
#undef SWIGLU
#undef GEGLU
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect(&arch_nomic_bert, bad[i][0], bad[i][1]);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct read r;
        read_config(&r, &arch_nomic_bert, good[i].fields);
        NEED_OK(r.rc, &r.e);
        EXPECT(r.m.config.rope[ROPE_MAIN].base == good[i].base);
        EXPECT(r.m.config.rms_eps == (float)good[i].eps && r.m.config.curve == good[i].curve);
        EXPECT_INT(r.m.config.d_ff, 48);
        done(&r);
    }
}

/* ---- GGUF ---- */

struct pair {
    const char *key; /* key after "ARCH."; NULL if none */
    double value;
};

static void add_key(struct made *g, const struct arch *a, const char *key, double value)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", a->name, key);
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
              {&arch_qwen3moe, {"expert_count", 8}},
              {&arch_qwen3moe, {"expert_used_count", 2}},
              {&arch_bart, {"attention.layer_norm_epsilon", 1e-5}},
              {&arch_bart, {"decoder_start_token_id", 2}},
              {&arch_t5, {"decoder_start_token_id", 0}},
              {&arch_mt5, {"decoder_start_token_id", 0}}};
enum { N_NEEDED = sizeof needed / sizeof needed[0] };

static const char *left_out; /* static: a required key that read_gguf omits; NULL if none */

/* Return true if the file must not have the key, or has the key's value of `more`. */
static bool is_among(const struct pair more[2], const char *key)
{
    return (left_out && strcmp(left_out, key) == 0) ||
           (more[0].key && strcmp(more[0].key, key) == 0) ||
           (more[1].key && strcmp(more[1].key, key) == 0);
}

/* Read a GGUF of architecture `a` with all required sizes and at most two additional keys. text is
 * the value of the first of these keys; NULL: a number. */
static void read_gguf_text(struct read *r, const struct arch *a, const struct pair more[2],
                           const char *text)
{
    static const struct pair sizes[] = {
        {"block_count", 2},          {"embedding_length", 64},
        {"feed_forward_length", 96}, {"attention.head_count", 4},
        {"context_length", 256},     {"attention.layer_norm_rms_epsilon", 1e-5}};
    enum { N_SIZE = sizeof sizes / sizeof sizes[0] };
    struct made g = {0};
    int n_more = (more[0].key != NULL) + (more[1].key != NULL), n_needed = 0, n_size = 0;
    for (int i = 0; i < N_SIZE; i++) n_size += !is_among(more, sizes[i].key);
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
        if (!is_among(more, sizes[i].key)) add_key(&g, a, sizes[i].key, sizes[i].value);
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

static void read_gguf(struct read *r, const struct arch *a, const struct pair more[2])
{
    read_gguf_text(r, a, more, NULL);
}

/* Return true if GGUF files of the architecture exist. Some encoders are of architecture bert
 * there. */
static bool has_gguf(const struct arch *a)
{
    return a->gguf_key || !a->encoder;
}

/* Read the key in a GGUF of each architecture that has no declaration of its own for it. */
static void expect_gguf(const char *key, double value, const char *word)
{
    for (int i = 0; i < N_ARCH; i++) {
        struct read r;
        if (declares(arches[i]->gguf_key, key) || !has_gguf(arches[i])) continue;
        if (key && arches[i]->no_rope && strncmp(key, "rope.", 5) == 0) continue;
        read_gguf(&r, arches[i], (struct pair[2]){{key, value}});
        if (word ? r.rc == 0 || !strstr(r.e.text, word) : r.rc != 0)
            test_fail(__FILE__, __LINE__, "%s.%s = %g: \"%s\", expected %s", arches[i]->name, key,
                      value, r.rc == 0 ? "accepted" : r.e.text, word ? word : "no error");
        done(&r);
    }
}

TEST(gguf_keys_are_read_idle_or_refused)
{
    expect_gguf(NULL, 0, NULL);
#define GGUF_IDLE(key, group) expect_gguf(key, 7, NULL);
#include "keys.def"
#define GGUF_ONLY(key, value, why)                                                                 \
    if (strcmp(key, "attention.sliding_window") != 0 && strncmp(key, "expert", 6) != 0) {          \
        expect_gguf(key, value, NULL);                                                             \
        expect_gguf(key, 0.375, key ": must be ");                                                 \
    }
#include "keys.def"
    expect_gguf("expert_shared_count", 0, "metadata ");
    expect_gguf("rope.dimension_sections", 0, "rope.dimension_sections: not supported yet");
    expect_gguf("rope.dimension_count", 16, NULL);
    for (int i = 0; i < N_ARCH; i++) {
        struct read r;
        if (!has_gguf(arches[i])) continue;
        read_gguf(&r, arches[i], (struct pair[2]){{"rope.dimension_count", 8}});
        const bool part =
            arches[i]->partial_rope || declares(arches[i]->gguf_key, "rope.dimension_count");
        EXPECT(part                 ? r.rc == 0 && r.m.config.rope[ROPE_MAIN].d_rot == 8
               : arches[i]->no_rope ? r.rc != 0
                                    : r.rc != 0 && strstr(r.e.text, "dimension_count: must be 16"));
        done(&r);
    }
    expect_gguf("rope.freq_base", NAN, "rope.freq_base: must be a number");
    expect_gguf("rope.scaling.yarn_attn_factor", 1, NULL);
    expect_gguf("rope.scaling.yarn_attn_factor", 1.5, "must be 1, got 1.5");
}

/* Read a GGUF of one architecture with two more keys. word is a part of the expected error; NULL if
 * the keys are accepted. */
static void expect_pairs(const struct arch *a, struct pair one, struct pair two, const char *word)
{
    struct read r;
    read_gguf(&r, a, (struct pair[2]){one, two});
    if (word ? r.rc == 0 || !strstr(r.e.text, word) : r.rc != 0)
        test_fail(__FILE__, __LINE__, "%s.%s: \"%s\", expected %s", a->name, one.key,
                  r.rc == 0 ? "accepted" : r.e.text, word ? word : "no error");
    done(&r);
}

/* Goal: an error about sizes has the names of the keys that give the size. A reader of the error
 * does not know which of these keys is wrong. */
TEST(gguf_sizes_that_disagree_are_refused_by_name)
{
    static const struct pair lanes = {"rope.dimension_count", 16}, none = {0};
    static const struct arch *const whole[] = {&arch_command_r, &arch_cohere2, &arch_olmo};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        expect_pairs(whole[i], (struct pair){"embedding_length", 128}, lanes,
                     "rope.dimension_count: must be 32 (embedding_length 128 / ");
        expect_pairs(whole[i], (struct pair){"attention.head_count", 1}, lanes,
                     "must be 64 (embedding_length 64 / attention.head_count 1), got 16");
    }
    expect_pairs(&arch_qwen3, (struct pair){"attention.key_length", 32}, lanes,
                 "must be 32 (attention.key_length), got 16");
    expect_pairs(&arch_phi2, (struct pair){"attention.head_count", 8}, lanes,
                 "must be in [2, 8] (embedding_length 64 / attention.head_count 8), got 16");
    expect_pairs(&arch_phi2, (struct pair){"rope.dimension_count", 7}, none,
                 "rope.dimension_count: must give an even number");
    expect_pairs(&arch_llama, (struct pair){"rope.freq_base", 0}, none, "freq_base: must be above");
    expect_pairs(&arch_llama, (struct pair){"attention.head_count_kv", 3}, none,
                 "attention.head_count_kv: must divide the 4 heads, got 3");
    expect_pairs(&arch_llama, (struct pair){"attention.value_length", 8}, none,
                 "attention.value_length: must equal");
}

/* Goal: a key without a default in llama.cpp's class is required. llama.cpp computes a causal
 * encoder, or no positions, if the key is absent. */
TEST(gguf_keys_with_another_default_in_llama_cpp_are_required)
{
    static const struct pair none = {0};
    const struct arch *const encoder[] = {&arch_bert, &arch_nomic_bert};
    for (int i = 0; i < 2; i++) {
        expect_pairs(encoder[i], (struct pair){"attention.causal", 1}, none,
                     "attention.causal: must be 0");
        left_out = "attention.causal";
        expect_pairs(encoder[i], none, none, "attention.causal: is missing");
        left_out = NULL;
        expect_pairs(encoder[i], none, none, NULL);
    }
    left_out = "attention.max_alibi_bias";
    expect_pairs(&arch_mpt, none, none, "attention.max_alibi_bias: must be in (0, 64], got 0");
    left_out = NULL;
    expect_pairs(&arch_mpt, none, none, NULL);
    expect_pairs(&arch_bloom, (struct pair){"attention.max_alibi_bias", 8}, none, NULL);
    expect_pairs(&arch_bloom, (struct pair){"attention.max_alibi_bias", 0}, none,
                 "attention.max_alibi_bias: must be 8, got 0");
}

static void expect_gguf_text(const struct arch *a, const char *key, const char *text, bool ok)
{
    struct read r;
    char word[80];
    read_gguf_text(&r, a, (struct pair[2]){{key, 0}}, text);
    snprintf(word, sizeof word, "%s: must be ", key);
    if (ok ? r.rc != 0 : r.rc == 0 || !strstr(r.e.text, word))
        test_fail(__FILE__, __LINE__, "%s.%s = %s: \"%s\"", a->name, key, text,
                  r.rc == 0 ? "accepted" : r.e.text);
    done(&r);
}

/* Goal: a factor of the rope without a scaling is rejected if llama.cpp scales some layers. */
TEST(gguf_factors_without_a_scaling)
{
    struct read r;
    for (int i = 0; i < 3; i++) {
        const struct pair more[2] = {{"rope.scaling.type", 0},
                                     {"rope.scaling.factor", i == 1 ? 1 : 4}};
        read_gguf_text(&r, i < 2 ? &arch_gemma2 : &arch_gemma3, more, "none");
        EXPECT(i > 0 ? r.rc == 0
                     : r.rc != 0 && strstr(r.e.text, "rope.scaling.type: must be linear"));
        done(&r);
    }
}

/* Goal: scalings of modern-bert are refused by name. llama.cpp scales both bases. */
TEST(gguf_scalings_of_modern_bert)
{
    const struct pair none = {0}, factor = {"rope.scaling.factor", 4};
    expect_pairs(&arch_modernbert, factor, none, "rope.scaling.factor: a scaling");
    expect_pairs(&arch_modernbert, (struct pair){"rope.scale_linear", 4}, none,
                 "rope.scale_linear: a scaling");
    expect_pairs(&arch_modernbert, (struct pair){"attention.causal", 1}, none, "causal: must be 0");
    expect_pairs(&arch_modernbert, (struct pair){"rope.freq_base_swa", 500}, none, NULL);
}

/* Goal: an activation that llama.cpp would ignore is rejected. llama.cpp computes the
 * architecture's activation, except for architectures that have gguf_curve. */
TEST(gguf_activations_are_the_architecture_s_own)
{
    static const struct {
        const char *name;
        enum curve curve;
    } cases[] = {{"silu", CURVE_silu},
                 {"gelu_pytorch_tanh", CURVE_gelu_tanh},
                 {"gelu", CURVE_gelu_erf},
                 {"relu", CURVE_relu}};
    int n_read = 0;
    for (int i = 0; i < N_ARCH; i++) {
        if (!has_gguf(arches[i])) continue;
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
            expect_gguf_text(arches[i], "hidden_activation", cases[k].name,
                             arches[i]->gguf_curve ||
                                 (arches[i]->curve == cases[k].curve && !arches[i]->own_curve));
        expect_gguf_text(arches[i], "hidden_activation", "xielu", arches[i]->own_curve != NULL);
        n_read += arches[i]->gguf_curve;
    }
    EXPECT_INT(n_read, 1);
    struct read r;
    read_gguf_text(&r, &arch_modernbert, (struct pair[2]){{"hidden_activation", 0}}, "silu");
    EXPECT(r.rc == 0 && r.m.config.curve == CURVE_silu);
    done(&r);
}

/* Goal: factors have llama.cpp's meaning. attn_factor is a multiplier, and a factor without a type
 * is linear. */
TEST(gguf_rope_factors_mean_what_llama_cpp_takes_them_for)
{
    struct read r;
    read_gguf(&r, &arch_llama,
              (struct pair[2]){{"rope.scaling.factor", 4}, {"rope.scaling.attn_factor", 0.5}});
    NEED_OK(r.rc, &r.e);
    EXPECT(r.m.config.rope[ROPE_MAIN].scaling == ROPE_LINEAR &&
           r.m.config.rope[ROPE_MAIN].factor == 4);
    EXPECT(r.m.config.rope[ROPE_MAIN].magnitude == 0.5);
    done(&r);
    read_gguf(&r, &arch_gemma3,
              (struct pair[2]){{"rope.scaling.factor", 4}, {"rope.scaling.attn_factor", 0.5}});
    NEED_OK(r.rc, &r.e);
    EXPECT(r.m.config.rope[ROPE_MAIN].magnitude == 0.5 &&
           r.m.config.rope[ROPE_LOCAL].magnitude == 0.5 &&
           r.m.config.rope[ROPE_LOCAL].scaling == ROPE_NONE);
    done(&r);
    read_gguf(&r, &arch_qwen3, (struct pair[2]){{"rope.scale_linear", 2}});
    NEED_OK(r.rc, &r.e);
    EXPECT(r.m.config.rope[ROPE_MAIN].factor == 2 && r.m.config.rope[ROPE_MAIN].magnitude == 1);
    done(&r);
    read_gguf(&r, &arch_llama, (struct pair[2]){{"attention.sliding_window", 16}});
    EXPECT(r.rc == 0 && r.m.config.layer[0].window == 16);
    done(&r);
    read_gguf(&r, &arch_qwen2, (struct pair[2]){{"attention.sliding_window", 16}});
    EXPECT(r.rc != 0 && strstr(r.e.text, "sliding_window: must be 0, got 16"));
    done(&r);
}

/* Goal: a scaling of the caller means the same in a GGUF as in a folder. */
TEST(ropes_of_the_caller_in_a_gguf)
{
    static const struct pair none[2] = {{NULL, 0}, {NULL, 0}},
                             linear[2] = {{"rope.scaling.factor", 4}, {"rope.freq_base", 60}},
                             more[2] = {{"rope.scaling.factor", 4},
                                        {"rope.scaling.attn_factor", 2}};
    static const struct {
        const struct pair *keys;
        struct checkpoint_changes ch;
        enum rope_scaling scaling;
        double base, factor, magnitude;
        int context;
    } cases[] = {
        {none,
         {.rope = "{'rope_type':'yarn','factor':4}"},
         ROPE_YARN,
         10000,
         4,
         1.1386294361119891,
         1024},
        {linear,
         {.rope = "{'rope_type':'yarn','factor':2,'attention_factor':1.5}"},
         ROPE_YARN,
         60,
         2,
         1.5,
         512},
        {linear, {.rope = "{'rope_type':'default'}"}, ROPE_NONE, 60, 1, 1, 256},
        {linear, {.rope = "{'rope_type':'dynamic','factor':3}"}, ROPE_DYNAMIC, 60, 3, 1, 768},
        {linear, {.rope_theta = 7}, ROPE_LINEAR, 7, 4, 1, 256},
        {more, {.rope = "{'rope_type':'linear','factor':2}"}, ROPE_LINEAR, 10000, 2, 1, 512}};
    struct read r;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        changes = &cases[i].ch;
        read_gguf(&r, &arch_qwen3, cases[i].keys);
        changes = NULL;
        NEED_OK(r.rc, &r.e);
        const struct rope_config *p = &r.m.config.rope[ROPE_MAIN];
        if (p->scaling != cases[i].scaling || p->base != cases[i].base ||
            p->factor != cases[i].factor || fabs(p->magnitude - cases[i].magnitude) > 1e-6 ||
            r.m.config.context_train != cases[i].context)
            test_fail(__FILE__, __LINE__, "case %zu: scaling %d base %g factor %g magnitude %g", i,
                      (int)p->scaling, p->base, p->factor, p->magnitude);
        EXPECT(!p->ramp_forward || cases[i].ch.rope_theta > 0);
        done(&r);
    }
    static const struct checkpoint_changes adds = {.rope = "{'rope_type':'yarn','factor':8}",
                                                   .rope_adds = true},
                                           config = {.config = "{'vocab_size':7}"};
    const struct pair yarn[2] = {{"rope.scaling.type", 0},
                                 {"rope.scaling.original_context_length", 64}},
                      own[2] = {{"rope.scaling.type", 0}, {"rope.scaling.attn_factor", 2}};
    changes = &adds;
    read_gguf_text(&r, &arch_qwen3, yarn, "yarn");
    EXPECT(r.rc == 0 && r.m.config.rope[ROPE_MAIN].context_original == 64 &&
           r.m.config.rope[ROPE_MAIN].factor == 8 && r.m.config.context_train == 512);
    done(&r);
    read_gguf_text(&r, &arch_qwen3, own, "yarn");
    EXPECT(r.rc != 0 && strstr(r.e.text, "--rope-scaling: must not come with the key qwen3.rope"));
    done(&r);
    changes = &config;
    read_gguf(&r, &arch_qwen3, none);
    EXPECT(r.rc != 0 && strstr(r.e.text, "--hf-overrides: requires a model with a config.json"));
    done(&r);
    changes = NULL;
}

/* Goal: windows of exaone4 are those of llama.cpp, which computes them for 64 layers alone, and
 * omits the rope of the other layers. */
TEST(gguf_windows_of_exaone4_are_those_of_64_layers)
{
    struct read r;
    read_gguf(&r, &arch_exaone4, (struct pair[2]){{"block_count", 64}});
    NEED_OK(r.rc, &r.e);
    EXPECT(r.m.config.layer[0].window == 4096 && r.m.config.layer[0].rope == ROPE_MAIN);
    EXPECT(r.m.config.layer[3].window == 0 && r.m.config.layer[3].rope == ROPE_OFF);
    done(&r);
    read_gguf(&r, &arch_exaone4,
              (struct pair[2]){{"block_count", 64}, {"attention.sliding_window", 16}});
    EXPECT(r.rc == 0 && r.m.config.layer[62].window == 16 && r.m.config.layer[63].window == 0);
    done(&r);
    read_gguf(&r, &arch_exaone4, (struct pair[2]){{"attention.sliding_window", 16}});
    EXPECT(r.rc != 0 && strstr(r.e.text, "sliding_window: must be 0"));
    done(&r);
    read_gguf(&r, &arch_exaone4, (struct pair[2]){{"attention.sliding_window", 0}});
    EXPECT(r.rc == 0 && r.m.config.layer[1].window == 0 && r.m.config.layer[1].rope == ROPE_MAIN);
    done(&r);
}

/* Goal: an interval that is no number is an error, not a division by 0. */
TEST(gguf_intervals_that_are_no_numbers_are_refused)
{
    expect_gguf_text(&arch_gemma3, "attention.sliding_window_pattern", "x", false);
    expect_gguf_text(&arch_gemma3n, "attention.sliding_window_pattern", "x", false);
    expect_gguf_text(&arch_gemma3n, "activation_sparsity_scale", "x", false);
    expect_gguf_text(&arch_gemma3n, "altup.num_inputs", "x", false);
}

/* Goal: values of a GGUF of gemma4 that llama.cpp computes in another way are rejected. */
TEST(gguf_keys_of_gemma4)
{
    static const struct {
        struct pair more[2];
        const char *word;
    } cases[] = {
        {{{"attention.sliding_window_pattern", 1}, {"attention.sliding_window", 0}},
         "sliding_window: must be at least 1"},
        {{{"attention.sliding_window_pattern", 2}}, "sliding_window_pattern: must be in [0, 1]"},
        {{{"attention.key_length_swa", 18}}, "value_length_swa: must be 18, got 16"},
        {{{"rope.dimension_count_swa", 8}}, "rope.dimension_count_swa: must be in [16, 16]"},
        {{{"attention.shared_kv_layers", 2}}, "shared_kv_layers: must be in [0, 1], got 2"},
        {{{"attention.shared_kv_layers", 1}}, NULL},
        {{{"rope.scaling.factor", 4}}, "rope.scaling.factor: must be 1, got 4"},
        {{{"rope.scale_linear", 4}}, "rope.scale_linear: must be 1, got 4"},
        {{{"final_logit_softcapping", -1}}, "final_logit_softcapping: must be at least 0"},
        {{{"final_logit_softcapping", 0}}, NULL},
        {{{"expert_count", 4}}, "expert_used_count: must be in [1, 4], got 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read r;
        read_gguf(&r, &arch_gemma4, cases[i].more);
        if (cases[i].word ? r.rc == 0 || !strstr(r.e.text, cases[i].word) : r.rc != 0)
            test_fail(__FILE__, __LINE__, "case %zu: \"%s\", expected %s", i,
                      r.rc == 0 ? "accepted" : r.e.text, cases[i].word);
        done(&r);
    }
}

/* Goal: a wrong interval of windows is an error, and no division by 0. gemma4 has a list. */
TEST(gguf_intervals_are_refused_by_name)
{
    static const char key[] = "attention.sliding_window_pattern";
    for (int i = 0; i < N_ARCH; i++) {
        if (!declares(arches[i]->gguf_key, key) || arches[i] == &arch_gemma4) continue;
        for (double v = -1; v <= 0.5; v += 0.5)
            expect_pairs(arches[i], (struct pair){key, v}, (struct pair){0}, "_pattern: must be ");
        expect_gguf_text(arches[i], key, "x", false);
        const bool lists =
            arches[i] == &arch_olmo2 || arches[i] == &arch_exaone4 || arches[i] == &arch_gemma3n;
        if (!lists) expect_gguf_text(arches[i], key, "[11", false);
    }
}

/* Read a key with each kind of value. The result is a config, or an error with a sentence. */
static void read_any_value(const struct arch *a, const char *key)
{
    static const double number[] = {-1, 0, 0.5, 3, 1e9, INFINITY};
    static const char *const text[] = {"", "x", "[", "[10"};
    struct read r;
    for (size_t i = 0; i < 10; i++) {
        const bool is_text = i >= 6;
        const struct pair one[2] = {{key, is_text ? 0 : number[i]}};
        read_gguf_text(&r, a, one, is_text ? text[i - 6] : NULL);
        if ((r.rc == 0) != (r.e.text[0] == 0))
            test_fail(__FILE__, __LINE__, "%s.%s, value %zu: \"%s\"", a->name, key, i, r.e.text);
        done(&r);
    }
}

/* Goal: no value of a key ends the program. */
TEST(gguf_keys_of_any_value_are_read_or_refused)
{
    static const char *const shared[] = {
#define GGUF_READ(key)             key,
#define GGUF_ONLY(key, value, why) key,
#include "keys.def"
    };
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        read_any_value(&arch_gemma3, shared[i]);
    for (int i = 0; i < N_ARCH; i++)
        for (const struct config_key *k = arches[i]->gguf_key; k && k->key; k++)
            read_any_value(arches[i], k->key);
}

/* Return true if the sizes of latent attention of all heads are these. */
static bool latent_is(const struct read *r, int q_rank, int kv_rank, int kv_a, int kv_b, int d_v)
{
    const struct config *c = &r->m.config;
    int64_t (*size)(const struct config *c, enum tensor_size size) = arch_minicpm3.size;
    return size(c, SIZE_Q_RANK) == q_rank && size(c, SIZE_KV_RANK) == kv_rank &&
           size(c, SIZE_KV_A) == kv_a && size(c, SIZE_KV_B) == kv_b && size(c, SIZE_D_V) == d_v;
}

/* Goal: sizes of latent attention follow from the keys of both sources, and impossible ones are
 * refused by name. */
TEST(sizes_of_latent_attention_are_read)
{
    static const char yarn[] = "'rope_parameters':{'rope_type':'yarn','factor':4.0,"
                               "'mscale':1.0,'mscale_all_dim':1.0}",
                      two[] = "'qk_rope_head_dim':4,'rope_parameters':{'rope_type':'longrope',"
                              "'short_factor':[1,2],'long_factor':[3,4],'mscale_all_dim':";
    char fields[300];
    struct read r;
    read_config(&r, &arch_minicpm3, yarn);
    NEED_OK(r.rc, &r.e);
    const struct config *c = &r.m.config;
    EXPECT(latent_is(&r, 768, 256, 256 + 32, 40 * (64 + 64), 40 * 64));
    EXPECT(c->d_head == 96 && c->layer[1].d_head == 96 && c->rope[ROPE_MAIN].d_rot == 32);
    EXPECT(fabs((double)c->layer[1].attn_scale * sqrt(96) - 1.138629 * 1.138629) < 1e-5);
    EXPECT(fabs((double)c->residual_scale - 1.4 / sqrt(2)) < 1e-6 && c->embed_scale == 12);
    EXPECT(fabs((double)c->logit_scale - 0.1) < 1e-7);
    done(&r);
    read_config(&r, &arch_minicpm3,
                "'q_lora_rank':null,'v_head_dim':24,'scale_depth':null,'dim_model_base':null");
    NEED_OK(r.rc, &r.e);
    EXPECT(latent_is(&r, 0, 256, 256 + 32, 40 * (64 + 24), 40 * 24));
    EXPECT(c->residual_scale == 1 && c->logit_scale == 1);
    done(&r);
    read_gguf(&r, &arch_minicpm3, (struct pair[2]){{"attention.key_length", 20}});
    NEED_OK(r.rc, &r.e);
    EXPECT(latent_is(&r, 24, 20, 20 + 8, c->n_head * (12 + 16), c->n_head * 16));
    EXPECT(c->d_head == 20 && c->rope[ROPE_MAIN].d_rot == 8 && c->embed_scale == 12);
    done(&r);
    read_gguf(&r, &arch_minicpm3, (struct pair[2]){{"attention.key_length", 8}});
    EXPECT(r.rc != 0 && strstr(r.e.text, "key_length: must be above rope.dimension_count 8"));
    done(&r);
    expect(&arch_minicpm3, "'num_key_value_heads':8",
           "num_key_value_heads: must be the number of heads, 40, got 8");
    expect(&arch_minicpm3, "'hidden_size':2561", "must be a divisor of 2561, got 40");
    expect(&arch_minicpm3, "'scale_emb':null", "scale_emb: must be a number, got null");
    expect(&arch_minicpm3, "'dim_model_base':0", "dim_model_base: must be in [1, ");
    expect(&arch_minicpm3, "'qk_nope_head_dim':0", "qk_nope_head_dim: must be in [1, ");
    expect(&arch_minicpm3, "'qk_rope_head_dim':7", "qk_rope_head_dim: must be even, got 7");
    expect(&arch_minicpm3, "'kv_lora_rank':null", "kv_lora_rank: must be an integer, got null");
    expect(&arch_minicpm3, "'head_dim':5,'qk_head_dim':7", NULL);
    expect(&arch_minicpm3, "'rope_scaling':{'type':'longrope','short_factor':[1.0]}",
           "short_factor: must be a list of 16 numbers");
    snprintf(fields, sizeof fields, "%s0}", two);
    expect(&arch_minicpm3, fields, NULL);
    snprintf(fields, sizeof fields, "%s1}", two);
    expect(&arch_minicpm3, fields, "factor: is missing, and mscale_all_dim needs it");
}

/* Goal: a row of gemma-embedding sees half of its window on each side. */
TEST(windows_of_gemma_embedding_have_two_sides)
{
    struct read r;
    for (int gguf = 0; gguf < 2; gguf++) {
        const struct pair more[2] = {{"attention.sliding_window", 13}, {"block_count", 7}};
        if (gguf)
            read_gguf(&r, &arch_gemma_embedding, more);
        else
            read_config(&r, &arch_gemma_embedding, "'num_hidden_layers':7,'sliding_window':13");
        NEED_OK(r.rc, &r.e);
        for (int i = 0; i < 7; i++) {
            const struct layer_config *l = &r.m.config.layer[i];
            EXPECT_INT(l->window, i == 5 ? 0 : 7);
            EXPECT_INT(l->n_later, i == 5 ? INT_MAX : 6);
            EXPECT_INT(l->rope, i == 5 ? ROPE_MAIN : ROPE_LOCAL);
        }
        done(&r);
    }
    expect(&arch_gemma3, "'use_bidirectional_attention':1", "must be 0, got 1");
}

/* Goal: T5's two sides, factors, gates and first tokens are those of its classes. */
TEST(config_of_t5_is_that_of_its_classes)
{
    struct read r;
    read_config(&r, &arch_t5, "'num_hidden_layers':3,'num_decoder_layers':2,'d_model':64");
    NEED_OK(r.rc, &r.e);
    const struct config *c = &r.m.config;
    EXPECT(c->n_encoder == 3 && c->n_layer == 5 && c->context_train == 1024);
    EXPECT(c->layer[2].n_later == INT_MAX && c->layer[3].n_later == 0);
    EXPECT(c->layer[0].attn_scale == 1 && c->layer[4].attn_scale == 1);
    EXPECT(c->no_gate && c->curve == CURVE_relu && c->logit_scale == 0.125f && c->tied);
    EXPECT(c->n_start == 1 && c->start[0] == 0 && c->n_bucket == 32 && c->bucket_reach == 128);
    done(&r);
    static const struct {
        const char *fields;
        float scale; /* of logits, with d_model 64 */
        bool gated;
        enum curve curve;
        int n_start, last; /* number of first tokens, and the last of them */
    } cases[] = {
        {"'tie_word_embeddings':false", 1, false, CURVE_relu, 1, 0},
        {"'tie_word_embeddings':null", 0.125f, false, CURVE_relu, 1, 0},
        {"'tie_word_embeddings':true,'scale_decoder_outputs':false", 1, false, CURVE_relu, 1, 0},
        {"'feed_forward_proj':'gated-gelu'", 0.125f, true, CURVE_gelu_tanh, 1, 0},
        {"'feed_forward_proj':'gelu'", 0.125f, false, CURVE_gelu_erf, 1, 0},
        {"'feed_forward_proj':'gated-silu'", 0.125f, true, CURVE_silu, 1, 0},
        {"'feed_forward_proj':'gated-gelu','dense_act_fn':'gelu'", 0.125f, true, CURVE_gelu_erf, 1,
         0},
        {"'is_gated_act':true", 0.125f, true, CURVE_relu, 1, 0},
        {"'decoder_start_token_id':3,'forced_bos_token_id':7", 0.125f, false, CURVE_relu, 2, 7},
        {"'decoder_start_token_id':null,'bos_token_id':5", 0.125f, false, CURVE_relu, 1, 5},
        {"'force_bos_token_to_be_generated':true,'bos_token_id':5", 0.125f, false, CURVE_relu, 2,
         5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char fields[200];
        snprintf(fields, sizeof fields, "'d_model':64,%s", cases[i].fields);
        read_config(&r, &arch_t5, fields);
        NEED_OK(r.rc, &r.e);
        if (c->logit_scale != cases[i].scale || c->no_gate == cases[i].gated ||
            c->curve != cases[i].curve || c->n_start != cases[i].n_start ||
            c->start[c->n_start - 1] != cases[i].last)
            test_fail(__FILE__, __LINE__, "{%s}: scale %g, gate %d, curve %d, start %d of %d",
                      fields, (double)c->logit_scale, !c->no_gate, (int)c->curve,
                      c->start[c->n_start - 1], c->n_start);
        done(&r);
    }
    /* num_hidden_layers replaces num_layers after the decoder's default was set */
    static const struct {
        const struct arch *arch;
        const char *fields;
        int n_encoder, n_decoder;
    } layers[] = {
        {&arch_t5, "'num_hidden_layers':3", 3, 6},
        {&arch_mt5, "'num_hidden_layers':3", 3, 8},
        {&arch_mt5, "'num_hidden_layers':3,'num_layers':3", 3, 3},
        {&arch_t5, "'num_hidden_layers':3,'num_decoder_layers':null", 3, 6},
        {&arch_t5, "'num_hidden_layers':3,'num_layers':3,'num_decoder_layers':4", 3, 4},
    };
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        read_config(&r, layers[i].arch, layers[i].fields);
        NEED_OK(r.rc, &r.e);
        EXPECT_INT(c->n_encoder, layers[i].n_encoder);
        EXPECT_INT(c->n_layer - c->n_encoder, layers[i].n_decoder);
        done(&r);
    }
    read_config(&r, &arch_mt5, "'tie_word_embeddings':true,'d_model':64");
    EXPECT(r.rc == 0 && c->logit_scale == 1 && !c->no_gate && c->n_encoder == 2);
    done(&r);
    expect(&arch_t5, "'num_hidden_layers':3,'num_layers':2",
           "num_hidden_layers: must equal the field num_layers");
    expect(&arch_t5, "'feed_forward_proj':'gated-mish'", "feed_forward_proj: must be silu");
    expect(&arch_t5, "'dense_act_fn':'gelu_10'", "dense_act_fn: must be silu");
    expect(&arch_t5, "'relative_attention_max_distance':16",
           "relative_attention_max_distance: must be above half of the 32 buckets, got 16");
    expect(&arch_t5, "'relative_attention_num_buckets':3", "must be in [4, ");
    expect(&arch_t5, "'is_encoder_decoder':false", "is_encoder_decoder: must be 1, got false");
    expect(&arch_t5, "'decoder_start_token_id':null", "decoder_start_token_id: is missing");
    expect(&arch_t5, "'decoder_start_token_id':-1", "decoder_start_token_id: must be in [0, ");
}

/* Goal: BART's two sides have their own sizes; positions begin at row 2, and count for both. */
TEST(config_of_bart_is_that_of_its_class)
{
    struct read r;
    const struct config *c = &r.m.config;
    read_config(&r, &arch_bart,
                "'num_hidden_layers':2,'decoder_layers':3,'d_model':48,'encoder_attention_heads':4,"
                "'decoder_attention_heads':6,'encoder_ffn_dim':96,'decoder_ffn_dim':80,"
                "'max_position_embeddings':100,'scale_embedding':true,'forced_bos_token_id':0");
    NEED_OK(r.rc, &r.e);
    EXPECT(c->n_encoder == 2 && c->n_layer == 5 && c->order == BLOCKS_POST);
    EXPECT(c->n_position == 102 && c->position0 == 2 && c->context_train == 200);
    const struct layer_config *encoder = &c->layer[1], *decoder = &c->layer[2];
    EXPECT(encoder->n_head == 4 && encoder->d_head == 12 && encoder->d_ff == 96);
    EXPECT(decoder->n_head == 6 && decoder->n_head_kv == 6 && decoder->d_head == 8);
    EXPECT(decoder->d_ff == 80 && decoder->attn_scale == 1 / sqrtf(8));
    EXPECT(encoder->n_later == INT_MAX && decoder->n_later == 0);
    /* heads of other sizes need a layer of KV memory of their own */
    EXPECT(encoder->kv_layer == 0 && decoder->kv_layer == 2);
    EXPECT(c->embed_scale == sqrtf(48) && c->curve == CURVE_gelu_erf && c->tied);
    EXPECT(c->n_start == 2 && c->start[0] == 2 && c->start[1] == 0);
    done(&r);
    read_config(&r, &arch_bart, "'activation_function':'relu','decoder_start_token_id':0");
    NEED_OK(r.rc, &r.e);
    EXPECT(c->n_layer - c->n_encoder == 12 && c->d == 1024 && c->layer[2].d_ff == 4096);
    EXPECT(c->curve == CURVE_relu && c->embed_scale == 1 && c->n_start == 1 && c->start[0] == 0);
    EXPECT(c->layer[0].kv_layer == 2); /* equal heads share the memory of a decoder's layer */
    done(&r);
    expect(&arch_bart, "'encoder_layers':3", "must equal the field");
    expect(&arch_bart, "'d_model':48,'encoder_attention_heads':4,'decoder_attention_heads':5",
           "decoder_attention_heads: must divide the width 48, got 5");
    expect(&arch_bart, "'d_model':48,'encoder_attention_heads':5,'decoder_attention_heads':4",
           "encoder_attention_heads: must divide the width 48, got 5");
    expect(&arch_bart, "'is_encoder_decoder':false", "is_encoder_decoder: must be 1, got false");
    expect(&arch_bart, "'normalize_before':true", "normalize_before: must be 0, got true");
    expect(&arch_bart, "'extra_pos_embeddings':3", "extra_pos_embeddings: must be 2, got 3");
    expect(&arch_bart, "'max_position_embeddings':2147483647",
           "max_position_embeddings: must be in");
    expect(&arch_bart, "'num_hidden_layers':4000,'decoder_layers':97",
           "decoder_layers: must be at most 96, got 97");
    expect(&arch_bart, "'decoder_layers':0", "decoder_layers: must be in [1, 4096], got 0");
}

/* Goal: the first tokens of generation_config.json override those of config.json. */
TEST(first_tokens_of_a_decoder_are_those_of_generation_config)
{
    static const struct {
        const char *generation, *word; /* word: part of the expected error; NULL if none */
        int n_start, last;
    } cases[] = {
        {"{'decoder_start_token_id':4,'forced_bos_token_id':9}", NULL, 2, 9},
        {"{'decoder_start_token_id':4}", NULL, 1, 4},
        {"{}", NULL, 1, 3},
        {"{'decoder_start_token_id':[4,5]}", "decoder_start_token_id: must be an integer", 0, 0},
        {"{'forced_bos_token_id':-2}", "forced_bos_token_id: must be an integer", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read r;
        EXPECT_INT(json_write(temp_path("generation_config.json"), cases[i].generation), 0);
        read_config(&r, &arch_t5, "'decoder_start_token_id':3,'forced_bos_token_id':7");
        const struct config *c = &r.m.config;
        if (cases[i].word)
            EXPECT(r.rc == ERR_FORMAT && strstr(r.e.text, cases[i].word));
        else
            EXPECT(r.rc == 0 && c->n_start == cases[i].n_start &&
                   c->start[c->n_start - 1] == cases[i].last);
        done(&r);
    }
}
