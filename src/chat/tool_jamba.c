/* tool_jamba.c - a list of calls in <tool_calls> (Jamba, Apriel, Hunyuan A13B).
 *
 *   <tool_calls>[{"name": "get_weather", "arguments": {"city": "Rome"}}]</tool_calls> */
#include "chat/parser_impl.h"

const struct tool_family tool_jamba = {
    .name = "jamba",
    .alias = {"apriel", "hunyuan_a13b"},
    .has = {"<tool_calls>"},
    .begin = {"<tool_calls>"},
    .body = {{CALL_LIST, .name_key = "name", .arguments_key = {"arguments", "parameters"}}},
    .end = {"</tool_calls>"},
    .text = {CALL_TEXT_LIST("<tool_calls>", "</tool_calls>")},
};
