/* tool_deepseek_v32.c - calls in DSML, with a tag for each argument that declares it to be text or
 * JSON (DeepSeek V3.2). */
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
