/* tool_granite.c - a list of calls after <|tool_call|> (Granite 3), or one object after
 * <function_call> (Granite 20B).
 *
 *   <|tool_call|>[{"name": "get_weather", "arguments": {"city": "Rome"}}]
 *   <function_call>{"name": "get_weather", "arguments": {"city": "Rome"}} */
#include "chat/parser_impl.h"

const struct tool_family tool_granite = {
    .name = "granite",
    .alias = {"granite-20b-fc"},
    .has = {"<|tool_call|>"},
    .begin = {"<|tool_call|>", "<function_call>"},
    .body = {{CALL_LIST, .name_key = "name", .arguments_key = {"arguments", "parameters"}},
             {CALL_OBJECT, .name_key = "name", .arguments_key = {"arguments", "parameters"}}},
    .text = {CALL_TEXT_LIST("<|tool_call|>", "")},
};
