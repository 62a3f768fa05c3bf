/* tool_gemma4.c - calls as call:NAME{KEY:VALUE}, with strings between marks (Gemma 4).
 *
 *   <|tool_call>call:get_weather{city:<|"|>Rome<|"|>,days:3}<tool_call|> */
#include "chat/parser_impl.h"

const struct tool_family tool_gemma4 = {
    .name = "gemma4",
    .has = {"<|tool_call>", "call:"},
    .begin = {"<|tool_call>call:"},
    .body = {{CALL_MARKED, .name_end = "{", .key_end = {":"}, .argument_separator = ",",
              .value = VALUE_BARE, .string_mark = "<|\"|>"}},
    .end = {"}", "<tool_call|>"},
    .text =
        {{.open = "<|tool_call>call:", .middle = "{", .close = "}<tool_call|>", .style = "bare"}},
};
