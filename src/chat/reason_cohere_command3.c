/* reason_cohere_command3.c - reasoning between <|START_THINKING|> and <|END_THINKING|> (Command A,
 * R7B and later). The answer is also between marks. */
#include "chat/parser_impl.h"

const struct reason_family reason_cohere_command3 = {
    .name = "cohere_command3",
    .alias = {"cohere_command4"},
    .has = {"START_THINKING"},
    .open = {"<|START_THINKING|>"},
    .close = {"<|END_THINKING|>"},
    .drop = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
};
