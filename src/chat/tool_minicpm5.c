/* tool_minicpm5.c - calls as <function name="NAME"> with <param name="KEY"> for each argument
 * (MiniCPM 5). Arguments are raw text or CDATA.
 *
 *   <function name="get_weather"><param name="city">Rome</param></function>
 *   <function name="run"><param name="code"><![CDATA[if (a < b) return;]]></param></function> */
#include "chat/parser_impl.h"

const struct tool_family tool_minicpm5 = {
    .name = "minicpm5",
    .has = {"<function name=\"", "<param name=\""},
    .begin = {"<function name=\""},
    .body = {{CALL_MARKED, .name_end = "\">", .key_begin = "<param name=\"", .key_end = {"\">"},
              .value_end = "</param>", .verbatim = {"<![CDATA[", "]]>"}}},
    .end = {"</function>"},
    .separator = "\n",
    .text = {{.open = "<function name=\"",
              .middle = "\">",
              .close = "</function>",
              .between = "\n",
              .style = "minicpm5_xml"}},
};
