/* tool_mistral.c - calls after [TOOL_CALLS]. Mistral Nemo and 7B v0.3 write a list of objects with
 * ids. Small 3.2, Devstral and Ministral write NAME, an optional id and [ARGS]{...}, each call
 * after its own mark.
 *
 *   [TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Rome"}, "id": "aB3dE6gH9"}]
 *   [TOOL_CALLS]get_weather[CALL_ID]aB3dE6gH9[ARGS]{"city": "Rome"}
 *   [TOOL_CALLS]get_weather[ARGS]{"city": "Rome"}
 *
 * An id has nine letters or digits. Templates reject other ids. */
#include "chat/parser_impl.h"

const struct tool_family tool_mistral = {
    .name = "mistral",
    .has = {"[TOOL_CALLS]"},
    .begin = {"[TOOL_CALLS]"},
    .body = {{CALL_LIST, .name_key = "name", .arguments_key = {"arguments"}, .id_key = "id"},
             {CALL_NAMED, .id_mark = "[CALL_ID]", .name_end = "[ARGS]"}},
    .text = {{.has = "[CALL_ID]", .open = "[TOOL_CALLS]", .middle = "[CALL_ID]%s[ARGS]"},
             {.has = "[ARGS]", .open = "[TOOL_CALLS]", .middle = "[ARGS]"},
             {.begin = "[TOOL_CALLS][",
              .open = "{\"name\": \"",
              .middle = "\", \"arguments\": ",
              .close = ", \"id\": \"%s\"}",
              .between = ", ",
              .end = "]",
              .quoted = true}},
};
