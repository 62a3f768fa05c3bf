/* tool_functiongemma.c - calls as call:NAME{KEY:VALUE}, with strings between <escape>
 * (FunctionGemma).
 *
 *   <start_function_call>call:get_weather{city:<escape>Rome<escape>,days:3}<end_function_call> */
#include "chat/parser_impl.h"

const struct tool_family tool_functiongemma = {
    .name = "functiongemma",
    .has = {"<start_function_call>", "<escape>"},
    .begin = {"<start_function_call>call:"},
    .body = {{CALL_MARKED, .name_end = "{", .key_end = {":"}, .argument_separator = ",",
              .value = VALUE_BARE, .string_mark = "<escape>"}},
    .end = {"}", "<end_function_call>"},
    .text = {{.open = "<start_function_call>call:",
              .middle = "{",
              .close = "}<end_function_call>",
              .style = "bare"}},
};
