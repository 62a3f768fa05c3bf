/* tool_hermes.c - calls as <tool_call>{"name": ..., "arguments": {...}}</tool_call> (Hermes, Qwen
 * 2.5 and 3). Models also write "parameters" for "arguments". Ids are ignored, because the model
 * may repeat an id of the conversation.
 *
 *   <tool_call>
 *   {"name": "get_weather", "arguments": {"city": "Rome"}}
 *   </tool_call>
 *
 * Families with the same form, such as granite4 and ernie45, are aliases. The templates of
 * qwen3_coder have other marks inside <tool_call>, so `has` requires a quoted name. */
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
