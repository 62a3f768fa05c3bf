/* tool_apertus.c - a list of {NAME: ARGUMENTS} between marks (Apertus).
 *
 *   <|tools_prefix|>[{"get_weather": {"city": "Rome"}}]<|tools_suffix|> */
#include "chat/parser_impl.h"

const struct tool_family tool_apertus = {
    .name = "apertus",
    .has = {"<|tools_prefix|>"},
    .begin = {"<|tools_prefix|>"},
    .body = {{CALL_KEYED}},
    .end = {"<|tools_suffix|>"},
    .text = {{.begin = "<|tools_prefix|>[",
              .open = "{\"",
              .middle = "\": ",
              .close = "}",
              .between = ", ",
              .end = "]<|tools_suffix|>",
              .quoted = true}},
};
