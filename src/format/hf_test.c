/* hf_test.c - tests of Hugging Face directories: names, configuration, chat templates, shards. Each
 * directory is the temporary folder of the test harness. */
#include "format.h"
#include "format_impl.h"
#include "base/buf.h"
#include "base/log.h"
#include "../../tests/safetensors_make.h"
#include "../../tests/unit.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MINIMAL[] = "{'model_type':'llama'}";
static const char EMPTY_WEIGHTS[] = "{'x':{'dtype':'I8','shape':[1],'data_offsets':[0,1]}}";

static void put_json(const char *name, const char *text)
{
    EXPECT_INT(json_write(temp_path(name), text), 0);
}

static void put_weights(const char *name, const char *header, size_t n_data)
{
    EXPECT_INT(safetensors_write(temp_path(name), header, n_data), 0);
}

static void begin(const char *config)
{
    static const char *const name[] = {"config.json",
                                       "generation_config.json",
                                       "tokenizer_config.json",
                                       "chat_template.jinja",
                                       "chat_template.json",
                                       "model.safetensors",
                                       "model.safetensors.index.json",
                                       "one.safetensors",
                                       "adapter.safetensors"};
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) unlink(temp_path(name[i]));
    put_json("config.json", config);
    put_weights("model.safetensors", EMPTY_WEIGHTS, 1);
}

static struct checkpoint *open_dir(struct err *e)
{
    struct checkpoint *c;
    return checkpoint_open(&c, temp_path(""), e) == 0 ? c : NULL;
}

static void expect_refused(const char *want)
{
    struct err e = {0};
    struct checkpoint *c = open_dir(&e);
    if (c)
        test_fail(__FILE__, __LINE__, "accepted, expected: %s", want);
    else if (!strstr(e.text, want) || !strstr(e.text, "/tmp/"))
        test_fail(__FILE__, __LINE__, "\"%s\" lacks: %s", e.text, want);
    checkpoint_close(c);
}

static void expect_name_of(const char *arch, const char *raw, const char *want)
{
    char name[200];
    hf_tensor_name(name, sizeof name, raw, arch, false);
    EXPECT_TEXT(name, want);
}

static void expect_part_of(const char *arch, const char *raw, const char *want)
{
    char name[200];
    hf_tensor_name(name, sizeof name, raw, arch, true);
    EXPECT_TEXT(name, want);
}

static void expect_name(const char *raw, const char *want)
{
    expect_name_of("qwen3", raw, want);
}

TEST(hf_tensor_names)
{
    expect_name("model.embed_tokens.weight", "token_embd.weight");
    expect_name("model.norm.weight", "output_norm.weight");
    expect_name("lm_head.weight", "output.weight");
    expect_name("model.layers.0.self_attn.q_proj.bias", "blk.0.attn_q.bias");
    expect_name("model.layers.31.self_attn.o_proj.weight", "blk.31.attn_output.weight");
    expect_name("model.layers.7.self_attn.k_norm.weight", "blk.7.attn_k_norm.weight");
    expect_name("model.layers.100.post_attention_layernorm.weight", "blk.100.ffn_norm.weight");
    expect_name("model.layers.3.mlp.down_proj.weight", "blk.3.ffn_down.weight");
    expect_name("model.layers..mlp.down_proj.weight", "model.layers..mlp.down_proj.weight");
    expect_name("model.layers.3.mlp.router.weight", "model.layers.3.mlp.router.weight");
    expect_name("model.normal.weight", "model.normal.weight");
    expect_name("lm_head", "lm_head");
}

TEST(hf_names_of_older_norms)
{
    /* Goal: only a LayerNorm has gamma and beta as names of its weight and bias. */
    expect_name_of("bert", "bert.embeddings.LayerNorm.gamma", "token_embd_norm.weight");
    expect_name_of("bert", "bert.embeddings.LayerNorm.beta", "token_embd_norm.bias");
    expect_name_of("nomic-bert", "nomic_bert.emb_ln.bias", "token_embd_norm.bias");
    expect_name_of("nomic-bert", "emb_ln.bias", "token_embd_norm.bias");
    expect_name_of("apertus", "model.layers.2.mlp.act_fn.beta", "blk.2.xielu.beta");
}

TEST(hf_names_without_a_suffix_and_of_parts)
{
    /* Goal: a parameter of a module itself gets the suffix of GGUF. Names of a model of several
     * parts have another prefix. */
    expect_name_of("gemma4", "model.layers.3.layer_scalar", "blk.3.layer_output_scale.weight");
    expect_name_of("gemma4", "model.layers.3.layer_scalars", "model.layers.3.layer_scalars");
    expect_name_of("gemma4", "model.layers.3.layer_scalar.x", "model.layers.3.layer_scalar.x");
    expect_name_of("gemma4", "model.layers.3.router.scale", "blk.3.ffn_gate_inp.scale");
    expect_name_of("gemma4", "model.layers.3.router.proj.weight", "blk.3.ffn_gate_inp.weight");
    expect_name_of("gemma4", "model.layers.3.experts.gate_up_proj",
                   "blk.3.ffn_gate_up_exps.weight");
    expect_part_of("gemma4", "model.language_model.layers.3.layer_scalar",
                   "blk.3.layer_output_scale.weight");
    expect_part_of("gemma4", "model.language_model.embed_tokens.weight", "token_embd.weight");
    expect_part_of("gemma4", "model.language_model.norm.weight", "output_norm.weight");
    expect_name_of("gemma3n", "model.altup_projections.2.weight", "altup_proj.2.weight");
    expect_part_of("gemma3n", "model.language_model.altup_unembed_projections.0.weight",
                   "altup_unembd_proj.0.weight");
    expect_name_of("gemma3n", "model.layers.1.altup.correct_output_scale",
                   "blk.1.altup_correct_scale.weight");
    expect_part_of("gemma4", "model.vision_tower.norm.weight", "model.vision_tower.norm.weight");
    expect_part_of("llama", "language_model.lm_head.weight", "output.weight");
    expect_part_of("llama", "language_model.norm.weight", "output_norm.weight");
    expect_part_of("llama", "model.text_model.layers.3.mlp.up_proj.weight", "blk.3.ffn_up.weight");
    expect_part_of("llama", "language_model.model.lm_head.weight",
                   "language_model.model.lm_head.weight");
    expect_part_of("llama", "visual.norm.weight", "visual.norm.weight");
    expect_part_of("llama", "norm.weight", "norm.weight");
    expect_part_of("gemma3", "model.language_model.norm.weight", "output_norm.weight");
    expect_part_of("gemma3", "language_model.model.layers.3.mlp.up_proj.weight",
                   "blk.3.ffn_up.weight");
    expect_name_of("gemma3", "model.norm.weight", "output_norm.weight");
    expect_name_of("qwen3", "model.language_model.norm.weight", "model.language_model.norm.weight");
}

