/* tool_xlam.c - a message that is a list of calls, perhaps after a mark or in a code block (xLAM). */
#include "chat/parser_impl.h"

const struct tool_family tool_xlam = {
    .name = "xlam",
    .begin = {"<tool_call>", "```json", ""},
    .body = {{CALL_LIST, .name_key = "name", .arguments_key = {"arguments", "parameters"}}},
    .end = {"</tool_call>"},
    .start_only = true,
    .text = {CALL_TEXT_LIST("", "")},
};
