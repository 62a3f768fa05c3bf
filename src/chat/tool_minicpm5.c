/* tool_minicpm5.c - calls as <function name="NAME"> with <param name="KEY"> for each argument, as
 * raw text or CDATA (MiniCPM 5). */
#include "chat/parser_impl.h"

const struct tool_family tool_minicpm5 = {
    .name = "minicpm5",
    .has = {"<function name=\"", "<param name=\""},
    .begin = {"<function name=\""},
    .body = {{CALL_MARKED, .name_end = "\">", .key_begin = "<param name=\"", .key_end = {"\">"},
              .value_end = "</param>", .verbatim = {"<![CDATA[", "]]>"}}},
    .end = {"</function>"},
    .separator = "\n",
};
