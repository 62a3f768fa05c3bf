/* tool_lfm2.c - a list of calls in the syntax of Python after <|tool_call_start|> (LFM 2, 2.5).
 *
 *   <|tool_call_start|>[get_weather(city="Rome", days=3), get_time(city="Rome")]<|tool_call_end|>
 *
 * The family has no `text`, so calls cannot be forced. */
#include "chat/parser_impl.h"

const struct tool_family tool_lfm2 = {
    .name = "lfm2",
    .has = {"List of tools: "},
    .section_begin = "<|tool_call_start|>[",
    .section_end = {"]", "<|tool_call_end|>"},
    .body = {{CALL_MARKED, .name_end = "(", .key_end = {"="}, .argument_separator = ", ",
              .value = VALUE_PYTHON}},
    .end = {")"},
    .separator = ", ",
    .text = {CALL_TEXT_PYTHON("<|tool_call_start|>[", ", ", "]<|tool_call_end|>")},
};
