/* main.c - finds the subcommand and runs it. Everything a command does is in its file under cli/ or
 * bench/. */
#include "cli/cli.h"
#include "option/option.h"

#include <stdio.h>
#include <string.h>

static bool asks_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2 || asks_help(argv[1])) return help_all(command_list()), argc < 2 ? 2 : 0;
    if (strcmp(argv[1], "--version") == 0) return printf("quoth %s\n", quoth_version()), 0;
    int n_word;
    const struct command *c = command_find(command_list(), argc - 1, argv + 1, &n_word);
    if (!c) return 2;
    int n_arg = argc - 1 - n_word;
    char **arg = argv + 1 + n_word;
    if (c->sub) return help_command(c), n_arg > 0 && asks_help(arg[0]) ? 0 : 2;
    struct err e = {0};
    int rc = options_parse(c, &n_arg, arg, &e);
    if (rc > 0) return 0;
    if (rc < 0) return fprintf(stderr, "quoth %s: %s\n", c->name, e.text), 2;
    return c->run(n_arg, arg);
}
