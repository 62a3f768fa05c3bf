/* tool_gigachat3.c - calls after a message mark or after <|function_call|> (GigaChat 3 and 3.1).
 *
 *   <|function_call|>{"name": "get_weather", "arguments": {"city": "Rome"}}          3.1
 *   <|message_sep|>
 *
 *   function call<|role_sep|>
 *   {"name": "get_weather", "arguments": {"city": "Rome"}}                           3
 *
 * A message has one call only. The template's source selects the written form. */
#include "chat/parser_impl.h"

const struct tool_family tool_gigachat3 = {
    .name = "gigachat3",
    .has = {"<|role_sep|>", "function"},
    .begin = {"<|function_call|>", "<|message_sep|>\n\nfunction call<|role_sep|>\n"},
    .body = {{CALL_OBJECT, .name_key = "name", .arguments_key = {"arguments", "parameters"}}},
    .text = {{.has = "<|function_call|>",
              .open = "<|function_call|>{\"name\": \"",
              .middle = "\", \"arguments\": ",
              .close = "}",
              .quoted = true,
              .single = true},
             {.open = "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"",
              .middle = "\", \"arguments\": ",
              .close = "}",
              .quoted = true,
              .single = true}},
};
