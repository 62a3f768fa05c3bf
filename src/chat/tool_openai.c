/* tool_openai.c - channels of messages: analysis, commentary with calls, final (gpt-oss). The
 * whole message is read by harmony.c. */
#include "chat/parser_impl.h"

const struct tool_family tool_openai = {
    .name = "openai",
    .alias = {"harmony"},
    .has = {"<|channel|>", "<|message|>"},
    .step = harmony_step,
};
