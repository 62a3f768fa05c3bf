/* tool_step3.c - calls as <steptml:invoke name="NAME"> with a tag for each argument (Step 3).
 * Arguments are raw text.
 *
 *   <｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather">
 *   <steptml:parameter name="city">Rome</steptml:parameter></steptml:invoke><｜tool_call_end｜>
 *   <｜tool_calls_end｜> */
#include "chat/parser_impl.h"

const struct tool_family tool_step3 = {
    .name = "step3",
    .has = {"<steptml:invoke name="},
    .section_begin = "<｜tool_calls_begin｜>",
    .section_end = {"<｜tool_calls_end｜>"},
    .begin = {"<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\""},
    .body = {{CALL_MARKED, .name_end = "\">", .key_begin = "<steptml:parameter name=\"",
              .key_end = {"\">"}, .value_end = "</steptml:parameter>"}},
    .end = {"</steptml:invoke>", "<｜tool_call_end｜>"},
    .text = {{.begin = "<｜tool_calls_begin｜>\n",
              .open = "<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"",
              .middle = "\">",
              .close = "</steptml:invoke><｜tool_call_end｜>\n",
              .end = "<｜tool_calls_end｜>",
              .style = "step3_xml"}},
};
