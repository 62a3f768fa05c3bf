/* Goal: the text part of a model of several parts has the fields of text_config and the head of the
 * whole. It has no part of the fields of images. */
#include "keys_rig_test.h"

#include "format/format.h"

#include <stdio.h>
#include <string.h>

/* Read a config.json of model_type `whole` whose text_config has model_type `text`; NULL if
 * none. */
static void read_parts(struct read *r, const struct arch *a, const char *whole, const char *text,
                       const char *inner, const char *outer)
{
    char json[1000];
    snprintf(json, sizeof json,
             "{'model_type':'%s','vision_config':{'hidden_size':8}%s%s,'text_config':{"
             "%s%s%s'num_hidden_layers':2%s%s}}",
             whole, *outer ? "," : "", outer, text ? "'model_type':'" : "", text ? text : "",
             text ? "'," : "", *inner ? "," : "", inner);
    read_json(r, a, json);
}

TEST(parts_select_the_architecture_of_their_text)
{
    static const struct {
        const char *whole, *text, *arch; /* arch: NULL if refused */
    } cases[] = {{"mistral3", NULL, "mistral"},
                 {"mistral3", "ministral3", "mistral3"},
                 {"llava", "qwen2", "qwen2"},
                 {"llava", "bert", NULL},
                 {"llava", "phi", NULL},
                 {"llava", "no_such_type", NULL},
                 {"qwen2_vl", "qwen2_vl", "qwen2vl"},
                 {"qwen2_5_vl", "qwen2_5_vl_text", "qwen2vl"},
                 {"qwen2_5_vl", "llama", NULL},
                 {"qwen3_vl", NULL, "qwen3vl"},
                 {"qwen3_vl_moe", NULL, "qwen3vlmoe"},
                 {"glm4v", NULL, "glm4v"},
                 {"glm46v", "glm4v_text", "glm4v"},
                 {"glm46v", "glm4v_moe_text", NULL},
                 {"granite4_vision", "granite4_vision_text", "granite"},
                 {"exaone4_5", "exaone4_5_text", "exaone4"},
                 {"gemma3", "gemma3_text", "gemma3"},
                 {"gemma3", "gemma4_text", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read r;
        const struct arch *a = cases[i].arch ? model_arch_find(cases[i].arch) : &arch_llama;
        read_parts(&r, a, cases[i].whole, cases[i].text, "", "");
        const char *got =
            r.c ? meta_text(checkpoint_meta(r.c, "general.architecture"), NULL) : NULL;
        if (cases[i].arch)
            EXPECT_TEXT(got ? got : r.e.text, cases[i].arch);
        else
            EXPECT(!got && strstr(r.e.text, "text_config.model_type"));
        read_done(&r);
    }
}

/* Goal: an unknown class of several parts is rejected with its name in the error, for every
 * class of its text part. */
TEST(parts_of_unknown_classes_are_refused)
{
    static const char *const text[] = {"'model_type':'llama'", "'model_type':'qwen2_vl_text'", ""};
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        struct read r;
        char json[300];
        snprintf(json, sizeof json, "{'model_type':'foo_vl','text_config':{%s}}", text[i]);
        read_json(&r, &arch_llama, json);
        NEED(r.c);
        EXPECT_INT(model_check_arch(r.c, &r.e), ERR_UNSUPPORTED);
        EXPECT(strstr(r.e.text, "\"foo_vl\" not found; available: aya_vision, ") &&
               strstr(r.e.text, "vipllava"));
        read_done(&r);
    }
    struct read r; /* a class of one part has no text_config */
    read_json(&r, &arch_llama, "{'model_type':'llama','text_config':{'model_type':'qwen2'}}");
    EXPECT(r.rc != 0 && strstr(r.e.text, "text_config: a model of several parts"));
    read_done(&r);
    read_json(&r, &arch_llama, "{'model_type':'foo','text_config':null}");
    EXPECT(r.c && model_check_arch(r.c, &r.e) == ERR_UNSUPPORTED && strstr(r.e.text, ", llama, "));
    read_done(&r);
}

/* Goal: is_causal at the top level must be true, because some classes of several parts read it
 * there: with false, transformers attends to later positions. */
