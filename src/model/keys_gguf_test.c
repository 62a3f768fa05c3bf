/* keys_gguf_test.c - goal: no key of a GGUF changes results without an error. Method: read files
 * with only metadata. Every declared key gets impossible values. */
#include "keys_rig_test.h"

#include <stdio.h>
#include <string.h>

TEST(gguf_files_of_some_architectures_are_refused)
{
    int n = 0;
    for (int i = 0; i < N_ARCH; i++) {
        struct read r;
        if (!all_arches[i]->gguf_why) continue;
        n++;
        read_gguf(&r, all_arches[i], (struct pair[2]){{NULL, 0}});
        EXPECT_INT(r.rc, ERR_UNSUPPORTED);
        EXPECT(strstr(r.e.text, all_arches[i]->name) && strstr(r.e.text, all_arches[i]->gguf_why));
        read_done(&r);
    }
    EXPECT(n >= 1);
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
        if (!has_gguf(all_arches[i])) continue;
        read_gguf(&r, all_arches[i], (struct pair[2]){{"rope.dimension_count", 8}});
        const bool part = all_arches[i]->partial_rope ||
                          declares(all_arches[i]->gguf_key, "rope.dimension_count");
        EXPECT(part ? r.rc == 0 && r.m.config.rope[ROPE_MAIN].d_rot == 8
               : all_arches[i]->no_rope
                   /* files of nemotron_h have the key */
                   ? (r.rc != 0) == (all_arches[i] != &arch_nemotron_h)
                   : r.rc != 0 && strstr(r.e.text, "dimension_count: must be 16"));
        read_done(&r);
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
    read_done(&r);
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

/* Goal: sizes of Mamba-2 and limits of its time steps that cannot be right are refused by name. */
TEST(gguf_sizes_of_mamba_2)
{
    static const struct arch *const all[] = {&arch_mamba2, &arch_granitehybrid, &arch_nemotron_h,
                                             &arch_falcon_h1};
    static const struct pair none = {0};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        expect_pairs(all[i], (struct pair){"ssm.inner_size", 63}, none, "ssm.time_step_rank: must");
        expect_pairs(all[i], (struct pair){"ssm.group_count", 3}, none, "must be a multiple of 3");
        expect_pairs(all[i], (struct pair){"ssm.time_step_min", -1}, none, "must be at least 0");
        expect_pairs(all[i], (struct pair){"ssm.time_step_min", 2},
                     (struct pair){"ssm.time_step_max", 1}, "ssm.time_step_max: must be 0 or at");
        expect_pairs(all[i], (struct pair){"ssm.time_step_min", 1},
                     (struct pair){"ssm.time_step_max", 1}, NULL);
    }
    expect_pairs(&arch_granitehybrid, (struct pair){"rope.scaling.finetuned", 1}, none,
                 "rope.scaling.finetuned: must be true or false");
    expect_pairs(&arch_granite, (struct pair){"ssm.inner_size", 63}, none, NULL);
    expect_pairs(&arch_nemotron_h, (struct pair){"feed_forward_length", 96},
                 (struct pair){"attention.head_count_kv", 2},
                 "feed_forward_length: must be 0 in layer 0 with KV heads, got 96");
    expect_pairs(&arch_nemotron_h, (struct pair){"expert_count", 8}, none,
                 "nemotron_h.expert_feed_forward_length: is missing");
}