TEST(hf_names_of_encoder_and_decoder)
{
    expect_name_of("t5", "encoder.block.3.layer.0.SelfAttention.q.weight",
                   "enc.blk.3.attn_q.weight");
    expect_name_of("t5", "decoder.block.0.layer.1.EncDecAttention.o.weight",
                   "dec.blk.0.cross_attn_o.weight");
    expect_name_of("t5", "decoder.block.1.layer.2.DenseReluDense.wi.weight",
                   "dec.blk.1.ffn_up.weight");
    expect_name_of("mt5", "encoder.block.1.layer.1.DenseReluDense.wi_1.weight",
                   "enc.blk.1.ffn_up.weight");
    expect_name_of("mt5", "decoder.final_layer_norm.weight", "dec.output_norm.weight");
    expect_name_of("bart", "model.encoder.layers.3.self_attn_layer_norm.bias",
                   "enc.blk.3.attn_output_norm.bias");
    expect_name_of("bart", "decoder.layers.1.encoder_attn.out_proj.weight",
                   "dec.blk.1.cross_attn_o.weight");
    expect_name_of("bart", "model.decoder.layers.0.final_layer_norm.weight",
                   "dec.blk.0.layer_output_norm.weight");
    expect_name_of("bart", "model.decoder.embed_positions.weight", "dec.position_embd.weight");
    expect_name_of("bart", "final_logits_bias", "output_bias.weight");
}

/* Goal: an alias names a tensor that has no other name in the file. Copies keep their names. */
TEST(hf_aliases_name_tensors_that_are_missing)
{
    static const char one[] = "'encoder.embed_tokens.weight':{'dtype':'I8','shape':[2,1],"
                              "'data_offsets':[0,2]}",
                      own[] = "'shared.weight':{'dtype':'I8','shape':[2,1],'data_offsets':[2,4]}";
    for (int both = 0; both < 2; both++) {
        struct err e = {0};
        char header[300];
        begin("{'model_type':'t5'}");
        snprintf(header, sizeof header, "{%s%s%s}", one, both ? "," : "", both ? own : "");
        put_weights("model.safetensors", header, both ? 4 : 2);
        struct checkpoint *c = open_dir(&e);
        NEED_OK(c ? 0 : -1, &e);
        const struct tensor_info *t = checkpoint_tensor(c, "token_embd.weight"),
                                 *copy = checkpoint_tensor(c, "encoder.embed_tokens.weight");
        NEED(t && copy);
        EXPECT((t->data == copy->data) == !both);
        checkpoint_close(c);
    }
}

static double real_of(const struct checkpoint *c, const char *key)
{
    return meta_real(checkpoint_meta(c, key), NAN);
}

static int64_t int_of(const struct checkpoint *c, const char *key)
{
    return meta_int(checkpoint_meta(c, key), -1);
}

TEST(hf_config_llama3)
{
    /* Goal: the older layout, rope_theta at the top level with rope_scaling next to it, is read. */
    struct err e = {0};
    begin("{'architectures':['LlamaForCausalLM'],'model_type':'llama','hidden_size':2048,'"
          "intermediate_size':8192,"
          "'num_hidden_layers':16,'num_attention_heads':32,'num_key_value_heads':8,'head_dim':64,"
          "'max_position_embeddings':131072,'rms_norm_eps':1e-05,'rope_theta':500000.0,'hidden_act'"
          ":'silu',"
          "'tie_word_embeddings':true,'vocab_size':128256,'eos_token_id':[128001,128008],'bos_"
          "token_id':128000,"
          "'pad_token_id':null,'rope_scaling':{'factor':32.0,'high_freq_factor':4.0,'low_freq_"
          "factor':1.0,"
          "'original_max_position_embeddings':8192,'rope_type':'llama3'}}");
    struct checkpoint *c = open_dir(&e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "general.architecture"), NULL), "llama");
    EXPECT_INT(int_of(c, "llama.embedding_length"), 2048);
    EXPECT_INT(int_of(c, "llama.feed_forward_length"), 8192);
    EXPECT_INT(int_of(c, "llama.block_count"), 16);
    EXPECT_INT(int_of(c, "llama.attention.head_count"), 32);
    EXPECT_INT(int_of(c, "llama.attention.head_count_kv"), 8);
    EXPECT_INT(int_of(c, "llama.attention.key_length"), 64);
    EXPECT_INT(int_of(c, "llama.attention.value_length"), 64);
    EXPECT_INT(int_of(c, "llama.context_length"), 131072);
    EXPECT_INT(int_of(c, "llama.vocab_size"), 128256);
    EXPECT(real_of(c, "llama.attention.layer_norm_rms_epsilon") == 1e-5);
    EXPECT(real_of(c, "llama.rope.freq_base") == 500000);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "llama.rope.scaling.type"), NULL), "llama3");
    EXPECT(real_of(c, "llama.rope.scaling.factor") == 32);
    EXPECT(real_of(c, "llama.rope.scaling.low_freq_factor") == 1);
    EXPECT(real_of(c, "llama.rope.scaling.high_freq_factor") == 4);
    EXPECT_INT(int_of(c, "llama.rope.scaling.original_context_length"), 8192);
    EXPECT(meta_bool(checkpoint_meta(c, "config.tie_word_embeddings"), false));
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "config.hidden_act"), NULL), "silu");
    EXPECT_INT(meta_item_int(checkpoint_meta(c, "tokenizer.ggml.eos_token_ids"), 1, 0), 128008);
    EXPECT_INT(int_of(c, "tokenizer.ggml.bos_token_id"), 128000);
    EXPECT(!checkpoint_meta(c, "tokenizer.ggml.padding_token_id"));
    checkpoint_close(c);
}

