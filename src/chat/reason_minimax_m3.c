/* reason_minimax_m3.c - reasoning as <mm:think>...</mm:think> (MiniMax M3). */
#include "chat/parser_impl.h"

const struct reason_family reason_minimax_m3 = {
    .name = "minimax_m3",
    .open = {"<mm:think>"},
    .close = {"</mm:think>"},
};
