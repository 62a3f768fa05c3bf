/* hf_modules_test.c - goal: the modules of sentence-transformers become metadata and tensors, and
 * an unsupported mechanism is rejected by its field. Method: write small directories. */
#include "format.h"
#include "../../tests/safetensors_make.h"
#include "../../tests/unit.h"

#include <unistd.h>

/* Return the path of a file in the directory of these tests. */
static const char *path_of(const char *name)
{
    char own[80];
    snprintf(own, sizeof own, "modules/%s", name);
    return temp_path(own);
}

static void put(const char *name, const char *json)
{
    char own[80];
    snprintf(own, sizeof own, "modules/%s", name);
    EXPECT(temp_put(own, ""));
    EXPECT_INT(json_write(path_of(name), json), 0);
}

#define MODULE_OF(class, path, name) "{'type':'" class "','path':'" path "','name':'" name "'}"
#define MODULE(type, path)           MODULE_OF("sentence_transformers.models." type, path, path)
#define DENSE_CONFIG                                                                               \
    "'in_features':2,'out_features':3,'bias':false,"                                               \
    "'activation_function':'torch.nn.modules.linear.Identity'"

/* Write a directory with the modules Transformer, Pooling, Dense and Normalize. pooling, dense and
 * normalize: the fields of their configurations, in single quotes. */
static void put_modules(const char *pooling, const char *dense, const char *normalize)
{
    char text[400];
    put("config.json", "{'model_type':'bert'}");
    EXPECT_INT(safetensors_write(path_of("model.safetensors"),
                                 "{'x':{'dtype':'I8','shape':[1],'data_offsets':[0,1]}}", 1),
               0);
    put("modules.json", "[" MODULE("Transformer", "") "," MODULE("Pooling", "1_Pooling") "," MODULE(
                            "Dense", "2_Dense") "," MODULE("Normalize", "3_Normalize") "]");
    snprintf(text, sizeof text, "{%s%s}",
             strstr(pooling, "dimension") ? "" : "'embedding_dimension':4,", pooling);
    put("1_Pooling/config.json", text);
    snprintf(text, sizeof text, "{%s}", dense);
    put("2_Dense/config.json", text);
    EXPECT_INT(safetensors_write(
                   path_of("2_Dense/model.safetensors"),
                   "{'linear.weight':{'dtype':'F32','shape':[3,2],'data_offsets':[0,24]}}", 24),
               0);
    snprintf(text, sizeof text, "{%s}", normalize);
    put("3_Normalize/config.json", text);
}

static void expect_refused(const char *word)
{
    struct err e = {0};
    struct checkpoint *c = NULL;
    if (checkpoint_open(&c, path_of(""), &e) == 0)
        test_fail(__FILE__, __LINE__, "accepted, expected: %s", word);
    else if (!strstr(e.text, word))
        test_fail(__FILE__, __LINE__, "\"%s\" lacks: %s", e.text, word);
    checkpoint_close(c);
}

static void expect_text(const struct checkpoint *c, const char *key, const char *want)
{
    const char *text = meta_text(checkpoint_meta(c, key), NULL);
    EXPECT_TEXT(text ? text : "", want);
}

TEST(hf_modules_become_metadata)
{
    struct err e = {0};
    struct checkpoint *c;
    put_modules("'pooling_mode_mean_tokens':true",
                DENSE_CONFIG ",'module_input_name':'sentence_embedding','module_output_name':null",
                "");
    NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
    EXPECT_INT(meta_int(checkpoint_meta(c, "bert.pooling_type"), 0), 1);
    EXPECT_INT(meta_int(checkpoint_meta(c, "sentence_transformers.n_dense"), 0), 1);
    EXPECT_INT(meta_int(checkpoint_meta(c, "sentence_transformers.dense.0.out"), 0), 3);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "sentence_transformers.dense.0.activation"), NULL),
                "Identity");
    EXPECT_INT(meta_int(checkpoint_meta(c, "sentence_transformers.normalize"), 0), 1);
    EXPECT(checkpoint_tensor(c, "modules.0.linear.weight"));
    checkpoint_close(c);
}

