/* keys_arch_test.c - goal: the config of an architecture is that of its class. Method: read folders
 * with only a config.json. Defaults are compared with the defaults of the reference's classes. */
#include "keys_rig_test.h"

#include "base/os.h"
#include "../../tests/safetensors_make.h"
#include "arch/gemma_impl.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

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
        read_done(&r);
        read_config(&r, want[i].a, "'num_key_value_heads':null,'sliding_window':null");
        NEED_OK(r.rc, &r.e);
        EXPECT(r.m.config.n_head_kv == r.m.config.n_head && r.m.config.layer[0].window == 0);
        read_done(&r);
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
    read_done(&r);
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

/* Goal: layers of llama4 have a rope, chunks and a mixture as the config selects them. The queries
 * of layers without rope grow. */
TEST(config_llama4_selects_chunks_ropes_and_mixtures)
{
    static const struct {
        const char *fields;
        unsigned rope, chunk, moe; /* bit i: layer i */
        int n_rope;
    } want[] = {
        {"'num_hidden_layers':5", 23, 23, 31, 2},
        {"'num_hidden_layers':5,'interleave_moe_layer_step':2", 23, 23, 10, 2},
        {"'num_hidden_layers':3,'moe_layers':[0,2],'interleave_moe_layer_step':2", 7, 7, 5, 1},
        {"'num_hidden_layers':3,'no_rope_layers':[0,1,0],'attn_temperature_tuning':false", 2, 2, 7,
         1},
        {"'num_hidden_layers':2,'layer_types':['full_attention','chunked_attention'],"
         "'no_rope_layer_interval':2",
         1, 2, 3, 2},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct read r;
        unsigned rope = 0, chunk = 0, moe = 0;
        read_config(&r, &arch_llama4, want[i].fields);
        NEED_OK(r.rc, &r.e);
        for (int il = 0; il < r.m.config.n_layer; il++) {
            const struct layer_config *l = &r.m.config.layer[il];
            rope |= (unsigned)(l->rope != ROPE_OFF) << il;
            chunk |= (unsigned)(l->chunk == 8192) << il;
            moe |= (unsigned)(l->n_expert == 16 && l->d_shared == l->d_expert) << il;
        }
        if (rope != want[i].rope || chunk != want[i].chunk || moe != want[i].moe ||
            r.m.config.n_rope != want[i].n_rope)
            test_fail(__FILE__, __LINE__, "{%s}: ropes %x, chunks %x, mixtures %x, %d tables",
                      want[i].fields, rope, chunk, moe, r.m.config.n_rope);
        read_done(&r);
    }
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
    read_done(&r);
    read_config(&r, &arch_gpt2, "'n_inner':50,'scale_attn_by_inverse_layer_idx':true");
    EXPECT(r.rc == 0 && r.m.config.d_ff == 50 &&
           r.m.config.layer[1].attn_scale == r.m.config.layer[0].attn_scale / 2);
    read_done(&r);
    read_config(&r, &arch_llama, "'n_embd':96,'hidden_dim':5,'n_layers':9,'dim':7");
    EXPECT(r.rc == 0 && r.m.config.d == 4096 && r.m.config.n_layer == 2);
    read_done(&r);
    read_config(&r, &arch_gptneox, "'rotary_pct':0.5,'rotary_emb_base':500,'rope_theta':7");
    EXPECT(r.rc == 0 && r.m.config.rope[ROPE_MAIN].d_rot == 48 &&
           r.m.config.rope[ROPE_MAIN].base == 500);
    read_done(&r);
    read_config(&r, &arch_gptneox,
                "'rotary_pct':0.5,'rope_parameters':{'rope_theta':60,'partial_rotary_factor':1}");
    EXPECT(r.rc == 0 && r.m.config.rope[ROPE_MAIN].d_rot == 96 &&
           r.m.config.rope[ROPE_MAIN].base == 60);
    read_done(&r);
    read_config(&r, &arch_falcon, "'alibi':true,'multi_query':false,'parallel_attn':false");
    EXPECT(r.rc == 0 && r.m.config.order == BLOCKS_SERIAL && r.m.config.layer[1].n_head_kv == 71 &&
           r.m.config.alibi == 8 && r.m.config.layer[0].rope == ROPE_OFF);
    read_done(&r);
    read_config(&r, &arch_falcon, "'num_kv_heads':71");
    EXPECT(r.rc == 0 && r.m.config.order == BLOCKS_PARALLEL && r.m.config.layer[1].n_head_kv == 1 &&
           r.m.config.d_ff == 4 * 4544 && r.m.config.layer[0].rope == ROPE_MAIN);
    read_done(&r);
    read_config(&r, &arch_mpt,
                "'d_model':96,'n_heads':4,'attn_config':{'clip_qkv':6,'softmax_scale':0.5}");
    EXPECT(r.rc == 0 && r.m.config.qkv_limit == 6 && r.m.config.layer[1].attn_scale == 0.5f &&
           r.m.config.d_ff == 384);
    read_done(&r);
    read_config(&r, &arch_opt, "'do_layer_norm_before':false,'word_embed_proj_dim':512");
    EXPECT(r.rc == 0 && r.m.config.order == BLOCKS_POST && r.m.config.d_embd == 512 &&
           r.m.config.position0 == 2 && r.m.config.n_position == 2050 &&
           r.m.config.context_train == 2048);
    read_done(&r);
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
            if (!has_type(all_arches[a], ROPE_YARN) || lacks_flat_rope(all_arches[a])) continue;
            /* config_ropes_of_modern_bert, config_ropes_per_type_of_layer */
            if (declares(all_arches[a]->hf_key,
                         "config.rope_parameters.sliding_attention.rope_type"))
                continue;
            if (declares(all_arches[a]->hf_key, "config.rope_parameters.truncate")) continue;
            read_config(&r, all_arches[a], cases[i].fields);
            NEED_OK(r.rc, &r.e);
            EXPECT(fabs(r.m.config.rope[ROPE_MAIN].magnitude - cases[i].want) < 1e-6);
            EXPECT(r.m.config.rope[ROPE_MAIN].ramp_whole == cases[i].whole);
            read_done(&r);
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
               r.m.config.rope[ROPE_MAIN].rotated_share == 0.25);
        read_done(&r);
    }
    read_config(&r, &arch_gemma4, "'num_global_key_value_heads':2,'per_layer_config':null");
    EXPECT(r.rc == 0 && r.m.config.layer[1].d_head == 256 && r.m.config.layer[1].n_head_kv == 4);
    read_done(&r);
    read_config(&r, &arch_gemma4, "'num_global_key_value_heads':2");
    EXPECT(r.rc == 0 && r.m.config.layer[1].d_head == 512 && r.m.config.layer[1].n_head_kv == 4);
    read_done(&r);
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
    const struct gemma_own *own = r.m.config.own;
    EXPECT(r.m.config.logit_softcap == 30 && own->n_stream == 4 && own->d_laurel == 64);
    read_done(&r);
    read_config(&r, &arch_gemma3n, "'num_hidden_layers':5");
    EXPECT(r.rc == 0 && r.m.config.layer[4].window == 0 && r.m.config.layer[3].window == 512);
    read_done(&r);
    expect_config(&arch_gemma3n, "'num_hidden_layers':5,'num_kv_shared_layers':5",
                  "num_kv_shared_layers: must be below the 5 layers, got 5");
    expect_config(&arch_gemma3n, "'intermediate_size':[4]",
                  "intermediate_size: must be a list of 2");
    expect_config(&arch_gemma3n, "'intermediate_size':[4,0]",
                  "intermediate_size: [1]: must be in [1, ");
    expect_config(&arch_gemma3n, "'intermediate_size':[4,1.5]",
                  "intermediate_size: must be a list of 2");
    expect_config(&arch_gemma3n, "'activation_sparsity_pattern':0.5",
                  "pattern: must be a list of 2");
    expect_config(&arch_gemma3n, "'activation_sparsity_pattern':[0.5,1.0]",
                  "pattern: [1]: must be below");
    expect_config(&arch_gemma3n, "'activation_sparsity_pattern':[0,0.95]", NULL);
    expect_config(&arch_gemma3n, "'altup_num_inputs':17", "altup_num_inputs: must be in [1, 16]");
    expect_config(&arch_gemma3n, "'altup_num_inputs':2,'altup_active_idx':2",
                  "must be below the 2 stre");
    expect_config(&arch_gemma3n, "'sliding_window':null", "sliding_window: must be at least 1");
    expect_config(&arch_gemma3n, "'hidden_size_per_layer_input':0",
                  "per_layer_input: must be in [1, ");
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
        for (int il = 0; il < 2; il++) {
            const struct layer_config *l = &r.m.config.layer[il];
            const double got = l->cuts_gates ? (double)l->gate_cut : -INFINITY,
                         want = cases[i].cut[il];
            if (!(got == want || fabs(got - want) < 1e-6))
                test_fail(__FILE__, __LINE__, "case %zu, layer %d: %g", i, il, got);
        }
        read_done(&r);
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
        expect_config(&arch_gemma4, cases[i].fields, cases[i].word);
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
        read_done(&r);
    }
    for (int i = 0; i < 2; i++) { /* the class has another name of its base */
        struct read r;
        read_config(&r, &arch_modernbert, i ? "'global_rope_theta':5" : "'rope_theta':5");
        EXPECT(r.rc == 0 && r.m.config.rope[ROPE_MAIN].base == (i ? 5 : 160000));
        read_done(&r);
    }
    expect_config(&arch_modernbert, "'sliding_window':0", "sliding_window: must be");
    expect_config(&arch_modernbert, "'local_attention':1", "local_attention: must be");
}

