/* tool_minimax_m2.c - calls as <invoke name="NAME"> with <parameter name="KEY"> for each argument
 * (MiniMax M2). Arguments are raw text. All calls are in <minimax:tool_call>.
 *
 *   <minimax:tool_call>
 *   <invoke name="get_weather">
 *   <parameter name="city">Rome</parameter>
 *   </invoke>
 *   </minimax:tool_call> */
#include "chat/parser_impl.h"

const struct tool_family tool_minimax_m2 = {
    .name = "minimax_m2",
    .alias = {"minimax"},
    .has = {"minimax:tool_call", "<invoke name="},
    .section_begin = "<minimax:tool_call>\n",
    .section_end = {"</minimax:tool_call>"},
    .begin = {"<invoke name=\""},
    .body = {{CALL_MARKED, .name_end = "\">\n", .key_begin = "<parameter name=\"",
              .key_end = {"\">"}, .value_end = "</parameter>\n"}},
    .end = {"</invoke>"},
    .text = {{.begin = "<minimax:tool_call>\n",
              .open = "<invoke name=\"",
              .middle = "\">\n",
              .close = "</invoke>\n",
              .end = "</minimax:tool_call>",
              .style = "minimax_xml"}},
};
