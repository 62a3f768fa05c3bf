/* reason_apertus.c - reasoning between <|inner_prefix|> and <|inner_suffix|> (Apertus). */
#include "chat/parser_impl.h"

const struct reason_family reason_apertus = {
    .name = "apertus",
    .open = {"<|inner_prefix|>"},
    .close = {"<|inner_suffix|>"},
};
