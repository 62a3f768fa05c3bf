/* reason_think.c - reasoning as <think>...</think> (DeepSeek R1, Qwen 3 and many others).
 *
 *   <think>
 *   The user wants ...
 *   </think>
 *
 *   It is ...
 *
 * Most models that reason have these marks, so new names usually become aliases here. */
#include "chat/parser_impl.h"

const struct reason_family reason_think = {
    .name = "think",
    .alias = {"deepseek_r1", "deepseek_v3", "qwen3", "glm45", "kimi_k2", "minimax_m2",
              "nemotron_v3", "olmo3", "step3", "step3p5", "holo2", "minimax_m2_append_think"},
    .open = {"<think>"},
    .close = {"</think>"},
};
