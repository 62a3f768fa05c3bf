/* tool_minimax_m3.c - calls as <invoke name="NAME"> with <KEY> for each argument (MiniMax M3). Each
 * tag follows its own mark. Objects and lists are nested tags.
 *
 *   ]<]minimax[>[<tool_call>
 *   ]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<city>Rome]<]minimax[>[</city>
 *   ]<]minimax[>[</invoke>]<]minimax[>[</tool_call> */
#include "chat/parser_impl.h"

const struct tool_family tool_minimax_m3 = {
    .name = "minimax_m3",
    .has = {"]<]minimax[>["},
    .section_begin = "]<]minimax[>[<tool_call>\n",
    .section_end = {"]<]minimax[>[</tool_call>"},
    .begin = {"]<]minimax[>[<invoke name=\""},
    .body = {{CALL_MARKED, .name_end = "\">", .key_begin = "]<]minimax[>[<", .key_end = {">"},
              .value_end = "]<]minimax[>[</", .nested = true}},
    .end = {"]<]minimax[>[</invoke>"},
    .text = {{.begin = "]<]minimax[>[<tool_call>\n",
              .open = "]<]minimax[>[<invoke name=\"",
              .middle = "\">",
              .close = "]<]minimax[>[</invoke>\n",
              .end = "]<]minimax[>[</tool_call>",
              .style = "minimax_m3_xml"}},
};
