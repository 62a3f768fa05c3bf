/* tool_deepseek_v3.c - calls as the word "function", a mark, NAME and JSON in a code block
 * (DeepSeek V3 and R1).
 *
 *   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather
 *   ```json
 *   {"city": "Rome"}
 *   ```<｜tool▁call▁end｜><｜tool▁calls▁end｜> */
#include "chat/parser_impl.h"

const struct tool_family tool_deepseek_v3 = {
    .name = "deepseek_v3",
    .has = {"<｜tool▁call▁begin｜>", "```json"},
    .section_begin = "<｜tool▁calls▁begin｜>",
    .section_end = {"<｜tool▁calls▁end｜>"},
    .begin = {"<｜tool▁call▁begin｜>function<｜tool▁sep｜>"},
    .body = {{CALL_NAMED, .name_end = "\n```json\n"}},
    .end = {"```", "<｜tool▁call▁end｜>"},
    .separator = "\n",
    .text = {{.begin = "<｜tool▁calls▁begin｜>",
              .open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
              .middle = "\n```json\n",
              .close = "\n```<｜tool▁call▁end｜>",
              .between = "\n",
              .end = "<｜tool▁calls▁end｜>"}},
};