TEST(hf_config_rope_parameters)
{
    /* Goal: the newer layout is read. "default" means no scaling. The parameters are those of full
     * attention if there are layer types. */
    struct err e = {0};
    begin("{'model_type':'qwen3','rope_parameters':{'rope_theta':1000000,'rope_type':'default'},"
          "'sliding_window':4096,'use_sliding_window':false,'layer_types':['full_attention','"
          "sliding_attention']}");
    struct checkpoint *c = open_dir(&e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT(real_of(c, "qwen3.rope.freq_base") == 1e6 &&
           !checkpoint_meta(c, "qwen3.rope.scaling.type"));
    EXPECT_INT(int_of(c, "qwen3.attention.sliding_window"), 4096);
    EXPECT(meta_bool(checkpoint_meta(c, "config.use_sliding_window"), true) == false);
    size_t n;
    const char *kind = meta_item_text(checkpoint_meta(c, "config.layer_types"), 1, &n);
    EXPECT(kind && n == 17 && memcmp(kind, "sliding_attention", n) == 0);
    checkpoint_close(c);

    begin("{'model_type':'m','rope_parameters':{'full_attention':{'rope_theta':5,'rope_type':'yarn'"
          ",'factor':4,"
          "'beta_fast':32,'beta_slow':1,'attention_factor':1.25},'sliding_attention':{'rope_theta':"
          "6}},"
          "'sliding_window':128,'no_rope_layers':[1,1,0]}");
    c = open_dir(&e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT(real_of(c, "m.rope.freq_base") == 5 && real_of(c, "m.rope.scaling.factor") == 4);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "m.rope.scaling.type"), NULL), "yarn");
    EXPECT(real_of(c, "config.rope_parameters.attention_factor") == 1.25 &&
           real_of(c, "m.rope.scaling.yarn_beta_fast") == 32);
    EXPECT(real_of(c, "m.rope.scaling.yarn_beta_slow") == 1);
    EXPECT_INT(int_of(c, "m.attention.sliding_window"), 128);
    EXPECT_INT(meta_item_int(checkpoint_meta(c, "config.no_rope_layers"), 2, 9), 0);
    EXPECT_INT(meta_kind(checkpoint_meta(c, "config.rope_parameters.sliding_attention")),
               META_OBJECT);
    checkpoint_close(c);
}

TEST(hf_config_nested)
{
    /* Goal: fields of text_config override fields at the top level, except for the class. An
     * unknown class of several parts is not the class of its text part. Old spellings of the rope
     * type are accepted. */
    struct err e = {0};
    begin("{'model_type':'other','hidden_size':1,'vocab_size':9,'text_config':{'model_type':'"
          "mistral','hidden_size':64,"
          "'rope_scaling':{'type':'linear','factor':2}},'vision_config':{'hidden_size':5}}");
    struct checkpoint *c = open_dir(&e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "general.architecture"), NULL), "other");
    EXPECT(int_of(c, "other.embedding_length") == 64 && int_of(c, "other.vocab_size") == 9);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "other.rope.scaling.type"), NULL), "linear");
    checkpoint_close(c);
}

/* Open the folder with values of the caller, in single quotes. */
static struct checkpoint *open_changed(const char *config, struct err *e)
{
    struct checkpoint *c;
    struct buf text = {0};
    add_quoted(&text, config);
    int rc = checkpoint_open_with(&c, temp_path(""),
                                  &(struct checkpoint_changes){.config = text.data}, e);
    buf_deinit(&text);
    return rc == 0 ? c : NULL;
}

/* Return the flag that gave a key. */
static const char *given(const struct checkpoint *c, const char *key)
{
    const char *name;
    for (int i = 0; i < checkpoint_n_meta(c); i++) {
        checkpoint_meta_at(c, i, &name);
        if (strcmp(name, key) == 0) return checkpoint_given(c, i);
    }
    return NULL;
}

/* Goal: fields of the caller replace those of the file. The fields of inner configurations are
 * merged, other objects are replaced. A field at the top level also replaces the field of
 * text_config. */
