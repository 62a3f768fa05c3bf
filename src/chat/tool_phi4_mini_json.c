/* tool_phi4_mini_json.c - a list of calls after "functools" (Phi-4 mini).
 *
 *   functools[{"name": "get_weather", "arguments": {"city": "Rome"}}] */
#include "chat/parser_impl.h"

const struct tool_family tool_phi4_mini_json = {
    .name = "phi4_mini_json",
    .alias = {"firefunction"},
    .has = {"functools["},
    .begin = {"functools"},
    .body = {{CALL_LIST, .name_key = "name", .arguments_key = {"arguments", "parameters"}}},
    .text = {CALL_TEXT_LIST("functools", "")},
};
