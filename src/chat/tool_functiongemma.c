/* tool_functiongemma.c - calls as call:NAME{KEY:VALUE}, with strings between <escape>
 * (FunctionGemma). */
#include "chat/parser_impl.h"

const struct tool_family tool_functiongemma = {
    .name = "functiongemma",
    .has = {"<start_function_call>", "<escape>"},
    .begin = {"<start_function_call>call:"},
    .body = {{CALL_MARKED, .name_end = "{", .key_end = {":"}, .argument_separator = ",",
              .value = VALUE_BARE, .string_mark = "<escape>"}},
    .end = {"}", "<end_function_call>"},
};
