/* gpt_oss_convert.c - conversion of gpt-oss: names of the experts' biases in a directory. */
#include "gpt_oss_impl.h"

#include "model/convert_impl.h"

static const struct name_pair names[] = {
    {".ffn_gate_up_exps_bias.weight", ".ffn_gate_up_exps.bias"},
    {".ffn_down_exps_bias.weight", ".ffn_down_exps.bias"},
    {0}};
static const char *const f32[] = {"_exps.bias", NULL};
const struct arch_convert gpt_oss_convert = {.f32 = f32, .name = names};
