/* tool_llama3_json.c - a message that is {"name": ..., "parameters": {...}}, or several with "; "
 * between them (Llama 3.1 to 3.3). A call has no mark: any other message is content. */
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
