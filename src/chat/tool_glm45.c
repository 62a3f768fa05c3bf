/* tool_glm45.c - calls as <tool_call>NAME with <arg_key> and <arg_value> for each argument (GLM 4.5
 * and 4.6, Laguna XS). Arguments are raw text.
 *
 *   <tool_call>get_weather
 *   <arg_key>city</arg_key>
 *   <arg_value>Rome</arg_value>
 *   </tool_call> */
#include "chat/parser_impl.h"

const struct tool_family tool_glm45 = {
    .name = "glm45",
    .has = {"<arg_key>", "<arg_value>"},
    .begin = {"<tool_call>"},
    .body = {{CALL_MARKED, .name_end = "\n", .key_begin = "<arg_key>",
              .key_end = {"</arg_key>\n<arg_value>"}, .value_end = "</arg_value>\n"}},
    .end = {"</tool_call>"},
    .separator = "\n",
    .text = {{.open = "<tool_call>",
              .middle = "\n",
              .close = "\n</tool_call>",
              .between = "\n",
              .style = "glm_xml"}},
};