TEST(hf_overrides_are_merged)
{
    struct err e = {0};
    begin("{'model_type':'other','hidden_size':1,'vocab_size':9,'num_local_experts':4,'note':'a',"
          "'text_config':{'model_type':'mistral','hidden_size':64,'num_hidden_layers':3,"
          "'rope_theta':5},'attn_config':{'a':1,'b':2},'eos_token_id':8,"
          "'quantization_config':{'quant_method':'awq','bits':4}}");
    put_json("generation_config.json", "{'eos_token_id':7,'bos_token_id':6}");
    struct checkpoint *c = open_changed(
        "{'text_config':{'hidden_size':32},'num_hidden_layers':7,'vocab_size':10,'rope_theta':11,"
        "'quantization_config':{'quant_method':'gptq'},'attn_config':{'b':3,'c':null},"
        "'num_experts':2,'eos_token_id':[5,4],'new':true,'note':null}",
        &e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT_INT(int_of(c, "other.embedding_length"), 32);
    EXPECT_INT(int_of(c, "other.block_count"), 7);
    EXPECT_INT(int_of(c, "other.vocab_size"), 10);
    EXPECT_INT(int_of(c, "other.expert_count"), 2);
    EXPECT(real_of(c, "other.rope.freq_base") == 11);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "config.quantization_config.quant_method"), NULL),
                "gptq");
    EXPECT(!checkpoint_meta(c, "config.quantization_config.bits"));
    EXPECT(int_of(c, "config.attn_config.a") == 1 && int_of(c, "config.attn_config.b") == 3);
    EXPECT(checkpoint_meta(c, "config.attn_config.c"));
    EXPECT(meta_kind(checkpoint_meta(c, "config.note")) == META_NONE);
    const struct meta *eos = checkpoint_meta(c, "tokenizer.ggml.eos_token_ids");
    EXPECT(meta_count(eos) == 2 && meta_item_int(eos, 0, 0) == 5);
    EXPECT_INT(int_of(c, "tokenizer.ggml.bos_token_id"), 6);
    EXPECT_TEXT(given(c, "config.new"), "--hf-overrides");
    EXPECT_TEXT(given(c, "config.attn_config.b"), "--hf-overrides");
    EXPECT_TEXT(given(c, "other.rope.freq_base"), "--hf-overrides");
    EXPECT(!given(c, "config.attn_config.a") && !given(c, "other.vocab"));
    checkpoint_close(c);
    c = open_changed("{'compression_config':{}}", &e);
    EXPECT(!c && strstr(e.text, "compression_config has no effect"));
    checkpoint_close(c);
    c = open_changed("{'text_config':{'hidden_size':null}}", &e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT(meta_kind(checkpoint_meta(c, "other.embedding_length")) == META_NONE);
    checkpoint_close(c);
}

/* Goal: a class, a field that is true, or the modules of sentence-transformers may select another
 * architecture than model_type alone. */
TEST(hf_architecture_of_a_field)
{
    static const struct {
        const char *config, *arch; /* text in single quotes */
    } cases[] = {
        {"{'model_type':'gemma3_text'}", "gemma3"},
        {"{'model_type':'gemma3_text','use_bidirectional_attention':null}", "gemma3"},
        {"{'model_type':'gemma3_text','use_bidirectional_attention':false}", "gemma3"},
        {"{'model_type':'gemma3_text','use_bidirectional_attention':true}", "gemma-embedding"},
        {"{'model_type':'llama','use_bidirectional_attention':true}", "llama"},
        /* the class computes logits, which an encoder does not have */
        {"{'model_type':'gemma3_text','use_bidirectional_attention':true,'architectures':"
         "['Gemma3ForCausalLM']}",
         "gemma3"},
        {"{'model_type':'gemma3_text','use_bidirectional_attention':true,'architectures':"
         "['Gemma3TextModel']}",
         "gemma-embedding"},
        {"{'model_type':'t5','architectures':['T5ForConditionalGeneration']}", "t5"},
        {"{'model_type':'t5','architectures':'T5EncoderModel'}", "t5"},
        {"{'model_type':'t5','architectures':[1,'T5EncoderModel']}", "t5encoder"},
        {"{'model_type':'mt5','architectures':['MT5EncoderModel']}", "mt5encoder"},
        {"{'model_type':'mt5','architectures':['T5EncoderModel']}", "mt5"},
        {"{'model_type':'umt5','architectures':['UMT5ForConditionalGeneration']}", "umt5"},
        {"{'model_type':'umt5','architectures':['UMT5EncoderModel']}", "umt5encoder"},
        /* sentence-transformers ignores the class */
        {"{'model_type':'t5','architectures':['T5ForConditionalGeneration']}m", "t5encoder"},
        {"{'model_type':'mt5'}m", "mt5encoder"},
        {"{'model_type':'gemma3_text','use_bidirectional_attention':true,'architectures':"
         "['Gemma3ForCausalLM']}m",
         "gemma-embedding"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        char config[200];
        snprintf(config, sizeof config, "%s", cases[i].config);
        char *modules = strchr(config, '}') + 1; /* "m": with the modules */
        const bool with = *modules == 'm';
        *modules = 0;
        begin(config);
        unlink(temp_path("modules.json"));
        if (with)
            put_json("modules.json",
                     "[{'type':'sentence_transformers.models.Transformer','name':'0','path':''}]");
        struct checkpoint *c = open_dir(&e);
        NEED_OK(c ? 0 : -1, &e);
        EXPECT_TEXT(meta_text(checkpoint_meta(c, "general.architecture"), NULL), cases[i].arch);
        checkpoint_close(c);
    }
    unlink(temp_path("modules.json"));
    expect_name_of("t5encoder", "encoder.block.3.layer.0.SelfAttention.q.weight",
                   "enc.blk.3.attn_q.weight");
    expect_name_of("gemma-embedding", "layers.3.self_attn.q_norm.weight",
                   "blk.3.attn_q_norm.weight");
    expect_name_of("gemma-embedding", "norm.weight", "output_norm.weight");
}

TEST(hf_config_leaves_no_field_out)
{
    /* Goal: every field becomes a key. null differs from absent, and rope_scaling overrides
     * rope_parameters. A field without a GGUF name keeps its name. */
    struct err e = {0};
    begin(
        "{'model_type':'mistral','sliding_window':null,'unsloth_version':'2025.1','flag':true,"
        "'object':{'a':1},'mixed':[1,'a'],'null':null,'list':[1,2],'partial_rotary_factor':0.5,"
        "'rope_parameters':{'rope_theta':7,'rope_type':'linear','factor':3},'rope_scaling':{'type':"
        "'yarn','factor':null,'mscale':0.5,'truncate':false,'foo':1},'rope_theta':9,"
        "'original_max_position_embeddings':64,'quantization_config':{'quant_method':'awq'}}");
    struct checkpoint *c = open_dir(&e);
    NEED_OK(c ? 0 : -1, &e);
    const struct meta *window = checkpoint_meta(c, "mistral.attention.sliding_window");
    EXPECT(window && meta_kind(window) == META_NONE && meta_int(window, -7) == -7);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "config.unsloth_version"), NULL), "2025.1");
    EXPECT(meta_bool(checkpoint_meta(c, "config.flag"), false));
    EXPECT_INT(meta_kind(checkpoint_meta(c, "config.object")), META_OBJECT);
    EXPECT_INT(meta_kind(checkpoint_meta(c, "config.mixed")), META_OBJECT);
    EXPECT(checkpoint_meta(c, "config.null") && meta_count(checkpoint_meta(c, "config.list")) == 2);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "mistral.rope.scaling.type"), NULL), "yarn");
    EXPECT(real_of(c, "mistral.rope.freq_base") == 9);
    const struct meta *factor = checkpoint_meta(c, "mistral.rope.scaling.factor");
    EXPECT(factor && meta_kind(factor) == META_NONE);
    EXPECT(real_of(c, "config.rope_parameters.mscale") == 0.5);
    EXPECT(!meta_bool(checkpoint_meta(c, "config.rope_parameters.truncate"), true));
    EXPECT_INT(int_of(c, "config.rope_parameters.foo"), 1);
    EXPECT(real_of(c, "config.rope_parameters.partial_rotary_factor") == 0.5);
    EXPECT_INT(int_of(c, "mistral.rope.scaling.original_context_length"), 64);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "config.quantization_config.quant_method"), NULL),
                "awq");
    checkpoint_close(c);
}