/* Goal: as in transformers, rope_scaling scales all layers of ModernBERT, and an object per type of
 * layer the layers of its type. Spellings that the class ignores are refused by name. */
TEST(config_ropes_of_modern_bert)
{
#define YARN "'rope_type':'yarn','factor':4.0,'original_max_position_embeddings':64"
    static const struct {
        const char *fields;
        enum rope_scaling scaling[2]; /* of the layers with all positions, and with a window */
        double base[2];
    } cases[] = {
        {"'rope_scaling':{" YARN "}", {ROPE_YARN, ROPE_YARN}, {160000, 10000}},
        {"'rope_scaling':{'rope_type':'linear','type':'yarn','factor':4,'rope_theta':77}",
         {ROPE_LINEAR, ROPE_LINEAR},
         {77, 77}},
        {"'rope_scaling':{'rope_type':'linear','factor':4},'global_rope_theta':5,"
         "'local_rope_theta':6",
         {ROPE_LINEAR, ROPE_LINEAR},
         {5, 6}},
        {"'rope_scaling':{'rope_type':'default','rope_theta':77}",
         {ROPE_NONE, ROPE_NONE},
         {77, 77}},
        {"'rope_scaling':{},'rope_parameters':{}", {ROPE_NONE, ROPE_NONE}, {160000, 10000}},
        {"'rope_scaling':null,'rope_parameters':{'full_attention':{'type':'yarn','factor':4.0,"
         "'rope_theta':5},'sliding_attention':{'rope_type':'default','rope_theta':6}}",
         {ROPE_YARN, ROPE_NONE},
         {5, 6}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read r;
        read_config(&r, &arch_modernbert, cases[i].fields);
        NEED_OK(r.rc, &r.e);
        const struct config *c = &r.m.config;
        for (int k = 0; k < 2; k++) {
            EXPECT_INT(c->rope[k].scaling, cases[i].scaling[k]);
            EXPECT(c->rope[k].base == cases[i].base[k]);
            EXPECT_INT(c->layer[k].rope, k);
        }
        EXPECT(i > 0 || (fabs(c->rope[1].magnitude - 1.1386294361119891) < 1e-9 &&
                         c->rope[1].context_original == 64 && c->rope[1].factor == 4));
        read_done(&r);
    }
    expect_config(&arch_modernbert, "'rope_scaling':{'type':'yarn','factor':4.0}",
                  "rope_type: is missing next to type");
    expect_config(&arch_modernbert, "'rope_scaling':{'factor':4.0}", "rope_type: is missing");
    expect_config(&arch_modernbert, "'rope_scaling':{'full_attention':{" YARN "}}",
                  "rope_scaling: must not have the object full_attention");
    expect_config(&arch_modernbert, "'rope_scaling':{" YARN "},'rope_parameters':{}",
                  "rope_scaling: must not come with rope_parameters");
    expect_config(&arch_modernbert, "'rope_parameters':{" YARN "}",
                  "rope_parameters: must have the objects full_attention and sliding_attention, "
                  "got rope_type");
    expect_config(&arch_modernbert, "'rope_parameters':{'rope_theta':5.0}",
                  "rope_parameters: must have the objects full_attention and sliding_attention");
    expect_config(&arch_modernbert,
                  "'rope_scaling':{'rope_type':'longrope','factor':2,'short_factor':[1],"
                  "'long_factor':[1]}",
                  "must not be longrope");
#undef YARN
}

/* Goal: the other classes with an object of rope parameters per type of layer ignore parameters
 * outside of these objects, or merge two sources. Such files are refused by name. */
TEST(config_ropes_per_type_of_layer)
{
#define LAYERS                                                                                     \
    "'rope_parameters':{'full_attention':{'rope_type':'default','rope_theta':5.0},"                \
    "'sliding_attention':{'rope_type':'default','rope_theta':5.0}}"
    static const struct arch *const nested[] = {&arch_gemma3, &arch_gemma3n, &arch_gemma_embedding,
                                                &arch_olmo3};
    for (size_t i = 0; i < sizeof nested / sizeof nested[0]; i++) {
        const struct arch *a = nested[i];
        expect_config(a, LAYERS, NULL);
        if (a != &arch_gemma3n)
            expect_config(a, "'rope_scaling':{'rope_type':'linear','factor':4.0}", NULL);
        expect_config(a, "'rope_scaling':{}," LAYERS, NULL);
        expect_config(a, "'rope_scaling':{'rope_type':'linear','factor':4.0}," LAYERS,
                      "rope_scaling: must not come with rope_parameters");
        expect_config(a, "'rope_parameters':{'rope_type':'default','rope_theta':300.0}",
                      "rope_parameters: must have the objects full_attention and "
                      "sliding_attention, got rope_type");
        expect_config(a, "'rope_scaling':{'type':'linear','factor':4.0}",
                      "rope_type: is missing next to type");
        expect_config(a, "'rope_scaling':{'full_attention':{'rope_type':'default'}}",
                      "rope_scaling: must not have the object full_attention");
        expect_config(a, "'rope_parameters':{'full_attention':0}",
                      "rope_parameters.full_attention: must be an object or null, got an integer");
        expect_config(a, "'rope_parameters':{'full_attention':[]}",
                      "rope_parameters.full_attention: must be an object or null, got an array");
    }
    expect_config(&arch_gemma4, "'rope_parameters':{'full_attention':{},'sliding_attention':0.5}",
                  "rope_parameters.sliding_attention: must be an object or null");
#undef LAYERS
}

/* Goal: the class of Phi-3 reads the context in training only at the top level, where 4096 is the
 * default. */
TEST(config_context_of_phi3)
{
#define LONG                                                                                       \
    "'hidden_size':8,'num_attention_heads':2,'max_position_embeddings':64,'rope_scaling':{"        \
    "'type':'longrope','short_factor':[1.0,1.0],'long_factor':[2.0,2.0],"                          \
    "'original_max_position_embeddings':32}"
    static const char *const fields[] = {LONG, LONG ",'original_max_position_embeddings':16"};
    for (int i = 0; i < 2; i++) {
        struct read r;
        read_config(&r, &arch_phi3, fields[i]);
        NEED_OK(r.rc, &r.e);
        EXPECT_INT(r.m.config.rope[ROPE_MAIN].context_original, i ? 16 : 4096);
        read_done(&r);
    }
#undef LONG
}

/* Goal: in Ministral 3, queries have the lists of divisors of keys, and their factor has the
 * context of training also for a scaling with another context. */
TEST(config_ropes_of_ministral3)
{
#define FIELDS                                                                                     \
    "'hidden_size':8,'head_dim':4,'num_attention_heads':2,'num_key_value_heads':1,"                \
    "'max_position_embeddings':64,'rope_parameters':{'llama_4_scaling_beta':0.1,"                  \
    "'original_max_position_embeddings':16,'rope_theta':10000.0,"
    static const char *const fields[] = {
        FIELDS "'rope_type':'longrope','short_factor':[1.0,1.0],'long_factor':[2.0,2.0]}",
        FIELDS "'rope_type':'dynamic','factor':4.0}"};
    for (int i = 0; i < 2; i++) {
        struct read r;
        read_config(&r, &arch_mistral3, fields[i]);
        NEED_OK(r.rc, &r.e);
        const struct rope_config *rope = r.m.config.rope;
        EXPECT_INT(rope[ROPE_MAIN].context_original, i ? 64 : 16);
        EXPECT_INT(rope[ROPE_QUERY].beta_context, 16);
        EXPECT(rope[ROPE_MAIN].beta == 0 && rope[ROPE_QUERY].beta == 0.1);
        EXPECT(rope[ROPE_QUERY].long_factor == rope[ROPE_MAIN].long_factor &&
               rope[ROPE_QUERY].short_factor == rope[ROPE_MAIN].short_factor);
        EXPECT(i || rope[ROPE_QUERY].long_factor);
        read_done(&r);
    }
#undef FIELDS
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
        expect_config(&arch_nomic_bert, bad[i][0], bad[i][1]);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct read r;
        read_config(&r, &arch_nomic_bert, good[i].fields);
        NEED_OK(r.rc, &r.e);
        EXPECT(r.m.config.rope[ROPE_MAIN].base == good[i].base);
        EXPECT(r.m.config.rms_eps == (float)good[i].eps && r.m.config.curve == good[i].curve);
        EXPECT_INT(r.m.config.d_ff, 48);
        read_done(&r);
    }
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
    read_done(&r);
    read_config(&r, &arch_minicpm3,
                "'q_lora_rank':null,'v_head_dim':24,'scale_depth':null,'dim_model_base':null");
    NEED_OK(r.rc, &r.e);
    EXPECT(latent_is(&r, 0, 256, 256 + 32, 40 * (64 + 24), 40 * 24));
    EXPECT(c->residual_scale == 1 && c->logit_scale == 1);
    read_done(&r);
    read_gguf(&r, &arch_minicpm3, (struct pair[2]){{"attention.key_length", 20}});
    NEED_OK(r.rc, &r.e);
    EXPECT(latent_is(&r, 24, 20, 20 + 8, c->n_head * (12 + 16), c->n_head * 16));
    EXPECT(c->d_head == 20 && c->rope[ROPE_MAIN].d_rot == 8 && c->embed_scale == 12);
    read_done(&r);
    read_gguf(&r, &arch_minicpm3, (struct pair[2]){{"attention.key_length", 8}});
    EXPECT(r.rc != 0 && strstr(r.e.text, "key_length: must be above rope.dimension_count 8"));
    read_done(&r);
    expect_config(&arch_minicpm3, "'num_key_value_heads':8",
                  "num_key_value_heads: must be the number of heads, 40, got 8");
    expect_config(&arch_minicpm3, "'hidden_size':2561", "must be a divisor of 2561, got 40");
    expect_config(&arch_minicpm3, "'scale_emb':null", "scale_emb: must be a number, got null");
    expect_config(&arch_minicpm3, "'dim_model_base':0", "dim_model_base: must be in [1, ");
    expect_config(&arch_minicpm3, "'qk_nope_head_dim':0", "qk_nope_head_dim: must be in [1, ");
    expect_config(&arch_minicpm3, "'qk_rope_head_dim':7", "qk_rope_head_dim: must be even, got 7");
    expect_config(&arch_minicpm3, "'kv_lora_rank':null",
                  "kv_lora_rank: must be an integer, got null");
    expect_config(&arch_minicpm3, "'head_dim':5,'qk_head_dim':7", NULL);
    expect_config(&arch_minicpm3, "'rope_scaling':{'type':'longrope','short_factor':[1.0]}",
                  "short_factor: must be a list of 16 numbers");
    snprintf(fields, sizeof fields, "%s0}", two);
    expect_config(&arch_minicpm3, fields, NULL);
    snprintf(fields, sizeof fields, "%s1}", two);
    expect_config(&arch_minicpm3, fields, "factor: is missing, and mscale_all_dim needs it");
}

