/* tool_deepseek_v4.c - calls in DSML (DeepSeek V4). Only the mark around all calls differs from
 * DeepSeek V3.2.
 *
 *   <｜DSML｜tool_calls>
 *   <｜DSML｜invoke name="get_weather">
 *   <｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter>
 *   </｜DSML｜invoke>
 *   </｜DSML｜tool_calls> */
#include "chat/parser_impl.h"

const struct tool_family tool_deepseek_v4 = {
    .name = "deepseek_v4",
    .has = {"DSML", "tool_calls"},
    .section_begin = "<｜DSML｜tool_calls>\n",
    .section_end = {"</｜DSML｜tool_calls>"},
    .begin = {"<｜DSML｜invoke name=\""},
    .body = {{CALL_MARKED, .name_end = "\">\n", .key_begin = "<｜DSML｜parameter name=\"",
              .key_end = {"\" string=\"true\">", "\" string=\"false\">"},
              .value_end = "</｜DSML｜parameter>\n"}},
    .end = {"</｜DSML｜invoke>"},
    .text = {{.begin = "<｜DSML｜tool_calls>\n",
              .open = "<｜DSML｜invoke name=\"",
              .middle = "\">\n",
              .close = "</｜DSML｜invoke>\n",
              .end = "</｜DSML｜tool_calls>",
              .style = "deepseek_xml"}},
};
