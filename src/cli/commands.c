/* commands.c - the table of commands, and how a command fails. */
#include "cli.h"

#include <stdio.h>

const struct command *const *command_list(void)
{
    static const struct command *const list[] = {
#define COMMAND(id) &command_##id,
#include "commands.def"
#undef COMMAND
        NULL,
    };
    return list;
}

int fail(const char *command, const struct err *e)
{
    fprintf(stderr, "quoth %s: %s\n", command, e->text);
    return 1;
}