/* Goal: DeepSeek's keys set the rule that selects experts, and sizes of latent attention in both
 * forms of a GGUF. */
TEST(rules_of_deepseek_are_read)
{
    struct read r;
    read_config(&r, &arch_deepseek3, "'num_hidden_layers':4");
    EXPECT_INT(r.rc, 0);
    const struct config *c = &r.m.config;
    EXPECT_INT(c->route.score, ROUTE_SIGMOID);
    EXPECT(c->route.normalize && c->route.group_pairs && c->route.factor == 2.5f);
    EXPECT_INT(c->route.n_group, 8);
    EXPECT_INT(c->route.n_group_used, 4);
    EXPECT_INT(c->layer[2].n_expert, 0);
    EXPECT_INT(c->layer[3].n_expert, 256);
    EXPECT_INT(c->layer[3].d_shared, 2048);
    EXPECT_INT(c->latent->d_nope, 128);
    EXPECT_INT(c->latent->kv_rank, 512);
    read_done(&r);
    read_config(&r, &arch_deepseek2,
                "'num_experts_per_tok':6,'topk_method':'greedy','n_group':8,'topk_group':3");
    EXPECT_INT(r.rc, 0);
    EXPECT_INT(r.m.config.route.score, ROUTE_SOFTMAX);
    EXPECT_INT(r.m.config.route.n_group, 0); /* the class ignores groups with this method */
    read_done(&r);
    expect_config(&arch_deepseek2, "'num_experts_per_tok':6,'topk_method':'noaux_tc'",
                  "topk_method: must be \"group_limited_greedy\", got \"noaux_tc\"");
    expect_config(&arch_deepseek2, "'num_experts_per_tok':6,'norm_topk_prob':true",
                  "norm_topk_prob");
    expect_config(&arch_deepseek3, "'scoring_func':'softmax'", "scoring_func: must be \"sigmoid\"");
    expect_config(&arch_deepseek3, "'moe_layer_freq':2", "moe_layer_freq");
    expect_config(&arch_deepseek3, "'n_group':7", "n_group: must be a divisor of 256 experts");
    expect_config(&arch_deepseek3, "'num_key_value_heads':1",
                  "num_key_value_heads: must be the number of heads, 128, got 1");
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
        read_done(&r);
    }
    expect_config(&arch_gemma3, "'use_bidirectional_attention':1", "must be 0, got 1");
    expect_config(&arch_gemma3,
                  "'use_bidirectional_attention':true,'architectures':['Gemma3ForCausalLM']",
                  "use_bidirectional_attention: must be 0, got true");
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
    read_done(&r);
    static const struct {
        const char *fields;
        float scale; /* factor of logits, with d_model 64 */
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
        read_done(&r);
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
        read_done(&r);
    }
    read_config(&r, &arch_mt5, "'tie_word_embeddings':true,'d_model':64");
    EXPECT(r.rc == 0 && c->logit_scale == 1 && !c->no_gate && c->n_encoder == 2);
    read_done(&r);
    expect_config(&arch_t5, "'num_hidden_layers':3,'num_layers':2",
                  "num_hidden_layers: must equal the field num_layers");
    expect_config(&arch_t5, "'feed_forward_proj':1", "feed_forward_proj: must be a name, got 1");
    expect_config(&arch_t5, "'feed_forward_proj':1,'dense_act_fn':'relu'",
                  "feed_forward_proj: must be a name, got 1");
    expect_config(&arch_t5, "'feed_forward_proj':'gated-mish'", "feed_forward_proj: must be silu");
    expect_config(&arch_t5, "'dense_act_fn':'gelu_10'", "dense_act_fn: must be silu");
    expect_config(&arch_t5, "'relative_attention_max_distance':16",
                  "relative_attention_max_distance: must be above half of the 32 buckets, got 16");
    expect_config(&arch_t5, "'relative_attention_num_buckets':3", "must be in [4, ");
    expect_config(&arch_t5, "'is_encoder_decoder':false",
                  "is_encoder_decoder: must be 1, got false");
    expect_config(&arch_t5, "'decoder_start_token_id':null", "decoder_start_token_id: is missing");
    expect_config(&arch_t5, "'decoder_start_token_id':-1",
                  "decoder_start_token_id: must be in [0, ");
}