TEST(parts_check_is_causal_of_the_top_level)
{
    for (int i = 0; i < 2; i++) {
        struct read r;
        char outer[40];
        snprintf(outer, sizeof outer, "'is_causal':%s", i ? "true" : "false");
        read_parts(&r, &arch_mistral, "mistral3", NULL, "'model_type':'mistral'", outer);
        if (i ? r.rc != 0 : r.rc == 0 || !strstr(r.e.text, "is_causal: must be 1, got false"))
            test_fail(__FILE__, __LINE__, "%s: %s", outer, r.rc ? r.e.text : "accepted");
        read_done(&r);
    }
}

TEST(parts_need_their_text)
{
    struct read r;
    read_json(&r, &arch_mistral, "{'model_type':'mistral3','hidden_size':64}");
    EXPECT(r.rc != 0 && strstr(r.e.text, "text_config is missing"));
    read_done(&r);
    read_json(&r, &arch_qwen2vl, "{'model_type':'qwen2_vl','text_config':null}");
    EXPECT(r.rc != 0 && strstr(r.e.text, "text_config: expected an object, got null"));
    read_done(&r);
    /* older files of these classes have the fields of the text part at the top level */
    read_json(&r, &arch_qwen2vl,
              "{'model_type':'qwen2_vl','hidden_size':2048,'num_attention_heads':16,"
              "'num_hidden_layers':2,'vocab_size':77,'image_token_id':3,'tie_word_embeddings':true,"
              "'rope_scaling':{'type':'mrope','mrope_section':[16,24,24]}}");
    NEED_OK(r.rc, &r.e);
    EXPECT(r.m.config.d == 2048 && r.m.config.n_vocab == 77 && r.m.config.tied);
    EXPECT(checkpoint_meta(r.c, "config.outer.image_token_id") != NULL);
    read_done(&r);
}