TEST(hf_token_ids_are_integers)
{ /* Goal: an id of a token with a wrong type is not taken for an absent one. */
    static const char *const field[] = {"eos_token_id", "bos_token_id", "pad_token_id"},
                             *const bad[] = {"1.5",  "4294967296", "-1e308", "-2",
                                             "true", "'5'",        "{}"},
                             *const good[] = {"null", "-1", "0", "2147483647"};
    char text[100];
    struct err e = {0};
    for (size_t i = 0; i < sizeof field / sizeof field[0]; i++) {
        for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
            snprintf(text, sizeof text, "{'model_type':'llama','%s':%s}", field[i], bad[k]);
            begin(text);
            expect_refused(field[i]);
            begin("{'model_type':'llama'}");
            snprintf(text, sizeof text, "{'%s':%s}", field[i], bad[k]);
            put_json("generation_config.json", text);
            expect_refused(field[i]);
        }
        for (size_t k = 0; k < sizeof good / sizeof good[0]; k++) {
            snprintf(text, sizeof text, "{'model_type':'llama','%s':%s}", field[i], good[k]);
            begin(text);
            struct checkpoint *c = open_dir(&e);
            NEED_OK(c ? 0 : -1, &e);
            checkpoint_close(c);
        }
    }
    begin("{'model_type':'llama','eos_token_id':[1,2.5]}");
    expect_refused("eos_token_id: must be an integer");
}

TEST(hf_generation_config)
{
    /* Goal: sampling defaults are used unless do_sample is false, which makes the temperature 0;
     * penalties and lengths remain. Each other setting has a key. Token ids override the ids of
     * config.json. */
    struct err e = {0};
    begin("{'model_type':'llama','eos_token_id':7}");
    put_json("generation_config.json",
             "{'do_sample':true,'temperature':0.7,'top_k':20,'top_p':0.8,'min_p':0.05,"
             "'repetition_penalty':1.1,'eos_token_id':[1,2]}");
    struct checkpoint *c = open_dir(&e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT(real_of(c, "general.sampling.temp") == 0.7 &&
           real_of(c, "general.sampling.top_p") == 0.8);
    EXPECT(int_of(c, "general.sampling.top_k") == 20 &&
           real_of(c, "general.sampling.min_p") == 0.05);
    EXPECT(real_of(c, "general.sampling.penalty_repeat") == 1.1);
    EXPECT_INT(meta_count(checkpoint_meta(c, "tokenizer.ggml.eos_token_ids")), 2);
    checkpoint_close(c);
    put_json("generation_config.json",
             "{'do_sample':false,'temperature':0.7,'top_k':5,'repetition_penalty':1.5,"
             "'min_new_tokens':3,'max_new_tokens':9,'num_beams':1,'max_length':20,"
             "'use_cache':true,'suppress_tokens':[],'watermarking_config':null,'eta_cutoff':0.1,"
             "'no_repeat_ngram_size':2,'bad_words_ids':[[1,2],[3]],'own_field':{'a':1}}");
    c = open_dir(&e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT(real_of(c, "general.sampling.temp") == 0 &&
           !checkpoint_meta(c, "general.sampling.top_k"));
    EXPECT(real_of(c, "general.sampling.penalty_repeat") == 1.5);
    EXPECT(int_of(c, "generation.min_new_tokens") == 3 &&
           int_of(c, "generation.max_new_tokens") == 9);
    static const char *const without[] = {"greedy.temperature",
                                          "greedy.top_k",
                                          "greedy.eta_cutoff",
                                          "idle.num_beams",
                                          "idle.max_length",
                                          "idle.use_cache",
                                          "idle.suppress_tokens",
                                          "idle.watermarking_config",
                                          "unused.no_repeat_ngram_size",
                                          "unused.bad_words_ids",
                                          "unknown.own_field"};
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        char key[80];
        snprintf(key, sizeof key, "generation.%s", without[i]);
        if (!checkpoint_meta(c, key)) test_fail(__FILE__, __LINE__, "no key %s", key);
    }
    const struct meta *eos = checkpoint_meta(c, "tokenizer.ggml.eos_token_ids");
    EXPECT(meta_count(eos) == 1 && meta_item_int(eos, 0, 0) == 7);
    checkpoint_close(c);
}

static void expect_template(const char *key, const char *want)
{
    struct err e = {0};
    struct checkpoint *c = open_dir(&e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, key), NULL), want);
    checkpoint_close(c);
}

