/* tool_deepseek_v32.c - calls in DSML (DeepSeek V3.2). The tag of each argument contains its type,
 * text or JSON.
 *
 *   <｜DSML｜function_calls>
 *   <｜DSML｜invoke name="get_weather">
 *   <｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter>
 *   <｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>
 *   </｜DSML｜invoke>
 *   </｜DSML｜function_calls> */
#include "chat/parser_impl.h"

const struct tool_family tool_deepseek_v32 = {
    .name = "deepseek_v32",
    .has = {"DSML", "function_calls"},
    .section_begin = "<｜DSML｜function_calls>\n",
    .section_end = {"</｜DSML｜function_calls>"},
    .begin = {"<｜DSML｜invoke name=\""},
    .body = {{CALL_MARKED, .name_end = "\">\n", .key_begin = "<｜DSML｜parameter name=\"",
              .key_end = {"\" string=\"true\">", "\" string=\"false\">"},
              .value_end = "</｜DSML｜parameter>\n"}},
    .end = {"</｜DSML｜invoke>"},
    .text = {{.begin = "<｜DSML｜function_calls>\n",
              .open = "<｜DSML｜invoke name=\"",
              .middle = "\">\n",
              .close = "</｜DSML｜invoke>\n",
              .end = "</｜DSML｜function_calls>",
              .style = "deepseek_xml"}},
};
