/* bind_test.c - goal: only the pooler of pretraining is left out of an encoder without a
 * classifier. Other tensors of a classifier are rejected. */
#include "../../tests/unit.h"
#include "model_impl.h"

TEST(only_the_pooler_of_an_encoder_is_left_out)
{
    static const struct {
        const char *name;
        bool left_out;
    } cases[] = {{"cls.weight", true},     {"cls.bias", true},         {"cls.norm.weight", false},
                 {"cls.norm.bias", false}, {"cls.output.bias", false}, {"cls.weight_scale", false}};
    struct checkpoint *c;
    struct model m = {.arch = &arch_modernbert};
    struct err e;
    char why[WHY_BYTES];
    if (!repo_path("tests/golden/encoders/modernbert/model.gguf")) SKIP("tests/golden is not here");
    NEED_OK(checkpoint_open(&c, repo_path("tests/golden/encoders/modernbert/model.gguf"), &e), &e);
    struct binder b = {.m = &m, .checkpoint = c, .e = &e, .part = "", .drops_pooler = true};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tensor_info t = {.name = cases[i].name, .name_raw = cases[i].name};
        if (bind_left_out(&b, &t, why) != cases[i].left_out)
            test_fail(__FILE__, __LINE__, "%s", cases[i].name);
    }
    checkpoint_close(c);
}
