/* peft_fuzz.c - mutated adapter_config.json files, and the ranks and scales that they give. */
#include "../../tests/fuzz/fuzz.h"

#include "adapter_impl.h"

#include <assert.h>
#include <stdlib.h>

FUZZ(adapter_config)
{
    static const char *const modules[] = {"model.layers.0.self_attn.q_proj",
                                          "model.layers.11.mlp.down_proj"};
    struct peft p = {0};
    struct err e = {0};
    int rc = peft_open(&p, fuzz_file(data, n, ".json"), &e);
    assert((rc == 0) == (e.text[0] == 0));
    int *target = calloc(peft_n_target(&p) + 1, sizeof *target);
    for (int i = 0; i < 2 && rc == 0 && target; i++) {
        int64_t rank;
        float scale;
        fuzz_accepted();
        assert(peft_module(&p, modules[i], &rank, &scale, &e) != 0 || rank >= 1);
        (void)peft_is_target(&p, modules[i], target, &e);
    }
    free(target);
    peft_close(&p);
}
