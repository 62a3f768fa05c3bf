/* reason_gemma4.c - reasoning in the channel "thought" (Gemma 4). Models also write marks without a
 * partner and further blocks. */
#include "chat/parser_impl.h"

const struct reason_family reason_gemma4 = {
    .name = "gemma4",
    .open = {"<|channel>thought"},
    .close = {"<channel|>"},
    .drop = {"<|channel>", "<channel|>"},
    .again = true,
};
