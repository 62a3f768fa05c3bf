/* reason_think.c - reasoning as <think>...</think> (DeepSeek R1, Qwen 3 and many others). */
#include "chat/parser_impl.h"

const struct reason_family reason_think = {
    .name = "think", .open = {"<think>"}, .close = {"</think>"}};
