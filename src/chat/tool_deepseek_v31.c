/* tool_deepseek_v31.c - calls as NAME, a mark and JSON (DeepSeek V3.1).
 *
 *   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Rome"}
 *   <｜tool▁call▁end｜><｜tool▁calls▁end｜>                              (written without line breaks)
 *
 * DeepSeek V3 has the same marks, but a code block. `lacks` distinguishes the templates. */
#include "chat/parser_impl.h"

const struct tool_family tool_deepseek_v31 = {
    .name = "deepseek_v31",
    .has = {"<｜tool▁call▁begin｜>"},
    .lacks = "```json",
    .section_begin = "<｜tool▁calls▁begin｜>",
    .section_end = {"<｜tool▁calls▁end｜>"},
    .begin = {"<｜tool▁call▁begin｜>"},
    .body = {{CALL_NAMED, .name_end = "<｜tool▁sep｜>"}},
    .end = {"<｜tool▁call▁end｜>"},
    .text = {{.begin = "<｜tool▁calls▁begin｜>",
              .open = "<｜tool▁call▁begin｜>",
              .middle = "<｜tool▁sep｜>",
              .close = "<｜tool▁call▁end｜>",
              .end = "<｜tool▁calls▁end｜>"}},
};
