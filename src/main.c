/* main.c - finds the subcommand and runs it. Everything a command does is in its file under cli/,
 * bench/ or load/. */
#include "base/bus.h"
#include "cli/cli.h"
#include "option/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

/* A program that quoth pack made stands for `quoth run`, but for the words that are commands. */
static bool is_run_alias(int argc, char **argv)
{
    if (argc > 1 && (is_help(argv[1]) || strcmp(argv[1], "--version") == 0)) return false;
    for (const struct command *const *c = command_list(); argc > 1 && *c; c++)
        if (strcmp((*c)->name, argv[1]) == 0) return false;
    return program_is_app();
}

int main(int argc, char **argv)
{
    bus_catch();
    static char **words; /* lives as long as the program */
    words = is_run_alias(argc, argv) ? calloc((size_t)argc + 2, sizeof *words) : NULL;
    if (words) {
        words[0] = argv[0];
        words[1] = (char *)"run";
        if (argc > 1) memcpy(words + 2, argv + 1, (size_t)(argc - 1) * sizeof *words);
        argc++;
        argv = words;
    }
    if (argc < 2 || is_help(argv[1])) return help_all(command_list()), argc < 2 ? 2 : 0;
    if (strcmp(argv[1], "--version") == 0) return printf("quoth %s\n", QUOTH_VERSION), 0;
    int n_word;
    const struct command *c = command_find(command_list(), argc - 1, argv + 1, &n_word);
    if (!c) return 2;
    int n_arg = argc - 1 - n_word;
    char **arg = argv + 1 + n_word;
    if (c->sub) return help_command(c), n_arg > 0 && is_help(arg[0]) ? 0 : 2;
    struct err e = {0};
    int rc = options_parse(c, &n_arg, arg, &e);
    if (rc > 0) return 0;
    if (rc < 0) return fprintf(stderr, "quoth %s: %s\n", c->name, e.text), 2;
    if (c->prepare) c->prepare();
    options_notes();
    return c->run(n_arg, arg);
}