TEST(hf_modules_that_are_not_computed_are_refused)
{
    static const char mean[] = "'pooling_mode':'mean'";
    put_modules("'pooling_mode':'median'", DENSE_CONFIG, "");
    expect_refused("1_Pooling/config.json: pooling_mode: must be 1 to 6 of cls");
    put_modules("'pooling_mode':'mean','layers':3", DENSE_CONFIG, "");
    expect_refused("1_Pooling/config.json: layers: not supported yet");
    put_modules(mean, DENSE_CONFIG ",'use_residual':true", "");
    expect_refused("2_Dense/config.json: use_residual");
    put_modules(mean, DENSE_CONFIG ",'module_input_name':'token_embeddings'", "");
    expect_refused("2_Dense/config.json: module_input_name");
    put_modules(mean, DENSE_CONFIG ",'module_output_name':['x']", "");
    expect_refused("2_Dense/config.json: module_output_name");
    put_modules(mean, DENSE_CONFIG, "'module_input_name':'token_embeddings'");
    expect_refused("3_Normalize/config.json: module_input_name");
    put_modules(mean, "'in_features':2,'out_features':0", "");
    expect_refused("out_features");
    put_modules(mean, "'in_features':2,'out_features':3,'bias':true", "");
    expect_refused("2_Dense/config.json: bias: is true, but");
    put_modules(mean, "'in_features':2,'out_features':3", "");
    expect_refused("2_Dense/config.json: bias: is true, but");
    put_modules(mean, "'in_features':2,'out_features':3,'bias':0", "");
    expect_refused("2_Dense/config.json: bias: must be true or false");
    put_modules(mean, "'in_features':2,'out_features':3,'bias':false,'activation_function':null",
                "");
    expect_refused("2_Dense/config.json: activation_function: must be a string");
    put_modules(mean, DENSE_CONFIG, "");
    EXPECT_INT(safetensors_write(path_of("2_Dense/model.safetensors"),
                                 "{'linear.weight':{'dtype':'F32','shape':[3,2],'data_offsets':[0,"
                                 "24]},'linear.bias':{'dtype':'F32','shape':[3],'data_offsets':[24,"
                                 "36]}}",
                                 36),
               0);
    expect_refused("2_Dense/config.json: bias: is false, but");
    unlink(path_of("2_Dense/model.safetensors"));
    put("2_Dense/pytorch_model.bin", "0");
    expect_refused("2_Dense/pytorch_model.bin: not supported: ");
    unlink(path_of("2_Dense/pytorch_model.bin"));
    unlink(path_of("config.json"));
    put("modules.json", "[" MODULE("Router", "") "]");
    expect_refused("modules.json: module sentence_transformers.models.Router: not supported yet");
    put("config.json", "{'model_type':'bert'}");
    put("modules.json", "[]");
    expect_refused("modules.json: must begin with a Transformer");
}

TEST(hf_modules_are_found_by_the_whole_names_of_their_classes)
{ /* goal: another class with the same last name is not taken for the class of the library */
    static const struct {
        const char *type, *pooling; /* pooling: the type of the second module */
        bool known;
    } cases[] = {{"sentence_transformers.models.Transformer.Transformer",
                  "sentence_transformers.models.Pooling.Pooling", true},
                 {"sentence_transformers.base.modules.transformer.Transformer",
                  "sentence_transformers.sentence_transformer.modules.pooling.Pooling", true},
                 {"sentence_transformers.base.modules.Transformer",
                  "sentence_transformers.sentence_transformer.modules.Pooling", true},
                 {"custom_st.Transformer", "sentence_transformers.models.Pooling", false},
                 {"sentence_transformers.models.Transformer", "my_pooling.Pooling", false},
                 {"sentence_transformers.models.Transformer", "Pooling", false},
                 {"sentence_transformers.models.Transformer",
                  "sentence_transformers.models.nonsense.Pooling", false}};
    struct err e = {0};
    struct checkpoint *c = NULL;
    char text[400];
    put_modules("'pooling_mode':'mean'", DENSE_CONFIG, "");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text,
                 "[" MODULE_OF("%s", "", "0") "," MODULE_OF("%s", "1_Pooling", "1") "]",
                 cases[i].type, cases[i].pooling);
        put("modules.json", text);
        NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
        const char *other =
            meta_text(checkpoint_meta(c, "sentence_transformers.unsupported"), NULL);
        const bool first = !strstr(cases[i].type, "sentence_transformers.");
        EXPECT_TEXT(other ? other : "", cases[i].known ? ""
                                        : first        ? cases[i].type
                                                       : cases[i].pooling);
        checkpoint_close(c);
    }
}