TEST(parts_tie_the_head_as_their_class)
{
    static const struct {
        const char *whole, *text, *inner, *outer;
        bool tied;
    } cases[] = {
        {"mistral3", "mistral", "", "", true},
        {"mistral3", "mistral", "'tie_word_embeddings':true", "'tie_word_embeddings':false", false},
        {"mistral3", "mistral", "'tie_word_embeddings':true", "'tie_word_embeddings':null", false},
        {"llava", "llama", "'tie_word_embeddings':true", "", true},
        {"llava", "llama", "'tie_word_embeddings':true", "'tie_word_embeddings':false", true},
        {"llava", "llama", "", "", false},
        {"llava", "gemma", "", "", true}, /* the default of its class */
        {"llava_next", "llama", "'tie_word_embeddings':true", "", false},
        {"perception_lm", "llama", "'tie_word_embeddings':true", "", true},
        {"perception_lm", "llama", "'tie_word_embeddings':true", "'tie_word_embeddings':false",
         false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read r;
        read_parts(&r, model_arch_find(cases[i].text), cases[i].whole, cases[i].text,
                   cases[i].inner, cases[i].outer);
        NEED_OK(r.rc, &r.e);
        if (r.m.config.tied != cases[i].tied)
            test_fail(__FILE__, __LINE__, "case %zu: tied is %d", i, r.m.config.tied);
        read_done(&r);
    }
}

TEST(parts_have_their_own_head)
{
    /* Goal: a factor or a cap of the logits counts only in the classes that compute it. */
    struct read r;
    read_parts(&r, &arch_granite, "llava_next", "granite", "'logits_scaling':8.0", "");
    NEED_OK(r.rc, &r.e);
    EXPECT(r.m.config.logit_scale == 1);
    read_done(&r);
    read_parts(&r, &arch_granite, "granite4_vision", NULL, "'logits_scaling':8.0", "");
    NEED_OK(r.rc, &r.e);
    EXPECT(r.m.config.logit_scale == 0.125f);
    read_done(&r);
    read_parts(&r, &arch_cohere2, "cohere2_vision", NULL, "'logit_scale':0.25", "");
    NEED_OK(r.rc, &r.e);
    EXPECT(r.m.config.logit_scale == 1);
    read_done(&r);
    read_parts(&r, &arch_gemma2, "paligemma", "gemma2", "'final_logit_softcapping':5.0", "");
    NEED_OK(r.rc, &r.e);
    EXPECT(r.m.config.logit_softcap == 5);
    read_done(&r);
    /* also of a text part whose own class has no cap; the default is that of its class */
    static const struct {
        const struct arch *arch;
        const char *text, *fields;
        float cap;
    } cases[] = {{&arch_gemma, "gemma", "'final_logit_softcapping':5.0", 5},
                 {&arch_gemma, "gemma", "", 0},
                 {&arch_gemma, "gemma", "'final_logit_softcapping':null", 0},
                 {&arch_gemma2, "gemma2", "", 30},
                 {&arch_gemma2, "gemma2", "'final_logit_softcapping':null", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_parts(&r, cases[i].arch, "paligemma", cases[i].text, cases[i].fields, "");
        NEED_OK(r.rc, &r.e);
        EXPECT(r.m.config.logit_softcap == cases[i].cap);
        read_done(&r);
    }
    read_parts(&r, &arch_gemma2, "llava", "gemma2", "'final_logit_softcapping':5.0", "");
    NEED_OK(r.rc, &r.e);
    EXPECT(r.m.config.logit_softcap == 0);
    read_done(&r);
    read_parts(&r, &arch_gemma, "llava", "gemma", "'use_bidirectional_attention':true", "");
    EXPECT(r.rc != 0 && strstr(r.e.text, "use_bidirectional_attention"));
    read_done(&r);
    read_parts(&r, &arch_gemma, "paligemma", "gemma", "'use_bidirectional_attention':true", "");
    NEED_OK(r.rc, &r.e);
    read_done(&r);
}

TEST(parts_have_tokens_that_become_padding)
{
    static const struct {
        const char *whole, *text, *inner, *outer, *word; /* word: NULL if accepted */
        int n, first, pad;
    } cases[] = {
        {"gemma4", "gemma4_text", "", "", NULL, 3, 258880, 0},
        {"gemma4", "gemma4_text", "'pad_token_id':4", "'image_token_id':9", NULL, 3, 9, 4},
        {"gemma4", "gemma4_text", "", "'image_token_id':null,'video_token_id':-1", NULL, 2, 258881,
         0},
        {"gemma4", "gemma4_text", "'pad_token_id':null", "", "pad_token_id: must be an integer", 0,
         0, 0},
        {"gemma4", "gemma4_text", "'pad_token_id':12,'vocab_size':12", "", "must be in [0, 12)", 0,
         0, 0},
        {"gemma4", "gemma4_text", "", "'image_token_id':'a'", "image_token_id: must be", 0, 0, 0},
        {"llava", "llama", "'pad_token_id':null", "'image_token_id':9", NULL, 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read r;
        const struct arch *a = strcmp(cases[i].text, "llama") == 0 ? &arch_llama : &arch_gemma4;
        read_parts(&r, a, cases[i].whole, cases[i].text, cases[i].inner, cases[i].outer);
        const struct config *c = &r.m.config;
        if (cases[i].word ? r.rc == 0 || !strstr(r.e.text, cases[i].word)
                          : r.rc != 0 || c->n_padded != cases[i].n || c->pad != cases[i].pad ||
                                (c->n_padded > 0 && c->padded[0] != cases[i].first))
            test_fail(__FILE__, __LINE__, "case %zu: %d tokens: %s", i, c->n_padded,
                      r.rc != 0 ? r.e.text : "accepted");
        read_done(&r);
    }
}

/* Goal: ids of other parts have the range and the sizes of the objects of these parts, or of the
 * class. */
TEST(parts_have_ids_with_embeddings_of_their_own)
{
    static const struct {
        const char *vocab, *outer, *word; /* word: part of the error; NULL if none */
        int first[2], end[2], n_row[2], d[2];
    } cases[] = {
        {"262400", "", NULL, {262144, 262272}, {262272, 262400}, {128, 128}, {8, 1536}},
        {"262280",
         "'audio_config':{'vocab_size':8,'hidden_size':40}",
         NULL,
         {262144, 262272},
         {262272, 262280},
         {128, 8},
         {8, 40}},
        {"50",
         "'audio_config':{'vocab_offset':40,'vocab_size':10}",
         NULL,
         {262144, 40},
         {40, 50},
         {128, 10},
         {8, 1536}},
        {"262401", "", "audio_config.vocab_size: must be at least the 129 ids", {0}, {0}, {0}, {0}},
        {"262400",
         "'audio_config':{'vocab_offset':262273}",
         "vision_config.vocab_size: must be at least the 129 ids",
         {0},
         {0},
         {0},
         {0}},
        {"262400",
         "'audio_config':{'vocab_offset':-1}",
         "audio_config.vocab_offset: must be in",
         {0},
         {0},
         {0},
         {0}},
        {"262400",
         "'audio_config':{'hidden_size':0}",
         "audio_config.hidden_size: must be in",
         {0},
         {0},
         {0},
         {0}},
        {"262400",
         "'audio_config':{'vocab_size':'a'}",
         "audio_config.vocab_size: must be",
         {0},
         {0},
         {0},
         {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read r;
        char inner[80];
        snprintf(inner, sizeof inner, "'num_kv_shared_layers':0,'vocab_size':%s", cases[i].vocab);
        read_parts(&r, &arch_gemma3n, "gemma3n", NULL, inner, cases[i].outer);
        const struct config *c = &r.m.config;
        bool same = r.rc == 0 && c->n_other == 2;
        for (int k = 0; k < 2 && same; k++)
            same = c->other[k].first == cases[i].first[k] && c->other[k].end == cases[i].end[k] &&
                   c->other[k].n_row == cases[i].n_row[k] && c->other[k].d == cases[i].d[k] &&
                   c->other[k].eps == 1e-6f;
        if (cases[i].word ? r.rc == 0 || !strstr(r.e.text, cases[i].word) : !same)
            test_fail(__FILE__, __LINE__, "case %zu: %d parts with ids: %s", i, c->n_other,
                      r.rc != 0 ? r.e.text : "accepted");
        read_done(&r);
    }
}

/* Goal: the positions of PaliGemma begin at 1, so a rope must depend on distances only. */
TEST(parts_check_ropes_of_other_positions)
{
    static const struct {
        const char *rope, *word; /* word: NULL if accepted */
    } cases[] = {{"'rope_type':'linear','factor':2.0", NULL},
                 {"'rope_type':'dynamic','factor':2.0", "rope_type: must not depend"},
                 {"'rope_type':'longrope','factor':2.0,'original_max_position_embeddings':64,"
                  "'short_factor':[1.0,1.0],'long_factor':[2.0,2.0]",
                  "rope_type: must not depend"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read r;
        char inner[300];
        snprintf(inner, sizeof inner, "'head_dim':4,'rope_parameters':{'rope_theta':1000.0,%s}",
                 cases[i].rope);
        read_parts(&r, &arch_gemma, "paligemma", "gemma", inner, "");
        if (!cases[i].word)
            NEED_OK(r.rc, &r.e);
        else
            EXPECT(r.rc != 0 && strstr(r.e.text, cases[i].word));
        read_done(&r);
    }
    struct read r;
    read_parts(&r, &arch_mistral3, "paligemma", "ministral3", "", "");
    EXPECT(r.rc != 0 && strstr(r.e.text, "llama_4_scaling_beta"));
    read_done(&r);
}

TEST(parts_check_the_sections_of_a_rope)
{
    static const struct {
        const char *section, *word; /* word: NULL if accepted */
    } cases[] = {{"[16,24,24]", NULL},
                 {"[64,0,0]", NULL},
                 {"[16,24,23]", "mrope_section: must have the 64 rotated pairs"},
                 {"[16,24]", "mrope_section: must be a list of 3 integers, got a list of 2"},
                 {"[16,24,24,1]", "mrope_section: must have no fourth section"},
                 {"[80,-8,-8]", "mrope_section: must be a list of integers of at least 0"},
                 {"'all'", "mrope_section: must be a list of 3 integers"},
                 {"null", "mrope_section: must be a list of 3 integers, got null"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char fields[100];
        snprintf(fields, sizeof fields, "'rope_parameters':{'mrope_section':%s}", cases[i].section);
        expect_config(&arch_qwen2vl, fields, cases[i].word);
    }
    expect_config(&arch_qwen3vl, "'rope_parameters':{'mrope_section':[24,20,20]}", NULL);
    expect_config(&arch_qwen3vl, "'head_dim':16", NULL); /* without a list */
    expect_config(&arch_qwen3vl, "'rope_parameters':{'mrope_section':[24,20,90]}",
                  "at most the 64");
    expect_config(&arch_glm4v,
                  "'rope_parameters':{'partial_rotary_factor':0.5,"
                  "'mrope_section':[8,12,12]}",
                  NULL);
    expect_config(&arch_glm4v, "'rope_parameters':{'mrope_section':[8,12,12]}",
                  "mrope_section: must have the 64 rotated pairs");
    expect_config(&arch_glm4v, "'head_dim':64", "head_dim: must be hidden_size / num_attention");
}
