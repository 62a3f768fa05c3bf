/* reason_ernie45.c - reasoning as <think>...</think>, answer as <response>...</response> (Ernie
 * 4.5). */
#include "chat/parser_impl.h"

const struct reason_family reason_ernie45 = {
    .name = "ernie45",
    .has = {"<think>", "<response>"},
    .open = {"<think>"},
    .close = {"</think>"},
    .drop = {"<response>", "</response>"},
};
