/* tool_functionary.c - calls as <function=NAME>JSON</function> (Functionary 3.1).
 *
 *   <function=get_weather>{"city": "Rome"}</function> */
#include "chat/parser_impl.h"

const struct tool_family tool_functionary = {
    .name = "functionary",
    .has = {"<function=", "</function>"},
    .lacks = "<parameter=",
    .begin = {"<function="},
    .body = {{CALL_NAMED, .name_end = ">"}},
    .end = {"</function>"},
    .text = {{.open = "<function=", .middle = ">", .close = "</function>"}},
};
