/* commands.c - the table of commands; see commands.def. */
#include "cli.h"

const struct command *const *commands_all(void)
{
    static const struct command *const list[] = {
#define COMMAND(id) &command_##id,
#include "commands.def"
#undef COMMAND
        NULL,
    };
    return list;
}
