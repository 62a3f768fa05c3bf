/* tool_pythonic.c - a message that is a list of calls in the syntax of Python (Llama 3.2, ToolACE).
 *
 *   [get_weather(city="Rome", days=3), get_time(city="Rome")] */
#include "chat/parser_impl.h"

const struct tool_family tool_pythonic = {
    .name = "pythonic",
    .section_begin = "[",
    .section_end = {"]"},
    .body = {{CALL_MARKED, .name_end = "(", .key_end = {"="}, .argument_separator = ", ",
              .value = VALUE_PYTHON}},
    .end = {")"},
    .separator = ", ",
    .start_only = true,
    .text = {CALL_TEXT_PYTHON("[", ", ", "]")},
};
