/* tool_deepseek_v4.c - calls in DSML, as in DeepSeek V3.2 with another mark around all (DeepSeek
 * V4). */
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
