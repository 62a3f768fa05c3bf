/* tool_olmo3.c - calls in the syntax of Python, each in a line, in <function_calls> (Olmo 3).
 *
 *   <function_calls>
 *   get_weather(city="Rome", days=3)
 *   get_time(city="Rome")
 *   </function_calls> */
#include "chat/parser_impl.h"

const struct tool_family tool_olmo3 = {
    .name = "olmo3",
    .has = {"<function_calls>"},
    .section_begin = "<function_calls>",
    .section_end = {"</function_calls>"},
    .body = {{CALL_MARKED, .name_end = "(", .key_end = {"="}, .argument_separator = ", ",
              .value = VALUE_PYTHON}},
    .end = {")"},
    .separator = "\n",
    .text = {CALL_TEXT_PYTHON("<function_calls>", "\n", "</function_calls>")},
};
