/* tool_qwen3_coder.c - calls as <tool_call><function=NAME> with <parameter=KEY> for each argument
 * (Qwen 3 Coder, Qwen 3.5, Nemotron 3, Step 3.5). Arguments are raw text. Models sometimes omit
 * <tool_call>.
 *
 *   <tool_call>
 *   <function=get_weather>
 *   <parameter=city>
 *   Rome
 *   </parameter>
 *   </function>
 *   </tool_call>
 *
 * The line breaks around a value belong to the marks, so that a value may have its own. */
#include "chat/parser_impl.h"

const struct tool_family tool_qwen3_coder = {
    .name = "qwen3_coder",
    .alias = {"qwen3_xml", "step3p5", "nemotron_v3"},
    .has = {"<tool_call>", "<function=", "<parameter="},
    .begin = {"<tool_call>\n<function=", "<function="},
    .body = {{CALL_MARKED, .name_end = ">\n", .key_begin = "<parameter=", .key_end = {">\n"},
              .value_end = "\n</parameter>\n"}},
    .end = {"</function>", "</tool_call>"},
    .separator = "\n",
    .keep_blank = true,
    .text = {{.open = "<tool_call>\n<function=",
              .middle = ">\n",
              .close = "</function>\n</tool_call>",
              .between = "\n",
              .style = "qwen3_coder_xml"}},
};
