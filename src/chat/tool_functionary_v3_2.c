/* tool_functionary_v3_2.c - recipients after >>>: "all" for content, or NAME and JSON in the next
 * line (Functionary 3.2). The prompt ends with the first >>>.
 *
 *   >>>all
 *   I will look it up.>>>get_weather
 *   {"city": "Rome"} */
#include "chat/parser_impl.h"

const struct tool_family tool_functionary_v3_2 = {
    .name = "functionary_v3_2",
    .has = {">>>all", ">>>${recipient}"},
    .begin = {">>>", ""},
    .body = {{CALL_NAMED, .name_end = "\n"}},
    .content_name = "all",
    .text = {{.open = "", .middle = "\n", .between = ">>>"}},
};
