/* tool_internlm.c - a call after <|action_start|><|plugin|> (InternLM 2).
 *
 *   <|action_start|><|plugin|>{"name": "get_weather", "parameters": {"city":
 * "Rome"}}<|action_end|> */
#include "chat/parser_impl.h"

const struct tool_family tool_internlm = {
    .name = "internlm",
    .has = {"<|action_start|>", "<|plugin|>"},
    .begin = {"<|action_start|><|plugin|>"},
    .body = {{CALL_OBJECT, .name_key = "name", .arguments_key = {"parameters", "arguments"}}},
    .end = {"<|action_end|>"},
    .text = {{.open = "<|action_start|><|plugin|>{\"name\": \"",
              .middle = "\", \"parameters\": ",
              .close = "}<|action_end|>",
              .quoted = true,
              .single = true}},
};
