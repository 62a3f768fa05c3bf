/* tool_glm47.c - calls as <tool_call>NAME with <arg_key> and <arg_value> for each argument (GLM
 * 4.7, Laguna S). Arguments are raw text without line breaks.
 *
 *   <tool_call>get_weather<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call> */
#include "chat/parser_impl.h"

const struct tool_family tool_glm47 = {
    .name = "glm47",
    .has = {"<arg_key>", "</arg_key><arg_value>"},
    .begin = {"<tool_call>"},
    .body = {{CALL_MARKED, .name_end = "", .key_begin = "<arg_key>",
              .key_end = {"</arg_key><arg_value>"}, .value_end = "</arg_value>"}},
    .end = {"</tool_call>"},
    .separator = "",
    .text = {{.open = "<tool_call>", .close = "</tool_call>", .style = "glm_xml"}},
};