TEST(hf_chat_templates)
{
    /* Goal: a template is found in each possible file. The .jinja file overrides the JSON files. */
    begin(MINIMAL);
    put_json("tokenizer_config.json", "{'chat_template':'one'}");
    expect_template("tokenizer.chat_template", "one");
    put_json("tokenizer_config.json",
             "{'chat_template':[{'name':'default','template':'d'},{'name':'rag','template':'r'}]}");
    expect_template("tokenizer.chat_template", "d");
    expect_template("tokenizer.chat_template.rag", "r");
    put_json("chat_template.json", "{'chat_template':'processor'}");
    expect_template("tokenizer.chat_template", "processor");
    put_json("chat_template.jinja", "{{ file }}\n");
    expect_template("tokenizer.chat_template", "{{ file }}\n");
    mkdir(temp_path("additional_chat_templates"), 0700);
    put_json("additional_chat_templates/rag.jinja", "folder");
    expect_template("tokenizer.chat_template.rag", "folder");
    unlink(temp_path("additional_chat_templates/rag.jinja"));
    rmdir(temp_path("additional_chat_templates"));
}

TEST(hf_config_refusals)
{
    begin("{}");
    expect_refused("config.json: model_type");
    begin("[]");
    expect_refused("config.json: expected an object, got an array");
    begin("{'model_type':");
    expect_refused("config.json: line 1");
    begin("{'model_type':'m','hidden_size':{}}");
    expect_refused("config.json: \"hidden_size\"");
    begin("{'model_type':'m','head_dim':[1,'a']}");
    expect_refused("config.json: \"head_dim\"");
    begin(MINIMAL);
    put_json("tokenizer_config.json", "{'chat_template':[{'name':'x'}]}");
    expect_refused("tokenizer_config.json: chat_template[0]");
    begin(MINIMAL);
    unlink(temp_path("config.json"));
    expect_refused("config.json not found");
    begin(MINIMAL);
    unlink(temp_path("model.safetensors"));
    expect_refused("model.safetensors.index.json not found; available: 0 other");
    EXPECT_INT(file_write(temp_path("pytorch_model.bin"), "x", 1, &(struct err){0}), 0);
    expect_refused("/pytorch_model.bin: not supported: ");
    unlink(temp_path("pytorch_model.bin"));
    put_weights("adapter.safetensors", EMPTY_WEIGHTS, 1);
    struct err e;
    struct checkpoint *c = open_dir(&e);
    NEED_OK(c ? 0 : -1, &e);
    checkpoint_close(c);
    begin(MINIMAL);
}

