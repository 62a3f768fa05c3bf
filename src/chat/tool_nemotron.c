/* tool_nemotron.c - a list of calls in <TOOLCALL> (Nemotron Nano 2).
 *
 *   <TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Rome"}}]</TOOLCALL> */
#include "chat/parser_impl.h"

const struct tool_family tool_nemotron = {
    .name = "nemotron",
    .alias = {"nemotron_json"},
    .has = {"<TOOLCALL>"},
    .begin = {"<TOOLCALL>"},
    .body = {{CALL_LIST, .name_key = "name", .arguments_key = {"arguments", "parameters"}}},
    .end = {"</TOOLCALL>"},
    .text = {CALL_TEXT_LIST("<TOOLCALL>", "</TOOLCALL>")},
};
