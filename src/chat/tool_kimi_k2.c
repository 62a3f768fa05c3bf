/* tool_kimi_k2.c - calls as an id functions.NAME:N, a mark and JSON (Kimi K2).
 *
 *   <|tool_calls_section_begin|>
 *   <|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Rome"}
 *   <|tool_call_end|><|tool_calls_section_end|>                       (written without line breaks)
 *
 * The call's id is functions.get_weather:0, with the number that the model wrote. */
#include "chat/parser_impl.h"

const struct tool_family tool_kimi_k2 = {
    .name = "kimi_k2",
    .has = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"},
    .section_begin = "<|tool_calls_section_begin|>",
    .section_end = {"<|tool_calls_section_end|>"},
    .begin = {"<|tool_call_begin|>functions.", "<|tool_call_begin|>"},
    .body = {{CALL_NAMED, .index_mark = ":", .id_prefix = "functions.",
              .name_end = "<|tool_call_argument_begin|>"}},
    .end = {"<|tool_call_end|>"},
    .text = {{.begin = "<|tool_calls_section_begin|>",
              .open = "<|tool_call_begin|>functions.",
              .middle = ":%d<|tool_call_argument_begin|>",
              .close = "<|tool_call_end|>",
              .end = "<|tool_calls_section_end|>"}},
};
