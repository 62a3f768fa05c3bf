/* reason_apriel.c - reasoning up to [BEGIN FINAL RESPONSE], from the beginning (Apriel 1.5 and
 * 1.6). */
#include "chat/parser_impl.h"

const struct reason_family reason_apriel = {
    .name = "apriel",
    .has = {"[BEGIN FINAL RESPONSE]", "Here are my reasoning steps:"},
    .open = {"<|begin_assistant|>"},
    .close = {"[BEGIN FINAL RESPONSE]"},
    .drop = {"[END FINAL RESPONSE]"},
    .begun = true,
};
