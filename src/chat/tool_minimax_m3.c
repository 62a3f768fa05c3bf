/* tool_minimax_m3.c - calls as <invoke name="NAME"> with <KEY> for each argument, each tag after a
 * mark of its own; objects and lists are nested tags (MiniMax M3). */
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
};
