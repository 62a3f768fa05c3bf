/* tool_xlam.c - a message that is a list of calls (xLAM). The list may follow a mark or be in a
 * code block.
 *
 *   [{"name": "get_weather", "arguments": {"city": "Rome"}}] */
#include "chat/parser_impl.h"

const struct tool_family tool_xlam = {
    .name = "xlam",
    .begin = {"<tool_call>", "```json", ""},
    .body = {{CALL_LIST, .name_key = "name", .arguments_key = {"arguments", "parameters"}}},
    .end = {"</tool_call>"},
    .start_only = true,
    .text = {CALL_TEXT_LIST("", "")},
};
