/* peft_test.c - goal: ranks, scales and targets are those of PEFT, and each key that PEFT treats
 * otherwise is rejected by name. Method: texts of adapter_config.json, and the names of modules. */
#include "../../tests/safetensors_make.h"
#include "../../tests/unit.h"

#include "adapter_impl.h"

#include <math.h>
#include <stdlib.h>

#define Q(layer)    "model.layers." #layer ".self_attn.q_proj"
#define DOWN(layer) "model.layers." #layer ".mlp.down_proj"

/* Open an adapter_config.json with further fields, written with ' instead of ". */
static int open_with(struct peft *p, const char *fields, struct err *e)
{
    char text[1000];
    snprintf(text, sizeof text, "{'peft_type':'LORA','r':4,'lora_alpha':8%s%s}", *fields ? "," : "",
             fields);
    *p = (struct peft){0};
    if (json_write(temp_path("adapter_config.json"), text) != 0)
        return err_set(e, ERR_IO, "cannot write a file");
    return peft_open(p, temp_path("adapter_config.json"), e);
}

/* Expect an error with `word`; NULL: no error. */
static void expect_error(const char *what, int rc, const struct err *e, const char *word)
{
    if ((rc == 0) != !word || (word && !strstr(e->text, word)))
        test_fail(__FILE__, __LINE__, "%s: %d \"%s\", expected \"%s\"", what, rc, e->text,
                  word ? word : "");
}

