/* tool_llama4_pythonic.c - a message that is a list of calls in the syntax of Python (Llama 4). The
 * list may be between marks.
 *
 *   <|python_start|>[get_weather(city="Rome", days=3)]<|python_end|> */
#include "chat/parser_impl.h"

const struct tool_family tool_llama4_pythonic = {
    .name = "llama4_pythonic",
    .has = {"<|python_start|>"},
    .section_begin = "<|python_start|>[",
    .section_end = {"]", "<|python_end|>"},
    .begin = {"[", ""},
    .body = {{CALL_MARKED, .name_end = "(", .key_end = {"="}, .argument_separator = ", ",
              .value = VALUE_PYTHON}},
    .end = {")"},
    .separator = ", ",
    .start_only = true,
    .text = {CALL_TEXT_PYTHON("<|python_start|>[", ", ", "]<|python_end|>")},
};
