/* reason_granite.c - reasoning and answer after fixed sentences (Granite 3.2), or as
 * <think>...</think> and <response>...</response> (3.3).
 *
 *   Here is my thought process: The user wants ... Here is my response: It is ...
 *   <think>The user wants ...</think><response>It is ...</response> */
#include "chat/parser_impl.h"

const struct reason_family reason_granite = {
    .name = "granite",
    .has = {"Here is my thought process:"},
    .open = {"Here is my thought process:", "Here's my thought process:", "<think>"},
    .close = {"Here is my response:", "Here's my response:", "</think>"},
    .drop = {"<response>", "</response>"},
};