/* Goal: BART's two sides have their own sizes. Positions begin at row 2 on both sides. */
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
    read_done(&r);
    read_config(&r, &arch_bart, "'activation_function':'relu','decoder_start_token_id':0");
    NEED_OK(r.rc, &r.e);
    EXPECT(c->n_layer - c->n_encoder == 12 && c->d == 1024 && c->layer[2].d_ff == 4096);
    EXPECT(c->curve == CURVE_relu && c->embed_scale == 1 && c->n_start == 1 && c->start[0] == 0);
    EXPECT(c->layer[0].kv_layer == 2); /* equal heads share the memory of a decoder's layer */
    read_done(&r);
    expect_config(&arch_bart, "'encoder_layers':3", "must equal the field");
    expect_config(&arch_bart,
                  "'d_model':48,'encoder_attention_heads':4,'decoder_attention_heads':5",
                  "decoder_attention_heads: must divide the width 48, got 5");
    expect_config(&arch_bart,
                  "'d_model':48,'encoder_attention_heads':5,'decoder_attention_heads':4",
                  "encoder_attention_heads: must divide the width 48, got 5");
    expect_config(&arch_bart, "'is_encoder_decoder':false",
                  "is_encoder_decoder: must be 1, got false");
    expect_config(&arch_bart, "'normalize_before':true", "normalize_before: must be 0, got true");
    expect_config(&arch_bart, "'extra_pos_embeddings':3", "extra_pos_embeddings: must be 2, got 3");
    expect_config(&arch_bart, "'max_position_embeddings':2147483647",
                  "max_position_embeddings: must be in");
    expect_config(&arch_bart, "'num_hidden_layers':4000,'decoder_layers':97",
                  "decoder_layers: must be at most 96, got 97");
    expect_config(&arch_bart, "'decoder_layers':0", "decoder_layers: must be in [1, 4096], got 0");
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
        read_done(&r);
    }
    EXPECT_INT(remove(temp_path("generation_config.json")), 0); /* other tests read the folder */
}
