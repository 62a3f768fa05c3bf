/* tool_command_r.c - a list of calls in a code block after "Action:" (Command R and R+).
 *
 *   Action:
 *   ```json
 *   [{"tool_name": "get_weather", "parameters": {"city": "Rome"}}]
 *   ```
 *
 * Later models of Cohere have <|START_ACTION|>. `lacks` excludes the templates of these models. */
#include "chat/parser_impl.h"

const struct tool_family tool_command_r = {
    .name = "command_r",
    .has = {"Action:", "```json", "tool_name"},
    .lacks = "<|START_ACTION|>",
    .begin = {"Action:\n```json\n"},
    .body = {{CALL_LIST, .name_key = "tool_name", .arguments_key = {"parameters"}}},
    .end = {"```"},
    .drop = {"<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
    .text = {{.begin = "Action:\n```json\n[",
              .open = "{\"tool_name\": \"",
              .middle = "\", \"parameters\": ",
              .close = "}",
              .between = ", ",
              .end = "]\n```",
              .quoted = true}},
};
