/* reason_hunyuan_a13b.c - reasoning as <think>...</think>, answer as <answer>...</answer> (Hunyuan
 * A13B). */
#include "chat/parser_impl.h"

const struct reason_family reason_hunyuan_a13b = {
    .name = "hunyuan_a13b",
    .has = {"<think>", "<answer>"},
    .open = {"<think>"},
    .close = {"</think>"},
    .drop = {"<answer>", "</answer>"},
};
