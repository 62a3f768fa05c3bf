/* tool_llama3_json.c - a message that is {"name": ..., "parameters": {...}} (Llama 3.1 to 3.3).
 * Several calls have "; " between them. A call has no mark, so any other message is content.
 *
 *   {"name": "get_weather", "parameters": {"city": "Rome"}}; {"name": "get_time", "parameters":
 * {}} */
#include "chat/parser_impl.h"

const struct tool_family tool_llama3_json = {
    .name = "llama3_json",
    .alias = {"llama4_json"},
    .has = {"Respond in the format {\"name\": function name, \"parameters\""},
    .body = {{CALL_OBJECT, .name_key = "name", .arguments_key = {"parameters", "arguments"}}},
    .begin = {"<|python_tag|>", ""},
    .separator = "; ",
    .text = {{.open = "{\"name\": \"",
              .middle = "\", \"parameters\": ",
              .close = "}",
              .between = "; ",
              .quoted = true}},
};