TEST(keys_of_adapters_are_used_or_refused_by_name)
{
    static const struct {
        const char *fields, *word;
    } cases[] = {
        {"", NULL},
        {"'use_dora':null,'unknown':null,'lora_dropout':0.1", NULL},
        {"'unknown':0", "unknown: not supported yet"},
        {"'use_dora':true", "use_dora: not supported yet (DoRA)"},
        {"'use_rslora':1", "use_rslora: expected true or false"},
        {"'lora_bias':true", "lora_bias"},
        {"'bias':'lora_only'", "bias"},
        {"'modules_to_save':['lm_head']", "modules_to_save"},
        {"'modules_to_save':[]", NULL},
        {"'init_lora_weights':'pissa'", "init_lora_weights"},
        {"'init_lora_weights':' '", "init_lora_weights"},
        {"'init_lora_weights':'eva'", NULL},
        {"'layer_replication':[[0,2]]", "layer_replication"},
        {"'trainable_token_indices':{'a':[1]}", "trainable_token_indices"},
        {"'kasa_config':{}", "kasa_config"},
        {"'r':0", "r: must be in [1"},
        {"'r':4.0", "r: expected an integer"},
        {"'r':true", "r: expected an integer"},
        {"'r':9223372036854775808", "r: "},
        {"'lora_alpha':'8'", "lora_alpha: expected a number"},
        {"'rank_pattern':[1]", "rank_pattern: expected an object"},
        {"'target_modules':7", "target_modules: expected a list or a string"},
        {"'target_modules':['q_proj',7]", "target_modules: expected a list of strings"},
        {"'exclude_modules':{}", "exclude_modules: expected a list or a string"},
        {"'layers_to_transform':'0'", "layers_to_transform: expected an integer or a list"},
        {"'layers_to_transform':[0,'1']", "layers_to_transform: expected a list of integers"},
        {"'layers_to_transform':[0],'target_modules':'all-linear'",
         "target_modules: expected a list with layers_to_transform, got a string"},
        {"'layers_to_transform':[],'target_modules':'all-linear'", NULL},
        {"'layers_pattern':'h'", "layers_pattern: not supported yet"},
        {"'layers_pattern':['layers']", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct peft p;
        struct err e = {0};
        const int rc = open_with(&p, cases[i].fields, &e);
        expect_error(cases[i].fields, rc, &e, cases[i].word);
        peft_close(&p);
    }
}

/* The first pattern that matches the end of the name is used. Plain names and regular expressions
 * give the same result. */
TEST(ranks_and_scales_are_those_of_the_patterns)
{
    static const struct {
        const char *fields, *module, *word;
        int64_t rank;
        float scale;
    } cases[] = {
        {"", Q(0), NULL, 4, 2},
        {"'use_rslora':true", Q(0), NULL, 4, 4},
        {"'lora_alpha':0", Q(0), NULL, 4, 0},
        {"'lora_alpha':-8", Q(0), NULL, 4, -2},
        {"'rank_pattern':{'q_proj':8}", Q(0), NULL, 8, 1},
        {"'rank_pattern':{'_proj':8}", Q(0), NULL, 4, 2},
        {"'rank_pattern':{'q.proj':8}", Q(0), NULL, 8, 1},
        {"'rank_pattern':{'q.proj$':8}", Q(0), NULL, 8, 1},
        {"'rank_pattern':{'^q_proj':8}", Q(0), NULL, 4, 2},
        {"'rank_pattern':{'^" Q(0) "':8}", Q(0), NULL, 8, 1},
        {"'rank_pattern':{'" Q(1) "':8,'q_proj':16}", Q(1), NULL, 8, 1},
        {"'rank_pattern':{'layers.1\\\\..*q_proj':8}", Q(11), NULL, 4, 2},
        {"'rank_pattern':{'layers.1.*q_proj':8}", Q(11), NULL, 8, 1},
        {"'rank_pattern':{'[qk]_proj':8,'q_proj':16}", Q(0), NULL, 8, 1},
        {"'alpha_pattern':{'(q|k)_proj':16}", Q(0), NULL, 4, 4},
        {"'alpha_pattern':{'q_proj':16},'rank_pattern':{'q_proj':2}", Q(0), NULL, 2, 8},
        {"'rank_pattern':{'q_proj':0}", Q(0), "rank_pattern: must be in [1", 0, 0},
        {"'rank_pattern':{'q_proj':'8'}", Q(0), "rank_pattern: expected an integer", 0, 0},
        {"'rank_pattern':{'(q_proj':8}", Q(0), "must be a regular expression", 0, 0},
        {"'rank_pattern':{'(([a-z._0-9])*)*(([a-z._0-9])*)*[!?]':8}", Q(0), "quick to match", 0, 0},
        {"'lora_alpha':1e300", Q(0), "lora_alpha: must give a finite scale", 0, 0},
        {"'alpha_pattern':{'q_proj':-1e300}", Q(0), "alpha_pattern: must give a finite", 0, 0},
        {"'alpha_pattern':{'q_proj':[]}", Q(0), "alpha_pattern: expected a number", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct peft p;
        struct err e = {0};
        int64_t rank = 0;
        float scale = 0;
        int rc = open_with(&p, cases[i].fields, &e);
        if (rc == 0) rc = peft_module(&p, cases[i].module, &rank, &scale, &e);
        expect_error(cases[i].fields, rc, &e, cases[i].word);
        if (rc == 0 && (rank != cases[i].rank || scale != cases[i].scale))
            test_fail(__FILE__, __LINE__, "%s: rank %lld, scale %g", cases[i].fields,
                      (long long)rank, (double)scale);
        peft_close(&p);
    }
}

/* Goal: a module with tensors that PEFT would not load is rejected with the key. */
TEST(modules_with_tensors_are_targets)
{
    static const struct {
        const char *fields, *module, *word;
    } cases[] = {
        {"", Q(0), NULL},
        {"'target_modules':'all-linear'", Q(0), NULL},
        {"'target_modules':'All-Linear'", Q(0), NULL},
        {"'target_modules':['q_proj']", Q(0), NULL},
        {"'target_modules':['proj']", Q(0),
         "target_modules: must match all modules with tensors, got no match of " Q(0)},
        {"'target_modules':[]", Q(0), "target_modules: must match all modules with tensors"},
        {"'target_modules':['']", Q(0), "target_modules: must match all modules with tensors"},
        {"'target_modules':['q.proj']", Q(0),
         "target_modules: must match all modules with tensors"},
        {"'target_modules':'.*q_proj'", Q(0), NULL},
        {"'target_modules':'q_proj'", Q(0), "target_modules: must match all modules with tensors"},
        {"'exclude_modules':['down_proj']", Q(0), NULL},
        {"'exclude_modules':['down_proj']", DOWN(0),
         "exclude_modules: must not match a module with tensors, got a match of " DOWN(0)},
        {"'exclude_modules':'.*layers.0.*'", DOWN(0), "exclude_modules: must not match a module"},
        {"'exclude_modules':''", DOWN(0), NULL},
        {"'target_modules':['q_proj'],'layers_to_transform':1", Q(1), NULL},
        {"'target_modules':['q_proj'],'layers_to_transform':1", Q(0),
         "layers_to_transform: must have all layers with tensors, got none with 0"},
        {"'target_modules':['q_proj'],'layers_to_transform':[0,11]", Q(11), NULL},
        {"'target_modules':['q_proj'],'layers_to_transform':[0,11]", Q(1),
         "layers_to_transform: must have all layers with tensors, got none with 1"},
        /* PEFT compares layers only if the list has the end of the name, not the name */
        {"'target_modules':['" Q(1) "'],'layers_to_transform':[0]", Q(1), NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct peft p;
        struct err e = {0};
        int target[1] = {0};
        int rc = open_with(&p, cases[i].fields, &e);
        if (rc == 0) rc = peft_is_target(&p, cases[i].module, target, &e);
        expect_error(cases[i].fields, rc, &e, cases[i].word);
        EXPECT(rc != 0 || target[0] == (peft_n_target(&p) == 1));
        peft_close(&p);
    }
}

/* Goal: the time of a hostile list of patterns is limited, and a name for each module is not. */
TEST(regular_expressions_of_an_adapter_are_limited)
{
    for (int plain = 0; plain < 2; plain++) {
        struct buf b = {0};
        struct peft p = {0};
        struct err e = {0};
        int64_t rank;
        float scale;
        buf_addf(&b, "{\"peft_type\":\"LORA\",\"rank_pattern\":{\"a\":1");
        for (int i = 0; i < 5000; i++)
            buf_addf(&b, ",\"layers.%d.q_proj%s\":%d", i, plain ? "" : "|x", 1 + i);
        buf_addf(&b, "}}");
        NEED_OK(file_write(temp_path("adapter_config.json"), b.data, b.n, &e), &e);
        buf_deinit(&b);
        int rc = peft_open(&p, temp_path("adapter_config.json"), &e);
        expect_error("many patterns", rc, &e,
                     plain ? NULL : "rank_pattern: must have at most 256 regular expressions");
        if (rc == 0) rc = peft_module(&p, "model.layers.4321.q_proj", &rank, &scale, &e);
        if (rc == 0) EXPECT_INT(rank, 4322);
        peft_close(&p);
    }
}
