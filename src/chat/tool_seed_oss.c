/* tool_seed_oss.c - calls as <seed:tool_call><function=NAME> with <parameter=KEY> for each argument
 * (Seed-OSS). Arguments are raw text.
 *
 *   <seed:tool_call>
 *   <function=get_weather>
 *   <parameter=city>Rome</parameter>
 *   </function>
 *   </seed:tool_call> */
#include "chat/parser_impl.h"

const struct tool_family tool_seed_oss = {
    .name = "seed_oss",
    .has = {"<seed:tool_call>", "<function=", "<parameter="},
    .begin = {"<seed:tool_call>\n<function="},
    .body = {{CALL_MARKED, .name_end = ">\n", .key_begin = "<parameter=", .key_end = {">"},
              .value_end = "</parameter>\n"}},
    .end = {"</function>", "</seed:tool_call>"},
    .separator = "\n",
    .text = {{.open = "<seed:tool_call>\n<function=",
              .middle = ">\n",
              .close = "</function>\n</seed:tool_call>",
              .between = "\n",
              .style = "qwen_xml"}},
};
