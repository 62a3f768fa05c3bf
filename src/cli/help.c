/* help.c - quoth help: the list of commands, the help of a command, or the man page. */
#include "cli.h"

static bool man;
static const struct option options[] = {
    FLAG_OPTION("man", &man, "print the manual page (troff)"),
    OPTIONS_END,
};

/* Run the command. All help is generated from the tables of options, so it cannot differ from the
 * parser. An unknown command has exit status 2, like wrong usage. */
static int run(int n_arg, char **arg)
{
    if (man) return help_man(commands_all()), 0;
    int n_word;
    const struct command *c = n_arg > 0 ? command_find(commands_all(), n_arg, arg, &n_word) : NULL;
    if (c)
        help_command(c);
    else if (n_arg == 0)
        help_all(commands_all());
    return c || n_arg == 0 ? 0 : 2;
}

const struct command command_help = {
    .name = "help",
    .summary = "list of the commands, or help for a command",
    .usage = "[COMMAND]",
    .options = options,
    .arg_max = 2,
    .run = run,
};