TEST(hf_modules_have_one_name_and_one_folder_each)
{ /* goal: paths are those of sentence-transformers, and no module replaces another */
    static const struct {
        const char *path, *name, *want; /* want: NULL if the module is read */
    } cases[] = {{".//1_Pooling", "1", NULL},
                 {"1_Pooling/", "1", NULL},
                 {"./1_Pooling/.", "1", NULL},
                 {"1_Pooling", "0", "modules.json: module 1: name: must be another one than that"},
                 {"../modules/1_Pooling", "1", "got \"sentence_transformers.models.Pooling\" and"},
                 {"..", "1", "module 1: expected the names of a type and of a folder"},
                 {"/1_Pooling", "1", "module 1: expected the names of a type and of a folder"}};
    struct err e = {0};
    struct checkpoint *c = NULL;
    char text[400];
    put_modules("'pooling_mode':'max'", DENSE_CONFIG, "");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text,
                 "[" MODULE_OF("sentence_transformers.models.Transformer", "", "0") "," MODULE_OF(
                     "sentence_transformers.models.Pooling", "%s", "%s") "]",
                 cases[i].path, cases[i].name);
        put("modules.json", text);
        if (cases[i].want) {
            expect_refused(cases[i].want);
            continue;
        }
        NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
        expect_text(c, "sentence_transformers.pooling", "max");
        checkpoint_close(c);
    }
    put("modules.json", "[{'type':'sentence_transformers.models.Transformer','path':''}]");
    expect_refused("module 0: name: must be a string");
}

TEST(hf_activations_are_classes_of_torch)
{ /* goal: a class that sentence-transformers does not load is not taken for the one of torch */
    static const struct {
        const char *name, *want;
        bool known;
    } cases[] = {{"torch.nn.modules.linear.Identity", "Identity", true},
                 {"torch.nn.modules.activation.Tanh", "Tanh", true},
                 {"torch.nn.GELU", "GELU", true},
                 {"torch.nn.modules.Identity", "Identity", true},
                 {"mylib.Identity", "", false},
                 {"Identity", "", false},
                 {"", "", false},
                 {"torch.bogus.Tanh", "", false},
                 {"torch.nn.modules.linear.Tanh", "", false},
                 {"torch.nn.modules.activation.Identity", "", false},
                 {"torch.Tanh", "", false},
                 {"torch.nn.quantized.ReLU", "", false}};
    struct err e = {0};
    struct checkpoint *c = NULL;
    char text[200];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text,
                 "'in_features':2,'out_features':3,'bias':false,'activation_function':'%s'",
                 cases[i].name);
        put_modules("'pooling_mode':'mean'", text, "");
        if (!cases[i].known) {
            expect_refused("2_Dense/config.json: activation_function: must be a class of torch.nn");
            continue;
        }
        NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
        expect_text(c, "sentence_transformers.dense.0.activation", cases[i].want);
        checkpoint_close(c);
    }
}

