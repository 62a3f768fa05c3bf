/* reason_granite.c - reasoning and answer after sentences (Granite 3.2), or <think>...</think> and
 * <response> (3.3). */
#include "chat/parser_impl.h"

const struct reason_family reason_granite = {
    .name = "granite",
    .has = {"Here is my thought process:"},
    .open = {"Here is my thought process:", "Here's my thought process:", "<think>"},
    .close = {"Here is my response:", "Here's my response:", "</think>"},
    .drop = {"<response>", "</response>"},
};
