/* tool_longcat.c - calls as JSON in <longcat_tool_call> (LongCat).
 *
 *   <longcat_tool_call>
 *   {"name": "get_weather", "arguments": {"city": "Rome"}}
 *   </longcat_tool_call> */
#include "chat/parser_impl.h"

const struct tool_family tool_longcat = {
    .name = "longcat",
    .has = {"<longcat_tool_call>"},
    .begin = {"<longcat_tool_call>"},
    .body = {{CALL_OBJECT, .name_key = "name", .arguments_key = {"arguments", "parameters"}}},
    .end = {"</longcat_tool_call>"},
    .separator = "\n",
    .text = {{.open = "<longcat_tool_call>\n{\"name\": \"",
              .middle = "\", \"arguments\": ",
              .close = "}\n</longcat_tool_call>",
              .between = "\n",
              .quoted = true}},
};