/* Goal: labels are those of id2label, unless num_labels is another number, as in transformers. */
TEST(hf_config_labels)
{
    static const char *const cases[][4] = {
        {"'id2label':{'0':'a','1':'b','2':'c'}", "a", "b", "c"},
        {"'num_labels':3,'id2label':{'0':'a','1':'b','2':'c'}", "a", "b", "c"},
        {"'num_labels':null,'id2label':{'0':'a'}", "a"},
        {"'num_labels':2,'id2label':{'0':'a','1':'b','2':'c'}", "LABEL_0", "LABEL_1"},
        {"'num_labels':2", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        struct buf config = {0};
        buf_addf(&config, "{'model_type':'m',%s}", cases[i][0]);
        begin(config.data);
        struct checkpoint *c = open_dir(&e);
        NEED_OK(c ? 0 : -1, &e);
        const struct meta *list = checkpoint_meta(c, "m.classifier.output_labels");
        size_t n = 0, n_text;
        for (; n < 3 && cases[i][1 + n]; n++)
            EXPECT_TEXT(meta_item_text(list, n, &n_text), cases[i][1 + n]);
        EXPECT_INT(meta_count(list), n);
        checkpoint_close(c);
        buf_deinit(&config);
    }
    begin("{'model_type':'m','num_labels':0,'id2label':{'0':'a'}}");
    expect_refused("num_labels: must be 1 to 65536 labels, got 0");
    begin("{'model_type':'m','num_labels':70000,'id2label':{'0':'a'}}");
    expect_refused("num_labels: must be 1 to 65536 labels, got 70000");
    begin(MINIMAL);
}

static const char SHARD_A[] =
    "{'model.norm.weight':{'dtype':'I8','shape':[2],'data_offsets':[0,2]}}";
static const char SHARD_B[] = "{'lm_head.weight':{'dtype':'I8','shape':[3],'data_offsets':[0,3]}}";

static void expect_index_refused(const char *index, const char *want)
{
    put_json("model.safetensors.index.json", index);
    expect_refused(want);
}

TEST(hf_shards)
{
    /* Goal: the directory, the index or a shard opens all shards of the index as one model. The
     * error for an invalid index contains the index's path. */
    static const char *const way[] = {"", "model.safetensors.index.json",
                                      "model-00002-of-00002.safetensors"};
    begin(MINIMAL);
    unlink(temp_path("model.safetensors"));
    put_weights("model-00001-of-00002.safetensors", SHARD_A, 2);
    put_weights("model-00002-of-00002.safetensors", SHARD_B, 3);
    put_json("model.safetensors.index.json",
             "{'metadata':{},'weight_map':{'model.norm.weight':'model-00001-of-00002.safetensors',"
             "'lm_head.weight':'model-00002-of-00002.safetensors'}}");
    for (int i = 0; i < 3; i++) {
        struct err e = {0};
        struct checkpoint *c;
        NEED_OK(checkpoint_open(&c, temp_path(way[i]), &e), &e);
        /* the head is also the embedding, which the files lack */
        EXPECT_INT(checkpoint_n_tensor(c), 3);
        const struct tensor_info *t = checkpoint_tensor(c, "output.weight");
        EXPECT(t && t->file == 1 && t->dim[0] == 3 &&
               checkpoint_tensor(c, "output_norm.weight")->file == 0);
        checkpoint_close(c);
    }
    /* a path that does not exist is not its folder */
    struct err gone = {0};
    struct checkpoint *none;
    EXPECT_INT(checkpoint_open(&none, temp_path("model-00001-of-00009.safetensors"), &gone),
               ERR_IO);
    EXPECT(strstr(gone.text, "00009.safetensors: cannot open"));
    expect_index_refused("{}", "index.json: weight_map");
    expect_index_refused("{'weight_map':{'a':7}}", "weight_map of \"a\"");
    expect_index_refused("{'weight_map':{'a':'../config.json'}}", "weight_map of \"a\"");
    expect_index_refused("{'weight_map':{'a':'gone.safetensors'}}",
                         "gone.safetensors: cannot open");
    expect_index_refused("{'weight_map':{'a':'model-00001-of-00002.safetensors'}}",
                         "tensor \"a\" not found in model-00001-of-00002.safetensors");
    expect_index_refused("{'weight_map':{'lm_head.weight':'model-00001-of-00002.safetensors',"
                         "'model.norm.weight':'model-00002-of-00002.safetensors'}}",
                         "tensor \"lm_head.weight\" not found in model-00001-of-00002.safetensors");
    begin(MINIMAL);
}

/* Goal: the fields of quantized weights are those of config.json, else those of the files of early
 * versions of AutoGPTQ and AutoAWQ. */
TEST(hf_files_of_quantized_weights)
{
    static const struct {
        const char *config, *file, *fields,
            *method; /* method: NULL if config.json has the fields */
    } cases[] = {
        {"", "quantize_config.json", "{'bits':3,'group_size':32}", "gptq"},
        {"", "quant_config.json", "{'bits':3,'q_group_size':32}", "awq"},
        {",'quantization_config':{'quant_method':'fp8'}", "quant_config.json", "{'bits':3}", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char config[100];
        struct err e = {0};
        snprintf(config, sizeof config, "{'model_type':'m'%s}", cases[i].config);
        begin(config);
        put_json(cases[i].file, cases[i].fields);
        struct checkpoint *c = open_dir(&e);
        NEED_OK(c ? 0 : -1, &e);
        EXPECT_TEXT(meta_text(checkpoint_meta(c, "config.quantization_config.quant_method"), NULL),
                    cases[i].method ? cases[i].method : "fp8");
        EXPECT_INT(meta_int(checkpoint_meta(c, "config.quantization_config.bits"), 0),
                   cases[i].method ? 3 : 0);
        checkpoint_close(c);
        unlink(temp_path(cases[i].file));
    }
    begin(MINIMAL);
}

/* Goal: as in transformers, model.safetensors has priority over an index. A warning names the index
 * if it has other files. */
TEST(hf_one_file_beside_shards)
{
    static const char *const file[] = {"model-00001-of-00001.safetensors", "model.safetensors"};
    for (int i = 0; i < 2; i++) {
        char index[160];
        struct err e = {0};
        struct buf warnings = {0};
        begin(MINIMAL);
        put_weights("model.safetensors", SHARD_B, 3);
        put_weights("model-00001-of-00001.safetensors", SHARD_A, 2);
        snprintf(index, sizeof index, "{'weight_map':{'%s':'%s'}}",
                 i ? "lm_head.weight" : "model.norm.weight", file[i]);
        put_json("model.safetensors.index.json", index);
        log_kept = &warnings;
        struct checkpoint *c = open_dir(&e);
        log_kept = NULL;
        NEED_OK(c ? 0 : -1, &e);
        EXPECT(checkpoint_tensor(c, "output.weight"));
        EXPECT(!checkpoint_tensor(c, "output_norm.weight"));
        buf_addf(&warnings, " ");
        const char *found = strstr(warnings.data, "model.safetensors.index.json: ignored");
        EXPECT(i == 0 ? found != NULL : found == NULL);
        checkpoint_close(c);
        buf_deinit(&warnings);
    }
    begin(MINIMAL);
}

TEST(hf_real_directories)
{
    static const char *const dir[] = {"float16", "float32", "int8", "vocab-quantized"};
    if (!data_path("weights/model2vec")) SKIP("weights/model2vec is absent");
    for (int i = 0; i < 4; i++) {
        char relative[100];
        struct err e = {0};
        struct checkpoint *c;
        snprintf(relative, sizeof relative, "weights/model2vec/test-model-%s", dir[i]);
        NEED_OK(checkpoint_open(&c, data_path(relative), &e), &e);
        EXPECT_TEXT(meta_text(checkpoint_meta(c, "general.architecture"), NULL), "model2vec");
        EXPECT(checkpoint_n_tensor(c) >= 1);
        checkpoint_close(c);
    }
}

/* ---- the golden checkpoints, written by transformers and converted by llama.cpp's tool ---- */

/* Return true if rows are permuted: rows 2i and 2i + 1 of a head in GGUF are rows i and i + d/2 in
 * the directory. */
static bool rows_permuted(const struct tensor_info *hf, const struct tensor_info *gguf, int64_t d)
{
    size_t n_row = hf->n_byte / (size_t)hf->dim[1];
    for (int64_t r = 0; r < hf->dim[1]; r++) {
        int64_t in_head = r % d, to = r - in_head + (in_head % (d / 2)) * 2 + in_head / (d / 2);
        if (memcmp(hf->data + (size_t)r * n_row, gguf->data + (size_t)to * n_row, n_row) != 0)
            return false;
    }
    return true;
}

static void compare_tensors(const struct checkpoint *hf, const struct checkpoint *gguf,
                            bool permuted)
{
    for (int i = 0; i < checkpoint_n_tensor(hf); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(hf, i),
                                 *u = checkpoint_tensor(gguf, t->name);
        if (!u || t->type != u->type || t->n_dim != u->n_dim ||
            memcmp(t->dim, u->dim, sizeof t->dim) != 0) {
            test_fail(__FILE__, __LINE__, "%s: not alike", t->name);
            continue;
        }
        bool turned = permuted && (strstr(t->name, ".attn_q.") || strstr(t->name, ".attn_k."));
        bool same = turned ? rows_permuted(t, u, 16) : memcmp(t->data, u->data, t->n_byte) == 0;
        if (!same) test_fail(__FILE__, __LINE__, "%s: other values", t->name);
    }
}

/* Compare numbers and texts with common keys. Return the number of common keys. */
static int compare_meta(const struct checkpoint *hf, const struct checkpoint *gguf)
{
    int n = 0;
    for (int i = 0; i < checkpoint_n_meta(hf); i++) {
        const char *key;
        const struct meta *m = checkpoint_meta_at(hf, i, &key), *g = checkpoint_meta(gguf, key);
        if (!g || meta_kind(m) == META_LIST || strcmp(key, "tokenizer.chat_template") == 0)
            continue;
        n++;
        if (meta_kind(m) == META_TEXT)
            EXPECT_TEXT(meta_text(m, NULL), meta_text(g, NULL));
        else if ((float)meta_real(m, NAN) != (float)meta_real(g, NAN))
            test_fail(__FILE__, __LINE__, "%s: %g, not %g", key, meta_real(m, NAN),
                      meta_real(g, NAN));
    }
    return n;
}

TEST(hf_golden_equals_gguf)
{
    /* Goal: both forms of a checkpoint give equal names, shapes, values and metadata. */
    static const struct {
        const char *name;
        bool permuted;
    } golden[] = {{"llama3", true},
                  {"llama-untied", true},
                  {"smollm3", true},
                  {"qwen2", false},
                  {"qwen3", false}};
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        char dir[64], file[80];
        struct err e = {0};
        struct checkpoint *hf, *gguf;
        snprintf(dir, sizeof dir, "tests/golden/%s", golden[i].name);
        snprintf(file, sizeof file, "%s/model.gguf", dir);
        if (!repo_path(file)) SKIP("%s is absent", file);
        NEED_OK(checkpoint_open(&hf, repo_path(dir), &e), &e);
        NEED_OK(checkpoint_open(&gguf, repo_path(file), &e), &e);
        compare_tensors(hf, gguf, golden[i].permuted);
        EXPECT(compare_meta(hf, gguf) >= 12);
        checkpoint_close(hf);
        checkpoint_close(gguf);
    }
}

TEST(hf_config_of_several_parts)
{
    /* Goal: text_config alone describes the model, except for few fields at the top level. */
    struct err e = {0};
    begin("{'model_type':'gemma4','hidden_size':1,'tie_word_embeddings':false,'layer_types':['x'],"
          "'rope_theta':7,'vision_config':{'hidden_size':2},'quantization_config':{'quant_method':"
          "'fp8'},'text_config':{'model_type':'gemma4_text','num_hidden_layers':3,"
          "'tie_word_embeddings':true,'per_layer_config':{'2':{'head_dim':8,'other':1}}}}");
    struct checkpoint *c = open_dir(&e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT_TEXT(meta_text(checkpoint_meta(c, "general.architecture"), NULL), "gemma4");
    EXPECT_INT(int_of(c, "gemma4.block_count"), 3);
    EXPECT(!checkpoint_meta(c, "gemma4.embedding_length"));
    EXPECT(!checkpoint_meta(c, "gemma4.rope.freq_base"));
    EXPECT(!checkpoint_meta(c, "config.layer_types") && !checkpoint_meta(c, "config.text_config"));
    EXPECT_INT(int_of(c, "config.outer.hidden_size"), 1);
    EXPECT(checkpoint_meta(c, "config.outer.vision_config") != NULL);
    EXPECT(!meta_bool(checkpoint_meta(c, "config.tie_word_embeddings"), true));
    EXPECT(checkpoint_meta(c, "config.quantization_config.quant_method") != NULL);
    const struct meta *heads = checkpoint_meta(c, "config.per_layer_config.head_dim");
    EXPECT_INT(meta_count(heads), 3);
    EXPECT(meta_item_int(heads, 1, 0) == -1 && meta_item_int(heads, 2, 0) == 8);
    EXPECT(checkpoint_meta(c, "config.per_layer_config.other") != NULL);
    checkpoint_close(c);
}

/* Goal: in a config of several parts, the caller's fields at the top level belong to the text
 * model. Exceptions are fields that only the file's top level has. */
TEST(hf_overrides_of_several_parts)
{
    struct err e = {0};
    begin("{'model_type':'gemma4','hidden_size':1,'tie_word_embeddings':false,'image_token_id':3,"
          "'rope_theta':7,'text_config':{'hidden_size':64,'image_size':8,'rope_parameters':{"
          "'full_attention':{'rope_theta':5},'sliding_attention':{'rope_theta':6}}}}");
    struct checkpoint *c =
        open_changed("{'hidden_size':32,'num_hidden_layers':7,'tie_word_embeddings':true,"
                     "'image_token_id':4,'new':1,'rope_theta':9,'text_config':{'vocab_size':10}}",
                     &e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT_INT(int_of(c, "gemma4.embedding_length"), 32);
    EXPECT_INT(int_of(c, "gemma4.block_count"), 7);
    EXPECT_INT(int_of(c, "gemma4.vocab_size"), 10);
    EXPECT(meta_bool(checkpoint_meta(c, "config.tie_word_embeddings"), false));
    EXPECT_INT(int_of(c, "config.outer.image_token_id"), 4);
    EXPECT_TEXT(given(c, "config.outer.image_token_id"), "--hf-overrides");
    EXPECT_TEXT(given(c, "config.new"), "--hf-overrides");
    EXPECT(!given(c, "config.image_size"));
    EXPECT(!checkpoint_meta(c, "config.outer.new") &&
           !checkpoint_meta(c, "config.outer.rope_theta"));
    EXPECT(real_of(c, "gemma4.rope.freq_base") == 9);
    EXPECT(real_of(c, "config.rope_parameters.sliding_attention.rope_theta") == 6);
    checkpoint_close(c);
    c = open_changed("{'text_config':{'tie_word_embeddings':true}}", &e);
    EXPECT(!c && strstr(e.text, "text_config.tie_word_embeddings has no effect"));
    checkpoint_close(c);
}