/* Goal: a Dropout has no effect, and modules after an unsupported one do not hide it. */
TEST(hf_modules_without_an_effect_and_at_other_places)
{
    struct err e;
    struct checkpoint *c;
    put_modules("'word_embedding_dimension':3", DENSE_CONFIG, "");
    put("config.json", "{'model_type':'bert','hidden_size':2}");
    put("modules.json", "[" MODULE("Transformer", "") "," MODULE("Dense", "2_Dense") "," MODULE(
                            "Pooling", "1_Pooling") "]");
    NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
    expect_text(c, "sentence_transformers.unsupported", "sentence_transformers.models.Dense");
    checkpoint_close(c);
    put("1_Pooling/config.json", "{'word_embedding_dimension':2}");
    put("modules.json", "[" MODULE("Transformer", "") "," MODULE("Pooling", "1_Pooling") "," MODULE(
                            "Dropout", "2_Dropout") "," MODULE("Dense", "2_Dense") "]");
    NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
    EXPECT(!checkpoint_meta(c, "sentence_transformers.unsupported"));
    EXPECT_INT(meta_int(checkpoint_meta(c, "sentence_transformers.n_dense"), 0), 1);
    checkpoint_close(c);
}

/* Goal: the model and its settings are in the folder of the first module, under each name of the
 * settings, and the first file with fields is used. */
TEST(hf_folders_of_older_sentence_transformers)
{
    struct err e;
    struct checkpoint *c;
    put_modules("", DENSE_CONFIG, "");
    put("0_Transformer/config.json", "{'model_type':'distilbert'}");
    unlink(path_of("model.safetensors"));
    EXPECT_INT(safetensors_write(path_of("0_Transformer/model.safetensors"),
                                 "{'x':{'dtype':'I8','shape':[1],'data_offsets':[0,1]}}", 1),
               0);
    put("modules.json", "[" MODULE("Transformer", "0_Transformer") "]");
    put("0_Transformer/sentence_xlnet_config.json", "{'max_seq_length':5}");
    put("0_Transformer/sentence_roberta_config.json", "{'max_seq_length':7}");
    put("0_Transformer/sentence_bert_config.json", "{}");
    NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "general.architecture"), NULL), "distilbert");
    EXPECT(checkpoint_tensor(c, "x") != NULL);
    EXPECT_INT(meta_int(checkpoint_meta(c, "sentence_transformers.max_seq_length"), 0), 7);
    checkpoint_close(c);
    unlink(path_of("0_Transformer/sentence_roberta_config.json"));
    NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
    EXPECT_INT(meta_int(checkpoint_meta(c, "sentence_transformers.max_seq_length"), 0), 5);
    checkpoint_close(c);
    put("modules.json", "[" MODULE("Transformer", "..") "]");
    expect_refused("module");
}

