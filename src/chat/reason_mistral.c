/* reason_mistral.c - reasoning as [THINK]...[/THINK] (Magistral, Ministral 3). */
#include "chat/parser_impl.h"

const struct reason_family reason_mistral = {
    .name = "mistral",
    .open = {"[THINK]"},
    .close = {"[/THINK]"},
};
