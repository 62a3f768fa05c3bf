/* main.c - finds the subcommand and runs it. Everything a command does is in its file under cli/. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static int unknown_command(const char *name)
{
    const char *names[64];
    size_t n = 0;
    for (const struct command *const *c = command_list(); *c && n < 64; c++) names[n++] = (*c)->name;
    const char *near = nearest_name(name, names, n);
    if (near)
        fprintf(stderr, "quoth: unknown command \"%s\"; did you mean \"%s\"?\n", name, near);
    else
        fprintf(stderr, "quoth: unknown command \"%s\"; quoth help lists them\n", name);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return help_all(), argc < 2 ? 2 : 0;
    if (strcmp(argv[1], "--version") == 0) return printf("quoth %s\n", quoth_version), 0;
    for (const struct command *const *c = command_list(); *c; c++) {
        if (strcmp((*c)->name, argv[1]) != 0) continue;
        struct err e = {0};
        int n_arg = argc - 2, rc = options_parse(*c, &n_arg, argv + 2, &e);
        if (rc > 0) return 0;
        if (rc < 0) return fprintf(stderr, "quoth %s: %s\n", (*c)->name, e.text), 2;
        return (*c)->run(n_arg, argv + 2);
    }
    return unknown_command(argv[1]);
}