/* Goal: sizes of Kimi Linear that cannot be right are refused by name. */
TEST(gguf_sizes_of_kimi_linear)
{
    static const struct pair none = {0};
    const struct arch *a = &arch_kimi_linear;
    expect_pairs(a, (struct pair){"kda.head_dim", 0}, none, "kda.head_dim: must be in [1, ");
    expect_pairs(a, (struct pair){"ssm.conv_kernel", 1}, none, "ssm.conv_kernel: must be in [2, ");
    expect_pairs(a, (struct pair){"expert_gating_func", 1}, none, "expert_gating_func: must be 2");
    expect_pairs(a, (struct pair){"expert_group_count", 3}, none, "a divisor of 8 experts");
    expect_pairs(a, (struct pair){"attention.latent_norm_rms_epsilon", -1}, none,
                 "latent_norm_rms_epsilon: must be at least 0");
    read_left_out = "expert_gating_func";
    expect_pairs(a, none, none, "expert_gating_func: is missing");
    read_left_out = NULL;
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
        read_left_out = "attention.causal";
        expect_pairs(encoder[i], none, none, "attention.causal: is missing");
        read_left_out = NULL;
        expect_pairs(encoder[i], none, none, NULL);
    }
    read_left_out = "attention.max_alibi_bias";
    expect_pairs(&arch_mpt, none, none, "attention.max_alibi_bias: must be in (0, 64], got 0");
    read_left_out = NULL;
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
    read_done(&r);
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
        read_done(&r);
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
        if (!has_gguf(all_arches[i])) continue;
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
            expect_gguf_text(all_arches[i], "hidden_activation", cases[k].name,
                             all_arches[i]->gguf_curve || (all_arches[i]->curve == cases[k].curve &&
                                                           !all_arches[i]->own_curve));
        const char *own = all_arches[i]->own_curve;
        expect_gguf_text(all_arches[i], "hidden_activation", own ? own : "xielu", own != NULL);
        n_read += all_arches[i]->gguf_curve;
    }
    EXPECT_INT(n_read, 1);
    struct read r;
    read_gguf_text(&r, &arch_modernbert, (struct pair[2]){{"hidden_activation", 0}}, "silu");
    EXPECT(r.rc == 0 && r.m.config.curve == CURVE_silu);
    read_done(&r);
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
    read_done(&r);
    read_gguf(&r, &arch_gemma3,
              (struct pair[2]){{"rope.scaling.factor", 4}, {"rope.scaling.attn_factor", 0.5}});
    NEED_OK(r.rc, &r.e);
    EXPECT(r.m.config.rope[ROPE_MAIN].magnitude == 0.5 &&
           r.m.config.rope[ROPE_LOCAL].magnitude == 0.5 &&
           r.m.config.rope[ROPE_LOCAL].scaling == ROPE_NONE);
    read_done(&r);
    read_gguf(&r, &arch_qwen3, (struct pair[2]){{"rope.scale_linear", 2}});
    NEED_OK(r.rc, &r.e);
    EXPECT(r.m.config.rope[ROPE_MAIN].factor == 2 && r.m.config.rope[ROPE_MAIN].magnitude == 1);
    read_done(&r);
    read_gguf(&r, &arch_llama, (struct pair[2]){{"attention.sliding_window", 16}});
    EXPECT(r.rc == 0 && r.m.config.layer[0].window == 16);
    read_done(&r);
    read_gguf(&r, &arch_qwen2, (struct pair[2]){{"attention.sliding_window", 16}});
    EXPECT(r.rc != 0 && strstr(r.e.text, "sliding_window: must be 0, got 16"));
    read_done(&r);
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
        read_changes = &cases[i].ch;
        read_gguf(&r, &arch_qwen3, cases[i].keys);
        read_changes = NULL;
        NEED_OK(r.rc, &r.e);
        const struct rope_config *p = &r.m.config.rope[ROPE_MAIN];
        if (p->scaling != cases[i].scaling || p->base != cases[i].base ||
            p->factor != cases[i].factor || fabs(p->magnitude - cases[i].magnitude) > 1e-6 ||
            r.m.config.context_train != cases[i].context)
            test_fail(__FILE__, __LINE__, "case %zu: scaling %d base %g factor %g magnitude %g", i,
                      (int)p->scaling, p->base, p->factor, p->magnitude);
        EXPECT(!p->ramp_forward || cases[i].ch.rope_theta > 0);
        read_done(&r);
    }
    static const struct checkpoint_changes adds = {.rope = "{'rope_type':'yarn','factor':8}",
                                                   .rope_adds = true},
                                           config = {.config = "{'vocab_size':7}"};
    const struct pair yarn[2] = {{"rope.scaling.type", 0},
                                 {"rope.scaling.original_context_length", 64}},
                      own[2] = {{"rope.scaling.type", 0}, {"rope.scaling.attn_factor", 2}};
    read_changes = &adds;
    read_gguf_text(&r, &arch_qwen3, yarn, "yarn");
    EXPECT(r.rc == 0 && r.m.config.rope[ROPE_MAIN].context_original == 64 &&
           r.m.config.rope[ROPE_MAIN].factor == 8 && r.m.config.context_train == 512);
    read_done(&r);
    read_gguf_text(&r, &arch_qwen3, own, "yarn");
    EXPECT(r.rc != 0 && strstr(r.e.text, "--rope-scaling: must not come with the key qwen3.rope"));
    read_done(&r);
    read_changes = &config;
    read_gguf(&r, &arch_qwen3, none);
    EXPECT(r.rc != 0 && strstr(r.e.text, "--hf-overrides: requires a model with a config.json"));
    read_done(&r);
    read_changes = NULL;
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
    read_done(&r);
    read_gguf(&r, &arch_exaone4,
              (struct pair[2]){{"block_count", 64}, {"attention.sliding_window", 16}});
    EXPECT(r.rc == 0 && r.m.config.layer[62].window == 16 && r.m.config.layer[63].window == 0);
    read_done(&r);
    read_gguf(&r, &arch_exaone4, (struct pair[2]){{"attention.sliding_window", 16}});
    EXPECT(r.rc != 0 && strstr(r.e.text, "sliding_window: must be 0"));
    read_done(&r);
    read_gguf(&r, &arch_exaone4, (struct pair[2]){{"attention.sliding_window", 0}});
    EXPECT(r.rc == 0 && r.m.config.layer[1].window == 0 && r.m.config.layer[1].rope == ROPE_MAIN);
    read_done(&r);
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
        read_done(&r);
    }
}

/* Goal: a wrong interval of windows is an error, not a division by 0. gemma4 has a list. */
TEST(gguf_intervals_are_refused_by_name)
{
    static const char key[] = "attention.sliding_window_pattern";
    for (int i = 0; i < N_ARCH; i++) {
        if (!declares(all_arches[i]->gguf_key, key) || all_arches[i] == &arch_gemma4) continue;
        for (double v = -1; v <= 0.5; v += 0.5)
            expect_pairs(all_arches[i], (struct pair){key, v}, (struct pair){0},
                         "_pattern: must be ");
        expect_gguf_text(all_arches[i], key, "x", false);
        const bool lists = all_arches[i] == &arch_olmo2 || all_arches[i] == &arch_exaone4 ||
                           all_arches[i] == &arch_gemma3n;
        if (!lists) expect_gguf_text(all_arches[i], key, "[11", false);
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
        read_done(&r);
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
        for (const struct config_key *k = all_arches[i]->gguf_key; k && k->key; k++)
            read_any_value(all_arches[i], k->key);
}
