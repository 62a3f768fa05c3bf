/* tool_mistral.c - calls after [TOOL_CALLS]: a list of objects with ids (Mistral Nemo, 7B v0.3), or
 * a name, an optional id and [ARGS]{...} (Small 3.2, Devstral, Ministral), each call after its own
 * mark. */
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
