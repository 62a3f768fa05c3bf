/* reason_seed_oss.c - reasoning as <seed:think>...</seed:think> (Seed-OSS). */
#include "chat/parser_impl.h"

const struct reason_family reason_seed_oss = {
    .name = "seed_oss",
    .open = {"<seed:think>"},
    .close = {"</seed:think>"},
};
