/* tool_olmo3.c - calls in the syntax of Python, each in a line, in <function_calls> (Olmo 3). */
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
};
