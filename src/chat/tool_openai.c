/* tool_openai.c - channels of messages: analysis, commentary with calls, final (gpt-oss). harmony.c
 * parses the whole message.
 *
 *   <|channel|>analysis<|message|>The user wants ...<|end|>
 *   <|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json
 *   <|message|>{"city": "Rome"}<|call|>                            (written without line breaks) */
#include "chat/parser_impl.h"

const struct tool_family tool_openai = {
    .name = "openai",
    .alias = {"harmony"},
    .has = {"<|channel|>", "<|message|>"},
    .step = harmony_step,
    .text = {{.open = "<|channel|>commentary to=functions.",
              .middle = " <|constrain|>json<|message|>",
              .single = true}},
};
