/* Goal: opening an adapter with a failing allocation returns ERR_MEMORY or the adapter, and leaks
 * no memory. Method: a small adapter for a golden model. Each allocation fails once. */
#include "../alloc.h"
#include "../safetensors_make.h"
#include "../unit.h"

#include "../../src/adapter/adapter.h"

static int open_and_close(const struct model *m, struct backend *b, const char *word, struct err *e)
{
    struct additions a = {0};
    const struct text_list named = {.v = &word, .n = 1};
    int rc = adapters_open(&a, NULL, &named, e);
    if (rc == 0) rc = adapters_bind(&a, m, b, e);
    if (rc == 0 &&
        (a.n_set != 2 || !a.set[1].add || !a.inner || !a.outer || a.n_byte != (16 * 64 + 32) * 4))
        test_fail(__FILE__, __LINE__, "%d sets", a.n_set);
    adapters_close(&a);
    return rc;
}

TEST(adapters_survive_a_failing_allocation)
{
    struct err e = {0};
    struct checkpoint *c;
    struct backend *b;
    struct model *m;
    char word[300];
    if (!repo_path("tests/golden/llama3/model.gguf")) SKIP("tests/golden is not here");
    NEED(temp_put(
        "tiny/adapter_config.json",
        "{\"peft_type\":\"LORA\",\"r\":1,\"bias\":\"none\",\"rank_pattern\":{\"v_proj\":1},"
        "\"target_modules\":[\"v_proj\"]}"));
    NEED(safetensors_write(temp_path("tiny/adapter_model.safetensors"),
                           "{'base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight':"
                           "{'dtype':'BF16','shape':[1,64],'data_offsets':[0,128]},"
                           "'base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight':"
                           "{'dtype':'BF16','shape':[32,1],'data_offsets':[128,192]}}",
                           192) == 0);
    snprintf(word, sizeof word, "tiny=%s", temp_path("tiny"));
    NEED_OK(checkpoint_open(&c, repo_path("tests/golden/llama3/model.gguf"), &e), &e);
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    const struct model_options o = {
        .backend = b, .context_max = 64, .batch = {.n_row = 8, .n_seq = 1, .n_out = 8}};
    NEED_OK(model_open(&m, c, &o, &e), &e);
    NEED_OK(open_and_close(m, b, word, &e), &e);
    alloc_fail(UINT64_MAX, 0);
    NEED_OK(open_and_close(m, b, word, &e), &e);
    const int n_allocation = (int)alloc_fail_end();
    int n_run = 0;
    bool hit = true;
    for (uint64_t n = 0; hit; n++, n_run++) {
        alloc_fail(n, 1);
        int rc = open_and_close(m, b, word, &e);
        hit = alloc_fail_end() > n;
        if (rc != 0 && rc != ERR_MEMORY)
            test_fail(__FILE__, __LINE__, "allocation %llu: code %d, %s", (unsigned long long)n, rc,
                      e.text);
        EXPECT(rc == 0 || hit);
    }
    EXPECT(n_allocation > 5);
    EXPECT_INT(n_run, n_allocation + 1);
    model_close(m);
    backend_close(b);
    checkpoint_close(c);
}
