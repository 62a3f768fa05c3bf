/* reason_apriel.c - reasoning from the start of the message to [BEGIN FINAL RESPONSE] (Apriel 1.5
 * and 1.6). */
#include "chat/parser_impl.h"

const struct reason_family reason_apriel = {
    .name = "apriel",
    .has = {"[BEGIN FINAL RESPONSE]", "Here are my reasoning steps:"},
    .open = {"<|begin_assistant|>"},
    .close = {"[BEGIN FINAL RESPONSE]"},
    .drop = {"[END FINAL RESPONSE]"},
    .begun = true,
};