TEST(hf_modules_with_values_of_other_types_are_refused)
{ /* goal: a value of a wrong type is not taken for an absent one */
    static const char mean[] = "'pooling_mode':'mean'";
    static const struct {
        const char *fields, *want;
    } pooling[] =
        {{"'pooling_mode_mean_tokens':1", "pooling_mode_mean_tokens: must be true or false"},
         {"'pooling_mode_mean_tokens':true,'pooling_mode_cls_token':'true'",
          "pooling_mode_cls_token: must be true or false"},
         {"'pooling_mode':5,'pooling_mode_mean_tokens':true", "pooling_mode: must be a string"},
         {"'pooling_mode':'mean','include_prompt':0", "include_prompt: must be true or false"},
         {"'pooling_mode':null", "pooling_mode: must be a string, got null"},
         {"'pooling_mode':[]", "pooling_mode: must be 1 to 6 of cls"},
         {"'pooling_mode':'mean','embedding_dimension':'4'", "dimension: must be an integer"},
         {"'pooling_mode':'mean','word_embedding_dimension':5", "dimension: must be 4, the width"}},
      length[] = {{"'max_seq_length':'x'", "max_seq_length: must be an integer"},
                  {"'max_seq_length':-1", "max_seq_length: must be at least 1"},
                  {"'do_lower_case':1", "do_lower_case: must be true or false"}},
      prompt[] = {{"'prompts':129", "prompts: must be an object"},
                  {"'prompts':null", "prompts: must be an object, got null"},
                  {"'prompts':{'q':3}", "prompts: expected a string with a name"},
                  {"'default_prompt_name':5", "default_prompt_name: must be a string"},
                  {"'default_prompt_name':'q'", "default_prompt_name: must be a name in prompts"},
                  {"'prompts':{'p':'x'},'default_prompt_name':'q'", "must be a name in prompts"}};
    struct err e = {0};
    struct checkpoint *c = NULL;
    char text[200];
    for (size_t i = 0; i < sizeof pooling / sizeof pooling[0]; i++) {
        put_modules(pooling[i].fields, DENSE_CONFIG, "");
        put("config.json", "{'model_type':'bert','hidden_size':4}");
        expect_refused(pooling[i].want);
    }
    put_modules(mean, DENSE_CONFIG, "");
    put("1_Pooling/config.json", "{}");
    expect_refused("1_Pooling/config.json: embedding_dimension: is missing");
    put("1_Pooling/config.json", "{'word_embedding_dimension':4,'embedding_dimension':null}");
    expect_refused("1_Pooling/config.json: embedding_dimension: must be an integer, got null");
    put_modules(mean, DENSE_CONFIG ",'use_residual':1", "");
    expect_refused("use_residual: must be true or false");
    put_modules(mean, DENSE_CONFIG, "");
    for (size_t i = 0; i < sizeof length / sizeof length[0]; i++) {
        snprintf(text, sizeof text, "{%s}", length[i].fields);
        put("sentence_bert_config.json", text);
        expect_refused(length[i].want);
    }
    put("sentence_bert_config.json", "{'max_seq_length':null}");
    for (size_t i = 0; i < sizeof prompt / sizeof prompt[0]; i++) {
        snprintf(text, sizeof text, "{%s}", prompt[i].fields);
        put("config_sentence_transformers.json", text);
        expect_refused(prompt[i].want);
    }
    put("config_sentence_transformers.json", "{'prompts':{'q':'x'},'default_prompt_name':'q'}");
    NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
    checkpoint_close(c);
    unlink(path_of("sentence_bert_config.json"));
    unlink(path_of("config_sentence_transformers.json"));
}

TEST(hf_poolings_without_a_number_in_gguf_keep_their_names)
{
    static const struct {
        const char *fields, *want;
        int type;
    } pooling[] = {
        {"'pooling_mode':'max'", "max", -1},
        {"'pooling_mode':['cls','mean']", "cls+mean", -1},
        {"'pooling_mode':['lasttoken']", "", 3},
        {"'pooling_mode_mean_tokens':true,'pooling_mode_cls_token':true", "cls+mean", -1},
        {"'pooling_mode_weightedmean_tokens':true", "weightedmean", -1}};
    struct err e = {0};
    struct checkpoint *c = NULL;
    for (size_t i = 0; i < sizeof pooling / sizeof pooling[0]; i++) {
        put_modules(pooling[i].fields, DENSE_CONFIG, "");
        NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
        expect_text(c, "sentence_transformers.pooling", pooling[i].want);
        EXPECT_INT(meta_int(checkpoint_meta(c, "bert.pooling_type"), -1), pooling[i].type);
        checkpoint_close(c);
    }
    static const char *const without[] = {"false", "null"}; /* null is false in Python */
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        char fields[80];
        snprintf(fields, sizeof fields, "'pooling_mode':'mean','include_prompt':%s", without[i]);
        put_modules(fields, DENSE_CONFIG, "");
        NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
        EXPECT_INT(meta_int(checkpoint_meta(c, "sentence_transformers.include_prompt"), 1), 0);
        checkpoint_close(c);
    }
}

