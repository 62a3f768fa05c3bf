/* tool_hermes.c - calls as <tool_call>{"name": ..., "arguments": {...}}</tool_call> (Hermes, Qwen
 * 2.5 and 3). Models also write "parameters" for "arguments". Ids are ignored: an id written by the
 * model may repeat one of the conversation. */
#include "chat/parser_impl.h"

const struct tool_family tool_hermes = {
    .name = "hermes",
    .alias = {"granite4", "ernie45", "smollm3", "reka", "mimo"},
    .has = {"<tool_call>", "\"name"},
    .begin = {"<tool_call>\n"},
    .body = {{CALL_OBJECT, .name_key = "name", .arguments_key = {"arguments", "parameters"}}},
    .end = {"</tool_call>"},
    .text = {{.open = "<tool_call>\n{\"name\": \"",
              .middle = "\", \"arguments\": ",
              .close = "}\n</tool_call>",
              .between = "\n",
              .quoted = true}},
};
