/* reason_openai_gptoss.c - the analysis channel (gpt-oss). harmony.c parses the whole message. */
#include "chat/parser_impl.h"

const struct reason_family reason_openai_gptoss = {
    .name = "openai_gptoss",
    .has = {"<|channel|>", "<|message|>"},
    .open = {"<|channel|>analysis<|message|>"},
    .close = {"<|end|>"},
    .step = harmony_step,
};