TEST(hf_settings_of_sentence_transformers_are_read_or_refused)
{ /* goal: no setting changes the results of sentence-transformers only */
    static const struct {
        const char *file, *fields, *want;
    } refused[] = {
        {"sentence_bert_config.json",
         "'modality_config':{'text':{'method':'forward','method_output_name':'last_hidden_state'},"
         "'message':{'format':'flat'}}",
         "modality_config.message: not supported yet"},
        {"sentence_bert_config.json", "'modality_config':{'text':{'method':'encode'}}",
         "modality_config.text: method: must be forward, got \"encode\""},
        {"sentence_bert_config.json", "'modality_config':{'image':{}}", "text is missing"},
        {"sentence_bert_config.json", "'modality_config':{}", "text is missing"},
        {"sentence_bert_config.json", "'modality_config':null",
         "modality_config: must be an object"},
        {"sentence_bert_config.json",
         "'modality_config':{'text':{'method':'forward','method_output_name':'logits'}}",
         "modality_config.text: method_output_name: must be last_hidden_state, got \"logits\""},
        {"sentence_bert_config.json", "'modality_config':{'text':{'method':'forward'}}",
         "modality_config.text: method_output_name: is missing"},
        {"sentence_bert_config.json",
         "'modality_config':{'text':{'method':'forward','method_output_name':'last_hidden_state'}}",
         "module_output_name: is missing"},
        {"sentence_bert_config.json", "'transformer_task':'fill-mask'",
         "transformer_task: must be feature-extraction, got \"fill-mask\""},
        {"sentence_bert_config.json", "'transformer_task':'sequence-classification'",
         "transformer_task: must be feature-extraction, got"},
        {"sentence_bert_config.json", "'transformer_task':null", "transformer_task: must be"},
        {"sentence_bert_config.json",
         "'modality_config':{'text':{'method':'forward','method_output_name':'last_hidden_state'}},"
         "'module_output_name':'scores'",
         "module_output_name: must be token_embeddings, got"},
        {"sentence_bert_config.json", "'processing_kwargs':{'text':{'max_length':4}}",
         "processing_kwargs: not supported yet"},
        {"sentence_bert_config.json", "'query_length':4", "query_length: not supported yet"},
        {"sentence_bert_config.json", "'config_args':{'num_hidden_layers':1}",
         "config_args: num_hidden_layers: not supported yet"},
        {"sentence_bert_config.json", "'tokenizer_args':{'do_lower_case':false}",
         "tokenizer_args: do_lower_case: not supported yet"},
        {"sentence_bert_config.json", "'config_kwargs':{'use_bidirectional_attention':null}",
         "config_kwargs: use_bidirectional_attention: not supported yet"},
        {"sentence_bert_config.json", "'processor_kwargs':{'bos_token':''}",
         "processor_kwargs: bos_token: not supported yet"},
        {"sentence_bert_config.json", "'model_kwargs':null", "model_kwargs: must be an object"},
        {"config_sentence_transformers.json", "'truncate_dim':0", "truncate_dim: must be at least"},
        {"config_sentence_transformers.json", "'model_type':'SparseEncoder'",
         "model_type: must be"},
        {"config_sentence_transformers.json", "'model_type':'CrossEncoder'",
         "model_type: must be SentenceTransformer, got \"CrossEncoder\""},
        {"config_sentence_transformers.json", "'model_type':null", "model_type: must be"},
        {"config_sentence_transformers.json", "'pooling':'x'", "pooling: not supported yet"},
    };
    struct err e = {0};
    struct checkpoint *c = NULL;
    char text[300];
    put_modules("'pooling_mode':'mean'", DENSE_CONFIG, "");
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        snprintf(text, sizeof text, "{%s}", refused[i].fields);
        put(refused[i].file, text);
        expect_refused(refused[i].want);
        unlink(path_of(refused[i].file));
    }
    put("config.json", "{'model_type':'bert','sentence_transformers':{'activation_fn':"
                       "'torch.nn.modules.activation.Sigmoid'}}");
    put("config_sentence_transformers.json",
        "{'truncate_dim':2,'activation_fn':'torch.nn.modules.linear.Identity',"
        "'model_type':'SentenceTransformer','similarity_fn_name':'dot','__version__':{'x':'1'}}");
    put("sentence_bert_config.json",
        "{'do_lower_case':true,'unpad_inputs':true,'query_length':null,"
        "'model_args':{'torch_dtype':'float16','use_cache':false},'config_args':{}}");
    put("tokenizer_config.json", "{'model_max_length':77}");
    NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
    expect_text(c, "sentence_transformers.activation_fn", "Identity");
    EXPECT_INT(meta_int(checkpoint_meta(c, "sentence_transformers.truncate_dim"), 0), 2);
    EXPECT_INT(meta_int(checkpoint_meta(c, "tokenizer.model_max_length"), 0), 77);
    EXPECT(checkpoint_meta(c, "sentence_transformers.idle.similarity_fn_name"));
    EXPECT(checkpoint_meta(c, "sentence_transformers.idle.unpad_inputs"));
    checkpoint_close(c);
    put("tokenizer_config.json", "{'model_max_length':1000000000000000019884624838656}");
    put("config_sentence_transformers.json", "{'activation_fn':'other.Sigmoid'}");
    NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
    EXPECT(!checkpoint_meta(c, "tokenizer.model_max_length"));
    expect_text(c, "sentence_transformers.activation_fn", "other.Sigmoid");
    checkpoint_close(c);
    unlink(path_of("config_sentence_transformers.json"));
    unlink(path_of("sentence_bert_config.json"));
    unlink(path_of("tokenizer_config.json"));
    put("config.json", "{'model_type':'bert','architectures':['BertForTokenClassification']}");
    expect_refused("architectures: the head of BertForTokenClassification");
}

