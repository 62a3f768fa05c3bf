/* tool_functionary_v3_2.c - recipients after >>>: "all" for content, or NAME and JSON in the next
 * line (Functionary 3.2). The prompt ends with the first >>>. */
#include "chat/parser_impl.h"

const struct tool_family tool_functionary_v3_2 = {
    .name = "functionary_v3_2",
    .has = {">>>all", ">>>${recipient}"},
    .begin = {">>>", ""},
    .body = {{CALL_NAMED, .name_end = "\n"}},
    .content_name = "all",
};
