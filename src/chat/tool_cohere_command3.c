/* tool_cohere_command3.c - a list of calls with ids in <|START_ACTION|> (Command A, R7B and later).
 * The answer is also between marks.
 *
 *   <|START_ACTION|>[
 *       {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Rome"}}
 *   ]<|END_ACTION|> */
#include "chat/parser_impl.h"

const struct tool_family tool_cohere_command3 = {
    .name = "cohere_command3",
    .alias = {"cohere_command4"},
    .has = {"<|START_ACTION|>"},
    .begin = {"<|START_ACTION|>"},
    .body = {{CALL_LIST, .name_key = "tool_name", .arguments_key = {"parameters"},
              .id_key = "tool_call_id"}},
    .end = {"<|END_ACTION|>"},
    .drop = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
    .text = {{.begin = "<|START_ACTION|>[\n    ",
              .open = "{\"tool_call_id\": \"%d\", \"tool_name\": \"",
              .middle = "\", \"parameters\": ",
              .close = "}",
              .between = ",\n    ",
              .end = "\n]<|END_ACTION|>",
              .quoted = true}},
};