TEST(hf_prompts_of_queries_and_documents_are_empty_without_a_text)
{ /* goal: as in sentence-transformers, null is an empty prompt, and two names need no prompt */
    struct err e = {0};
    struct checkpoint *c = NULL;
    size_t n = 1;
    put_modules("'pooling_mode':'mean'", DENSE_CONFIG, "");
    put("config_sentence_transformers.json",
        "{'prompts':{'q':null},'default_prompt_name':'document'}");
    NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
    EXPECT(meta_text(checkpoint_meta(c, "sentence_transformers.prompts.q"), &n) && n == 0);
    EXPECT(meta_text(checkpoint_meta(c, "sentence_transformers.prompts.document"), &n) && n == 0);
    expect_text(c, "sentence_transformers.default_prompt", "document");
    checkpoint_close(c);
    unlink(path_of("config_sentence_transformers.json"));
}

TEST(hf_classifiers_have_one_module)
{ /* goal: the settings of a CrossEncoder are accepted without a Pooling module */
    struct err e = {0};
    struct checkpoint *c = NULL;
    put_modules("'pooling_mode':'mean'", DENSE_CONFIG, "");
    put("modules.json", "[" MODULE("Transformer", "") "]");
    put("config_sentence_transformers.json", "{'model_type':'CrossEncoder'}");
    put("sentence_bert_config.json",
        "{'transformer_task':'sequence-classification','module_output_name':'scores',"
        "'modality_config':{'text':{'method':'forward','method_output_name':'logits'}}}");
    NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
    checkpoint_close(c);
    put("config_sentence_transformers.json", "{'model_type':'SparseEncoder'}");
    expect_refused(
        "model_type: must be CrossEncoder or SentenceTransformer, got \"SparseEncoder\"");
    unlink(path_of("config_sentence_transformers.json"));
    unlink(path_of("sentence_bert_config.json"));
}

TEST(hf_files_that_cannot_be_read_are_not_absent)
{ /* goal: a link to a lost file is an error with its path, because other results would be wrong */
    static const char *const name[] = {"modules.json",
                                       "sentence_bert_config.json",
                                       "config_sentence_transformers.json",
                                       "3_Normalize/config.json",
                                       "generation_config.json",
                                       "quanto_qmap.json",
                                       "tokenizer_config.json",
                                       "chat_template.jinja",
                                       "chat_template.json",
                                       "additional_chat_templates",
                                       "model.safetensors.index.json",
                                       "model.safetensors",
                                       "config.json"};
    struct err e = {0};
    struct checkpoint *c = NULL;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        char want[100];
        put_modules("'pooling_mode':'mean'", DENSE_CONFIG, "");
        NEED_OK(checkpoint_open(&c, path_of(""), &e), &e);
        checkpoint_close(c);
        unlink(path_of(name[i]));
        EXPECT_INT(symlink("../blobs/lost", path_of(name[i])), 0);
        snprintf(want, sizeof want, "%s: cannot open: No such file", name[i]);
        expect_refused(want);
        unlink(path_of(name[i]));
    }
}
